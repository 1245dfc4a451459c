// A device with known times, for what measures.
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

extern "C" {
#include "device/device.h"
}

struct FakeDevice {
    // microseconds of the next collective; the arguments are arm and round
    std::function<double(const stp_arm &, unsigned)> us;
    stp_arm ruled_out{STP_ARM_FORCED, -1, -1, 0};
    size_t fail_at = SIZE_MAX; // the call that fails
    uint64_t n_wrong = 0;
    std::vector<uint64_t> seeds; // of what was checked

    stp_arm arm{};
    unsigned round = 0;
    unsigned max_rounds = 0;
    double event_us = 0; // what a record adds
    double probe_us = 1;
    double wait_us = 0; // until the host knows of the end
    double start = 0;   // of what is noted
    double wall = 0;
    double now = 0;
    size_t n_calls = 0;
    std::vector<double> events;
    std::vector<std::string> log; // rounds and arms, in order
};

inline FakeDevice *Self(void *self)
{
    return static_cast<FakeDevice *>(self);
}

inline const stp_device_ops kFakeOps = {
    .info =
        [](const void *self, stp_device_info *info) {
            const auto *d = static_cast<const FakeDevice *>(self);
            *info = {};
            info->n_ranks = 4;
            info->n_nodes = 1;
            info->has_data = true;
            info->event_us = d->event_us;
            snprintf(info->machine, sizeof(info->machine), "fake");
            snprintf(info->gpu, sizeof(info->gpu), "Fake GPU");
            snprintf(info->nccl, sizeof(info->nccl), "2.28.9");
        },
    .rank_line = nullptr,
    .sizes = [](const void *, int, uint64_t *, size_t) -> size_t { return 0; },
    .begin_round =
        [](void *self, unsigned round, unsigned, stp_error *) {
            Self(self)->round = round;
            Self(self)->log.push_back("round " + std::to_string(round));
            return STP_OK;
        },
    .select_arm =
        [](void *self, const stp_arm *arm, stp_error *) {
            char name[STP_ARM_NAME];
            stp_arm_name(arm, name);
            Self(self)->arm = *arm;
            Self(self)->log.push_back(name);
            return STP_OK;
        },
    .probe =
        [](void *self, const stp_collective *, stp_device_run *run,
           stp_question *, stp_error *) {
            const FakeDevice *d = Self(self);
            bool as_auto = d->arm.kind == STP_ARM_AUTO ||
                           stp_arm_equal(&d->arm, &d->ruled_out);
            *run = {as_auto ? NCCL_ALGO_RING : d->arm.algo,
                    as_auto ? NCCL_PROTO_LL : d->arm.proto, 8,
                    STP_SOURCE_MEASURED, d->probe_us};
            return STP_OK;
        },
    .check =
        [](void *self, const stp_collective *what, uint64_t seed,
           uint64_t *n_wrong, stp_error *) {
            Self(self)->log.push_back(what->in_place ? "check in" : "check");
            Self(self)->seeds.push_back(seed);
            *n_wrong = Self(self)->n_wrong;
            return STP_OK;
        },
    .collective =
        [](void *self, unsigned, const stp_collective *, stp_error *err) {
            FakeDevice *d = Self(self);
            if (d->n_calls++ == d->fail_at)
                return stp_fail(err, STP_ERR_DEVICE, "the GPU fell off");
            d->now += d->us(d->arm, d->round);
            return STP_OK;
        },
    .group = nullptr,
    .compute = nullptr,
    .elementwise = nullptr,
    .record =
        [](void *self, unsigned, unsigned event, stp_error *) {
            FakeDevice *d = Self(self);
            if (d->events.size() <= event)
                d->events.resize(event + 1);
            d->now += d->event_us;
            d->events[event] = d->now;
            return STP_OK;
        },
    .wait = nullptr,
    .synchronise =
        [](void *self, stp_error *) {
            FakeDevice *d = Self(self);
            d->wall = d->now - d->start + d->wait_us;
            d->start = d->now;
            return STP_OK;
        },
    .replay =
        [](void *self, stp_error *) {
            Self(self)->log.push_back("replay");
            return STP_OK;
        },
    .elapsed_us =
        [](const void *self, unsigned from, unsigned to) {
            const auto *d = static_cast<const FakeDevice *>(self);
            return d->events[to] - d->events[from];
        },
    .wall_us =
        [](const void *self) {
            return static_cast<const FakeDevice *>(self)->wall;
        },
    .source = [](const void *) { return STP_SOURCE_MEASURED; },
    .close = [](void *) {},
};

#endif // FAKE_DEVICE_H
