// Sizes that fall out of line are found, and no others.
#include <random>

extern "C" {
#include "report/results/results.h"
}

#include "nccl_tuner_abi.h"
#include "support/written.h"

namespace
{

std::string Printed(const stp_dataset &data, const stp_dataset *other)
{
    const stp_normal normal{&data, other, "other"};
    return Written([&](FILE *fp) { stp_print_normal(&normal, true, fp); });
}

size_t Findings(const std::string &json, const std::string &words)
{
    size_t n = 0;
    for (size_t at = json.find(words); at != std::string::npos;
         at = json.find(words, at + 1))
        n++;
    return n;
}

// A latency and a bandwidth, with up to 4 percent of noise; from one size on
// the time is 1.5 to 4 times as long, which is one drop against neighbours.
TEST(Normal, FindsAPlantedDropAndNothingElse)
{
    std::mt19937 random(3);

    for (int run = 0; run < 300; run++) {
        const double latency = 10 + random() % 50;
        const double gbps = 10 + random() % 400;
        const size_t n = 6 + random() % 20, drop = 1 + random() % (n - 1);
        const double factor = run % 3 == 0 ? 1 : 2.6 + random() % 20 / 10.;
        stp_dataset data{}, other{};

        for (size_t i = 0; i < n; i++) {
            const uint64_t bytes = uint64_t{1024} << i;
            stp_measurement m{};
            m.coll = ncclFuncAllReduce;
            m.n_ranks = 8;
            m.n_nodes = 1;
            m.n_bytes = bytes;
            m.iters = 20;
            m.ran_algo = m.ran_proto = i < drop ? 0 : 1;
            m.us.mean = (latency + bytes / gbps / 1e3) *
                        (1 + (random() % 800 - 400.) / 1e4);
            ASSERT_EQ(STP_OK, stp_dataset_add(&other, &m));
            m.us.mean *= i >= drop ? factor : 1;
            ASSERT_EQ(STP_OK, stp_dataset_add(&data, &m));
        }
        ASSERT_TRUE(stp_is_auto_alone(&data));
        const std::string alone = Printed(data, nullptr);
        const std::string both = Printed(data, &other);
        EXPECT_EQ(factor > 1, Findings(alone, "x the time of") == 1) << alone;
        EXPECT_EQ(factor > 1,
                  Findings(alone, "NCCL changes from tree/ll") == 1);
        EXPECT_EQ(factor > 1 ? 1u : 0, Findings(alone, "finding\":\t\""));
        EXPECT_EQ(factor > 1 ? drop : n, Findings(both, "ratio\":\t1,"));
        stp_dataset_free(&data);
        stp_dataset_free(&other);
    }
}

} // namespace
