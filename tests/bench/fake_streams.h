// A device with two streams and known times, for what measures iterations.
#ifndef FAKE_STREAMS_H
#define FAKE_STREAMS_H

#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

extern "C" {
#include "core/names.h"
#include "device/device.h"
#include "device/mock/mock_streams.h"
}

// A product takes 2 us and as much more as its operations over 'rate', an
// elementwise kernel a microsecond; collectives take what 'comm_us' says of the
// arm, and reduce-scatters twice that.  Side by side all is 1.5 times as long.
struct FakeStreams {
    double rate = 1e6; // operations a microsecond
    std::map<std::string, double> comm_us = {
        {"auto", 100}, {"ring/simple", 120}, {"tree/ll", 150}};
    std::set<std::pair<std::string, int>> ruled_out; // arm and collective
    size_t fail_at = SIZE_MAX; // the synchronise() that fails

    stp_arm arm{};
    size_t n_runs = 0;
    double now = 0;
    bool ran = false;
    stp_source source = STP_SOURCE_MEASURED;
    std::vector<stp_task> tasks;
    std::vector<double> events = std::vector<double>(1000);
    std::vector<std::string> log;   // rounds, and arms that are timed
    std::vector<std::string> notes; // of the last run

    std::string Arm() const
    {
        char name[STP_ARM_NAME];
        stp_arm_name(&arm, name);
        return name;
    }
    stp_status Add(const stp_task &task)
    {
        if (ran)
            tasks.clear();
        ran = false;
        tasks.push_back(task);
        return STP_OK;
    }
    stp_status Note(const std::string &what, const stp_task &task)
    {
        if (ran)
            notes.clear();
        notes.push_back((task.stream == STP_STREAM_MAIN ? "main " : "comm ") +
                        what);
        return Add(task);
    }
};

inline FakeStreams *StreamsOf(void *self)
{
    return static_cast<FakeStreams *>(self);
}

inline stp_status Synchronise(void *self, stp_error *err)
{
    FakeStreams *f = StreamsOf(self);
    if (f->n_runs++ == f->fail_at)
        return stp_fail(err, STP_ERR_DEVICE, "the GPU fell off");
    f->now = stp_run_streams(
        f->tasks.data(), f->tasks.size(), f->now,
        [](void *, size_t, size_t) { return 1.5; }, nullptr, f->events.data(),
        nullptr);
    f->ran = true;
    return STP_OK;
}

inline stp_device_ops FakeStreamsOps()
{
    stp_device_ops ops{};

    ops.begin_round = [](void *self, unsigned round, unsigned, stp_error *) {
        StreamsOf(self)->log.push_back("round " + std::to_string(round));
        return STP_OK;
    };
    ops.select_arm = [](void *self, const stp_arm *arm, stp_error *) {
        StreamsOf(self)->arm = *arm;
        return STP_OK;
    };
    ops.info = [](const void *, stp_device_info *info) {
        *info = {};
        info->n_ranks = 4;
        info->n_nodes = 1;
        snprintf(info->machine, sizeof(info->machine), "fake");
    };
    ops.probe = [](void *self, const stp_collective *what, stp_device_run *run,
                   stp_question *, stp_error *) {
        FakeStreams *f = StreamsOf(self);
        bool own = f->Arm() == "auto" || f->Arm() == "auto2" ||
                   f->ruled_out.count({f->Arm(), what->coll}) > 0;
        *run = {own ? NCCL_ALGO_RING : f->arm.algo,
                own ? NCCL_PROTO_LL : f->arm.proto, 8, STP_SOURCE_MEASURED, 1};
        f->log.push_back(f->Arm());
        return STP_OK;
    };
    ops.collective = [](void *self, unsigned stream, const stp_collective *what,
                        stp_error *) {
        FakeStreams *f = StreamsOf(self);
        double us = f->comm_us.at(f->Arm());
        bool scatters = what->coll == ncclFuncReduceScatter;
        return f->Note(stp_coll_name(what->coll), {STP_TASK_COLLECTIVE, stream,
                                                   0, scatters ? 2 * us : us});
    };
    ops.compute = [](void *self, unsigned stream, const stp_gemm *g,
                     stp_error *) {
        FakeStreams *f = StreamsOf(self);
        double flop = 2. * g->m * g->n * g->k;
        return f->Note("gemm",
                       {STP_TASK_COMPUTE, stream, 0, 2 + flop / f->rate});
    };
    ops.elementwise = [](void *self, unsigned stream, uint64_t n_bytes,
                         stp_error *) {
        return StreamsOf(self)->Note("elementwise " + std::to_string(n_bytes),
                                     {STP_TASK_COMPUTE, stream, 0, 1});
    };
    ops.record = [](void *self, unsigned stream, unsigned event, stp_error *) {
        return StreamsOf(self)->Note("record " + std::to_string(event),
                                     {STP_TASK_RECORD, stream, event, 0});
    };
    ops.wait = [](void *self, unsigned stream, unsigned event, stp_error *) {
        return StreamsOf(self)->Note("wait " + std::to_string(event),
                                     {STP_TASK_WAIT, stream, event, 0});
    };
    ops.replay = [](void *self, stp_error *) {
        StreamsOf(self)->log.push_back("replay");
        return STP_OK;
    };
    ops.source = [](const void *self) {
        return static_cast<const FakeStreams *>(self)->source;
    };
    ops.synchronise = Synchronise;
    ops.elapsed_us = [](const void *self, unsigned from, unsigned to) {
        const auto *f = static_cast<const FakeStreams *>(self);
        return f->events[to] - f->events[from];
    };
    return ops;
}

#endif // FAKE_STREAMS_H
