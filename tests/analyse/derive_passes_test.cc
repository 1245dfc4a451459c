// What one pass on 4 x H200 says of all-reduce, and what interleaved rounds on
// the same machine say of that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

extern "C" {
#include "analyse/derive.h"
#include "report/measurements/measurements_csv.h"
}

#include "nccl_tuner_abi.h"

namespace
{

// The all-reduces of one run of the recording.
class Recording
{
  public:
    explicit Recording(const std::string &run)
    {
        std::string csv = "collective,bytes,algorithm,protocol,channels,nRanks,"
                          "round,iters,mean_us,median_us,p95_us,min_us,nNodes,"
                          "source,single_pass\n";
        std::ifstream file(STP_FIXTURES "/machines/h200x4/timings.csv");
        const std::string mark = "," + run + ",";
        for (std::string line; std::getline(file, line);) {
            size_t at = line.find(mark);
            if (line.rfind("allreduce,", 0) == 0 && at != std::string::npos)
                csv += line.erase(at, run.size() + 1) + ",1," + "recorded," +
                       (run == "sweep" ? "1" : "0") + "\n";
        }
        stp_error err{};
        EXPECT_EQ(STP_OK,
                  stp_measurements_read(csv.data(), csv.size(), &data_, &err))
            << err.line << ": " << err.text;
        EXPECT_EQ(STP_OK, stp_compare(&data_, &all, &err)) << err.text;
    }
    ~Recording()
    {
        stp_comparisons_free(&all);
        stp_dataset_free(&data_);
    }

    stp_comparisons all{};

  private:
    stp_dataset data_{};
};

struct Rule {
    uint64_t min;
    uint64_t max;
    stp_arm arm;
};

std::vector<Rule> Derived(const stp_comparisons &all, bool trust_passes)
{
    const stp_derive_terms terms{0, trust_passes, true, false, nullptr};
    stp_derived d{};
    std::vector<Rule> rules;

    EXPECT_EQ(STP_OK, stp_derive_on(&all, &terms, &d, nullptr));
    for (size_t i = 0; i < d.n_rules; i++)
        rules.push_back(
            {d.rules[i].min_bytes, d.rules[i].max_bytes, d.rules[i].arm});
    stp_derived_free(&d);
    return rules;
}

// Sizes at which rounds show that a rule's arm is slower than NCCL's choice.
std::vector<uint64_t> Refuted(const std::vector<Rule> &rules,
                              const stp_comparisons &rounds)
{
    std::vector<uint64_t> sizes;

    for (const Rule &rule : rules)
        for (size_t i = 0; i < rounds.n_points; i++) {
            const stp_point &p = rounds.points[i];
            const stp_comparison *c = stp_point_arm(&p, &rule.arm);
            if (p.n_bytes >= rule.min && p.n_bytes <= rule.max &&
                c != nullptr && c->gain.high < 1)
                sizes.push_back(p.n_bytes);
        }
    return sizes;
}

TEST(DerivePasses, OnePassMakesNoRule)
{
    Recording pass("sweep");
    ASSERT_EQ(28u, pass.all.n_points);

    EXPECT_TRUE(Derived(pass.all, false).empty());
    EXPECT_TRUE(Derived(pass.all, true).empty());
}

TEST(DerivePasses, RoundsAreNotRefutedByThemselves)
{
    Recording rounds("window");

    ASSERT_EQ(21u, rounds.all.n_points);
    EXPECT_TRUE(Refuted(Derived(rounds.all, false), rounds.all).empty());
}

} // namespace
