// Where further measurements would change what is decided: synthetic machines,
// of which the crossings are known.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <set>

extern "C" {
#include "analyse/refine.h"
}

#include "support/measured_data.h"

using namespace measured;
using testing::Contains;
using testing::ElementsAre;

namespace
{

constexpr stp_arm kRingSimple{
    STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0, 0, {}};
constexpr uint64_t kMiB = 1 << 20;

// Gains of arms by size; AUTO takes 100 us.
struct Curve {
    stp_arm arm;
    std::function<double(double)> gain;
};

// Measures what refine.h asks for, as the sweep of `steptune tune` does.
class Machine
{
  public:
    Machine(std::vector<Curve> curves, double resolution = 1.4)
        : curves_(std::move(curves)), terms_{0.02, resolution, {}}
    {
        for (uint64_t size = 8; size <= 1024 * kMiB; size *= 4)
            Measure(size);
    }

    void Measure(uint64_t size)
    {
        sizes.insert(size);
        data_.AddAuto(size);
        for (const Curve &c : curves_)
            data_.AddGain(size, c.arm, c.gain((double)size));
    }

    // Waves of sizes until there are none; returns how many waves.
    int Refine()
    {
        for (int wave = 0; wave < 32; wave++) {
            Compared c(data_);
            size_t n = sizes.size();
            for (size_t i = 0; i + 1 < c.all.n_points; i++) {
                uint64_t size;
                stp_arms arms;
                if (stp_refine_between(&c.all.points[i], &c.all.points[i + 1],
                                       &terms_, 8, &size, &arms))
                    Measure(size);
            }
            if (sizes.size() == n)
                return wave;
        }
        return 32;
    }

    // The neighbours between which 'size' lies.
    double StepAt(double size) const
    {
        auto above = sizes.lower_bound((uint64_t)size);
        return (double)*above / (double)*std::prev(above);
    }

    std::set<uint64_t> sizes;

  private:
    std::vector<Curve> curves_;
    stp_refine_terms terms_;
    Data data_;
};

constexpr size_t kGrid = 14;

TEST(Refine, FindsTheCrossingsToTheResolution)
{
    struct Case {
        const char *what;
        double resolution;
        std::vector<double> crossings;
    } cases[] = {
        {"one window", 1.4, {3e6, 2e7}},
        {"a finer one", 1.1, {3e6, 2e7}},
        {"close to a grid size", 1.4, {2097153, 4e8}},
        {"two steps from the end", 2, {40, 9e5}},
    };
    for (const Case &c : cases) {
        SCOPED_TRACE(c.what);
        Machine m({{kRingLl128,
                    [&](double s) {
                        return s > c.crossings[0] && s < c.crossings[1] ? 1.3
                                                                        : 0.8;
                    }}},
                  c.resolution);

        EXPECT_LT(m.Refine(), 8);

        for (double crossing : c.crossings)
            EXPECT_LE(m.StepAt(crossing), c.resolution * STP_REFINE_SLACK)
                << crossing;
        // each crossing halves its step of 4 until it is fine enough
        double halvings =
            std::ceil(std::log2(std::log(4) / std::log(c.resolution * 1.02)));
        EXPECT_LE(m.sizes.size(), kGrid + 2 * (size_t)halvings);
        EXPECT_GT(m.sizes.size(), kGrid);
    }
}

TEST(Refine, LooksOnlyWhereAnotherArmIsBest)
{
    // clang-format off
    const struct {
        const char *what;
        double (*ll128)(double), (*tree)(double);
        size_t n_sizes; // of those more than of the grid, at most
        int n_waves;
    } cases[] = {
        {"one takes over", [](double s) { return s < 5e6 ? 1.2 : 1.1; },
         [](double s) { return s < 5e6 ? 1.1 : 1.2; }, 2, 2},
        {"AUTO is best on both sides", [](double) { return 0.9; }, [](double) { return 1.01; }, 0, 0},
        {"the same is best on both sides", [](double) { return 1.3; }, [](double) { return 1.2; }, 0, 0},
        {"another at each size, however near", [](double s) { return std::fmod(s / 8, 2) < 1 ? 1.3 : 1.1; },
         [](double) { return 1.2; }, 3 * (kGrid - 1), 7},
    };
    // clang-format on
    for (const auto &c : cases) {
        SCOPED_TRACE(c.what);
        Machine m({{kRingLl128, c.ll128}, {kTreeLl, c.tree}});

        EXPECT_LE(m.Refine(), c.n_waves);
        EXPECT_LE(m.sizes.size(), kGrid + c.n_sizes);
        if (c.n_sizes == 2) {
            EXPECT_LE(m.StepAt(5e6), 1.4 * STP_REFINE_SLACK);
        }
    }
}

struct Points {
    explicit Points(const Data &d) : c(d)
    {
        a = &c.all.points[0];
        b = &c.all.points[1];
    }
    bool Between(double resolution, uint64_t grain = 4)
    {
        const stp_refine_terms terms{0.02, resolution, {}};
        return stp_refine_between(a, b, &terms, grain, &size, &arms);
    }
    Compared c;
    const stp_point *a, *b;
    uint64_t size = 0;
    stp_arms arms{};
};

// An arm of registered buffers is none that a tuner could choose instead.
TEST(Refine, JudgesArmsOfTunersByEachOther)
{
    Data d;
    d.AddAuto(1000).AddGain(1000, kRingLl128, 1.3).AddGain(1000, kTreeLl, 0.5);
    d.AddGain(1000, kSym, 3);
    d.AddAuto(4000).AddGain(4000, kRingSimple, 0.7).AddGain(4000, kSym, 3);
    Points p(d);
    stp_arms contenders{};

    ASSERT_TRUE(p.Between(1.4));
    stp_refine_contenders(&p.a, 1, &contenders);

    EXPECT_EQ(2048u, p.size);
    EXPECT_THAT(Names(p.arms), ElementsAre("auto", "ring/ll128", "ring/simple"))
        << "tree/ll takes 2.6 times as long as the best, ring/simple 1.43";
    EXPECT_THAT(Names(contenders), Contains("ring/ll128"));
}

TEST(Refine, MeasuresBetweenTwoSizesWhatMayBeDecided)
{
    // clang-format off
    const struct {
        const char *what;
        void (*fill)(Data &);
        double resolution;
        uint64_t grain, size; // of what is measured; 0: nothing
    } cases[] = {
        {"to the grain", [](Data &d) {
             d.AddAuto(64).AddGain(64, kRingLl128, 1.3).AddAuto(128).AddGain(128, kRingLl128, 0.9);
         }, 1.4, 8, 96},
        {"a whole round of 32 CTAs of 4 ranks", [](Data &d) {
             d.AddAuto(2 * kMiB).AddGain(2 * kMiB, kRingLl128, 1.3).AddAuto(4 * kMiB).AddGain(4 * kMiB, kRingLl128, 0.9);
         }, 1.4, 16, 3 * kMiB},
        {"a size of three ranks", [](Data &d) {
             d.AddAuto(3000).AddGain(3000, kRingLl128, 1.3).AddAuto(6000).AddGain(6000, kRingLl128, 0.9);
         }, 1.4, 12, 4608},
        {"nothing fits between", [](Data &d) {
             d.AddAuto(64).AddGain(64, kRingLl128, 1.3).AddAuto(128).AddGain(128, kRingLl128, 0.9);
         }, 1.4, 64, 0},
        {"fine enough", [](Data &d) {
             d.AddAuto(64).AddGain(64, kRingLl128, 1.3).AddAuto(128).AddGain(128, kRingLl128, 0.9);
         }, 2, 8, 0},
        {"gains of 1 and 1.08 in turn: nobody knows yet", [](Data &d) {
             d.Add(kMiB, kAuto, {100, 100, 100, 100}).Add(kMiB, kRingLl128, {100, 100 / 1.08, 100, 100 / 1.08});
             d.AddAuto(4 * kMiB).AddGain(4 * kMiB, kRingLl128, 0.9);
         }, 1.4, 4, 2 * kMiB},
        {"NCCL's own choice by another name is no gain", [](Data &d) {
             d.Add(kMiB, kAuto, {100, 100, 100, 100}).Add(kMiB, kRingSimple, {100, 92, 100, 92});
             d.AddAuto(4 * kMiB).AddGain(4 * kMiB, kRingLl128, 0.9);
         }, 1.4, 4, 0},
        {"twice as close where NCCL changes its mind", [](Data &d) { // 1.3 is beyond the root of 1.4
             d.AddAuto(1000).AddGain(1000, kTreeLl, 0.9).AddAuto(1300).AddGain(1300, kTreeLl, 0.9);
             for (size_t i = 6; i < 12; i++)
                 d.data.rows[i].ran_proto = NCCL_PROTO_LL;
         }, 1.4, 4, 1152},
        {"and no closer", [](Data &d) {
             d.AddAuto(1000).AddGain(1000, kTreeLl, 0.9).AddAuto(1300).AddGain(1300, kTreeLl, 0.9);
             for (size_t i = 6; i < 12; i++)
                 d.data.rows[i].ran_proto = NCCL_PROTO_LL;
         }, 1.7, 4, 0},
        {"single passes decide nothing", [](Data &d) {
             d.single_pass = true;
             d.AddAuto(1000).AddGain(1000, kRingLl128, 2);
             d.single_pass = false;
             d.AddAuto(4000).AddGain(4000, kRingLl128, 0.9);
         }, 1.4, 4, 0},
    };
    // clang-format on
    for (const auto &c : cases) {
        SCOPED_TRACE(c.what);
        Data d;
        c.fill(d);
        Points p(d);

        EXPECT_EQ(c.size != 0, p.Between(c.resolution, c.grain));
        EXPECT_EQ(c.size, p.size);
    }
}

TEST(Refine, IteratesWithTheBestAndTheirChannels)
{
    Data d; // AUTO runs ring/simple
    d.AddAuto(1000)
        .AddGain(1000, kRingSimple, 1.0)
        .AddGain(1000, kRingLl128, 0.9)
        .AddGain(1000, kTreeLl, 0.6);
    Compared c(d);
    const stp_point *points[] = {&c.all.points[0]};
    stp_arms arms;

    stp_refine_contenders(points, 1, &arms);

    EXPECT_THAT(Names(arms),
                ElementsAre("auto", "auto2", "ring/ll128", "ring/simple/8",
                            "ring/simple/16", "ring/ll128/8", "ring/ll128/16"));
}

TEST(Refine, IteratesOnlyWithWhatBothCollectivesHaveInTheRunning)
{
    Data d;
    d.AddAuto(1000).AddGain(1000, kRingLl128, 1.2).AddGain(1000, kTreeLl, 1.1);
    d.AddAuto(2000).AddGain(2000, kRingLl128, 1.2).AddGain(2000, kTreeLl, 0.5);
    Compared c(d);
    const stp_point *points[] = {&c.all.points[0], &c.all.points[1]};
    stp_arms arms;

    stp_refine_contenders(points, 2, &arms);

    EXPECT_THAT(Names(arms), ElementsAre("auto", "auto2", "ring/ll128",
                                         "ring/ll128/8", "ring/ll128/16"));
}

} // namespace
