// The tuner that forces arms, as NCCL asks it.
#include "support/mock_folder.h"

extern "C" {
#include "device/arm_tuner.h"
}

using namespace mock_test;

namespace
{

class ArmTuner : public testing::Test
{
  protected:
    ~ArmTuner() override
    {
        stp_arm_tuner_set(&own_);
    }

    // Asks for an all-reduce of 64 MiB on h200x4.
    mock_outcome Ask(const char *version, int tuner_version, const char *name)
    {
        Folder folder;
        folder.WriteAs("h200x4", version);
        const Machine machine = LoadFolder(folder.Path());
        mock_nccl_options options{};
        options.version = version;
        options.static_tuner = &stp_arm_tuner;
        options.static_tuner_version = tuner_version;
        stp_arm arm{};
        EXPECT_TRUE(stp_arm_from_name(name, strlen(name), &arm));
        stp_arm_tuner_set(&arm);
        return OnMachine(machine, Call(ncclFuncAllReduce, 64 << 20), options);
    }

    static std::vector<std::pair<int, int>> AllPairs()
    {
        std::vector<std::pair<int, int>> pairs;
        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
                pairs.emplace_back(a, p);
        return pairs;
    }

    const stp_arm own_{STP_ARM_AUTO, 0, 0, 0, 0, {}};
};

TEST_F(ArmTuner, AsksForAChunkWhereNcclAsksForOne)
{
    const mock_outcome chunked = Ask("2.30.7", 6, "ring/simple/chunk=128K");

    EXPECT_EQ(NCCL_ALGO_RING, chunked.algo);
    EXPECT_EQ(NCCL_PROTO_SIMPLE, chunked.proto);
    EXPECT_EQ(128u << 10, chunked.chunk_bytes);
    EXPECT_EQ(0u, Ask("2.30.7", 6, "ring/simple").chunk_bytes);
    EXPECT_EQ(0u, Ask("2.28.9", 5, "ring/simple/chunk=128K").chunk_bytes);
}

// A setup is the communicator's and its buffers', and no tuner's.
TEST_F(ArmTuner, LeavesNcclsOwnChoiceToItsArms)
{
    const mock_outcome own = Ask("2.30.7", 6, "auto");

    for (const auto &[name, chunk_bytes] :
         {std::pair{"auto/chunk=64K", 64u << 10}, {"sym/ctas=8", 0u}}) {
        const mock_outcome ran = Ask("2.30.7", 6, name);
        EXPECT_EQ(own.algo, ran.algo);
        EXPECT_EQ(own.proto, ran.proto);
        EXPECT_EQ(own.n_channels, ran.n_channels);
        EXPECT_EQ(chunk_bytes, ran.chunk_bytes);
    }
}

// Each pair that NCCL has not ruled out for a call runs under its arm, alone
// and in a group with calls of other collectives and types, whichever tuners
// this NCCL loads; where it is ruled out, NCCL chooses as without a tuner.
TEST_F(ArmTuner, ForcesWhatEachNcclCanRunAndNothingElse)
{
    size_t n_forced = 0, n_left = 0;

    for (const char *version :
         {"2.21.5", "2.22.3", "2.23.4", "2.24.3", "2.25.1", "2.26.5", "2.27.7",
          "2.28.9", "2.29.2", "2.30.7", "2.31.2", "2.32.3", "2.32.6"})
        for (const char *name : {"h100x8", "h100n2x8", "a100x8"}) {
            Folder folder;
            folder.WriteAs(name, version);
            const Machine machine = LoadFolder(folder.Path());
            mock_nccl_options options{};
            options.version = version;
            const Nccl alone = MakeNccl(options);
            const Comm own = MakeComm(alone, machine);
            options.static_tuner = &stp_arm_tuner;
            options.static_tuner_version = 5;
            options.static_always = true;
            const Nccl forced = MakeNccl(options);
            const Comm comm = MakeComm(forced, machine);
            ASSERT_EQ(5, mock_comm_tuner_version(comm.get())) << version;

            std::vector<mock_call> calls;
            for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
                for (const bool no_nvls : {false, true}) {
                    calls.push_back(Call(static_cast<ncclFunc_t>(c), 1 << 20));
                    calls.back().no_nvls = no_nvls;
                    calls.back().kind = no_nvls;
                }
            std::vector<mock_outcome> ran(calls.size()), auto_(calls.size());
            ASSERT_EQ(ncclSuccess, mock_comm_group(own.get(), calls.data(),
                                                   calls.size(), auto_.data()));
            for (const auto &[a, p] : AllPairs()) {
                const stp_arm arm{STP_ARM_FORCED, a, p, 0, 0, {}};
                stp_arm_tuner_set(&arm);
                ASSERT_EQ(ncclSuccess,
                          mock_comm_group(comm.get(), calls.data(),
                                          calls.size(), ran.data()))
                    << version << mock_last_error();
                for (size_t i = 0; i < calls.size(); i++) {
                    const bool can = auto_[i].cost[a][p] >= 0;
                    EXPECT_EQ(can ? a : auto_[i].algo, ran[i].algo)
                        << version << name << i;
                    EXPECT_EQ(can ? p : auto_[i].proto, ran[i].proto)
                        << version << name << i;
                    (can ? n_forced : n_left)++;
                }
                mock_outcome one;
                ASSERT_EQ(ncclSuccess,
                          mock_comm_collective(comm.get(), &calls[0], &one));
                EXPECT_EQ(ran[0].algo, one.algo);
            }
        }
    EXPECT_GT(n_forced, 1000u);
    EXPECT_GT(n_left, 1000u);
}

} // namespace
