// A plugin's decisions as a file, and how two such files differ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

extern "C" {
#include "report/results/golden.h"
}

#include "nccl_tuner_abi.h"

namespace
{

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StrEq;

stp_explained Range(uint64_t min, uint64_t max, unsigned line, int channels)
{
    stp_explained x{};
    x.coll = ncclFuncAllGather;
    x.min_bytes = min;
    x.max_bytes = max;
    x.auto_pick = {NCCL_ALGO_RING, NCCL_PROTO_SIMPLE};
    x.pick = {NCCL_ALGO_RING, line != 0 ? NCCL_PROTO_LL128 : NCCL_PROTO_SIMPLE};
    x.asked_channels = channels;
    x.min_channels = 2;
    x.max_channels = 24;
    x.decider = line != 0 ? STP_DECIDER_RULE : STP_DECIDER_NCCL;
    x.line = line;
    return x;
}

std::string Text(std::vector<stp_explained> ranges)
{
    const stp_explanation all{ranges.data(), ranges.size(), ranges.size()};
    char *text = nullptr;

    EXPECT_EQ(STP_OK, stp_golden_text(&all, "m", 4096, &text, nullptr));
    std::string copy = text;
    free(text);
    return copy;
}

const char kHead[] =
    "# steptune explain: what a tuner plugin decides on m, up to 4096 bytes\n"
    "collective,min_bytes,max_bytes,auto_algorithm,auto_protocol,algorithm,"
    "protocol,asked_channels,min_channels,max_channels,decided_by\n";

TEST(GoldenText, HasARowARange)
{
    EXPECT_THAT(
        Text({Range(8, 1016, 0, 0), Range(1024, 4096, 3, 16)}),
        StrEq(std::string(kHead) +
              "allgather,8,1016,ring,simple,ring,simple,0,2,24,nccl\n"
              "allgather,1024,4096,ring,simple,ring,ll128,16,2,24,rule\n"));
}

TEST(GoldenText, LinesThatSayTheSameAreOneRange)
{
    EXPECT_THAT(
        Text({Range(8, 1016, 2, 16), Range(1024, 2040, 3, 16),
              Range(2048, 4096, 4, 8)}),
        StrEq(std::string(kHead) +
              "allgather,8,2040,ring,simple,ring,ll128,16,2,24,rule\n"
              "allgather,2048,4096,ring,simple,ring,ll128,8,2,24,rule\n"));
}

// "SIGN NUMBER TEXT" a line.
std::vector<std::string> Change(const std::string &expected,
                                const std::string &got)
{
    std::vector<std::string> lines;
    stp_golden_change change{};

    EXPECT_EQ(STP_OK, stp_golden_compare(expected.c_str(), got.c_str(), &change,
                                         nullptr));
    for (size_t i = 0; i < change.n; i++)
        lines.push_back(change.lines[i].sign +
                        std::to_string(change.lines[i].number) + " " +
                        std::string(change.lines[i].s, change.lines[i].len));
    stp_golden_change_free(&change);
    return lines;
}

TEST(GoldenCompare, EqualTextsDoNotDiffer)
{
    EXPECT_THAT(Change("", ""), IsEmpty());
    EXPECT_THAT(Change("a\nb\n", "a\nb\n"), IsEmpty());
    EXPECT_THAT(Change("a\r\nb", "a\nb\n"), IsEmpty());
}

TEST(GoldenCompare, ListsWhatIsGoneAndWhatIsThereInstead)
{
    EXPECT_THAT(Change("a\nb\nc\n", "a\nx\ny\nc\n"),
                ElementsAre("-2 b", "+2 x", "+3 y"));
    EXPECT_THAT(Change("a\nb\nc\n", "a\nc\n"), ElementsAre("-2 b"));
    EXPECT_THAT(Change("a\n", "a\nb\n"), ElementsAre("+2 b"));
    EXPECT_THAT(Change("", "a\n"), ElementsAre("+1 a"));
    EXPECT_THAT(Change("a\nb\n", "c\n"), ElementsAre("-1 a", "-2 b", "+1 c"));
}

TEST(GoldenCompare, LinesBetweenTwoDifferencesAreNone)
{
    EXPECT_THAT(Change("a\nb\nc\nd\n", "x\nb\nc\ny\n"),
                ElementsAre("-1 a", "+1 x", "-4 d", "+4 y"));
}

TEST(GoldenCompare, RepeatedAndSwappedLinesDiffer)
{
    EXPECT_THAT(Change("a\na\n", "a\n"), ElementsAre("-2 a"));
    EXPECT_THAT(Change("a\nb\n", "b\na\n"), ElementsAre("+1 b", "-2 b"));
}

} // namespace
