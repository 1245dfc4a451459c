// Tuners of others below the static plugin, called as NCCL calls them: by mock
// NCCL's shims, with one of them alone beside it.  $STP_CALLS is the number of
// random calls (default 20,000).
#include <dlfcn.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "support/temporary_folder.h"

#include "support/mock_test.h"

extern "C" {
#include "plugins/tuner.h"
}

namespace
{

constexpr int kEntries = NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS;
std::vector<std::string> warnings;

void Log(void *, ncclDebugLogLevel level, unsigned long, const char *line)
{
    if (level == NCCL_LOG_WARN)
        warnings.push_back(line);
}

mock_tuner Load(const std::string &path, int version)
{
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const std::string symbol = "ncclTunerPlugin_v" + std::to_string(version);
    mock_tuner tuner{};

    EXPECT_NE(nullptr, library) << dlerror();
    tuner.version = version;
    tuner.symbol = dlsym(library, symbol.c_str());
    EXPECT_NE(nullptr, tuner.symbol) << path << symbol;
    return tuner;
}

std::string Below(int version)
{
    return std::string(STP_TEST_PLUGINS) + "/libnccl-tuner-below_v" +
           std::to_string(version) + ".so";
}

struct Answer {
    ncclResult_t rc;
    float before;
    float table[kEntries];
    float behind;
    int n_channels;
    int algo, proto; // of version 2
    size_t chunk;
    ncclResult_t chunk_rc;

    bool operator==(const Answer &o) const
    {
        return rc == o.rc && before == o.before && behind == o.behind &&
               memcmp(table, o.table, sizeof(table)) == 0 &&
               n_channels == o.n_channels && algo == o.algo &&
               proto == o.proto && chunk == o.chunk && chunk_rc == o.chunk_rc;
    }
};

struct Call {
    mock_ask_args args;
    float table[kEntries];
};

// A tuner in one communicator, called through NCCL's interface 'nccl'.
class Tuner
{
  public:
    Tuner(const std::string &path, int version, int nccl, size_t n_ranks = 8)
        : tuner_(Load(path, version)), nccl_(nccl)
    {
        mock_init_args args{};
        memset(&constants_, 0, sizeof(constants_));
        args.n_ranks = n_ranks;
        args.n_nodes = 1;
        args.constants = &constants_;
        rc_ = mock_tuner_init(&tuner_, &args, &context_);
    }
    ~Tuner()
    {
        if (rc_ == ncclSuccess)
            mock_tuner_finalize(&tuner_, context_);
    }

    Answer Ask(const Call &call)
    {
        Answer a{};
        mock_ask_args args = call.args;

        memcpy(a.table, call.table, sizeof(a.table));
        a.before = a.behind = 1;
        args.table = a.table;
        a.algo = a.proto = -1;
        if (nccl_ == 2)
            a.rc = mock_tuner_ask_pair(&tuner_, context_, &args, &a.algo,
                                       &a.proto, &a.n_channels);
        else
            a.rc = mock_tuner_ask(&tuner_, context_, &args, &a.n_channels);
        a.chunk = 4096;
        if (nccl_ >= 6 && a.rc == ncclSuccess && mock_tuner_has_chunks(&tuner_))
            a.chunk_rc = mock_tuner_chunk(&tuner_, context_, args.coll,
                                          args.n_bytes / 8, 1, 2, 4, &a.chunk);
        return a;
    }

    ncclResult_t rc() const
    {
        return rc_;
    }
    const ncclTunerConstants_v7_t &constants() const
    {
        return constants_;
    }

  private:
    mock_tuner tuner_;
    int nccl_;
    void *context_ = nullptr;
    ncclTunerConstants_v7_t constants_;
    ncclResult_t rc_;
};

class Chain : public testing::Test
{
  protected:
    Chain()
    {
        for (const char *name : {"BELOW", "BELOW_RANK", "NCCL_NET_PLUGIN",
                                 "STEPTUNE_LEDGER", "STEPTUNE_AGREE"})
            unsetenv(name);
        setenv("BELOW_CONSTANTS", "1", 1);
        mock_set_log(Log, nullptr);
        mock_set_log_level(NCCL_LOG_WARN);
        warnings.clear();
        // one rule that applies to no communicator here
        Policy("allreduce,0,inf,tree,ll,4,3,24\n");
    }

    void Policy(const std::string &text)
    {
        std::ofstream(folder_.Path("p.conf")) << text;
        setenv("NCCL_TUNER_CONFIG_FILE", folder_.Path("p.conf").c_str(), 1);
    }

    Tuner Ours(const std::string &below, int nccl)
    {
        setenv("STEPTUNE_CHAIN", below.c_str(), 1);
        return Tuner(STP_PLUGIN, nccl, nccl);
    }

    static uint64_t Calls()
    {
        const char *calls = getenv("STP_CALLS");
        return calls != nullptr ? strtoull(calls, nullptr, 10) : 20000;
    }

    Call Random()
    {
        Call call{};
        const uint64_t bits = random_();

        call.args.coll = static_cast<ncclFunc_t>(bits % 5);
        call.args.n_bytes = size_t{1} << (bits >> 3) % 34;
        call.args.n_bytes += (bits >> 10) % call.args.n_bytes;
        call.args.n_pipe_ops = static_cast<int>(1 + (bits >> 40) % 4);
        call.args.reg_buff = static_cast<int>(bits >> 44 & 1);
        call.args.n_algos = NCCL_NUM_ALGORITHMS;
        call.args.collnet = (bits >> 45 & 1) != 0;
        call.args.nvls = (bits >> 46 & 1) != 0;
        for (float &time : call.table)
            time = random_() % 4 == 0
                       ? NCCL_ALGO_PROTO_IGNORE
                       : static_cast<float>(random_() % 100000) / 8 + 0.5f;
        return call;
    }

    TemporaryFolder folder_;
    std::mt19937_64 random_{1};
};

// Every pair of the version of NCCL's interface and one that it knows.
template <typename Body> void ForEachPair(const Body &body)
{
    for (int nccl = 2; nccl <= 7; nccl++)
        for (int below = 2; below <= nccl; below++) {
            SCOPED_TRACE("NCCL's version " + std::to_string(nccl) + ", below " +
                         std::to_string(below));
            body(nccl, below);
        }
}

TEST_F(Chain, ShowsNcclTheAnswersOfTheTunerBelowWhereNoRuleApplies)
{
    for (const char *word : {"", "quiet", "fails", "minus", "per_thread"}) {
        setenv("BELOW", word, 1);
        ForEachPair([&](int nccl, int below) {
            Tuner alone(Below(below), below, nccl);
            Tuner ours = Ours(Below(below), nccl);
            std::vector<Call> calls;
            std::vector<Answer> expected;

            EXPECT_EQ(0, memcmp(&alone.constants(), &ours.constants(),
                                sizeof(ncclTunerConstants_v7_t)));
            for (uint64_t i = 0; i < Calls() / 100; i++)
                calls.push_back(Random());
            // one after the other, for the tuner that counts by thread
            {
                Tuner fresh(Below(below), below, nccl);
            }
            for (const Call &call : calls)
                expected.push_back(alone.Ask(call));
            {
                Tuner fresh(Below(below), below, nccl);
            }
            for (size_t i = 0; i < calls.size(); i++)
                ASSERT_TRUE(expected[i] == ours.Ask(calls[i])) << i;
        });
    }
}

bool IsSmallest(const float *table, int at)
{
    for (int i = 0; i < kEntries; i++)
        // NCCL from 2.31 on also takes what is negative, unless it was its own
        if (i != at && table[i] != NCCL_ALGO_PROTO_IGNORE &&
            !(table[i] > table[at] || (table[i] == table[at] && i > at)))
            return false;
    return true;
}

TEST_F(Chain, DecidesOnTheTableOfTheTunerBelowWhereARuleApplies)
{
    Policy("allreduce,0,inf,tree,ll,4,-1,-1\n"
           "allgather,0,1M,ring,ll128,-1,-1,-1\n"
           "reducescatter,4K,inf,ring,simple,0,-1,-1\n");
    for (const char *word : {"", "minus"}) {
        setenv("BELOW", word, 1);
        ForEachPair([&](int nccl, int below) {
            if (nccl == 2)
                return; // has no table
            Tuner alone(Below(below), below, nccl);
            Tuner ours = Ours(Below(below), nccl);
            Tuner unchained = Ours("none", nccl);
            int n_decided = 0;

            for (uint64_t i = 0; i < Calls() / 100; i++) {
                const Call call = Random();
                const Answer expected = alone.Ask(call);
                const Answer got = ours.Ask(call);
                Call after = call;

                memcpy(after.table, expected.table, sizeof(after.table));
                const Answer decided = unchained.Ask(after);
                Call above = after; // a decision always shows in its table
                for (float &time : above.table)
                    time = time == 0 ? 0.25f : time;
                if (memcmp(unchained.Ask(above).table, above.table,
                           sizeof(above.table)) == 0) {
                    ASSERT_TRUE(expected == got) << i;
                    continue;
                }
                n_decided++;
                ASSERT_EQ(decided.n_channels, got.n_channels);
                for (int e = 0; e < kEntries; e++)
                    // what the tuner below ruled out does not win
                    ASSERT_TRUE(memcmp(&decided.table[e], &got.table[e], 4) ==
                                    0 ||
                                (decided.table[e] < 0 && got.table[e] > 1e9f));
                int at = 0;
                for (int e = 1; e < kEntries; e++)
                    if (got.table[e] >= 0 &&
                        (got.table[at] < 0 || got.table[e] < got.table[at]))
                        at = e;
                ASSERT_TRUE(IsSmallest(got.table, at)) << i;
            }
            EXPECT_GT(n_decided, 0);
        });
    }
    EXPECT_EQ(std::vector<std::string>{}, warnings);
}

TEST_F(Chain, ReplacesAnswersThatNcclCannotUseAndNoOthers)
{
    for (const char *word : {"nan", "revives", "channels"}) {
        setenv("BELOW", word, 1);
        ForEachPair([&](int nccl, int below) {
            if (below == 2 && strcmp(word, "channels") != 0)
                return;
            warnings.clear();
            Tuner alone(Below(below), below, nccl);
            Tuner ours = Ours(Below(below), nccl);
            size_t n_replaced = 0;

            for (uint64_t i = 0; i < Calls() / 100; i++) {
                const Call call = Random();
                Answer expected = alone.Ask(call);
                const Answer got = ours.Ask(call);
                bool is_broken =
                    expected.n_channels < 0 || expected.n_channels > 127;

                for (int e = 0; e < kEntries; e++)
                    is_broken |= std::isnan(expected.table[e]) ||
                                 (call.table[e] < 0 && expected.table[e] >= 0);
                n_replaced += is_broken;
                ASSERT_EQ(ncclSuccess, got.rc);
                if (expected.chunk == 0) {
                    ASSERT_EQ(4096u, got.chunk);
                    expected.chunk = got.chunk;
                }
                if (!is_broken) {
                    ASSERT_TRUE(expected == got) << i;
                    continue;
                }
                ASSERT_EQ(0, memcmp(call.table, got.table, sizeof(got.table)));
                ASSERT_EQ(0, got.n_channels);
                ASSERT_EQ(-1, got.algo);
            }
            EXPECT_GT(n_replaced, 0u);
            ASSERT_EQ(1u, warnings.size());
            EXPECT_NE(std::string::npos, warnings[0].find("NCCL cannot use"))
                << warnings[0];
        });
    }
}

TEST_F(Chain, KeepsNcclsMemoryBesideTheTable)
{
    setenv("BELOW", "beside", 1);
    const Call call = Random();
    Tuner alone(Below(5), 5, 5);
    Tuner ours = Ours(Below(5), 5);
    const Answer expected = alone.Ask(call);
    const Answer got = ours.Ask(call);

    EXPECT_EQ(0, expected.before + expected.behind);
    EXPECT_EQ(2, got.before + got.behind);
    EXPECT_EQ(0, memcmp(expected.table, got.table, sizeof(got.table)));
}

// The rules apply as in any other policy.
TEST_F(Chain, TellsOnceThatRulesWereDerivedAgainstAnotherTuner)
{
    const std::string rule = "allreduce,0,inf,tree,ll,4,-1,-1\n";
    const std::string alone =
        "# A rule stands where its gain over NCCL's own choice is at least 2 "
        "percent.\n";
    const Call call = Random();

    setenv("BELOW", "", 1);
    Policy(rule);
    const Answer expected = Ours(Below(5), 5).Ask(call);
    EXPECT_EQ(0u, warnings.size());
    Policy(alone + rule);
    Ours("none", 5);
    EXPECT_EQ(0u, warnings.size());
    EXPECT_TRUE(expected == Ours(Below(5), 5).Ask(call));
    ASSERT_EQ(1u, warnings.size());
    EXPECT_NE(std::string::npos,
              warnings[0].find("its rules stand by gains over NCCL's own "
                               "choice, and what they gain over AUTO with "
                               "below's tuner, which"))
        << warnings[0];
    EXPECT_TRUE(expected == Ours(Below(5), 5).Ask(call));
    EXPECT_EQ(1u, warnings.size());
}

TEST_F(Chain, TellsAnErrorOnceAndPassesItOn)
{
    setenv("BELOW", "fails", 1);
    Tuner ours = Ours(Below(5), 5);
    int n_errors = 0;

    for (int i = 0; i < 1000; i++)
        n_errors += ours.Ask(Random()).rc == ncclInternalError;
    EXPECT_GT(n_errors, 1);
    ASSERT_EQ(1u, warnings.size());
    EXPECT_NE(std::string::npos, warnings[0].find("returns error 3"));
}

// Functions that its init sets; a tuner that asks ours asks itself through it.
TEST_F(Chain, AsksATunerThatIsOnlyWholeAfterItsInitAndNotItself)
{
    const std::string late =
        std::string(STP_TEST_PLUGINS) + "/libnccl-tuner-late.so";
    const Call call = Random();

    for (const char *asked : {"", STP_PLUGIN}) {
        setenv("LATE_ASKS", asked, 1);
        Tuner ours = Ours(late, 5);

        ASSERT_EQ(ncclSuccess, ours.rc());
        EXPECT_EQ(3, ours.Ask(call).n_channels);
    }
    unsetenv("LATE_ASKS");
    ASSERT_EQ(1u, warnings.size());
    EXPECT_NE(std::string::npos,
              warnings[0].find("the tuner below asks this one"));
}

// Ranks that cannot be compared cannot leave it out together.
TEST_F(Chain, PassesOnAnErrorOfInitWhereRanksAreNotCompared)
{
    setenv("BELOW", "fails_in_init", 1);
    EXPECT_EQ(ncclInternalError, Ours(Below(4), 4).rc());
    EXPECT_EQ(ncclSuccess, Tuner(STP_PLUGIN, 5, 5, 1).rc());
}

TEST_F(Chain, WarnsOfAChainThatIsNoTunerAndGoesOn)
{
    const Call call = Random();
    Tuner ours = Ours("/absent.so", 5);
    const Answer got = ours.Ask(call);

    EXPECT_EQ(ncclSuccess, got.rc);
    EXPECT_EQ(0, memcmp(call.table, got.table, sizeof(got.table)));
    ASSERT_EQ(1u, warnings.size());
    EXPECT_NE(std::string::npos, warnings[0].find("STEPTUNE_CHAIN is"));
}

} // namespace
