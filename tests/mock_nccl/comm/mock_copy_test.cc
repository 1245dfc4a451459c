// Allgathers by copy engines: which they are, what NCCL asks about them, and
// its predictions.
#include "support/mock_folder.h"
#include "mock_nccl/comm/mock_questions.h"

// In C a function and a struct can share a name.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include "model/symmetric.h"
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

TEST(Copies, AreThoseOfNcclToTheLastBit)
{
    for (const Row &row : ReadCsv(STP_FIXTURES "/cost_models/copies.csv")) {
        const float unicast = std::stof(row.at("unicast_us"));
        const float multicast = std::stof(row.at("multicast_us"));
        mock_model model{};
        mock_copy copies[MOCK_MAX_COPIES];
        model.compute_capability = std::stoi(row.at("compute_capability"));
        model.is_arm = row.at("arm") == "1";
        model.n_ranks = std::stoi(row.at("ranks"));
        model.n_nvls_channels = 16;
        const size_t n = mock_copy_list(&model, std::stoull(row.at("bytes")),
                                        row.at("captured") == "1", copies);

        ASSERT_EQ(2u, n);
        EXPECT_EQ(unicast, copies[0].us) << row.at("bytes");
        EXPECT_EQ(multicast, copies[1].us) << row.at("bytes");
        EXPECT_STREQ(multicast <= unicast ? "AllGather_MC" : "AllGather_UC",
                     mock_copy_pick(copies, n)->name);
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

using CopyRun = testing::TestWithParam<RunCase>;

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

// Returns the kernels that mock_comm_kernels() and mock_comm_copies() list for
// the call.
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
