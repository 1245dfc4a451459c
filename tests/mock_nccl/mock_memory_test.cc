// Every allocation of mock NCCL that fails is an error that says so, and leaves
// nothing behind.
#include <gmock/gmock.h>

#include "faults/open_files.h"
#include "support/mock_profiler.h"
#include "mock_ranks.h"
#include "faults/failing_memory.h"
#include "support/mock_script.h"

using namespace mock_test;

// Expat allocates by malloc() in a library of its own, so its functions fail
// instead.
extern "C" {
struct XML_ParserStruct;
XML_ParserStruct *__real_XML_ParserCreate(const char *encoding);
void *__real_XML_GetBuffer(XML_ParserStruct *parser, int size);

XML_ParserStruct *__wrap_XML_ParserCreate(const char *encoding)
{
    return failing_memory::Fails() ? nullptr
                                   : __real_XML_ParserCreate(encoding);
}

void *__wrap_XML_GetBuffer(XML_ParserStruct *parser, int size)
{
    return failing_memory::Fails() ? nullptr
                                   : __real_XML_GetBuffer(parser, size);
}
}

namespace
{

struct MemoryCase {
    const char *name;
    ncclResult_t (*run)(const Machine &machine, const Nccl &nccl);
    long min; // allocations
};

ncclResult_t RunMachine(const Machine &, const Nccl &)
{
    mock_machine *machine = nullptr;
    ncclResult_t rc =
        mock_machine_load(STP_FIXTURES "/machines/h200x4", &machine);
    EXPECT_EQ(rc != ncclSuccess, machine == nullptr);
    mock_machine_free(machine);
    return rc;
}

ncclResult_t RunResize(const Machine &machine, const Nccl &)
{
    mock_machine *resized = nullptr;
    ncclResult_t rc = mock_machine_resize(machine.get(), 2, &resized);
    EXPECT_EQ(rc != ncclSuccess, resized == nullptr);
    mock_machine_free(resized);
    return rc;
}

ncclResult_t RunNccl(const Machine &, const Nccl &)
{
    mock_nccl_options options{};
    mock_nccl *nccl = nullptr;
    options.tuner_plugin = "a";
    options.net_plugin = "b";
    options.profiler_plugin = "c";
    ncclResult_t rc = mock_nccl_create(&options, &nccl);

    EXPECT_EQ(rc != ncclSuccess, nccl == nullptr);
    mock_nccl_destroy(nccl);
    return rc;
}

// A communicator of a tuner, with a group and a captured one.
ncclResult_t RunComm(const Machine &machine, const Nccl &)
{
    const mock_call calls[] = {Call(ncclFuncAllReduce, 1 << 20),
                               Call(ncclFuncBroadcast, 4096)};
    mock_outcome outcomes[2];
    const mock_nccl_options options = WithScript();
    mock_nccl *nccl = nullptr;
    mock_comm *comm = nullptr;
    mock_cuda_graph *graph = nullptr;
    ncclResult_t rc = mock_nccl_create(&options, &nccl);

    if (rc == ncclSuccess)
        rc = mock_comm_create(nccl, machine.get(), 1, &comm);
    if (rc == ncclSuccess)
        rc = mock_comm_group(comm, calls, 2, outcomes);
    if (rc == ncclSuccess)
        rc = mock_comm_capture(comm, calls, 2, &graph);
    EXPECT_EQ(rc != ncclSuccess, graph == nullptr);
    mock_graph_destroy(graph);
    mock_comm_destroy(comm);
    mock_nccl_destroy(nccl);
    return rc;
}

// All ranks of it, in one thread: what others allocate comes in any order.
ncclResult_t RunRanks(const Machine &machine, const Nccl &nccl)
{
    const mock_call call = Call(ncclFuncAllReduce, 1 << 20);
    const mock_step step{&call, 1};
    const mock_ranks_options options{};
    mock_script played{};
    played.steps = &step;
    played.n_steps = 1;
    mock_ranks *ranks = nullptr;
    ncclResult_t rc =
        mock_ranks_create(nccl.get(), machine.get(), &options, &ranks);

    EXPECT_EQ(rc != ncclSuccess, ranks == nullptr);
    if (rc == ncclSuccess)
        rc = mock_ranks_play(ranks, &played, 1);
    mock_ranks_destroy(ranks);
    return rc;
}

using Memory = testing::TestWithParam<MemoryCase>;

TEST_P(Memory, ThatIsRefusedIsAnErrorWhereverItIs)
{
    const Machine machine = LoadMachine("h200x4");
    const Nccl nccl = MakeNccl({});
    const std::ptrdiff_t n_open = CountOpenFiles();
    long n = 0;

    for (bool has_failed = true; has_failed; n++) {
        failing_memory::until_failure = n + 1;
        ncclResult_t rc = GetParam().run(machine, nccl);
        has_failed = failing_memory::until_failure == 0;
        failing_memory::until_failure = 0;
        if (!has_failed) {
            EXPECT_EQ(ncclSuccess, rc) << mock_last_error();
        } else {
            EXPECT_EQ(ncclSystemError, rc) << n;
            EXPECT_THAT(mock_last_error(), testing::HasSubstr("out of memory"))
                << n;
        }
        EXPECT_EQ(n_open, CountOpenFiles()) << n;
    }
    EXPECT_LE(GetParam().min, n - 1);
}

const MemoryCase kMemoryCases[] = {
    {"machine", RunMachine, 10}, {"resize", RunResize, 1}, {"nccl", RunNccl, 5},
    {"comm", RunComm, 4},        {"ranks", RunRanks, 8},
};
INSTANTIATE_TEST_SUITE_P(Table, Memory, testing::ValuesIn(kMemoryCases),
                         CaseName());

} // namespace
