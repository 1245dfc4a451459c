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

TEST_F(ArmTuner, AsksForAChunkOfNcclsOwnChoiceToo)
{
    const mock_outcome own = Ask("2.30.7", 6, "auto");
    const mock_outcome chunked = Ask("2.30.7", 6, "auto/chunk=64K");

    EXPECT_EQ(own.algo, chunked.algo);
    EXPECT_EQ(own.proto, chunked.proto);
    EXPECT_EQ(own.n_channels, chunked.n_channels);
    EXPECT_EQ(64u << 10, chunked.chunk_bytes);
}

// A setup is the communicator's and its buffers', and no tuner's.
TEST_F(ArmTuner, LeavesSetupsAlone)
{
    const mock_outcome own = Ask("2.30.7", 6, "auto");
    const mock_outcome setup = Ask("2.30.7", 6, "sym/ctas=8");

    EXPECT_EQ(own.algo, setup.algo);
    EXPECT_EQ(own.proto, setup.proto);
    EXPECT_EQ(0u, setup.chunk_bytes);
}

} // namespace
