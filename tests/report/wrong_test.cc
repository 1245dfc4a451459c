// Results with wrong elements, in each format that is read: their arm is out at
// that size in all that is made of measurements.
#include <random>
#include <set>

#include "support/in_folder.h"
#include "support/measured_data.h"

extern "C" {
#include "analyse/curves.h"
#include "analyse/objective.h"
#include "analyse/wrong.h"
#include "report/measurements/measurements_csv.h"
#include "report/measurements/nccl_text.h"
#include "report/results/results.h"
}

namespace
{

using namespace measured;
using Places = std::set<std::pair<std::string, uint64_t>>; // arm and size

constexpr unsigned kRounds = 3;
const struct {
    stp_arm arm;
    double us;
} kArms[] = {{kAuto, 100},
             {kAutoAgain, 100},
             {kRingLl128, 50},
             {kTreeLl, 80},
             {kSym, 40}};

std::vector<uint64_t> Sizes()
{
    std::vector<uint64_t> sizes;
    for (uint64_t n = 1024; n <= 1 << 20; n *= 4)
        sizes.push_back(n);
    return sizes;
}

// Every third arm and size is wrong, in one round.
void Measure(unsigned seed, Data *d)
{
    std::mt19937 random(seed);
    for (const auto &arm : kArms)
        for (const uint64_t n_bytes : Sizes()) {
            const double us = arm.us * static_cast<double>(n_bytes) / 1024;
            d->Add(n_bytes, arm.arm, {us, us, us});
            if (random() % 3 == 0)
                d->data.rows[d->data.n_rows - 1 - random() % kRounds].n_wrong =
                    1 + random() % 5000;
        }
    for (size_t i = 0; i < d->data.n_rows; i++) {
        stp_summary *us = &d->data.rows[i].us;
        us->mean = us->p95 = us->p99 = us->min = us->median;
    }
}

// The arms and sizes that are right, AUTO among them.
Places Right(const stp_dataset &data)
{
    Places places, wrong;
    for (size_t i = 0; i < data.n_rows; i++) {
        const stp_measurement &m = data.rows[i];
        places.insert({Name(m.arm), m.n_bytes});
        for (const auto &arm : kArms)
            if (m.n_wrong > 0 && (m.arm.kind <= STP_ARM_AUTO_AGAIN ||
                                  stp_arm_equal(&m.arm, &arm.arm)))
                wrong.insert({Name(arm.arm), m.n_bytes});
    }
    for (const auto &place : wrong)
        places.erase(place);
    return places;
}

// ---- formats ----

// A run of all_reduce_perf with one arm, its rounds as passes; until 2.12 with
// errors in place of wrong elements.
std::string Perf(const stp_dataset &data, const stp_arm &arm,
                 const std::string &format)
{
    const bool as_json = format == "nccl_json", is_old = format == "old_text";
    std::string text =
        as_json
            ? "{\"version\":2,\"args\":[\"all_reduce_perf\"],\"nccl_version\":"
              "22809,\"config\":{\"nthreads\":1,\"ngpus\":1,\"iterations\":1,"
              "\"devices\":[{\"rank\":0,\"group\":0,\"hostname\":\"a\","
              "\"device_info\":\"NVIDIA H200\"}]},\"results\":["
            : "# Collective test starting: all_reduce_perf\n# Using devices\n"
              "#  Rank  0 Group  0 Pid 1 on  a device  0 [0x1] NVIDIA H200\n"
              "# size count type redop root time algbw busbw " +
                  std::string(is_old ? "error time algbw busbw error\n"
                                     : "#wrong time algbw busbw #wrong\n");
    const char *comma = "";
    for (unsigned round = 0; round < kRounds; round++)
        for (size_t i = 0; i < data.n_rows; i++) {
            const stp_measurement &m = data.rows[i];
            char row[320];
            if (m.round != round || !stp_arm_equal(&m.arm, &arm))
                continue;
            std::snprintf(
                row, sizeof(row),
                as_json  ? "%s{\"size\":%d,\"count\":%d,\"type\":\"float\","
                           "\"redop\":\"sum\",\"root\":\"-1\","
                           "\"out_of_place\":{\"time\":%g,\"nwrong\":%d},"
                           "\"in_place\":{\"time\":%g,\"nwrong\":0}}"
                : is_old ? "%s%d %d half sum -1 %g 0 0 %d %g 0 0 1e-07\n"
                         : "%s%d %d float sum -1 %g 0 0 %d %g 0 0 0\n",
                comma, int(m.n_bytes), int(m.n_bytes / 4), m.us.median,
                int(m.n_wrong), m.us.median);
            text += row;
            comma = as_json ? "," : "";
        }
    return text + (as_json ? "]}" : "");
}

class Wrong : public InFolder, public testing::WithParamInterface<const char *>
{
  protected:
    // Writes the data in the format, and reads it.
    void ReadBack(const Data &d, Data *read)
    {
        const std::string format = GetParam(), path = Path("data");
        if (format == "csv") {
            EXPECT_EQ(STP_OK, stp_measurements_save(&d.data, "test",
                                                    path.c_str(), nullptr));
        } else {
            for (const auto &arm : kArms) {
                const std::string text = Perf(d.data, arm.arm, format);
                stp_error err{};
                EXPECT_EQ(STP_OK,
                          stp_nccl_text_add(text.data(), text.size(), -1, 0,
                                            &arm.arm, &read->data, &err))
                    << err.text;
            }
            return;
        }
        EXPECT_EQ(STP_OK, stp_measurements_load_any(path.c_str(), -1, 0,
                                                    &read->data, nullptr));
    }
};

// ---- what is made of them ----

Places ComparedArms(const Data &d)
{
    const Compared c(d);
    Places places;
    for (size_t i = 0; i < c.all.n_points; i++) {
        const stp_point &p = c.all.points[i];
        for (size_t a = 0; a < p.n_arms; a++)
            places.insert({Name(p.arms[a].arm), p.n_bytes});
    }
    return places;
}

Places Drawn(const Data &d)
{
    const char *name = "data";
    stp_curves curves = stp_curves_make(&d.data, &name, 1);
    Places places;
    for (size_t i = 0; i < curves.n_curves; i++)
        for (size_t k = 0; k < curves.curves[i].n_points; k++)
            places.insert({Name(curves.curves[i].like.arm),
                           curves.curves[i].points[k].n_bytes});
    stp_curves_free(&curves);
    return places;
}

// The measured sizes within rules, of a policy or of what to register.
Places Ruled(const Data &d, bool registers)
{
    stp_derive_terms terms{};
    Owned<stp_comparisons, stp_comparisons_free> all;
    Owned<stp_derived, stp_derived_free> derived;
    Places places;
    terms.min_gain = 0.02;
    terms.trust_passes = true;
    terms.kind = registers ? STP_POLICY_OF_MEMORY : STP_POLICY_OF_ARMS;
    Owned<stp_dataset, stp_dataset_free> selected;
    EXPECT_EQ(STP_OK, stp_objective_select(&d.data, STP_OBJECTIVE_TIME,
                                           &selected, nullptr));
    EXPECT_EQ(STP_OK, registers
                          ? stp_compare_registered(&d.data, &d.data, false,
                                                   &all, nullptr)
                          : stp_objective_compare(&selected, STP_OBJECTIVE_TIME,
                                                  &all, nullptr));
    EXPECT_EQ(STP_OK, stp_derive_on(&all, &terms, &derived, nullptr));
    for (size_t i = 0; i < derived.n_rules; i++)
        for (const uint64_t n_bytes : Sizes())
            if (derived.rules[i].min_bytes <= n_bytes &&
                n_bytes <= derived.rules[i].max_bytes)
                places.insert({Name(derived.rules[i].arm), n_bytes});
    return places;
}

TEST_P(Wrong, ArmsAreOutAtTheirSizeInAllThatIsMade)
{
    size_t n_rules[2] = {};
    for (unsigned seed = 1; seed <= 50; seed++) {
        SCOPED_TRACE(seed);
        Data measured, read;
        Measure(seed, &measured);
        ReadBack(measured, &read);
        Places right = Right(measured.data);

        EXPECT_EQ(right, Drawn(read));
        for (const uint64_t n_bytes : Sizes())
            right.erase({"auto", n_bytes});
        EXPECT_EQ(right, ComparedArms(read));
        for (const bool registers : {false, true})
            for (const auto &place : Ruled(read, registers)) {
                n_rules[registers]++;
                EXPECT_EQ(1u, right.count(place))
                    << place.first << " at " << place.second;
            }
    }
    for (const size_t n : n_rules)
        EXPECT_LT(50u, n) << "right arms get their rules";
}

INSTANTIATE_TEST_SUITE_P(Formats, Wrong,
                         testing::Values("csv", "text", "old_text",
                                         "nccl_json"),
                         [](const testing::TestParamInfo<const char *> &test) {
                             return std::string(test.param);
                         });

// Iterations are not checked, but the same arm alone is.
TEST(WrongAlone, DecidesNothingByIterationsEither)
{
    for (const stp_mode mode : {STP_MODE_SEQUENTIAL, STP_MODE_OVERLAP}) {
        Data alone, steps;
        for (const uint64_t n_bytes : {1024, 4096, 16384}) {
            alone.AddAuto(n_bytes).AddGain(n_bytes, kSym, 1.5);
            steps.Add(n_bytes, kAuto, {200, 200, 200});
            steps.Add(n_bytes, kSym, {150, 150, 150});
        }
        for (size_t i = 0; i < steps.data.n_rows; i++) {
            stp_measurement *m = &steps.data.rows[i];
            m->n_wrong = -1;
            m->work.mode = mode;
            m->work.layers = 1;
            m->work.compute_us = 100;
        }
        alone.data.rows[9].n_wrong = 1; // of kSym at 4096
        for (size_t i = 0; i < alone.data.n_rows; i++)
            stp_dataset_add(&steps.data, &alone.data.rows[i]);

        stp_comparisons registered{}, derived{};
        stp_dataset selected{};
        EXPECT_EQ(STP_OK, stp_compare_registered(&alone.data, &steps.data,
                                                 mode == STP_MODE_OVERLAP,
                                                 &registered, nullptr));
        EXPECT_EQ(STP_OK,
                  stp_objective_select(&steps.data, STP_OBJECTIVE_ITERATION,
                                       &selected, nullptr));
        EXPECT_EQ(STP_OK,
                  stp_objective_compare(&selected, STP_OBJECTIVE_ITERATION,
                                        &derived, nullptr));
        for (stp_comparisons *all : {&registered, &derived}) {
            EXPECT_EQ(3u, all->n_points);
            for (size_t i = 0; i < all->n_points; i++)
                EXPECT_EQ(all->points[i].n_bytes != 4096, all->points[i].n_arms)
                    << all->points[i].n_bytes;
            stp_comparisons_free(all);
        }
        stp_dataset_free(&selected);
    }
}

TEST(WrongAlone, IsThatOfEitherCollectiveOfFsdp)
{
    for (const int coll :
         {ncclFuncAllGather, ncclFuncReduceScatter, ncclFuncAllReduce}) {
        Data d;
        d.AddAuto(1024).AddGain(1024, kSym, 1.5);
        stp_measurement step = d.data.rows[d.data.n_rows - 1];
        for (size_t i = 0; i < d.data.n_rows; i++)
            d.data.rows[i].coll = coll;
        d.data.rows[d.data.n_rows - 1].n_wrong = 7;
        step.coll = ncclFuncAllGather;
        step.n_wrong = -1;
        step.work.mode = STP_MODE_FSDP;

        stp_take_wrong(&d.data, &step);

        EXPECT_EQ(coll == ncclFuncAllReduce ? -1 : 7, step.n_wrong) << coll;
    }
}

} // namespace
