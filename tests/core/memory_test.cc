#include <gmock/gmock.h>

#include <cstdint>
#include <string>

extern "C" {
#include "core/memory.h"
#include "nccl_tuner_abi.h"
}

namespace
{

using ::testing::StrEq;

TEST(Memory, WordsAndValuesAreOneToOneAndListedInOrder)
{
    std::string all;

    for (int i = 0; i < STP_N_MEMORIES; i++) {
        const std::string word = stp_memory_name(i);

        EXPECT_EQ(stp_memory_from_name(word.data(), word.size()), i) << word;
        all += (i > 0 ? ", " : "") + word;
    }
    EXPECT_THAT(stp_memory_names(), StrEq(all));
}

TEST(Memory, IsShownWithTheCtasThatItAsksFor)
{
    char text[STP_MEMORY_TEXT];

    EXPECT_THAT(stp_memory_text(STP_MEMORY_SYM, 0, text), StrEq("sym"));
    EXPECT_EQ(stp_memory_text(STP_MEMORY_CE, 1, text), text);
    EXPECT_THAT(text, StrEq("ce, minCTAs 1"));
    EXPECT_THAT(stp_memory_text(STP_MEMORY_PLAIN, 64, text),
                StrEq("plain, minCTAs 64"));
}

TEST(Memory, OtherWordsAndValuesStandForNothing)
{
    for (const std::string word : {"", "sy", "symm", "SYM", "sym ", "-1"})
        EXPECT_EQ(stp_memory_from_name(word.data(), word.size()), -1) << word;
    EXPECT_THAT(stp_memory_name(-1), StrEq("?"));
    EXPECT_THAT(stp_memory_name(STP_N_MEMORIES), StrEq("?"));
}

TEST(Memory, RoundsAreOfPartsAndCtasAndWhereTheySumOfRanks)
{
    const struct {
        int coll;
        uint64_t n_ranks;
        int min_ctas;
        uint64_t n_bytes;
    } cases[] = {
        {ncclFuncAllReduce, 4, 16, 512 << 10},
        {ncclFuncAllReduce, 2, 0, 1 << 20},
        {ncclFuncAllGather, 4, 32, 1 << 20},
        {ncclFuncReduceScatter, 4, 32, 4 << 20},
        {ncclFuncReduce, 3, 1, 24 << 10},
        {ncclFuncBroadcast, 72, 1, 8 << 10},
        {ncclFuncReduceScatter, 1 << 20, 64, UINT64_C(1) << 59},
        {ncclFuncBroadcast, (1 << 20) + 1, 1, UINT64_MAX},
    };

    for (const auto &c : cases)
        EXPECT_EQ(stp_memory_round(c.coll, c.n_ranks, c.min_ctas), c.n_bytes)
            << c.coll << " " << c.n_ranks << " " << c.min_ctas;
}

} // namespace
