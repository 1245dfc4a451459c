// Summaries of each arm's iterations, by hand-made numbers.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

extern "C" {
#include "analyse/iterations.h"
}

#include "nccl_tuner_abi.h"
#include "support/measured_data.h"
#include "support/owned.h"

using namespace measured;

namespace
{

using testing::ElementsAre;

constexpr uint64_t kMiB = 1 << 20;
constexpr stp_workload kOverlap{
    STP_MODE_OVERLAP, STP_COMPUTE_GEMM, 8, 1, {}, 10, nullptr};
constexpr stp_workload kFsdp{STP_MODE_FSDP, STP_COMPUTE_GEMM, 8, 1, {}, 10,
                             nullptr};

// Rows with their samples, in whatever order a test adds them.
class Iterations
{
  public:
    ~Iterations()
    {
        stp_dataset_free(&all.data);
    }

    // Makes what follows part of this workload at this size.
    Iterations &Setting(const stp_workload &work, uint64_t n_bytes = kMiB,
                        int coll = ncclFuncAllReduce)
    {
        like_.work = work;
        like_.n_bytes = n_bytes;
        like_.coll = coll;
        like_.n_ranks = 4;
        like_.n_nodes = 1;
        return *this;
    }

    // One arm in one round.
    Iterations &Row(unsigned round, const stp_arm &arm, std::vector<double> us,
                    double alone_us = 0)
    {
        stp_measurement m = like_;
        m.round = round;
        m.arm = arm;
        bool own = arm.kind != STP_ARM_FORCED;
        m.ran_algo = own ? NCCL_ALGO_RING : arm.algo;
        m.ran_proto = own ? NCCL_PROTO_SIMPLE : arm.proto;
        m.ran_channels = 24;
        m.iters = static_cast<unsigned>(us.size());
        m.alone_us = alone_us;
        samples_.insert(samples_.end(), us.begin(), us.end());
        stp_summarise(us.data(), us.size(), &m.us);
        stp_dataset_add(&all.data, &m);
        all.sample_us = samples_.data();
        all.n_samples = samples_.size();
        return *this;
    }

    // An arm whose iterations take 'us' in each of 'n' rounds.
    Iterations &Rounds(const stp_arm &arm, double us, double alone_us = 0,
                       unsigned n = 3)
    {
        for (unsigned round = 0; round < n; round++)
            Row(round, arm, {us}, alone_us);
        return *this;
    }

    stp_measurement &Last()
    {
        return all.data.rows[all.data.n_rows - 1];
    }

    stp_iterations all{};

  private:
    stp_measurement like_{};
    std::vector<double> samples_;
};

class Summary
{
  public:
    explicit Summary(const Iterations &it)
    {
        EXPECT_EQ(STP_OK, stp_summarise_iterations(&it.all, &all, nullptr));
    }

    const stp_iteration_setting &operator[](size_t i) const
    {
        return all.settings[i];
    }

    std::vector<stp_regime> Regimes(double min_gain = 0.02) const
    {
        std::vector<stp_regime> regimes(all.n_settings);
        regimes.resize(stp_find_regimes(&all, min_gain, regimes.data()));
        return regimes;
    }

    Owned<stp_iteration_summary, stp_iteration_summary_free> all;
};

// ---- one arm ----

TEST(SummariseIterations, PoolsTheIterationsOfAllRounds)
{
    Iterations it; // rounds of unequal length, out of order
    it.Setting(kOverlap);
    it.Row(1, kTreeLl, {70, 10, 60}).Row(0, kAuto, {100, 120});
    it.Row(0, kTreeLl, {20, 50, 30, 40}).Row(1, kAuto, {110, 130, 90});
    it.Last().source = STP_SOURCE_INTERPOLATED;
    EXPECT_EQ(0u, Summary(Iterations()).all.n_settings);

    Summary s(it);

    ASSERT_EQ(1u, s.all.n_settings);
    ASSERT_EQ(2u, s[0].n_arms);
    EXPECT_EQ(STP_ARM_AUTO, s[0].arms[0].arm.kind);
    EXPECT_EQ(5u, s[0].arms[0].n_iterations);
    EXPECT_DOUBLE_EQ(110, s[0].arms[0].us.mean);
    EXPECT_EQ(STP_SOURCE_INTERPOLATED, s[0].arms[0].source) << "the worst";
    const stp_iteration_arm &tree = s[0].arms[1];
    EXPECT_TRUE(stp_arm_equal(&kTreeLl, &tree.arm));
    EXPECT_EQ(2u, tree.n_rounds);
    EXPECT_EQ(7u, tree.n_iterations);
    EXPECT_DOUBLE_EQ(40, tree.us.mean);
    EXPECT_DOUBLE_EQ(40, tree.us.median);
    EXPECT_TRUE(std::isnan(tree.us.p95)) << "of 7 iterations";
    EXPECT_DOUBLE_EQ(10, tree.us.min);
    EXPECT_EQ(0u, tree.rounds[0].round);
    EXPECT_DOUBLE_EQ(35, tree.rounds[0].us);
    EXPECT_DOUBLE_EQ(60, tree.rounds[1].us);
}

TEST(SummariseIterations, PairsMediansWithTheAutoOfTheirRound)
{
    Iterations it; // one late iteration; only rounds 1 and 3 have both
    it.Setting(kOverlap).Row(1, kAuto, {120, 120, 120});
    it.Row(1, kTreeLl, {100, 100, 9000}).Row(3, kAuto, {60});
    it.Row(3, kTreeLl, {50}).Row(0, kTreeLl, {1}).Row(2, kAuto, {1});

    Summary s(it);

    EXPECT_NEAR(1.2, s[0].arms[1].gain.gain, 1e-12);
    EXPECT_NEAR(1.2, s[0].arms[1].gain.low, 1e-9);
    EXPECT_EQ(2u, s[0].arms[1].gain.n_pairs);
    EXPECT_EQ(3u, s[0].arms[1].n_rounds);
    EXPECT_EQ(1, s[0].arms[0].gain.gain);
    EXPECT_EQ(1, s[0].arms[0].gain.low);
    EXPECT_EQ(1, s[0].arms[0].gain.high);
    EXPECT_EQ(0u, s[0].arms[0].gain.n_pairs);
}
// Twice the spread of AUTO's rounds is 5.66: 5 may be noise, and 6 is not.
TEST(SummariseIterations, ExposedTimeIsNeverBelowNothing)
{
    for (const double compute_us : {90., 105., 106.}) {
        Iterations it;
        it.Setting(kOverlap).Row(0, kAuto, {98}).Row(1, kAuto, {102});
        for (size_t i = 0; i < it.all.data.n_rows; i++)
            it.all.data.rows[i].work.compute_us = compute_us / kOverlap.layers;
        const double exposed = Summary(it)[0].arms[0].exposed_us;
        EXPECT_EQ(compute_us == 106, std::isnan(exposed)) << compute_us;
        EXPECT_TRUE(std::isnan(exposed) ||
                    std::fabs(exposed - std::max(0., 100 - compute_us)) < 1e-9);
    }
}

// ---- collectives alone ----

TEST(SummariseIterations, SaysHowFastCollectivesAreAlone)
{
    Iterations it;
    it.Setting(kOverlap, 3000).Row(0, kAuto, {100}, 6).Row(1, kAuto, {100}, 4);
    it.Row(0, kTreeLl, {100}, 3).Row(1, kTreeLl, {100}, 2);

    Summary s(it);

    EXPECT_DOUBLE_EQ(40, s[0].comm_us); // 8 layers
    EXPECT_DOUBLE_EQ(5, s[0].arms[0].alone_us);
    EXPECT_DOUBLE_EQ(0.6, s[0].arms[0].algbw);
    EXPECT_DOUBLE_EQ(0.9, s[0].arms[0].busbw); // times 2 (4 - 1) / 4
    EXPECT_DOUBLE_EQ(2.5, s[0].arms[1].alone_us);
    EXPECT_NEAR(2, s[0].arms[1].alone_gain.gain, 1e-12);
    EXPECT_EQ(2u, s[0].arms[1].alone_gain.n_pairs);

    Iterations fsdp; // two collectives a layer, and in training three
    stp_workload training = kFsdp;
    training.compute = STP_COMPUTE_TRAINING;
    fsdp.Setting(kFsdp, 3000, ncclFuncAllGather).Row(0, kAuto, {100}, 5);
    fsdp.Setting(training, 3000, ncclFuncAllGather).Row(0, kAuto, {100}, 5);
    Summary f(fsdp);
    EXPECT_DOUBLE_EQ(1.2, f[0].arms[0].algbw);
    EXPECT_DOUBLE_EQ(0.9, f[0].arms[0].busbw); // times (4 - 1) / 4
    EXPECT_DOUBLE_EQ(1.8, f[1].arms[0].algbw);
    EXPECT_DOUBLE_EQ(1.35, f[1].arms[0].busbw);
}
// ---- resolution ----

TEST(SummariseIterations, ResolvesHalfTheIntervalOfASecondAutoOrByAutosSpread)
{
    Iterations two, one, round; // ratios 1.1 and 1 / 1.1; 3 of 100; no spread
    two.Setting(kOverlap).Row(0, kAuto, {110}).Row(1, kAuto, {100});
    two.Row(0, kAutoAgain, {100}).Row(1, kAutoAgain, {110});
    one.Setting(kOverlap).Row(0, kAuto, {97});
    one.Row(1, kAuto, {100}).Row(2, kAuto, {103});
    round.Setting(kOverlap).Row(0, kAuto, {97, 103}).Row(0, kAutoAgain, {99});

    Summary s(two), t(one);

    EXPECT_NEAR(std::sinh(stp_t975(1) * std::log(1.1)), s[0].resolution, 1e-9);
    EXPECT_NEAR(1, s[0].arms[1].gain.gain, 1e-12);
    EXPECT_DOUBLE_EQ(0.03, t[0].noise);
    EXPECT_DOUBLE_EQ(stp_t975(2) * 0.03 * std::sqrt(2. / 3), t[0].resolution);
    EXPECT_EQ(HUGE_VAL, Summary(round)[0].resolution);
}

// ---- settings ----

TEST(SummariseIterations, OrdersSettingsByModeCollectiveWorkloadAndSize)
{
    stp_workload few = kOverlap, half = kOverlap, deep = kOverlap;
    few.layers = 4;
    half.ratio = 0.5;
    deep.compute = STP_COMPUTE_TRAINING;
    Iterations it; // in reverse
    it.Setting(kFsdp, 1, ncclFuncAllGather).Row(0, kAuto, {9});
    it.Setting(deep, 1).Row(0, kAuto, {8});
    it.Setting(kOverlap, 2).Row(0, kAuto, {7});
    it.Setting(kOverlap, 1).Row(0, kAuto, {6});
    it.Setting(half, 3).Row(0, kAuto, {5});
    it.Setting(few, 4).Row(0, kAuto, {4});
    it.Setting(kOverlap, 5, ncclFuncReduceScatter).Row(0, kAuto, {3});

    Summary s(it);
    std::vector<double> order;
    for (size_t i = 0; i < s.all.n_settings; i++)
        order.push_back(s[i].arms[0].us.mean);

    EXPECT_THAT(order, ElementsAre(3, 4, 5, 6, 7, 8, 9));
    EXPECT_EQ(4u, s[1].like.n_bytes);
}

TEST(SummariseIterations, RefusesASettingWithoutAuto)
{
    Iterations it;
    it.Setting(kOverlap).Rounds(kAuto, 100);
    it.Setting(kFsdp, 4096, ncclFuncAllGather).Rounds(kTreeLl, 100);
    stp_iteration_summary out{};
    stp_error err{};

    EXPECT_EQ(STP_ERR_SYNTAX, stp_summarise_iterations(&it.all, &out, &err));

    EXPECT_STREQ("fsdp of allgather of 4096 bytes has no row of the arm auto "
                 "to compare with",
                 err.text);
    EXPECT_EQ(nullptr, out.settings);
}

// ---- regimes ----

TEST(FindRegimes, FindsWhereTheFastestAloneIsNotTheShortestIteration)
{
    Iterations it; // ratios 1.2 of iterations and 1.25 alone, in both rounds
    it.Setting(kOverlap).Row(0, kAuto, {60}, 5).Row(1, kAuto, {120}, 10);
    it.Row(0, kTreeLl, {50}, 6.25).Row(1, kTreeLl, {100}, 12.5);
    it.Row(0, kRingLl128, {70}, 7).Row(1, kRingLl128, {140}, 14);

    Summary s(it);
    std::vector<stp_regime> found = s.Regimes();

    ASSERT_EQ(1u, found.size());
    const stp_regime &r = found[0];
    EXPECT_EQ(&s[0], r.setting);
    EXPECT_EQ(&s[0].arms[0], r.alone);
    EXPECT_TRUE(stp_arm_equal(&kTreeLl, &r.best->arm));
    EXPECT_NEAR(1.2, r.gain.gain, 1e-12);
    EXPECT_NEAR(1.2, r.gain.low, 1e-9);
    EXPECT_EQ(2u, r.gain.n_pairs);
    EXPECT_NEAR(1.25, r.alone_gain.gain, 1e-12);
    EXPECT_NEAR(1.25, r.alone_gain.high, 1e-9);
}
TEST(FindRegimes, IsSilentWhereThereIsNone)
{
    const struct {
        const char *name;
        double auto_us, auto_alone; // iteration, collectives alone
        double tree_us, tree_alone;
    } cases[] = {
        {"best_in_both", 110, 6, 100, 5},
        {"auto_best_in_both", 100, 5, 110, 6},
        {"equal_in_both", 100, 5, 100, 5},
        {"equal_iterations", 100, 6, 100, 5},
        {"below_the_least_gain", 101.9, 5, 100, 6},
        {"not_timed_alone", 110, 0, 100, 0},
        {"only_one_timed_alone", 110, 5, 100, 0},
        {"the_other_timed_alone", 100, 0, 110, 5},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        Iterations it;
        it.Setting(kOverlap).Rounds(kAuto, c.auto_us, c.auto_alone);
        it.Rounds(kTreeLl, c.tree_us, c.tree_alone);
        EXPECT_EQ(0u, Summary(it).Regimes().size());
    }
}

TEST(FindRegimes, IsSilentWhereTimesDoNotTell)
{
    Iterations noise, noise_alone, once,
        same_arm; // 5 percent in the mean, from -5 to 15
    noise.Setting(kOverlap).Row(0, kAuto, {95}, 5);
    noise.Row(1, kAuto, {105}, 5).Row(2, kAuto, {115}, 5);
    noise.Rounds(kTreeLl, 100, 6);
    once.Setting(kOverlap).Rounds(kAuto, 200, 5, 1).Rounds(kTreeLl, 100, 6, 1);
    noise_alone.Setting(kOverlap).Row(0, kAuto, {110}, 4.5);
    noise_alone.Row(1, kAuto, {110}, 5).Row(2, kAuto, {110}, 6.5);
    noise_alone.Rounds(kTreeLl, 100, 6);
    same_arm.Setting(kOverlap).Rounds(kAuto, 110, 5);
    same_arm.Rounds(kAutoAgain, 100, 6).Last().ran_channels = 12;

    EXPECT_EQ(0u, Summary(noise).Regimes(0).size());
    EXPECT_EQ(0u, Summary(noise_alone).Regimes(0).size());
    EXPECT_EQ(0u, Summary(once).Regimes(0).size());
    EXPECT_EQ(0u, Summary(same_arm).Regimes().size());
}

// Five arms of random true times in five noisy rounds, in which equal ones are
// frequent: what is said is true of the times without the noise.
TEST(FindRegimes, SaysWhatIsTrueOfRandomArms)
{
    enum { kSettings = 2000 };
    const std::vector<stp_arm> arms = {
        kAuto,
        kTreeLl,
        kRingLl128,
        kRingSimple,
        {STP_ARM_FORCED, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0, 0, {}}};
    std::mt19937 random(1);
    std::normal_distribution<double> noise(1, 0.01);
    auto of = [&](std::initializer_list<double> values) {
        return values.begin()[random() % values.size()];
    };
    size_t n_said = 0, n_false = 0;

    for (size_t i = 0; i < kSettings; i++) {
        std::vector<double> us, alone_us;
        Iterations it;
        it.Setting(kOverlap);
        for (const stp_arm &arm : arms) {
            us.push_back(of({100, 100, 101, 105, 110}));
            alone_us.push_back(of({10, 10, 10.1, 10.5, 11}));
            for (unsigned round = 0; round < 5; round++)
                it.Row(round, arm, {us.back() * noise(random)},
                       alone_us.back() * noise(random));
        }
        const double fastest =
            *std::min_element(alone_us.begin(), alone_us.end());
        double shortest = 1e9; // iteration of the fastest alone
        for (size_t a = 0; a < arms.size(); a++)
            if (alone_us[a] == fastest)
                shortest = std::min(shortest, us[a]);

        const Summary s(it);
        for (const stp_regime &r : s.Regimes(0.01)) {
            size_t best = 0;
            while (!stp_arm_equal(&arms[best], &r.best->arm))
                best++;
            n_said++;
            n_false += alone_us[best] == fastest || us[best] >= shortest ||
                       r.alone_gain.low <= 1;
        }
    }

    EXPECT_LT(150u, n_said);
    EXPECT_LE(n_false * 20, n_said) << n_false << " of " << n_said;
}

TEST(FindRegimes, ArmsThatRanAlikeAreOne)
{
    const struct {
        int proto;
        int channels;
        size_t n_regimes;
    } cases[] = {{NCCL_PROTO_SIMPLE, 24, 0},
                 {NCCL_PROTO_LL, 24, 1},
                 {NCCL_PROTO_SIMPLE, 8, 1},
                 {-1, 24, 1}};

    for (const auto &c : cases) {
        const stp_arm simple{
            STP_ARM_FORCED, STP_ANY, NCCL_PROTO_SIMPLE, 0, 0, {}};
        Iterations it; // AUTO runs ring/simple on 24 channels
        it.Setting(kOverlap).Rounds(kAuto, 110, 5).Rounds(simple, 100, 6);
        for (size_t i = 3; i < 6; i++) {
            it.all.data.rows[i].ran_algo = NCCL_ALGO_RING;
            it.all.data.rows[i].ran_proto = c.proto;
            it.all.data.rows[i].ran_channels = c.channels;
        }
        EXPECT_EQ(c.n_regimes, Summary(it).Regimes().size())
            << c.proto << " " << c.channels;
    }
}

} // namespace
