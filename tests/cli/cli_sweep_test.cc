// steptune sweep that is interrupted, and of which ranks die.
#include <csignal>

#include "support/cli_fixture.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

const std::string kGloo = "sweep --backend gloo --rounds 2 -n 3 -w 1 ";

class CliSweep : public Cli
{
  protected:
    void SetUp() override
    {
        Cli::SetUp();
        if (Run("sweep --backend gloo --procs 1 -b 8 -e 8 -n 1").status == 77)
            GTEST_SKIP() << "this build has no Gloo";
    }
};

TEST_F(CliSweep, SaysWhichRankDiedAndKeepsWhatItHad)
{
    pid_t child = Start(kGloo + "--procs 3 -b 8 -e 256M -o s.csv");
    WaitForFile("s.csv");
    const std::vector<pid_t> ranks = ChildrenOf(child);
    ASSERT_EQ(3u, ranks.size());

    kill(ranks.back(), SIGKILL);

    EXPECT_EQ(1, Wait(child));
    EXPECT_THAT(Read("err"),
                ContainsRegex("rank [0-9] \\(process [0-9]+\\) was killed "
                              "by signal 9"));
    EXPECT_EQ(1u, Count(Read("err"), "\n")) << Read("err");
    EXPECT_GE(Count(Read("s.csv"), "allreduce,"), 4u);
}

TEST_F(CliSweep, StopsInOrderWhenInterrupted)
{
    STP_SLOW();
    pid_t child = Start(kGloo + "--procs 2 -b 8 -e 256M -o s.csv");
    WaitForFile("s.csv");

    kill(-child, SIGINT);

    EXPECT_EQ(1, Wait(child));
    EXPECT_THAT(
        Read("err"),
        MatchesRegex("steptune sweep: stopped after [0-9]+ of 26 sizes\n"));
    EXPECT_THAT(Read("out"), HasSubstr("# Avg bus bandwidth"));
    EXPECT_EQ(0u, Count(Read("s.csv"), "allreduce,") % 4);
}

} // namespace
