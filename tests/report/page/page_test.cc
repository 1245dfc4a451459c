// The page's text in HTML, its template and its sentences.
#include <functional>

extern "C" {
#include "report/page/page_data.h"
}

#include "nccl_tuner_abi.h"
#include "support/written.h"

namespace
{

std::string Escaped(const std::string &text)
{
    return Written([&](FILE *fp) {
        stp_html_text(text.data(), text.size(), fp);
        return STP_OK;
    });
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

// ---- template ----

std::string Filled(const char *html, const char *json)
{
    cJSON *values = cJSON_Parse(json);
    const std::string filled = Written([&](FILE *fp) {
        stp_page_fill(html, values, fp);
        return STP_OK;
    });
    cJSON_Delete(values);
    return filled;
}

TEST(Template, IsFilled)
{
    const struct {
        const char *html, *json, *expect;
    } cases[] = {
        {"<p>{{a}}</p>", R"({"a": "<b>"})", "<p>&lt;b&gt;</p>"},
        {"{{&a}}", R"({"a": "<b>"})", "<b>"},
        {"{{&a}}", R"({"a": {"b": "</script>"}})", R"({"b":"\u003c/script>"})"},
        {"{{a}} {{a:2}} {{a:+1}}", R"({"a": 1.5})", "1.5 1.50 +1.5"},
        {"{{a}} {{a:0}}", R"({"a": 4294967296})", "4294967296 4294967296"},
        {"{{a:1%}} {{a:+2%}}", R"({"a": 0.0125})", "1.2 +1.25"},
        {"{{a:size}} {{b:size}}", R"({"a": 0, "b": 1572864})", "0 1.5M"},
        {"{{a}} {{b}} {{c}} {{d}}",
         R"({"a": {"algorithm": "ring", "protocol": "ll", "channels": 4},
             "b": {"algorithm": "tree", "protocol": "simple", "channels": 0},
             "c": {"algorithm": null, "protocol": null, "channels": 0},
             "d": {"algorithm": null, "channels": 0, "kernel": "A<B>"}})",
         "ring/ll/4 tree/simple - A&lt;B&gt;"},
        {"{{g:interval}}", R"({"g": 1, "g_low": 0.9, "g_high": 1.25})",
         "0.900 to 1.250"},
        {"{{g:interval}}", R"({"g": 1, "g_high": null, "rounds": 4})", "-"},
        {"{{g:interval}}", R"({"g": 1, "g_low": 0, "g_high": null})",
         "one round"},
        {"{{+a:size}}, {{+b:size}}", R"({"a": 1, "b": 0})", "1 size, 0 sizes"},
        {"{{^a}}empty{{/a}}{{?b}}zero{{/b}}", R"({"a": "", "b": 0})",
         "emptyzero"},
        {"x{{a}}{{b}}y", R"({"b": null})", "xy"},
        {"{{#l}}[{{n}}]{{/l}}", R"({"l": [{"n": 1}, {"n": 2}]})", "[1][2]"},
        {"{{?l}}list{{/l}}", R"({"l": [{}, {}]})", "list"},
        {"{{#l}}a{{/l}}{{?l}}b{{/l}}{{^l}}c{{/l}}", R"({"l": []})", "c"},
        {"{{#o}}{{n}}{{m}}{{/o}}", R"({"o": {"n": 1}, "n": 2, "m": 3})", "13"},
        {"{{#t}}y{{/t}}{{#f}}n{{/f}}{{^f}}z{{/f}}{{^g}}w{{/g}}",
         R"({"t": true, "f": false})", "yzw"},
        {"{{#l}}{{#i}}{{n}}{{/i}}{{^i}}-{{/i}};{{/l}}.",
         R"({"l": [{"i": [{"n": 1}, {"n": 2}]}, {}]})", "12;-;."},
    };
    for (const auto &c : cases)
        EXPECT_EQ(c.expect, Filled(c.html, c.json)) << c.html;
}

// ---- sentences ----

stp_page_summary Summary()
{
    stp_page_summary s{};
    std::snprintf(s.machine, sizeof(s.machine), "4 x NVIDIA H200");
    std::snprintf(s.own, sizeof(s.own), "NCCL's own choice");
    s.has_policy = s.tried = true;
    s.n_rules = 4;
    s.n_sizes = 84;
    s.n_compared = s.n_told = 80;
    s.n_changed = 14;
    s.n_faster = 14;
    s.best = {{1.371, 1.36, 1.38, 4}, ncclFuncAllGather, 4 << 20, 4};
    s.worst = {{1, 0, 0, 0}, 0, 0, 0};
    s.mean_gain = 1.03;
    return s;
}

#define ON    "On 4 x NVIDIA H200"
#define MAKES ON " this policy makes allgather up to 1.37x as fast (at 4 MiB"
#define SIZES "), changes 14 of 84 sizes"
#define NONE  ", and is nowhere measurably slower"

TEST(Sentence, SaysWhatThePolicyIsWorth)
{
    const stp_gain one{1, 0, 0, 0};
    const struct {
        std::function<void(stp_page_summary &)> change;
        const char *expect;
    } cases[] = {
        {[](auto &) {}, MAKES SIZES NONE "."},
        {[](auto &s) {
             s.n_slower = 2;
             s.n_below = 1;
             s.worst = {{0.8, 0.79, 0.81, 4}, ncclFuncAllReduce, 1 << 20, 4};
         },
         MAKES SIZES ", and is slower at 2: at worst allreduce takes 1.25x as "
                     "long (at 1 MiB)."},
        {[](auto &s) {
             s.n_below = 1;
             s.worst = {{1 / 1.004, 0.99, 0.999, 4}, ncclFuncReduce, 64, 4};
         },
         MAKES SIZES ", and is slower at 1, but within the noise: at worst "
                     "reduce takes 1.004x as long (at 64 bytes)."},
        {[&](auto &s) {
             s.no_interval = true;
             s.n_faster = 0;
             s.best.gain = one;
         },
         ON " this policy changes 14 of 84 sizes, is significantly faster at "
            "none; one round and modelled times have no confidence interval, "
            "so not all of this is certain."},
        {[&](auto &s) { s.best.gain = one; },
         ON " this policy changes 14 of 84 sizes, is faster only at sizes that "
            "were not measured" NONE "."},
        {[](auto &s) { s.n_unknown = 3; },
         MAKES SIZES NONE "; what it chooses at 3 further sizes was not "
                          "measured."},
        {[&](auto &s) {
             s.n_changed = s.n_faster = 0;
             s.best.gain = one;
         },
         ON " this policy changes none of 84 sizes."},
        {[](auto &s) { s.n_rules = s.tried = 0; },
         ON " this policy has no rule: NCCL's own choice stands at all 84 "
            "sizes."},
        {[](auto &s) { s.has_policy = s.tried = false; },
         ON " some arm is faster than NCCL's own choice at 14 of 80 sizes, by "
            "up to 1.37x (allgather at 4 MiB); there is no policy here."},
        {[&](auto &s) {
             s.has_policy = s.tried = false;
             s.best.gain = one;
         },
         ON " no arm that a tuner can choose is significantly faster than "
            "NCCL's own choice at any of 80 sizes; there is no policy here."},
        {[&](auto &s) {
             s.has_policy = s.tried = false;
             s.n_told = 0;
             s.best.gain = one;
         },
         ON " neither one round nor a model tells an arm from NCCL's own "
            "choice at any of 80 sizes; there is no policy here."},
        {[&](auto &s) {
             s.has_policy = s.tried = false;
             s.n_compared = s.n_told = 0;
             s.best.gain = one;
         },
         ON " no arm that a tuner can choose was compared with NCCL's own "
            "choice at any of 84 sizes; there is no policy here."},
        {[](auto &s) {
             s.n_sizes = s.has_policy = s.tried = 0;
             s.setups[0] = {{1.5, 1.4, 1.6, 3}, ncclFuncAllGather, 4 << 20, 4};
             s.setups[1] = {{1.25, 1.2, 1.3, 3}, ncclFuncReduce, 64, 4};
         },
         ON ": training iterations, without a policy. With registered buffers "
            "allgather is up to 1.50x as fast (at 4 MiB). With staged "
            "collectives reduce is up to 1.25x as fast (at 64 bytes)."},
        {[](auto &s) {
             s.has_ranks = true;
             s.best.n_ranks = 2;
             s.worst = {{0.8, 0.7, 0.9, 3}, ncclFuncAllReduce, 1 << 20, 4};
             s.n_slower = 1;
         },
         MAKES " on 2 ranks" SIZES ", and is slower at 1: at worst allreduce "
               "takes 1.25x as long (at 1 MiB on 4 ranks)."},
        {[](auto &s) { s.tried = false; },
         MAKES SIZES NONE "; it was not verified: these are gains of its arms "
                          "in the sweep."},
        {[](auto &s) { s.n_sizes = s.has_policy = s.tried = 0; },
         ON ": training iterations, without a policy."},
        {[](auto &s) { s.n_sizes = s.tried = 0; },
         ON ": training iterations; collectives alone were not measured."},
    };
    for (const auto &c : cases) {
        stp_page_summary s = Summary();
        char text[STP_PAGE_TEXT];
        c.change(s);
        stp_page_sentence(&s, text);
        EXPECT_STREQ(c.expect, text);
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
         "36 workloads are faster, and none is measurably slower."},
        {{36, 7, 2, 1, 1.179, 0.8},
         "With the overlap policy training steps are up to 1.18x as fast: 7 of "
         "36 workloads are faster, and 2 are slower: at worst a step takes "
         "1.250x as long."},
        {{36, 0, 0, 1, 1, 1 / 1.008},
         "With the overlap policy training steps are significantly faster in "
         "none of 36 workloads, and 1 is slower, but within the noise: at "
         "worst a step takes 1.008x as long."},
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
