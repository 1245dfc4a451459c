// libnccl-tuner-steptune.so with something else in the place of its files, on
// all ranks: the job runs as if there were no file.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/child.h"
#include "support/comma_locale.h"
#include "support/slow.h"
#include "support/static_plugin_ranks.h"

namespace
{

using namespace static_plugin;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// NCCL versions for every layout of the interface that is in use.
constexpr const char *kInUse[] = {"2.22", "2.24", "2.28", "2.30"};

using StaticPluginFiles = OnAllRanks;

constexpr struct {
    const char *variable;
    const char *overlap; // NCCL_WORKLOAD_OVERLAP
} kHeld[] = {{"NCCL_TUNER_CONFIG_FILE", "0"},
             {"STEPTUNE_OVERLAP_CONFIG_FILE", "1"}};

TEST_F(StaticPluginFiles, AFifoHoldsNoRank)
{
    const std::string fifo = Fifo();

    for (const auto &h : kHeld)
        for (const char *nccl_version : kInUse) {
            SCOPED_TRACE(std::string(h.variable) + " " + nccl_version);
            ClearEnvironment();
            Policy(kPolicy);
            setenv("NCCL_WORKLOAD_OVERLAP", h.overlap, 1);
            setenv(h.variable, fifo.c_str(), 1);
            for (mock_layout layout : {MOCK_PROCESSES, MOCK_ONE_THREAD}) {
                Nccl nccl = Start(nccl_version);
                warnings_.clear();
                Play(8, JoinAll(nccl, nullptr, layout));
            }
            ASSERT_EQ(4u, warnings_.size()); // one a rank
            EXPECT_THAT(warnings_[0], HasSubstr("it is a FIFO"));
        }
}

TEST_F(StaticPluginFiles, AFifoOnOneRankMakesTheOthersStepAsideToo)
{
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n", "a");
    EXPECT_EQ(0, mkfifo((dir_ / "b").c_str(), 0600));
    for (const char *nccl_version : {"2.28", "2.30"})
        for (mock_layout layout : {MOCK_PROCESSES, MOCK_ONE_THREAD}) {
            Nccl nccl = Start(nccl_version);
            Play(8, JoinAll(nccl, OddFileOnRank2, layout));
        }
}

// The rule itself is tested in trust_test.
TEST_F(StaticPluginFiles, APolicyThatAllUsersMayWriteIsNamedAndNotUsed)
{
    const std::string policy = Policy(kPolicy);
    ASSERT_EQ(0, chmod(policy.c_str(), 0666));
    Nccl nccl = Start();
    Comm comm = Join(nccl);

    EXPECT_TRUE(Untouched(Run(comm, ncclFuncAllGather, 2 << 20)));
    EXPECT_THAT(warnings_,
                ElementsAre(AllOf(HasSubstr(policy),
                                  HasSubstr("all users may write it, expected "
                                            "a file that they may not (chmod "
                                            "o-w)"))));
}

TEST_F(StaticPluginFiles, PathsAndWordsStayInTheirLineOfTheLog)
{
    Policy("allreduce,0,inf,tree,ll\033[2J,-1,-1,-1\n", "a\nb\033[31m");
    Nccl nccl = Start();
    Comm comm = Join(nccl);

    EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr("/a\\x0Ab\\x1B[31m:1:"),
                                             HasSubstr("'ll\\x1B[2J'"),
                                             Not(HasSubstr("\n")),
                                             Not(HasSubstr("\033")))));
}

// A process whose files may have no bytes: SIGXFSZ would end it.
TEST_F(StaticPluginFiles, ALimitOfFileSizesEndsNoJob)
{
    char ours[64];
    const std::string policy = Policy(kPolicy);

    setenv("STEPTUNE_LEDGER", dir_.c_str(), 1);
    for (const char *nccl_version : kInUse) {
        const auto run = [&] {
            const struct rlimit none = {0, RLIM_INFINITY};
            const struct rlimit any = {RLIM_INFINITY, RLIM_INFINITY};
            setrlimit(RLIMIT_CORE, &none);
            setrlimit(RLIMIT_FSIZE, &none);
            Nccl nccl = Start(nccl_version);
            const Comm comm = Join(nccl);
            const int algo = Run(comm, ncclFuncAllGather, 2 << 20).algo;
            setrlimit(RLIMIT_FSIZE, &any); // gcov writes at the end
            EXPECT_EQ(NCCL_ALGO_RING, algo);
        };
        EXPECT_EQ(0, StatusOfChild(run)) << nccl_version;
    }
    snprintf(ours, sizeof(ours), "%012llx",
             static_cast<unsigned long long>(id_ >> 16));
    for (const auto &entry : fs::directory_iterator("/dev/shm"))
        EXPECT_THAT(entry.path().string(), Not(HasSubstr(ours)));
    for (const auto &entry : fs::directory_iterator(dir_))
        EXPECT_EQ(policy, entry.path().string()); // no ledger is left
}

} // namespace
