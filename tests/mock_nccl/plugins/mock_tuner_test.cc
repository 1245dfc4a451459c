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

using Echo = testing::TestWithParam<EchoCase>;

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

// The outcome of an all-reduce for which a tuner of 2.21 answers this pair.
mock_outcome Choose(mock_comm *comm, int algo, int proto)
{
    const mock_call call = Call(ncclFuncAllReduce, 1 << 20);
    mock_outcome outcome;

    on_ask = [=](const Asked &asked) {
        *asked.algo = algo;
        *asked.proto = proto;
        return ncclSuccess;
    };
    EXPECT_EQ(ncclSuccess, mock_comm_collective(comm, &call, &outcome))
        << mock_last_error();
    return outcome;
}

TEST(V2, PairsThatNcclHasRuledOutOrDoesNotKnowChangeNothing)
{
    const std::pair<int, int> cases[] = {{NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE},
                                         {NCCL_ALGO_RING, -1},
                                         {-1, NCCL_PROTO_LL},
                                         {NCCL_ALGO_RING, 3},
                                         {NCCL_ALGO_TREE, 3},
                                         {7, NCCL_PROTO_SIMPLE}};
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl(WithScript(nullptr, 2));
    Comm comm = MakeComm(nccl, machine);

    for (auto [algo, proto] : cases) {
        mock_outcome got = Choose(comm.get(), algo, proto);
        EXPECT_EQ(NCCL_ALGO_RING, got.algo);
        EXPECT_EQ(NCCL_PROTO_LL, got.proto);
        EXPECT_EQ(0, memcmp(got.cost, got.cost_after, sizeof(got.cost)));
    }
    ForgetScript();
}

// ---- init ----

class Init : public Scripted
{
  protected:
    // Inits edit the constants, and return 'rc'.
    static void Edit(void (*edit)(ncclTunerConstants_v5_t *),
                     ncclResult_t rc = ncclSuccess)
    {
        on_init = [=](const Joined &joined) {
            *joined.context = joined.constants;
            edit(joined.constants);
            return rc;
        };
    }
    // The error of a communicator that cannot be created.
    std::string Error(const mock_nccl_options &options, ncclResult_t rc)
    {
        Nccl nccl = MakeNccl(options);
        mock_comm *comm = nullptr;
        on_finalize = [this](void *context) {
            n_finalized_ += context != nullptr;
            return ncclSuccess;
        };
        EXPECT_EQ(rc, mock_comm_create(nccl.get(), machine_.get(), 1, &comm));
        EXPECT_EQ(nullptr, comm);
        return mock_last_error();
    }

    Machine machine_ = LoadMachine("h200x4");
    int n_finalized_ = 0;
};

TEST_F(Init, EditsOfTheConstantsShapeTheModelOfThatCommunicatorOnly)
{
    Nccl nccl = MakeNccl(WithScript());
    mock_call call = Call(ncclFuncBroadcast, 1 << 20);
    mock_outcome edited, plain;
    Edit([](ncclTunerConstants_v5_t *c) {
        c->llMaxBws[NCCL_HOPPER_COMPCAP_IDX][0] = 10;
        c->baseLatencies[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 100;
        c->hwLatencies[NCCL_HW_NVLINK][NCCL_ALGO_RING][NCCL_PROTO_LL128] = 50;
        c->perChMaxRingLL128Bws[NCCL_HOPPER_COMPCAP_IDX][0] = 1;
    });
    Comm first = MakeComm(nccl, machine_);
    Edit([](ncclTunerConstants_v5_t *) {});
    Comm second = MakeComm(nccl, machine_);

    ASSERT_EQ(ncclSuccess, mock_comm_collective(first.get(), &call, &edited));
    ASSERT_EQ(ncclSuccess, mock_comm_collective(second.get(), &call, &plain));

    const float *ring = edited.cost[NCCL_ALGO_RING];
    EXPECT_NEAR(6.6 + .6 + 1048576 / 10e3, ring[NCCL_PROTO_LL], 1e-4);
    EXPECT_NEAR(14 + 50 + 1048576 / 12e3, ring[NCCL_PROTO_LL128], 1e-4);
    EXPECT_NEAR(100 + 3.4 + 1048576 / 360e3, ring[NCCL_PROTO_SIMPLE], 1e-4);
    EXPECT_EQ("14.637", Printed(plain.cost[NCCL_ALGO_RING][NCCL_PROTO_LL]));
}

TEST_F(Init, FailureFailsTheCommunicatorWithItsCodeAndStillFinalizesV5)
{
    Edit([](ncclTunerConstants_v5_t *) {}, ncclInvalidUsage);

    EXPECT_EQ("tuner 'scripted': init returned 5 (ncclInvalidUsage)",
              Error(WithScript(), ncclInvalidUsage));
    EXPECT_EQ(1, n_finalized_);
}

TEST_F(Init, FailureOfAWrappedTunerSkipsTheFinalizeThatNcclWouldCrashIn)
{
    Log log;

    EXPECT_EQ("tuner 'init fails': init returned 5 (ncclInvalidUsage); "
              "NCCL would then crash in ncclCommAbort",
              Error({"2.28", "init_fails_v4"}, ncclInvalidUsage));
    EXPECT_THAT(log.Texts(), Not(Contains(HasSubstr("destroy"))));
    EXPECT_EQ("TUNER/Plugin: Closing tuner: 'init fails'", log.Texts().back());
}

TEST_F(Init, FailureOfAV4TunerFinalizesItWhereV4IsTheNewest)
{
    Log log;

    Error({"2.27", "init_fails_v4"}, ncclInvalidUsage);

    EXPECT_THAT(log.Texts(), Contains("destroy: context NULL"));
}

TEST_F(Init, FailureOfAWrappedTunerAfterASuccessDoesFinalize)
{
    Nccl nccl = MakeNccl(WithScript("2.28", 4));
    mock_comm *second = nullptr;
    int n_inits = 0;
    on_init = [&](const Joined &joined) {
        *joined.context = &n_inits;
        return ++n_inits == 1 ? ncclSuccess : ncclSystemError;
    };
    on_finalize = [&](void *context) {
        n_finalized_ += context == &n_inits;
        return ncclSuccess;
    };
    Comm first = MakeComm(nccl, machine_);

    EXPECT_EQ(ncclSystemError,
              mock_comm_create(nccl.get(), machine_.get(), 1, &second));

    EXPECT_EQ(1, n_finalized_);
    EXPECT_STREQ("tuner 'scripted': init returned 2 (ncclSystemError)",
                 mock_last_error());
    first.reset();
}

TEST_F(Init, ATunerWithANullFunctionFailsTheCommunicator)
{
    const ncclTuner_v5_t half{"half", mock_test::Init, nullptr, Finalize};

    EXPECT_EQ("tuner 'half' has a NULL function, which NCCL would call",
              Error({nullptr, nullptr, &half, 5}, ncclInternalError));
}

// ---- the logger ----

TEST(Logger, FormatsCutsAndDropsTraces)
{
    Machine machine = LoadMachine("h200x4");
    Log log;
    Nccl nccl = MakeNccl(WithScript());
    on_init = [](const Joined &joined) {
        std::string line(2000, 'y');
        joined.log(NCCL_LOG_WARN, NCCL_TUNING, "file", 1, "warn %d", 1);
        joined.log(NCCL_LOG_INFO, NCCL_COLL, "file", 1, "%s", line.c_str());
        joined.log(NCCL_LOG_TRACE, NCCL_TUNING, "file", 1, "trace");
        joined.log(NCCL_LOG_ABORT, NCCL_TUNING, "file", 1, "abort");
        return ncclSuccess;
    };

    Comm comm = MakeComm(nccl, machine);
    ForgetScript();

    ASSERT_EQ(4u, log.lines.size());
    EXPECT_EQ("warn 1", log.lines[2].text);
    EXPECT_EQ(NCCL_LOG_WARN, log.lines[2].level);
    EXPECT_EQ(std::string(1023, 'y'), log.lines[3].text);
    EXPECT_EQ(static_cast<unsigned long>(NCCL_COLL), log.lines[3].flags);
}

TEST(Logger, PassesOnWhatItsReceiverWantsUntilAnotherIsSet)
{
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl(WithScript());
    on_init = [](const Joined &joined) {
        joined.log(NCCL_LOG_WARN, NCCL_TUNING, "file", 1, "warn");
        joined.log(NCCL_LOG_INFO, NCCL_COLL, "file", 1, "info");
        return ncclSuccess;
    };

    Log warnings;
    mock_set_log_level(NCCL_LOG_WARN);
    Comm comm = MakeComm(nccl, machine);
    EXPECT_THAT(warnings.Texts(), testing::ElementsAre("warn"));

    Log all;
    mock_set_log_level(NCCL_LOG_TRACE); // NCCL's loggers end with INFO
    Comm other = MakeComm(nccl, machine);
    ForgetScript();
    EXPECT_THAT(all.Texts(), testing::IsSupersetOf({"warn", "info"}));
}

} // namespace
