// An engine in a time of its own.
#ifndef TIMED_ENGINE_H
#define TIMED_ENGINE_H

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>

extern "C" {
#include "device/engine.h"
}

// One of two ranks: a collective takes 5 us, all else takes no time.
class TimedEngine
{
  public:
    TimedEngine()
    {
        ops_.name = "timed";
        ops_.info = [](const void *, stp_device_info *info) {
            *info = {};
            info->n_ranks = 2;
            snprintf(info->processor, sizeof(info->processor), "FAKE 1");
            snprintf(info->what, sizeof(info->what), "2 x FAKE 1");
        };
        ops_.alloc = [](void *self, uint64_t n, const char *what, bool,
                        void **at, stp_error *err) {
            if (n > Self(self)->room)
                return stp_fail(err, STP_ERR_NOMEM, "no memory for %s", what);
            *at = reinterpret_cast<void *>(Self(self)->top_);
            Self(self)->top_ += (n + 255) / 256 * 256;
            return STP_OK;
        };
        ops_.release = [](void *) {};
        ops_.upload = [](void *, void *, const void *, uint64_t, stp_error *) {
            return STP_OK;
        };
        ops_.download = [](void *, void *to, const void *, uint64_t n,
                           stp_error *) {
            memset(to, 0, n);
            return STP_OK;
        };
        ops_.agree = [](void *, stp_status status, stp_error *) {
            return status;
        };
        ops_.collective = [](void *self, unsigned, const stp_transfer *,
                             stp_error *) {
            Self(self)->now_us_ += 5;
            Self(self)->n_collectives++;
            return STP_OK;
        };
        ops_.record = [](void *self, unsigned, unsigned event, stp_error *) {
            Self(self)->events_[event] = Self(self)->now_us_;
            return STP_OK;
        };
        ops_.elapsed_us = [](const void *self, unsigned from, unsigned to,
                             double *us, stp_error *) {
            const auto *e = static_cast<const TimedEngine *>(self);
            *us = e->events_.at(to) - e->events_.at(from);
            return STP_OK;
        };
        ops_.now_us = [](const void *self) {
            return static_cast<const TimedEngine *>(self)->now_us_;
        };
        ops_.close = [](void *self) { Self(self)->n_closed++; };
        TakeNoTime();
    }

    const stp_engine *get()
    {
        engine_ = {&ops_, this};
        return &engine_;
    }

    uint64_t room = 1u << 30; // of an alloc()
    unsigned n_collectives = 0;
    unsigned n_closed = 0;

  private:
    static TimedEngine *Self(void *self)
    {
        return static_cast<TimedEngine *>(self);
    }

    void TakeNoTime()
    {
        ops_.kernel = [](void *, unsigned, const stp_kernel *, stp_error *) {
            return STP_OK;
        };
        ops_.product = [](void *, unsigned, const stp_product *, stp_error *) {
            return STP_OK;
        };
        ops_.cross_entropy = [](void *, unsigned, const stp_cross_entropy *,
                                stp_error *) { return STP_OK; };
        ops_.update = [](void *, unsigned, const stp_update *, stp_error *) {
            return STP_OK;
        };
        ops_.wait = [](void *, unsigned, unsigned, stp_error *) {
            return STP_OK;
        };
        ops_.synchronise = [](void *, stp_error *) { return STP_OK; };
    }

    stp_engine_ops ops_{};
    stp_engine engine_{};
    double now_us_ = 0;
    uintptr_t top_ = 4096;
    std::map<unsigned, double> events_;
};

#endif // TIMED_ENGINE_H
