// NCCL without a tuner: its cost tables, choices and channel counts.
#include <cmath>

#include "support/mock_test.h"

using namespace mock_test;

namespace
{

mock_outcome Collective(const Comm &comm, const mock_call &call)
{
    mock_outcome outcome;
    EXPECT_EQ(ncclSuccess, mock_comm_collective(comm.get(), &call, &outcome))
        << mock_last_error();
    return outcome;
}

class OnH200x4 : public testing::Test
{
  protected:
    Machine machine_ = LoadMachine("h200x4");
    Nccl nccl_ = MakeNccl({});
    Comm comm_ = MakeComm(nccl_, machine_);
};

// ---- against NCCL's own code on other topologies ----

class ReferenceTables
    : public testing::TestWithParam<std::pair<const char *, const char *>>
{
};

TEST_P(ReferenceTables, AgreeToSixDigits)
{
    Machine machine = LoadMachine(GetParam().first);
    ASSERT_TRUE(machine);
    Nccl nccl = MakeNccl({});
    Comm comm = MakeComm(nccl, machine);
    std::map<std::pair<int, size_t>, std::map<std::pair<int, int>, double>>
        want;
    for (const Row &row : ReadCsv(std::string(STP_FIXTURES "/cost_tables/") +
                                  GetParam().second + ".csv")) {
        int algo = row.at("algo") == "NVLSTree" ? NCCL_ALGO_NVLS_TREE
                                                : Find(kAlgos, row.at("algo"));
        want[{Find(kColls, row.at("coll")), std::stoull(row.at("nbytes"))}]
            [{algo, Find(kProtos, row.at("proto"))}] =
                std::stod(row.at("time_us"));
    }
    ASSERT_EQ(5u * 32u, want.size());

    for (const auto &[key, entries] : want) {
        mock_outcome got = Collective(
            comm, Call(static_cast<ncclFunc_t>(key.first), key.second));
        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
                auto it = entries.find({a, p});
                double us = it == entries.end() ? -1.0 : it->second;
                EXPECT_NEAR(us, got.cost[a][p], std::abs(us) * 1e-6)
                    << kColls[key.first] << " " << key.second << " "
                    << kAlgos[a] << "/" << kProtos[p];
            }
    }
}

INSTANTIATE_TEST_SUITE_P(Machines, ReferenceTables,
                         testing::Values(std::pair("h100x8", "h100_n1_g8"),
                                         std::pair("h100x4", "h100_n1_g4"),
                                         std::pair("a100x8", "a100_n1_g8"),
                                         std::pair("b200x8", "b200_n1_g8"),
                                         std::pair("a100n2x8", "a100_n2_g8"),
                                         std::pair("h100n2x8", "h100_n2_g8"),
                                         std::pair("h100n8x8", "h100_n8_g8")),
                         [](const auto &p) {
                             return std::string(p.param.second);
                         });

// ---- what has no decision ----

TEST_F(OnH200x4, CallsNoTunerForZeroBytes)
{
    mock_outcome got = Collective(comm_, Call(ncclFuncAllReduce, 0));

    EXPECT_EQ(-1, got.algo);
    EXPECT_EQ(0, got.n_channels);
}

TEST_F(OnH200x4, RejectsInvalidCalls)
{
    const struct {
        const char *name;
        mock_call call;
        const char *error;
    } cases[] = {
        {"coll", {static_cast<ncclFunc_t>(5), 8}, "no collective 5"},
        {"type", {ncclFuncAllReduce, 8, 3}, "no type of 3 bytes"},
        {"pipe", {ncclFuncAllReduce, 8, 0, -1}, "-1 operations in a group"},
        {"fp8",
         {ncclFuncAllReduce, 8, 2, 0, 0, false, true},
         "no fp8 type of 2 bytes"},
    };

    for (const auto &c : cases) {
        mock_outcome outcome;
        EXPECT_EQ(ncclInvalidArgument,
                  mock_comm_collective(comm_.get(), &c.call, &outcome));
        EXPECT_STREQ(c.error, mock_last_error()) << c.name;
        EXPECT_EQ(-1, outcome.algo);
    }
}

} // namespace
