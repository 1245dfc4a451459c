// Measurements made by hand, and what they compare as.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "support/owned.h"

extern "C" {
#include "analyse/compare.h"
#include "analyse/derive.h"
}

#include "nccl_tuner_abi.h"

namespace measured
{

inline constexpr stp_arm kAuto{STP_ARM_AUTO, 0, 0, 0, 0, {}};
inline constexpr stp_arm kAutoAgain{STP_ARM_AUTO_AGAIN, 0, 0, 0, 0, {}};
inline constexpr stp_arm kPlugin{STP_ARM_PLUGIN, 0, 0, 0, 0, {}};
inline constexpr stp_arm kRingLl128{
    STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_LL128, 0, 0, {}};
inline constexpr stp_arm kRingSimple{
    STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0, 0, {}}; // AUTO's own
inline constexpr stp_arm kTreeLl{
    STP_ARM_FORCED, NCCL_ALGO_TREE, NCCL_PROTO_LL, 0, 0, {}};

inline constexpr stp_arm kSym{
    STP_ARM_SETUP, 0, 0, 0, 0, {STP_MEMORY_SYM, 0, 0, 0}};
inline constexpr stp_arm kSymWide{
    STP_ARM_SETUP, 0, 0, 0, 0, {STP_MEMORY_SYM, 32, 64, 0}};
inline constexpr stp_arm kCe{STP_ARM_SETUP,           0, 0, 0, 0,
                             {STP_MEMORY_CE, 0, 0, 0}};
inline constexpr stp_arm kReg{
    STP_ARM_SETUP, 0, 0, 0, 0, {STP_MEMORY_REG, 0, 0, 0}};

// The kernel that NCCL runs with the arm's buffers.
inline const char *RanKernel(const stp_arm &arm)
{
    return arm.setup.memory == STP_MEMORY_SYM  ? "AllReduce_AGxLL_R_sum_bf16"
           : arm.setup.memory == STP_MEMORY_CE ? STP_COPY_ENGINES
                                               : "";
}

// Measurements, one arm after the other.
class Data
{
  public:
    // One row a round.
    Data &Add(uint64_t n_bytes, const stp_arm &arm, std::vector<double> us,
              stp_source source = STP_SOURCE_MEASURED,
              int coll = ncclFuncAllReduce)
    {
        for (unsigned round = 0; round < us.size(); round++) {
            stp_measurement m{};
            m.coll = coll;
            m.n_bytes = n_bytes;
            m.round = round;
            m.arm = arm;
            bool own = arm.kind != STP_ARM_FORCED;
            m.ran_algo = own ? NCCL_ALGO_RING : arm.algo;
            m.ran_proto = own ? NCCL_PROTO_SIMPLE : arm.proto;
            m.ran_channels = 24;
            m.n_ranks = 4;
            m.n_nodes = 1;
            m.iters = 1;
            m.source = source;
            m.single_pass = single_pass;
            m.us.median = us[round];
            strcpy(m.ran_kernel, RanKernel(arm));
            stp_dataset_add(&data, &m);
        }
        return *this;
    }

    // An arm whose paired gain over AUTO at 100 us is 'gain', without error.
    Data &AddGain(uint64_t n_bytes, const stp_arm &arm, double gain)
    {
        return Add(n_bytes, arm, {100 / gain, 100 / gain, 100 / gain});
    }

    Data &AddAuto(uint64_t n_bytes)
    {
        return Add(n_bytes, kAuto, {100, 100, 100});
    }

    bool single_pass = false; // of what is added
    Owned<stp_dataset, stp_dataset_free> data;
};

class Compared
{
  public:
    explicit Compared(const Data &d)
    {
        EXPECT_EQ(STP_OK, stp_compare(&d.data, &all, nullptr));
    }
    Owned<stp_comparisons, stp_comparisons_free> all;
};

// Copies every row, changed by 'change'.
template <typename Change> void AddChanged(Data *d, Change change)
{
    size_t n = d->data.n_rows;

    for (size_t i = 0; i < n; i++) {
        stp_measurement m = d->data.rows[i];
        change(&m);
        stp_dataset_add(&d->data, &m);
    }
}

inline std::string Name(const stp_arm &arm)
{
    char name[STP_ARM_NAME];

    stp_arm_name(&arm, name);
    return name;
}

inline std::vector<std::string> Names(const stp_arms &arms)
{
    std::vector<std::string> names;

    for (size_t i = 0; i < arms.n; i++)
        names.push_back(Name(arms.arm[i]));
    return names;
}

// "MIN-MAX ARM" a rule that follows from the comparisons, after what 'before'
// says of it.
template <typename Before>
std::vector<std::string> Rules(const stp_comparisons &all,
                               const stp_derive_terms &terms, Before before)
{
    stp_derived d{};
    std::vector<std::string> rules;

    EXPECT_EQ(STP_OK, stp_derive_on(&all, &terms, &d, nullptr));
    for (size_t i = 0; i < d.n_rules; i++) {
        const stp_derived_rule &r = d.rules[i];
        rules.push_back(before(r) + std::to_string(r.min_bytes) + "-" +
                        (r.max_bytes == STP_DERIVE_NO_END
                             ? "inf"
                             : std::to_string(r.max_bytes)) +
                        " " + Name(r.arm));
    }
    stp_derived_free(&d);
    return rules;
}

} // namespace measured
