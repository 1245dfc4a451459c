// The choices of each NCCL version from an edited table, and its log lines.
#include <cfloat>

#include <gmock/gmock.h>

#include "mock_nccl/comm/mock_collnet_machine.h"
#include "support/mock_script.h"

using namespace mock_test;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace
{

// Any version, with the newest tuner that it takes, up to v4.
mock_nccl_options Options(const std::string &version)
{
    return WithScript(version.c_str(), version < "2.24" ? 3 : 4);
}

class Versions : public Scripted
{
  protected:
    ncclResult_t Try(const mock_nccl_options &options, const mock_call &call)
    {
        Nccl nccl = MakeNccl(options);
        Comm comm = MakeComm(nccl, machine_);
        return mock_comm_collective(comm.get(), &call, &outcome_);
    }

    Machine machine_ = LoadMachine("h200x4");
};

TEST_F(Versions, LogsThatNothingIsLeft)
{
    const char kOld[] = "Error : no algorithm/protocol available";
    const char kNew[] = "Error : no algorithm/protocol available for function "
                        "ReduceScatter with datatype ncclFloat32.";
    const struct {
        const char *version;
        const char *text;
    } cases[] = {
        {"2.22", kOld},
        {"2.23", kOld},
        {"2.24", kNew},
        {"2.25", kNew},
        {"2.26", kNew},
        {"2.27", kNew},
        {"2.28", kNew},
        {"2.29", kNew},
        {"2.30", "No algorithm/protocol available for function ReduceScatter "
                 "with datatype ncclFloat32."},
        {"2.31", "No algorithm/protocol nor symKernelId available for "
                 "function ReduceScatter with datatype ncclFloat32."},
    };
    script = [](Table table, int *) {
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            table[NCCL_ALGO_RING][p] = FLT_MAX;
        return ncclSuccess;
    };
    mock_call call = Call(ncclFuncReduceScatter, 1 << 20);
    call.element_size = 4;

    for (const auto &c : cases) {
        Log log;
        EXPECT_EQ(ncclInternalError, Try(Options(c.version), call));
        EXPECT_STREQ(c.text, mock_last_error()) << c.version;
        ASSERT_GE(log.lines.size(), 2u);
        EXPECT_EQ(c.text, log.lines[log.lines.size() - 2].text) << c.version;
        EXPECT_EQ(NCCL_LOG_WARN, log.lines[log.lines.size() - 2].level);
    }
}

// 1 MiB over 4 ranks; the log of rank 0 and of rank 1.
TEST_F(Versions, LogsDecisions)
{
    const char kScheduled[] = "AllGather: 262144 Bytes -> Algo RING proto "
                              "SIMPLE channel{Lo..Hi}={0..2}";
    const struct {
        const char *version;
        std::vector<std::string> lines; // with TUNING alone
    } cases[] = {
        {"2.22", {"1048576 Bytes -> Algo 1 proto 2 time 0.250000"}},
        {"2.23", {"AllGather: 1048576 Bytes -> Algo 1 proto 2 time 0.250000"}},
        {"2.24", {kScheduled}},
        {"2.28", {kScheduled}},
        {"2.30", {kScheduled}},
        {"2.31", {kScheduled}},
    };
    script = [](Table table, int *n_channels) {
        table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = .25f;
        *n_channels = 3;
        return ncclSuccess;
    };
    mock_call call = Call(ncclFuncAllGather, 1 << 20);

    for (const auto &c : cases) {
        Nccl nccl = MakeNccl(Options(c.version));
        Comm comm = MakeComm(nccl, machine_);
        Log log;
        EXPECT_EQ(ncclSuccess,
                  mock_comm_collective(comm.get(), &call, &outcome_));
        EXPECT_EQ(c.lines, log.Texts()) << c.version;
        EXPECT_EQ(3, outcome_.n_channels) << c.version;
        for (const Log::Line &line : log.lines)
            EXPECT_EQ(static_cast<unsigned long>(NCCL_TUNING), line.flags);
    }
}

TEST_F(Versions, AGroupLogsALinePerCollectiveWithItsChannels)
{
    script = [](Table table, int *n_channels) {
        table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 0;
        *n_channels = 2;
        return ncclSuccess;
    };
    const mock_call calls[] = {Call(ncclFuncAllReduce, 1 << 20),
                               Call(ncclFuncAllReduce, 1 << 20)};
    mock_outcome outcomes[2];
    Nccl nccl = MakeNccl(Options("2.28"));
    Comm comm = MakeComm(nccl, machine_);
    Log log;

    ASSERT_EQ(ncclSuccess, mock_comm_group(comm.get(), calls, 2, outcomes));

    EXPECT_THAT(log.Texts(),
                ElementsAre("AllReduce: 1048576 Bytes -> Algo RING proto "
                            "SIMPLE channel{Lo..Hi}={0..1}",
                            "AllReduce: 1048576 Bytes -> Algo RING proto "
                            "SIMPLE channel{Lo..Hi}={2..3}"));
}

// NCCL_ALGO=tree allows nothing for a broadcast, except for the fallback to
// rings.
TEST_F(Versions, AForbiddenRingComesBackUpTo2_23)
{
    const struct {
        const char *version;
        ncclResult_t want;
    } cases[] = {{"2.21", ncclSuccess},
                 {"2.22", ncclSuccess},
                 {"2.23", ncclSuccess},
                 {"2.24", ncclInvalidUsage},
                 {"2.28", ncclInvalidUsage}};

    for (const auto &c : cases) {
        mock_nccl_options options{c.version};
        options.algo = "tree";
        EXPECT_EQ(c.want, Try(options, Call(ncclFuncBroadcast, 1 << 20)))
            << c.version;
        EXPECT_EQ(c.want == ncclSuccess ? NCCL_ALGO_RING : -1, outcome_.algo);
        EXPECT_EQ(c.want == ncclSuccess ? "14.637" : "-1.000",
                  Printed(outcome_.cost[NCCL_ALGO_RING][NCCL_PROTO_LL]))
            << c.version;
    }
}

TEST_F(Versions, ARingThatTheTunerForbidsDoesNotComeBack)
{
    script = [](Table table, int *) {
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            table[NCCL_ALGO_RING][p] = -1;
        return ncclSuccess;
    };

    EXPECT_EQ(ncclInternalError,
              Try(Options("2.22"), Call(ncclFuncBroadcast, 1 << 20)));
}

// ---- 2.21: no table ----

class V2_21 : public Versions
{
  protected:
    mock_nccl_options Pair(int algo, int proto)
    {
        asked_.clear();
        on_ask = [=](const Asked &asked) {
            asked_.push_back(asked);
            *asked.algo = algo;
            *asked.proto = proto;
            return ncclSuccess;
        };
        return WithScript("2.21", 2);
    }

    std::vector<Asked> asked_;
};

TEST_F(V2_21, UsesThePairAsItIsAndLogsNothing)
{
    Log log;

    EXPECT_EQ(ncclSuccess, Try(Pair(NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE),
                               Call(ncclFuncAllReduce, 1 << 20)));

    EXPECT_EQ(NCCL_ALGO_TREE, outcome_.algo);
    EXPECT_EQ(NCCL_PROTO_SIMPLE, outcome_.proto);
    EXPECT_THAT(log.Texts(), Not(Contains(HasSubstr("Bytes ->"))));
}

TEST_F(V2_21, FallsBackOnItsModelIfOneOfThePairIsMissing)
{
    const std::pair<int, int> cases[] = {{NCCL_ALGO_UNDEF, NCCL_PROTO_SIMPLE},
                                         {NCCL_ALGO_TREE, NCCL_PROTO_UNDEF}};

    for (auto [algo, proto] : cases) {
        Log log;
        EXPECT_EQ(ncclSuccess,
                  Try(Pair(algo, proto), Call(ncclFuncBroadcast, 1 << 20)));
        EXPECT_EQ(NCCL_ALGO_RING, outcome_.algo);
        EXPECT_EQ(NCCL_PROTO_LL, outcome_.proto);
        EXPECT_THAT(log.Texts(), Contains("1048576 Bytes -> Algo 1 proto 0 "
                                          "time 14.636709"));
    }
}

TEST_F(V2_21, FailsOnPairsThatItRuledOutOrLacks)
{
    EXPECT_EQ(ncclInternalError, Try(Pair(NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE),
                                     Call(ncclFuncAllReduce, 1 << 20)));
    EXPECT_STREQ("nvls/simple was chosen for allreduce, but NCCL had ruled it "
                 "out on this machine and has not set it up",
                 mock_last_error());
    EXPECT_EQ(ncclInternalError, Try(Pair(NCCL_ALGO_PAT, NCCL_PROTO_SIMPLE),
                                     Call(ncclFuncAllGather, 1 << 20)));
    EXPECT_STREQ("algorithm 6 and protocol 2 were chosen for allgather, and "
                 "NCCL would read outside its tables",
                 mock_last_error());
}

TEST_F(V2_21, PassesWhetherNvlsSupportsTheType)
{
    machine_ = LoadMachine("h100x8");
    mock_call call = Call(ncclFuncAllReduce, 1 << 20);
    mock_nccl_options options = Pair(NCCL_ALGO_RING, NCCL_PROTO_LL);

    EXPECT_EQ(ncclSuccess, Try(options, call));
    EXPECT_EQ(1, asked_.at(0).nvls);
    options.algo = "ring"; // does not matter here
    EXPECT_EQ(ncclSuccess, Try(options, call));
    EXPECT_EQ(1, asked_.at(2).nvls);
    call.no_nvls = true;
    EXPECT_EQ(ncclSuccess, Try(options, call));
    EXPECT_EQ(0, asked_.at(4).nvls);
}

// The arguments of a v2 tuner, with CollNet and NVLS.
TEST(CollNet, IsPassedToAV2Tuner)
{
    const Machine machine = CollNetMachine("90", "intel");

    for (const auto &[coll, want] :
         {std::pair(ncclFuncAllReduce, "collnet 1 nvls 1"),
          std::pair(ncclFuncAllGather, "collnet 1 nvls 0")}) {
        mock_nccl_options options{"2.21"};
        options.collnet = true;
        options.tuner_plugin = STP_TEST_PLUGINS "/libnccl-tuner-echo_v2.so";
        Log log;
        OnMachine(machine, Call(coll, 1 << 20), options);
        EXPECT_THAT(log.Texts(), Contains(HasSubstr(want)));
    }
}

// ---- constants ----

TEST_F(Versions, EditsOfTheConstantsAreLostFrom2_31To2_32_3)
{
    mock_call call = Call(ncclFuncBroadcast, 1 << 20);
    const ncclTunerConstants_v5_t none{}; // without padding
    double seen = -1;
    bool has_any = false;
    float first;
    on_init = [&](const Joined &joined) {
        double *base =
            &joined.constants->baseLatencies[NCCL_ALGO_RING][NCCL_PROTO_LL];
        has_any = memcmp(&none, joined.constants, sizeof(none)) != 0;
        seen = *base;
        *base = 1000;
        return ncclSuccess;
    };

    EXPECT_EQ(ncclSuccess, Try(WithScript("2.30", 6), call));
    EXPECT_EQ(6.6, seen);
    first = outcome_.cost[NCCL_ALGO_RING][NCCL_PROTO_LL];
    for (const char *version : {"2.31.2", "2.32.3"}) {
        EXPECT_EQ(ncclSuccess, Try(WithScript(version, 6), call));
        EXPECT_FALSE(has_any);
        EXPECT_NEAR(first - 1000 + 6.6,
                    outcome_.cost[NCCL_ALGO_RING][NCCL_PROTO_LL], 1e-3);
    }
    EXPECT_EQ(ncclSuccess, Try(WithScript("2.32.6", 6), call));
    EXPECT_EQ(6.6, seen);
    EXPECT_EQ(first, outcome_.cost[NCCL_ALGO_RING][NCCL_PROTO_LL]);
}

} // namespace
