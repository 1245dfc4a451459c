// What device/device.h promises, as tests of any device.
//
// A device is named by a DeviceCase; a test program instantiates the suite with
// INSTANTIATE_TEST_SUITE_P(Name, DeviceContract, testing::ValuesIn(cases),
// ...). Where a device has several processes, all of them run the same tests.
#ifndef STP_DEVICE_UNDER_TEST_H
#define STP_DEVICE_UNDER_TEST_H

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

extern "C" {
#include "bench/sweep.h"
#include "device/device.h"
}

#include "nccl_tuner_abi.h"

// Opens a device without a plugin and without graphs, and closes it.
class DeviceUnderTest
{
  public:
    virtual ~DeviceUnderTest() = default;
    virtual stp_status Open(uint64_t max_bytes, stp_device *device,
                            stp_error *err) = 0;
    virtual void Close(const stp_device &device)
    {
        device.ops->close(device.self);
    }
};

struct DeviceCase {
    const char *name;
    std::unique_ptr<DeviceUnderTest> (*make)();
};

class DeviceContract : public testing::TestWithParam<DeviceCase>
{
  protected:
    static constexpr uint64_t kMaxBytes = 1 << 18;
    static constexpr stp_arm kAuto{STP_ARM_AUTO, 0, 0, 0};
    static constexpr uint64_t kUntouched = 12345;

    void SetUp() override
    {
        under_test_ = GetParam().make();
        ASSERT_EQ(STP_OK, under_test_->Open(kMaxBytes, &device_, &err_))
            << err_.text;
        ops_ = device_.ops;
        ops_->info(device_.self, &info_);
        ASSERT_EQ(STP_OK, ops_->begin_round(device_.self, 0, 1, &err_))
            << err_.text;
        Select(kAuto);
    }

    void TearDown() override
    {
        if (ops_ != nullptr)
            under_test_->Close(device_);
        under_test_.reset();
    }

    static bool InBlocks(int coll)
    {
        return coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;
    }

    // 'count' elements, on each rank where it makes a difference.
    stp_collective Make(int coll, uint64_t count, int type = STP_TYPE_F32,
                        int op = STP_OP_SUM) const
    {
        stp_collective what{};
        what.coll = coll;
        what.type = type;
        what.op = op;
        what.n_bytes =
            count * stp_type_size(type) * (InBlocks(coll) ? info_.n_ranks : 1);
        return what;
    }

    void Select(const stp_arm &arm)
    {
        EXPECT_EQ(STP_OK, ops_->select_arm(device_.self, &arm, &err_))
            << err_.text;
    }

    void Note(unsigned stream, const stp_collective &what)
    {
        EXPECT_EQ(STP_OK, ops_->collective(device_.self, stream, &what, &err_))
            << err_.text;
    }

    void Elementwise(unsigned stream, uint64_t n_bytes)
    {
        EXPECT_EQ(STP_OK,
                  ops_->elementwise(device_.self, stream, n_bytes, &err_))
            << err_.text;
    }

    void Record(unsigned stream, unsigned event)
    {
        EXPECT_EQ(STP_OK, ops_->record(device_.self, stream, event, &err_))
            << err_.text;
    }

    void Wait(unsigned stream, unsigned event)
    {
        EXPECT_EQ(STP_OK, ops_->wait(device_.self, stream, event, &err_))
            << err_.text;
    }

    void Synchronise()
    {
        ASSERT_EQ(STP_OK, ops_->synchronise(device_.self, &err_)) << err_.text;
    }

    double Elapsed(unsigned from, unsigned to)
    {
        return ops_->elapsed_us(device_.self, from, to);
    }

    // What a refusal must be: one sentence, for something out of range.
    void ExpectRefusal(stp_status status)
    {
        EXPECT_EQ(STP_ERR_RANGE, status) << err_.text;
        EXPECT_NE('\0', err_.text[0]);
        EXPECT_EQ(nullptr, strchr(err_.text, '\n')) << err_.text;
    }

    // Whether it runs, and if so, whether it is right.
    bool IsRightUnlessRefused(const stp_collective &what)
    {
        uint64_t n_wrong = kUntouched;

        stp_status status =
            ops_->check(device_.self, &what, ++seed_, &n_wrong, &err_);
        if (status == STP_OK) {
            EXPECT_EQ(0u, n_wrong);
            return true;
        }
        ExpectRefusal(status);
        EXPECT_EQ(kUntouched, n_wrong);
        return false;
    }

    void ExpectWorks()
    {
        EXPECT_TRUE(IsRightUnlessRefused(Make(ncclFuncAllReduce, 5)));
        Record(STP_STREAM_MAIN, 0);
        Note(STP_STREAM_MAIN, Make(ncclFuncAllReduce, 5));
        Record(STP_STREAM_MAIN, 1);
        Synchronise();
        EXPECT_GT(Elapsed(0, 1), 0);
    }

    // Sums of f32 run on every device.
    void ExpectRightOrRefused(stp_collective what)
    {
        for (bool in_place : {false, true}) {
            what.in_place = in_place;
            SCOPED_TRACE(std::string(stp_type_name(what.type)) + " " +
                         stp_op_name(what.op) + " of " +
                         std::to_string(what.n_bytes) + " B, root " +
                         std::to_string(what.root) +
                         (in_place ? ", in place" : ""));
            bool ran = IsRightUnlessRefused(what);
            if (what.type == STP_TYPE_F32 && what.op == STP_OP_SUM) {
                EXPECT_TRUE(ran) << err_.text;
            }
        }
    }

    // One element on a rank, and a number that nothing divides.
    void ExpectEveryTypeIsRight(int coll)
    {
        const int n_ops = stp_coll_reduces(coll) ? STP_N_OPS : 1;

        for (uint64_t count : {1, 1021})
            for (int type = 0; type < STP_N_TYPES; type++)
                for (int op = 0; op < n_ops; op++)
                    ExpectRightOrRefused(Make(coll, count, type, op));
        ExpectWorks();
    }

    void ExpectEveryRootIsRight(int coll)
    {
        for (unsigned root = 0; root < info_.n_ranks; root++) {
            stp_collective what = Make(coll, 333);
            what.root = root;
            ExpectRightOrRefused(what);
        }
    }

    std::unique_ptr<DeviceUnderTest> under_test_;
    stp_device device_{};
    const stp_device_ops *ops_ = nullptr;
    stp_device_info info_{};
    stp_error err_{};
    uint64_t seed_ = 7;
};

#endif // STP_DEVICE_UNDER_TEST_H
