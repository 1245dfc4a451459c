// libsteptune_memory, as a program has it that links with it.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>

#include "steptune_memory.h"
#include "support/in_folder.h"

namespace
{

using testing::StrEq;

const char kPolicy[] = "collective,min_bytes,max_bytes,memory,nNodes,nRanks,"
                       "overlap,gpu\n"
                       "allreduce,1M,4M,sym,1,2-4,0,*\n"
                       "allreduce,1M,4M,reg,1,2-4,1,*\n"
                       "allgather,0,inf,ce,-1,-1,-1,H200\n";

class SteptuneMemory : public InFolder
{
  protected:
    void SetUp() override
    {
        Unset();
    }
    void TearDown() override
    {
        steptune_memory_close(policy_);
        Unset();
    }
    static void Unset()
    {
        for (const char *name : {"STEPTUNE_MEMORY_CONFIG_FILE",
                                 "NCCL_TUNER_CONFIG_FILE", "STEPTUNE_GPU"})
            unsetenv(name);
    }
    int Open(const char *path)
    {
        steptune_memory_close(policy_);
        policy_ = nullptr;
        text_[0] = '\0';
        return steptune_memory_open(path, &policy_, text_, sizeof(text_));
    }
    int Ask(const char *collective, uint64_t n_bytes, uint64_t n_ranks = 2,
            uint64_t n_nodes = 1, int overlaps = 0)
    {
        const steptune_memory_call call{collective, n_bytes, n_ranks, n_nodes,
                                        overlaps};
        return steptune_memory_ask(policy_, &call);
    }
    steptune_memory_policy *policy_ = nullptr;
    char text_[300] = "";
};

TEST_F(SteptuneMemory, AnswersAsTheFileSays)
{
    setenv("STEPTUNE_GPU", "H200", 1);
    ASSERT_EQ(STEPTUNE_MEMORY_OK, Open(Write("p", kPolicy).c_str()));
    EXPECT_THAT(text_, StrEq(""));

    EXPECT_EQ(STEPTUNE_MEMORY_PLAIN, Ask("allreduce", (1 << 20) - 1));
    EXPECT_EQ(STEPTUNE_MEMORY_SYM, Ask("allreduce", 1 << 20));
    EXPECT_EQ(STEPTUNE_MEMORY_SYM, Ask("allreduce", 4 << 20, 4));
    EXPECT_EQ(STEPTUNE_MEMORY_PLAIN, Ask("allreduce", (4 << 20) + 1));
    EXPECT_EQ(STEPTUNE_MEMORY_PLAIN, Ask("allreduce", 1 << 20, 5));
    EXPECT_EQ(STEPTUNE_MEMORY_PLAIN, Ask("allreduce", 1 << 20, 4, 2));
    EXPECT_EQ(STEPTUNE_MEMORY_REG, Ask("allreduce", 1 << 20, 2, 1, 1));
    EXPECT_EQ(STEPTUNE_MEMORY_CE, Ask("allgather", UINT64_MAX, 72, 9, 1));
    EXPECT_EQ(STEPTUNE_MEMORY_PLAIN, Ask("broadcast", 1 << 20));
}

TEST_F(SteptuneMemory, SaysHowManyCtasTheCommunicatorIsToHave)
{
    const steptune_memory_call call{"allreduce", 1 << 20, 2, 1, 0};
    const steptune_memory_call larger{"allreduce", (1 << 20) + 1, 2, 1, 0};
    const steptune_memory_call none{"all_reduce", 8, 2, 1, 0};
    const steptune_memory_call no_ranks{"allreduce", 8, 0, 1, 0};
    ASSERT_EQ(STEPTUNE_MEMORY_OK,
              Open(Write("p", "collective,max_bytes,memory,min_ctas\n"
                              "allreduce,1M,sym,32\nallreduce,inf,sym,0\n")
                       .c_str()));

    EXPECT_EQ(32, steptune_memory_min_ctas(policy_, &call));
    EXPECT_EQ(0, steptune_memory_min_ctas(policy_, &larger));
    EXPECT_EQ(-1, steptune_memory_min_ctas(policy_, &none));
    EXPECT_EQ(-1, steptune_memory_min_ctas(policy_, &no_ranks));
    EXPECT_EQ(STEPTUNE_MEMORY_SYM, Ask("allreduce", 1 << 20));

    ASSERT_EQ(STEPTUNE_MEMORY_NO_FILE, Open("no_such_file"));
    EXPECT_EQ(0, steptune_memory_min_ctas(policy_, &call));
}

// As the plugins; the rule itself is tested in trust_test.
TEST_F(SteptuneMemory, ReadsNoFifoAndNothingThatAllUsersMayWrite)
{
    const std::string path = Write("p", kPolicy);

    const std::string fifo = path + ".fifo";

    ASSERT_EQ(0, mkfifo(fifo.c_str(), 0600));
    EXPECT_EQ(STEPTUNE_MEMORY_FAILED, Open(fifo.c_str()));
    EXPECT_THAT(text_,
                StrEq(fifo + ": cannot be opened: it is a FIFO, a socket or a "
                             "device, expected a regular file"));
    ASSERT_EQ(0, chmod(path.c_str(), 0666));
    EXPECT_EQ(STEPTUNE_MEMORY_FAILED, Open(path.c_str()));
    EXPECT_THAT(text_, testing::EndsWith(
                           "cannot be opened: all users may write it, expected "
                           "a file that they may not (chmod o-w)"));
}

TEST_F(SteptuneMemory, AnswersNoQuestionThatIsNone)
{
    ASSERT_EQ(STEPTUNE_MEMORY_OK, Open(Write("p", kPolicy).c_str()));

    EXPECT_EQ(-1, Ask("all_reduce", 1 << 20));
    EXPECT_EQ(-1, Ask("", 1 << 20));
    EXPECT_EQ(-1, Ask("allreduce", 1 << 20, 0));
    EXPECT_EQ(-1, Ask("allreduce", 1 << 20, 2, 0));
}

TEST_F(SteptuneMemory, KnowsTheGpuOnlyIfSomebodyNamesIt)
{
    setenv("STEPTUNE_GPU", "H100", 1);
    ASSERT_EQ(STEPTUNE_MEMORY_OK, Open(Write("p", kPolicy).c_str()));

    EXPECT_EQ(STEPTUNE_MEMORY_PLAIN, Ask("allgather", 8));
}

TEST_F(SteptuneMemory, FindsTheFileByVariables)
{
    const std::string sym = Write("a.conf.memory", "collective,memory\n"
                                                   "allreduce,sym\n");
    const std::string ce = Write("b", "collective,memory\nallreduce,ce\n");

    setenv("NCCL_TUNER_CONFIG_FILE", Path("a.conf").c_str(), 1);
    ASSERT_EQ(STEPTUNE_MEMORY_OK, Open(nullptr)) << text_;
    EXPECT_EQ(STEPTUNE_MEMORY_SYM, Ask("allreduce", 64 << 20));
    setenv("STEPTUNE_MEMORY_CONFIG_FILE", ce.c_str(), 1);
    ASSERT_EQ(STEPTUNE_MEMORY_OK, Open(nullptr)) << text_;
    EXPECT_EQ(STEPTUNE_MEMORY_CE, Ask("allreduce", 8));
    ASSERT_EQ(STEPTUNE_MEMORY_OK, Open(sym.c_str())) << text_;
    EXPECT_EQ(STEPTUNE_MEMORY_SYM, Ask("allreduce", 64 << 20));
}

TEST_F(SteptuneMemory, SaysThatThereIsNoFileAndAnswersPlain)
{
    setenv("NCCL_TUNER_CONFIG_FILE", Path("none.conf").c_str(), 1);

    EXPECT_EQ(STEPTUNE_MEMORY_NO_FILE, Open(nullptr));

    EXPECT_EQ("there is no memory policy " + Path("none.conf.memory") +
                  ": buffers stay plain",
              text_);
    EXPECT_EQ(STEPTUNE_MEMORY_PLAIN, Ask("allreduce", 1 << 20));
    EXPECT_EQ(-1, Ask("all_reduce", 1 << 20));
}

TEST_F(SteptuneMemory, RefusesWhatItCannotRead)
{
    const std::string path = Write("p", "collective,memory\nallreduce,symm\n");

    EXPECT_EQ(STEPTUNE_MEMORY_REFUSED, Open(path.c_str()));
    EXPECT_EQ(path + ":2:11: unknown memory 'symm', expected plain, reg, sym, "
                     "ce",
              text_);
    EXPECT_EQ(nullptr, policy_);
    EXPECT_EQ(STEPTUNE_MEMORY_FAILED, Open(Path(".").c_str()));
    EXPECT_EQ(Path(".") + ": is a directory", text_);
    EXPECT_EQ(nullptr, policy_);
}

TEST_F(SteptuneMemory, CutsTextsToTheirRoom)
{
    const std::string path = Write("p", "collective,memory\nallreduce,symm\n");
    char text[8] = "#######";

    EXPECT_EQ(STEPTUNE_MEMORY_REFUSED,
              steptune_memory_open(path.c_str(), &policy_, text, 5));
    EXPECT_EQ(path.substr(0, 4), text);
    EXPECT_EQ('#', text[5]);
    EXPECT_EQ(STEPTUNE_MEMORY_REFUSED,
              steptune_memory_open(path.c_str(), &policy_, nullptr, 0));
    EXPECT_EQ(STEPTUNE_MEMORY_NO_FILE,
              steptune_memory_open(Path("q").c_str(), &policy_, nullptr, 0));
}

} // namespace
