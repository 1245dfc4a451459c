// What the page writes safely, draws evenly and says in words.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

extern "C" {
#include "report/html.h"
#include "report/page/page_parts.h"
}

#include "nccl_tuner_abi.h"

namespace
{

std::string Escaped(const std::string &text)
{
    char *out = nullptr;
    size_t size = 0;
    FILE *fp = open_memstream(&out, &size);
    stp_html_bytes(text.data(), text.size(), fp);
    std::fclose(fp);
    std::string s(out, size);
    std::free(out);
    return s;
}

TEST(Html, WhatAFileSaysIsNoMarkup)
{
    using namespace std::string_literals;
    const std::string bad = "\xef\xbf\xbd";
    const struct {
        std::string text, expect;
    } cases[] = {
        {"ring/ll128", "ring/ll128"},
        {"<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"},
        {"a & b", "a &amp; b"},
        {"\" onload='x'", "&quot; onload=&#39;x&#39;"},
        {"&lt;", "&amp;lt;"},
        {"a\tb\nc", "a\tb\nc"},
        {"a\rb\x01\x7f", "a" + bad + "b" + bad + bad},
        {"a\0b"s, "a" + bad + "b"},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
         "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xe9t\xe9", bad + "t" + bad},
        {"\xc0\xbc", bad + bad},           // overlong '<'
        {"\xed\xa0\x80", bad + bad + bad}, // half a surrogate pair
        {"\xe2\x82", bad + bad},           // cut off
        {"\xe2\x82<", bad + bad + "&lt;"},
        {"\xf4\x90\x80\x80", bad + bad + bad + bad}, // above U+10FFFF
    };
    for (const auto &c : cases)
        EXPECT_EQ(c.expect, Escaped(c.text));
}

TEST(Html, FormatsAndEscapes)
{
    char *out = nullptr;
    size_t size = 0;
    FILE *fp = open_memstream(&out, &size);
    stp_html_printf(fp, "%s & %d", "<b>", 3);
    std::fclose(fp);
    EXPECT_STREQ("&lt;b&gt; &amp; 3", out);
    std::free(out);
}

// ---- scales ----

TEST(Axis, PlacesValues)
{
    const stp_page_axis linear = {0, 10, 100, 200, false};
    const stp_page_axis up = {1, 100, 300, 0, true};

    EXPECT_DOUBLE_EQ(100, stp_page_at(&linear, 0));
    EXPECT_DOUBLE_EQ(125, stp_page_at(&linear, 2.5));
    EXPECT_DOUBLE_EQ(300, stp_page_at(&up, 1));
    EXPECT_DOUBLE_EQ(150, stp_page_at(&up, 10));
    EXPECT_DOUBLE_EQ(0, stp_page_at(&up, 100));
}

TEST(Axis, TicksAreRound)
{
    using Ticks = size_t(double, double, double *);
    const struct {
        Ticks *ticks;
        double min, max;
        std::vector<double> expect;
    } cases[] = {
        {stp_page_ticks, 0, 257, {0, 50, 100, 150, 200, 250}},
        {stp_page_ticks, 0, 6, {0, 1, 2, 3, 4, 5, 6}},
        {stp_page_ticks, 0.97, 1.42, {1, 1.1, 1.2, 1.3, 1.4}},
        {stp_page_ticks, 99, 101, {99, 99.5, 100, 100.5, 101}},
        {stp_page_log_ticks, 12, 190, {20, 50, 100}},
        {stp_page_log_ticks, 1, 10, {1, 2, 5, 10}},
        {stp_page_log_ticks, 3, 30000, {10, 100, 1000, 10000}},
        {stp_page_size_ticks, 500000, 5e6, {524288, 1048576, 2097152, 4194304}},
        {stp_page_size_ticks,
         8,
         1073741824,
         {16, 256, 4096, 65536, 1048576, 16777216, 268435456}},
        {stp_page_size_ticks, 1024, 1024, {1024}},
    };
    for (const auto &c : cases) {
        double ticks[STP_PAGE_TICKS];
        const size_t n = c.ticks(c.min, c.max, ticks);
        ASSERT_EQ(c.expect.size(), n) << c.min << " to " << c.max;
        for (size_t i = 0; i < n; i++)
            EXPECT_NEAR(c.expect[i], ticks[i], 1e-9 * c.max);
    }
}

// However narrow or wide: few, within, ascending.
TEST(Axis, TicksStayWithin)
{
    for (double min = 1e-3; min < 1e9; min *= 7.3)
        for (double factor = 1.001; factor < 1e12; factor *= 3.7) {
            double ticks[STP_PAGE_TICKS];
            for (auto *fn :
                 {stp_page_ticks, stp_page_log_ticks, stp_page_size_ticks}) {
                const double max = min * factor;
                const size_t n = fn(min, max, ticks);
                ASSERT_LE(n, size_t{STP_PAGE_TICKS});
                for (size_t i = 0; i < n; i++) {
                    ASSERT_GE(ticks[i], min - 1e-8 * max);
                    ASSERT_LE(ticks[i], max + 1e-8 * max);
                    ASSERT_TRUE(i == 0 || ticks[i] > ticks[i - 1]);
                }
            }
        }
}

// ---- sentences ----

stp_page_summary Summary()
{
    stp_page_summary s{};
    std::snprintf(s.machine, sizeof(s.machine), "4 x NVIDIA H200");
    s.has_policy = s.tried = true;
    s.n_rules = 4;
    s.n_sizes = 84;
    s.n_changed = 14;
    s.n_faster = 14;
    s.best = {1.371, 1.36, 1.38, 4};
    s.best_coll = ncclFuncAllGather;
    s.best_bytes = 4 << 20;
    s.worst = {1, 0, 0, 0};
    s.mean_gain = 1.03;
    return s;
}

TEST(Sentence, SaysWhatThePolicyIsWorth)
{
    const struct {
        const char *what;
        void (*change)(stp_page_summary &s);
        const char *expect;
    } cases[] = {
        {"faster", [](stp_page_summary &) {},
         "On 4 x NVIDIA H200 this policy makes allgather up to 1.37x as fast "
         "(at 4 MiB), changes 14 of 84 sizes, and is slower nowhere within the "
         "95 percent intervals."},
        {"slower",
         [](stp_page_summary &s) {
             s.n_slower = 2;
             s.n_below = 1;
             s.worst = {0.8, 0.79, 0.81, 4};
             s.worst_coll = ncclFuncAllReduce;
             s.worst_bytes = 1 << 20;
         },
         "On 4 x NVIDIA H200 this policy makes allgather up to 1.37x as fast "
         "(at 4 MiB), changes 14 of 84 sizes, and is slower at 2: at worst "
         "allreduce takes 1.25x as long (at 1 MiB)."},
        {"slower within the noise",
         [](stp_page_summary &s) {
             s.n_below = 1;
             s.worst = {1 / 1.004, 0.99, 0.999, 4};
             s.worst_coll = ncclFuncReduce;
             s.worst_bytes = 64;
         },
         "On 4 x NVIDIA H200 this policy makes allgather up to 1.37x as fast "
         "(at 4 MiB), changes 14 of 84 sizes, and is slower at 1, but within "
         "the noise: at worst reduce takes 1.004x as long (at 64 bytes)."},
        {"one round",
         [](stp_page_summary &s) {
             s.one_round = true;
             s.n_faster = 0;
             s.best = {1, 0, 0, 0};
         },
         "On 4 x NVIDIA H200 this policy changes 14 of 84 sizes, is faster "
         "nowhere beyond doubt; one round says nothing of its error, so none "
         "of this is certain."},
        {"faster between sizes",
         [](stp_page_summary &s) {
             s.best = {1, 0, 0, 0};
         },
         "On 4 x NVIDIA H200 this policy changes 14 of 84 sizes, is faster "
         "only where nobody measured, and is slower nowhere within the 95 "
         "percent intervals."},
        {"not measured", [](stp_page_summary &s) { s.n_unknown = 3; },
         "On 4 x NVIDIA H200 this policy makes allgather up to 1.37x as fast "
         "(at 4 MiB), changes 14 of 84 sizes, and is slower nowhere within the "
         "95 percent intervals; what it chooses at 3 further sizes was not "
         "measured."},
        {"no change",
         [](stp_page_summary &s) {
             s.n_changed = s.n_faster = 0;
             s.best = {1, 0, 0, 0};
         },
         "On 4 x NVIDIA H200 this policy changes none of 84 sizes."},
        {"no rule",
         [](stp_page_summary &s) {
             s.n_rules = 0;
             s.tried = false;
         },
         "On 4 x NVIDIA H200 this policy has no rule: NCCL's own choice stands "
         "at all 84 sizes."},
        {"no policy",
         [](stp_page_summary &s) { s.has_policy = s.tried = false; },
         "On 4 x NVIDIA H200 some arm is faster than NCCL's own choice at 14 "
         "of 84 sizes, by up to 1.37x (allgather at 4 MiB); there is no policy "
         "here."},
        {"no policy and no better arm",
         [](stp_page_summary &s) {
             s.has_policy = s.tried = false;
             s.best = {1, 0, 0, 0};
         },
         "On 4 x NVIDIA H200 no arm is faster than NCCL's own choice beyond "
         "doubt at any of 84 sizes; there is no policy here."},
        {"iterations alone", [](stp_page_summary &s) { s.n_sizes = 0; },
         "On 4 x NVIDIA H200: training iterations, without a policy."},
    };
    for (const auto &c : cases) {
        stp_page_summary s = Summary();
        char text[STP_PAGE_TEXT];
        c.change(s);
        stp_page_sentence(&s, text);
        EXPECT_STREQ(c.expect, text) << c.what;
    }
}

TEST(Sentence, SaysWhatTheOverlapPolicyIsWorth)
{
    const struct {
        stp_page_overlap overlap;
        const char *expect;
    } cases[] = {
        {{36, 7, 0, 0, 1.179, 1},
         "With the overlap policy training steps are up to 1.18x as fast: 7 of "
         "36 workloads are faster, and none is slower."},
        {{36, 7, 2, 1, 1.179, 0.8},
         "With the overlap policy training steps are up to 1.18x as fast: 7 of "
         "36 workloads are faster, and 2 slower: at worst a step takes 1.250x "
         "as long."},
        {{36, 0, 0, 1, 1, 1 / 1.008},
         "With the overlap policy training steps of none of 36 workloads are "
         "faster beyond doubt, and 1 slower, but within the noise: at worst a "
         "step takes 1.008x as long."},
    };
    char text[STP_PAGE_TEXT];
    for (const auto &c : cases) {
        EXPECT_TRUE(stp_page_overlap_sentence(&c.overlap, text));
        EXPECT_STREQ(c.expect, text);
    }
    const stp_page_overlap none{};
    EXPECT_FALSE(stp_page_overlap_sentence(&none, text));
}

} // namespace
