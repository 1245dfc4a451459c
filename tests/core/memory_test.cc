#include <gmock/gmock.h>

#include <string>

extern "C" {
#include "core/memory.h"
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

} // namespace
