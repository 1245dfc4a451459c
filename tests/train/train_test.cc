// Training on one rank: gradients, losses, failures.
#include <map>

#include "train/train_runs.h"

namespace
{

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

/* ---- gradients ---- */

// Weights and gradients of a trainer in fp64.
class Gradients : public testing::Test
{
  protected:
    void Begin(unsigned accumulate)
    {
        config_ = SmallTraining(STP_TRAIN_SINGLE, STP_PRECISION_FP64);
        config_.accumulate = accumulate;
        ASSERT_EQ(STP_OK,
                  stp_trainer_begin(&t_, engine_.get(), &config_, &err_))
            << err_.text;
        stp_trainer_fill(&t_);
    }

    // The loss of the second batch.
    double Loss()
    {
        double loss = 0;

        stp_trainer_zero(&t_, t_.losses, sizeof(loss));
        stp_trainer_step(&t_, config_.batch, 0, false);
        stp_trainer_synchronise(&t_);
        stp_trainer_forget(&t_);
        STP_DO(&t_, download, &loss, t_.losses, sizeof(loss));
        EXPECT_EQ(STP_OK, t_.status) << t_.err.text;
        return loss;
    }

    double LossWith(uint64_t i, double weight)
    {
        STP_DO(&t_, upload, stp_trainer_at(t_.weights, STP_TYPE_F64, i),
               &weight, sizeof(weight));
        return Loss();
    }

    std::vector<double> Get(void *flat)
    {
        std::vector<double> all(t_.layout.n);

        STP_DO(&t_, download, all.data(), flat, all.size() * sizeof(double));
        return all;
    }

    void ExpectFiniteDifferences()
    {
        const double h = 1e-5;
        Loss();
        const auto gradients = Get(t_.gradients);
        const auto weights = Get(t_.weights);

        for (unsigned k = 0; k < t_.layout.n_tensors; k++) {
            const stp_train_span span = t_.layout.tensors[k];
            double difference = 0;
            double size = 0;
            for (uint64_t i = span.first; i < span.first + span.n; i++) {
                const double numeric = (LossWith(i, weights[i] + h) -
                                        LossWith(i, weights[i] - h)) /
                                       (2 * h);
                LossWith(i, weights[i]);
                difference += std::pow(numeric - gradients[i], 2);
                size += std::pow(gradients[i], 2);
            }
            EXPECT_GT(size, 0) << "tensor " << k;
            EXPECT_LT(std::sqrt(difference / size), 1e-6) << "tensor " << k;
        }
    }

    LoneEngine engine_;
    stp_train_config config_{};
    stp_trainer t_{};
    stp_error err_{};
};

TEST_F(Gradients, AreFiniteDifferencesOfTheLoss)
{
    Begin(1);

    ExpectFiniteDifferences();
}

TEST_F(Gradients, OfMicroBatchesAreThoseOfTheBatch)
{
    Begin(1);
    const double loss = Loss();
    const auto want = Get(t_.gradients);
    Begin(4);

    EXPECT_NEAR(loss, Loss(), 1e-14);

    const auto got = Get(t_.gradients);
    for (size_t i = 0; i < want.size(); i++)
        EXPECT_NEAR(want[i], got[i], 1e-15);
}

TEST_F(Gradients, BetweenTensorsAreZero)
{
    Begin(2);
    Loss();

    const auto gradients = Get(t_.gradients);

    for (unsigned k = 0; k < t_.layout.n_tensors; k++) {
        const stp_train_span span = t_.layout.tensors[k];
        const uint64_t end =
            k + 1 < t_.layout.n_tensors ? span.first + 128 : t_.layout.n;
        for (uint64_t i = span.first + span.n; i < end; i++)
            EXPECT_EQ(0, gradients[i]);
    }
}

TEST_F(Gradients, AreSubtractedTimesTheRate)
{
    Begin(1);
    Loss();
    const auto weights = Get(t_.weights);
    const auto gradients = Get(t_.gradients);

    stp_trainer_step(&t_, config_.batch, 0, true);
    stp_trainer_synchronise(&t_);

    const auto after = Get(t_.weights);
    for (size_t i = 0; i < weights.size(); i++)
        EXPECT_DOUBLE_EQ(weights[i] - config_.rate * gradients[i], after[i]);
}

/* ---- losses ---- */

// The loss of a guess among n random labels is ln n.
TEST(Train, BeginsAtTheLossOfAGuessAndLearnsByHeart)
{
    stp_train_config config =
        SmallTraining(STP_TRAIN_SINGLE, STP_PRECISION_FP32);
    config.n_samples = config.batch;
    config.n_epochs = 300;

    const Trained trained = TrainAlone(config);

    ASSERT_EQ(STP_OK, trained.status) << trained.error;
    EXPECT_EQ(300u, trained.losses.size());
    EXPECT_NEAR(std::log(5), trained.losses[0], 0.1);
    EXPECT_LT(trained.losses.back(), 0.5);
    EXPECT_GT(trained.result.accuracy, 0.85);
    EXPECT_GT(trained.result.total_s, 0);
    EXPECT_DOUBLE_EQ(config.n_samples * 300 / trained.result.total_s,
                     trained.result.throughput);
}

TEST(Train, IsTheSameInEveryModeOnOneRank)
{
    const Trained want =
        TrainAlone(SmallTraining(STP_TRAIN_SINGLE, STP_PRECISION_FP64));
    ASSERT_EQ(STP_OK, want.status) << want.error;

    for (int mode = 0; mode < STP_TRAIN_N_MODES; mode++)
        for (unsigned accumulate : {1, 4}) {
            SCOPED_TRACE(std::string(stp_train_mode_name(mode)) + " " +
                         std::to_string(accumulate));
            stp_train_config config =
                SmallTraining(stp_train_mode(mode), STP_PRECISION_FP64);
            config.accumulate = accumulate;
            const Trained got = TrainAlone(config);
            EXPECT_EQ(STP_OK, got.status) << got.error;
            ExpectLosses(want.losses, got.losses, 1e-12);
            EXPECT_EQ(want.result.accuracy, got.result.accuracy);
        }
}

// As far as their few digits allow.
TEST(Train, InSixteenBitsFollowsFp32)
{
    const Trained want =
        TrainAlone(SmallTraining(STP_TRAIN_SINGLE, STP_PRECISION_FP32));

    for (stp_precision precision : {STP_PRECISION_BF16, STP_PRECISION_FP16})
        for (bool half : {false, true}) {
            SCOPED_TRACE(stp_precision_name(precision));
            stp_train_config config =
                SmallTraining(STP_TRAIN_SINGLE, precision);
            config.half_gradients = half;
            const Trained got = TrainAlone(config);
            ASSERT_EQ(STP_OK, got.status) << got.error;
            ExpectLosses(want.losses, got.losses,
                         precision == STP_PRECISION_BF16 ? 1e-2 : 1e-3);
            EXPECT_NE(want.losses, got.losses);
            EXPECT_EQ(0u, got.result.n_skipped);
        }
}

TEST(Train, DrawsOtherDataFromAnotherSeed)
{
    stp_train_config config =
        SmallTraining(STP_TRAIN_SINGLE, STP_PRECISION_FP32);
    const Trained a = TrainAlone(config);
    const Trained b = TrainAlone(config);
    config.seed++;

    const Trained c = TrainAlone(config);

    EXPECT_EQ(a.losses, b.losses);
    EXPECT_NE(a.losses, c.losses);
}

/* ---- traces ---- */

TEST(Train, TracesStepsBehindTheLastThatChangeNothing)
{
    const LoneEngine engine;
    stp_train_config config =
        SmallTraining(STP_TRAIN_BUCKETED, STP_PRECISION_FP32);
    const Trained plain = Train(engine.get(), config);
    std::map<std::string, unsigned> n; // spans of a part of a step
    config.trace = true;

    Trained traced = Train(engine.get(), config);

    EXPECT_EQ(plain.losses, traced.losses);
    EXPECT_EQ(plain.result.accuracy, traced.result.accuracy);
    EXPECT_EQ(0u, plain.result.spans.n);
    EXPECT_EQ(3u, traced.result.n_traced);
    double before[STP_N_STREAMS] = {0, 0};
    for (size_t i = 0; i < traced.result.spans.n; i++) {
        const stp_span &s = traced.result.spans.all[i];
        ASSERT_LT(s.stream, unsigned{STP_N_STREAMS});
        EXPECT_GE(s.begin_us, before[s.stream]) << s.name;
        EXPECT_GE(s.end_us, s.begin_us) << s.name;
        EXPECT_EQ(s.stream == STP_STREAM_COMM, s.kind == STP_SPAN_COMMUNICATION)
            << s.name;
        before[s.stream] = s.end_us;
        n[s.range.name != nullptr ? s.range.name : ""]++;
    }
    // the loss, gradients of 3 layers, and of the inputs of 2
    EXPECT_EQ(3 * 3u, n["forward"]);
    EXPECT_EQ(3 * (1 + 3 * 2 + 2 * 2u), n["backward"]);
    EXPECT_EQ(3u, n["update"]);
    EXPECT_EQ(1u, n[""]); // the losses begin at zero
    EXPECT_GE(n["all-reduce"], 2 * 3u);
    stp_spans_free(&traced.result.spans);
}

TEST(Train, SaysAtOnceThatAnEngineHasNoTraces)
{
    const LoneEngine engine;
    stp_engine_ops ops = *engine.get()->ops;
    ops.trace_begin = nullptr;
    const stp_engine blind = {&ops, engine.get()->self};
    stp_train_config config =
        SmallTraining(STP_TRAIN_SINGLE, STP_PRECISION_FP32);
    config.trace = true;

    const Trained trained = Train(&blind, config);

    EXPECT_EQ(STP_ERR_NOTHING, trained.status);
    EXPECT_THAT(trained.error, StartsWith("no traces of "));
}

/* ---- failures ---- */

TEST(Train, StopsAtALossThatIsNotFinite)
{
    stp_train_config config =
        SmallTraining(STP_TRAIN_SINGLE, STP_PRECISION_FP32);
    config.rate = 1e30;

    const Trained trained = TrainAlone(config);

    EXPECT_EQ(STP_ERR_LIMIT, trained.status);
    EXPECT_THAT(trained.error,
                MatchesRegex("the loss is (NaN|infinite) at step [23] "
                             "\\(epoch 1\\), expected a finite number: is the "
                             "learning rate of 1e\\+30 too high for fp32\\?"));
    EXPECT_EQ(nullptr, trained.result.losses);
}

TEST(Train, SaysWhatDoesNotFitIntoMemory)
{
    const stp_train_model huge = {"huge", 2, {11, 1u << 22, 1u << 22}};
    stp_train_config config =
        SmallTraining(STP_TRAIN_SINGLE, STP_PRECISION_FP32);
    config.model = &huge;

    const Trained trained = TrainAlone(config);

    EXPECT_EQ(STP_ERR_NOMEM, trained.status);
    EXPECT_THAT(trained.error, HasSubstr("no memory on rank 0 for weights: "
                                         "70368.96 GB beside 0.00 GB, but "));
}

unsigned n_releases; // of the engine of the test that runs
decltype(stp_engine_ops::release) release_memory;

TEST(Train, ReleasesItsMemoryHoweverItEnds)
{
    const LoneEngine engine;
    stp_engine_ops ops = *engine.get()->ops;
    release_memory = ops.release;
    ops.release = [](void *self) {
        n_releases++;
        release_memory(self);
    };
    const stp_engine counted = {&ops, engine.get()->self};
    stp_train_config config =
        SmallTraining(STP_TRAIN_SINGLE, STP_PRECISION_FP32);
    n_releases = 0;

    const Trained first = Train(&counted, config);
    EXPECT_EQ(1u, n_releases);
    const Trained second = Train(&counted, config);
    EXPECT_EQ(2u, n_releases);
    config.rate = 1e30;
    Train(&counted, config);
    EXPECT_EQ(3u, n_releases);

    EXPECT_EQ(first.losses, second.losses);
}

unsigned n_updates; // the same
decltype(stp_engine_ops::note) note_work;

TEST(Train, StopsBetweenAnyTwoStepsAndWhileItEvaluates)
{
    const LoneEngine engine;
    stp_engine_ops ops = *engine.get()->ops;
    note_work = ops.note;
    ops.note = [](void *self, const stp_work *work, stp_error *err) {
        n_updates += work->kind == STP_WORK_UPDATE;
        return note_work(self, work, err);
    };
    const stp_engine counted = {&ops, engine.get()->self};
    stp_train_config config =
        SmallTraining(STP_TRAIN_SINGLE, STP_PRECISION_FP32);
    std::map<unsigned, unsigned> stops; // after so many steps
    stp_status status = STP_ERR_STOPPED;
    config.go_on = StepsLeft;

    for (int i = 0; status == STP_ERR_STOPPED && i < 1000; i++) {
        int left = i;
        config.user = &left;
        n_updates = 0;
        const Trained trained = Train(&counted, config);
        status = trained.status;
        if (status == STP_ERR_STOPPED)
            stops[n_updates]++;
    }

    EXPECT_EQ(STP_OK, status);
    for (unsigned n = 0; n <= 20; n++)
        EXPECT_LT(0u, stops[n]) << n;
    EXPECT_LT(4u, stops[20]); // most of them behind the last step
}

TEST(Train, RefusesTf32WhereThereIsNone)
{
    const Trained trained =
        TrainAlone(SmallTraining(STP_TRAIN_SINGLE, STP_PRECISION_TF32));

    EXPECT_EQ(STP_ERR_RANGE, trained.status);
    EXPECT_THAT(trained.error, HasSubstr("no tf32 on "));
}

} // namespace
