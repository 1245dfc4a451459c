// Tests of the journal of a learning plugin.
#include <gmock/gmock.h>

#include "faults/open_files.h"
#include "plugin/online/closed_stdin.h"
#include "support/child.h"
#include "support/temporary_folder.h"

extern "C" {
#include "plugin/online/journal.h"
}

#include "nccl_tuner_abi.h"

namespace
{

class Journal : public testing::Test
{
  protected:
    void SetUp() override
    {
        journal_ = Open(path_);
    }

    static stp_journal *Open(const std::string &path)
    {
        stp_journal *journal = nullptr;
        stp_error err{};
        stp_comm_info info{};
        info.comm_id = 0xabc;
        info.shape.n_ranks = 4;
        info.shape.n_nodes = 1;
        EXPECT_EQ(STP_OK, stp_journal_open(path.c_str(), &info, &journal, &err))
            << err.text;
        return journal;
    }

    static void Keep(stp_journal *journal)
    {
        stp_learn_event event{};
        stp_learned learned{};
        event.kind = STP_LEARN_ALONE;
        learned.coll = -1;
        stp_journal_write(journal, 1500, &event, &learned);
    }

    // A line, at once.
    static void WriteTo(stp_journal *journal)
    {
        Keep(journal);
        stp_journal_flush(journal);
        EXPECT_EQ(0, stp_journal_error(journal));
    }

    void Write(int coll, const stp_bandit_arm &arm)
    {
        stp_learn_event event{};
        stp_learned learned{};
        learned.coll = coll;
        learned.bytes = {8, 15};
        learned.arm = arm;
        event.kind = STP_LEARN_TRIAL;
        event.call = 70;
        event.value = 12;
        stp_journal_write(journal_, 1500, &event, &learned);
    }

    // Below the header.
    std::vector<std::string> Lines() const
    {
        std::vector<std::string> lines = SplitLines(ReadFile(path_));
        EXPECT_EQ(STP_JOURNAL_HEAD, lines.at(0) + "\n");
        lines.erase(lines.begin());
        return lines;
    }

    TemporaryFolder folder_;
    const std::string path_ = folder_.Path("journal.csv");
    stp_journal *journal_ = nullptr;
};

TEST_F(Journal, KeepsLinesUntilItIsFlushedOrClosed)
{
    Write(ncclFuncAllReduce, {NCCL_ALGO_RING, NCCL_PROTO_LL, 4});
    EXPECT_TRUE(Lines().empty());
    stp_journal_flush(journal_);
    EXPECT_EQ(1u, Lines().size());
    Write(ncclFuncBroadcast, {NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0});
    Write(ncclFuncAllReduce, {-1, 0, 0});
    Write(-1, {-1, 0, 0});
    EXPECT_EQ(1u, Lines().size());
    stp_journal_close(journal_);

    EXPECT_THAT(
        Lines(),
        testing::ElementsAre(
            "1.500,0000000000000abc,1,4,trial,70,allreduce,8,15,ring,ll,4,12,"
            ",,,calls",
            "1.500,0000000000000abc,1,4,trial,70,broadcast,8,15,tree,simple,0,"
            "12,,,,calls",
            "1.500,0000000000000abc,1,4,trial,70,allreduce,8,15,auto,auto,,12,"
            ",,,calls",
            "1.500,0000000000000abc,1,4,trial,70,,,,,,,12,,,,calls"));
}

TEST_F(Journal, OfAForkedChildLeavesTheLinesToItsParent)
{
    Write(ncclFuncAllReduce, {NCCL_ALGO_RING, NCCL_PROTO_LL, 4});
    EXPECT_EQ(0, StatusOfChild([&] { stp_journal_close(journal_); }));
    EXPECT_TRUE(Lines().empty());
    stp_journal_close(journal_);
    EXPECT_EQ(1u, Lines().size());
}

TEST_F(Journal, OfAForkedChildIsItsOwnWhereTheChildOpensIt)
{
    Write(ncclFuncAllReduce, {NCCL_ALGO_RING, NCCL_PROTO_LL, 4});
    EXPECT_EQ(0, StatusOfChild([&] {
                  stp_journal *own = Open(path_);
                  Write(ncclFuncAllReduce, {-1, 0, 0}); // the parent's
                  Keep(own);
                  stp_journal_close(own);
              }));
    EXPECT_THAT(Lines(), testing::ElementsAre(testing::HasSubstr(",alone,")));
    stp_journal_close(journal_);
    EXPECT_EQ(2u, Lines().size());
}

TEST_F(Journal, HasOneDescriptorWithTheOthersOfItsFile)
{
    const std::ptrdiff_t n = CountOpenFiles();
    stp_journal *second = Open(path_);
    stp_journal *other = Open(folder_.Path("other.csv"));
    stp_journal *third = Open(path_);
    EXPECT_EQ(n + 1, CountOpenFiles());

    stp_journal_close(journal_);
    WriteTo(second);
    stp_journal_close(second);
    WriteTo(third);
    EXPECT_EQ(n + 1, CountOpenFiles());
    stp_journal_close(third);
    EXPECT_EQ(n, CountOpenFiles());

    journal_ = Open(path_);
    WriteTo(journal_);
    WriteTo(other);
    EXPECT_EQ(n + 1, CountOpenFiles());
    stp_journal_close(journal_);
    stp_journal_close(other);
    EXPECT_EQ(n - 1, CountOpenFiles());
    EXPECT_EQ(3u, Lines().size());
}

TEST_F(Journal, IsWrittenWhereThereIsNoStandardInput)
{
    stp_journal_close(journal_);
    const ClosedStdin closed;
    journal_ = Open(path_);
    EXPECT_FALSE(closed.IsFree());
    WriteTo(journal_);
    stp_journal_close(journal_);

    EXPECT_TRUE(closed.IsFree());
    EXPECT_EQ(1u, Lines().size());
}

} // namespace
