// NCCL without a tuner on one-byte types, which lose precision on rings.
#include <gmock/gmock.h>

#include "support/mock_test.h"

using namespace mock_test;
using testing::Each;

namespace
{

struct Fp8Case {
    const char *name;
    const char *machine;
    ncclFunc_t coll;
    float factor; // of Ring entries
};

class Fp8 : public testing::TestWithParam<Fp8Case>
{
};

TEST_P(Fp8, MakesRingsALastResortWhereTheyLosePrecision)
{
    const Fp8Case &c = GetParam();
    Machine machine = LoadMachine(c.machine);
    mock_call call = Call(c.coll, 1 << 20);
    mock_outcome plain = OnMachine(machine, call);
    call.fp8 = true;

    mock_outcome fp8 = OnMachine(machine, call);

    for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
        EXPECT_EQ(plain.cost[NCCL_ALGO_RING][p] * c.factor,
                  fp8.cost[NCCL_ALGO_RING][p]);
        EXPECT_EQ(plain.cost[NCCL_ALGO_TREE][p], fp8.cost[NCCL_ALGO_TREE][p]);
    }
}

// clang-format off
const Fp8Case kFp8Cases[] = {
    {"all_reduce",                     "h100n2x8", ncclFuncAllReduce,     1024},
    {"reduce_scatter",                 "h100n2x8", ncclFuncReduceScatter, 1024},
    {"reduce",                         "h100n2x8", ncclFuncReduce,        1024},
    {"all_gather_is_of_bytes",         "h100n2x8", ncclFuncAllGather,     1},
    {"broadcast_is_of_bytes",          "h100n2x8", ncclFuncBroadcast,     1},
    {"eight_ranks_are_precise_enough", "h100x8",   ncclFuncAllReduce,     1},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, Fp8, testing::ValuesIn(kFp8Cases), CaseName());

TEST(Fp8, MakesMinus1024OfRingsThatAreRuledOut)
{
    mock_call call = Call(ncclFuncAllReduce, 1 << 20);
    call.fp8 = true;

    mock_outcome got = OnMachine(LoadMachine("h100n2x8"), call,
                                 {nullptr, nullptr, nullptr, 0, "^ring"});

    EXPECT_THAT(got.cost[NCCL_ALGO_RING], Each(-1024));
    EXPECT_THAT(got.cost[NCCL_ALGO_NVLS], Each(-1));
    EXPECT_EQ(NCCL_ALGO_TREE, got.algo);
}

TEST(Fp8, IsNothingForNvlsButToGatherBytes)
{
    Machine machine = LoadMachine("h100x8");
    mock_call call = Call(ncclFuncAllReduce, 1 << 20);
    call.fp8 = true;

    mock_outcome reduce = OnMachine(machine, call);
    call.coll = ncclFuncAllGather;
    mock_outcome gather = OnMachine(machine, call);
    mock_outcome two_nodes =
        OnMachine(LoadMachine("h100n2x8"), Call(ncclFuncAllReduce, 1 << 20));

    EXPECT_EQ(-1, reduce.cost[NCCL_ALGO_NVLS][NCCL_PROTO_SIMPLE]);
    EXPECT_LT(0, gather.cost[NCCL_ALGO_NVLS][NCCL_PROTO_SIMPLE]);
    EXPECT_LT(0, two_nodes.cost[NCCL_ALGO_NVLS_TREE][NCCL_PROTO_SIMPLE]);
}

} // namespace
