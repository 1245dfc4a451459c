// Ranks in threads, and results of training written, read back and summed up.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <regex>

extern "C" {
#include "report/training/train_json.h"
#include "report/training/train_results.h"
}

#include "support/in_folder.h"
#include "support/owned.h"
#include "support/written.h"

extern "C" {
#include "cli/train_engines.h"
}

namespace
{

using testing::HasSubstr;

stp_train_config Epochs(unsigned n)
{
    stp_train_config c;

    stp_train_default(&c);
    c.model = stp_train_find_model("tiny");
    c.mode = STP_TRAIN_NAIVE;
    c.batch = 64;
    c.n_samples = 128;
    c.n_epochs = n;
    c.warmup = 1;
    return c;
}

// ---- ranks in threads ----

template <typename... Args> stp_status Ok(void *, Args...)
{
    return STP_OK;
}

// One of two ranks, which computes nothing in no time.
struct IdleEngine {
    IdleEngine()
    {
        ops.info = [](const void *, stp_device_info *info) {
            *info = {};
            info->n_ranks = 2;
        };
        ops.alloc = [](void *self, uint64_t n, const char *what, void **at,
                       stp_error *err) {
            if (n > static_cast<IdleEngine *>(self)->room)
                return stp_fail(err, STP_ERR_NOMEM, "no memory for %s", what);
            *at = self;
            return STP_OK;
        };
        ops.note = [](void *self, const stp_work *work, stp_error *) {
            static_cast<IdleEngine *>(self)->n_collectives +=
                work->kind == STP_WORK_TRANSFER;
            return STP_OK;
        };
        ops.elapsed_us = [](const void *, unsigned, unsigned, double *us,
                            stp_error *) {
            *us = 0;
            return STP_OK;
        };
        ops.agree = [](void *, stp_status status, stp_error *) {
            return status;
        };
        ops.now_us = [](const void *) { return 0.; };
        ops.release = [](void *) {};
        ops.close = [](void *self) {
            static_cast<IdleEngine *>(self)->n_closed++;
        };
        ops.upload = Ok;
        ops.download = Ok;
        ops.synchronise = Ok;
    }

    stp_engine_ops ops{};
    uint64_t room = 1u << 30; // of an alloc()
    unsigned n_collectives = 0;
    unsigned n_closed = 0;
};

// The engines that stp_open_engines() below hands out.
std::vector<IdleEngine> *g_engines;

TEST(TrainEngines, TrainInThreadsAndGiveTheResultOfTheFirst)
{
    std::vector<IdleEngine> engines(3);
    const stp_train_config config = Epochs(2);
    stp_run_options run{};
    stp_open_options open{};
    stp_train_engines opened{};
    stp_train_result result{};
    stp_error err{};
    g_engines = &engines;
    open.run = &run;
    open.world = &stp_world_of_one;
    ASSERT_EQ(STP_OK, stp_train_engines_open(&open, 3, &opened, &err));

    for (int i = 0; i < 2; i++) { // one set for all that is trained on it
        ASSERT_EQ(STP_OK,
                  stp_train_engines_run(&opened, &config, ".", &result, &err))
            << err.text;
        EXPECT_EQ(2u, result.n_epochs);
        stp_train_result_free(&result);
    }
    // 6 tensors in each of 2 steps, and the losses: after a warm-up, two epochs
    for (const IdleEngine &engine : engines)
        EXPECT_EQ(2 * (7 + 2 * 13 + 1u), engine.n_collectives);

    engines[1].room = 4096;
    EXPECT_EQ(STP_ERR_NOMEM,
              stp_train_engines_run(&opened, &config, ".", &result, &err));
    EXPECT_STREQ("no memory for weights", err.text);
    stp_train_engines_close(&opened);
    for (const IdleEngine &engine : engines)
        EXPECT_EQ(1u, engine.n_closed);
}

// ---- results ----

using TrainRun = struct stp_train_run; // which a function is called, too

// Runs of one file.
class TrainResults : public InFolder
{
  protected:
    // Adds a training whose epochs take as long as given.
    void Take(stp_train_mode mode, unsigned n_gpus,
              const std::vector<double> &seconds)
    {
        stp_train_config config = Epochs(unsigned(seconds.size()));
        std::vector<stp_train_epoch> epochs;
        stp_train_result result{};
        stp_device_info info{};
        config.mode = mode;
        for (double s : seconds)
            epochs.push_back({s, s / 2, s / 4, 2.25, STP_SOURCE_MEASURED});
        result.n_epochs = unsigned(epochs.size());
        result.epochs = epochs.data();
        result.accuracy = 0.125;
        result.throughput = 128. * seconds.size() /
                            std::accumulate(seconds.begin(), seconds.end(), 0.);
        result.last_loss_scale = 1;
        info.n_ranks = n_gpus;
        snprintf(info.processor, sizeof(info.processor), "FAKE 1");
        snprintf(info.what, sizeof(info.what), "%u x FAKE 1", n_gpus);
        Take({&config, &result, &info});
    }

    void Take(const stp_train_report &report)
    {
        stp_train_runs_take(&runs_, &report);
    }

    std::string JsonText()
    {
        return Written([&](FILE *fp) { stp_train_print_json(&runs_, fp); });
    }

    std::string Summary()
    {
        return Written([&](FILE *fp) { stp_train_print_summary(&runs_, fp); });
    }

    Owned<stp_train_runs, stp_train_runs_free> runs_;
};

TEST_F(TrainResults, AreReadAsTheyWereWritten)
{
    Take(STP_TRAIN_SINGLE, 1, {1.0 / 3, 0.25});
    Take(STP_TRAIN_BUCKETED, 2, {0.1, 0.2, 0.3});
    runs_.runs[1].losses[0] = NAN; // in virtual time
    const std::string text = JsonText();
    stp_train_runs read{};
    stp_error err{};

    ASSERT_EQ(STP_OK,
              stp_train_read_json(text.data(), text.size(), &read, &err))
        << err.text;

    ASSERT_EQ(2u, read.n);
    for (size_t i = 0; i < read.n; i++) {
        EXPECT_TRUE(stp_train_same(&runs_.runs[i], &read.runs[i])) << i;
        for (unsigned e = 0; e < read.runs[i].n_epochs; e++)
            EXPECT_DOUBLE_EQ(runs_.runs[i].epoch_s[e], read.runs[i].epoch_s[e]);
    }
    EXPECT_EQ(0.125, read.runs[0].accuracy);
    EXPECT_DOUBLE_EQ(0.05, read.runs[1].exposed_s[1]);
    EXPECT_DOUBLE_EQ(runs_.runs[1].speed_up, read.runs[1].speed_up);
    EXPECT_TRUE(std::isnan(read.runs[1].losses[0]));
    stp_train_runs_free(&read);
}
TEST_F(TrainResults, SayWhatIsWrongWithAFile)
{
    Take(STP_TRAIN_SINGLE, 1, {0.5});
    Take(STP_TRAIN_NAIVE, 2, {0.5});
    const std::string good = JsonText();
    const struct {
        const char *cut, *put; // in the second run
        const char *text;
    } cases[] = {
        {"\"n_gpus\":\t2", "\"n_gpus\":\t0",
         "run 2 with a n_gpus that means nothing, expected a number from 1"},
        {"\"n_gpus\":\t2", "\"n_gpus\":\tnull",
         "run 2 with a n_gpus that means nothing, expected a number from 1"},
        {"\"n_gpus\":\t2", "\"gpus\":\t2",
         "run 2 without n_gpus, expected a number from 1"},
        {"\"mode\":\t\"naive\"", "\"mode\":\t7",
         "run 2 with a mode that means nothing, expected a word"},
        {"\"comm_times\":\t[0.25]", "\"comm_times\":\t[1, 2]",
         "run 2 with a comm_times that means nothing, expected as many seconds "
         "as epoch_times"},
        {"\"epoch_times\":\t[0.5]", "\"epoch_times\":\t[0]",
         "run 2 with a epoch_times that means nothing, expected seconds above "
         "0"},
    };

    for (const auto &c : cases) {
        std::string bad = good;
        stp_train_runs read{};
        stp_error err{};
        bad.replace(bad.rfind(c.cut), strlen(c.cut), c.put);

        EXPECT_EQ(STP_ERR_SYNTAX,
                  stp_train_read_json(bad.data(), bad.size(), &read, &err));
        EXPECT_STREQ(c.text, err.text);
        EXPECT_EQ(nullptr, read.runs);
    }
    stp_train_runs read{};
    stp_error err{};
    EXPECT_EQ(STP_ERR_SYNTAX, stp_train_read_json("[\n{]", 4, &read, &err));
    EXPECT_EQ(2u, err.line);
    EXPECT_EQ(STP_ERR_SYNTAX, stp_train_read_json("{}", 2, &read, &err));
    EXPECT_THAT(err.text, HasSubstr("no list of runs"));
    EXPECT_EQ(STP_ERR_IO, stp_train_read("not/there", &read, &err));
}

// ---- the notebook's ----

// The notebook's rows of a run on one GPU, of one that times its
// all-reduces, and of one that does not.
const char *const kNotebook = R"([
 {"mode": "single_gpu", "n_gpus": 1, "n_params": 64058378,
  "model_size": "base", "use_amp": false, "grad_accum_steps": 1,
  "epoch_times": [4.0, 2.0], "losses": [2.5, 2.25], "final_accuracy": 0.125,
  "avg_epoch_time": 3.0, "total_time": 6.0, "comm_time": 0.0,
  "gpu_name": "NVIDIA H100 80GB HBM3"},
 {"mode": "dp_naive", "n_gpus": 2, "n_params": 64058378,
  "model_size": "base", "use_amp": false, "grad_accum_steps": 1,
  "epoch_times": [1.0, 2.0], "losses": [2.5, 2.25], "comm_times": [0.25, 0.5],
  "final_accuracy": 0.125, "avg_epoch_time": 1.5, "avg_comm_time": 0.375,
  "total_time": 3.0, "comm_time": 0.75, "gpu_name": "NVIDIA H100 80GB HBM3"},
 {"mode": "ddp_builtin", "n_gpus": 2, "n_params": 64058378,
  "model_size": "base", "use_amp": true, "grad_accum_steps": 4,
  "epoch_times": [1.0], "losses": [2.5], "final_accuracy": 0.125,
  "avg_epoch_time": 1.0, "total_time": 1.0}
])";

stp_status ReadRuns(const std::string &text, stp_train_runs *runs,
                    stp_error *err)
{
    return stp_train_read_json(text.data(), text.size(), runs, err);
}

// Times that were modelled are not measured where the source was taken out.
TEST_F(TrainResults, WithoutASourceHaveThatOfTheirMachine)
{
    Take(STP_TRAIN_SINGLE, 1, {0.5});
    for (const char *made_by :
         {"modelled compute", "a recorded machine", "x"}) {
        const std::string json =
            (strcpy(runs_.runs[0].made_by, made_by), JsonText());
        stp_train_runs read{};

        ASSERT_EQ(STP_OK, ReadRuns(std::regex_replace(
                                       json, std::regex("\"source\""), "\"y\""),
                                   &read, nullptr));
        EXPECT_EQ(*made_by == 'x' ? STP_SOURCE_MEASURED : STP_SOURCE_MODELLED,
                  read.runs[0].source);
        stp_train_runs_free(&read);
    }
}

TEST_F(TrainResults, OfTheNotebookAreRead)
{
    stp_error err{};
    ASSERT_EQ(STP_OK, ReadRuns(kNotebook, &runs_, &err)) << err.text;
    ASSERT_EQ(3u, runs_.n);
    const TrainRun *r = runs_.runs;

    EXPECT_STREQ("single", r[0].mode);
    EXPECT_STREQ("naive", r[1].mode);
    EXPECT_STREQ("bucketed", r[2].mode);
    EXPECT_STREQ("fp32", r[1].precision);
    EXPECT_STREQ("amp", r[2].precision);
    EXPECT_STREQ("NVIDIA H100 80GB HBM3", r[1].gpu);
    EXPECT_STREQ("unknown GPU", r[2].gpu);
    EXPECT_STREQ("2 x NVIDIA H100 80GB HBM3, trained by PyTorch in a notebook",
                 r[1].made_by);
    EXPECT_EQ(4u, r[2].ga);
    EXPECT_EQ(0, r[0].comm_s[1]);
    EXPECT_EQ(0.5, r[1].comm_s[1]);
    EXPECT_EQ(0.5, r[1].exposed_s[1]); // nothing was beside it
    EXPECT_TRUE(std::isnan(r[2].comm_s[0]));
    EXPECT_DOUBLE_EQ(2, r[1].speed_up);
    EXPECT_DOUBLE_EQ(0.25, r[1].exposed_share);
    for (size_t i = 0; i < 3; i++) { // what it does not say
        EXPECT_EQ(0u, r[i].batch);
        EXPECT_EQ(0u, r[i].n_samples);
        EXPECT_TRUE(std::isnan(r[i].throughput));
    }
    EXPECT_THAT(
        Summary(),
        HasSubstr("base  64.1 M      2  naive     fp32   1      -   1.5000  "
                  "0.3750          -      2.00      100.0%    25.0%"));
}
TEST_F(TrainResults, OfTheNotebookSayWhatIsMissing)
{
    const struct {
        const char *key, *text;
    } cases[] = {
        {"mode", "run 1 without mode, expected a word"},
        {"n_gpus", "run 1 without n_gpus, expected a number from 1"},
        {"epoch_times", "run 1 without epoch_times, expected seconds above 0"},
        {"losses", "run 1 without losses, expected as many losses as "
                   "epoch_times"},
        {"final_accuracy", "run 1 without final_accuracy, expected a share"},
    };

    for (const auto &c : cases) {
        std::string text = kNotebook;
        const std::string key = "\"" + std::string(c.key) + "\"";
        text.replace(text.find(key), key.size(), "\"x\"");
        stp_error err{};

        EXPECT_EQ(STP_ERR_SYNTAX, ReadRuns(text, &runs_, &err));
        EXPECT_STREQ(c.text, err.text);
    }
}

// The file has all that the notebook's own code reads.
TEST_F(TrainResults, AreWrittenForTheNotebook)
{
    stp_error err{};
    Take(STP_TRAIN_SINGLE, 1, {1.0, 0.5});
    Take(STP_TRAIN_NAIVE, 2, {0.5, 0.5});
    Take(STP_TRAIN_INTERLEAVED, 2, {0.5, 0.5});
    Take(STP_TRAIN_BUCKETED, 2, {0.5, 0.5});
    Take(STP_TRAIN_SHARDED, 2, {0.5, 0.5});
    Take(STP_TRAIN_NAIVE, 4, {0.5, 0.5});
    runs_.runs[5].accuracy = NAN; // in virtual time
    Take(STP_TRAIN_NAIVE, 4, {0.5, 0.5});
    strcpy(runs_.runs[6].precision, "tf32");
    const std::string path = Path("results/benchmark_results.json");

    ASSERT_EQ(STP_OK, stp_train_save(&runs_, Path("results").c_str(), &err))
        << err.text;

    EXPECT_GOLDEN("benchmark_results.json", Read(path));
    stp_train_runs read{};
    ASSERT_EQ(STP_OK, stp_train_read(path.c_str(), &read, &err)) << err.text;
    for (size_t i = 0; i < read.n; i++)
        EXPECT_TRUE(stp_train_same(&runs_.runs[i], &read.runs[i])) << i;
    stp_train_runs_free(&read);
}

TEST_F(TrainResults, AreTheSameIfAllThatDefinesThemIs)
{
    Take(STP_TRAIN_BUCKETED, 2, {0.5});
    Take(STP_TRAIN_BUCKETED, 2, {0.75});
    const TrainRun &a = runs_.runs[0];
    const auto differs = [&](void (*change)(TrainRun *)) {
        TrainRun b = runs_.runs[1];
        change(&b);
        return !stp_train_same(&a, &b);
    };

    EXPECT_TRUE(stp_train_same(&a, &runs_.runs[1]));
    EXPECT_TRUE(differs([](TrainRun *r) { r->mode[0] = 'x'; }));
    EXPECT_TRUE(differs([](TrainRun *r) { r->size[0] = 'x'; }));
    EXPECT_TRUE(differs([](TrainRun *r) { r->precision[0] = 'x'; }));
    EXPECT_TRUE(differs([](TrainRun *r) { r->gradients[0] = 'x'; }));
    EXPECT_TRUE(differs([](TrainRun *r) { r->gpu[0] = 'x'; }));
    EXPECT_TRUE(differs([](TrainRun *r) { r->made_by[0] = 'x'; }));
    EXPECT_TRUE(differs([](TrainRun *r) { r->n_gpus++; }));
    EXPECT_TRUE(differs([](TrainRun *r) { r->ga++; }));
    EXPECT_TRUE(differs([](TrainRun *r) { r->batch++; }));
    EXPECT_TRUE(differs([](TrainRun *r) { r->n_samples++; }));
    EXPECT_TRUE(differs([](TrainRun *r) { r->warmup++; }));
    EXPECT_TRUE(differs([](TrainRun *r) { r->rate *= 2; }));
    EXPECT_TRUE(differs([](TrainRun *r) { r->seed++; }));
    EXPECT_TRUE(differs([](TrainRun *r) { r->bucket_bytes++; }));
    EXPECT_TRUE(differs([](TrainRun *r) { r->first_bucket_bytes++; }));
    EXPECT_TRUE(differs([](TrainRun *r) { r->n_epochs++; }));
}

TEST_F(TrainResults, ScaleFromOneGpuOn)
{
    Take(STP_TRAIN_NAIVE, 4, {0.25});
    EXPECT_TRUE(std::isnan(runs_.runs[0].speed_up));

    Take(STP_TRAIN_SINGLE, 1, {0.75});

    EXPECT_DOUBLE_EQ(3, runs_.runs[0].speed_up);
    EXPECT_DOUBLE_EQ(0.75, runs_.runs[0].efficiency);
    EXPECT_DOUBLE_EQ(0.25, runs_.runs[0].exposed_share);
    EXPECT_DOUBLE_EQ(1, runs_.runs[1].speed_up);
    EXPECT_DOUBLE_EQ(512, runs_.runs[0].throughput);
}
} // namespace

// The part of the command that is linked in opens these.
extern "C" stp_status stp_open_engines(const stp_open_options *,
                                       unsigned n_local,
                                       stp_engines *engines_ret, stp_error *)
{
    for (unsigned i = 0; i < n_local; i++)
        engines_ret->all[i] = {&g_engines->at(i).ops, &g_engines->at(i)};
    return STP_OK;
}
