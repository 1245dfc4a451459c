// The word that was meant.
#include <gtest/gtest.h>
#include <cstring>

extern "C" {
#include "core/nearest.h"
}

namespace
{

TEST(Nearest, NamesTheWordThatIsTheFewestEditsAway)
{
    const char *const algos = "tree, ring, collnet_direct, nvls, nvls_tree";
    const struct {
        const char *word;
        const char *words;
        const char *hint; // the word; "" for none
    } cases[] = {
        {"rnig", algos, "ring"}, // two swapped: one edit
        {"rign", algos, "ring"},
        {"irng", algos, "ring"},
        {"rin", algos, "ring"},   // one less
        {"rinng", algos, "ring"}, // one more
        {"king", algos, "ring"},  // another
        {"RINK", algos, "ring"},  // upper case is none
        {"kin", algos, ""},       // two of three
        {"collnet_dierkt", algos, "collnet_direct"},
        {"colnet", algos, ""},            // a third is two
        {"col", algos, "collnet_direct"}, // a beginning of three
        {"co", algos, ""},
        {"t", algos, ""},
        {"", algos, ""},
        {"nvls_tre", algos, "nvls_tree"},
        {"AXZ", "abz", "abz"},          // all of A to Z
        {"abcxe", "abcde", "abcde"},    // one of five
        {"abxxe", "abcde", ""},         // two of five
        {"abxxef", "abcdef", "abcdef"}, // two of six
        {"abxxxf", "abcdef", ""},       // three of six
        {"abxxxfgh", "abcdefgh", ""},   // three of eight
        {"abxxxfghi", "abcdefghi", "abcdefghi"},
        {"nvs", algos, "nvls"},
        {"--colective", "--collective --collectives", "--collective"},
        {"--colectives", "--collective --collectives", "--collectives"},
        {"overlp", "each at most once of sequential, overlap and fsdp, or all",
         "overlap"},
        {"sequentia",
         "each at most once of sequential, overlap and fsdp, or all",
         "sequential"},
        {"al", "each at most once of sequential, overlap and fsdp, or all",
         "all"},
        {"mos", "each at most once of sequential, overlap or all", ""},
        {"ad", "this and that", ""}, // no words of a list
        {"on", "this or that", ""},
        {"gloo", "", ""},
        {"nranks", "nNodes, nRanks", "nRanks"},
        {"a0z", "b1, a0z9", "a0z9"},
        {"abc", "xabd", ""}, // one more, and another
        {"abc", "abd, abc", "abc"},
        {"rign", "0, 1, ring", "ring"},
        {"l1", "ll, simple", "ll"},
        {"ordr", "order", "order"},
        {"xr g", "ng, rg", ""}, // what stands before a word is none of it
        {"f3", "f32, f16, bf16 or f64", "f32"}, // the first of equals
        {"2.2", "2.21, 2.28.9", "2.21"},
        // too long to be compared
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", ""},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab "
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.word);
        const std::string expected =
            *c.hint == '\0' ? ""
                            : std::string("; did you mean '") + c.hint + "'?";
        char hint[STP_HINT];

        EXPECT_EQ(expected,
                  stp_hint_nearest(c.word, strlen(c.word), c.words, hint));
    }
}

} // namespace
