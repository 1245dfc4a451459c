// Random measurements in every writer: an interval and a percentile only where
// enough was measured for it, and the source in each format.
#include <gmock/gmock.h>

#include <cmath>
#include <random>
#include <regex>

#include "support/measured_data.h"
#include "support/written.h"

extern "C" {
#include "analyse/curves.h"
#include "analyse/iterations.h"
#include "report/charts/plot.h"
#include "report/iterations/iteration_files.h"
#include "report/measurements/measurements_csv.h"
#include "report/results/results.h"
}

namespace
{

using namespace measured;
using testing::HasSubstr;
using testing::Not;

// Measurements of one source, in rounds of so many iterations.
struct Case {
    stp_source source;
    bool single_pass;
    unsigned n_rounds, iters;
    bool has_interval() const
    {
        return n_rounds > 1 && source != STP_SOURCE_MODELLED &&
               (source == STP_SOURCE_MEASURED || !single_pass);
    }
    bool has_p95() const
    {
        return source != STP_SOURCE_MODELLED && n_rounds * iters >= 20;
    }
};

struct Provenance : testing::TestWithParam<unsigned> {
    Provenance()
    {
        std::mt19937 random(GetParam());
        c = {stp_source(random() % STP_N_SOURCES), random() % 2 == 0,
             unsigned(1 + random() % 4), unsigned(1 + random() % 12)};
        for (const stp_arm &arm : {kAuto, kRingLl128})
            for (unsigned round = 0; round < c.n_rounds; round++) {
                std::vector<double> us;
                for (unsigned i = 0; i < c.iters; i++)
                    us.push_back(100 + random() % 100);
                samples.insert(samples.end(), us.begin(), us.end());
                d.single_pass = c.single_pass;
                d.Add(1 << 20, arm, {1}, c.source);
                stp_measurement *m = &d.data.rows[d.data.n_rows - 1];
                m->round = round;
                m->iters = c.iters;
                stp_summarise(us.data(), us.size(), &m->us);
            }
        its.sample_us = samples.data();
        its.n_samples = samples.size();
    }

    // The text says where the times are from, and no more than they allow.
    void Check(const std::string &text) const
    {
        const std::regex interval("[0-9]\\.[0-9]{3} to [0-9]");
        EXPECT_THAT(text, HasSubstr(stp_source_name(c.source)));
        EXPECT_TRUE(c.has_interval() || !std::regex_search(text, interval))
            << text;
    }

    Case c{};
    Data d;
    std::vector<double> samples;
    stp_iterations its{};
};

TEST_P(Provenance, HoldsInTablesOfSweeps)
{
    const Compared compared(d);
    for (const bool best : {false, true}) {
        const std::string text = Written([&](FILE *fp) {
            return best ? stp_print_sweep_best("", &compared.all, fp)
                        : stp_print_sweep(&compared.all, fp);
        });
        Check(text);
        EXPECT_EQ(c.single_pass, text.find("single pass") != std::string::npos);
    }
}

TEST_P(Provenance, HoldsInFilesOfMeasurements)
{
    const std::string csv = Written([&](FILE *fp) {
        stp_measurements_write(&d.data, "test", fp);
        return STP_OK;
    });
    const std::string json =
        Written([&](FILE *fp) { stp_print_sweep_json(&d.data, fp); });

    Check(csv);
    Check(json);
    if (c.iters == 1) {
        EXPECT_THAT(csv, HasSubstr(",,,1")) << "no percentile, but the least";
        EXPECT_THAT(json, Not(HasSubstr("\"p95_us\":\t1")));
    }
}

TEST_P(Provenance, HoldsInStudies)
{
    const char *const names[] = {"a.csv"};
    stp_curves curves = stp_curves_make(&d.data, names, 1);
    EXPECT_EQ(c.has_p95(), std::isfinite(curves.points[0].us.p95));
    EXPECT_FALSE(std::isfinite(curves.points[0].us.p99)) << "of 48 at most";
    for (int text = 0; text < STP_N_STUDY_TEXTS; text++)
        Check(Written([&](FILE *fp) {
            stp_study_write(&curves, stp_study_text(text), fp);
        }));
    stp_curves_free(&curves);
}

TEST_P(Provenance, HoldsInIterations)
{
    stp_iteration_summary summary{};
    for (size_t i = 0; i < d.data.n_rows; i++) {
        d.data.rows[i].work.mode = STP_MODE_OVERLAP;
        d.data.rows[i].work.layers = 1;
    }
    its.data = d.data;
    ASSERT_EQ(STP_OK, stp_summarise_iterations(&its, &summary, nullptr));
    const stp_iteration_report report{"test", &its,  &summary, false, nullptr,
                                      0,      false, false,    0};
    const auto &arm = summary.arms[1];
    // a row of iterations is never of a single pass: all arms take turns
    EXPECT_EQ(c.source != STP_SOURCE_MODELLED && c.n_rounds > 1,
              std::isfinite(arm.gain.high));
    EXPECT_EQ(c.has_p95(), std::isfinite(arm.us.p95));
    c.single_pass = false;
    Check(Written([&](FILE *fp) { stp_print_iterations_json(&report, fp); }));
    Check(Written([&](FILE *fp) { stp_iteration_write(&report, false, fp); }));
    stp_iteration_summary_free(&summary);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Provenance, testing::Range(0u, 60u));

} // namespace
