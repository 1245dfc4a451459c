// Mock NCCL against the real one, on 2 to all GPUs of this host: from the
// search graphs that NCCL itself writes, mock NCCL must compute every cost
// table, make every choice and use as many channels, with a tuner that decides
// nothing, with one that decides at random, and in random groups.
//
// Each number of GPUs makes a machine's folder (machine.csv, graphs.xml,
// choices.csv, forced.csv) and a trace (groups.csv), which STEPTUNE_KEEP=DIR
// keeps.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "gpu_ranks.h"
#include "recording.h"
#include "support/recorded_choices.h"
#include "support/temporary_folder.h"

namespace
{

using namespace recording;
namespace fs = std::filesystem;

constexpr const char *kAlgos[] = {
    "tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
    "nvls_tree", "pat"};
constexpr const char *kProtos[] = {"ll", "ll128", "simple"};
constexpr const char *kTypes[] = {"bf16", "f32", "i8"};

bool IsOverRanks(int coll)
{
    return coll == 2 || coll == 3;
}

// An operation that a tuner counts as about so many bytes.
Op MakeOp(int coll, const char *type, size_t n_bytes, int n_ranks)
{
    Op op{coll, 0, type};
    size_t share = n_bytes / (IsOverRanks(coll) ? n_ranks : 1);

    op.count = std::max(share / SizeOf(op), size_t{1});
    return op;
}

size_t TunerBytes(const Op &op, int n_ranks)
{
    return op.count * SizeOf(op) * (IsOverRanks(op.coll) ? n_ranks : 1);
}

// The same for every number of GPUs: sizes of all kinds, and groups of equals.
std::vector<Group> Equals(int n_ranks)
{
    std::vector<Group> groups;

    for (int coll = 0; coll < 5; coll++)
        for (const char *type : kTypes)
            for (size_t bytes = 64; bytes <= kMaxBytes; bytes *= 4)
                for (size_t odd : {size_t{0}, bytes / 2 + 2})
                    if (bytes + odd <= kMaxBytes)
                        groups.push_back(
                            {MakeOp(coll, type, bytes + odd, n_ranks)});
    for (int coll = 0; coll < 5; coll++)
        for (size_t n : {2, 3, 8, 30})
            for (size_t bytes = 4096; bytes <= size_t{4} << 20; bytes *= 32)
                groups.emplace_back(
                    n, MakeOp(coll, "bf16", bytes / n_ranks, n_ranks));
    return groups;
}

// Groups of up to 12 of any kind, type and size, no two alike in NCCL's log.
std::vector<Group> Mixed(int n_ranks, size_t n_groups)
{
    std::mt19937_64 random(1);
    std::vector<Group> groups(n_groups);

    for (Group &group : groups) {
        std::set<std::pair<int, size_t>> seen;
        const size_t n = 2 + random() % 11;
        while (group.size() < n) {
            const size_t bytes = (size_t{64} << random() % 17) +
                                 random() % (size_t{1} << random() % 20);
            Op op = MakeOp(static_cast<int>(random() % 5), kTypes[random() % 3],
                           bytes, n_ranks);
            if (seen.insert({op.coll, op.count * SizeOf(op)}).second)
                group.push_back(op);
        }
    }
    return groups;
}

// ---- choices.csv and forced.csv ----

void WriteHeader(std::ostream &out, int n_ranks)
{
    out << "# Written by gpu_tests/mock_gpu_test.cc on " << n_ranks
        << " GPUs: a row for each question that NCCL put to a tuner.\n"
           "collective,bytes,group_ops,type,nNodes,nRanks,numPipeOps,regBuff";
    for (const char *algo : kAlgos)
        for (const char *proto : kProtos)
            out << ",cost_" << algo << "_" << proto;
    out << ",forced,asked,algo,proto,channels\n";
}

// Joins what was asked with what ran; each group is one question.
void WriteChoices(const fs::path &file, int n_ranks,
                  const std::vector<Group> &groups, const Recorded &recorded)
{
    std::ofstream out(file);
    size_t at = 0;

    ASSERT_EQ(groups.size(), recorded.questions.size());
    WriteHeader(out, n_ranks);
    for (size_t i = 0; i < groups.size(); i++) {
        const Question &q = recorded.questions[i];
        const size_t n = groups[i].size();
        std::string channels;
        ASSERT_LE(at + n, recorded.runs.size());
        for (size_t k = 0; k < n; k++)
            channels += (k ? "+" : "") +
                        std::to_string(recorded.runs[at + k].n_channels);
        out << kColls[q.coll] << "," << q.n_bytes << "," << n << ","
            << groups[i][0].type << "," << q.shape_and_costs << "," << q.forced
            << "," << q.asked << "," << recorded.runs[at].algo << ","
            << recorded.runs[at].proto << "," << channels << "\n";
        at += n;
    }
    EXPECT_EQ(at, recorded.runs.size());
}

// ---- groups.csv ----

// A trace for `steptune replay`: the policy is empty, and each row expects what
// the real NCCL ran.
void WriteTrace(const fs::path &file, int n_ranks,
                const std::vector<Group> &groups, const Recorded &recorded)
{
    std::ofstream out(file);
    size_t at = 0;

    out << "# Written by gpu_tests/mock_gpu_test.cc on " << n_ranks
        << " GPUs: random groups, and what NCCL ran.\n"
           "collective,bytes,type,group,expect\n";
    for (size_t g = 0; g < groups.size(); g++) {
        std::map<std::pair<std::string, size_t>, Ran> ran;
        for (size_t k = 0; k < groups[g].size(); k++, at++) {
            ASSERT_LT(at, recorded.runs.size());
            const Ran &r = recorded.runs[at];
            ran[{r.coll, r.n_bytes}] = r;
        }
        for (const Op &op : groups[g]) {
            auto r = ran.find({kColls[op.coll], op.count * SizeOf(op)});
            ASSERT_NE(ran.end(), r) << kColls[op.coll] << " " << op.count;
            out << kColls[op.coll] << "," << TunerBytes(op, n_ranks) << ","
                << op.type << "," << g + 1 << "," << r->second.algo << "/"
                << r->second.proto << "/" << r->second.n_channels << "\n";
        }
    }
    EXPECT_EQ(at, recorded.runs.size());
}

class MockAgainstNccl : public testing::Test
{
  protected:
    void SetUp() override
    {
        const char *keep = getenv("STEPTUNE_KEEP");
        top_ = keep != nullptr ? keep : temporary_.path();
        n_ranks_ = CountRanks();
        if (n_ranks_ == 1)
            GTEST_SKIP() << "needs two GPUs: one rank asks no tuner";
        ASSERT_GT(n_ranks_, 0);
    }

    TemporaryFolder temporary_;
    fs::path top_;
    int n_ranks_ = 0;
};

TEST_F(MockAgainstNccl, ComputesItsTablesChoicesAndChannels)
{
    for (int n = 2; n <= n_ranks_; n++) {
        SCOPED_TRACE(std::to_string(n) + " ranks");
        const fs::path dir = top_ / ("gpus" + std::to_string(n));
        const std::vector<Group> groups = Equals(n);
        for (const char *file : {"choices.csv", "forced.csv"}) {
            bool force = std::string(file) == "forced.csv";
            Recorded recorded = Record(n, groups, force, dir);
            WriteMachine(dir, recorded);
            WriteChoices(dir / file, n, groups, recorded);
            EXPECT_EQ(static_cast<int>(groups.size()),
                      ExpectChoices(dir.string(), file));
        }
    }
}

TEST_F(MockAgainstNccl, DecidesAndSchedulesRandomGroupsAsItDoes)
{
    for (int n = 2; n <= n_ranks_; n++) {
        SCOPED_TRACE(std::to_string(n) + " ranks");
        const fs::path dir = top_ / ("groups" + std::to_string(n));
        const std::vector<Group> groups = Mixed(n, 100);
        Recorded recorded = Record(n, groups, false, dir);
        WriteMachine(dir, recorded);
        WriteTrace(dir / "groups.csv", n, groups, recorded);
        EXPECT_EQ(static_cast<int>(recorded.questions.size()),
                  ExpectGroups(dir.string(), "groups.csv"));
    }
}

} // namespace
