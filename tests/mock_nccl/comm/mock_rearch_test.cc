// NCCL_ENQUEUE_REARCH_ENABLE: collectives one by one, and symmetric kernels
// compared with general ones. The rows are answers of NCCL 2.31.2's own code.
#include <algorithm>

#include "support/mock_questions.h"

using namespace mock_test;

namespace
{

mock_call Of(ncclFunc_t coll, size_t n_bytes, size_t element_size,
             mock_windows windows, mock_reduction reduction)
{
    mock_call call = Call(coll, n_bytes);
    call.element_size = element_size;
    call.windows = windows;
    call.reduction = reduction;
    return call;
}

struct RearchCase {
    const char *machine;
    mock_call call;
    size_t n_questions;
    int algo, proto;
    const char *kernel; // nullptr: none
};

TEST(Rearch, ComparesSymmetricKernelsWithGeneralOnes)
{
    const mock_windows none = MOCK_WINDOWS_NONE, both = MOCK_WINDOWS_BOTH;
    const mock_windows send = MOCK_WINDOWS_SEND, recv = MOCK_WINDOWS_RECV;
    const mock_reduction sum = MOCK_REDUCTION_SUM;
    const mock_reduction average = MOCK_REDUCTION_AVERAGE;
    const ncclFunc_t ag = ncclFuncAllGather, ar = ncclFuncAllReduce;
    const ncclFunc_t rs = ncclFuncReduceScatter;
    // clang-format off
    const RearchCase cases[] = {
        {"b200x8", Of(ag, 8, 1, none, sum), 2, 1, 0, nullptr},
        {"b200x8", Of(ag, 16384, 8, send, sum), 1, 1, 0, nullptr},
        {"b200x8", Of(ag, 2792, 1, both, sum), 1, -1, -1, "AllGather_LLMC"},
        {"b200x8", Of(rs, 131072, 4, send, average), 1, 1, 0, nullptr},
        {"b200x8", Of(ar, 1589, 1, none, sum), 2, 1, 0, nullptr},
        {"h100x8", Of(ag, 8192, 1, none, sum), 2, 1, 0, nullptr},
        {"h100x8", Of(ag, 219216, 1, none, sum), 1, 1, 0, nullptr},
        {"h100x8", Of(ag, 1307351552, 8, recv, sum), 1, 1, 2, nullptr},
        {"h100x8", Of(ar, 4096, 4, none, sum), 2, 1, 0, nullptr},
        {"h100x8", Of(ar, 23, 1, both, sum), 1, -1, -1, "AllReduce_AGxLLMC_R"},
        {"h100x8", Of(ar, 414, 2, send, average), 1, 1, 0, nullptr},
        {"h200x2", Of(ag, 4096, 8, send, sum), 2, -1, -1, "AllGather_LL"},
        {"h200x2", Of(ag, 9264, 8, none, sum), 2, 1, 0, nullptr},
        {"h200x2", Of(ar, 4096, 4, none, sum), 2, 1, 0, nullptr},
    };
    // clang-format on

    for (const RearchCase &c : cases) {
        Questions asked;
        mock_nccl_options options = WithScript();
        options.version = "2.31";
        options.rearch = true;
        mock_outcome outcome =
            OnMachine(LoadMachine(c.machine), c.call, options);
        const auto i = &c - cases;

        EXPECT_EQ(c.n_questions, asked.all.size()) << i;
        EXPECT_EQ(c.algo, outcome.algo) << i;
        EXPECT_EQ(c.proto, outcome.proto) << i;
        EXPECT_STREQ(c.kernel, outcome.kernel) << i;
        for (const Question &q : asked.all)
            EXPECT_EQ((Question{c.call.coll, c.call.n_bytes, 1, 0, true}), q)
                << i;
    }
}

class RearchGroup : public testing::Test
{
  protected:
    // The questions of a group on h100x8.
    std::vector<Question> Ask(const char *version, bool rearch)
    {
        mock_call calls[] = {
            Of(ncclFuncBroadcast, 4 << 20, 2, MOCK_WINDOWS_NONE,
               MOCK_REDUCTION_OTHER),
            Of(ncclFuncAllReduce, 8 << 20, 4, MOCK_WINDOWS_NONE,
               MOCK_REDUCTION_OTHER),
            Of(ncclFuncAllReduce, 16 << 20, 4, MOCK_WINDOWS_NONE,
               MOCK_REDUCTION_OTHER),
        };
        calls[1].n_pipe_ops = 3; // which it does not stand for
        Questions asked;
        mock_nccl_options options = WithScript();
        mock_outcome outcomes[3];
        options.version = version;
        options.rearch = rearch;
        Nccl nccl = MakeNccl(options);
        Comm comm = MakeComm(nccl, LoadMachine("h100x8"));
        EXPECT_EQ(ncclSuccess, mock_comm_group(comm.get(), calls, 3, outcomes));
        return asked.all;
    }
};

TEST_F(RearchGroup, AsksAboutEachInTheApplicationsOrderBroadcastsLast)
{
    const std::vector<Question> one_by_one{
        {ncclFuncAllReduce, 8 << 20, 1, 0, true},
        {ncclFuncAllReduce, 16 << 20, 1, 0, true},
        {ncclFuncBroadcast, 4 << 20, 1, 0, true}};

    EXPECT_EQ(one_by_one, Ask("2.31", true));
    EXPECT_EQ(2u, Ask("2.31", false).size());
    EXPECT_EQ(2u, Ask("2.30", true).size());
}

TEST(Rearch, OfEqualCostsTheSymmetricKernelWins)
{
    const mock_call call =
        Of(ncclFuncAllReduce, 4096, 4, MOCK_WINDOWS_BOTH, MOCK_REDUCTION_SUM);
    mock_nccl_options options = WithScript();
    options.version = "2.31";
    options.rearch = true;
    Machine machine = LoadMachine("h100x8");
    Nccl nccl = MakeNccl(options);
    Comm comm = MakeComm(nccl, machine);
    mock_symmetric_kernel kernels[MOCK_MAX_SYMMETRIC];
    const size_t n = mock_comm_kernels(comm.get(), &call, kernels);
    ASSERT_LT(0u, n);
    float best = kernels[0].charged_us;
    for (size_t i = 1; i < n; i++)
        best = std::min(best, kernels[i].charged_us);

    for (float us : {std::nextafter(best, 0.0f), best}) {
        mock_outcome outcome;
        script = [&](Table table, int *) {
            for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
                for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
                    table[a][p] = 1e6f;
            table[NCCL_ALGO_RING][NCCL_PROTO_LL] = us;
            return ncclSuccess;
        };
        ASSERT_EQ(ncclSuccess,
                  mock_comm_collective(comm.get(), &call, &outcome));
        EXPECT_EQ(us == best, outcome.kernel != nullptr) << us;
    }
    script = nullptr;
}

} // namespace
