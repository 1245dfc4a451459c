// The last calls, and the sequence that they repeat.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

extern "C" {
#include "core/learn/history.h"
#include "core/rng.h"
}

namespace
{

using Keys = std::vector<uint8_t>;

struct Free {
    void operator()(stp_history *history) const
    {
        stp_history_free(history);
    }
};
using History = std::unique_ptr<stp_history, Free>;

// ---- the last calls ----

TEST(History, RemembersTheLastCalls)
{
    History history(stp_history_new());
    uint8_t keys[4] = {0, 0, 0, 77};

    for (uint64_t i = 0; i < 2u * STP_HISTORY_CALLS; i++)
        EXPECT_EQ(i, stp_history_add(history.get(), uint8_t(i / 100)));
    uint64_t n = stp_history_calls(history.get());

    EXPECT_EQ(2u * STP_HISTORY_CALLS, n);
    ASSERT_TRUE(stp_history_copy(history.get(), n - 3, 3, keys));
    EXPECT_EQ(uint8_t((n - 3) / 100), keys[0]);
    EXPECT_EQ(uint8_t((n - 1) / 100), keys[2]);
    EXPECT_EQ(77, keys[3]) << "no more than were asked for";
    EXPECT_TRUE(
        stp_history_copy(history.get(), n - STP_HISTORY_CALLS + 1, 3, keys));
    EXPECT_FALSE(
        stp_history_copy(history.get(), n - STP_HISTORY_CALLS, 3, keys));
    EXPECT_FALSE(stp_history_copy(history.get(), n - 2, 3, keys));
}

TEST(History, NeverShowsAReaderWhatWasOverwritten)
{
    History history(stp_history_new());
    std::atomic<bool> is_done{false};
    std::thread caller([&] {
        for (uint64_t i = 0; i < 500000; i++)
            stp_history_add(history.get(), uint8_t(i * 7));
        is_done = true;
    });
    uint64_t n_read = 0;

    while (!is_done || n_read == 0) {
        Keys keys(64);
        uint64_t n = stp_history_calls(history.get());
        uint64_t first = n > 8000 ? n - 8000 : 0;

        if (!stp_history_copy(history.get(), first, keys.size(), keys.data()))
            continue;
        n_read++;
        for (size_t i = 0; i < keys.size(); i++)
            ASSERT_EQ(uint8_t((first + i) * 7), keys[i]) << first + i;
    }
    caller.join();
}

// ---- sequences ----

Keys Repeat(const Keys &before, const Keys &part, size_t times,
            const Keys &after = {})
{
    Keys keys = before;

    for (size_t i = 0; i < times; i++)
        keys.insert(keys.end(), part.begin(), part.end());
    keys.insert(keys.end(), after.begin(), after.end());
    return keys;
}

Keys Distinct(size_t n)
{
    Keys keys;

    for (size_t i = 0; i < n; i++)
        keys.push_back(uint8_t(i % 127 + i / 127));
    return keys;
}

TEST(Sequence, IsTheShortestThatRepeats)
{
    const Keys three = {1, 2, 2};
    const struct {
        const char *name;
        Keys keys;
        size_t least;
        size_t expected;
    } cases[] = {
        {"equal calls", Repeat({}, {5}, 16), 16, 1},
        {"too few of them", Repeat({}, {5}, 15), 16, 0},
        {"a step", Repeat({}, three, 6), 16, 3},
        {"after a warm-up", Repeat({9, 9, 9, 9, 9}, three, 6), 16, 3},
        {"in the middle of a step", Repeat({}, three, 7, {1, 2}), 16, 3},
        {"after which another call came", Repeat({}, three, 9, {7}), 16, 0},
        {"twice only", Repeat({}, Distinct(20), 2), 16, 0},
        {"a long step", Repeat({}, Distinct(500), 3), 16, 500},
        {"the longest", Repeat({}, Distinct(512), 3), 16, 512},
        {"the longest, not for long enough",
         Repeat({}, Distinct(512), 2, Distinct(511)), 16, 0},
        {"longer than is looked for", Repeat({}, Distinct(513), 3), 16, 0},
        {"equal calls at the end of a step",
         Repeat({}, Repeat({1}, {2}, 24), 4), 16, 1},
        {"which more calls tell apart", Repeat({}, Repeat({1}, {2}, 24), 4), 64,
         25},
        {"no calls", {}, 16, 0},
    };

    for (const auto &c : cases)
        EXPECT_EQ(c.expected,
                  stp_sequence_find(c.keys.data(), c.keys.size(), c.least))
            << c.name;
}

// As counting call by call tells, of calls that nearly repeat.
TEST(Sequence, IsFoundByAnyOrderOfCalls)
{
    size_t n_found = 0;

    for (uint64_t seed = 0; seed < 3000; seed++) {
        const size_t n = stp_rng(seed, 0) % 400, p = 1 + stp_rng(seed, 1) % 40;
        std::vector<uint8_t> keys(n);
        for (size_t i = 0; i < n; i++)
            keys[i] = stp_rng(seed, 5000 + i % p) % 3 == 0 ||
                      stp_rng(seed, 9000 + i) % (1 + seed % 400) == 7;
        size_t expected = 0;
        for (size_t q = 1; q <= n / 3 && expected == 0; q++) {
            size_t k = q;
            while (k < n && keys[n - 1 - k] == keys[n - 1 - k + q])
                k++;
            if (k >= std::max<size_t>(3 * q, 20))
                expected = q;
        }
        ASSERT_EQ(expected, stp_sequence_find(keys.data(), n, 20)) << seed;
        n_found += expected > 1;
    }
    EXPECT_GT(n_found, 500u);
}

TEST(Sequence, HoldsIfNoCallDiffers)
{
    Keys keys = Repeat({}, {1, 2, 3}, 10, {1});

    EXPECT_TRUE(stp_sequence_holds(keys.data(), keys.size(), 3));
    EXPECT_TRUE(stp_sequence_holds(keys.data(), keys.size(), 6));
    EXPECT_TRUE(stp_sequence_holds(keys.data(), keys.size(), 40));
    EXPECT_TRUE(stp_sequence_holds(&keys[3], keys.size() - 3, 3))
        << "whatever is before them";
    EXPECT_TRUE(stp_sequence_holds(keys.data(), 6, 6));
    EXPECT_FALSE(stp_sequence_holds(keys.data(), keys.size(), 2));
    keys[0] = 9;
    EXPECT_FALSE(stp_sequence_holds(keys.data(), keys.size(), 3));
}

} // namespace
