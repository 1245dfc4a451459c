// NCCL_TUNER_PLUGIN=STATIC_PLUGIN: a tuner that is part of the program.
//
// A program of its own, because the tuner's symbol is visible to all of it.
#include <gmock/gmock.h>

#include "support/mock_script.h"

using namespace mock_test;
using testing::ElementsAre;

extern "C" {
__attribute__((
    visibility("default"))) extern const ncclTuner_v5_t ncclTunerPlugin_v5;
const ncclTuner_v5_t ncclTunerPlugin_v5 = {"in program", Init, Ask, Finalize};
}

namespace
{

using StaticPlugin = testing::TestWithParam<const char *>;

TEST_P(StaticPlugin, AnyBeginningOfItsNameMeansTheProgram)
{
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl({"2.28", GetParam(), nullptr, 0});
    Log log;

    Comm comm = MakeComm(nccl, machine);

    ASSERT_TRUE(comm);
    EXPECT_EQ(5, mock_comm_tuner_version(comm.get()));
    EXPECT_THAT(log.Texts(),
                ElementsAre(std::string("NCCL_TUNER_PLUGIN set by "
                                        "environment to ") +
                                GetParam(),
                            "TUNER/Plugin: Using in program (v5)",
                            "Successfully loaded external tuner plugin "));
}

INSTANTIATE_TEST_SUITE_P(Words, StaticPlugin,
                         testing::Values("STATIC_PLUGIN", "sTaT", "s"));

TEST(NotStaticPlugin, ALongerWordIsAName)
{
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl({"2.28", "static_plugin2", nullptr, 0});

    Comm comm = MakeComm(nccl, machine);

    EXPECT_EQ(0, mock_comm_tuner_version(comm.get()));
}

} // namespace
