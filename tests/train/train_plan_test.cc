// The plan of the training benchmark: models, buckets, data, loss scaling,
// and the matrix of all that was asked for.
#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/with_param.h"

extern "C" {
#include "train/train.h"
#include "train/train_matrix.h"
#include "train/trainer.h"
}

namespace
{

using testing::ElementsAre;

/* ---- models ---- */

TEST(TrainModel, HasTheParametersOfItsTable)
{
    const struct {
        const char *name;
        uint64_t n_params;
    } cases[] = {
        {"tiny", 52650},
        {"base", 64058378},
        {"large", 249751562},
        {"xlarge", 725960714},
    };

    EXPECT_EQ(std::size(cases), stp_train_n_models);
    for (const auto &c : cases) {
        const stp_train_model *model = stp_train_find_model(c.name);
        ASSERT_NE(nullptr, model) << c.name;
        EXPECT_EQ(c.n_params, stp_train_n_params(model)) << c.name;
    }
    EXPECT_EQ(nullptr, stp_train_find_model("small"));
}

TEST(TrainModel, ReadsTheWordsItPrints)
{
    for (int i = 0; i < STP_TRAIN_N_MODES; i++) {
        const std::string name = stp_train_mode_name(i);
        EXPECT_EQ(i, stp_train_mode_from_name(name.data(), name.size()));
        EXPECT_EQ(-1, stp_train_mode_from_name(name.data(), name.size() - 1));
    }
    for (int i = 0; i < STP_N_PRECISIONS; i++) {
        const std::string name = stp_precision_name(i);
        EXPECT_EQ(i, stp_precision_from_name(name.data(), name.size()));
    }
    EXPECT_EQ(-1, stp_precision_from_name("fp8", 3));
}

/* ---- where parameters lie ---- */

// 20 weights, 4 biases; 12, 3; 6, 2
const stp_train_model kSmall = {"small", 3, {5, 4, 3, 2}};

TEST(TrainLayout, AlignsTensorsAndShards)
{
    stp_train_layout layout;

    stp_train_lay_out(&kSmall, 3, &layout);

    ASSERT_EQ(6u, layout.n_tensors);
    const uint64_t n[] = {20, 4, 12, 3, 6, 2};
    for (unsigned i = 0; i < 6; i++) {
        EXPECT_EQ(128 * i, layout.tensors[i].first);
        EXPECT_EQ(n[i], layout.tensors[i].n);
    }
    EXPECT_EQ(6 * 128u, layout.n);
    EXPECT_EQ(2 * 128u, layout.shard);
    stp_train_lay_out(&kSmall, 4, &layout);
    EXPECT_EQ(8 * 128u, layout.n);
    EXPECT_EQ(2 * 128u, layout.shard);
}

/* ---- buckets ---- */

struct BucketCase {
    const char *name;
    stp_train_mode mode;
    uint64_t first_bytes, bytes;
    bool half;
    std::vector<std::vector<unsigned>> want; // tensors, as they are sent
};

// In bytes of fp32 the tensors have 80, 16, 48, 12, 24 and 8.
// clang-format off
const BucketCase kBucketCases[] = {
    {"single",           STP_TRAIN_SINGLE,      1,   1,   false, {}},
    {"sharded",          STP_TRAIN_SHARDED,     1,   1,   false, {}},
    {"naive",            STP_TRAIN_NAIVE,       1,   1,   false, {{5}, {4}, {3}, {2}, {1}, {0}}},
    {"interleaved",      STP_TRAIN_INTERLEAVED, 1,   1,   false, {{5, 4}, {3, 2}, {1, 0}}},
    {"all_in_one",       STP_TRAIN_BUCKETED,    999, 999, false, {{5, 4, 3, 2, 1, 0}}},
    {"each_its_own",     STP_TRAIN_BUCKETED,    1,   1,   false, {{5}, {4}, {3}, {2}, {1}, {0}}},
    {"full_to_the_byte", STP_TRAIN_BUCKETED,    32,  60,  false, {{5, 4}, {3, 2}, {1, 0}}},
    {"a_byte_short",     STP_TRAIN_BUCKETED,    33,  61,  false, {{5, 4, 3}, {2, 1}, {0}}},
    {"first_is_smaller", STP_TRAIN_BUCKETED,    8,   999, false, {{5}, {4, 3, 2, 1, 0}}},
    {"larger_than_one",  STP_TRAIN_BUCKETED,    9,   13,  false, {{5, 4}, {3, 2}, {1}, {0}}},
    {"of_half_gradients", STP_TRAIN_BUCKETED,   16,  30,  true,  {{5, 4}, {3, 2}, {1, 0}}},
    {"half_of_the_same", STP_TRAIN_BUCKETED,    32,  60,  true,  {{5, 4, 3, 2}, {1, 0}}},
};
// clang-format on

using TrainBuckets = testing::TestWithParam<BucketCase>;

TEST_P(TrainBuckets, HoldTheTensorsInReverseOrder)
{
    const BucketCase &c = GetParam();
    stp_train_config config;
    stp_train_layout layout;
    stp_train_chunk chunks[STP_TRAIN_TENSORS];
    stp_train_default(&config);
    config.model = &kSmall;
    config.mode = c.mode;
    config.precision = c.half ? STP_PRECISION_BF16 : STP_PRECISION_FP32;
    config.half_gradients = c.half;
    config.first_bucket_bytes = c.first_bytes;
    config.bucket_bytes = c.bytes;
    stp_train_lay_out(&kSmall, 2, &layout);

    const unsigned n = stp_train_chunks(&config, &layout, chunks);

    ASSERT_EQ(c.want.size(), n);
    for (unsigned i = 0; i < n; i++) {
        const auto &last = layout.tensors[c.want[i].front()];
        const auto &first = layout.tensors[c.want[i].back()];
        EXPECT_EQ(c.want[i].back(), chunks[i].tensor);
        EXPECT_EQ(first.first, chunks[i].span.first);
        EXPECT_EQ(last.first + last.n - first.first, chunks[i].span.n);
    }
}

INSTANTIATE_TEST_SUITE_P(Table, TrainBuckets, testing::ValuesIn(kBucketCases),
                         CaseName());

/* ---- what cannot be trained ---- */

TEST(TrainCheck, SaysWhatItExpected)
{
    const struct {
        const char *text;
        unsigned n_ranks, batch, accumulate, n_samples, n_epochs;
        stp_train_mode mode;
        double rate;
        bool half;
    } cases[] = {
        {"a batch of 4096 for 3 ranks with 1 micro-batch each, expected a "
         "multiple of 3",
         3, 4096, 1, 4096, 1, STP_TRAIN_NAIVE, 1, false},
        {"a batch of 12 for 4 ranks with 2 micro-batches each, expected a "
         "multiple of 8",
         4, 12, 2, 12, 1, STP_TRAIN_NAIVE, 1, false},
        {"an epoch of 20 samples in steps of 8, expected a multiple", 4, 8, 2,
         20, 1, STP_TRAIN_NAIVE, 1, false},
        {"mode single on 2 ranks, expected 1", 2, 8, 2, 24, 1, STP_TRAIN_SINGLE,
         1, false},
        {"0 epochs at a learning rate of 1, expected both above 0", 2, 8, 2, 24,
         0, STP_TRAIN_NAIVE, 1, false},
        {"1 epochs at a learning rate of -1, expected both above 0", 2, 8, 2,
         24, 1, STP_TRAIN_NAIVE, -1, false},
        {"gradients of 16 bits with fp32, expected bf16 or fp16", 2, 8, 2, 24,
         1, STP_TRAIN_NAIVE, 1, true},
    };

    for (const auto &c : cases) {
        stp_train_config config;
        stp_error err;
        stp_train_default(&config);
        config.batch = c.batch;
        config.accumulate = c.accumulate;
        config.n_samples = c.n_samples;
        config.n_epochs = c.n_epochs;
        config.mode = c.mode;
        config.rate = c.rate;
        config.half_gradients = c.half;
        EXPECT_EQ(STP_ERR_RANGE, stp_train_check(&config, c.n_ranks, &err));
        EXPECT_STREQ(c.text, err.text);
    }
}

/* ---- loss scaling ---- */

TEST(LossScale, HalvesOnOverflowAndDoublesAfter2000GoodSteps)
{
    stp_loss_scale s;
    stp_loss_scale_begin(&s);
    EXPECT_EQ(65536, s.scale);

    for (int i = 0; i < 1999; i++)
        stp_loss_scale_update(&s, false);
    EXPECT_EQ(65536, s.scale);
    stp_loss_scale_update(&s, false);
    EXPECT_EQ(131072, s.scale);

    for (int i = 0; i < 1999; i++)
        stp_loss_scale_update(&s, false);
    stp_loss_scale_update(&s, true);
    EXPECT_EQ(65536, s.scale);
    stp_loss_scale_update(&s, false); // the 2000 begin anew
    EXPECT_EQ(65536, s.scale);
    stp_loss_scale_update(&s, true);
    EXPECT_EQ(32768, s.scale);
    EXPECT_EQ(2u, s.n_skipped);
}

/* ---- data ---- */

TEST(TrainData, IsNormalAndLabelsAreUniform)
{
    const unsigned n = 100000;
    unsigned count[10] = {};
    double sum = 0;
    double squares = 0;
    unsigned beyond = 0;

    for (unsigned i = 0; i < n; i++) {
        const double x = stp_train_feature(42, i);
        sum += x;
        squares += x * x;
        beyond += std::fabs(x) > 1.959964;
        count[stp_train_label(42, i, 10)]++;
    }

    EXPECT_NEAR(0, sum / n, 0.01);
    EXPECT_NEAR(1, squares / n, 0.015);
    EXPECT_NEAR(0.05, double(beyond) / n, 0.003);
    for (unsigned c : count)
        EXPECT_NEAR(n / 10., c, 400);
    EXPECT_NE(stp_train_feature(42, 7), stp_train_feature(43, 7));
}

TEST(TrainData, WeightsAreWithinTheirBound)
{
    double most = 0;

    for (unsigned i = 0; i < 10000; i++)
        most = std::max(most, std::fabs(stp_train_weight(42, &kSmall, 1, i)));

    EXPECT_LE(most, 0.5); // 1 / sqrt(4)
    EXPECT_GT(most, 0.499);
}

/* ---- the matrix ---- */

stp_train_matrix Matrix()
{
    stp_train_matrix m{};

    stp_train_default(&m.base);
    m.models[m.n_models++] = stp_train_find_model("tiny");
    m.gpus[m.n_gpus++] = 2;
    m.precisions[m.n_precisions++] = STP_PRECISION_FP32;
    m.accumulate[m.n_accumulate++] = 1;
    m.modes[m.n_modes++] = STP_TRAIN_BUCKETED;
    return m;
}

void Modes(stp_train_matrix *m, std::vector<int> modes)
{
    m->n_modes = 0;
    for (int mode : modes)
        m->modes[m->n_modes++] = mode;
}

std::vector<std::string> Plan(const stp_train_matrix &m)
{
    std::vector<std::string> names;
    stp_train_jobs jobs{};
    stp_error err{};

    EXPECT_EQ(STP_OK, stp_train_plan(&m, &jobs, &err)) << err.text;
    for (size_t i = 0; i < jobs.n; i++) {
        char name[STP_TRAIN_JOB_NAME];
        stp_train_job_name(&jobs.jobs[i], name);
        names.push_back(name);
    }
    stp_train_jobs_free(&jobs);
    return names;
}

std::string Skipped(const stp_train_matrix &m)
{
    char text[STP_TRAIN_SKIPPED];

    stp_train_skipped(&m, text);
    return text;
}

TEST(TrainMatrix, KeepsOneCountOfGpusTogether)
{
    stp_train_matrix m = Matrix();
    m.models[m.n_models++] = stp_train_find_model("base");
    m.gpus[m.n_gpus++] = 4;

    EXPECT_THAT(Plan(m), ElementsAre("tiny, 2 ranks, bucketed, fp32, ga 1",
                                     "base, 2 ranks, bucketed, fp32, ga 1",
                                     "tiny, 4 ranks, bucketed, fp32, ga 1",
                                     "base, 4 ranks, bucketed, fp32, ga 1"));
    EXPECT_EQ("", Skipped(m));
}

TEST(TrainMatrix, TakesListsInTheirOrder)
{
    stp_train_matrix m = Matrix();
    m.precisions[m.n_precisions++] = STP_PRECISION_BF16;
    m.accumulate[m.n_accumulate++] = 4;
    Modes(&m, {STP_TRAIN_SHARDED, STP_TRAIN_NAIVE});

    EXPECT_THAT(Plan(m), ElementsAre("tiny, 2 ranks, sharded, fp32, ga 1",
                                     "tiny, 2 ranks, naive, fp32, ga 1",
                                     "tiny, 2 ranks, sharded, fp32, ga 4",
                                     "tiny, 2 ranks, naive, fp32, ga 4",
                                     "tiny, 2 ranks, sharded, bf16, ga 1",
                                     "tiny, 2 ranks, naive, bf16, ga 1",
                                     "tiny, 2 ranks, sharded, bf16, ga 4",
                                     "tiny, 2 ranks, naive, bf16, ga 4"));
}

TEST(TrainMatrix, IsSingleOnOneGpuAndNowhereElse)
{
    const struct {
        std::vector<unsigned> gpus;
        std::vector<int> modes;
        size_t n;
        const char *skipped;
    } cases[] = {
        {{1}, {STP_TRAIN_SINGLE}, 1, ""},
        {{1},
         {STP_TRAIN_NAIVE},
         1,
         "skipped: naive on 1 rank, where all is single"},
        {{2, 4}, {STP_TRAIN_SINGLE}, 0, "skipped: single on 2 and 4 ranks"},
        {{1, 2, 4, 8},
         {STP_TRAIN_SINGLE, STP_TRAIN_NAIVE, STP_TRAIN_BUCKETED},
         7,
         "skipped: naive and bucketed on 1 rank, where all is single; single "
         "on 2, 4 and 8 ranks"},
    };

    for (const auto &c : cases) {
        stp_train_matrix m = Matrix();
        m.n_gpus = 0;
        for (unsigned n : c.gpus)
            m.gpus[m.n_gpus++] = n;
        Modes(&m, c.modes);

        EXPECT_EQ(c.n, Plan(m).size());
        EXPECT_EQ(c.skipped, Skipped(m));
        if (c.gpus[0] == 1) {
            EXPECT_EQ("tiny, 1 rank, single, fp32, ga 1", Plan(m)[0]);
        }
    }
}

TEST(TrainMatrix, MakesStepsOfWholeMicroBatches)
{
    const struct {
        unsigned micro_batch, n_samples, ga;
        unsigned batch;   // 0: refused
        const char *text; // of the refusal
    } cases[] = {
        {0, 65536, 4, 4096, ""},
        {4096, 65536, 1, 4096, ""},
        {4096, 65536, 4, 16384, ""},
        {4096, 65536, 16, 65536, ""},
        {4096, 65536, 32, 0,
         "a step of 32 micro-batches of 4096 samples, expected at most the "
         "65536 samples of an epoch"},
        {1u << 31, 1u << 31, 2, 0, // 0 in 32 bits
         "a step of 2 micro-batches of 2147483648 samples, expected at most "
         "the 2147483648 samples of an epoch"},
    };

    for (const auto &c : cases) {
        stp_train_matrix m = Matrix();
        stp_train_jobs jobs{};
        stp_error err{};
        m.base.n_samples = c.n_samples;
        m.micro_batch = c.micro_batch;
        m.accumulate[0] = c.ga;

        EXPECT_EQ(c.batch > 0 ? STP_OK : STP_ERR_RANGE,
                  stp_train_plan(&m, &jobs, &err));

        EXPECT_STREQ(c.text, err.text);
        ASSERT_EQ(c.batch > 0 ? 1u : 0u, jobs.n);
        for (size_t i = 0; i < jobs.n; i++)
            EXPECT_EQ(c.batch, jobs.jobs[i].config.batch);
        stp_train_jobs_free(&jobs);
    }
}

TEST(TrainMatrix, GivesEachConfigurationWhatItCanHave)
{
    stp_train_matrix m = Matrix();
    stp_train_jobs jobs{};
    stp_error err{};
    m.gpus[m.n_gpus++] = 1;
    m.precisions[m.n_precisions++] = STP_PRECISION_BF16;
    m.base.half_gradients = true;

    ASSERT_EQ(STP_OK, stp_train_plan(&m, &jobs, &err));

    ASSERT_EQ(4u, jobs.n);
    EXPECT_FALSE(jobs.jobs[0].config.half_gradients); // fp32
    EXPECT_TRUE(jobs.jobs[1].config.half_gradients);
    stp_train_jobs_free(&jobs);
}

} // namespace
