// Training on four ranks, over Gloo: what each mode must have in common with
// one rank, and overflow.
extern "C" {
#include "device/module.h"
}

#include "support/forked_ranks.h"
#include "support/slow.h"
#include "train/train_runs.h"

namespace
{

constexpr unsigned kRanks = 4;

const stp_train_mode kParallel[] = {STP_TRAIN_NAIVE, STP_TRAIN_INTERLEAVED,
                                    STP_TRAIN_BUCKETED, STP_TRAIN_SHARDED};

// The ranks, of which this process is one, and its engine.
class Ranks
{
  public:
    Ranks() : forked_(kRanks)
    {
        const stp_module *module = nullptr;
        stp_device_options options{};
        stp_error err{};

        options.world = forked_.world();
        options.time_limit_s = 500;
        if (stp_module_open(STP_GLOO_MODULE, &module, &err) != STP_OK ||
            module->open(&options, &engines_, &err) != STP_OK) {
            fprintf(stderr, "%s\n", err.text);
            abort();
        }
    }

    ~Ranks()
    {
        get()->ops->close(get()->self);
    }

    unsigned rank() const
    {
        return forked_.world()->rank;
    }

    const stp_engine *get() const
    {
        return &engines_.all[0];
    }

  private:
    ForkedRanks forked_;
    stp_engines engines_{};
};

struct Way {
    stp_train_mode mode;
    unsigned accumulate;
};

// Gloo takes milliseconds for a collective: few layers, two buckets.
stp_train_config QuickTraining(stp_train_mode mode, stp_precision precision)
{
    static const stp_train_model model = {"quick", 2, {11, 16, 5}};
    stp_train_config config = SmallTraining(mode, precision);

    config.model = &model;
    config.first_bucket_bytes = 16;
    config.warmup = 0;
    return config;
}

void ExpectLikeOneRank(const std::vector<Way> &ways, stp_precision precision,
                       double tolerance)
{
    const Ranks ranks;
    const Trained want = TrainAlone(QuickTraining(STP_TRAIN_SINGLE, precision));

    ASSERT_EQ(20u, want.losses.size());
    for (const Way &way : ways) {
        SCOPED_TRACE(std::string(stp_train_mode_name(way.mode)) + " " +
                     std::to_string(way.accumulate) + " on rank " +
                     std::to_string(ranks.rank()));
        stp_train_config config = QuickTraining(way.mode, precision);
        config.accumulate = way.accumulate;
        const Trained got = Train(ranks.get(), config);
        ASSERT_EQ(STP_OK, got.status) << got.error;
        ExpectLosses(want.losses, got.losses, tolerance);
        EXPECT_EQ(want.result.accuracy, got.result.accuracy);
    }
}

TEST(TrainRanks, HaveTheLossesOfOneInEveryMode)
{
    for (unsigned accumulate : {1, 4}) {
        if (accumulate > 1)
            STP_SLOW();
        ExpectLikeOneRank({{STP_TRAIN_NAIVE, accumulate},
                           {STP_TRAIN_INTERLEAVED, accumulate},
                           {STP_TRAIN_BUCKETED, accumulate},
                           {STP_TRAIN_SHARDED, accumulate}},
                          STP_PRECISION_FP32, 1e-6);
    }
    ExpectLikeOneRank({{STP_TRAIN_INTERLEAVED, 2}, {STP_TRAIN_SHARDED, 4}},
                      STP_PRECISION_FP64, 1e-12);
}

TEST(TrainRanks, SayTheTimesOfCommunication)
{
    const Ranks ranks;

    for (stp_train_mode mode : kParallel) {
        stp_train_config config = QuickTraining(mode, STP_PRECISION_FP32);
        stp_train_result result{};
        stp_error err{};
        config.n_samples = 2 * config.batch;
        ASSERT_EQ(STP_OK,
                  stp_train_measure(ranks.get(), &config, &result, &err))
            << err.text;
        for (unsigned e = 0; e < result.n_epochs; e++) {
            const stp_train_epoch &epoch = result.epochs[e];
            EXPECT_GT(epoch.comm_s, 0);
            EXPECT_LT(epoch.comm_s, epoch.seconds);
            EXPECT_LT(epoch.exposed_s, epoch.seconds);
            if (mode == STP_TRAIN_NAIVE || mode == STP_TRAIN_SHARDED) {
                EXPECT_EQ(epoch.comm_s, epoch.exposed_s);
            }
        }
        stp_train_result_free(&result);
    }
}

/* ---- stopping ---- */

TEST(TrainRanks, StopTogetherWhereverOneWantsTo)
{
    const Ranks ranks;
    const int many = 1000000;
    stp_train_config config =
        QuickTraining(STP_TRAIN_BUCKETED, STP_PRECISION_FP32);
    int left = many;
    config.go_on = StepsLeft;
    config.user = &left;
    const Trained whole = Train(ranks.get(), config);
    ASSERT_EQ(STP_OK, whole.status) << whole.error;
    const int n_asked = many - left;

    for (int stop_at : {0, 1, 5, n_asked - 1}) {
        left = ranks.rank() == 2 ? stop_at : many;
        EXPECT_EQ(STP_ERR_STOPPED, Train(ranks.get(), config).status)
            << stop_at << " on rank " << ranks.rank();
    }
    left = ranks.rank() == 2 ? n_asked : many;
    EXPECT_EQ(STP_OK, Train(ranks.get(), config).status);
}

/* ---- overflow ---- */

std::vector<float> WeightsOf(stp_trainer *t)
{
    std::vector<float> all(t->layout.n);
    std::vector<uint16_t> half(t->layout.n);

    STP_DO(t, download, half.data(), t->weights, half.size() * 2);
    std::copy(half.begin(), half.end(), all.begin());
    return all;
}

TEST(TrainRanks, SkipTheStepInWhichOneOverflows)
{
    const Ranks ranks;

    for (stp_train_mode mode : kParallel) {
        SCOPED_TRACE(stp_train_mode_name(mode));
        const stp_engine engine =
            PlantOverflow(ranks.get(), kSmallModel, ranks.rank() == 2 ? 2 : 0);
        const stp_train_config config = SmallTraining(mode, STP_PRECISION_FP16);
        stp_trainer t;
        stp_error err{};
        ASSERT_EQ(STP_OK, stp_trainer_begin(&t, &engine, &config, &err))
            << err.text;
        stp_trainer_fill(&t);
        std::vector<std::vector<float>> weights = {WeightsOf(&t)};
        for (int i = 0; i < 3; i++) {
            stp_trainer_step(&t, 0, 0, true);
            stp_trainer_synchronise(&t);
            stp_trainer_forget(&t);
            weights.push_back(WeightsOf(&t));
        }
        EXPECT_EQ(STP_OK, t.status) << t.err.text;
        EXPECT_NE(weights[0], weights[1]);
        EXPECT_EQ(weights[1], weights[2]) << "rank " << ranks.rank();
        EXPECT_NE(weights[2], weights[3]) << "rank " << ranks.rank();
    }
}

TEST(TrainRanks, HalveTheLossScaleTogether)
{
    const Ranks ranks;

    for (const auto &[mode, half] :
         {std::pair{STP_TRAIN_BUCKETED, false}, {STP_TRAIN_SHARDED, true}}) {
        SCOPED_TRACE(stp_train_mode_name(mode));
        const stp_engine engine =
            PlantOverflow(ranks.get(), kSmallModel, ranks.rank() == 3 ? 4 : 0);
        stp_train_config config = SmallTraining(mode, STP_PRECISION_FP16);
        config.half_gradients = half;
        config.n_samples = 3 * config.batch;
        const Trained got = Train(&engine, config);
        ASSERT_EQ(STP_OK, got.status) << got.error;
        EXPECT_EQ(1u, got.result.n_skipped);
        EXPECT_EQ(32768, got.result.last_loss_scale);
    }
}

/* ---- failures ---- */

TEST(TrainRanks, StopTogetherAtALossThatIsNotFinite)
{
    const Ranks ranks;
    stp_train_config config =
        SmallTraining(STP_TRAIN_BUCKETED, STP_PRECISION_FP32);
    config.rate = 1e30;

    const Trained got = Train(ranks.get(), config);

    EXPECT_EQ(ranks.rank() == 0 ? STP_ERR_LIMIT : STP_ERR_STOPPED, got.status);
    if (ranks.rank() == 0) {
        EXPECT_THAT(got.error, testing::HasSubstr("expected a finite number"));
    }
}

} // namespace
