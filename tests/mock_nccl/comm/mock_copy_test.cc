// Allgathers by copy engines: which they are, what NCCL asks about them, and
// its predictions.
#include "support/mock_folder.h"
#include "support/mock_questions.h"

// In C a function and a struct can share a name.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include "model/copy_engine.h"
}
#pragma GCC diagnostic pop

using namespace mock_test;

namespace
{

constexpr size_t kMi = 1 << 20;

mock_call Gather(size_t n_bytes, mock_windows windows, size_t element_size = 2)
{
    mock_call call = Call(ncclFuncAllGather, n_bytes);
    call.windows = windows;
    call.element_size = element_size;
    return call;
}

// ---- predictions, of NCCL 2.31.2's own code to the last bit ----

struct CopyCase {
    int compute_capability;
    bool is_arm;
    int n_ranks;
    size_t share_bytes;
    bool captured;
    float unicast_us, multicast_us;
};

TEST(Copies, AreThoseOfNcclToTheLastBit)
{
    const CopyCase cases[] = {
        {103, false, 7, 8388608, false, 112.087814f, 109.236809f},
        {100, false, 19, 3, false, 34.5100708f, 31.7430725f},
        {103, false, 8, 219864585, true, 2051.26855f, 2304.46631f},
        {100, false, 3, 67108864, false, 665.532471f, 662.653503f},
        {90, false, 23, 1564358, false, 150.30661f, 123.384308f},
        {100, false, 24, 130271, true, 186.062256f, 94.643486f},
        {103, false, 50, 7, true, 355.480438f, 162.260437f},
        {103, true, 35, 256, false, 36.6011734f, 33.9464989f},
        {103, true, 3, 131072, false, 32.7665138f, 30.055769f},
        {90, true, 7, 29, false, 31.1994457f, 19.9825191f},
        {90, false, 44, 50487398, true, 7505.29883f, 5769.57861f},
        {100, false, 7, 467, true, 68.9315948f, 43.7994041f},
        {103, false, 47, 14299, true, 336.332367f, 154.857712f},
        {100, false, 7, 29583717, false, 312.041687f, 309.190674f},
        {100, false, 16, 67108864, true, 1678.92383f, 1446.94922f},
        {80, false, 8, 1048576, false, 51.8805695f, 42.1075096f},
    };

    for (const CopyCase &c : cases) {
        mock_model model{};
        mock_copy copies[MOCK_MAX_COPIES];
        model.compute_capability = c.compute_capability;
        model.is_arm = c.is_arm;
        model.n_ranks = c.n_ranks;
        model.n_nvls_channels = 16;
        const size_t n =
            mock_copy_list(&model, c.share_bytes, c.captured, copies);
        const auto i = &c - cases;

        ASSERT_EQ(c.n_ranks > 2 ? 2u : 1u, n) << i;
        EXPECT_EQ(c.unicast_us, copies[0].us) << i;
        if (n > 1) {
            EXPECT_EQ(c.multicast_us, copies[1].us) << i;
        }
        EXPECT_STREQ(n > 1 && c.multicast_us <= c.unicast_us ? "AllGather_MC"
                                                             : "AllGather_UC",
                     mock_copy_pick(copies, n)->name)
            << i;
    }
}

// ---- which allgathers ----

struct RunCase {
    const char *name;
    const char *version;
    const char *machine;
    bool zero_ctas;
    mock_call call;
    const char *kernel; // nullptr: none is known
    size_t n_questions;
};

class CopyRun : public testing::TestWithParam<RunCase>
{
};

TEST_P(CopyRun, IsChosenByPolicyWindowsAndSize)
{
    const RunCase &c = GetParam();
    Questions asked;
    mock_nccl_options options = WithScript();
    options.version = c.version;
    options.zero_ctas = c.zero_ctas;

    mock_outcome outcome = OnMachine(LoadMachine(c.machine), c.call, options);

    EXPECT_STREQ(c.kernel, outcome.kernel);
    EXPECT_EQ(c.n_questions, asked.all.size());
}

INSTANTIATE_TEST_SUITE_P(
    Table, CopyRun,
    testing::Values(
        RunCase{"v2_27", "2.27", "h100x8", true,
                Gather(8 * kMi, MOCK_WINDOWS_BOTH), nullptr, 0},
        RunCase{"v2_28", "2.28", "h100x8", true,
                Gather(8 * kMi, MOCK_WINDOWS_BOTH), "AllGather_UC", 0},
        RunCase{"v2_28_into", "2.28", "h100x8", true,
                Gather(8 * kMi, MOCK_WINDOWS_RECV), nullptr, 1},
        RunCase{"v2_30_into", "2.30", "h100x8", true,
                Gather(8 * kMi, MOCK_WINDOWS_RECV), "AllGather_UC", 0},
        RunCase{"v2_30_from", "2.30", "h100x8", true,
                Gather(1 << 30, MOCK_WINDOWS_SEND), nullptr, 2},
        RunCase{"without_policy", "2.31", "h100x8", false,
                Gather(1 << 30, MOCK_WINDOWS_BOTH), "AllGather_STMC", 1},
        RunCase{"asked", "2.31", "h100x8", true,
                Gather(8 * kMi, MOCK_WINDOWS_BOTH), "AllGather_MC", 1},
        RunCase{"asked_unicast", "2.31", "h100x8", true,
                Gather(4096 * kMi, MOCK_WINDOWS_BOTH), "AllGather_UC", 1},
        RunCase{"two_ranks", "2.31", "h200x2", true,
                Gather(8 * kMi, MOCK_WINDOWS_BOTH), "AllGather_UC", 0},
        RunCase{"two_nodes", "2.31", "h100n2x8", true,
                Gather(8 * kMi, MOCK_WINDOWS_BOTH), nullptr, 1},
        RunCase{"blackwell_in_2_28", "2.28", "b200x8", false,
                Gather(1 << 30, MOCK_WINDOWS_BOTH), nullptr, 0},
        RunCase{"blackwell_at_the_threshold", "2.30", "b200x8", false,
                Gather(8 * 2 * 8 * kMi, MOCK_WINDOWS_BOTH), "AllGather_STMC",
                0},
        RunCase{"blackwell_above", "2.30", "b200x8", false,
                Gather(8 * 2 * (8 * kMi + 1), MOCK_WINDOWS_BOTH),
                "AllGather_UC", 0},
        RunCase{"blackwell_elements", "2.30", "b200x8", false,
                Gather(8 * 2 * (8 * kMi + 1), MOCK_WINDOWS_BOTH, 4),
                "AllGather_STMC", 0},
        RunCase{"blackwell_asked", "2.31", "b200x8", false,
                Gather(8 * 2 * (8 * kMi + 1), MOCK_WINDOWS_BOTH),
                "AllGather_UC", 1}),
    CaseName());

// What mock_comm_kernels() and mock_comm_copies() list for it.
size_t Kernels(const char *version, const char *machine, const mock_call &call,
               mock_symmetric_kernel *kernels)
{
    Machine loaded = LoadMachine(machine);
    Nccl nccl = MakeNccl({version});
    return mock_comm_kernels(MakeComm(nccl, loaded).get(), &call, kernels);
}

// Sizes are of one rank, in elements of 2 bytes if the call does not say.
TEST(Copies, AndKernelsAreListedForWholeElements)
{
    for (ncclFunc_t coll :
         {ncclFuncAllGather, ncclFuncAllReduce, ncclFuncReduceScatter}) {
        mock_symmetric_kernel of[3][MOCK_MAX_SYMMETRIC];
        const size_t sizes[] = {0, 2, 4};
        size_t n[3];
        mock_call call = Call(coll, 8 * 16 * 1024);
        for (int i = 0; i < 3; i++) {
            call.element_size = sizes[i];
            n[i] = Kernels("2.30", "h100x8", call, of[i]);
        }
        ASSERT_LT(0u, n[0]);
        EXPECT_EQ(n[0], n[1]);
        EXPECT_EQ(n[0], n[2]);
        for (size_t k = 0; k < n[0]; k++) {
            EXPECT_STREQ(of[1][k].name, of[0][k].name);
            EXPECT_EQ(of[1][k].us, of[0][k].us) << of[0][k].name;
            EXPECT_EQ(of[2][k].us, of[0][k].us) << of[0][k].name;
        }
    }
}

TEST(Copies, AreAskedAboutLastWithoutAChoiceAndErrorsDoNoHarm)
{
    const mock_call calls[] = {Gather(8 * kMi, MOCK_WINDOWS_BOTH),
                               Call(ncclFuncReduce, kMi)};
    mock_nccl_options options = WithScript();
    options.version = "2.31";
    options.zero_ctas = true;
    mock_outcome outcomes[2];
    Nccl nccl = MakeNccl(options);
    Comm comm = MakeComm(nccl, LoadMachine("h100x8"));
    Questions asked;

    ASSERT_EQ(ncclSuccess, mock_comm_group(comm.get(), calls, 2, outcomes));

    EXPECT_EQ((std::vector<Question>{{ncclFuncReduce, kMi, 1, 0, true},
                                     {ncclFuncAllGather, kMi, 0, 0, false}}),
              asked.all);
    EXPECT_STREQ("AllGather_MC", outcomes[0].kernel);
    asked.result = ncclSystemError;
    ASSERT_EQ(ncclSuccess, mock_comm_group(comm.get(), calls, 1, outcomes));
    EXPECT_STREQ("AllGather_UC", outcomes[0].kernel);
}

} // namespace
