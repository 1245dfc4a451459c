#include <gtest/gtest.h>

#include <vector>

extern "C" {
#include "core/learn/headroom.h"
}

namespace
{

constexpr uint64_t kUs = 1000;

// Steps of 1000 us of two calls, of keys 0 and 1, that begin and end at these
// us of a step; 0: it is lost.
struct Calls {
    std::vector<uint8_t> keys;
    std::vector<uint64_t> begin, end;

    void Step(uint64_t b0, uint64_t e0, uint64_t b1, uint64_t e1)
    {
        const uint64_t at = 1000 * (keys.size() / 2 + 1);
        const uint64_t times[] = {b0, e0, b1, e1};

        for (int i = 0; i < 4; i++)
            (i % 2 == 0 ? begin : end)
                .push_back(times[i] == 0 ? 0 : (at + times[i]) * kUs);
        keys.push_back(0);
        keys.push_back(1);
    }
    bool Measure(stp_headroom *h) const
    {
        return stp_headroom_measure(keys.data(), begin.data(), end.data(),
                                    keys.size(), 2, h);
    }
};

TEST(Headroom, IsTheTimeInCollectivesOfAStep)
{
    struct Case {
        const char *name;
        uint64_t b0, e0, b1, e1;
        double busy, key0, key1;
    };
    const Case cases[] = {
        {"apart", 10, 110, 500, 700, 300, 100, 200},
        {"one after another", 10, 110, 110, 310, 300, 100, 200},
        {"beside each other", 10, 410, 110, 310, 400, 400, 200},
        {"in part", 10, 210, 110, 310, 300, 200, 200},
        {"into the next step", 10, 110, 500, 1500, 610, 100, 510},
        {"all the time", 10, 500, 500, 1010, 1000, 490, 510},
    };

    for (const Case &c : cases) {
        Calls calls;
        stp_headroom h{};

        for (int i = 0; i < 5; i++)
            calls.Step(c.b0, c.e0, c.b1, c.e1);
        ASSERT_TRUE(calls.Measure(&h)) << c.name;
        EXPECT_DOUBLE_EQ(1000, h.step_us) << c.name;
        EXPECT_DOUBLE_EQ(c.busy, h.busy_us) << c.name;
        EXPECT_DOUBLE_EQ(c.key0, h.key_us[0]) << c.name;
        EXPECT_DOUBLE_EQ(c.key1, h.key_us[1]) << c.name;
        EXPECT_EQ(0, h.key_us[2]) << c.name;
    }
}

// A lost time takes its step, or two, out of the sum; few steps say nothing.
TEST(Headroom, LeavesOutStepsWithoutAllTimes)
{
    for (int lost = 0; lost < 4; lost++) {
        Calls calls;
        stp_headroom h{};

        for (int i = 0; i < 8; i++) {
            const bool is_it = i == 4;

            calls.Step(is_it && lost == 0 ? 0 : 10, is_it && lost == 1 ? 0 : 60,
                       is_it && lost == 2 ? 0 : 90,
                       is_it && lost == 3 ? 0 : 190);
        }
        ASSERT_TRUE(calls.Measure(&h)) << lost;
        EXPECT_DOUBLE_EQ(150, h.busy_us) << lost;
        EXPECT_DOUBLE_EQ(1000, h.step_us) << lost;
    }
    for (int n = 1; n < 6; n++) {
        Calls calls;
        stp_headroom h{};

        for (int i = 0; i < n; i++)
            calls.Step(10, 60, 90, 190);
        EXPECT_EQ(n > STP_HEADROOM_LEAST, calls.Measure(&h)) << n;
    }
}

// The share of launches that a GPU began at once, whose clock is 5 s behind and
// goes slower or faster, after a first step in which it waited for the host.
TEST(Delays, TellAHostThatIsAheadFromOneThatIsNot)
{
    struct Case {
        const char *name;
        double ahead_us, each_us; // at a step's begin, and more for each call
        double drift, expected;
    };
    const Case cases[] = {
        {"never ahead", 8, 0, 0, 1},
        {"a fast clock", 8, 0, 15e-6, 1},
        {"a slow clock", 8, 0, -15e-6, 1},
        {"always by the same", 40000, 0, 0, 0},
        {"more with each call of a step", 0, 50, 0, .3},
    };

    for (const Case &c : cases) {
        stp_delays delays{};
        const uint64_t host_ns = uint64_t(9e18 / 4);

        stp_delays_add(&delays, host_ns, host_ns - 5000000000u);
        stp_delays_restart(&delays);
        EXPECT_EQ(-1, stp_delays_short(&delays)) << c.name;
        for (int i = 1; i <= 1000; i++) {
            const double us = 1000. * i;
            const double late = c.ahead_us + c.each_us * (i % 10);

            stp_delays_add(&delays, host_ns + uint64_t(1e3 * us),
                           host_ns - 5000000000u +
                               uint64_t(1e3 * (us * (1 + c.drift) + late)));
        }
        EXPECT_NEAR(c.expected, stp_delays_short(&delays), .001) << c.name;
    }
}

} // namespace
