// What intervals and regimes say of iterations on GPUs, and of two equal arms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

extern "C" {
#include "analyse/iterations.h"
#include "core/stats.h"
#include "report/measurements/measurements_csv.h"
}

#include "support/mock_device.h"
#include "support/slow.h"

namespace
{

using testing::ElementsAre;

// Whether the interval of the second AUTO's gain holds 1.
bool HoldsOne(const std::vector<double> &first,
              const std::vector<double> &second)
{
    const stp_gain gain =
        stp_paired_gain(first.data(), second.data(), first.size());

    return gain.low <= 1 && gain.high >= 1;
}

// ---- on GPUs ----

// A recording of steptune iterate; of its samples the medians are known.
class Recorded : public testing::Test
{
  protected:
    ~Recorded() override
    {
        stp_iteration_summary_free(&summary_);
        stp_iterations_free(&all_);
    }
    void Load(const char *name)
    {
        const std::string path =
            std::string(STP_FIXTURES "/iterations/") + name;

        ASSERT_EQ(STP_OK,
                  stp_measurements_load(path.c_str(), &all_.data, &err_))
            << err_.text;
        all_.sample_us = static_cast<double *>(
            calloc(all_.data.n_rows, sizeof(*all_.sample_us)));
        for (size_t i = 0; i < all_.data.n_rows; i++) {
            all_.data.rows[i].iters = 1;
            all_.sample_us[i] = all_.data.rows[i].us.median;
        }
        all_.n_samples = all_.data.n_rows;
    }

    stp_iterations all_{};
    stp_iteration_summary summary_{};
    stp_error err_{};
};

TEST_F(Recorded, TwoEqualArmsAreToldApartInFourOfAHundredRuns)
{
    enum { kRuns = 100, kRounds = 10 };
    Load("h200x2_null.csv");
    std::vector<double> first(kRuns * kRounds), second(kRuns * kRounds);
    for (size_t i = 0; i < all_.data.n_rows; i++) {
        const stp_measurement &row = all_.data.rows[i];
        auto &times = row.arm.kind == STP_ARM_AUTO ? first : second;
        times.at(row.round) = row.us.median;
    }

    int n = 0;
    for (int r = 0; r < kRuns; r++) {
        auto from = r * kRounds, to = from + kRounds;
        n += HoldsOne({first.begin() + from, first.begin() + to},
                      {second.begin() + from, second.begin() + to});
    }

    EXPECT_EQ(96, n);
}

// 2 of 36 settings: the arm that is the fastest alone, and the better one.
TEST_F(Recorded, AScanOfTwoGpusHasTwoRegimes)
{
    Load("h200x2_scan.csv");
    ASSERT_EQ(STP_OK, stp_summarise_iterations(&all_, &summary_, &err_));
    ASSERT_EQ(36u, summary_.n_settings);
    std::vector<stp_regime> regimes(summary_.n_settings);

    regimes.resize(stp_find_regimes(&summary_, 0.01, regimes.data()));

    std::vector<std::string> found;
    for (const stp_regime &r : regimes) {
        char alone[STP_ARM_NAME], best[STP_ARM_NAME];
        stp_arm_name(&r.alone->arm, alone);
        stp_arm_name(&r.best->arm, best);
        found.push_back(std::string(stp_mode_name(r.setting->like.work.mode)) +
                        " " + std::to_string(r.setting->like.n_bytes >> 20) +
                        " " + alone + " " + best);
        EXPECT_EQ(2, r.setting->like.work.ratio);
        EXPECT_GE(r.gain.low, 1.01);
        EXPECT_GE(r.alone_gain.low, 1);
    }
    EXPECT_THAT(found, ElementsAre("overlap 16 auto simple/16",
                                   "fsdp 4 ll128 ll128/16"));
}

// ---- on recorded machines ----

class NullOnMock : public testing::TestWithParam<int>
{
};

// In virtual time, where arms of the same choice differ by their draws alone.
TEST_P(NullOnMock, NinetyFivePercentOfIntervalsHoldOne)
{
    STP_SLOW();
    enum { kRuns = 10000 };
    const stp_gemm gemm{4096, 4096, 2176, STP_TYPE_BF16};
    const int mode = GetParam();
    stp_device device{};
    stp_arms arms;
    stp_sizes sizes{};
    stp_error err{};
    stp_iterate_plan plan{};
    stp_arms_parse("auto2", &arms, nullptr);
    stp_sizes_add(&sizes, 16 << 20, 8, nullptr);
    plan.modes = &mode;
    plan.n_modes = 1;
    plan.sizes = &sizes;
    plan.gemm = &gemm;
    plan.coll = ncclFuncAllReduce;
    plan.arms = &arms;
    plan.layers[mode] = 1;
    plan.rounds = 4; // as many as were recorded
    plan.iters = 5;
    plan.type = STP_TYPE_BF16;
    ASSERT_EQ(STP_OK, OpenMockDevice("h200x4", 3, &device, &err));

    int n = 0;
    for (int r = 0; r < kRuns; r++) {
        stp_iterations out{};
        ASSERT_EQ(STP_OK, stp_iterate_run(&device, &plan, nullptr, nullptr,
                                          &out, &err));
        std::vector<double> times[2];
        for (size_t i = 0; i < out.data.n_rows; i++)
            times[i % 2].push_back(out.data.rows[i].us.median);
        n += HoldsOne(times[0], times[1]);
        stp_iterations_free(&out);
    }
    stp_device_close(&device);

    // within three standard errors of so many runs
    EXPECT_NEAR(.95 * kRuns, n, 3 * 21.8);
}

INSTANTIATE_TEST_SUITE_P(Modes, NullOnMock,
                         testing::Values(STP_MODE_SEQUENTIAL, STP_MODE_OVERLAP),
                         [](const auto &i) {
                             return std::string(stp_mode_name(i.param));
                         });

} // namespace
