// What is said of a study: tables and sentences.
#include "report/charts/plots.h"

extern "C" {
#include "report/charts/study.h"
}

namespace
{

using namespace plots;
using testing::HasSubstr;
using testing::Not;

std::string Rounds(uint64_t n_bytes, unsigned ranks, double us)
{
    return Row("allreduce", n_bytes, 0, "auto,auto", ranks, us * 0.9) +
           Row("allreduce", n_bytes, 1, "auto,auto", ranks, us * 1.1);
}

std::vector<std::string> Files()
{
    return {Head("pc", "", "", "gloo") + Rounds(1000000, 2, 1000) +
                Rounds(100000000, 2, 80000) + Rounds(1000000, 4, 2000) +
                Rounds(10000000, 4, 12500) + Rounds(100000000, 4, 120000),
            Head("pc", "", "", "mpi") + Rounds(1000000, 2, 2000) +
                Rounds(100000000, 2, 20000) + Rounds(1000000, 4, 500) +
                Rounds(100000000, 4, 60000)};
}

std::string Said(const Curves &c, stp_study_text text)
{
    return Written(
        [&](FILE *fp) { return stp_study_write(&c.all, text, fp, nullptr); });
}

TEST(StudyTexts, ResultsHaveARowACurveAndSize)
{
    Curves c({Head("pc", "", "", "gloo") + Rounds(1000000, 2, 1000) +
                  Row("allreduce", 1000000, 0, "auto,auto", 2, 7, true) +
                  Row("reduce", 64, 0, "auto,auto", 2, 7) +
                  Row("allreduce", 64, 0, "ring,ll", 2, 7),
              Head("pc", "", "", "mpi") + Rounds(8, 4, 4)});

    EXPECT_EQ(
        "# All-reduce: every backend, number of processes and size\n"
        "\n"
        "Mean, median, p95 and p99 are those of a round, averaged over the "
        "rounds; min is the least of all rounds.\n"
        "\n"
        "| backend | processes | nodes | type | op | place | bytes | mean us | "
        "median us | p95 us | p99 us | min us | algbw GB/s | busbw GB/s | "
        "rounds | wrong | times |\n"
        "|---|--:|--:|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|"
        "\n"
        "| gloo | 2 | 1 | f32 | sum | out of | 1000000 | 1000.00 | 1000.00 | "
        "1250.00 | 1500.00 | 900.00 | 1.000 | 1.000 | 2 | 0 | measured |\n"
        "| mpi | 4 | 1 | f32 | sum | out of | 8 | 4.00 | 4.00 | 5.00 | 6.00 | "
        "3.60 | 0.002 | 0.003 | 2 | 0 | measured |\n",
        Said(c, STP_STUDY_RESULTS));
}

TEST(StudyTexts, SummaryHasARowABackendAndNumberOfProcesses)
{
    EXPECT_EQ(
        "# All-reduce: backends and numbers of processes\n"
        "\n"
        "| backend | processes | sizes | shortest us | about 100 MB, ms | peak "
        "busbw GB/s (at) | noisiest size |\n"
        "|---|--:|---|--:|--:|--:|--:|\n"
        "| gloo | 2 | 2 (1 MB to 100 MB) | 1000.00 | 80.000 | 1.250 (100 MB) | "
        "14.1% |\n"
        "| gloo | 4 | 3 (1 MB to 100 MB) | 2000.00 | 120.000 | 1.250 (100 MB) "
        "| 14.1% |\n"
        "| mpi | 2 | 2 (1 MB to 100 MB) | 2000.00 | 20.000 | 5.000 (100 MB) | "
        "14.1% |\n"
        "| mpi | 4 | 2 (1 MB to 100 MB) | 500.00 | 60.000 | 3.000 (1 MB) | "
        "14.1% |\n"
        "\n"
        "Noise is the standard deviation of the rounds' means over their "
        "mean.\n",
        Said(Curves(Files()), STP_STUDY_SUMMARY));
}

// 0.5, 4, 4 and 2 times as fast: 2 in the geometric mean.
TEST(StudyTexts, AnalysisIsFiveSentences)
{
    EXPECT_EQ(
        "mpi is the fastest: 2.00 times as fast as gloo (geometric mean; "
        "faster "
        "at 3 of 4 common points).\n"
        "From 1 MB to 100 MB the time of gloo with 2 processes grows from 1 ms "
        "to 80 ms, 80.0 times for 100 times the data.\n"
        "From 2 to 4 processes, gloo takes 1.50 times as long for 100 MB; from "
        "2 "
        "to 4 processes, mpi takes 3.00 times as long for 100 MB.\n"
        "Bus bandwidth: gloo with 4 processes peaks at 1.25 GB/s (100 MB) and "
        "is within 10 percent of that from 10 MB on; mpi with 4 processes "
        "peaks at 3 GB/s (1 MB) and is within 10 percent of that from 1 MB "
        "on.\n"
        "Rounds scatter by 14 percent of their mean (standard deviation, "
        "median "
        "over all points), at worst by 14 percent (gloo with 2 processes, 1 "
        "MB).\n",
        Said(Curves(Files()), STP_STUDY_ANALYSIS));
}

TEST(StudyTexts, AnalysisComparesOnlyWhatIsComparable)
{
    Curves c({Head("pc", "", "", "gloo") + Auto(1000000, 2, 1000) +
              Auto(2097152, 4, 2000)});

    EXPECT_EQ(
        "gloo with 2 processes takes 1 ms for 1 MB.\n"
        "Bus bandwidth: gloo with 4 processes peaks at 1.573 GB/s (2 MiB) "
        "and is within 10 percent of that from 2 MiB on.\n",
        Said(c, STP_STUDY_ANALYSIS));
}

} // namespace
