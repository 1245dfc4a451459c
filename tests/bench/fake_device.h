// A device with known times, for what measures.
#pragma once

#include <cstdio>
#include <functional>
#include <string>

#include "support/fake_engine.h"

class FakeDevice : public FakeEngine
{
  public:
    // microseconds of the next collective; the arguments are arm and round
    std::function<double(const stp_arm &, unsigned)> us;
    stp_arm ruled_out{STP_ARM_FORCED, -1, -1, 0, 0, {}};
    size_t fail_at = SIZE_MAX; // the call that fails
    uint64_t n_wrong = 0;
    std::vector<uint64_t> seeds; // of what was checked
    // the bits of the results; of what the arm computes of such data
    std::function<uint64_t(const stp_arm &, const stp_pattern &)> bits;
    double event_us = 0; // what a record adds
    double probe_us = 1;
    std::string kernel; // that setups run
    double wait_us = 0; // until the host knows of the end
    size_t n_calls = 0;
    std::vector<std::string> log; // rounds and arms, in order

  private:
    void Info(stp_device_info *info) const override
    {
        info->n_ranks = 4;
        info->event_us = event_us;
        snprintf(info->machine, sizeof(info->machine), "fake");
        snprintf(info->gpu, sizeof(info->gpu), "Fake GPU");
        snprintf(info->nccl, sizeof(info->nccl), "2.28.9");
    }
    void BeginRound(unsigned round) override
    {
        round_ = round;
        log.push_back("round " + std::to_string(round));
    }
    void SelectArm(const stp_arm &arm) override
    {
        char name[STP_ARM_NAME];
        stp_arm_name(&arm, name);
        arm_ = arm;
        log.push_back(name);
    }
    void Probe(const stp_collective &, stp_device_run *run,
               stp_question *) override
    {
        bool as_auto =
            arm_.kind == STP_ARM_AUTO || stp_arm_equal(&arm_, &ruled_out);
        *run = {};
        run->algo = as_auto ? NCCL_ALGO_RING : arm_.algo;
        run->proto = as_auto ? NCCL_PROTO_LL : arm_.proto;
        run->n_channels = 8;
        run->us = probe_us;
        if (arm_.kind == STP_ARM_SETUP) {
            run->algo = run->proto = -1;
            snprintf(run->kernel, sizeof(run->kernel), "%s", kernel.c_str());
        }
    }
    // A check fills memory with poison, then with its input, which is in the
    // same memory if the collective is in place.
    void Fill(const stp_pattern &pattern, bool poison,
              const void *data) override
    {
        if (poison) {
            poisoned_ = data;
            return;
        }
        log.push_back(data == poisoned_ ? "check in" : "check");
        seeds.push_back(pattern.seed);
    }
    stp_found Examine(const stp_pattern &pattern) override
    {
        return {n_wrong, bits ? bits(arm_, pattern) : 0};
    }
    stp_status Collective(unsigned, const stp_transfer &,
                          stp_error *err) override
    {
        if (n_calls++ == fail_at)
            return stp_fail(err, STP_ERR_DEVICE, "the GPU fell off");
        now_ += us(arm_, round_);
        return STP_OK;
    }
    void Record(unsigned, unsigned event) override
    {
        if (events_.size() <= event)
            events_.resize(event + 1);
        now_ += event_us;
        events_[event] = now_;
    }
    stp_status Synchronise(stp_error *) override
    {
        wall_ = now_ - start_ + wait_us;
        start_ = now_;
        return STP_OK;
    }
    double EventUs(unsigned event) const override
    {
        return events_[event];
    }
    double RanUs() const override
    {
        return wall_;
    }

    stp_arm arm_{};
    unsigned round_ = 0;
    const void *poisoned_ = nullptr;
    double start_ = 0; // of the run
    double wall_ = 0;
    double now_ = 0;
    std::vector<double> events_;
};
