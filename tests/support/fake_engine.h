// One rank whose operations a test defines, and a device of it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

extern "C" {
#include "device/engine.h"
}

// Runs nothing, in no time; a test overrides what it looks at.
class FakeEngine
{
  public:
    virtual ~FakeEngine()
    {
        Close();
    }

    virtual void Info(stp_device_info *) const
    {
    }
    virtual void RankLine(unsigned, char *, size_t) const
    {
    }
    virtual void BeginRound(unsigned)
    {
    }
    virtual void SelectArm(const stp_arm &)
    {
    }
    virtual void Probe(const stp_collective &, stp_device_run *, stp_question *)
    {
    }
    virtual stp_status Collective(unsigned, const stp_transfer &, stp_error *)
    {
        return STP_OK;
    }
    virtual void Gemm(unsigned, const stp_gemm &)
    {
    }
    virtual void Elementwise(unsigned, uint64_t)
    {
    }
    virtual void Record(unsigned, unsigned)
    {
    }
    virtual void Wait(unsigned, unsigned)
    {
    }
    virtual stp_status Synchronise(stp_error *)
    {
        return STP_OK;
    }
    virtual double EventUs(unsigned) const
    {
        return 0;
    }
    virtual double RanUs() const
    {
        return 0;
    }
    virtual stp_source Source() const
    {
        return STP_SOURCE_MEASURED;
    }
    virtual void Fill(const stp_pattern &, bool, const void *)
    {
    }
    virtual stp_found Examine(const stp_pattern &)
    {
        return {};
    }

    // A device of 'world' whose one rank here this is; closed with Close().
    const stp_device *Open(const stp_world *world = &stp_world_of_one)
    {
        Close();
        device_ = Make(world, kRoom / 2);
        return &device_;
    }

    // Likewise, but the caller closes it.
    stp_device Make(const stp_world *world, uint64_t max_bytes)
    {
        stp_device_options options{};
        stp_engines engines{};
        stp_device device{};

        options.world = world;
        options.max_bytes = max_bytes;
        options.measures = true;
        engines.all[0] = {Ops(), this};
        engines.n_per_thread = 1;
        if (stp_device_open(&options, &engines, &device, nullptr) != STP_OK)
            abort();
        return device;
    }

    void Close()
    {
        stp_device_close(&device_);
    }

    // The place of an address among the buffers: send first, then receive.
    uint64_t Place(const void *address) const
    {
        return uint64_t(static_cast<const char *>(address) - room_.data());
    }

    bool is_closed = false;

  protected:
    static constexpr uint64_t kRoom = 1 << 16;

  private:
    static FakeEngine *Self(void *self)
    {
        return static_cast<FakeEngine *>(self);
    }

    static const FakeEngine *Self(const void *self)
    {
        return static_cast<const FakeEngine *>(self);
    }

    static const stp_engine_ops *Ops()
    {
        static const stp_engine_ops ops = MakeOps();

        return &ops;
    }

    static void SetInfo(stp_engine_ops *ops)
    {
        ops->info = [](const void *self, stp_device_info *info) {
            *info = {};
            info->has_data = true;
            info->is_late = true;
            info->n_ranks = info->n_nodes = 1;
            Self(self)->Info(info);
        };
        ops->rank_line = [](const void *self, unsigned rank, char *line,
                            size_t size) {
            Self(self)->RankLine(rank, line, size);
        };
        ops->source = [](const void *self, bool *) {
            return Self(self)->Source();
        };
        ops->now_us = [](const void *) { return 0.; };
        ops->ran_us = [](const void *self) { return Self(self)->RanUs(); };
        ops->elapsed_us = [](const void *self, unsigned from, unsigned to,
                             double *us, stp_error *) {
            *us = Self(self)->EventUs(to) - Self(self)->EventUs(from);
            return STP_OK;
        };
    }

    static void SetMemory(stp_engine_ops *ops)
    {
        ops->check = [](void *, const stp_work *, stp_error *) {
            return STP_OK;
        };
        ops->room = [](void *self, stp_room room, unsigned, int, uint64_t,
                       void **at, stp_error *) {
            *at = Self(self)->room_.data() +
                  (room == STP_ROOM_RECV ? kRoom / 2 : 0);
            return STP_OK;
        };
        ops->fill = [](void *self, const stp_pattern *pattern, bool poison,
                       void *data, uint64_t, stp_error *) {
            Self(self)->Fill(*pattern, poison, data);
            return STP_OK;
        };
        ops->examine = [](void *self, const stp_pattern *pattern, const void *,
                          uint64_t, stp_found *found, stp_error *) {
            *found = Self(self)->Examine(*pattern);
            return STP_OK;
        };
    }

    static void SetWork(stp_engine_ops *ops)
    {
        ops->note = [](void *self, const stp_work *work, stp_error *err) {
            const unsigned stream = work->stream;
            if (work->kind == STP_WORK_TRANSFER)
                return Self(self)->Collective(stream, work->as.transfer, err);
            if (work->kind == STP_WORK_PRODUCT)
                Self(self)->Gemm(stream, work->as.product.gemm);
            else if (work->kind == STP_WORK_KERNEL)
                Self(self)->Elementwise(stream,
                                        work->as.kernel.n * sizeof(float));
            else if (work->kind == STP_WORK_RECORD)
                Self(self)->Record(stream, work->event);
            else
                Self(self)->Wait(stream, work->event);
            return STP_OK;
        };
        ops->synchronise = [](void *self, stp_error *err) {
            return Self(self)->Synchronise(err);
        };
    }

    static stp_engine_ops MakeOps()
    {
        stp_engine_ops ops{};

        SetInfo(&ops);
        SetMemory(&ops);
        SetWork(&ops);
        ops.begin_round = [](void *self, unsigned round, unsigned,
                             stp_error *) {
            Self(self)->BeginRound(round);
            return STP_OK;
        };
        ops.select_arm = [](void *self, const stp_arm *arm, stp_error *) {
            Self(self)->SelectArm(*arm);
            return STP_OK;
        };
        ops.probe = [](void *self, const stp_collective *collective,
                       stp_device_run *run, stp_question *question,
                       stp_error *) {
            stp_question unheard{};
            Self(self)->Probe(*collective, run,
                              question != nullptr ? question : &unheard);
            return STP_OK;
        };
        ops.close = [](void *self) { Self(self)->is_closed = true; };
        return ops;
    }

    std::vector<char> room_ = std::vector<char>(kRoom);
    stp_device device_{};
};
