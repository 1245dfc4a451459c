// steptune iterate that is interrupted, and of which ranks die.
#include <csignal>

#include "support/cli_fixture.h"
#include "support/slow.h"
#include "support/with_param.h"

namespace
{

using namespace cli;
using namespace testing;

class Iterate : public Cli
{
  protected:
    // The lines of a CSV file that are rows.
    std::vector<std::string> Rows(const char *name) const
    {
        std::vector<std::string> rows;
        bool is_head = true;
        for (const std::string &line : SplitLines(Read(name))) {
            if (line[0] == '#')
                continue;
            if (!is_head)
                rows.push_back(line);
            is_head = false;
        }
        return rows;
    }
};

TEST_F(Iterate, KeepsCompleteRoundsWhenInterrupted)
{
    pid_t child = Start("iterate --on h200x4 --no-plots --mode all -n 400 "
                        "--bytes 1M,2M,3M,4M,5M,6M,7M,8M,9M,10M,11M,12M "
                        "--ratio 0.5,0.6,0.7,0.8,0.9,1 --arms auto,ll128 "
                        "-o dir");
    WaitForFile("dir/rounds.csv");

    kill(-child, SIGINT);

    EXPECT_EQ(1, Wait(child));
    EXPECT_THAT(Read("err"), MatchesRegex("steptune iterate: stopped after "
                                          "[0-9]+ of [0-9]+ rounds\n"));
    EXPECT_THAT(Read("out"), HasSubstr("ll128"));
    EXPECT_EQ(0u, Rows("dir/rounds.csv").size() % 2);
    EXPECT_NE(nullptr, Parse(Read("dir/summary.json")));
    EXPECT_THAT(Files("dir"), Each(Not(HasSubstr("tmp"))));
}

class IterateOnCpus : public Iterate
{
  protected:
    void SetUp() override
    {
        Cli::SetUp();
        if (Run("iterate --backend gloo --procs 1 --bytes 1K --rounds 1 -n 1")
                .status == 77)
            GTEST_SKIP() << "this build has no Gloo";
    }
};

const std::string kGloo = "iterate --backend gloo --no-plots -w 1 ";

// Rank 0, which is forked last, is the one that writes.
using DeathOnCpus = WithParam<IterateOnCpus, bool>;

TEST_P(DeathOnCpus, IsToldAndLeavesWholeFiles)
{
    const bool of_writer = GetParam();
    if (of_writer)
        STP_SLOW();
    pid_t child = Start(kGloo + "--procs 3 --bytes 64K "
                                "--rounds 100000 -n 5 -o dir");
    WaitForFile("dir/rounds.csv");
    const std::vector<pid_t> ranks = ChildrenOf(child);
    ASSERT_EQ(3u, ranks.size());

    kill(of_writer ? ranks.back() : ranks.front(), SIGKILL);

    EXPECT_EQ(1, Wait(child));
    EXPECT_THAT(Read("err"),
                ContainsRegex(std::string("rank ") + (of_writer ? "0" : "1") +
                              " \\(process [0-9]+\\) was killed by signal 9"));
    EXPECT_EQ(1u, Count(Read("err"), "\n")) << Read("err");
    EXPECT_GE(Rows("dir/rounds.csv").size(), 2u);
    EXPECT_EQ(0u, Rows("dir/rounds.csv").size() % 2);
    EXPECT_EQ('\n', Read("dir/rounds.csv").back());
    if (!of_writer) {
        EXPECT_NE(nullptr, Parse(Read("dir/summary.json")));
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeathOnCpus, Bool(), [](const auto &i) {
    return i.param ? "writer" : "other";
});

TEST_F(IterateOnCpus, StopsInOrderWhenInterrupted)
{
    pid_t child = Start(kGloo + "--procs 2 --bytes 64K "
                                "--rounds 100000 -n 5 -o dir");
    WaitForFile("dir/rounds.csv");

    kill(-child, SIGINT);

    EXPECT_EQ(1, Wait(child));
    EXPECT_THAT(Read("err"), MatchesRegex("steptune iterate: stopped after "
                                          "[0-9]+ of 100000 rounds\n"));
    EXPECT_EQ(0u, Rows("dir/rounds.csv").size() % 2);
}

} // namespace
