// Ranks that a transport opens for the contract suites, and numbers in their
// memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>

#include "device/device_fixture.h"
#include "device/engine_work.h"
#include "support/slow.h"

extern "C" {
#include "bench/sweep.h"
#include "core/names.h"
#include "device/engine.h"
}

// Opens the ranks of this process by 'options', to which it adds the world and
// whatever is the case's own, and closes those that no device has.
class RanksUnderTest
{
  public:
    virtual ~RanksUnderTest() = default;
    virtual stp_status Open(stp_device_options *options, stp_engines *engines,
                            stp_error *err) = 0;
    virtual void Close(stp_engines *engines)
    {
        for (unsigned i = 0; i < Count(*engines); i++)
            engines->all[i].ops->close(engines->all[i].self);
    }

    static unsigned Count(const stp_engines &engines)
    {
        return std::max(engines.n_threads, 1u) * engines.n_per_thread;
    }
};

struct ContractCase {
    const char *name;
    std::unique_ptr<RanksUnderTest> (*make)();
    bool is_slow = false; // see STP_SLOW()
};

template <typename Ranks> std::unique_ptr<RanksUnderTest> MakeRanks()
{
    return std::make_unique<Ranks>();
}

inline std::string NameOf(const testing::TestParamInfo<ContractCase> &info)
{
    return info.param.name;
}

/* ---- all ranks, by the plain functions ---- */

class DeviceContract : public DeviceFixture,
                       public testing::WithParamInterface<ContractCase>
{
  protected:
    static constexpr uint64_t kMaxBytes = 1 << 18;

    void SetUp() override
    {
        stp_device_options options{};
        stp_engines engines{};

        if (GetParam().is_slow)
            STP_SLOW();

        under_test_ = GetParam().make();
        options.time_limit_s = 500;
        options.measures = true;
        options.max_bytes = kMaxBytes;
        Ok(under_test_->Open(&options, &engines, &err_));
        Ok(stp_device_open(&options, &engines, &device_, &err_));
        info_ = Info();
        BeginRound(0, 1);
        Select(kAuto);
    }

    void TearDown() override
    {
        if (under_test_ == nullptr)
            return; // skipped
        stp_device_close(&device_);
        under_test_.reset();
    }

    static bool InBlocks(int coll)
    {
        return coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;
    }

    // 'count' elements, on each rank where it makes a difference.
    stp_collective Count(int coll, uint64_t count, int type = STP_TYPE_F32,
                         int op = STP_OP_SUM) const
    {
        return Make(coll,
                    count * stp_type_size(type) *
                        (InBlocks(coll) ? info_.n_ranks : 1),
                    type, op);
    }

    // A refusal is one sentence, for a value out of range.
    void ExpectRefusal(stp_status status)
    {
        EXPECT_EQ(STP_ERR_RANGE, status) << err_.text;
        EXPECT_NE('\0', err_.text[0]);
        EXPECT_EQ(nullptr, strchr(err_.text, '\n')) << err_.text;
    }

    // Whether it runs, and if so, whether it is right.
    bool IsRightUnlessRefused(const stp_collective &collective)
    {
        stp_found found{kUntouched, 0};

        const stp_status status = Check(collective, ++seed_, &found);
        if (status == STP_OK) {
            EXPECT_EQ(0u, found.n_wrong);
            return true;
        }
        ExpectRefusal(status);
        EXPECT_EQ(kUntouched, found.n_wrong);
        return false;
    }

    void ExpectWorks()
    {
        EXPECT_TRUE(IsRightUnlessRefused(Count(ncclFuncAllReduce, 5)));
        Record(STP_STREAM_MAIN, 0);
        Note(STP_STREAM_MAIN, Count(ncclFuncAllReduce, 5));
        Record(STP_STREAM_MAIN, 1);
        Synchronise();
        EXPECT_GT(Elapsed(0, 1), 0);
    }

    // Sums of f32 run on every device.
    void ExpectRightOrRefused(stp_collective collective)
    {
        for (bool in_place : {false, true}) {
            collective.in_place = in_place;
            SCOPED_TRACE(std::string(stp_coll_name(collective.coll)) + " " +
                         stp_type_name(collective.type) + " " +
                         stp_op_name(collective.op) + " of " +
                         std::to_string(collective.n_bytes) + " B, root " +
                         std::to_string(collective.root) +
                         (in_place ? ", in place" : ""));
            bool ran = IsRightUnlessRefused(collective);
            if (collective.type == STP_TYPE_F32 &&
                collective.op == STP_OP_SUM) {
                EXPECT_TRUE(ran) << err_.text;
            }
        }
    }

    std::unique_ptr<RanksUnderTest> under_test_;
    stp_device_info info_{};
    uint64_t seed_ = 7;
};

/* ---- one rank, by its table ---- */

using Numbers = std::vector<double>;

class EngineContract : public testing::TestWithParam<ContractCase>
{
  protected:
    static constexpr float kInf = std::numeric_limits<float>::infinity();
    static constexpr unsigned kMain = STP_STREAM_MAIN;
    static constexpr int kTypes[] = {STP_TYPE_F32, STP_TYPE_BF16, STP_TYPE_F16,
                                     STP_TYPE_F64};

    // The members that a test uses are a thread's own: others run the same
    // body.
    void TestBody() override = 0;

    // Other processes would wait for this one for ever.
    void SetUp() override
    {
        stp_device_options options{};

        if (GetParam().is_slow)
            STP_SLOW();
        under_test_ = GetParam().make();
        options.time_limit_s = 500;
        if (under_test_->Open(&options, &engines_, &err_) != STP_OK) {
            fprintf(stderr, "%s\n", err_.text);
            abort();
        }
        for (unsigned i = 1; i < RanksUnderTest::Count(engines_); i++)
            threads_.emplace_back([this, i] {
                Begin(i);
                TestBody();
            });
        Begin(0);
    }

    void TearDown() override
    {
        for (std::thread &thread : threads_)
            thread.join();
        if (under_test_ == nullptr)
            return; // skipped
        under_test_->Close(&engines_);
        under_test_.reset();
    }

    void Begin(unsigned thread)
    {
        ops_ = engines_.all[thread].ops;
        self_ = engines_.all[thread].self;
        ops_->info(self_, &info_);
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

    template <typename Arguments>
    stp_status Note(unsigned stream, const Arguments &arguments)
    {
        return NoteIn({ops_, self_}, stream, arguments, &err_);
    }

    stp_status NoteEvent(stp_work_kind kind, unsigned stream, unsigned event)
    {
        stp_work work{};
        work.kind = kind;
        work.stream = stream;
        work.event = event;
        return ops_->note(self_, &work, &err_);
    }

    double Elapsed(unsigned from, unsigned to)
    {
        double us = -1;
        Ok(ops_->elapsed_us(self_, from, to, &us, &err_));
        return us;
    }

    void Sync()
    {
        Ok(ops_->synchronise(self_, &err_));
    }

    // Notes a kernel over 'n' elements of 'type', of which 'change' says more.
    template <typename F>
    void Kernel(stp_kernel_kind kind, int type, uint64_t n, const void *from,
                void *to, const F &change)
    {
        stp_kernel kernel{};
        kernel.kind = kind;
        kernel.type = type;
        kernel.n = n;
        kernel.from = from;
        kernel.to = to;
        change(&kernel);
        Ok(Note(kMain, kernel));
    }

    void Kernel(stp_kernel_kind kind, int type, uint64_t n, const void *from,
                void *to)
    {
        Kernel(kind, type, n, from, to, [](stp_kernel *) {});
    }

    void Cast(uint64_t n, int type, const void *from, int type_to, void *to)
    {
        Kernel(STP_KERNEL_CAST, type, n, from, to,
               [=](stp_kernel *kernel) { kernel->type_to = type_to; });
    }

    void Scale(int type, uint64_t n, double factor, void *to)
    {
        Kernel(STP_KERNEL_SCALE, type, n, nullptr, to,
               [=](stp_kernel *kernel) { kernel->factor = factor; });
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
        Cast(narrow.size(), STP_TYPE_F32, staging, type, to);
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
        Cast(n, type, from, STP_TYPE_F32, staging);
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
        const int type = p.gemm.type;
        p.gemm = {m, n, k, type};
        p.a = Put(type, a);
        p.b = Put(type, b);
        p.c = Put(p.type_c, c);
        p.bias = p.epilogue == STP_EPILOGUE_NONE ? nullptr : Put(type, bias);

        Ok(Note(kMain, p));
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
                p.gemm.type = type;
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
        Ok(Note(kMain, t));
        Sync();
    }

    std::unique_ptr<RanksUnderTest> under_test_;
    stp_engines engines_{};
    std::vector<std::thread> threads_;
    inline static thread_local const stp_engine_ops *ops_ = nullptr;
    inline static thread_local void *self_ = nullptr;
    inline static thread_local stp_device_info info_{};
    inline static thread_local stp_error err_{};
};
