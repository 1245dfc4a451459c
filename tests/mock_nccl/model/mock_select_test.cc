// NCCL's selection from a table that the tuner edited.
#include <cfloat>
#include <limits>

#include "support/mock_script.h"
#include "support/with_param.h"

// In C a function and a struct can share a name.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include "model/cost_model.h"
#include "versions/versions.h"
}
#pragma GCC diagnostic pop

using namespace mock_test;

namespace
{

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct SelectionCase {
    const char *name;
    const char *version;
    float ring_ll;
    float ring_ll128;
    float ring_simple;
    int want; // of the three; -1: nothing is left
};

using Selection = WithParam<Scripted, SelectionCase>;

TEST_P(Selection, TakesTheFirstSmallestThatIsNotNegative)
{
    const SelectionCase &c = GetParam();
    script = [&](Table table, int *) {
        table[NCCL_ALGO_RING][NCCL_PROTO_LL] = c.ring_ll;
        table[NCCL_ALGO_RING][NCCL_PROTO_LL128] = c.ring_ll128;
        table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = c.ring_simple;
        return ncclSuccess;
    };

    ncclResult_t rc =
        Try(Call(ncclFuncBroadcast, 1 << 20), "h200x4", c.version);

    EXPECT_EQ(c.want < 0 ? ncclInternalError : ncclSuccess, rc);
    EXPECT_EQ(c.want, outcome_.proto);
    EXPECT_EQ(c.want < 0 ? -1 : NCCL_ALGO_RING, outcome_.algo);
}

// clang-format off
const SelectionCase kSelectionCases[] = {
    {"smallest",            "2.28", 3, 2, 1,             NCCL_PROTO_SIMPLE},
    {"first_of_equals",     "2.28", 2, 1, 1,             NCCL_PROTO_LL128},
    {"zero_is_smallest",    "2.28", 1, 0, 1,             NCCL_PROTO_LL128},
    {"ignored",             "2.28", -1, 5, 6,            NCCL_PROTO_LL128},
    {"other_negatives",     "2.28", -1024, 5, -.5f,      NCCL_PROTO_LL128},
    {"nan",                 "2.28", kNan, 5, kNan,       NCCL_PROTO_LL128},
    {"below_the_ceiling",   "2.28", 3.5e9f, kInf, kInf,  NCCL_PROTO_LL},
    {"at_the_ceiling",      "2.28", 3.6e9f, kInf, kInf,  -1},
    {"no_ceiling_in_2_29",  "2.29", 3.6e9f, kInf, kInf,  NCCL_PROTO_LL},
    {"largest_in_2_29",     "2.29", FLT_MAX, kInf, kInf, -1},
    {"nothing",             "2.28", -1, -1, -1,          -1},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, Selection, testing::ValuesIn(kSelectionCases),
                         CaseName());

TEST_F(Scripted, TreeWinsATieWithRing)
{
    script = [](Table table, int *) {
        table[NCCL_ALGO_RING][NCCL_PROTO_LL] = 1;
        table[NCCL_ALGO_TREE][NCCL_PROTO_SIMPLE] = 1;
        return ncclSuccess;
    };

    EXPECT_EQ(ncclSuccess, Try(Call(ncclFuncAllReduce, 1 << 20)));

    EXPECT_EQ(NCCL_ALGO_TREE, outcome_.algo);
    EXPECT_EQ(NCCL_PROTO_SIMPLE, outcome_.proto);
}

struct RevivalCase {
    const char *name;
    const char *machine;
    ncclFunc_t coll;
    int algo;
    int proto;
    const char *error;
};

using Revival = WithParam<Scripted, RevivalCase>;

TEST_P(Revival, FailsTheCollective)
{
    const RevivalCase &c = GetParam();
    script = [&](Table table, int *) {
        table[c.algo][c.proto] = 0;
        return ncclSuccess;
    };

    EXPECT_EQ(ncclInternalError, Try(Call(c.coll, 1 << 20), c.machine));

    EXPECT_STREQ(c.error, mock_last_error());
    EXPECT_EQ(c.algo, outcome_.algo);
    EXPECT_EQ(-1, outcome_.cost[c.algo][c.proto]);
    EXPECT_EQ(0, outcome_.cost_after[c.algo][c.proto]);
    EXPECT_EQ(0, outcome_.n_channels);
}

#define NO_KERNEL ", but NCCL has no kernel for it and would crash"
#define RULED_OUT                                                              \
    ", but NCCL had ruled it out on this machine and has not set it up"
// clang-format off
const RevivalCase kRevivals[] = {
    {"tree_all_gather", "h200x4", ncclFuncAllGather, NCCL_ALGO_TREE,
     NCCL_PROTO_SIMPLE, "tree/simple was chosen for allgather" NO_KERNEL},
    {"tree_broadcast", "h200x4", ncclFuncBroadcast, NCCL_ALGO_TREE,
     NCCL_PROTO_LL, "tree/ll was chosen for broadcast" NO_KERNEL},
    {"nvls_reduce", "h100x8", ncclFuncReduce, NCCL_ALGO_NVLS,
     NCCL_PROTO_SIMPLE, "nvls/simple was chosen for reduce" NO_KERNEL},
    {"nvls_with_ll", "h100x8", ncclFuncAllReduce, NCCL_ALGO_NVLS,
     NCCL_PROTO_LL, "nvls/ll was chosen for allreduce" NO_KERNEL},
    {"pat_all_reduce", "h200x4", ncclFuncAllReduce, NCCL_ALGO_PAT,
     NCCL_PROTO_SIMPLE, "pat/simple was chosen for allreduce" NO_KERNEL},
    {"nvls_tree_reduce_scatter", "h100x8", ncclFuncReduceScatter,
     NCCL_ALGO_NVLS_TREE, NCCL_PROTO_SIMPLE,
     "nvls_tree/simple was chosen for reducescatter" NO_KERNEL},
    {"nvls_switched_off", "h200x4", ncclFuncAllReduce, NCCL_ALGO_NVLS,
     NCCL_PROTO_SIMPLE, "nvls/simple was chosen for allreduce" RULED_OUT},
    {"pat_on_one_node", "h200x4", ncclFuncAllGather, NCCL_ALGO_PAT,
     NCCL_PROTO_SIMPLE, "pat/simple was chosen for allgather" RULED_OUT},
    {"collnet", "h100x8", ncclFuncAllReduce, NCCL_ALGO_COLLNET_CHAIN,
     NCCL_PROTO_SIMPLE,
     "collnet_chain/simple was chosen for allreduce" RULED_OUT},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, Revival, testing::ValuesIn(kRevivals),
                         CaseName());

// From 2.31 on of what NCCL itself supports the last smallest entry, even below
// zero.
TEST(SelectionFrom2_31, IsOfSupportedEntries)
{
    const struct {
        float own[3], tuned[3]; // rings
        int want;
        float time;
    } cases[] = {
        {{3, 2, 1}, {3, 2, 1}, NCCL_PROTO_SIMPLE, 1},
        {{3, 2, 1}, {1, 2, 1}, NCCL_PROTO_SIMPLE, 1},
        {{3, 2, 1}, {1, 1, 2}, NCCL_PROTO_LL128, 1},
        {{3, 2, 1}, {-5, 1, 2}, NCCL_PROTO_LL, -5},
        {{-1, 2, 1}, {0, 1, 2}, NCCL_PROTO_LL128, 1},
        {{0, 2, 1}, {0, 1, 2}, NCCL_PROTO_LL128, 1},
        {{-1, -1, -1}, {0, 0, 0}, -1, FLT_MAX},
        {{3, 2, 1}, {FLT_MAX, FLT_MAX, kNan}, -1, FLT_MAX},
    };
    const mock_choice_rules &rules = mock_version_find("2.31")->choice;

    for (const auto &c : cases) {
        mock_outcome outcome{};
        float time = 7;
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            outcome.cost[NCCL_ALGO_RING][p] = c.own[p];
            outcome.cost_after[NCCL_ALGO_RING][p] = c.tuned[p];
        }
        outcome.algo = NCCL_ALGO_TREE;
        outcome.proto = NCCL_PROTO_LL128;

        EXPECT_EQ(c.want >= 0,
                  mock_select(&rules, NCCL_NUM_ALGORITHMS, &outcome, &time))
            << &c - cases;
        EXPECT_EQ(c.want, outcome.proto) << &c - cases;
        EXPECT_EQ(c.want >= 0 ? NCCL_ALGO_RING : -1, outcome.algo)
            << &c - cases;
        EXPECT_EQ(c.time, time) << &c - cases;
    }
}

// ---- tuners that do harm ----

TEST_F(Scripted, AnErrorFromGetCollInfoFailsTheCollective)
{
    script = [](Table, int *) { return ncclInvalidUsage; };

    EXPECT_EQ(ncclInvalidUsage, Try(Call(ncclFuncAllReduce, 8)));

    EXPECT_STREQ("tuner 'scripted': getCollInfo returned 5 (ncclInvalidUsage)",
                 mock_last_error());
    EXPECT_EQ(-1, outcome_.algo);
}

struct OutsideCase {
    const char *name;
    const char *version;
    int at;
    const char *error; // nullptr: it is inside
};

using Outside = WithParam<Scripted, OutsideCase>;

TEST_P(Outside, WritingThereFailsTheCollective)
{
    const OutsideCase &c = GetParam();
    script = [&](Table table, int *) {
        (&table[0][0])[c.at] = 1e9f;
        return ncclSuccess;
    };

    ncclResult_t rc = Try(Call(ncclFuncAllReduce, 8), "h200x4", c.version);

    EXPECT_EQ(c.error == nullptr ? ncclSuccess : ncclInternalError, rc);
    if (c.error != nullptr) {
        EXPECT_STREQ(c.error, mock_last_error());
    }
}

#define WROTE "tuner 'scripted' wrote outside the cost table: "
// clang-format off
const OutsideCase kOutside[] = {
    {"first",       "2.28", 0,   nullptr},
    {"last",        "2.28", 20,  nullptr},
    {"before",      "2.28", -1,  WROTE "1 floats before and 0 after its 21 entries"},
    {"far_before",  "2.28", -16, WROTE "1 floats before and 0 after its 21 entries"},
    {"after",       "2.28", 21,  WROTE "0 floats before and 1 after its 21 entries"},
    {"far_after",   "2.28", 36,  WROTE "0 floats before and 1 after its 21 entries"},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, Outside, testing::ValuesIn(kOutside),
                         CaseName());

TEST_F(Scripted, OldTablesEndAfterSixAlgorithmsBefore2_23)
{
    Machine machine = LoadMachine("h200x4");
    mock_call call = Call(ncclFuncAllGather, 8);
    mock_outcome outcome;
    Nccl old = MakeNccl(WithScript("2.22", 3));
    Comm comm = MakeComm(old, machine);
    script = [](Table table, int *) {
        table[NCCL_ALGO_PAT][NCCL_PROTO_SIMPLE] = 0;
        return ncclSuccess;
    };

    EXPECT_EQ(ncclInternalError,
              mock_comm_collective(comm.get(), &call, &outcome));

    EXPECT_STREQ("tuner 'scripted' wrote outside the cost table: 0 floats "
                 "before and 1 after its 18 entries",
                 mock_last_error());
}

} // namespace
