// The data that checks collectives: the same on the GPU as on the host.  And
// what memory bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
#include "device/cuda/kernels.h"
}

namespace
{

constexpr uint64_t kElements = 100003; // a multiple of no block of threads

struct Case {
    int coll;
    int type;
    int op;
};

std::vector<Case> Cases()
{
    std::vector<Case> cases;
    for (int type = 0; type < STP_N_TYPES; type++) {
        cases.push_back({ncclFuncBroadcast, type, STP_OP_SUM});
        cases.push_back({ncclFuncAllGather, type, STP_OP_SUM});
        for (int op = 0; op < STP_N_OPS; op++) {
            cases.push_back({ncclFuncAllReduce, type, op});
            cases.push_back({ncclFuncReduceScatter, type, op});
        }
    }
    return cases;
}

class Kernels : public testing::TestWithParam<Case>
{
  protected:
    void SetUp() override
    {
        pattern_ = {GetParam().coll,
                    GetParam().type,
                    GetParam().op,
                    /*root*/ 1,
                    /*ranks*/ 4,
                    /*block*/ kElements / 4,
                    /*seed*/ 42,
                    0,
                    /*rounds*/ true};
        size_ = stp_type_size(pattern_.type);
        ASSERT_EQ(cudaSuccess, cudaMalloc(&data_, kElements * size_));
        ASSERT_EQ(cudaSuccess, cudaMalloc(reinterpret_cast<void **>(&found_),
                                          sizeof(*found_)));
    }

    void TearDown() override
    {
        cudaFree(data_);
        cudaFree(found_);
    }

    // Elements of what a rank gets.
    uint64_t Elements() const
    {
        return pattern_.coll == ncclFuncReduceScatter ||
                       pattern_.coll == ncclFuncAllGather
                   ? kElements / 4
                   : kElements;
    }

    stp_found Examine(unsigned rank)
    {
        stp_found found{};
        cudaMemset(found_, 0, sizeof(*found_));
        EXPECT_EQ(cudaSuccess, stp_kernel_examine(&pattern_, rank, data_,
                                                  Elements(), found_, nullptr));
        EXPECT_EQ(cudaSuccess, cudaMemcpy(&found, found_, sizeof(found),
                                          cudaMemcpyDeviceToHost));
        return found;
    }
    uint64_t CountWrong(unsigned rank)
    {
        return Examine(rank).n_wrong;
    }

    // Bytes that rank 'rank' must get, computed by the host element by element.
    std::vector<unsigned char> Right(unsigned rank) const
    {
        std::vector<unsigned char> bytes(Elements() * size_);
        for (uint64_t i = 0; i < Elements(); i++) {
            const uint64_t at = pattern_.coll == ncclFuncReduceScatter
                                    ? i + rank * pattern_.block
                                    : i;
            uint64_t bits;
            if (pattern_.coll == ncclFuncBroadcast)
                bits = stp_pattern_input(&pattern_, pattern_.root, i);
            else if (pattern_.coll == ncclFuncAllGather)
                bits = stp_pattern_input(
                    &pattern_, static_cast<unsigned>(i / pattern_.block),
                    i % pattern_.block);
            else if (stp_pattern_is_integer(pattern_.type))
                bits = stp_pattern_reduce_integers(&pattern_, at);
            else
                bits = stp_pattern_encode(
                    pattern_.type, stp_pattern_reduce_floats(&pattern_, at));
            memcpy(&bytes[i * size_], &bits, size_);
        }
        return bytes;
    }

    stp_pattern pattern_{};
    unsigned size_ = 0;
    void *data_ = nullptr;
    stp_found *found_ = nullptr;
};

TEST_P(Kernels, FillAsTheHostWould)
{
    std::vector<unsigned char> got(kElements * size_);

    ASSERT_EQ(cudaSuccess,
              stp_kernel_fill(&pattern_, 3, false, data_, kElements, nullptr));
    ASSERT_EQ(cudaSuccess, cudaMemcpy(got.data(), data_, got.size(),
                                      cudaMemcpyDeviceToHost));

    for (uint64_t i = 0; i < kElements; i++) {
        const uint64_t want = stp_pattern_input(&pattern_, 3, i);
        ASSERT_EQ(0, memcmp(&want, &got[i * size_], size_)) << "element " << i;
    }
}

TEST_P(Kernels, CountEveryWrongElementAndNoOther)
{
    std::vector<unsigned char> bytes = Right(2);
    ASSERT_EQ(cudaSuccess, cudaMemcpy(data_, bytes.data(), bytes.size(),
                                      cudaMemcpyHostToDevice));
    EXPECT_EQ(0u, CountWrong(2));
    stp_found want{};
    for (uint64_t i = 0; i < Elements(); i++) {
        uint64_t bits = 0;
        memcpy(&bits, &bytes[i * size_], size_);
        stp_pattern_examine(&pattern_, 2, i, bits, &want);
    }
    EXPECT_EQ(want.bits, Examine(2).bits);

    for (uint64_t i : {uint64_t{0}, Elements() / 2, Elements() - 1}) {
        const uint64_t bits = stp_pattern_poison(&pattern_, 2, i);
        memcpy(&bytes[i * size_], &bits, size_);
    }
    ASSERT_EQ(cudaSuccess, cudaMemcpy(data_, bytes.data(), bytes.size(),
                                      cudaMemcpyHostToDevice));
    EXPECT_EQ(3u, CountWrong(2));
}

TEST_P(Kernels, PoisonEveryElement)
{
    ASSERT_EQ(cudaSuccess,
              stp_kernel_fill(&pattern_, 2, true, data_, Elements(), nullptr));

    EXPECT_EQ(Elements(), CountWrong(2));
}

/* ---- elementwise ---- */

// More than all threads take at once, four at a time, and an odd rest.
constexpr uint64_t kMost = 4 * 4096 * 256 + 7;

class Elementwise : public testing::Test
{
  protected:
    static constexpr uint64_t kRoom = kMost + 8;

    void SetUp() override
    {
        for (float **data : {&x_, &y_})
            ASSERT_EQ(cudaSuccess, cudaMalloc(reinterpret_cast<void **>(data),
                                              kRoom * sizeof(float)));
        for (uint64_t i = 0; i < kRoom; i++) {
            x_host_[i] = static_cast<float>(i % 1013);
            y_host_[i] = static_cast<float>(i % 997);
        }
        Copy(x_, x_host_.data(), cudaMemcpyHostToDevice);
        Copy(y_, y_host_.data(), cudaMemcpyHostToDevice);
    }

    void TearDown() override
    {
        cudaFree(x_);
        cudaFree(y_);
    }

    static void Copy(float *to, const float *from, cudaMemcpyKind kind)
    {
        ASSERT_EQ(cudaSuccess,
                  cudaMemcpy(to, from, kRoom * sizeof(float), kind));
    }

    // On the GPU, and on the host into what is expected.
    void Subtract(uint64_t x_at, uint64_t y_at, uint64_t n)
    {
        ASSERT_EQ(cudaSuccess,
                  stp_kernel_elementwise(x_ + x_at, y_ + y_at, n, nullptr));
        for (uint64_t i = 0; i < n; i++)
            y_host_[y_at + i] = x_host_[x_at + i] - y_host_[y_at + i];
    }

    static uint64_t FirstThatDiffers(const std::vector<float> &a,
                                     const std::vector<float> &b)
    {
        const auto at = std::mismatch(a.begin(), a.end(), b.begin());
        return static_cast<uint64_t>(at.first - a.begin());
    }

    void ExpectAsOnHost()
    {
        std::vector<float> got(kRoom);
        Copy(got.data(), y_, cudaMemcpyDeviceToHost);
        EXPECT_EQ(kRoom, FirstThatDiffers(y_host_, got));
        Copy(got.data(), x_, cudaMemcpyDeviceToHost);
        EXPECT_EQ(kRoom, FirstThatDiffers(x_host_, got));
    }

    float *x_ = nullptr;
    float *y_ = nullptr;
    std::vector<float> x_host_ = std::vector<float>(kRoom);
    std::vector<float> y_host_ = std::vector<float>(kRoom);
};

TEST_F(Elementwise, WritesWhatItIsToldToAndNothingElse)
{
    for (uint64_t n :
         {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{4},
          uint64_t{5}, uint64_t{1023}, uint64_t{100003}, kMost}) {
        SCOPED_TRACE(n);
        Subtract(0, 0, n);
        ExpectAsOnHost();
    }
}

TEST_F(Elementwise, TakesVectorsThatBeginAnywhere)
{
    for (uint64_t x_at = 0; x_at < 5; x_at++)
        for (uint64_t y_at = 0; y_at < 5; y_at++) {
            SCOPED_TRACE(std::to_string(x_at) + ", " + std::to_string(y_at));
            Subtract(x_at, y_at, 4099);
            ExpectAsOnHost();
        }
    Subtract(1, 2, kMost);
    ExpectAsOnHost();
}

std::string Name(const testing::TestParamInfo<Case> &info)
{
    static const char *const colls[] = {"Broadcast", "Reduce", "AllGather",
                                        "ReduceScatter", "AllReduce"};
    return std::string(colls[info.param.coll]) + "_" +
           stp_type_name(info.param.type) + "_" + stp_op_name(info.param.op);
}

INSTANTIATE_TEST_SUITE_P(All, Kernels, testing::ValuesIn(Cases()), Name);

} // namespace
