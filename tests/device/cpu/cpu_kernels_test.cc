// The compute that CPUs measure beside collectives: matrices, and kernels that
// memory bounds.
#include <gtest/gtest.h>

extern "C" {
#include "device/cpu/cpu_math.h"
#include "device/cpu/engine_cpu.h"
}

#include "device/cpu/planned_transport.h"

namespace
{

/* ---- rooms ---- */

class CpuRoom : public testing::Test
{
  protected:
    void SetUp() override
    {
        stp_device_options options{};

        plan = &plan_;
        options.world = &stp_world_of_one;
        options.measures = true;
        ASSERT_EQ(STP_OK, stp_cpu_open(&kPlan, &options, &engines_, &err_))
            << err_.text;
    }

    void TearDown() override
    {
        engines_.all[0].ops->close(engines_.all[0].self);
    }

    template <typename T>
    T *Room(stp_room room, unsigned stream, int type, uint64_t n)
    {
        void *at = nullptr;
        EXPECT_EQ(STP_OK,
                  engines_.all[0].ops->room(engines_.all[0].self, room, stream,
                                            type, n * sizeof(T), &at, &err_))
            << err_.text;
        return static_cast<T *>(at);
    }

    Plan plan_;
    stp_engines engines_{};
    stp_error err_{};
};

TEST_F(CpuRoom, HoldsSmallNumbersOfItsType)
{
    const float *f32 = Room<float>(STP_ROOM_A, 0, STP_TYPE_F32, 30);
    for (int i = 0; i < 30; i++)
        EXPECT_EQ(1 + i % 7, f32[i]);

    const double *f64 = Room<double>(STP_ROOM_A, 0, STP_TYPE_F64, 9);
    for (int i = 0; i < 9; i++)
        EXPECT_EQ(1 + i % 7, f64[i]);
}

TEST_F(CpuRoom, IsFilledOnce)
{
    float *room = Room<float>(STP_ROOM_A, 0, STP_TYPE_F32, 64);
    room[5] = 99;

    EXPECT_EQ(room, Room<float>(STP_ROOM_A, 0, STP_TYPE_F32, 64));
    EXPECT_EQ(99, room[5]);
    EXPECT_NE(room, Room<float>(STP_ROOM_A, 1, STP_TYPE_F32, 64));
    EXPECT_NE(room, Room<float>(STP_ROOM_B, 0, STP_TYPE_F32, 64));
}

TEST_F(CpuRoom, GrowsAndDoesNotShrink)
{
    Room<float>(STP_ROOM_Y, 0, STP_TYPE_F32, 0);
    const float *room = Room<float>(STP_ROOM_Y, 0, STP_TYPE_F32, 1000);

    EXPECT_EQ(1 + 999 % 5, room[999]);
    EXPECT_EQ(room, Room<float>(STP_ROOM_Y, 0, STP_TYPE_F32, 10));
    EXPECT_EQ(room, Room<float>(STP_ROOM_Y, 0, STP_TYPE_F32, 1000));
}

/* ---- elementwise kernels ---- */

std::vector<float> Numbers(unsigned period)
{
    std::vector<float> numbers(1000);

    for (unsigned i = 0; i < numbers.size(); i++)
        numbers[i] = static_cast<float>(1 + i % period);
    return numbers;
}

TEST(CpuSubtract, WritesWhatItIsToldTo)
{
    const std::vector<float> x = Numbers(7);

    for (uint64_t n : {0, 1, 2, 17, 63, 1000}) {
        std::vector<float> y = Numbers(5);
        std::vector<float> want = y;
        for (uint64_t i = 0; i < n; i++)
            want[i] = x[i] - want[i];

        stp_kernel subtract{};
        subtract.kind = STP_KERNEL_SUBTRACT;
        subtract.n = n;
        subtract.from = x.data();
        subtract.to = y.data();
        stp_cpu_kernel(&subtract);

        EXPECT_EQ(want, y) << n;
    }
}

} // namespace
