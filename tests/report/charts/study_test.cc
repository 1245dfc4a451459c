// What is said of a study: tables and sentences.
#include <regex>

#include "report/charts/plots.h"

extern "C" {
#include "report/charts/study.h"
}

namespace
{

using namespace plots;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

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

// Of all-reduce out of place, and of one that was not checked.
std::vector<std::string> TwoMachines()
{
    return {Head("pc", "", "", "gloo") + Rounds(1000000, 2, 1000) +
                Row("allreduce", 1000000, 0, "auto,auto", 2, 7, true) +
                Row("allreduce", 64, 0, "ring,ll", 2, 7),
            Head("h", "NVIDIA H200", "2.28.9", "nccl") +
                Row("allgather", 64, 0, "auto,auto", 4, 7) +
                Rounds(8, 4, 4.125)};
}

TEST(StudyTexts, ResultsHaveARowACurveAndSize)
{
    EXPECT_EQ(
        "# Every file, collective, number of processes and size, under the "
        "library's own choice\n"
        "\n"
        "Mean, median, p95 and p99 are those of a round, averaged over the "
        "rounds; min is the least of all rounds.\n"
        "\n"
        "| file | collective | backend | machine | GPU | NCCL | processes | "
        "nodes | type | op | place | bytes | mean us | median us | p95 us | "
        "p99 us | min us | algbw GB/s | busbw GB/s | rounds | wrong | times |\n"
        "|---|---|---|---|---|---|--:|--:|---|---|---|--:|--:|--:|--:|--:|--:|"
        "--:|--:|--:|--:|---|\n"
        "| a.csv | allreduce | gloo | pc | - | - | 2 | 1 | f32 | sum | out of "
        "| 1000000 | 1000.00 | 1000.00 | 1250.00 | 1500.00 | 900.00 | 1.000 | "
        "1.000 | 2 | 0 | measured |\n"
        "| b.csv | allgather | nccl | h | NVIDIA H200 | 2.28.9 | 4 | 1 | f32 | "
        "- | out of | 64 | 7.00 | 7.00 | 8.75 | 10.50 | 7.00 | 0.009 | 0.007 | "
        "1 | 0 | measured |\n"
        "| b.csv | allreduce | nccl | h | NVIDIA H200 | 2.28.9 | 4 | 1 | f32 | "
        "sum | out of | 8 | 4.12 | 4.12 | 5.16 | 6.19 | 3.71 | 0.002 | 0.003 | "
        "2 | 0 | measured |\n",
        Said(Curves(TwoMachines()), STP_STUDY_RESULTS));
}

TEST(StudyTexts, CsvHasTheRowsOfAllFiles)
{
    std::vector<std::string> files = TwoMachines();
    files[0] =
        std::regex_replace(files[0], std::regex(",0,measured"), ",,modelled");

    EXPECT_EQ("file,collective,backend,machine,gpu,nccl,nRanks,nNodes,type,op,"
              "in_place,bytes,mean_us,median_us,p95_us,p99_us,min_us,"
              "algbw_gbps,busbw_gbps,rounds,wrong,source\n"
              "a.csv,allreduce,gloo,pc,,,2,1,f32,sum,0,1000000,1000,1000,1250,"
              "1500,900,1,1,2,,modelled\n"
              "b.csv,allgather,nccl,h,NVIDIA H200,2.28.9,4,1,f32,,0,64,7,7,"
              "8.75,10.5,7,0.00914285714,0.00685714286,1,0,measured\n"
              "b.csv,allreduce,nccl,h,NVIDIA H200,2.28.9,4,1,f32,sum,0,8,"
              "4.125,4.125,5.15625,6.1875,3.7125,0.00193939394,0.00290909091,2,"
              "0,measured\n",
              Said(Curves(files), STP_STUDY_CSV));
}

TEST(StudyTexts, SummaryHasARowABackendAndNumberOfProcesses)
{
    EXPECT_EQ(
        "# Files, collectives and numbers of processes, under the library's "
        "own choice\n"
        "\n"
        "| file | collective | backend | machine | GPU | NCCL | processes | "
        "sizes | shortest us | about 100 MB, ms | peak busbw GB/s (at) | "
        "noisiest size | times |\n"
        "|---|---|---|---|---|---|--:|---|--:|--:|--:|--:|---|\n"
        "| a.csv | allreduce | gloo | pc | - | - | 2 | 2 (1 MB to 100 MB) | "
        "1000.00 | 80.000 | 1.250 (100 MB) | 14.1% | measured |\n"
        "| a.csv | allreduce | gloo | pc | - | - | 4 | 3 (1 MB to 100 MB) | "
        "2000.00 | 120.000 | 1.250 (100 MB) | 14.1% | measured |\n"
        "| b.csv | allreduce | mpi | pc | - | - | 2 | 2 (1 MB to 100 MB) | "
        "2000.00 | 20.000 | 5.000 (100 MB) | 14.1% | measured |\n"
        "| b.csv | allreduce | mpi | pc | - | - | 4 | 2 (1 MB to 100 MB) | "
        "500.00 | 60.000 | 3.000 (1 MB) | 14.1% | measured |\n"
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

// Nothing is said of 4 GPUs of one model and 8 of another.
TEST(StudyTexts, AnalysisNamesTheGpusOfSeveralModels)
{
    Curves c({Head("h", "NVIDIA H200", "", "nccl") + Auto(1000000, 4, 20),
              Head("a", "NVIDIA A100", "", "nccl") + Auto(1000000, 8, 40)});

    EXPECT_EQ("nccl, H200 with 4 processes takes 20 us for 1 MB.\n"
              "Bus bandwidth: nccl, H200 with 4 processes peaks at 75 "
              "GB/s (1 MB) and is within 10 percent of that from 1 MB on; "
              "nccl, A100 with 8 processes peaks at 43.75 GB/s (1 MB) "
              "and is within 10 percent of that from 1 MB on.\n",
              Said(c, STP_STUDY_ANALYSIS));
}

TEST(StudyTexts, AnalysisIsAParagraphACollective)
{
    const std::string text =
        Said(Curves({Head("pc", "", "", "gloo") + Auto(1000000, 2, 1000) +
                     Row("allgather", 1000000, 0, "auto,auto", 2, 500)}),
             STP_STUDY_ANALYSIS);

    EXPECT_THAT(text, StartsWith("All-reduce:\n"
                                 "gloo with 2 processes takes 1 ms for 1 MB.\n"
                                 "Bus bandwidth: "));
    EXPECT_THAT(text, HasSubstr("on.\n\nAll-gather:\n"
                                "gloo with 2 processes takes 500 us for 1 MB."
                                "\n"));
}

} // namespace
