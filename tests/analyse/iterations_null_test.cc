// Intervals and regimes of iterations on GPUs, and of two equal arms.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "support/owned.h"

extern "C" {
#include "analyse/iterations.h"
#include "core/stats.h"
#include "report/measurements/measurements_csv.h"
}

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

// A recording of steptune iterate; of its samples the medians are known.
class Recorded : public testing::Test
{
  protected:
    void Load(const char *name)
    {
        const std::string path =
            std::string(STP_FIXTURES "/iterations/") + name;

        ASSERT_EQ(STP_OK, stp_measurements_load_any(path.c_str(), -1, 0,
                                                    &all_.data, &err_))
            << err_.text;
        all_.sample_us = static_cast<double *>(
            calloc(all_.data.n_rows, sizeof(*all_.sample_us)));
        for (size_t i = 0; i < all_.data.n_rows; i++) {
            all_.data.rows[i].iters = 1;
            all_.sample_us[i] = all_.data.rows[i].us.median;
        }
        all_.n_samples = all_.data.n_rows;
    }

    Owned<stp_iterations, stp_iterations_free> all_;
    Owned<stp_iteration_summary, stp_iteration_summary_free> summary_;
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

} // namespace
