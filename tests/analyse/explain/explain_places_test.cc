// A tuner that changes one size, or a few, and nothing else: explain shows that
// range, from end to end, wherever a probe is within it.
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>

#include <gtest/gtest.h>

extern "C" {
#include "analyse/explain/explain.h"
}

namespace
{

constexpr uint64_t kGrain = 8; // of h200x4: bf16 on four ranks

struct Place {
    uint64_t min, max;
};

// A power of two, an element a rank to a side of it, a decimal number, a 64th
// of an octave, or sizes that are that far apart.
Place DrawPlace(std::mt19937_64 *random, int shape)
{
    const uint64_t power = uint64_t{1} << (4 + (*random)() % 30);
    uint64_t size = power;

    if (shape == 1)
        size = (*random)() % 2 != 0 ? power + kGrain : power - kGrain;
    if (shape == 2)
        size = (1 + (*random)() % 99) *
               static_cast<uint64_t>(std::pow(10, 3 + (*random)() % 6));
    if (shape == 3)
        size = (64 + (*random)() % 64) << (3 + (*random)() % 25);
    if (shape == 4) {
        size = (1024 + (*random)() % (uint64_t{1} << 33)) / kGrain * kGrain;
        return {size, (size + size / 32) / kGrain * kGrain};
    }
    return {size, size};
}

TEST(ExplainPlaces, AreShownFromEndToEnd)
{
    std::mt19937_64 random(11);

    for (int i = 0; i < 60; i++) {
        const int coll = static_cast<int>(random() % NCCL_NUM_TUNED_FUNCS);
        const Place place = DrawPlace(&random, i % 5);
        const std::string words =
            "asks_100,only=1,coll=" + std::to_string(coll) +
            ",min=" + std::to_string(place.min) +
            ",max=" + std::to_string(place.max);
        stp_explain_options options{};
        options.machine_path = STP_FIXTURES "/machines/h200x4";
        options.plugin = STP_TEST_PLUGINS "/libnccl-tuner-planted_here.so";
        options.coll = coll;
        options.max_bytes = uint64_t{1} << 34;
        stp_explanation explanation{};
        stp_error err{};
        uint64_t begin = UINT64_MAX, end = 0;
        SCOPED_TRACE(words);

        setenv("PLANTED", words.c_str(), 1);
        ASSERT_EQ(STP_OK, stp_explain(&options, &explanation, &err))
            << err.text;
        for (size_t r = 0; r < explanation.n_ranges; r++) {
            const stp_explained &range = explanation.ranges[r];
            if (range.decider != STP_DECIDER_PLUGIN)
                continue;
            begin = std::min(begin, range.min_bytes);
            end = std::max(end, range.max_bytes);
            EXPECT_EQ(100, range.asked_channels);
        }

        // sizes that are no multiple of the grain are none that NCCL asks
        if (place.min % kGrain == 0) {
            EXPECT_EQ(place.min, begin);
            EXPECT_EQ(place.max, end);
        }
        EXPECT_LT(2000u, explanation.n_sizes);
        stp_explanation_free(&explanation);
    }
    unsetenv("PLANTED");
}

} // namespace
