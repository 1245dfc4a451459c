// `steptune report` as a user runs it.
#include <fstream>
#include <sstream>

#include "support/cli_fixture.h"

namespace
{

using namespace cli;
using namespace testing;

class CliReport : public Cli
{
};

TEST_F(CliReport, MakesOnePageOfWhatTuneWrote)
{
    ASSERT_EQ(
        0, Run("tune --on h200x4 --collectives allgather -o my.conf").status);
    const Outcome o = Run("report my.conf");

    EXPECT_EQ(0, o.status);
    EXPECT_THAT(o.err, IsEmpty());
    EXPECT_THAT(o.out, StartsWith("On 4 x NVIDIA H200 with NCCL 2.28.9 this "
                                  "policy makes allgather up to 1."));
    EXPECT_THAT(o.out, EndsWith("\nWrote report.html.\n"));
    const std::string page = Read("report.html");
    EXPECT_THAT(page, StartsWith("<!doctype html>\n"));
    EXPECT_THAT(page, EndsWith("</html>\n"));
    EXPECT_THAT(page, HasSubstr(Read("my.conf").substr(0, 15)));
    EXPECT_THAT(page, HasSubstr("this is not a live measurement."));
    EXPECT_EQ(std::string::npos, page.find(dir_.string()));
}

TEST_F(CliReport, TakesAFolderAndATitleAndPrintsFigures)
{
    fs::create_directory(dir_ / "run");
    ASSERT_EQ(
        0,
        Run("tune --on h200x4 --collectives allgather -o run/my.conf").status);
    const Outcome o =
        Run("report run -o page.html --title 'Four & more' --json");

    ASSERT_EQ(0, o.status);
    const Json json = Parse(o.out);
    EXPECT_THAT(String(json.get(), "summary"), HasSubstr("makes allgather"));
    EXPECT_LT(0, Number(json.get(), "sizes"));
    EXPECT_LT(0, Number(json.get(), "changed"));
    EXPECT_EQ(0, Number(json.get(), "slower"));
    EXPECT_LT(1, Number(json.get(), "mean_gain"));
    const cJSON *best = cJSON_GetObjectItem(json.get(), "best");
    EXPECT_EQ("allgather", String(best, "collective"));
    EXPECT_LT(1, Number(best, "gain_low"));
    EXPECT_THAT(Read("page.html"), HasSubstr("<h1>Four &amp; more</h1>"));
    EXPECT_THAT(Files(), ElementsAre("page.html", "run"));
}

TEST_F(CliReport, ShowsTheIterationsOfAFolder)
{
    ASSERT_EQ(0,
              Run("iterate --on h200x4 --rounds 2 --iters 5 -o steps").status);
    const Outcome o = Run("report steps");

    EXPECT_EQ(0, o.status);
    EXPECT_THAT(o.out, HasSubstr("training iterations, without a policy."));
    EXPECT_THAT(Read("report.html"),
                HasSubstr("overlap: allreduce of 16 MiB, 8 layers of gemm"));
}

// What a run on GPUs left (fixtures/reports/README.md): anyone can make it
// again.
TEST_F(CliReport, MakesTheSamePageOfTheSameData)
{
    const std::string sample = STP_FIXTURES "/reports/h200x2/steptune";
    const Outcome o = Run("report " + sample + ".conf");

    ASSERT_EQ(0, o.status) << o.err;
    std::stringstream committed;
    committed << std::ifstream(sample + ".report.html").rdbuf();
    EXPECT_TRUE(Read("report.html") == committed.str())
        << "made otherwise now: `steptune report` it anew, and look at it";
}

TEST_F(CliReport, FailsInOneSentenceAndWritesNothing)
{
    Write("bad.conf", "allreduce,1\n");
    Write("good.conf", "# nothing\n");
    ExpectRefusals("",
                   {
                       {"report", 2, "nothing to report, expected a policy"},
                       {"report none.conf", 1,
                        "steptune report: cannot read 'none.conf': No"},
                       {"report bad.conf", 1, "steptune report: bad.conf:1:"},
                       {"report good.conf", 1,
                        "steptune report: no measurements, expected"},
                   });
    EXPECT_THAT(Files(), ElementsAre("bad.conf", "good.conf"));
}

} // namespace
