// A device as tests call it: calls must succeed unless a test looks at them.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

extern "C" {
#include "device/device.h"
#include "device/program.h"
}

#include "nccl_tuner_abi.h"

class DeviceFixture : public testing::Test
{
  protected:
    static constexpr stp_arm kAuto{STP_ARM_AUTO, 0, 0, 0, 0, {}};
    static constexpr uint64_t kUntouched = 12345;

    ~DeviceFixture() override
    {
        stp_device_close(&device_);
    }

    static stp_collective Make(int coll, uint64_t n_bytes,
                               int type = STP_TYPE_F32, int op = STP_OP_SUM)
    {
        stp_collective collective{};
        collective.coll = coll;
        collective.type = type;
        collective.op = op;
        collective.n_bytes = n_bytes;
        return collective;
    }

    void Ok(stp_status status)
    {
        ASSERT_EQ(STP_OK, status) << err_.text;
    }
    stp_device_info Info() const
    {
        stp_device_info info{};
        stp_device_get_info(&device_, &info);
        return info;
    }
    void Select(const stp_arm &arm)
    {
        Ok(stp_device_select_arm(&device_, &arm, &err_));
    }
    void BeginRound(unsigned round, unsigned n_rounds)
    {
        Ok(stp_device_begin_round(&device_, round, n_rounds, &err_));
    }
    stp_device_run Probe(const stp_collective &collective,
                         stp_question *question = nullptr)
    {
        stp_device_run run{};
        Ok(stp_device_probe(&device_, &collective, &run, question, &err_));
        return run;
    }
    stp_status Check(const stp_collective &collective, uint64_t seed,
                     stp_found *found, bool rounds = false)
    {
        return stp_device_check(&device_, &collective, seed, rounds, found,
                                &err_);
    }

    void Note(unsigned stream, const stp_collective &collective)
    {
        Ok(TryNote(stream, collective));
    }
    stp_status TryNote(unsigned stream, const stp_collective &collective)
    {
        stp_work work = Work(STP_WORK_COLLECTIVE, stream);
        work.collective = collective;
        return TryWork(work);
    }
    static stp_work Work(stp_work_kind kind, unsigned stream = 0,
                         unsigned event = 0, uint64_t n_bytes = 0)
    {
        stp_work work{};
        work.kind = kind;
        work.stream = stream;
        work.event = event;
        work.n_bytes = n_bytes;
        return work;
    }
    stp_status TryWork(const stp_work &work)
    {
        return stp_device_note(&device_, &work, &err_);
    }
    stp_status Gemm(unsigned stream, const stp_gemm &gemm)
    {
        stp_work work = Work(STP_WORK_GEMM, stream);
        work.gemm = gemm;
        return TryWork(work);
    }
    void Elementwise(unsigned stream, uint64_t n_bytes)
    {
        Ok(TryWork(Work(STP_WORK_ELEMENTWISE, stream, 0, n_bytes)));
    }
    void Group(bool begin)
    {
        Ok(TryWork(Work(begin ? STP_WORK_GROUP_BEGIN : STP_WORK_GROUP_END)));
    }
    void Record(unsigned stream, unsigned event)
    {
        Ok(TryWork(Work(STP_WORK_RECORD, stream, event)));
    }
    void Wait(unsigned stream, unsigned event)
    {
        Ok(TryWork(Work(STP_WORK_WAIT, stream, event)));
    }

    stp_status Run()
    {
        return stp_device_synchronise(&device_, &err_);
    }
    void Synchronise()
    {
        Ok(Run());
    }
    void Replay()
    {
        Ok(stp_device_replay(&device_, &err_));
    }
    double Elapsed(unsigned from, unsigned to) const
    {
        return stp_device_elapsed_us(&device_, from, to);
    }

    stp_device device_{};
    stp_error err_{};
};
