// A transport of one rank that does what a test tells it.
#pragma once

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

extern "C" {
#include "device/transport.h"
}

struct Plan {
    std::vector<uint64_t> wrong; // elements to spoil
    bool lazy = false;           // moves nothing
    bool fails = false;
    bool hangs = false;        // until abort()
    unsigned n_together = 0;   // collectives that return only side by side
    std::vector<uint64_t> ran; // sizes of what ran, in order
    std::vector<float> input;  // of the last one that ran
    std::string aborted;       // why
    unsigned n_inside = 0;
    std::mutex lock;
    std::condition_variable changed;
};

// The plan of the test that runs.
inline Plan *plan;

inline stp_status PlanOpen(const stp_world *, unsigned, unsigned,
                           void **self_ret, stp_error *)
{
    *self_ret = plan;
    return STP_OK;
}

inline void Spoil(const stp_transfer &t)
{
    for (uint64_t i : plan->wrong)
        static_cast<char *>(t.out)[i * stp_type_size(t.type)] ^= 1;
}

inline stp_status PlanCollective(void *, unsigned, const stp_transfer *t,
                                 stp_error *err)
{
    std::unique_lock<std::mutex> held(plan->lock);

    plan->ran.push_back(t->n);
    if (plan->fails)
        return stp_fail(err, STP_ERR_DEVICE, "the cable is unplugged");
    plan->n_inside++;
    plan->changed.notify_all();
    plan->changed.wait(held, [] {
        return !plan->aborted.empty() ||
               (!plan->hangs && plan->n_inside >= plan->n_together);
    });
    if (!plan->aborted.empty())
        return stp_fail(err, STP_ERR_DEVICE, "ended by others");
    if (plan->lazy)
        return STP_OK;
    if (t->type == STP_TYPE_F32)
        plan->input.assign(static_cast<const float *>(t->in),
                           static_cast<const float *>(t->in) + t->n);
    memmove(t->out, t->in, t->n * stp_type_size(t->type));
    Spoil(*t);
    return STP_OK;
}

inline stp_status PlanSplit(void *, unsigned, const stp_rank_groups *,
                            stp_error *)
{
    return STP_OK;
}

inline stp_status PlanBarrier(void *, unsigned, stp_error *)
{
    return STP_OK;
}

inline void PlanAbort(void *, const char *why)
{
    std::lock_guard<std::mutex> held(plan->lock);

    plan->aborted = why;
    plan->changed.notify_all();
}

inline void PlanClose(void *)
{
}

const stp_transport_ops kPlan = {
    "gloo",         "a plan",    PlanOpen,  PlanSplit,
    PlanCollective, PlanBarrier, PlanAbort, PlanClose,
};
