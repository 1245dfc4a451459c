// The page as it is made from files.
#include "page_files.h"
#include "report/page/json_at.h"

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

// The JSON that the script of the page draws.
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
    d.AddGain(4 * kMiB, kRingSimple, 2); // AUTO by another name
    const std::string sweep = Save("s.sweep.csv", &d);
    const std::string policy = Write("s.conf", kPolicy);
    const std::string page =
        Make(Sources({{STP_PAGE_POLICY, policy}, {STP_PAGE_SWEEP, sweep}}));

    EXPECT_EQ("On 4 x NVIDIA H200 with NCCL 2.28.9 this policy makes allreduce "
              "up to 1.50x as fast (at 4 MiB), changes 2 of 4 sizes, and is "
              "nowhere measurably slower; it was not "
              "verified: these are gains of its arms in the sweep.\n",
              said_);
    EXPECT_THAT(page, HasSubstr("1.250 to 1.500 at 2 sizes, measured<"));
    EXPECT_THAT(page, HasSubstr("Times were measured live."));
    EXPECT_THAT(page,
                HasSubstr("<b>2M</b> 1.250 (1.250 to 1.250), measured</li>"));
    EXPECT_THAT(page, HasSubstr("<li><code>s.sweep.csv</code>: 1 iteration"));
    EXPECT_THAT(page, Not(HasSubstr("warn\"")));
    EXPECT_THAT(page, HasSubstr(kPolicy));

    const Json plots = Plots(page);
    const cJSON *panel = At(plots.get(), {"panels", "0"});
    const cJSON *row = At(panel, {"rows", "2"});
    EXPECT_STREQ("All-reduce", At(panel, {"name"})->valuestring);
    EXPECT_EQ(4, cJSON_GetArraySize(At(panel, {"rows"})));
    EXPECT_EQ(4 * kMiB, At(row, {"bytes"})->valuedouble);
    EXPECT_EQ(100, At(row, {"auto_us"})->valuedouble);
    EXPECT_NEAR(1.5, At(row, {"gain"})->valuedouble, 1e-4);
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
    for (size_t i = 0; i < run.data.n_rows; i++) {
        stp_measurement *m = &run.data.rows[i];
        const bool is_auto = m->arm.kind == STP_ARM_AUTO;
        if (m->n_bytes > kMiB) {
            m->ran_algo = is_auto ? NCCL_ALGO_TREE : NCCL_ALGO_RING;
            m->ran_proto = is_auto && m->n_bytes > 2 * kMiB ? NCCL_PROTO_LL
                                                            : NCCL_PROTO_LL128;
        }
    }
    const std::string verify = Save("s.verify.csv", &run);
    const std::string policy = Write("s.conf", kPolicy);
    const std::string page = Make(Sources({{STP_PAGE_POLICY, policy},
                                           {STP_PAGE_SWEEP, sweep},
                                           {STP_PAGE_VERIFY, verify}}));

    EXPECT_EQ("On 4 x NVIDIA H200 with NCCL 2.28.9 this policy makes allreduce "
              "up to 1.20x as fast (at 2 MiB), changes 2 of 4 sizes, and is "
              "slower at 1: at worst allreduce takes 1.25x as long (at 4 "
              "MiB).\n"
              "s.verify.csv does not say which policy it verifies, as an "
              "earlier release wrote it: it is taken to be s.conf.\n",
              said_);
    EXPECT_THAT(page, HasSubstr("<p class=\"lead warn\">On 4 x NVIDIA"));
    EXPECT_THAT(page, HasSubstr("<tr class=\"bad\"><th class=\"n\">4194304"));
    EXPECT_THAT(page, HasSubstr("<td>tree/ll128, tree/ll</td>"));
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
    const std::string page =
        Make(Sources({{STP_PAGE_POLICY, policy}, {STP_PAGE_SWEEP, sweep}},
                     "<i>\"mine\"</i>"));

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
    const stp_page_sources sources =
        Sources({{STP_PAGE_POLICY, policy}, {STP_PAGE_SWEEP, sweep}});
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
    MakeSteps(&d);
    for (size_t i = 0; i < d.data.n_rows; i++) {
        stp_measurement *m = &d.data.rows[i];
        m->work.gemm.m = m->work.gemm.n = m->work.gemm.k = 64;
        m->work.compute_us = 5;
        m->alone_us =
            m->arm.algo == NCCL_ALGO_RING && m->arm.kind == STP_ARM_FORCED
                ? 8
                : 10 + m->round * 0.1;
    }
    const std::string rounds = Save("rounds.csv", &d);
    const std::string page = Make(Sources({{STP_PAGE_ITERATIONS, rounds}}));

    EXPECT_EQ("On 4 x NVIDIA H200 with NCCL 2.28.9: training iterations, "
              "without a policy.\n",
              said_);
    EXPECT_THAT(page, HasSubstr("Where the fastest collective does not make "));
    EXPECT_THAT(page, HasSubstr("<td>ring/ll128</td><td><b>tree/ll</b></td>"
                                "<td>1.562 (1.562 to 1.562)</td>"));
    const Json plots = Plots(page);
    const cJSON *arms = At(plots.get(), {"sets", "0", "settings", "0", "arms"});
    EXPECT_STREQ("tree/ll", At(arms, {"1", "arm"})->valuestring);
    EXPECT_LT(1, At(arms, {"1", "gain_low"})->valuedouble);
    EXPECT_STREQ("ring/ll128", At(arms, {"2", "arm"})->valuestring);
    EXPECT_GT(1, At(arms, {"2", "gain_high"})->valuedouble);
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
    const std::string nowhere = "/proc/nowhere/x.csv";
    const struct {
        stp_page_sources sources;
        const char *expect;
    } cases[] = {
        {Sources({{STP_PAGE_POLICY, policy}}),
         "no measurements, expected those that the policy was made from"},
        {Sources({{STP_PAGE_POLICY, bad}, {STP_PAGE_SWEEP, sweep}}),
         "bad.conf:1:12: expected a rule of 8 to 10 fields"},
        {Sources({{STP_PAGE_MEMORY_POLICY, policy}, {STP_PAGE_SWEEP, sweep}}),
         "s.conf:1:1: "},
        {Sources({{STP_PAGE_SWEEP, no_auto}}), "no_auto.csv: "},
        {Sources({{STP_PAGE_ITERATIONS, sweep}}),
         "sweep.csv: 0 of 9 rows are of iterations, expected all"},
        {Sources({{STP_PAGE_SWEEP, nowhere}}), "x.csv: "},
    };
    for (const auto &c : cases)
        EXPECT_THAT(Make(c.sources), HasSubstr(c.expect));
}

// ---- what to register ----

// Sizes of 1, 2 and 4 MiB: AUTO, ring/ll128 from 2 MiB on, reg, and sym, which
// is a kernel.
void AddSetups(Data *d)
{
    const struct {
        uint64_t n_bytes;
        double ring, sym;
    } sizes[] = {{kMiB, 1, 1.5}, {2 * kMiB, 1.25, 2}, {4 * kMiB, 1.25, 0.8}};
    for (const auto &s : sizes) {
        d->AddAuto(s.n_bytes).AddGain(s.n_bytes, kRingLl128, s.ring);
        d->AddGain(s.n_bytes, kReg, 1).AddGain(s.n_bytes, kSym, s.sym);
    }
    for (size_t i = 0; i < d->data.n_rows; i++)
        if (d->data.rows[i].arm.setup.memory == STP_MEMORY_SYM)
            std::snprintf(d->data.rows[i].ran_kernel, STP_KERNEL_NAME,
                          "Symmetric_A");
}

TEST_F(Page, SaysWhatToRegisterAndWhatItIsWorth)
{
    Data swept, steps;
    AddSetups(&swept);
    steps.AddAuto(kMiB).AddGain(kMiB, kSym, 1.1);
    MakeSteps(&steps);
    const std::string sweep = Save("s.sweep.csv", &swept);
    const std::string iterations = Save("s.iterations.csv", &steps);
    const std::string memory =
        Write("s.conf.memory", std::string(kMemoryHeader) +
                                   // the first that matches decides
                                   "allreduce,0,2M,sym,1,4,0,NVIDIA H200\n"
                                   "allreduce,0,4M,reg,1,2-4,-1,*\n"
                                   "allreduce,0,inf,sym,1,4,1,*\n"
                                   "allgather,1M,2M,ce,1,4,0,*\n"
                                   "allreduce,0,inf,sym,1,4,0,NVIDIA A100\n");
    const std::string page = Make(Sources({{STP_PAGE_MEMORY_POLICY, memory},
                                           {STP_PAGE_SWEEP, sweep},
                                           {STP_PAGE_ITERATIONS, iterations}}));

    const auto size = [](const std::string &text) {
        return "<li><b>" + text + "</li>\n";
    };
    const std::string rows[] = {
        "<td>allreduce</td><td>0 to 2M<br><small>1 node, 4 ranks, NVIDIA H200"
        "</small></td><td>alone</td><td "
        "class=\"to\"><b>sym</b></td><td><details><summary>"
        "1.600</summary><ul class=\"gains\">\n" + // 1M is half a round
            size("2M</b> 1.600 over ring/ll128") +
            "</ul></details></td><td><details><summary>2.000 at 1 "
            "size</summary><ul class=\"gains\">\n" +
            size("2M</b> 2.000 (2.000 to 2.000), measured") +
            "</ul></details></td>",
        "any GPU</small></td><td>alone, overlapped</td><td "
        "class=\"to\"><b>reg</b></td><td>"
        "<details><summary>0.800 to 1.000</summary><ul class=\"gains\">\n" +
            size("1M</b> 1.000 over AUTO") +
            size("4M</b> 0.800 over ring/ll128"),
        "<td>overlapped</td><td class=\"to\"><b>sym</b></td><td></td><td>not "
        "measured at any size in its range, or slower in some workload</td>",
        "<td>allgather</td><td>1M to 2M<br><small>1 node, 4 ranks, any GPU"
        "</small></td><td>alone</td><td "
        "class=\"to\"><b>ce</b></td><td></td><td>not measured"
        " at any size in its range</td>",
        "NVIDIA A100</small></td><td>alone</td><td "
        "class=\"to\"><b>sym</b></td><td></td><td>not measured"};
    EXPECT_EQ(5U, Count(page, "</small></td><td>alone") +
                      Count(page, "</small></td><td>overlapped"));
    for (const std::string &row : rows)
        EXPECT_THAT(page, HasSubstr(row));
    EXPECT_THAT(page,
                HasSubstr("<p class=\"lead\">Registering buffers makes "
                          "allreduce up to 2.00x as fast (at 2 MiB); only "
                          "an application can do that, and no tuner."));
    EXPECT_THAT(page, HasSubstr("<h3><code>s.conf.memory</code>, policy hash"));
}

TEST_F(Page, SaysWhatToRegisterInTrainingSteps)
{
    const char *sentence =
        "Registering buffers makes training steps up to 1.10x as fast "
        "(allreduce of 1 MiB); only an application can do that, and no tuner.";
    const struct {
        double gain, error; // in percent of the first round
        bool is_said;
        const char *cell;
    } cases[] = {
        {1.1, 0, true, "<summary>1.100 at 1 size</summary>"},
        {1.1, 30, false, "<summary>1.008 at 1 size</summary>"},
        {0.9, 0, false,
         "<td>not measured at any size in its range, or slower in some "
         "workload</td>"},
    };
    const std::string memory =
        Write("s.conf.memory", std::string(kMemoryHeader) +
                                   "allreduce,1M,1M,sym,1,4,1,NVIDIA H200\n");
    for (const auto &c : cases) {
        Data d;
        const double us = 100 / c.gain;
        d.AddAuto(kMiB).Add(kMiB, kSym, {us * (1 + c.error / 100), us, us});
        MakeSteps(&d);
        const std::string rounds = Save("rounds.csv", &d);
        const std::string page = Make(Sources(
            {{STP_PAGE_MEMORY_POLICY, memory}, {STP_PAGE_ITERATIONS, rounds}}));

        EXPECT_EQ(c.is_said ? 1U : 0U, Count(page, sentence));
        EXPECT_EQ(1U, Count(page, c.cell)) << c.cell;
    }
}

// All-reduces of DDP are in place, the other collectives of FSDP are not.
TEST_F(Page, ItTellsWhatRegisteringIsWorthInPlaceAndOutOfPlace)
{
    Data ddp, fsdp;
    ddp.AddAuto(kMiB).AddGain(kMiB, kSym, 1.1);
    MakeSteps(&ddp);
    fsdp.AddAuto(kMiB).AddGain(kMiB, kSym, 1.2);
    MakeSteps(&fsdp);
    for (size_t i = 0; i < fsdp.data.n_rows; i++) {
        stp_measurement m = fsdp.data.rows[i];
        m.coll = ncclFuncAllGather;
        m.work.mode = STP_MODE_FSDP;
        stp_dataset_add(&ddp.data, &m);
    }
    for (size_t i = 0; i < ddp.data.n_rows; i++)
        ddp.data.rows[i].in_place = ddp.data.rows[i].coll == ncclFuncAllReduce;
    const std::string rounds = Save("rounds.csv", &ddp);
    const std::string memory =
        Write("s.conf.memory", std::string(kMemoryHeader) +
                                   "allreduce,1M,1M,sym,1,4,1,NVIDIA H200\n"
                                   "allgather,1M,1M,sym,1,4,1,NVIDIA H200\n");

    const std::string page = Make(Sources(
        {{STP_PAGE_MEMORY_POLICY, memory}, {STP_PAGE_ITERATIONS, rounds}}));

    for (const char *gain : {"1.100", "1.200"})
        EXPECT_EQ(1U, Count(page, std::string("<summary>") + gain +
                                      " at 1 size</summary>"))
            << gain;
}

TEST_F(Page, SaysWhatToStageInGraphsAndWithout)
{
    Data launched, captured;
    const stp_arm arms[] = {
        {STP_ARM_SETUP, 0, 0, 0, 0, stp_setup_of(STP_MEMORY_STAGE, 32)},
        {STP_ARM_SETUP, 0, 0, 0, 0, stp_setup_of(STP_MEMORY_STAGE, 16)}};
    launched.AddAuto(2 * kMiB).AddGain(2 * kMiB, arms[0], 1.25);
    captured.AddAuto(2 * kMiB).AddGain(2 * kMiB, arms[1], 1.75);
    for (size_t i = 0; i < captured.data.n_rows; i++)
        captured.data.rows[i].graph = true;
    const std::string sweep = Save("s.sweep.csv", &launched);
    const std::string graph = Save("s.graph.csv", &captured);
    const std::string stage = Write("s.conf.stage", kStage);

    const std::string page = Make(Sources({{STP_PAGE_STAGE_POLICY, stage},
                                           {STP_PAGE_SWEEP, sweep},
                                           {STP_PAGE_GRAPH, graph}}));

    for (const char *text :
         {"<h2>What to stage</h2>", "<td>launched</td>", "<td>captured</td>",
          "<b>stage, minCTAs 16</b>", "1.250 at 1 size", "1.750 at 1 size",
          "Staging buffers makes allreduce up to 1.75x as fast (at 2 MiB); a "
          "job as it is can have that, by `steptune run --stage`.",
          "<h3><code>s.conf.stage</code>, policy hash"})
        EXPECT_THAT(page, HasSubstr(text));
    EXPECT_THAT(page, Not(HasSubstr("What to register")));
}

TEST_F(Page, AMemoryPolicyWithoutRulesSaysSo)
{
    Data d;
    AddSetups(&d);
    const std::string sweep = Save("s.sweep.csv", &d);
    const std::string memory = Write("s.conf.memory", kMemoryHeader);
    const std::string with = Make(
        Sources({{STP_PAGE_MEMORY_POLICY, memory}, {STP_PAGE_SWEEP, sweep}}));

    EXPECT_THAT(with, HasSubstr("<p>Nothing: no other buffers gain enough "));
    EXPECT_THAT(with, Not(HasSubstr("Registering buffers makes")));
    EXPECT_THAT(Make(Sources({{STP_PAGE_SWEEP, sweep}})),
                Not(HasSubstr("What to register")));
}

TEST_F(Page, SetupsStandBesideTheArmsThatATunerCanChoose)
{
    Data swept, steps, plain;
    AddSetups(&swept);
    const stp_arm chunk{
        STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0, 128 << 10, {}};
    swept.AddAuto(8 * kMiB).AddGain(8 * kMiB, chunk, 1.25);
    AddSetups(&steps);
    MakeSteps(&steps);
    AddSweep(&plain, {1.5});
    const std::string sweep = Save("s.sweep.csv", &swept);
    const std::string rounds = Save("s.iterations.csv", &steps);
    const std::string page =
        Make(Sources({{STP_PAGE_SWEEP, sweep}, {STP_PAGE_ITERATIONS, rounds}}));

    EXPECT_EQ("On 4 x NVIDIA H200 with NCCL 2.28.9 some arm is faster than "
              "NCCL's own choice at 3 of 4 sizes, by up to 1.25x (allreduce at "
              "2 MiB); there is no policy here. "
              "With registered buffers allreduce is up to 2.00x as fast (at 2 "
              "MiB).\n",
              said_);
    EXPECT_EQ(1U, Count(page, "<th>Fastest setup</th>"));
    for (const char *cells :
         {"<td>ring/ll128</td><td>1.250 (1.250 to 1.250)</td><td>sym</td>"
          "<td>Symmetric_A</td><td>2.000 (2.000 to 2.000)</td>",
          "<td>reg</td><td>ring/simple/24</td><td>1.000 (1.000 to 1.000)</td>",
          "<td>ring/simple/chunk=128K</td><td>1.250 (1.250 to 1.250)</td>"
          "<td colspan=\"3\" class=\"same\">not measured</td>",
          "<tr><td>sym</td><td>Symmetric_A</td>",
          "<tr><td>reg</td><td>ring/simple/24</td>"})
        EXPECT_THAT(page, HasSubstr(cells));
    const Json plots = Plots(page);
    const cJSON *row = At(plots.get(), {"panels", "0", "rows", "1"});
    EXPECT_EQ(80, At(row, {"best_us"})->valuedouble);
    EXPECT_EQ(1, cJSON_GetArraySize(At(row, {"arms"})));
    EXPECT_EQ(50, At(row, {"setup", "us"})->valuedouble);

    const std::string without = Save("plain.csv", &plain);
    EXPECT_THAT(Make(Sources({{STP_PAGE_SWEEP, without}})),
                Not(HasSubstr("<th>Fastest setup</th>")));
}

// ---- finding ----

TEST_F(Page, FindsWhatLiesBesideAPolicy)
{
    Data d, run;
    AddSweep(&d, {1});
    run.AddAuto(kMiB).AddGain(kMiB, kPlugin, 1);
    Save("s.sweep.csv", &d);
    Save("s.verify.csv", &run);
    for (size_t i = 0; i < run.data.n_rows; i++)
        run.data.rows[i].graph = true;
    Save("s.graph.csv", &run);
    Save("other.csv", &d);
    Write("s.conf", kPolicy);
    Write("s.conf.overlap", kPolicy);
    Write("s.conf.memory", kMemory);
    Write("s.conf.stage", kStage);
    const std::vector<std::vector<std::string>> given = {
        {"s.conf"},
        {"."},
        {"s.sweep.csv", "s.conf"},
        {"s.conf.overlap", "."},
        {"s.conf.memory", "s.conf"},
        {"s.conf.stage", "s.conf.memory", "."}};
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
        EXPECT_EQ("s.conf.memory",
                  fs::path(s.path[STP_PAGE_MEMORY_POLICY]).filename());
        EXPECT_EQ("s.conf.stage",
                  fs::path(s.path[STP_PAGE_STAGE_POLICY]).filename());
        EXPECT_EQ("s.graph.csv", fs::path(s.path[STP_PAGE_GRAPH]).filename());
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
    const std::string memory = Write("m.conf.memory", kMemory);
    const std::string word =
        Write("bad.conf.memory",
              std::string(kMemory) + "allreduce,1,2,symmetric,1,4\n");
    Write("good.conf", kPolicy);
    const struct {
        std::vector<std::string> paths;
        const char *expect;
    } cases[] = {
        {{one, two}, "are both sweeps, expected one"},
        {{bad}, "bad.conf:1:"},
        {{memory, memory}, "are both memory policies, expected one"},
        {{word}, "bad.conf.memory:3:15: "},
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
