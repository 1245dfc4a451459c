#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <random>
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

/* Rounds of four ranks with 16 CTAs: 512 KiB where they sum. */
TEST(MemoryPadded, FillsUpToAQuarterHalfOrAWholeRound)
{
    const uint64_t k = 1024;
    const struct {
        int coll;
        int min_ctas;
        uint64_t n_bytes, padded;
    } cases[] = {
        {ncclFuncAllReduce, 16, 512 * k, 512 * k},
        {ncclFuncAllReduce, 16, 512 * k + 2, 640 * k},
        {ncclFuncAllReduce, 16, 640 * k + 2, 768 * k},
        {ncclFuncAllReduce, 16, 768 * k + 2, 1024 * k},
        {ncclFuncAllReduce, 16, 128 * k, 128 * k},
        {ncclFuncAllReduce, 16, 128 * k - 2, 128 * k},
        {ncclFuncAllReduce, 16, 127 * k - 2, 127 * k},
        {ncclFuncReduceScatter, 32, 449504, 512 * k},
        {ncclFuncReduceScatter, 32, 1024 * k + 2, 1280 * k},
        {ncclFuncAllGather, 16, 128 * k + 2, 160 * k},
        {ncclFuncAllGather, 32, 256 * k + 2, 320 * k},
        {ncclFuncAllReduce, 0, 512 * k + 2, 512 * k + 16},
        {ncclFuncAllReduce, 0, 0, 0},
    };

    for (const auto &c : cases)
        EXPECT_EQ(stp_memory_padded(c.coll, 4, c.min_ctas, c.n_bytes), c.padded)
            << c.coll << " " << c.min_ctas << " " << c.n_bytes;
}

TEST(MemoryPadded, HasRoomForAllAtMostTwiceAndGrowsWithTheMessage)
{
    std::mt19937_64 random(46);
    const int colls[] = {ncclFuncAllReduce, ncclFuncAllGather,
                         ncclFuncReduceScatter};

    for (int i = 0; i < 20000; i++) {
        const int coll = colls[random() % 3], min_ctas = random() % 65;
        const unsigned n_ranks = 2 + random() % 71;
        const uint64_t n = random() >> (24 + random() % 40);
        const auto padded = [&](uint64_t bytes) {
            return stp_memory_padded(coll, n_ranks, min_ctas, bytes);
        };

        ASSERT_GE(padded(n), n);
        ASSERT_LE(padded(n), std::max<uint64_t>(2 * n, n > 0 ? 16 : 0));
        ASSERT_LE(padded(n), padded(n + 1));
        ASSERT_EQ(padded(n) % 16, 0u);
        ASSERT_EQ(padded(padded(n)), padded(n));
    }
}

} // namespace
