// What a learning plugin did, as lines of one file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

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
        stp_error err{};
        stp_comm_info info{};
        info.comm_id = 0xabc;
        info.shape.n_ranks = 4;
        info.shape.n_nodes = 1;
        ASSERT_EQ(STP_OK,
                  stp_journal_open(path_.c_str(), &info, &journal_, &err))
            << err.text;
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
        std::vector<std::string> lines;
        std::ifstream file(path_);
        for (std::string line; std::getline(file, line);)
            lines.push_back(line);
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
    Write(ncclFuncAllReduce, {-1, 0, 0});
    Write(-1, {-1, 0, 0});
    EXPECT_EQ(1u, Lines().size());
    stp_journal_close(journal_);

    EXPECT_THAT(
        Lines(),
        testing::ElementsAre(
            "1.500,0000000000000abc,1,4,trial,70,allreduce,8,15,ring,ll,4,12,"
            ",,,calls",
            "1.500,0000000000000abc,1,4,trial,70,allreduce,8,15,auto,auto,,12,"
            ",,,calls",
            "1.500,0000000000000abc,1,4,trial,70,,,,,,,12,,,,calls"));
}

TEST_F(Journal, OfAForkedChildLeavesTheLinesToItsParent)
{
    Write(ncclFuncAllReduce, {NCCL_ALGO_RING, NCCL_PROTO_LL, 4});
    const pid_t child = fork();
    if (child == 0) {
        stp_journal_close(journal_);
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    EXPECT_TRUE(Lines().empty());
    stp_journal_close(journal_);
    EXPECT_EQ(1u, Lines().size());
}

} // namespace
