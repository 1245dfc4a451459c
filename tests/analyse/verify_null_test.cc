// How often two equal arms are told apart: AUTO against AUTO.
#include <cmath>
#include <cstdio>
#include <map>

extern "C" {
#include "analyse/verify.h"
#include "core/rng.h"
}

#include "support/measured_data.h"
#include "support/slow.h"

using namespace measured;

namespace
{

enum { kNulls = 1000, kSizes = 25 }; // as many as a policy decides

// Draws times that are equal but for noise.
class Noise
{
  public:
    double Normal()
    {
        return std::sqrt(-2 * std::log(1 - Unit())) *
               std::cos(2 * std::acos(-1) * Unit());
    }
    // Scatters by 1 percent; a tenth of disturbed ones take longer.
    double Time(bool disturbed)
    {
        double late =
            disturbed && Unit() < 0.1 ? 0.05 * std::fabs(Normal()) : 0;

        return 100 * std::exp(0.01 * Normal() + late);
    }

  private:
    double Unit()
    {
        return stp_rng_unit(17, n_++);
    }

    uint64_t n_ = 0;
};

struct NullCase {
    const char *noise;
    unsigned rounds;
    bool is_disturbed;
    double drift; // from round to round, of both arms
};

// A policy whose every choice takes as long as NCCL's own, in each null.
class Null : public testing::TestWithParam<NullCase>
{
  protected:
    // At the first size it takes 'slowdown' times as long.
    void Draw(Data *d, double slowdown = 1)
    {
        const NullCase &c = GetParam();

        for (uint64_t size = 1; size <= kSizes; size++) {
            std::vector<double> times[2];
            double drift = 0;
            for (unsigned r = 0; r < c.rounds; r++) {
                drift += c.drift * noise_.Normal();
                for (auto &arm : times)
                    arm.push_back(std::exp(drift) *
                                  noise_.Time(c.is_disturbed));
                if (size == 1)
                    times[1].back() *= slowdown;
            }
            d->Add(size, kAuto, times[0]).Add(size, kPlugin, times[1]);
        }
        for (size_t i = 0; i < d->data.n_rows; i++)
            if (d->data.rows[i].arm.kind == STP_ARM_PLUGIN)
                d->data.rows[i].ran_proto = NCCL_PROTO_LL;
    }

    Noise noise_;
};

TEST_P(Null, IsRarelyToldApart)
{
    STP_SLOW();
    std::map<stp_verdict, int> n;
    int n_rules = 0;

    for (int i = 0; i < kNulls; i++) {
        Data d;
        Draw(&d);
        Compared c(d);
        for (size_t k = 0; k < c.all.n_points; k++) {
            const stp_point *p = &c.all.points[k];
            n[stp_verify_point(p)]++;
            n_rules += stp_verify_arm(p)->gain.low >= 1.02;
        }
    }

    const double percent = 100. / kNulls / kSizes;
    printf("%s, %u rounds: %.2f percent of sizes faster, %.2f slower, %.3f "
           "gain 2 percent\n",
           GetParam().noise, GetParam().rounds, n[STP_VERDICT_FASTER] * percent,
           n[STP_VERDICT_SLOWER] * percent, n_rules * percent);
    EXPECT_LT(n[STP_VERDICT_FASTER] * percent, 3);
    EXPECT_LT(n[STP_VERDICT_SLOWER] * percent, 1.3);
    EXPECT_LT(n_rules * percent, 0.03);
}

TEST_P(Null, SaysHowMuchSlowerASizeMayBe)
{
    STP_SLOW();
    int n_wrong = 0;

    for (int i = 0; i < kNulls; i++) {
        Data d;
        Draw(&d, 1.05);
        Compared c(d);
        const stp_point *wide;
        size_t n_wide;
        n_wrong += stp_verify_least_gain(&c.all, &wide, &n_wide) > 1 / 1.05 &&
                   n_wide == 0; // else some size is named as not sure
    }

    printf("%s, %u rounds: %.1f percent wrong\n", GetParam().noise,
           GetParam().rounds, 100. * n_wrong / kNulls);
    EXPECT_LT(n_wrong, 0.05 * kNulls);
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(Table, Null, testing::Values(
    NullCase{"plain", 3, false, 0},
    NullCase{"plain", 5, false, 0},
    NullCase{"plain", 8, false, 0},
    NullCase{"plain", 20, false, 0},
    NullCase{"disturbed", 3, true, 0},
    NullCase{"disturbed", 5, true, 0},
    NullCase{"disturbed", 8, true, 0},
    NullCase{"drifting", 3, false, 0.03},
    NullCase{"drifting", 5, false, 0.03},
    NullCase{"drifting", 8, false, 0.03}),
    [](const auto &i) {
        return std::string(i.param.noise) + "_" + std::to_string(i.param.rounds);
    });
// clang-format on

} // namespace
