// Iterations and their summary made by hand, for tests of what is written and
// drawn of them.
#pragma once

#include <gmock/gmock.h>

#include <cmath>

extern "C" {
#include "core/dtype.h"
#include "report/iterations/iteration_files.h"
}

#include "nccl_tuner_abi.h"
#include "support/in_folder.h"
#include "support/written.h"

namespace by_hand
{

constexpr uint64_t kMib = 1 << 20;

inline stp_arm ArmOf(const std::string &name)
{
    stp_arm arm{};
    EXPECT_TRUE(stp_arm_from_name(name.data(), name.size(), &arm)) << name;
    return arm;
}

class Iterations
{
  public:
    Iterations()
    {
        snprintf(its_.data.machine, sizeof(its_.data.machine), "h200x2");
        snprintf(its_.data.gpu, sizeof(its_.data.gpu), "NVIDIA H200");
        snprintf(its_.data.nccl, sizeof(its_.data.nccl), "2.28.9");
        snprintf(its_.data.backend, sizeof(its_.data.backend), "nccl");
    }
    ~Iterations()
    {
        stp_dataset_free(&its_.data);
    }
    Iterations(const Iterations &) = delete;
    Iterations &operator=(const Iterations &) = delete;

    // A setting, until further ones have been added: of 2 ranks, bf16, all
    // but what is given as is usual.
    stp_iteration_setting &Setting(int mode, uint64_t n_bytes, double ratio = 1)
    {
        stp_iteration_setting s{};
        s.like.coll =
            mode == STP_MODE_FSDP ? ncclFuncAllGather : ncclFuncAllReduce;
        s.like.n_bytes = n_bytes;
        s.like.type = STP_TYPE_BF16;
        s.like.n_ranks = 2;
        s.like.n_nodes = 1;
        s.like.n_wrong = -1;
        s.like.work.mode = mode;
        s.like.work.layers = 8;
        s.like.work.ratio = ratio;
        s.like.work.gemm = {4096, 2048, 1024, STP_TYPE_BF16};
        s.resolution = INFINITY;
        settings_.push_back(s);
        arms_.emplace_back();
        return settings_.back();
    }

    // An arm of the last setting, with the times of each round; ran as
    // ring/simple/16.
    stp_iteration_arm &Arm(const std::string &name,
                           const std::vector<std::vector<double>> &rounds)
    {
        stp_iteration_arm arm{};
        arm.arm = ArmOf(name);
        arm.ran_algo = NCCL_ALGO_RING;
        arm.ran_proto = NCCL_PROTO_SIMPLE;
        arm.ran_channels = 16;
        arm.n_rounds = static_cast<unsigned>(rounds.size());
        std::vector<double> all;
        for (size_t i = 0; i < rounds.size(); i++) {
            AddRow(arm, static_cast<unsigned>(i), rounds[i]);
            all.insert(all.end(), rounds[i].begin(), rounds[i].end());
        }
        arm.n_iterations = all.size();
        stp_summarise(all.data(), all.size(), &arm.us);
        arm.exposed_us = arm.us.mean - settings_.back().compute_us;
        arm.gain = {1, 1, 1, 0};
        arm.alone_gain = arm.gain;
        arms_.back().push_back(arm);
        return arms_.back().back();
    }

    void Regime(size_t setting, size_t alone, size_t best, stp_gain gain,
                stp_gain alone_gain)
    {
        regimes_.push_back({&settings_[setting], &arms_[setting][alone],
                            &arms_[setting][best], gain, alone_gain});
    }

    // Until more is added.
    const stp_iteration_report &Report()
    {
        for (size_t i = 0; i < settings_.size(); i++) {
            settings_[i].arms = arms_[i].data();
            settings_[i].n_arms = arms_[i].size();
        }
        its_.sample_us = samples_.data();
        its_.n_samples = samples_.size();
        summary_.settings = settings_.data();
        summary_.n_settings = settings_.size();
        report_.made_by = "made by hand";
        report_.iterations = &its_;
        report_.summary = &summary_;
        report_.regimes = regimes_.data();
        report_.n_regimes = regimes_.size();
        return report_;
    }

    stp_iteration_report report_{}; // what Report() does not fill in

  private:
    void AddRow(const stp_iteration_arm &arm, unsigned round,
                const std::vector<double> &us)
    {
        stp_measurement row = settings_.back().like;
        std::vector<double> sorted = us;
        row.arm = arm.arm;
        row.round = round;
        row.ran_algo = arm.ran_algo;
        row.ran_proto = arm.ran_proto;
        row.ran_channels = arm.ran_channels;
        row.iters = static_cast<unsigned>(us.size());
        stp_summarise(sorted.data(), sorted.size(), &row.us);
        ASSERT_EQ(STP_OK, stp_dataset_add(&its_.data, &row));
        samples_.insert(samples_.end(), us.begin(), us.end());
    }

    stp_iterations its_{};
    std::vector<double> samples_;
    std::vector<stp_iteration_setting> settings_;
    std::vector<std::vector<stp_iteration_arm>> arms_;
    std::vector<stp_regime> regimes_;
    stp_iteration_summary summary_{};
};

// Two rounds of AUTO and ll128, and one of an arm of which nobody knows what it
// ran as or takes alone.
inline void AddOverlap(Iterations &its)
{
    stp_iteration_setting &s = its.Setting(STP_MODE_OVERLAP, 8 * kMib);
    s.compute_us = 900;
    s.comm_us = 950.5;
    s.noise = 0.0125;
    s.resolution = 0.004;
    stp_iteration_arm &a = its.Arm("auto", {{1200, 1000}, {1100, 1100}});
    a.alone_us = 119.5;
    a.algbw = 70.25;
    a.busbw = 70.25;
    stp_iteration_arm &b = its.Arm("ll128", {{1000.0004, 950}, {1050, 1000}});
    b.ran_proto = NCCL_PROTO_LL128;
    b.gain = {1.1, 1.08, 1.12, 2};
    b.alone_us = 119.75;
    b.algbw = 70;
    b.busbw = 70;
    b.alone_gain = {0.998, 0.99, 1.006, 2};
    stp_iteration_arm &c = its.Arm("ring/simple/16", {{1300}});
    c.ran_algo = c.ran_proto = -1;
    c.gain = {0.846, 0, INFINITY, 1};
    c.source = STP_SOURCE_INTERPOLATED;
}

class IterationFolder : public InFolder
{
  protected:
    void Save(Iterations &its)
    {
        ASSERT_EQ(STP_OK,
                  stp_iteration_files_write(&its.Report(), dir_.c_str(), &err_))
            << err_.text;
    }
};

} // namespace by_hand
