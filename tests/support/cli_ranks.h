/*
 * cli_ranks.h - the program in the processes that torchrun would start
 */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include <string>
#include <vector>

#include "support/cli_fixture.h"

namespace cli
{

class CliRanks : public Cli
{
  protected:
    // Starts a rank with the environment that torchrun gives it on one host;
    // what it prints is in outRANK and errRANK.
    pid_t StartRank(int rank, int size, const std::string &arguments)
    {
        Set("RANK", std::to_string(rank));
        Set("LOCAL_RANK", std::to_string(rank));
        Set("WORLD_SIZE", std::to_string(size));
        Set("LOCAL_WORLD_SIZE", std::to_string(size));
        Set("MASTER_ADDR", "127.0.0.1");
        Set("MASTER_PORT", std::to_string(20000 + getpid() % 12000));
        return StartTo(std::to_string(rank), arguments);
    }

    std::vector<pid_t> StartRanks(int size, const std::string &arguments)
    {
        std::vector<pid_t> ranks;
        for (int r = 0; r < size; r++)
            ranks.push_back(StartRank(r, size, arguments));
        return ranks;
    }

    // The statuses of all ranks.
    std::vector<int> RunRanks(int size, const std::string &arguments)
    {
        std::vector<int> statuses;
        for (pid_t rank : StartRanks(size, arguments))
            statuses.push_back(Wait(rank));
        return statuses;
    }
};

} // namespace cli
#endif // CLI_RANKS_H
