// Charts of training: which there are, and what they show.
#include "report/training/train_chart_cases.h"

namespace
{

using charts::Array;
using charts::Blocks;
using made_up::Charts;
using made_up::Runs;
using made_up::Setting;
using testing::ElementsAre;
using testing::HasSubstr;

void ExpectGolden(const std::string &chart, const Runs &runs)
{
    EXPECT_GOLDEN(chart, charts::Essence(Charts(runs).Script(chart)));
}

// ---- which charts ----

const struct {
    const char *what;
    std::vector<Setting> runs;
    std::vector<std::string> charts; // but for throughput and loss: always
} kWhich[] = {
    {"one run", {{"single", "base", "fp32", 1}}, {}},
    {"one run on several GPUs",
     {{"naive", "base", "fp32", 2}},
     {"train_overhead_base"}},
    {"two precisions",
     {{"single", "base", "fp32", 1}, {"single", "base", "bf16", 1}},
     {"train_precision"}},
    {"two precisions of two models",
     {{"single", "base", "fp32", 1}, {"single", "large", "bf16", 1}},
     {}},
    {"two precisions on as many GPUs, in other modes",
     {{"naive", "base", "fp32", 2}, {"bucketed", "base", "bf16", 2}},
     {"train_overhead_base"}},
    {"one GPU beside several",
     {{"single", "base", "fp32", 1}, {"bucketed", "base", "fp32", 4}},
     {"train_scaling", "train_overhead_base"}},
    {"several GPUs without one",
     {{"bucketed", "base", "fp32", 2}, {"bucketed", "base", "fp32", 4}},
     {"train_overhead_base"}},
    {"one GPU of another precision",
     {{"single", "base", "bf16", 1}, {"bucketed", "base", "fp32", 4}},
     {"train_overhead_base"}},
    {"micro-batches",
     {{"single", "base", "fp32", 1, 1}, {"single", "base", "fp32", 1, 4}},
     {"train_accumulation"}},
    {"two modes",
     {{"naive", "base", "fp32", 2}, {"bucketed", "base", "fp32", 2}},
     {"train_overhead_base", "train_modes"}},
    {"two models on several GPUs",
     {{"naive", "base", "fp32", 2}, {"naive", "large", "fp32", 2}},
     {"train_overhead_base", "train_overhead_large"}},
};

TEST(TrainCharts, AreThoseForWhichThereAreRunsToCompare)
{
    for (const auto &w : kWhich) {
        Runs runs;
        for (const Setting &s : w.runs)
            runs.Add(s, {2, 2});
        std::vector<std::string> charts = Charts(runs).Names();
        charts.erase(std::remove_if(charts.begin(), charts.end(),
                                    [](const std::string &name) {
                                        return name == "train_throughput" ||
                                               name == "train_loss";
                                    }),
                     charts.end());
        EXPECT_EQ(w.charts, charts) << w.what;
    }
}

TEST(TrainCharts, SayWhyTheyAreLeftOut)
{
    Runs runs;
    runs.Add({"single", "base", "fp32", 1}, {2});
    Charts charts(runs);

    const struct {
        const char *chart, *why;
    } cases[] = {
        {"train_precision", "no two precisions of one model on as many GPUs"},
        {"train_scaling", "no run on one GPU beside one on several of the same "
                          "model and precision"},
        {"train_accumulation",
         "no two numbers of micro-batches (`steptune train --ga`) of one "
         "model, precision, mode and number of GPUs"},
        {"train_overhead",
         "no run on several GPUs whose time of communication is known"},
        {"train_loss", "no run of two epochs or more with losses"},
        {"train_modes",
         "no two modes of one model, precision and number of GPUs"},
        {"train_hardware",
         "no two models of GPU that ran the same (give the files of each)"},
        {"train_throughput", "drawn"},
    };

    for (const auto &c : cases)
        EXPECT_EQ(c.why, charts.Why(c.chart));
    EXPECT_EQ(std::size(cases), charts.all.n);
}

TEST(TrainCharts, OfSeveralModelsOfGpuAreOneOfAll)
{
    Runs runs;
    runs.Add({"naive", "base", "fp32", 2, 1, "Card A-1"}, {4, 4});
    runs.Add({"naive", "base", "fp32", 2, 1, "Card (B)"}, {2, 2});
    Charts charts(runs);

    EXPECT_THAT(charts.Names(), ElementsAre("train_hardware"));
    EXPECT_EQ("results of several models of GPU, expected one",
              charts.Why("train_throughput"));
    EXPECT_EQ("'Training: epoch time by hardware, Card A-1 and Card (B)'",
              charts::Setting(charts.Script("train_hardware"), "title"));
    EXPECT_THAT(Blocks(charts.Script("train_hardware")),
                ElementsAre("1 2 GPUs Card A-1 -0.21 4 4 4 1 \n"
                            "1 2 GPUs Card (B) 0.21 2 2 2 2 2.00x\n"));
}

// ---- what is compared ----

TEST(TrainCharts, CompareWhatIsAlikeInAllElse)
{
    struct {
        const char *what;
        void (*change)(stp_train_run *r);
    } const cases[] = {
        {"batch", [](stp_train_run *r) { r->batch = 2048; }},
        {"samples", [](stp_train_run *r) { r->n_samples = 8192; }},
        {"gradients",
         [](stp_train_run *r) { made_up::Put(r->gradients, "bf16"); }},
        {"buckets", [](stp_train_run *r) { r->bucket_bytes = 1 << 20; }},
        {"rate", [](stp_train_run *r) { r->rate = 0.5; }},
        {"seed", [](stp_train_run *r) { r->seed = 7; }},
    };

    for (const auto &c : cases) {
        Runs runs;
        c.change(&runs.Add({"bucketed", "base", "bf16", 2}, {9, 9}));
        runs.Add({"bucketed", "base", "bf16", 2}, {2, 2});
        runs.Add({"bucketed", "base", "bf16", 4}, {1, 1});
        Charts charts(runs);

        EXPECT_EQ(1u, charts.all.n_runs_aside) << c.what;
        EXPECT_THAT(Blocks(charts.Script("train_throughput")),
                    ElementsAre("1 2 GPUs bucketed 0 32.768 32.768 32.768 1 "
                                "32.8\n1 4 GPUs bucketed 1 65.536 65.536 "
                                "65.536 1 65.5\n"))
            << c.what;
    }
}

TEST(TrainCharts, PoolRepeatedRuns)
{
    Runs runs;
    runs.Add({"single", "base", "fp32", 1}, {2, 3});
    runs.Add({"single", "base", "fp32", 1}, {1, 2, 2});
    runs.Add({"single", "base", "fp32", 1, 4}, {9, 9}); // micro-batches

    // 2 s -+ 2.7764 sqrt(1/2) / sqrt(5), and its axis up to 1.6 times the bar
    const std::string script = Charts(runs).Script("train_throughput");
    EXPECT_THAT(Blocks(script),
                ElementsAre("1 1 GPU single 0 32.768 22.7716 58.4087 1 "
                            "32.8\n"));
    EXPECT_THAT(Array(script, "tops"), ElementsAre("52.4288"));
}

// Micro-batches may be parts of a batch, or make a larger one.
TEST(TrainCharts, OfMicroBatchesSayTheBatchOfEachBar)
{
    const struct {
        std::vector<unsigned> batches; // of GA 4, in a file's order
        const char *bars;
    } cases[] = {
        {{4096},
         "1 1 GPU GA 1, batch 4096 (16 steps) -0.21 2 2 2 1 \n"
         "1 1 GPU GA 4, batch 4096 (16 steps) 0.21 4 4 4 2 0.50x\n"},
        {{16384},
         "1 1 GPU GA 1, batch 4096 (16 steps) -0.21 2 2 2 1 \n"
         "1 1 GPU GA 4, batch 16384 (4 steps) 0.21 1 1 1 2 2.00x\n"},
        {{16384, 4096},
         "1 1 GPU GA 1, batch 4096 (16 steps) -0.28 2 2 2 1 \n"
         "1 1 GPU GA 4, batch 4096 (16 steps) 0 4 4 4 2 0.50x\n"
         "1 1 GPU GA 4, batch 16384 (4 steps) 0.28 1 1 1 3 2.00x\n"},
    };

    for (const auto &c : cases) {
        Runs runs;
        runs.Add({"single", "base", "fp32", 1, 1}, {2, 2});
        for (unsigned batch : c.batches) {
            const double s = batch > 4096 ? 1 : 4;
            runs.Add({"single", "base", "fp32", 1, 4}, {s, s}).batch = batch;
        }

        const std::string script = Charts(runs).Script("train_accumulation");

        EXPECT_THAT(Blocks(script), ElementsAre(c.bars));
        EXPECT_EQ("'single, 65536 samples an epoch; gradients are sent once a "
                  "step; above: speed-up over the first bar; ends: 95% "
                  "intervals over epochs'",
                  charts::Setting(script, "how"));
        // and all others are of the smallest, which they say
        EXPECT_THAT(Blocks(Charts(runs).Script("train_throughput")),
                    ElementsAre("1 1 GPU single 0 32.768 32.768 32.768 1 "
                                "32.8\n"));
    }
}

TEST(TrainCharts, LeaveOutWhatIsNotKnown)
{
    const struct {
        const char *chart, *why;
        void (*forget)(stp_train_run *r);
    } cases[] = {
        {"train_overhead",
         "no run on several GPUs whose time of communication is known",
         [](stp_train_run *r) { r->comm_s[0] = r->exposed_s[0] = NAN; }},
        {"train_throughput", "no run whose number of samples is known",
         [](stp_train_run *r) { r->n_samples = r->batch = 0; }},
    };

    for (const auto &c : cases) {
        Runs runs;
        c.forget(&runs.Add({"bucketed", "base", "fp32", 2}, {2, 2}));
        Charts charts(runs);

        EXPECT_EQ(c.why, charts.Why(c.chart));
        EXPECT_THAT(charts.Script("train_loss"),
                    HasSubstr(runs.all.runs[0].batch > 0
                                  ? "'GA 1, batch 4096 (16 steps), 65536 "
                                    "samples an epoch'"
                                  : "'GA 1'"));
    }
}

// ---- what they show ----

TEST(TrainCharts, PrecisionsHaveSpeedUpsOverTheFirst)
{
    Runs runs;
    runs.Add({"single", "base", "bf16", 1}, {4, 4});
    runs.Add({"single", "base", "fp32", 1}, {8, 8});
    runs.Add({"bucketed", "base", "fp32", 2}, {4, 4});
    runs.Add({"bucketed", "base", "fp16", 2}, {3.2, 3.2});
    runs.Add({"naive", "base", "bf16", 2}, {1, 1});

    ExpectGolden("train_precision", runs);
}

TEST(TrainCharts, IntervalsAreStudentsOfTheMean)
{
    Runs runs;
    runs.Add({"naive", "base", "fp32", 2}, {9, 10, 11});
    runs.Add({"sharded", "base", "fp32", 2}, {1, 10, 19});

    // 10 -+ 4.3027 / sqrt(3), and nine times that: from 0, cut off at 16
    const std::string script = Charts(runs).Script("train_modes");
    EXPECT_THAT(Blocks(script),
                ElementsAre("1 2 GPUs naive -0.21 10 7.51583 12.4842 1 \n"
                            "1 2 GPUs sharded 0.21 10 0 32.3575 2 1.00x\n"));
    EXPECT_THAT(Array(script, "tops"), ElementsAre("16"));
}

TEST(TrainCharts, ScalingIsOverOneGpuBesideTheIdeal)
{
    Runs runs;
    runs.Add({"single", "base", "fp32", 1}, {8, 8});
    runs.Add({"bucketed", "base", "fp32", 2}, {5, 5});
    runs.Add({"naive", "base", "fp32", 4}, {1, 1});
    runs.Add({"bucketed", "base", "fp32", 8}, {1.6, 1.6});
    runs.Add({"single", "large", "fp32", 1}, {9, 10, 11});
    runs.Add({"bucketed", "large", "fp32", 2}, {5, 5, 5});
    runs.Add({"bucketed", "large", "bf16", 2}, {5, 5, 5});

    ExpectGolden("train_scaling", runs);
}

// Above all: without exposed communication, without any, and that alone.
TEST(TrainCharts, OverheadIsExposedAndHidden)
{
    Runs runs;
    runs.Add({"naive", "base", "fp32", 2}, {8, 8}, 0.25, 0.25);
    runs.Add({"bucketed", "base", "fp32", 2}, {8, 8}, 0.75, 0.125);
    runs.Add({"sharded", "base", "fp32", 2}, {8, 8}, 1.5, 0.5);

    ExpectGolden("train_overhead_base", runs);
}

TEST(TrainCharts, LossIsOfTheLargestModelAndSaysHowFarModesAreApart)
{
    Runs runs;
    runs.Add({"single", "base", "fp32", 1}, {1, 1});
    runs.Add({"single", "large", "fp32", 1}, {1, 1});
    stp_train_run &naive = runs.Add({"naive", "large", "fp32", 2}, {1, 1});
    naive.losses[1] = 2.5;
    naive.accuracy = 0.25;
    runs.Add({"naive", "large", "fp32", 2, 4}, {1, 1}); // other micro-batches
    runs.Add({"naive", "xlarge", "fp32", 2}, {1, 1}).losses[1] = NAN;

    ExpectGolden("train_loss", runs);
}

TEST(TrainCharts, ModesStandBesideEachOther)
{
    Runs runs;
    runs.Add({"single", "base", "fp32", 1}, {9, 9});
    runs.Add({"naive", "base", "fp32", 2}, {0.8, 0.8});
    runs.Add({"interleaved", "base", "fp32", 2}, {0.64, 0.64});
    runs.Add({"bucketed", "base", "fp32", 2}, {0.5, 0.5});
    runs.Add({"naive", "base", "fp32", 4}, {0.4, 0.4}); // with nothing beside

    ExpectGolden("train_modes", runs);
}

TEST(TrainCharts, PanelsAreModelsBesideEachOtherAndPrecisionsBelow)
{
    Runs runs;
    runs.Add({"single", "large", "fp32", 1}, {4, 4});
    runs.Add({"single", "base", "bf16", 1}, {1, 1});
    runs.Add({"single", "base", "fp32", 1}, {2, 2});

    ExpectGolden("train_throughput", runs);
}

TEST(TrainCharts, TitlesSayWhatWasNotMeasured)
{
    for (int source = 0; source < STP_N_SOURCES; source++) {
        const std::string words = std::string(" (") +
                                  stp_source_name(stp_source(source)) +
                                  ", not measured)";
        Runs one;
        one.Add({"single", "base", "fp32", 1}, {1, 1}).source =
            stp_source(source);
        EXPECT_EQ(
            "'Training: throughput, Made-up GPU" +
                (source == STP_SOURCE_MEASURED ? "" : words) + "'",
            charts::Setting(Charts(one).Script("train_throughput"), "title"));
    }
    Runs runs;
    runs.Add({"single", "base", "fp32", 1}, {1, 1});
    runs.Add({"single", "base", "bf16", 1}, {1, 1}).source = STP_SOURCE_VIRTUAL;
    EXPECT_THAT(Charts(runs).Script("train_throughput"),
                HasSubstr("'Training: throughput, Made-up GPU (partly "
                          "virtual, not measured)'"));
    runs.Add({"single", "base", "tf32", 1}, {1, 1}).source =
        STP_SOURCE_RECORDED;
    EXPECT_THAT(Charts(runs).Script("train_throughput"),
                HasSubstr("(partly recorded or modelled, not measured)'"));
}

// Pixels left of a panel, of which the title of the axis takes 20.
TEST(TrainCharts, LossHasRoomForItsNumbersBesideTheTitleOfTheAxis)
{
    if (!charts::HasGnuplot())
        GTEST_SKIP() << "no gnuplot here";
    const struct {
        double first, last;
        const char *left_margin;
    } cases[] = {{2.5, 2.0, " 80\n"},
                 {2.302776, 2.302761, " 88\n"},
                 {12.302776, 12.302761, " 96.5\n"},
                 {2.5, 2.5, " 80\n"},
                 {0, 0, " 80\n"}};

    for (const auto &c : cases) {
        Runs runs;
        stp_train_run &run = runs.Add({"single", "base", "fp32", 1}, {1, 1});
        run.losses[0] = c.first;
        run.losses[1] = c.last;
        EXPECT_THAT(
            charts::Printed(Charts(runs).Script("train_loss"), {"left_margin"}),
            testing::EndsWith(c.left_margin)) // after any warning
            << c.first;
    }
}

} // namespace
