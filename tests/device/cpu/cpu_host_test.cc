// The hosts of ranks on CPUs: how many, their memory, and threads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <utility>

extern "C" {
#include "device/cpu/cpu_host.h"
}

namespace
{

TEST(CpuHost, SharesItsCpusAmongItsRanks)
{
    const struct {
        uint32_t n_cpus;
        unsigned n_ranks;
        uint32_t most_threads;
        unsigned n_threads;
    } cases[] = {
        {8, 1, UINT32_MAX, 8}, {8, 2, UINT32_MAX, 4}, {8, 3, UINT32_MAX, 2},
        {2, 4, UINT32_MAX, 1}, {8, 1, 3, 3},          {8, 2, 6, 4},
    };

    for (const auto &c : cases) {
        stp_cpu_host hosts[5]{};
        strcpy(hosts[4].name, "another");
        for (unsigned r = 0; r < c.n_ranks; r++) {
            hosts[r].n_cpus = c.n_cpus;
            hosts[r].most_threads = c.most_threads;
        }
        EXPECT_EQ(c.n_threads, stp_cpu_hosts_threads(hosts, c.n_ranks, 0))
            << c.n_cpus << " CPUs, " << c.n_ranks << " ranks";
    }
}

TEST(CpuHost, UsesAsManyThreadsAsOpenBlasIsAllowed)
{
    const struct {
        const char *openblas;
        const char *omp;
        uint32_t most;
    } cases[] = {
        {nullptr, nullptr, UINT32_MAX},
        {"3", "5", 3},
        {nullptr, "5", 5},
        {nullptr, "4,2", 4},
        {"0", "5", 5},
        {"many", "-1", UINT32_MAX},
    };

    for (const auto &c : cases) {
        for (auto [name, value] :
             {std::pair{"OPENBLAS_NUM_THREADS", c.openblas},
              std::pair{"OMP_NUM_THREADS", c.omp}}) {
            unsetenv(name);
            if (value != nullptr)
                setenv(name, value, 1);
        }
        stp_cpu_host host;
        stp_cpu_host_get(&host);
        EXPECT_EQ(c.most, host.most_threads);
    }
}

TEST(CpuHost, CountsHostsAndTheirMemory)
{
    stp_cpu_host hosts[5]{};
    stp_error err{};
    const char *const names[] = {"a", "b", "a", "b", "a"};
    for (int i = 0; i < 5; i++) {
        strcpy(hosts[i].name, names[i]);
        hosts[i].available_nbytes =
            names[i][0] == 'a' ? 6000000000 : 3000000000;
    }

    EXPECT_EQ(2u, stp_cpu_hosts_count(hosts, 5));
    EXPECT_EQ(3u, stp_cpu_hosts_like(hosts, 5, 4));
    EXPECT_EQ(2u, stp_cpu_hosts_like(hosts, 5, 1));
    EXPECT_EQ(STP_OK, stp_cpu_hosts_fit(hosts, 5, 1500000000, &err));
    EXPECT_EQ(STP_ERR_NOMEM, stp_cpu_hosts_fit(hosts, 5, 1800000000, &err));
    EXPECT_STREQ("2 processes with 1.80 GB each on b, which has 3.00 GB of "
                 "memory free",
                 err.text);
}

} // namespace
