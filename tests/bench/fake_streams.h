// A device with two streams and known times, for what measures iterations.
#pragma once

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>

extern "C" {
#include "core/names.h"
#include "device/mock/mock_streams.h"
}

#include "support/fake_engine.h"

// A GEMM takes 2 us and as much more as its operations over 'rate', an
// elementwise kernel a microsecond; collectives take what 'comm_us' says of the
// arm, and reduce-scatters twice that.  Side by side all is 1.5 times as long.
class FakeStreams : public FakeEngine
{
  public:
    double rate = 1e6; // operations a microsecond
    std::map<std::string, double> comm_us = {
        {"auto", 100}, {"ring/simple", 120}, {"tree/ll", 150}};
    std::set<std::pair<std::string, int>> ruled_out; // arm and collective
    size_t fail_at = SIZE_MAX; // the synchronise() that fails
    size_t n_runs = 0;
    stp_source source = STP_SOURCE_MEASURED;
    std::vector<std::string> log;   // rounds, and arms that are timed
    std::vector<std::string> notes; // of the last run

  private:
    std::string Arm() const
    {
        char name[STP_ARM_NAME];
        stp_arm_name(&arm_, name);
        return name;
    }
    void Note(const std::string &note, const stp_mock_task &task)
    {
        if (ran_) {
            tasks_.clear();
            notes.clear();
        }
        ran_ = false;
        notes.push_back((task.stream == STP_STREAM_MAIN ? "main " : "comm ") +
                        note);
        tasks_.push_back(task);
    }

    void Info(stp_device_info *info) const override
    {
        info->n_ranks = 4;
        snprintf(info->machine, sizeof(info->machine), "fake");
        info->has_data = false;
    }
    void BeginRound(unsigned round) override
    {
        log.push_back("round " + std::to_string(round));
    }
    void SelectArm(const stp_arm &arm) override
    {
        arm_ = arm;
    }
    void Probe(const stp_collective &collective, stp_device_run *run,
               stp_question *) override
    {
        bool own = Arm() == "auto" || Arm() == "auto2" ||
                   ruled_out.count({Arm(), collective.coll}) > 0;
        *run = {own ? NCCL_ALGO_RING : arm_.algo,
                own ? NCCL_PROTO_LL : arm_.proto,
                8,
                STP_SOURCE_MEASURED,
                1,
                false,
                {},
                false,
                STP_BITS_UNKNOWN};
        log.push_back(Arm());
    }
    stp_status Collective(unsigned stream, const stp_transfer &t,
                          stp_error *) override
    {
        double us = comm_us.at(Arm());
        bool scatters = t.coll == ncclFuncReduceScatter;
        Note(stp_coll_name(t.coll),
             {STP_TASK_COLLECTIVE, stream, 0, scatters ? 2 * us : us, 0, 0});
        return STP_OK;
    }
    void Gemm(unsigned stream, const stp_gemm &g) override
    {
        double flop = 2. * g.m * g.n * g.k;
        Note("gemm", {STP_TASK_COMPUTE, stream, 0, 2 + flop / rate, 0, 0});
    }
    void Elementwise(unsigned stream, uint64_t n_bytes) override
    {
        Note("elementwise " + std::to_string(n_bytes),
             {STP_TASK_COMPUTE, stream, 0, 1, 0, 0});
    }
    void Record(unsigned stream, unsigned event) override
    {
        Note("record " + std::to_string(event),
             {STP_TASK_RECORD, stream, event, 0, 0, 0});
    }
    void Wait(unsigned stream, unsigned event) override
    {
        Note("wait " + std::to_string(event),
             {STP_TASK_WAIT, stream, event, 0, 0, 0});
    }
    stp_status Synchronise(stp_error *err) override
    {
        if (n_runs++ == fail_at)
            return stp_fail(err, STP_ERR_DEVICE, "the GPU fell off");
        now_ = stp_run_streams(
            tasks_.data(), tasks_.size(), now_,
            [](void *, size_t, size_t) { return 1.5; }, nullptr,
            events_.data());
        ran_ = true;
        return STP_OK;
    }
    double EventUs(unsigned event) const override
    {
        return events_[event].us;
    }
    stp_source Source() const override
    {
        return source;
    }

    stp_arm arm_{};
    double now_ = 0;
    bool ran_ = false;
    std::vector<stp_mock_task> tasks_;
    std::vector<stp_task_event> events_ = std::vector<stp_task_event>(1000);
};
