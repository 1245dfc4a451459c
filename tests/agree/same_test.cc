// Whether ranks see that they hold the same thing: as threads, as processes,
// and where shared memory is not to be trusted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "agree/same.h"
}

namespace
{

using testing::HasSubstr;

class Same : public testing::Test
{
  protected:
    // As same.c names it.
    std::string Path(size_t n_ranks) const
    {
        char name[96];
        snprintf(name, sizeof(name), "/dev/shm/steptune-%u-%016llx-%zu",
                 static_cast<unsigned>(geteuid()),
                 static_cast<unsigned long long>(id_), n_ranks);
        return name;
    }

    bool Exists(size_t n_ranks) const
    {
        struct stat st;
        return lstat(Path(n_ranks).c_str(), &st) == 0;
    }

    stp_same *Join(size_t n_ranks, uint64_t value)
    {
        stp_same *same = nullptr;
        EXPECT_EQ(STP_OK, stp_same_join(id_, n_ranks, value, &same, &err_))
            << err_.text;
        return same;
    }

    const uint64_t id_ = std::random_device()() * uint64_t{0x100000001} + 1;
    stp_error err_{};
};

TEST_F(Same, IsSeenByAllRanks)
{
    for (uint64_t last : {7, 8}) {
        std::vector<stp_same *> ranks;
        for (uint64_t value : {uint64_t{7}, uint64_t{7}, last})
            ranks.push_back(Join(3, value));

        for (stp_same *rank : ranks)
            EXPECT_EQ(last == 7, stp_same_all(rank));

        for (stp_same *rank : ranks)
            stp_same_leave(rank);
    }
}

// Two shrinks of one parent have the same commId.
TEST_F(Same, IsAskedAnewByTheNextCommunicatorOfTheSameId)
{
    stp_same *older[] = {Join(2, 7), Join(2, 8)};
    stp_same *newer[] = {Join(2, 9), Join(2, 9)};

    EXPECT_FALSE(stp_same_all(older[0]));
    EXPECT_TRUE(stp_same_all(newer[0]));

    for (stp_same *same : {newer[0], older[0], older[1], newer[1]})
        stp_same_leave(same);
}

// The kernel allows a process 65,530 mappings.
TEST_F(Same, TakesMoreRanksThanThereAreMappings)
{
    constexpr size_t kRanks = 70000;
    std::vector<stp_same *> ranks;

    for (size_t r = 0; r < kRanks; r++)
        ranks.push_back(Join(kRanks, r == 50000 ? 8 : 7));

    EXPECT_FALSE(stp_same_all(ranks[0]));
    EXPECT_FALSE(Exists(kRanks));
    for (stp_same *rank : ranks)
        stp_same_leave(rank);
}

TEST_F(Same, LeavesNoNameOnceAllRanksJoined)
{
    stp_same *a = Join(2, 7);
    EXPECT_TRUE(Exists(2));
    stp_same *b = Join(2, 7);

    EXPECT_FALSE(Exists(2));

    stp_same_leave(a);
    stp_same_leave(b);
}

TEST_F(Same, LeavesNoNameBehindTheLastRankOfAHost)
{
    // Two of four ranks are on this host.
    stp_same *a = Join(4, 7);
    stp_same *b = Join(4, 7);
    stp_same_leave(a);
    EXPECT_TRUE(Exists(4));

    stp_same_leave(b);

    EXPECT_FALSE(Exists(4));
}

TEST_F(Same, DoesNotRemoveTheNameOfALaterCommunicator)
{
    // A second communicator with the id of the first, as two shrinks of one
    // parent have.
    stp_same *a = Join(1, 7);
    stp_same *b = nullptr;
    ASSERT_FALSE(Exists(1));
    std::ofstream(Path(1)).close();
    chmod(Path(1).c_str(), 0600);

    stp_same_leave(a);

    EXPECT_TRUE(Exists(1));
    b = Join(1, 8);
    EXPECT_TRUE(stp_same_all(b));
    stp_same_leave(b);
}

TEST_F(Same, HoldsForThreadsThatJoinAtOnce)
{
    for (int repeat = 0; repeat < 50; repeat++) {
        stp_same *ranks[8] = {};
        std::vector<std::thread> threads;
        for (size_t r = 0; r < 8; r++)
            threads.emplace_back([&, r] {
                stp_error err;
                stp_same_join(id_ + 2 * repeat, 8, r == 5 ? 9 : 7, &ranks[r],
                              &err);
            });
        for (std::thread &t : threads)
            t.join();

        for (stp_same *rank : ranks) {
            ASSERT_NE(nullptr, rank);
            EXPECT_FALSE(stp_same_all(rank));
        }
        for (stp_same *rank : ranks)
            stp_same_leave(rank);
    }
}

// Rank r of n processes leaves values[r], waits for the others, and exits with
// 1 if it sees that all are the same.
TEST_F(Same, HoldsForProcesses)
{
    for (uint64_t odd : {7, 8}) {
        int barrier[2];
        int ready[2];
        ASSERT_EQ(0, pipe(barrier));
        ASSERT_EQ(0, pipe(ready));
        std::vector<pid_t> ranks;
        for (int r = 0; r < 4; r++) {
            pid_t pid = fork();
            if (pid == 0) {
                stp_same *same = nullptr;
                char byte;
                close(barrier[1]);
                if (stp_same_join(id_ + odd, 4, r == 2 ? odd : 7, &same,
                                  nullptr) != STP_OK ||
                    write(ready[1], "x", 1) != 1 ||
                    read(barrier[0], &byte, 1) != 0)
                    _exit(99);
                bool all = stp_same_all(same);
                stp_same_leave(same);
                _exit(all);
            }
            ranks.push_back(pid);
        }
        char bytes[4];
        for (char &byte : bytes)
            ASSERT_EQ(1, read(ready[0], &byte, 1));
        close(barrier[1]); // all have joined

        for (pid_t pid : ranks) {
            int status = 0;
            waitpid(pid, &status, 0);
            EXPECT_EQ(odd == 7, WEXITSTATUS(status));
        }
        close(barrier[0]);
        close(ready[0]);
        close(ready[1]);
    }
}

TEST_F(Same, FollowsNoLink)
{
    std::string target = testing::TempDir() + "steptune-target";
    std::ofstream(target) << "precious";
    ASSERT_EQ(0, symlink(target.c_str(), Path(2).c_str()));
    stp_same *same = nullptr;

    EXPECT_EQ(STP_ERR_IO, stp_same_join(id_, 2, 7, &same, &err_));

    EXPECT_EQ(nullptr, same);
    EXPECT_THAT(err_.text, HasSubstr("cannot open " + Path(2)));
    std::string text;
    std::ifstream(target) >> text;
    EXPECT_EQ("precious", text);
    unlink(Path(2).c_str());
    unlink(target.c_str());
}

TEST_F(Same, DoesNotTrustMemoryThatOthersMayWrite)
{
    std::ofstream(Path(2)).close();
    ASSERT_EQ(0, chmod(Path(2).c_str(), 0666));
    stp_same *same = nullptr;

    EXPECT_EQ(STP_ERR_IO, stp_same_join(id_, 2, 7, &same, &err_));

    EXPECT_EQ(nullptr, same);
    EXPECT_THAT(err_.text, HasSubstr("cannot trust " + Path(2)));
    unlink(Path(2).c_str());
}

TEST_F(Same, IsNothingToLeave)
{
    stp_same_leave(nullptr);
}

} // namespace
