// A study in words: tables and sentences.
#include <regex>

#include "report/charts/plots.h"

extern "C" {
#include "report/charts/plot.h"
}

namespace
{

using namespace plots;
using testing::HasSubstr;
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
    return Written([&](FILE *fp) { stp_study_write(&c.all, text, fp); });
}

// All-reduces out of place, and one that was not checked.
std::vector<std::string> TwoMachines()
{
    return {Head("pc", "", "", "gloo") + Rounds(1000000, 2, 1000) +
                Row("allreduce", 1000000, 0, "auto,auto", 2, 7, true) +
                Row("allreduce", 64, 0, "ring,ll", 2, 7),
            Head("h", "NVIDIA H200", "2.28.9", "nccl") +
                Row("allgather", 64, 0, "auto,auto", 4, 7) +
                Rounds(8, 4, 4.125)};
}

TEST(StudyTexts, AreExact)
{
    const Curves machines(TwoMachines()), files(Files());
    std::vector<std::string> unchecked = TwoMachines();
    unchecked[0] = std::regex_replace(unchecked[0], std::regex(",0,measured"),
                                      ",,modelled");

    EXPECT_GOLDEN("study_full_results.md", Said(machines, STP_STUDY_RESULTS));
    EXPECT_GOLDEN("study_combined_benchmark.csv",
                  Said(Curves(unchecked), STP_STUDY_CSV));
    EXPECT_GOLDEN("study_summary_by_config.md", Said(files, STP_STUDY_SUMMARY));
    // 0.5, 4, 4 and 2 times as fast: 2 in the geometric mean
    EXPECT_GOLDEN("study_analysis.txt", Said(files, STP_STUDY_ANALYSIS));
}

TEST(StudyTexts, AnalysisComparesOnlyWhatIsComparable)
{
    Curves c({Head("pc", "", "", "gloo") + Auto(1000000, 2, 1000) +
              Auto(2097152, 4, 2000)});

    EXPECT_EQ(
        "Times of pc, gloo, measured.\n\n"
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

    EXPECT_EQ("Times of h, NVIDIA H200, nccl, measured; a, NVIDIA A100, nccl, "
              "measured.\n\n"
              "nccl, H200 with 4 processes takes 20 us for 1 MB.\n"
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

    EXPECT_THAT(text, StartsWith("Times of pc, gloo, measured.\n\nAll-reduce:\n"
                                 "gloo with 2 processes takes 1 ms for 1 MB.\n"
                                 "Bus bandwidth: "));
    EXPECT_THAT(text, HasSubstr("on.\n\nAll-gather:\n"
                                "gloo with 2 processes takes 500 us for 1 MB."
                                "\n"));
}

} // namespace
