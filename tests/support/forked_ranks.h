// This process and children of it as the ranks of a world.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

extern "C" {
#include "launch/star.h"
}

// All ranks run what follows the constructor, in the same order: this process
// is rank 0.  In the destructor the others end, with 0 if nothing of their test
// failed, which is expected of them but of rank 'doomed'.
class ForkedRanks
{
  public:
    explicit ForkedRanks(unsigned n, unsigned doomed = 0) : doomed_(doomed)
    {
        std::vector<int> mine(n, -1);
        std::vector<int> theirs(n, -1);
        unsigned rank = 0;

        for (unsigned r = 1; r < n; r++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
                abort();
            mine[r] = pair[0];
            theirs[r] = pair[1];
        }
        fflush(nullptr);
        for (unsigned r = 1; r < n && rank == 0; r++) {
            const pid_t pid = fork();
            if (pid < 0)
                abort();
            if (pid == 0)
                rank = r;
            else
                children_.push_back(pid);
        }
        Join(rank, n, mine, theirs);
    }

    ForkedRanks(const ForkedRanks &) = delete;
    ForkedRanks &operator=(const ForkedRanks &) = delete;

    ~ForkedRanks()
    {
        world_.ops->close(world_.self);
        if (world_.rank != 0) {
            fflush(nullptr);
            _exit(testing::Test::HasFailure() ? 1 : 0);
        }
        for (unsigned rank = 1; rank <= children_.size(); rank++) {
            int status = 0;
            EXPECT_EQ(children_[rank - 1],
                      waitpid(children_[rank - 1], &status, 0));
            EXPECT_TRUE(rank == doomed_ ||
                        (WIFEXITED(status) && WEXITSTATUS(status) == 0))
                << "rank " << rank << " ended with wait status " << status;
        }
    }

    const stp_world *world() const
    {
        return &world_;
    }

  private:
    void Join(unsigned rank, unsigned n, const std::vector<int> &mine,
              const std::vector<int> &theirs)
    {
        const std::vector<int> one(1, theirs[rank]);
        stp_star_options options{};
        stp_error err;

        for (unsigned r = 1; r < n; r++) {
            if (r != rank)
                close(theirs[r]);
            if (rank != 0)
                close(mine[r]);
        }
        options.name = "fork";
        options.rank = rank;
        options.size = n;
        options.local_rank = rank;
        options.local_size = n;
        options.fds = rank == 0 ? mine.data() : one.data();
        if (stp_star_open(&options, &world_, &err) != STP_OK) {
            fprintf(stderr, "rank %u: %s\n", rank, err.text);
            abort();
        }
    }

    unsigned doomed_;
    stp_world world_{};
    std::vector<pid_t> children_;
};
