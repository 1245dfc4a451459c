// An engine that a test opens, and numbers in its memory.
#ifndef STP_ENGINE_UNDER_TEST_H
#define STP_ENGINE_UNDER_TEST_H

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "device/engine.h"
}

#include "nccl_tuner_abi.h"

// Opens an engine; closes it when it goes.
class EngineUnderTest
{
  public:
    virtual ~EngineUnderTest() = default;
    virtual const stp_engine *get() const = 0;
};

struct EngineCase {
    const char *name;
    std::unique_ptr<EngineUnderTest> (*make)();
    bool has_f64;
    unsigned n_threads = 1; // that run a test, each with an engine of its own
};

// Which of them this one is, for make().
inline thread_local unsigned engine_thread = 0;

using Numbers = std::vector<double>;

class EngineContract : public testing::TestWithParam<EngineCase>
{
  protected:
    static constexpr float kInf = std::numeric_limits<float>::infinity();
    static constexpr unsigned kMain = STP_STREAM_MAIN;

    // What a test uses is a thread's own: other threads run the same body.
    void TestBody() override = 0;

    void SetUp() override
    {
        for (unsigned i = 1; i < GetParam().n_threads; i++)
            threads_.emplace_back([this, i] {
                engine_thread = i;
                Begin();
                TestBody();
                engine_.reset();
            });
        Begin();
    }

    void TearDown() override
    {
        for (std::thread &thread : threads_)
            thread.join();
        engine_.reset();
    }

    static void Begin()
    {
        engine_ = GetParam().make();
        ops_ = engine_->get()->ops;
        self_ = engine_->get()->self;
        ops_->info(self_, &info_);
        types_ = {STP_TYPE_F32, STP_TYPE_BF16, STP_TYPE_F16};
        if (GetParam().has_f64)
            types_.push_back(STP_TYPE_F64);
    }

    void Ok(stp_status status)
    {
        ASSERT_EQ(STP_OK, status) << err_.text;
    }

    template <typename T> T *Alloc(size_t n)
    {
        void *address = nullptr;
        Ok(ops_->alloc(self_, n * sizeof(T), "a test", &address, &err_));
        return static_cast<T *>(address);
    }

    void *AllocOf(int type, size_t n)
    {
        return Alloc<char>(n * stp_type_size(type));
    }

    void Sync()
    {
        Ok(ops_->synchronise(self_, &err_));
    }

    // Numbers in memory of the engine, in a type.
    void Write(void *to, int type, const Numbers &numbers)
    {
        const std::vector<float> narrow(numbers.begin(), numbers.end());
        if (type == STP_TYPE_F64)
            return Ok(ops_->upload(self_, to, numbers.data(),
                                   numbers.size() * 8, &err_));
        float *staging = Alloc<float>(numbers.size());
        Ok(ops_->upload(self_, staging, narrow.data(), narrow.size() * 4,
                        &err_));
        Ok(ops_->cast(self_, kMain, narrow.size(), STP_TYPE_F32, staging, type,
                      to, &err_));
        Sync();
    }

    void *Put(int type, const Numbers &numbers)
    {
        void *at = AllocOf(type, numbers.size());
        Write(at, type, numbers);
        return at;
    }

    Numbers Get(int type, const void *from, size_t n)
    {
        Numbers numbers(n);
        std::vector<float> narrow(n);
        if (type == STP_TYPE_F64) {
            Ok(ops_->download(self_, numbers.data(), from, n * 8, &err_));
            return numbers;
        }
        float *staging = Alloc<float>(n);
        Ok(ops_->cast(self_, kMain, n, type, from, STP_TYPE_F32, staging,
                      &err_));
        Sync();
        Ok(ops_->download(self_, narrow.data(), staging, n * 4, &err_));
        return {narrow.begin(), narrow.end()};
    }

    void ExpectNumbers(const Numbers &want, int type, const void *at,
                       double tolerance = 0)
    {
        const Numbers got = Get(type, at, want.size());
        for (size_t i = 0; i < want.size() && info_.has_data; i++) {
            if (std::isnan(want[i]))
                EXPECT_TRUE(std::isnan(got[i])) << i;
            else if (std::isinf(want[i]))
                EXPECT_EQ(want[i], got[i]) << i;
            else
                EXPECT_NEAR(want[i], got[i], tolerance) << i;
        }
    }

    // From -2 to 2, and others for another 'seed': sums of many are exact in
    // all types.
    static Numbers Small(size_t n, unsigned seed)
    {
        Numbers numbers(n);
        for (size_t i = 0; i < n; i++)
            numbers[i] = double((i * 7 + seed * 3 + i / 5) % 5) - 2;
        return numbers;
    }

    void Product(const stp_product &like, unsigned m, unsigned n, unsigned k)
    {
        const Numbers a = Small(m * k, 1);
        const Numbers b = Small(k * n, 2);
        const Numbers bias = Small(n, 3);
        Numbers c = Small(m * n, 4);
        stp_product p = like;
        p.m = m;
        p.n = n;
        p.k = k;
        p.a = Put(p.type, a);
        p.b = Put(p.type, b);
        p.c = Put(p.type_c, c);
        p.bias = p.epilogue == STP_EPILOGUE_NONE ? nullptr : Put(p.type, bias);

        Ok(ops_->product(self_, kMain, &p, &err_));
        Sync();

        for (unsigned i = 0; i < m; i++)
            for (unsigned j = 0; j < n; j++) {
                double &x = c[i * n + j];
                x = p.beta == 0 ? 0 : x;
                for (unsigned q = 0; q < k; q++)
                    x += a[p.a_transposed ? q * m + i : i * k + q] *
                         b[p.b_transposed ? j * k + q : q * n + j];
                x += p.epilogue == STP_EPILOGUE_NONE ? 0 : bias[j];
                if (p.epilogue == STP_EPILOGUE_BIAS_RELU && x < 0)
                    x = 0;
            }
        ExpectNumbers(c, p.type_c, p.c);
    }

    void ProductsInto(int type, int type_c)
    {
        for (int bits = 0; bits < 8; bits++)
            for (int e = 0; e < STP_N_EPILOGUES; e++) {
                stp_product p{};
                p.type = type;
                p.type_c = type_c;
                p.a_transposed = bits & 1;
                p.b_transposed = bits & 2;
                p.beta = bits & 4 ? 1 : 0;
                p.epilogue = stp_epilogue(e);
                SCOPED_TRACE(std::string(stp_type_name(type)) + " into " +
                             stp_type_name(type_c) + " bits " +
                             std::to_string(bits) + " epilogue " +
                             std::to_string(e));
                Product(p, 8, 16, 24);
                Product(p, 3, 5, 7);
            }
    }

    // A collective on main: 'in' and 'out' may be one.
    void Collect(int coll, int op, uint64_t n, const void *in, void *out,
                 bool in_place)
    {
        stp_transfer t{};
        t.coll = coll;
        t.type = STP_TYPE_F32;
        t.op = op;
        t.n = n;
        t.in = in;
        t.out = out;
        t.in_place = in_place;
        Ok(ops_->collective(self_, kMain, &t, &err_));
        Sync();
    }

    inline static thread_local std::unique_ptr<EngineUnderTest> engine_;
    inline static thread_local const stp_engine_ops *ops_ = nullptr;
    inline static thread_local void *self_ = nullptr;
    inline static thread_local stp_engine_info info_{};
    inline static thread_local stp_error err_{};
    inline static thread_local std::vector<int> types_;
    std::vector<std::thread> threads_;
};

#endif // STP_ENGINE_UNDER_TEST_H
