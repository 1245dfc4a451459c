// Traces of GPUs, from records of a libcupti that is played.
extern "C" {
#include "device/cuda/cuda_trace.h"
}

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "support/owned.h"

extern "C" {
#include "device/cuda/cuda_name.h"
}

namespace
{

using testing::ElementsAre;

template <typename F> F Function(const char *name)
{
    static void *library = dlopen(STP_FAKE_CUPTI, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<F>(dlsym(library, name));
}

void Launch(const char *name, uint32_t gpu, uint32_t stream, uint64_t begin_ns,
            uint64_t end_ns)
{
    Function<void (*)(const char *, uint32_t, uint32_t, uint64_t, uint64_t)>(
        "fake_cupti_launch")(name, gpu, stream, begin_ns, end_ns);
}

unsigned Enabled()
{
    return Function<unsigned (*)()>("fake_cupti_enabled")();
}

constexpr uint64_t kNow = 1000000000;

class CudaTrace : public testing::Test
{
  protected:
    void SetUp() override
    {
        setenv("STEPTUNE_CUPTI", STP_FAKE_CUPTI, 1);
    }

    // Its streams are 10 and 11 more than the GPU's number times 100.
    void Begin(stp_cuda_trace *trace, int gpu)
    {
        const uintptr_t at = static_cast<uintptr_t>(gpu) * 100;
        const cudaStream_t streams[STP_N_STREAMS] = {
            reinterpret_cast<cudaStream_t>(at + 10),
            reinterpret_cast<cudaStream_t>(at + 11)};
        ASSERT_EQ(STP_OK, stp_cuda_trace_begin(trace, gpu, streams, &err_))
            << err_.text;
    }

    // "STREAM KIND NAME of RANGE US" from the beginning, of what ran.
    std::vector<std::string> End(stp_cuda_trace *trace)
    {
        std::vector<std::string> all;
        const double origin = trace->origin_us;
        EXPECT_EQ(STP_OK, stp_cuda_trace_end(trace, &spans_, &err_));
        for (size_t i = 0; i < spans_.n; i++) {
            const stp_span &s = spans_.all[i];
            const std::string range =
                s.range.name != nullptr ? s.range.name : "nothing";
            const std::string us =
                std::to_string(int(s.begin_us - origin + 0.5)) + "-" +
                std::to_string(int(s.end_us - origin + 0.5));
            all.push_back(std::to_string(s.stream) + " " +
                          std::to_string(s.kind) + " " + s.name + " of " +
                          range + (s.kind == STP_SPAN_RANGE ? "" : " " + us));
        }
        stp_spans_free(&spans_);
        return all;
    }

    Owned<stp_spans, stp_spans_free> spans_;
    stp_error err_{};
};

TEST_F(CudaTrace, HasKernelsInTheRangesTheyWereLaunchedIn)
{
    stp_cuda_trace t{};
    Begin(&t, 1);
    EXPECT_GT(Enabled(), 0u);

    stp_cuda_trace_range(&t, "backward");
    Launch("gemm", 1, 110, kNow + 1000, kNow + 5000);
    stp_cuda_trace_range(&t, "all-reduce");
    Launch("_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LLPv", 1, 111, kNow + 2000,
           kNow + 9000);
    stp_cuda_trace_range(&t, nullptr);
    Launch("relu", 1, 110, kNow + 5000, kNow + 6000);
    stp_cuda_trace_range(&t, nullptr);
    Launch("losses", 1, 110, kNow + 6000, kNow + 7000);
    Launch("unfinished", 1, 110, kNow + 6000, 0);
    Launch("of another stream", 1, 112, kNow, kNow + 1);
    Launch("of another GPU", 0, 110, kNow, kNow + 1);

    EXPECT_THAT(
        End(&t),
        ElementsAre(
            "0 0 gemm of backward 1-5", "0 0 relu of backward 5-6",
            "0 0 losses of nothing 6-7",
            "1 1 ncclDevKernel_AllReduce_Sum_f32_RING_LL of all-reduce 2-9",
            "2 2 all-reduce of all-reduce", "2 2 backward of backward"));
    EXPECT_EQ(0u, Enabled());
}

TEST_F(CudaTrace, OfEachRankHasItsOwn)
{
    stp_cuda_trace a{};
    stp_cuda_trace b{};
    Begin(&a, 0);
    Begin(&b, 1);
    Launch("a", 0, 10, kNow + 1000, kNow + 2000);
    Launch("b", 1, 110, kNow + 1000, kNow + 2000);

    EXPECT_THAT(End(&a), ElementsAre("0 0 a of nothing 1-2"));
    EXPECT_GT(Enabled(), 0u);
    EXPECT_THAT(End(&b), ElementsAre("0 0 b of nothing 1-2"));
    EXPECT_EQ(0u, Enabled());
    Begin(&a, 0);
    EXPECT_THAT(End(&a), ElementsAre()); // nothing of before
    EXPECT_THAT(End(&a), ElementsAre()); // it is off
}

TEST_F(CudaTrace, IgnoresRangesWhileItIsOff)
{
    stp_cuda_trace t{};

    stp_cuda_trace_range(&t, nullptr);
    stp_cuda_trace_range(&t, "forward");
    stp_cuda_trace_range(&t, nullptr);
    Begin(&t, 0);

    EXPECT_THAT(End(&t), ElementsAre());
}

TEST_F(CudaTrace, SaysWhatCuptiRefuses)
{
    const auto set_broken = Function<void (*)(bool)>("fake_cupti_break");
    const cudaStream_t streams[STP_N_STREAMS] = {};
    stp_cuda_trace t{};
    set_broken(true);

    EXPECT_EQ(STP_ERR_DEVICE, stp_cuda_trace_begin(&t, 0, streams, &err_));

    set_broken(false);
    EXPECT_STREQ("no trace: cuptiActivityEnable: a fake error (does another "
                 "profiler trace this process?)",
                 err_.text);
    EXPECT_FALSE(t.on);
    EXPECT_EQ(0u, Enabled());
}

TEST(CudaName, IsForPeople)
{
    const struct {
        const char *symbol;
        const char *name;
    } cases[] = {
        {"_Z10ncclKernelILi3EEv8ncclArgs", "ncclKernel<3>"},
        {"sm90_xmma_gemm_f32", "sm90_xmma_gemm_f32"},
        {"_Z3addPfS_", "add"},
        {"_Z4fillIfEvPT_j", "fill<float>"},
        {"i", "i"}, // no type
        {nullptr, "kernel"},
    };

    for (const auto &c : cases) {
        char name[STP_SPAN_NAME];
        stp_cuda_kernel_name(c.symbol, name, sizeof(name));
        EXPECT_STREQ(c.name, name);
    }
    char cut[4];
    stp_cuda_kernel_name("gemm", cut, sizeof(cut));
    EXPECT_STREQ("gem", cut);
}

} // namespace
