// The page as it is made from files.
#include <string>
#include <vector>

extern "C" {
#include "report/page/page_find.h"
}

#include "page_files.h"
#include "support/json_at.h"

namespace
{

using namespace page;
using testing::HasSubstr;
using testing::Not;

size_t Count(const std::string &text, const std::string &word)
{
    size_t n = 0;
    for (size_t at = text.find(word); at != std::string::npos;
         at = text.find(word, at + 1))
        n++;
    return n;
}

// What the script of the page draws.
Json Plots(const std::string &page)
{
    const std::string begin = "<script type=\"application/json\" id=\"data\">";
    const size_t at = page.find(begin) + begin.size();
    return ParseJson(page.substr(at, page.find("</script>", at) - at));
}

TEST_F(Page, RulesAreWorthWhatTheirArmsWereInTheSweep)
{
    Data d;
    AddSweep(&d, {1, 1.25, 1.5, 1.75});
    const std::string sweep = Save("s.sweep.csv", &d);
    const std::string policy = Write("s.conf", kPolicy);
    const std::string page = Make(
        {{policy.c_str(), nullptr, sweep.c_str(), nullptr, nullptr, nullptr},
         nullptr,
         {}});

    EXPECT_EQ("On 4 x NVIDIA H200 with NCCL 2.28.9 this policy makes allreduce "
              "up to 1.50x as fast (at 4 MiB), changes 2 of 4 sizes, and is "
              "slower nowhere within the 95 percent intervals; it was not "
              "verified: these are gains of its arms in the sweep.\n",
              said_);
    EXPECT_THAT(page, HasSubstr("1.250 to 1.500 at 2 sizes"));
    EXPECT_THAT(page, HasSubstr("Times were measured live."));
    EXPECT_THAT(page, HasSubstr("<li><b>2M</b> 1.250 (1.250 to 1.250)</li>"));
    EXPECT_THAT(page, HasSubstr("<li><code>s.sweep.csv</code>: 1 iteration"));
    EXPECT_THAT(page, Not(HasSubstr("warn\"")));
    EXPECT_THAT(page, HasSubstr(kPolicy));

    const Json plots = Plots(page);
    const cJSON *panel = At(plots.get(), {"panels", "0"});
    const cJSON *row = At(panel, {"rows", "2"});
    EXPECT_STREQ("All-reduce", At(panel, {"name"})->valuestring);
    EXPECT_EQ(4, cJSON_GetArraySize(At(panel, {"rows"})));
    EXPECT_STREQ("4M", At(row, {"size"})->valuestring);
    EXPECT_EQ(100, At(row, {"auto", "us"})->valuedouble);
    EXPECT_NEAR(1.5, At(row, {"policy", "gain"})->valuedouble, 1e-4);
    EXPECT_EQ(200, At(row, {"arms", "tree/ll"})->valuedouble);
    EXPECT_STREQ("ring/ll128", At(row, {"best", "arm"})->valuestring);
}

TEST_F(Page, WhatWasRunCountsAndLossesAreProminent)
{
    Data swept, run;
    AddSweep(&swept, {1, 1.25, 1.5, 1.75});
    const std::string sweep = Save("s.sweep.csv", &swept);
    uint64_t n_bytes = kMiB;
    for (double gain : {1.0, 1.2, 0.8}) {
        run.AddAuto(n_bytes).AddGain(n_bytes, kPlugin, gain);
        n_bytes *= 2;
    }
    for (size_t i = 0; i < run.data.n_rows; i++)
        if (run.data.rows[i].arm.kind == STP_ARM_PLUGIN &&
            run.data.rows[i].n_bytes > kMiB)
            run.data.rows[i].ran_proto = NCCL_PROTO_LL128;
    const std::string verify = Save("s.verify.csv", &run);
    const std::string policy = Write("s.conf", kPolicy);
    const std::string page = Make({{policy.c_str(), nullptr, sweep.c_str(),
                                    verify.c_str(), nullptr, nullptr},
                                   nullptr,
                                   {}});

    EXPECT_EQ("On 4 x NVIDIA H200 with NCCL 2.28.9 this policy makes allreduce "
              "up to 1.20x as fast (at 2 MiB), changes 2 of 4 sizes, and is "
              "slower at 1: at worst allreduce takes 1.25x as long (at 4 "
              "MiB).\n"
              "s.verify.csv does not say which policy it verifies, as an "
              "earlier release wrote it: it is taken to be s.conf.\n",
              said_);
    EXPECT_THAT(page, HasSubstr("<p class=\"lead warn\">On 4 x NVIDIA"));
    EXPECT_THAT(page, HasSubstr("<tr class=\"bad\"><th class=\"n\">4194304"));
    const Json plots = Plots(page);
    EXPECT_STREQ(
        "SLOWER",
        At(plots.get(), {"panels", "0", "rows", "2", "verdict"})->valuestring);
}

TEST_F(Page, ShowsWhatFilesSayAsText)
{
    Data d;
    AddSweep(&d, {1.5});
    const std::string sweep = Save("a<b>.csv", &d);
    const std::string policy = Write(
        "s.conf",
        std::string("# </pre><script>alert('x')</script> & more\n") + kPolicy);
    const std::string page = Make(
        {{policy.c_str(), nullptr, sweep.c_str(), nullptr, nullptr, nullptr},
         "<i>\"mine\"</i>",
         {}});

    EXPECT_THAT(page, HasSubstr("# &lt;/pre&gt;&lt;script&gt;alert(&#39;x&#39;)"
                                "&lt;/script&gt; &amp; more\n"));
    EXPECT_THAT(page, HasSubstr("<title>&lt;i&gt;&quot;mine&quot;&lt;/i&gt;"
                                "</title>"));
    EXPECT_THAT(page, HasSubstr("<code>a&lt;b&gt;.csv</code>"));
    EXPECT_EQ(1U, Count(page, "<script>"));
    EXPECT_EQ(2U, Count(page, "</script>")); // and that of the JSON
    EXPECT_EQ(1U, Count(page, "</pre>"));
}

TEST_F(Page, NamesNoPathAndNothingOutsideAndIsTheSameAgain)
{
    Data d;
    AddSweep(&d, {1, 1.25});
    const std::string sweep = Save("s.sweep.csv", &d);
    const std::string policy = Write("s.conf", kPolicy);
    const stp_page_sources sources = {
        {policy.c_str(), nullptr, sweep.c_str(), nullptr, nullptr, nullptr},
        nullptr,
        {}};
    const std::string page = Make(sources);

    EXPECT_EQ(page, Make(sources));
    for (const char *word : {dir_.c_str(), "http:", "https:", "src=", "href=",
                             "url(", "@import", "nan", "inf\""})
        EXPECT_THAT(page, Not(HasSubstr(word)));
    EXPECT_THAT(page, HasSubstr("default-src 'none'"));
}

TEST_F(Page, ShowsIterationsAndWhereAnotherArmHasTheShortestStep)
{
    Data d;
    d.AddAuto(kMiB).AddGain(kMiB, kRingLl128, 0.8).AddGain(kMiB, kTreeLl, 1.25);
    for (size_t i = 0; i < d.data.n_rows; i++) {
        stp_measurement *m = &d.data.rows[i];
        m->work.mode = STP_MODE_OVERLAP;
        m->work.layers = 8;
        m->work.ratio = 1;
        m->work.gemm.m = m->work.gemm.n = m->work.gemm.k = 64;
        m->work.compute_us = 5;
        m->alone_us =
            m->arm.algo == NCCL_ALGO_RING && m->arm.kind == STP_ARM_FORCED
                ? 8
                : 10 + m->round * 0.1;
    }
    const std::string rounds = Save("rounds.csv", &d);
    const std::string page =
        Make({{nullptr, nullptr, nullptr, nullptr, rounds.c_str(), nullptr},
              nullptr,
              {}});

    EXPECT_EQ("On 4 x NVIDIA H200 with NCCL 2.28.9: training iterations, "
              "without a policy.\n",
              said_);
    EXPECT_THAT(page, HasSubstr("Where the fastest collective does not make "));
    EXPECT_THAT(page, HasSubstr("<td>ring/ll128</td><td><b>tree/ll</b></td>"
                                "<td>1.562 (1.562 to 1.562)</td>"));
    const Json plots = Plots(page);
    const cJSON *arms = At(plots.get(), {"sets", "0", "settings", "0", "arms"});
    EXPECT_STREQ("tree/ll", At(arms, {"1", "arm"})->valuestring);
    EXPECT_LT(1, At(arms, {"1", "low"})->valuedouble);
    EXPECT_STREQ("ring/ll128", At(arms, {"2", "arm"})->valuestring);
    EXPECT_GT(1, At(arms, {"2", "high"})->valuedouble);
}

TEST_F(Page, SaysWhichFileIsWrong)
{
    Data d, broken;
    AddSweep(&d, {1});
    broken.AddGain(kMiB, kTreeLl, 1);
    const std::string sweep = Save("sweep.csv", &d);
    const std::string no_auto = Save("no_auto.csv", &broken);
    const std::string bad = Write("bad.conf", "allreduce,1\n");
    const std::string policy = Write("s.conf", kPolicy);
    const char *none = nullptr;
    const struct {
        stp_page_sources sources;
        const char *expect;
    } cases[] = {
        {{{policy.c_str(), none, none, none, none, none}, none, {}},
         "no measurements, expected those that the policy was made from"},
        {{{bad.c_str(), none, sweep.c_str(), none, none, none}, none, {}},
         "bad.conf:1:12: expected 8 to 10 fields"},
        {{{none, none, no_auto.c_str(), none, none, none}, none, {}},
         "no_auto.csv: "},
        {{{none, none, none, none, sweep.c_str(), none}, none, {}},
         "sweep.csv: 0 of 9 rows are of iterations, expected all"},
        {{{none, none, "/nowhere/x.csv", none, none, none}, none, {}},
         "x.csv: "},
    };
    for (const auto &c : cases)
        EXPECT_THAT(Make(c.sources), HasSubstr(c.expect));
}

// ---- finding ----

TEST_F(Page, FindsWhatLiesBesideAPolicy)
{
    Data d, run;
    AddSweep(&d, {1});
    run.AddAuto(kMiB).AddGain(kMiB, kPlugin, 1);
    Save("s.sweep.csv", &d);
    Save("s.verify.csv", &run);
    Save("other.csv", &d);
    Write("s.conf", kPolicy);
    Write("s.conf.overlap", kPolicy);
    const std::vector<std::vector<std::string>> given = {
        {"s.conf"}, {"."}, {"s.sweep.csv", "s.conf"}, {"s.conf.overlap", "."}};
    for (const auto &names : given) {
        std::vector<std::string> paths;
        std::vector<const char *> arguments;
        for (const auto &name : names)
            paths.push_back(Path(name));
        for (const auto &path : paths)
            arguments.push_back(path.c_str());
        stp_page_found found;
        stp_error err{};
        ASSERT_EQ(STP_OK, stp_page_find(arguments.data(), arguments.size(),
                                        &found, &err))
            << err.text;
        const stp_page_sources &s = found.sources;
        EXPECT_EQ("s.conf", fs::path(s.path[STP_PAGE_POLICY]).filename());
        EXPECT_EQ("s.conf.overlap",
                  fs::path(s.path[STP_PAGE_OVERLAP_POLICY]).filename());
        EXPECT_EQ("s.sweep.csv", fs::path(s.path[STP_PAGE_SWEEP]).filename());
        EXPECT_EQ("s.verify.csv", fs::path(s.path[STP_PAGE_VERIFY]).filename());
        EXPECT_EQ(nullptr, s.path[STP_PAGE_ITERATIONS]);
        EXPECT_EQ(nullptr, s.path[STP_PAGE_OVERLAP_VERIFY]);
    }
}

TEST_F(Page, RefusesWhatIsUnclear)
{
    Data d;
    AddSweep(&d, {1});
    fs::create_directory(dir_ / "empty");
    const std::string one = Save("one.csv", &d);
    const std::string two = Save("two.csv", &d);
    const std::string bad = Write("bad.conf", "allreduce,1\n");
    const std::string text = Write("bad.csv", "x,y\n1,2\n");
    Write("good.conf", kPolicy);
    const struct {
        std::vector<std::string> paths;
        const char *expect;
    } cases[] = {
        {{one, two}, "are both sweeps, expected one"},
        {{bad}, "bad.conf:1:"},
        {{text}, "bad.csv:"},
        {{Path("none")}, "No such file"},
        {{Path("empty")}, "has no rounds.csv, *.conf or *.sweep.csv"},
        {{dir_.string()}, "has several *.conf, expected one"},
    };
    for (const auto &c : cases) {
        std::vector<const char *> arguments;
        for (const auto &path : c.paths)
            arguments.push_back(path.c_str());
        stp_page_found found;
        stp_error err{};
        EXPECT_NE(STP_OK, stp_page_find(arguments.data(), arguments.size(),
                                        &found, &err));
        EXPECT_THAT(err.text, HasSubstr(c.expect));
    }
}

} // namespace
