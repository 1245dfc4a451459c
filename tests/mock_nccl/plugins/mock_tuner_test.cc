// The arguments of tuners of each version, and the effect of their init.
#include <cstring>

#include <gmock/gmock.h>

#include "support/mock_script.h"

using namespace mock_test;
using testing::Contains;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::Not;

namespace
{

// ---- what a tuner of each version is handed ----

struct EchoCase {
    const char *name;
    const char *version; // of NCCL
    const char *plugin;
    const char *machine;
    std::vector<std::string> log;
};

class Echo : public testing::TestWithParam<EchoCase>
{
};

TEST_P(Echo, ReceivesItsVersionsArgumentsAndIsFollowed)
{
    const EchoCase &c = GetParam();
    Machine machine = LoadMachine(c.machine);
    Nccl nccl = MakeNccl({c.version, c.plugin, nullptr, 0});
    mock_call call{ncclFuncAllReduce, 1 << 20, 4, 3, 1, false};
    mock_outcome got;
    Log log;

    {
        Comm comm = MakeComm(nccl, machine, 77);
        ASSERT_TRUE(comm);
        ASSERT_EQ(ncclSuccess, mock_comm_collective(comm.get(), &call, &got))
            << mock_last_error();
    }

    std::vector<std::string> echoed;
    for (const std::string &line : log.Texts())
        if (line[0] == 'v')
            echoed.push_back(line);
    EXPECT_THAT(echoed, ElementsAreArray(c.log));
    EXPECT_EQ(NCCL_ALGO_RING, got.algo);
    EXPECT_EQ(NCCL_PROTO_SIMPLE, got.proto);
    EXPECT_EQ(4, got.asked_channels);
    EXPECT_EQ(4, got.n_channels);
    EXPECT_EQ(std::string(c.version) == "2.21",
              got.cost_after[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] != 0);
    EXPECT_EQ(std::string(c.plugin) == "echo_v6" ? 65536u : 0u,
              got.chunk_bytes);
    EXPECT_EQ("TUNER/Plugin: Closing tuner: 'echo'", log.Texts().back());
}

#define ASK_V5                                                                 \
    ": context 1 coll 4 bytes 1048576 pipe 3 ring/ll 41.755 algos 7 "          \
    "protos 3 reg 1 channels 0"
#define INIT_V5                                                                \
    " init 1: id 77 ranks 4 nodes 1 domains 1 of 4 to 4 ring/ll base 6.6"
const EchoCase kEchoes[] = {
    {"v2_in_2_21",
     "2.21",
     "echo_v2",
     "h200x4",
     {"v2 init 1: ranks 4 nodes 1",
      "v2 ask: context 1 coll 4 bytes 1048576 collnet 0 nvls 0 pipe 1 "
      "algo -1 proto -1 channels 0",
      "v2 ask: context 1 coll 4 bytes 1048576 collnet 0 nvls 0 pipe 1 "
      "algo -1 proto -1 channels 0",
      "v2 destroy: context 1"}},
    {"v2_in_2_28_with_nvls",
     "2.28",
     "echo_v2",
     "h100x8",
     {"v2 init 1: ranks 8 nodes 1",
      "v2 ask: context 1 coll 4 bytes 1048576 collnet 0 nvls 1 pipe 3 "
      "algo -1 proto -1 channels 0",
      "v2 destroy: context 1"}},
    {"v3_in_2_22_of_six_algorithms",
     "2.22",
     "echo_v3",
     "h200x4",
     {"v3 init 1: ranks 4 nodes 1",
      "v3 ask: context 1 coll 4 bytes 1048576 pipe 3 ring/ll 41.755 algos 6 "
      "protos 3 channels 0",
      "v3 destroy: context 1"}},
    {"v3_in_2_28",
     "2.28",
     "echo_v3",
     "h200x4",
     {"v3 init 1: ranks 4 nodes 1",
      "v3 ask: context 1 coll 4 bytes 1048576 pipe 3 ring/ll 41.755 algos 7 "
      "protos 3 channels 0",
      "v3 destroy: context 1"}},
    {"v4_in_2_27",
     "2.27",
     "echo_v4",
     "h200x4",
     {"v4 init 1: ranks 4 nodes 1", "v4 ask" ASK_V5, "v4 destroy: context 1"}},
    {"v4_in_2_30",
     "2.30",
     "echo_v4",
     "h200x4",
     {"v4 init 1: ranks 4 nodes 1", "v4 ask" ASK_V5, "v4 destroy: context 1"}},
    {"v5_in_2_28",
     "2.28",
     "echo_v5",
     "h200x4",
     {"v5" INIT_V5, "v5 ask" ASK_V5, "v5 finalize: context 1"}},
    {"v5_in_2_30",
     "2.30",
     "echo_v5",
     "h200x4",
     {"v5" INIT_V5, "v5 ask" ASK_V5, "v5 finalize: context 1"}},
    {"v6_in_2_30",
     "2.30",
     "echo_v6",
     "h200x4",
     {"v6" INIT_V5, "v6 ask" ASK_V5,
      "v6 chunk: context 1 coll 4 bytes 262144 algo 1 proto 2 channels 1 "
      "size 2097152",
      "v6 chunk: context 1 coll 4 bytes 262144 algo 1 proto 2 channels 1 "
      "size 2097152",
      "v6 chunk: context 1 coll 4 bytes 262144 algo 1 proto 2 channels 1 "
      "size 2097152",
      "v6 finalize: context 1"}},
};
INSTANTIATE_TEST_SUITE_P(Table, Echo, testing::ValuesIn(kEchoes), CaseName());

// ---- v2, whose pairs NCCL may refuse ----

int v2_algo, v2_proto;
ncclResult_t InitV2(size_t, size_t, ncclDebugLogger_t, void **)
{
    return ncclSuccess;
}
ncclResult_t AskV2(void *, ncclFunc_t, size_t, int, int, int, int *algo,
                   int *proto, int *)
{
    *algo = v2_algo;
    *proto = v2_proto;
    return ncclSuccess;
}
const ncclTuner_v2_t kV2{"pair", InitV2, AskV2, Finalize};

TEST(V2, PairsThatNcclHasRuledOutOrDoesNotKnowChangeNothing)
{
    const std::pair<int, int> cases[] = {{NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE},
                                         {NCCL_ALGO_RING, -1},
                                         {-1, NCCL_PROTO_LL},
                                         {NCCL_ALGO_RING, 3},
                                         {7, NCCL_PROTO_SIMPLE}};
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl({nullptr, nullptr, &kV2, 2});
    Comm comm = MakeComm(nccl, machine);
    mock_call call = Call(ncclFuncAllReduce, 1 << 20);

    for (auto [algo, proto] : cases) {
        mock_outcome got;
        v2_algo = algo;
        v2_proto = proto;
        EXPECT_EQ(ncclSuccess, mock_comm_collective(comm.get(), &call, &got))
            << mock_last_error();
        EXPECT_EQ(NCCL_ALGO_RING, got.algo);
        EXPECT_EQ(NCCL_PROTO_LL, got.proto);
        EXPECT_EQ(0, memcmp(got.cost, got.cost_after, sizeof(got.cost)));
    }
}

// ---- init ----

std::function<ncclResult_t(ncclTunerConstants_v5_t *)> on_init;
ncclResult_t InitV5(void **context, uint64_t, size_t, size_t, ncclDebugLogger_t,
                    ncclNvlDomainInfo_v5_t *,
                    ncclTunerConstants_v5_t *constants)
{
    *context = constants;
    return on_init(constants);
}
int n_finalized;
ncclResult_t CountFinalize(void *context)
{
    n_finalized += context != nullptr;
    return ncclSuccess;
}
const ncclTuner_v5_t kV5{"edits", InitV5, Ask, CountFinalize};

TEST(Init, EditsOfTheConstantsShapeTheModelOfThatCommunicatorOnly)
{
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl({nullptr, nullptr, &kV5, 5});
    mock_call call = Call(ncclFuncBroadcast, 1 << 20);
    mock_outcome edited, plain;
    on_init = [](ncclTunerConstants_v5_t *c) {
        c->llMaxBws[NCCL_HOPPER_COMPCAP_IDX][0] = 10;
        c->baseLatencies[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 100;
        c->hwLatencies[NCCL_HW_NVLINK][NCCL_ALGO_RING][NCCL_PROTO_LL128] = 50;
        c->perChMaxRingLL128Bws[NCCL_HOPPER_COMPCAP_IDX][0] = 1;
        return ncclSuccess;
    };
    Comm first = MakeComm(nccl, machine);
    on_init = [](ncclTunerConstants_v5_t *) { return ncclSuccess; };
    Comm second = MakeComm(nccl, machine);

    ASSERT_EQ(ncclSuccess, mock_comm_collective(first.get(), &call, &edited));
    ASSERT_EQ(ncclSuccess, mock_comm_collective(second.get(), &call, &plain));

    const float *ring = edited.cost[NCCL_ALGO_RING];
    EXPECT_NEAR(6.6 + .6 + 1048576 / 10e3, ring[NCCL_PROTO_LL], 1e-4);
    EXPECT_NEAR(14 + 50 + 1048576 / 12e3, ring[NCCL_PROTO_LL128], 1e-4);
    EXPECT_NEAR(100 + 3.4 + 1048576 / 360e3, ring[NCCL_PROTO_SIMPLE], 1e-4);
    EXPECT_EQ("14.637", Printed(plain.cost[NCCL_ALGO_RING][NCCL_PROTO_LL]));
}

TEST(Init, EditsOfTreeConstantsReachAllReduce)
{
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl({nullptr, nullptr, &kV5, 5});
    mock_call call = Call(ncclFuncAllReduce, size_t{1} << 30); // factor 1
    mock_outcome got;
    on_init = [](ncclTunerConstants_v5_t *c) {
        c->perChMaxTreeBws[NCCL_HOPPER_COMPCAP_IDX][0] = 20;
        c->perChMaxTreeLL128Bws[NCCL_HOPPER_COMPCAP_IDX][0] = 5;
        return ncclSuccess;
    };
    Comm comm = MakeComm(nccl, machine);

    ASSERT_EQ(ncclSuccess, mock_comm_collective(comm.get(), &call, &got));

    const float *tree = got.cost[NCCL_ALGO_TREE];
    EXPECT_NEAR(32.4 + (1 << 30) / 120e3, tree[NCCL_PROTO_SIMPLE], .01);
    EXPECT_NEAR(21.5 + (1 << 30) / 30e3, tree[NCCL_PROTO_LL128], .01);
    EXPECT_NEAR(10.4 + (1 << 30) / (120e3 / 3.8), tree[NCCL_PROTO_LL], .01);
}

TEST(Init, FailureFailsTheCommunicatorWithItsCodeAndStillFinalizesV5)
{
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl({nullptr, nullptr, &kV5, 5});
    mock_comm *comm = nullptr;
    on_init = [](ncclTunerConstants_v5_t *) { return ncclInvalidUsage; };
    n_finalized = 0;

    EXPECT_EQ(ncclInvalidUsage,
              mock_comm_create(nccl.get(), machine.get(), 1, &comm));

    EXPECT_EQ(nullptr, comm);
    EXPECT_STREQ("tuner 'edits': init returned 5 (ncclInvalidUsage)",
                 mock_last_error());
    EXPECT_EQ(1, n_finalized);
}

TEST(Init, FailureOfAWrappedTunerSkipsTheFinalizeThatNcclWouldCrashIn)
{
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl({"2.28", "init_fails_v4", nullptr, 0});
    mock_comm *comm = nullptr;
    Log log;

    EXPECT_EQ(ncclInvalidUsage,
              mock_comm_create(nccl.get(), machine.get(), 1, &comm));

    EXPECT_STREQ("tuner 'init fails': init returned 5 (ncclInvalidUsage); "
                 "NCCL would then crash in ncclCommAbort",
                 mock_last_error());
    EXPECT_THAT(log.Texts(), Not(Contains(HasSubstr("destroy"))));
    EXPECT_EQ("TUNER/Plugin: Closing tuner: 'init fails'", log.Texts().back());
}

TEST(Init, FailureOfAV4TunerFinalizesItWhereV4IsTheNewest)
{
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl({"2.27", "init_fails_v4", nullptr, 0});
    mock_comm *comm = nullptr;
    Log log;

    EXPECT_EQ(ncclInvalidUsage,
              mock_comm_create(nccl.get(), machine.get(), 1, &comm));

    EXPECT_THAT(log.Texts(), Contains("destroy: context NULL"));
}

int v4_inits;
ncclResult_t InitOnce(size_t, size_t, ncclDebugLogger_t, void **context)
{
    *context = &v4_inits;
    return ++v4_inits == 1 ? ncclSuccess : ncclSystemError;
}
ncclResult_t AskV4(void *, ncclFunc_t, size_t, int, float **, int, int, int,
                   int *)
{
    return ncclSuccess;
}
const ncclTuner_v4_t kInitOnce{"init once", InitOnce, AskV4, CountFinalize};

TEST(Init, FailureOfAWrappedTunerAfterASuccessDoesFinalize)
{
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl({"2.28", nullptr, &kInitOnce, 4});
    mock_comm *second = nullptr;
    v4_inits = n_finalized = 0;
    Comm first = MakeComm(nccl, machine);

    EXPECT_EQ(ncclSystemError,
              mock_comm_create(nccl.get(), machine.get(), 1, &second));

    EXPECT_EQ(1, n_finalized);
    EXPECT_STREQ("tuner 'init once': init returned 2 (ncclSystemError)",
                 mock_last_error());
}

const ncclTuner_v5_t kHalf{"half", InitV5, nullptr, CountFinalize};

TEST(Init, ATunerWithANullFunctionFailsTheCommunicator)
{
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl({nullptr, nullptr, &kHalf, 5});
    mock_comm *comm = nullptr;

    EXPECT_EQ(ncclInternalError,
              mock_comm_create(nccl.get(), machine.get(), 1, &comm));

    EXPECT_STREQ("tuner 'half' has a NULL function, which NCCL would call",
                 mock_last_error());
}

// ---- the logger ----

ncclResult_t InitLogs(void **, uint64_t, size_t, size_t,
                      ncclDebugLogger_t logger, ncclNvlDomainInfo_v5_t *,
                      ncclTunerConstants_v5_t *)
{
    std::string line(2000, 'y');
    logger(NCCL_LOG_WARN, NCCL_TUNING, "file", 1, "warn %d", 1);
    logger(NCCL_LOG_INFO, NCCL_COLL, "file", 1, "%s", line.c_str());
    logger(NCCL_LOG_TRACE, NCCL_TUNING, "file", 1, "trace");
    logger(NCCL_LOG_ABORT, NCCL_TUNING, "file", 1, "abort");
    return ncclSuccess;
}
const ncclTuner_v5_t kLogs{"logs", InitLogs, Ask, Finalize};

TEST(Logger, FormatsCutsAndDropsTraces)
{
    Machine machine = LoadMachine("h200x4");
    Log log;
    Nccl nccl = MakeNccl({nullptr, nullptr, &kLogs, 5});

    Comm comm = MakeComm(nccl, machine);

    ASSERT_EQ(4u, log.lines.size());
    EXPECT_EQ("warn 1", log.lines[2].text);
    EXPECT_EQ(NCCL_LOG_WARN, log.lines[2].level);
    EXPECT_EQ(std::string(1023, 'y'), log.lines[3].text);
    EXPECT_EQ(static_cast<unsigned long>(NCCL_COLL), log.lines[3].flags);
}

} // namespace
