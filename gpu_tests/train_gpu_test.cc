// Training on 1, 2 and 4 GPUs, as threads of this process: what all modes have
// in common, overflow, and a plugin that comes and goes.
#include <cstdlib>

#include "gpu_engines.h"
#include "train/train_runs.h"

namespace
{

const stp_train_mode kParallel[] = {STP_TRAIN_NAIVE, STP_TRAIN_INTERLEAVED,
                                    STP_TRAIN_BUCKETED, STP_TRAIN_SHARDED};

std::vector<Trained> TrainOn(const GpuEngines &engines, unsigned n,
                             const stp_train_config &config)
{
    std::vector<Trained> trained(n);

    engines.Each([&](unsigned rank, const stp_engine *engine) {
        trained[rank] = Train(engine, config);
    });
    return trained;
}

// Widths that tensor cores like, and buckets of some layers each.
stp_train_config TinyTraining(stp_train_mode mode, stp_precision precision)
{
    stp_train_config config = SmallTraining(mode, precision);

    config.model = stp_train_find_model("tiny");
    config.rate = 0.1;
    config.bucket_bytes = 4000;
    config.first_bucket_bytes = 1000;
    return config;
}

class TrainGpu : public testing::TestWithParam<unsigned>
{
  protected:
    void SetUp() override
    {
        if (n_ > 1 && CountRanks() < int(n_)) // without any they fail
            GTEST_SKIP() << "takes " << n_ << " GPUs, here are " << CountGpus();
    }

    // The losses of one GPU and of these, in all modes.
    void ExpectOneStory(stp_train_config (*make)(stp_train_mode, stp_precision),
                        stp_precision precision, double tolerance)
    {
        const GpuEngines one(1);
        const Trained want =
            TrainOn(one, 1, make(STP_TRAIN_SINGLE, precision))[0];
        ASSERT_EQ(STP_OK, want.status) << want.error;
        ASSERT_EQ(20u, want.losses.size());
        EXPECT_NE(want.losses.back(), want.losses.front()); // it trains
        const GpuEngines engines(n_);
        for (stp_train_mode mode : Modes())
            for (unsigned accumulate : {1, 4}) {
                SCOPED_TRACE(std::string(stp_train_mode_name(mode)) + " " +
                             stp_precision_name(precision) + ", " +
                             std::to_string(accumulate) + " micro-batches");
                stp_train_config config = make(mode, precision);
                config.accumulate = accumulate;
                const std::vector<Trained> all = TrainOn(engines, n_, config);
                for (const Trained &got : all) {
                    ASSERT_EQ(STP_OK, got.status) << got.error;
                    ExpectLosses(want.losses, got.losses, tolerance);
                    EXPECT_EQ(all[0].losses, got.losses);
                }
            }
    }

    std::vector<stp_train_mode> Modes() const
    {
        if (n_ == 1)
            return {STP_TRAIN_SINGLE};
        return {std::begin(kParallel), std::end(kParallel)};
    }

    const unsigned n_ = GetParam();
};

INSTANTIATE_TEST_SUITE_P(Gpus, TrainGpu, testing::Values(1, 2, 4),
                         [](const auto &c) { return std::to_string(c.param); });

TEST_P(TrainGpu, HasTheLossesOfOneInFp32)
{
    ExpectOneStory(TinyTraining, STP_PRECISION_FP32, 1e-5);
}

TEST_P(TrainGpu, HasTheLossesOfOneWithWidthsThatSuitNoTensorCore)
{
    ExpectOneStory(SmallTraining, STP_PRECISION_FP32, 1e-5);
    ExpectOneStory(SmallTraining, STP_PRECISION_BF16, 2e-2);
}

TEST_P(TrainGpu, HasTheLossesOfOneInFp64)
{
    ExpectOneStory(TinyTraining, STP_PRECISION_FP64, 1e-11);
}

TEST_P(TrainGpu, HasTheLossesOfOneInTf32)
{
    ExpectOneStory(TinyTraining, STP_PRECISION_TF32, 1e-3);
}

TEST_P(TrainGpu, HasTheLossesOfOneInBf16)
{
    ExpectOneStory(TinyTraining, STP_PRECISION_BF16, 1e-2);
}

TEST_P(TrainGpu, HasTheLossesOfOneInFp16)
{
    ExpectOneStory(TinyTraining, STP_PRECISION_FP16, 1e-2);
}

/* ---- overflow ---- */

TEST_P(TrainGpu, SkipsTogetherTheStepInWhichOneOverflows)
{
    const GpuEngines engines(n_);

    for (stp_train_mode mode : Modes()) {
        SCOPED_TRACE(stp_train_mode_name(mode));
        std::vector<Trained> all(n_);
        engines.Each([&](unsigned rank, const stp_engine *engine) {
            const stp_engine planted = PlantOverflow(
                engine, *stp_train_find_model("tiny"), rank + 1 == n_ ? 4 : 0);
            all[rank] = Train(&planted, TinyTraining(mode, STP_PRECISION_FP16));
        });
        for (const Trained &got : all) {
            ASSERT_EQ(STP_OK, got.status) << got.error;
            EXPECT_EQ(1u, got.result.n_skipped);
            EXPECT_EQ(32768, got.result.last_loss_scale);
            EXPECT_LT(got.losses.back(), got.losses.front());
        }
    }
}

/* ---- failures, and what tunes ---- */

TEST_P(TrainGpu, StopsTogetherAtALossThatIsNotFinite)
{
    const GpuEngines engines(n_);
    stp_train_config config = TinyTraining(Modes()[0], STP_PRECISION_FP32);
    config.rate = 1e30;

    const std::vector<Trained> all = TrainOn(engines, n_, config);

    EXPECT_EQ(STP_ERR_LIMIT, all[0].status);
    EXPECT_THAT(all[0].error, testing::HasSubstr("expected a finite number"));
    for (unsigned r = 1; r < n_; r++)
        EXPECT_EQ(STP_ERR_STOPPED, all[r].status);
    config.rate = 0.1; // nothing is left of it
    for (const Trained &got : TrainOn(engines, n_, config))
        EXPECT_EQ(STP_OK, got.status) << got.error;
}

TEST_P(TrainGpu, SaysThatItDoesNotFit)
{
    static const stp_train_model model = {// 69 G weights in the middle
                                          "huge",
                                          3,
                                          {784, 1u << 18, 1u << 18, 10}};
    const GpuEngines engines(n_);
    stp_train_config config = TinyTraining(Modes()[0], STP_PRECISION_FP32);
    config.model = &model;

    const std::vector<Trained> all = TrainOn(engines, n_, config);

    EXPECT_EQ(STP_ERR_NOMEM, all[0].status);
    EXPECT_THAT(all[0].error, testing::HasSubstr("no memory on rank 0"));
    for (unsigned r = 1; r < n_; r++)
        EXPECT_EQ(STP_ERR_STOPPED, all[r].status);
}

TEST_P(TrainGpu, HasTheSameLossesUnderAPluginAndWithout)
{
    setenv("NCCL_TUNER_CONFIG_FILE", STP_POLICY, 1);
    const GpuEngines engines(n_, STP_PLUGIN);
    unsetenv("NCCL_TUNER_CONFIG_FILE");
    std::vector<Trained> runs[3];

    for (int i = 0; i < 3; i++) {
        engines.Each([&](unsigned, const stp_engine *engine) {
            const stp_arm arm{i == 1 ? STP_ARM_PLUGIN : STP_ARM_AUTO, 0, 0, 0};
            stp_error err{};

            EXPECT_EQ(STP_OK, engine->ops->select_arm(engine->self, &arm, &err))
                << err.text;
        });
        runs[i] =
            TrainOn(engines, n_, TinyTraining(Modes()[0], STP_PRECISION_FP32));
    }
    for (const auto &run : runs) {
        ASSERT_EQ(STP_OK, run[0].status) << run[0].error;
        ExpectLosses(runs[0][0].losses, run[0].losses, 1e-5);
    }
}

} // namespace
