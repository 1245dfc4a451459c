#include <gmock/gmock.h>

#include <regex>

#include "stage/steps.h"
#include "support/read_file.h"
#include "support/slow.h"

using namespace stage_jobs;

// Aborts leave communicators and memory behind, as the library does by design;
// and each rank has a copy of the library, with all that it points to, only
// until the copy is closed.
extern "C" const char *__asan_default_options()
{
    return "detect_leaks=0";
}

namespace
{

class StageJobs : public testing::Test
{
  protected:
    // STP_STAGE_JOBS and STP_STAGE_SEED in the environment say otherwise.
    void RunAll(Kind kind, const char *name, uint64_t n)
    {
        const char *jobs = getenv("STP_STAGE_JOBS"),
                   *seed = getenv("STP_STAGE_SEED");

        EXPECT_TRUE(storms::RunAll(
            name, jobs != nullptr ? strtoull(jobs, nullptr, 10) : n,
            seed != nullptr ? strtoull(seed, nullptr, 10) : 1, [&](uint64_t s) {
                return stage_jobs::Run(TheLibraries(), s, kind);
            }));
    }
};

TEST_F(StageJobs, AreRightWithoutTheLibrary)
{
    STP_SLOW();
    RunAll(Kind::kPlain, "plain jobs", 100);
}

TEST_F(StageJobs, OfAgreeingRanksAreStagedWithTheSameResults)
{
    const uint64_t before = fake::CountSymmetric();

    RunAll(Kind::kCalm, "calm jobs", 200);
    EXPECT_GT(fake::CountSymmetric() - before, 1000U);
    EXPECT_NE(TheLibraries().Calm(0, kVersion).ncclCommGrow, nullptr); // 2.29
}

TEST_F(StageJobs, OfRanksThatDifferAreNotStaged)
{
    RunAll(Kind::kOdd, "odd jobs", 20);
}

TEST_F(StageJobs, OfWhichARankIsGoneCanBeAborted)
{
    RunAll(Kind::kDeadly, "deadly jobs", 40);
}

// ---- what the library adds to a program that copies by itself ----

// The first copy in follows NCCL's first node, its last one the last copy out.
const std::map<char, Step> kSteps = {
    {'p', kPlain},         {'s', kStaged},         {'x', kStaged},
    {'g', kGather},        {'r', kScatter}, // refused; a stream
    {'q', Reduce(512, 2)}, {'t', Reduce(1536, 2)}, {'o', Reduce(1536, 1, 1)}};

// From the first staged step on, a record that a kernel follows by its stream
// is followed by the kernel's, and the wait of NCCL's first node is in the line
// of a kernel, or a copy in.
const struct GraphCase {
    const char *name;
    int version;              // of kVersions
    size_t n_grouped;         // of the first steps
    std::string steps, added; // as Capture() has them; to the graph
    std::string set_aside;    // "132": record 1, of kernel 3, by record 2
    std::string lined_up;     // "wait1 > copy1": behind what that followed
} graphs[] = {
    {"plain", 0, 1, "ppp", "", "", ""},
    {"plain on two streams", 0, 1, "spqqp", "copy2 > record1", "34",
     "wait1 > copy1,wait2 > kernel2"},
    {"four", 0, 1, "ssss", "copy8 > record4", "12,23,34", "wait1 > copy1"},
    {"between plain ones", 0, 1, "pspsp", "copy4 > record4", "13,24,35",
     "wait2 > copy1"},
    {"of two communicators", 0, 1, "sos", "copy4 > record2,copy6 > record3",
     "13", "wait1 > copy1,wait2 > copy3"},
    {"on two streams", 0, 1, "stts",
     "copy2 > record1,copy6 > record3,copy8 > record4,record1 > copy3,"
     "record3 > copy7",
     "23", "wait1 > copy1"},
    {"behind another stream", 0, 1, "s>t", "copy4 > record2", "12",
     "wait1 > copy1"},
    {"a refused group", 0, 1, "sx", "copy3 > record1", "", "wait1 > copy1"},
    {"behind a record", 2, 1, "r^s", "copy3 > record2", "", "wait1 > copy1"},
    {"behind nothing", 0, 1, "s<s",
     "copy2 > record1,copy4 > record2,record1 > copy3", "", "wait1 > copy1"},
    {"behind a wait of the program", 0, 1, "wsp", "copy2 > record1", "",
     "wait2 > copy1,wait3 > kernel2"},
    {"one behind a group with plain ones", 0, 3, "spqp",
     "copy2 > record1,wait1 > copy1", "243", ""},
    {"a group with a plain one", 0, 2, "sp", "copy2 > record1,wait1 > copy1",
     "", ""},
    {"one behind a group on two streams", 0, 2, "stt",
     "copy3 > record1,copy6 > record2,wait1 > copy1,wait1 > copy2", "132", ""},
    {"a group of two communicators", 0, 2, "sos",
     "copy4 > record2,copy6 > record3,wait1 > copy1,wait2 > copy2", "13", ""},
    {"a group with 300 plain ones", 0, 302, 's' + std::string(300, 'p') + 's',
     "copy3 > record1,copy4 > record1,wait1 > copy1,wait1 > copy2", "", ""},
    {"gather and scatter", 0, 1, "gr", "copy4 > record2", "12",
     "wait1 > copy1"},
    {"a gather without a copy in", 2, 1, "g", "copy1 > record1", "",
     "wait1 > kernel1"},
    {"a scatter without a copy out", 2, 1, "r", "", "", "wait1 > copy1"},
    {"both, and one with all", 2, 1, "srgs", "copy6 > record4", "12,23,34",
     "wait1 > copy1"}};

// Puts NCCL's first node into a line: "wait1 > copy1".
void LineUp(const std::string &pair, std::set<std::string> *graph)
{
    const std::vector<std::string> nodes = Split(pair, ' ');
    std::set<std::string> lines{pair};

    for (const std::string &line : *graph)
        if (line.rfind(nodes[0] + " ", 0) != 0)
            lines.insert(std::regex_replace(
                line, std::regex("> " + nodes[2] + "$"), "> " + nodes[0]));
    *graph = lines;
}

// As a program that has windows, and a communicator for them.
struct ByHand {
    const Api &api;
    bool is_half;
    char *window;
    ncclComm_t comm, twin;

    bool Has(const Step &s, bool is_in) const // a copy
    {
        return s.n_bytes >= 1536 &&
               !(is_half &&
                 s.coll == (is_in ? ncclFuncAllGather : ncclFuncReduceScatter));
    }
    void Copy(const Step &s, char *data, cudaStream_t stream, bool is_in) const
    {
        if (Has(s, is_in))
            fake::EnqueueCopy(stream, is_in ? window : data,
                              is_in ? data : window, 512);
    }
    ncclResult_t Call(const Step &s, char *data, cudaStream_t stream) const
    {
        return RunStep(api, s, Has(s, true) ? window : data,
                       Has(s, false) ? window : data,
                       s.n_bytes < 1536 ? comm : twin, stream);
    }
};

// The nodes and edges of a graph of the steps; by hand if 'api' is NCCL's own.
std::set<std::string> Capture(const GraphCase &c, const Api &api, int rank,
                              const ncclUniqueId &id)
{
    const bool is_by_hand = &api == TheLibraries().plain.get();
    std::vector<char> data(8192), windows(8192);
    cudaStream_t streams[] = {nullptr, fake::NewStream(), fake::NewStream()};
    ncclComm_t comms[4]; // two, and their twins
    ncclWindow_t window;
    std::vector<ByHand> hands;

    EXPECT_EQ(api.ncclCommInitRank(&comms[0], 2, id, rank), ncclSuccess);
    for (int i = 1; i < 4; i++)
        api.ncclCommSplit(comms[0], 0, rank, &comms[i], nullptr);
    for (int i = 0; i < 2 && is_by_hand; i++) {
        hands.push_back({api, c.version == 2, windows.data() + 4096 * i,
                         comms[i], comms[2 + i]});
        api.ncclCommWindowRegister(comms[2 + i], hands[i].window, 4096, &window,
                                   NCCL_WIN_SYMMETRIC);
    }
    const auto copy = [&](const Step &s, bool is_in) {
        if (is_by_hand)
            hands[s.comm].Copy(s, data.data(), streams[s.stream], is_in);
    };
    fake::BeginCapture(streams[1]);
    if (c.steps[0] == 'w')
        fake::AddWait(streams[1], fake::NewEvent(), true);
    else
        fake::EnqueueAction(streams[1], [] {});
    fake::Fork(streams[1], streams[2]);
    for (size_t first = c.steps[0] == 'w'; first < c.steps.size();) {
        std::vector<Step> steps;
        if (c.steps[first] == '>')
            fake::Fork(streams[1], streams[2]);
        if (c.steps[first] == '<' || c.steps[first] == '^')
            fake::StartOver(streams[1], c.steps[first] == '^');
        first += kSteps.count(c.steps[first]) == 0;
        for (char step : c.steps.substr(first, first == 0 ? c.n_grouped : 1))
            steps.push_back(kSteps.at(step));
        const auto is_on = [&](int n) {
            return std::any_of(steps.begin(), steps.end(),
                               [=](const Step &s) { return s.stream == n; });
        };
        const auto join = [&] { // its streams, as NCCL has it
            if (is_by_hand && is_on(1) && is_on(2)) {
                fake::Fork(streams[2], streams[1]);
                fake::Fork(streams[1], streams[2]);
            }
        };
        join();
        for (const Step &s : steps)
            copy(s, true);
        const bool is_refused = c.steps[first] == 'x';
        if (steps.size() > 1 || is_refused)
            api.ncclGroupStart();
        for (const Step &s : steps)
            EXPECT_EQ(is_by_hand ? hands[s.comm].Call(s, data.data(),
                                                      streams[s.stream])
                                 : RunStep(api, s, data.data(), data.data(),
                                           comms[s.comm], streams[s.stream]),
                      ncclSuccess);
        if (is_refused) // with a call of no communicator
            RunStep(api, kStaged, nullptr, nullptr, nullptr, streams[1]);
        if (steps.size() > 1 || is_refused)
            EXPECT_EQ(api.ncclGroupEnd() != ncclSuccess, is_refused);
        for (const Step &s : is_refused ? std::vector<Step>{} : steps)
            copy(s, false);
        join();
        first += steps.size();
    }
    fake::Fork(streams[2], streams[1]);
    const fake::Graph *graph = fake::EndCapture(streams[1]);
    for (ncclComm_t comm : comms)
        EXPECT_EQ(api.ncclCommDestroy(comm), ncclSuccess);
    return graph != nullptr ? fake::Describe(graph) : std::set<std::string>{};
}

TEST_F(StageJobs,
       AddTwoEdgesToAGraphOfAProgramThatCopiesAndTakeNcclsOutOfTheWay)
{
    for (const GraphCase &c : graphs) {
        const char *version = kVersions[c.version];
        std::set<std::string> ours[2], theirs[2];
        SCOPED_TRACE(c.name);

        OnTwoRanks(version, [&](int rank, const ncclUniqueId &id) {
            ours[rank] =
                Capture(c, TheLibraries().Calm(rank, version), rank, id);
        });
        OnTwoRanks(version, [&](int rank, const ncclUniqueId &id) {
            theirs[rank] = Capture(c, *TheLibraries().plain, rank, id);
        });
        for (int r = 0; r < 2; r++) {
            for (const std::string &line : Split(c.added, ','))
                theirs[r].insert(line);
            for (const std::string &pair : Split(c.set_aside, ',')) {
                const std::string record = std::string("record") + pair[0];

                EXPECT_EQ(theirs[r].erase(record + " > kernel" + pair[1]), 1U);
                theirs[r].insert(record + " > record" + pair.back());
            }
            for (const std::string &pair : Split(c.lined_up, ','))
                LineUp(pair, &theirs[r]);
            EXPECT_EQ(ours[r], theirs[r]);
        }
    }
}

// Eager calls, and the library's calls of the driver for each: plain ones cost
// nothing; for others the context twice, a wait, two copies and a record, in a
// group a second wait, and where that has two streams each waits for the other,
// before the copies and behind them: the context, and an event's begin and end.
const struct EagerCase {
    const char *name;
    std::vector<Step> steps;
    bool is_group;
    uint64_t n_driver_calls;
} eager[] = {
    {"plain", {kPlain, Reduce(512, 2), Reduce(0)}, false, 0},
    {"a plain group", {kPlain, Reduce(512, 2)}, true, 0},
    {"one", {kStaged}, false, 6},
    {"on two streams", {kStaged, Reduce(1536, 2)}, false, 12},
    {"plain behind it", {kStaged, kPlain, Reduce(512, 2)}, false, 6},
    {"a group of one", {kStaged, kPlain}, true, 6},
    {"a group", {kStaged, Reduce(1536, 2)}, true, 2 * 3 + 2 * 4 + 4 * 4},
};

// Whichever of the driver's calls fails on a rank, with two behind it or not:
// the other rank gets the right bytes, or none.
TEST_F(StageJobs, PayForStagedCallsAlone)
{
    for (const EagerCase &c : eager)
        for (uint64_t i = 0; i < (c.n_driver_calls > 0 ? 150 : 1); i++) {
            std::vector<std::vector<float>> data[2];
            bool is_over[2] = {};

            OnTwoRanks(kVersion, [&](int rank, const ncclUniqueId &id) {
                const Api &api = TheLibraries().Calm(rank, kVersion);
                cudaStream_t streams[] = {nullptr, fake::NewStream(),
                                          fake::NewStream()};
                ncclResult_t result = ncclSuccess;
                ncclComm_t comm;

                data[rank].assign(3, std::vector<float>(2048, 1));
                if (rank == 0) // at first none
                    fake::FailDriverCalls(i, i > 0 ? 1 + i % 2 * 2 : 0);
                api.ncclCommInitRank(&comm, 2, id, rank);
                const uint64_t before = fake::CountDriverCalls();
                if (c.is_group)
                    api.ncclGroupStart();
                for (size_t k = 0; k < c.steps.size() && result == 0; k++)
                    result = RunStep(api, c.steps[k], data[rank][k].data(),
                                     data[rank][k].data(), comm,
                                     streams[c.steps[k].stream]);
                if (c.is_group)
                    result = std::max(result, api.ncclGroupEnd());
                EXPECT_TRUE(i > 0 || fake::CountDriverCalls() - before ==
                                         c.n_driver_calls)
                    << c.name;
                const bool is_right = result == ncclSuccess &&
                                      fake::Synchronize(streams[1]) &&
                                      fake::Synchronize(streams[2]);
                EXPECT_TRUE(i > 0 || is_right);
                for (size_t k = 0; k < c.steps.size() && is_right; k++)
                    for (size_t f = 0; f < c.steps[k].n_bytes / 4; f++)
                        ASSERT_EQ(data[rank][k][f], 2) << c.name << " " << i;
                fake::Lock([&] { // one that failed may be behind the other
                    is_over[rank] = is_right;
                    fake::Changed();
                });
                fake::WaitUntil([&] { return is_over[0] || is_over[1]; });
                EXPECT_EQ(api.ncclCommAbort(comm), ncclSuccess);
            });
        }
}

// With shared resources NCCL has one order of plain and of staged calls, also
// of a graph behind a group of both on two streams.
TEST_F(StageJobs, KeepPlainCallsInAnOrderThatTheyShare)
{
    for (uint64_t seed = 1; seed < 20; seed++)
        OnTwoRanks(
            kVersion,
            [](int rank, const ncclUniqueId &id) {
                const Api &api = TheLibraries().Calm(rank, kVersion);
                ncclConfig_t config = NCCL_CONFIG_DEFAULT(22809);
                cudaStream_t streams[3];
                char data[3][1536];
                ncclComm_t comm;

                config.splitShare = 1;
                api.ncclCommInitRankConfig(&comm, 2, id, rank, &config);
                for (cudaStream_t &stream : streams)
                    stream = fake::NewStream();
                const auto run = [&](int i, const Step &step) {
                    RunStep(api, step, data[i], data[i], comm, streams[i]);
                };
                fake::BeginCapture(streams[2]);
                run(2, kPlain);
                fake::Graph *graph = fake::EndCapture(streams[2]);
                api.ncclGroupStart();
                run(0, kStaged);
                run(1, kPlain);
                EXPECT_EQ(api.ncclGroupEnd(), ncclSuccess);
                fake::LaunchGraph(graph, streams[2]);
                for (cudaStream_t stream : streams)
                    EXPECT_TRUE(fake::Synchronize(stream));
                EXPECT_EQ(api.ncclCommDestroy(comm), ncclSuccess);
            },
            seed);
}

template <int kFlags> void Shrink(const Api &api, ncclComm_t comm)
{
    ncclComm_t child;
    int nobody = -1;

    api.ncclCommShrink(comm, &nobody, 0, &child, nullptr, kFlags);
    api.ncclCommDestroy(child);
}

// An end or a change of a communicator is one of its two twins, once, and no
// call of it is staged any more.
const struct EndCase {
    const char *name; // of fake::CountCalls()
    uint64_t n_calls; // of both ranks
    bool is_gone;     // then
    void (*end)(const Api &api, ncclComm_t comm);
} ends[] = {
    {"finalize", 6, false,
     [](const Api &api, ncclComm_t comm) { api.ncclCommFinalize(comm); }},
    {"revoke", 6, false,
     [](const Api &api, ncclComm_t comm) { api.ncclCommRevoke(comm, 0); }},
    {"suspend", 2, false,
     [](const Api &api, ncclComm_t comm) {
         api.ncclCommSuspend(comm, NCCL_SUSPEND_MEM);
     }},
    {"abort", 4, false, Shrink<NCCL_SHRINK_WITH_ABORT>},
    {"abort", 0, false, Shrink<0>},
    {"abort", 6, true,
     [](const Api &api, ncclComm_t comm) { api.ncclCommAbort(comm); }},
    {"destroy", 6, true,
     [](const Api &api, ncclComm_t comm) { api.ncclCommDestroy(comm); }},
};

TEST_F(StageJobs, EndTwinsWithTheirCommunicator)
{
    for (const EndCase &c : ends) {
        const uint64_t n_calls = fake::CountCalls(c.name),
                       n_symmetric = fake::CountSymmetric();
        SCOPED_TRACE(c.name);

        OnTwoRanks(kVersion, [&](int rank, const ncclUniqueId &id) {
            const Api &api = TheLibraries().Calm(rank, kVersion);
            std::vector<char> data(8192);
            cudaStream_t stream = fake::NewStream();
            ncclComm_t comm;
            ncclUniqueId same = id;

            api.ncclCommInitRankScalable(&comm, 2, rank, 1, &same, nullptr);
            RunStep(api, kStaged, data.data(), data.data(), comm, stream);
            EXPECT_TRUE(fake::Synchronize(stream));
            c.end(api, comm);
            // An abort is a thread's where an earlier job left operations.
            while (c.is_gone && fake::CountCalls(c.name) - n_calls < c.n_calls)
                std::this_thread::yield();
            if (c.is_gone)
                return;
            RunStep(api, kStaged, data.data(), data.data(), comm, stream);
            EXPECT_TRUE(fake::Synchronize(stream));
            api.ncclCommDestroy(comm);
        });
        EXPECT_EQ(fake::CountCalls(c.name) - n_calls, c.n_calls);
        EXPECT_EQ(fake::CountSymmetric() - n_symmetric,
                  c.n_calls > 0 ? 2u : 4u);
    }
}

// NCCL does not suspend a communicator that shares its memory with others.
TEST_F(StageJobs, SuspendACommunicatorThatSharesWithTwinsAlone)
{
    OnTwoRanks(kVersion, [&](int rank, const ncclUniqueId &id) {
        const Api &api = TheLibraries().Calm(rank, kVersion);
        ncclConfig_t config = NCCL_CONFIG_DEFAULT(22809);
        cudaStream_t stream = fake::NewStream();
        char data[1536];
        ncclComm_t comm;

        config.splitShare = 1;
        api.ncclCommInitRankConfig(&comm, 2, id, rank, &config);
        for (int i = 0; i < 2; i++) { // the second one is plain
            RunStep(api, kStaged, data, data, comm, stream);
            EXPECT_EQ(api.ncclCommSuspend(comm, NCCL_SUSPEND_MEM), ncclSuccess);
        }
        EXPECT_TRUE(fake::Synchronize(stream));
        EXPECT_EQ(api.ncclCommDestroy(comm), ncclSuccess);
    });
}

// A symmetric kernel does not look at an abort: its twins are left, and no
// abort waits for it, also of a communicator of one rank that shares its order.
// All memory is freed behind a kernel that does look.
TEST_F(StageJobs, LeaveTwinsWithAStagedOperationInAnAbort)
{
    for (int shares : {0, 1})
        for (const Step &step : {kStaged, kPlain}) {
            const uint64_t n_all = fake::CountCalls("abort"),
                           n_twins = fake::CountCalls("abort with windows");
            const bool is_left = step.n_bytes == kStaged.n_bytes;
            uint64_t n_others = is_left ? 4 : 6;
            SCOPED_TRACE(std::to_string(shares) + (is_left ? " left" : ""));

            OnTwoRanks(kVersion, [&](int rank, const ncclUniqueId &id) {
                const Api &api = TheLibraries().Calm(rank, kVersion);
                ncclConfig_t config = NCCL_CONFIG_DEFAULT(22809);
                std::vector<char> data(8192);
                cudaStream_t stream = fake::NewStream();
                ncclComm_t comm, alone;

                config.splitShare = shares;
                api.ncclCommInitRankConfig(&comm, 2, id, rank, &config);
                api.ncclCommSplit(comm, rank, 0, &alone, nullptr);
                RunStep(api, kPlain, data.data(), data.data(), comm, stream);
                EXPECT_TRUE(fake::Synchronize(stream));
                if (rank == 0) // the other one never calls it
                    RunStep(api, step, data.data(), data.data(), comm, stream);
                EXPECT_EQ(api.ncclCommAbort(comm), ncclSuccess);
                EXPECT_EQ(api.ncclCommAbort(alone), ncclSuccess);
                for (int i = 0;
                     i < 60000 && // rank 0's in threads
                     (fake::CountCalls("abort") < n_all + 2 + n_others ||
                      (!is_left && fake::CountBytes() > 0));
                     i++)
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
            });
            EXPECT_EQ(fake::CountCalls("abort"), n_all + 2 + n_others);
            EXPECT_EQ(fake::CountCalls("abort with windows") - n_twins,
                      n_others - 2);
            EXPECT_EQ(fake::CountBytes() > 0, is_left);
        }
}

// ---- the report, and what is said ----

// Runs a program with the library in front, and returns all that it prints.
std::string Say(const std::string &variables, const std::string &arguments,
                const char *program = STP_STAGE_JOB)
{
    const std::string command =
        "STEPTUNE_STAGE_FILE=" + TheLibraries().rules +
        " ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0"
        " NCCL_DEBUG=INFO LD_PRELOAD=" STP_STAGE " " +
        variables + " " + program + " " + arguments + " 2>&1";
    FILE *pipe = popen(command.c_str(), "r");
    std::string said;

    for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe))
        said += static_cast<char>(c);
    pclose(pipe);
    return std::regex_replace(said, std::regex("pid [0-9]+"), "pid N");
}

const struct SayCase {
    const char *variables, *said;
} says[] = {
    {"", "0 wrong, 10 symmetric kernels\n"},
    {"STEPTUNE_NCCL=/another/libnccl.so.2", // than the program is linked with
     "0 wrong, 10 symmetric kernels\n"},
    {"NCCL_WIN_ENABLE=0",
     "NCCL_WIN_ENABLE=0 or NCCL_CUMEM_ENABLE=0 switches windows off"},
    // A twin that fails has the application's abort flag, then.
    {"NCCL_COMM_SPLIT_SHARE_RESOURCES=1 FAKE_NCCL_NO_SYMMETRIC=1",
     "0 wrong, 0 symmetric kernels\n"},
    {"NCCL_COMM_BLOCKING=0", "the communicator is non-blocking"},
    {"NCCL_CUMEM_ENABLE=0",
     "NCCL_WIN_ENABLE=0 or NCCL_CUMEM_ENABLE=0 switches windows off"},
    {"NCCL_GRAPH_MIXING_SUPPORT=0",
     "NCCL_GRAPH_MIXING_SUPPORT=0 switches off the order that staged calls of "
     "graphs need"},
    {"FAKE_GPU_MULTIPROCESSORS=95", "its GPU has fewer than 96 "},
    {"FAKE_GPU_MULTIPROCESSORS=96", "0 wrong, 10 symmetric kernels\n"},
    {"FAKE_NCCL_VERSION=22699", "NCCL is older than 2.27 and has no windows"},
    {"FAKE_NCCL_NO_SYMMETRIC=1", // the rank that was first to see it is named
     " takes no symmetric kernel (GPUs may lack peer access), or keeps no "
     "order of graphs"},
    {"FAKE_NCCL_NO_SYMMETRIC=1",
     "warning: no call of a communicator is staged: rank "},
    {"STEPTUNE_STAGE_FILE=/proc/nowhere",
     "the file of rules (STEPTUNE_STAGE_FILE) is refused"},
    {"STEPTUNE_STAGE_WAIT=0", "STEPTUNE_STAGE_WAIT is '0', expected a number "
                              "from 1 to 600000; it is 3000"},
    {"STEPTUNE_STAGE_WAIT=600001", "expected a number from 1 to 600000"},
    {"STEPTUNE_STAGE_WAIT=5s",
     "STEPTUNE_STAGE_WAIT is '5s', expected a number"},
    {"STEPTUNE_STAGE_REPORT=/proc/nowhere",
     "warning: cannot write /proc/nowhere/"},
    {"STEPTUNE_STAGE_MEMORY=-1", "STEPTUNE_STAGE_MEMORY is '-1', expected a "
                                 "number from 1 to 1048576; it is 1024"},
};

TEST_F(StageJobs, SayWhyNothingIsStaged)
{
    for (const SayCase &c : says) {
        const std::string said = Say(c.variables, "1536");

        EXPECT_THAT(said, testing::HasSubstr(c.said)) << c.variables;
        EXPECT_THAT(said, testing::HasSubstr("0 wrong, ")) << c.variables;
    }
    EXPECT_EQ(Say("NCCL_DEBUG=VERSION NCCL_WIN_ENABLE=0", "1536"),
              "0 wrong, 0 symmetric kernels\n");
}

// A rule that is for jobs in which nothing runs beside collectives.
TEST_F(StageJobs, SayWhetherAnythingRunsBesideCollectives)
{
    const struct {
        const char *overlap, *said, *reported;
    } cases[] = {
        {"", "0 wrong, 0 symmetric kernels\n", "collective,"},
        {"0", "0 wrong, 10 symmetric kernels\n",
         "# NCCL_WORKLOAD_OVERLAP=0\ncollective,"},
        {"1", "0 wrong, 0 symmetric kernels\n", "collective,"},
        {"no",
         "steptune-stage: pid N: warning: NCCL_WORKLOAD_OVERLAP is 'no', "
         "expected 0 or 1; it is 1\n0 wrong, 0 symmetric kernels\n",
         "collective,"},
    };

    for (const auto &c : cases) {
        TemporaryFolder folder;

        EXPECT_EQ(c.said,
                  Say("NCCL_WORKLOAD_OVERLAP=" + std::string(c.overlap) +
                          " STEPTUNE_STAGE_REPORT=" + folder.Path("."),
                      "2048"));
        for (const auto &file :
             std::filesystem::directory_iterator(folder.Path(".")))
            EXPECT_THAT(
                ReadFile(file.path()),
                testing::HasSubstr(std::string("staged\n") + c.reported))
                << c.overlap;
    }
}

// Calls of a user go to the NCCL that it is linked with, in whatever order the
// NCCLs come; those of a program that is linked with none, to the loaded one.
TEST_F(StageJobs, NeverMixTwoNccls)
{
    const std::string folder = STP_TWO_NCCLS;
    const struct {
        const char *steps, *said;
    } cases[] = {
        {"1 a", "a2 "},
        {"2 b", "b3 "},
        {"3 d", "d2 "},
        {"4 d", "d3 "},
        {"1 d a d", "d2 a2 d2 "},
        {"2 d b d", "d3 b3 d3 "},
        {"1 a 2 b a d", "a2 b3 a2 d2 "},
        {"2 b 1 a b d", "b3 a2 b3 d3 "},
        {"1 2 a b d a", "a2 b3 d2 a2 "},
        {"1 2 b a d b", "b3 a2 d3 b3 "},
        {"1 2 d b a d", "d2 b3 a2 d2 "},
        {"2 1 d b a d", "d3 b3 a2 d3 "},
        {"3 d 2 b d 1 a", "d2 b3 d2 a2 "},
        {"4 d 1 a d 2 b", "d3 a2 d3 b3 "},
        {"5 2 b d", "b2 d2 "}, // all is shown to what is loaded later
        {"2 5 b d", "b3 d2 "},
        {"2 5 d b", "d2 b3 "},
        {"2 b 5 b 1 a", "b3 b3 a2 "},
        {"1 4 a d", "a2 d2 "},
        {"2 3 d b", "d3 b3 "},
    };

    for (const auto &c : cases)
        for (const char *variables :
             {"", "STEPTUNE_NCCL=%/libnccl.so.2",
              "STEPTUNE_NCCL=%/libnccl.so.3", "LD_LIBRARY_PATH=%/other",
              "STEPTUNE_STAGE_FILE="})
            EXPECT_EQ(Say("NCCL_DEBUG= " +
                              std::regex_replace(std::string(variables),
                                                 std::regex("%"), folder),
                          folder + " " + c.steps, STP_MIXED_JOB),
                      c.said)
                << variables << " " << c.steps;
    EXPECT_THAT(
        Say("STEPTUNE_NCCL=" + folder + "/libnccl.so.3", folder + " 1 d",
            STP_MIXED_JOB),
        testing::HasSubstr("calls go to " + folder +
                           "/libnccl.so.2, which is loaded, and not to " +
                           folder + "/libnccl.so.3 (STEPTUNE_NCCL)"));
    // with none loaded, the one that is named, and never another later on
    for (const char *number : {"2", "3"}) {
        const std::string said =
            Say("NCCL_DEBUG= STEPTUNE_NCCL=" + folder + "/libnccl.so." + number,
                folder + " d 1 a d 2 b d", STP_MIXED_JOB);

        EXPECT_EQ(said, std::regex_replace(std::string("d% a2 d% b3 d% "),
                                           std::regex("%"), number));
    }
}

const char *const kReport =
    "# calls of NCCL, by kind, and how many were staged\n"
    "# stepped aside: the application limits the CTAs\n"
    "collective,type,bytes_from,bytes_to,ctas,calls_staged,calls_plain,"
    "captured,"
    "why\n"
    "allreduce,f32,1024,2047,16,5,0,1,\n"
    "allreduce,f32,512,1023,0,0,1,0,rule\n"
    "allreduce,f32,4096,8191,0,0,1,0,rule\n" // of one CTA count too many
    "allreduce,f32,2048,4095,0,0,1,0,overlap\n"
    "allreduce,i32,1024,2047,0,0,1,0,type\n"
    "allreduce,f32,1024,2047,0,0,1,0,type\n"
    "allreduce,i32,2048,4095,0,0,1,0,type\n" // also where nothing runs beside
    "allreduce,f32,0,1,0,0,1,0,rule\n"
    "allreduce,f32,8192,16383,0,0,1,0,rounds\n"
    "allreduce,f32,2048,4095,16,2,0,0,\n"
    "allreduce,f32,2048,4095,0,0,1,0,places\n"
    "allgather,f32,1024,2047,16,1,0,0,\n"
    "allreduce,f32,16384,32767,1,1,0,0,\n"
    "allreduce,f32,1024,2047,0,0,1,0,own_windows\n"
    "allreduce,f32,1024,2047,0,0,1,0,stepped_aside\n"
    "allreduce,f32,1024,2047,0,0,1,0,ended\n";

TEST_F(StageJobs, ReportEachKindOfCall)
{
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(60);

    OnTwoRanks(kVersion, [&](int rank, const ncclUniqueId &id) {
        const Api &api = *TheLibraries().told[rank];
        const std::string report = TheLibraries().reports[rank] + "/" +
                                   std::to_string(getpid()) + ".csv";
        std::vector<char> data(16384);
        cudaStream_t stream = fake::NewStream();
        ncclConfig_t few = NCCL_CONFIG_DEFAULT(22809), shares = few, old = few;
        ncclComm_t comm, limited, shared, unlimited, ended;
        ncclWindow_t window;

        const auto reduce = [&](ncclComm_t of, size_t n_bytes, int type = 7,
                                int op = 0) {
            EXPECT_EQ(api.ncclAllReduce(data.data(), data.data(), n_bytes / 4,
                                        type, op, of, stream),
                      ncclSuccess);
        };
        few.maxCTAs = old.maxCTAs = 4;
        shares.splitShare = 1;
        old.size = offsetof(ncclConfig_t, maxCTAs); // it ends there
        api.ncclCommInitRank(&comm, 2, id, rank);
        api.ncclCommSplit(comm, 0, rank, &limited, &few);
        api.ncclCommSplit(comm, 0, rank, &shared, &shares);
        api.ncclCommSplit(comm, 0, rank, &unlimited, &old);
        api.ncclCommSplit(comm, 0, rank, &ended, nullptr);
        reduce(comm, 1536);
        reduce(comm, 1536);
        fake::BeginCapture(stream);
        reduce(comm, 1536);
        fake::EndCapture(stream);
        reduce(unlimited, 1536);
        reduce(comm, 512);
        reduce(comm, 5120);
        reduce(comm, 2048);
        reduce(comm, 1536, 2);
        reduce(comm, 1536, 7, 2);
        reduce(comm, 2048, 2);
        reduce(comm, 0);
        reduce(comm, 12288);
        for (int unknown : {-1, 12, 1 << 20})
            EXPECT_EQ(api.ncclAllReduce(data.data(), data.data(), 8, unknown, 0,
                                        comm, stream),
                      ncclInvalidArgument);
        api.ncclGroupStart();
        for (int i = 0; i < 3; i++)
            reduce(comm, 3072);
        api.ncclGroupEnd();
        RunStep(api, kGather, data.data(), data.data(), comm, stream);
        reduce(comm, 16384);
        EXPECT_TRUE(fake::Synchronize(stream));
        api.ncclCommWindowRegister(comm, data.data(), 64, &window, 0);
        reduce(comm, 1536);
        reduce(limited, 1536);
        reduce(shared, 1536);
        api.ncclCommRevoke(ended, 0);
        reduce(ended, 1536);
        EXPECT_TRUE(fake::Synchronize(stream));
        // a process that is killed has said it, too
        while (
            (!std::filesystem::exists(report) || ReadFile(report) != kReport) &&
            std::chrono::steady_clock::now() < deadline)
            usleep(10000);
        EXPECT_EQ(ReadFile(report), kReport);
        reduce(ended, 1536);
        for (ncclComm_t one : {comm, limited, shared, unlimited})
            EXPECT_EQ(api.ncclCommDestroy(one), ncclSuccess);
        EXPECT_EQ(api.ncclCommAbort(ended), ncclSuccess);
    });
    for (const std::string &folder : TheLibraries().reports)
        EXPECT_EQ(ReadFile(folder + "/" + std::to_string(getpid()) + ".csv"),
                  std::regex_replace(std::string(kReport),
                                     std::regex("1,0,ended"), "2,0,ended"));
}

// An order of NCCL that the library does not know.
TEST_F(StageJobs, AreNotStagedWhereNcclOrdersGraphsInAnotherWay)
{
    for (const char *order : {"none", "behind the stream", "and launches"}) {
        const uint64_t before = fake::CountSymmetric();

        setenv("FAKE_NCCL_ORDER", order, 1);
        for (uint64_t seed = 1; seed < 4; seed++)
            EXPECT_EQ(stage_jobs::Run(TheLibraries(), seed, Kind::kCalm).wrong,
                      "");
        EXPECT_EQ(fake::CountSymmetric(), before) << order;
    }
    unsetenv("FAKE_NCCL_ORDER");
}

// NCCL drops a call without elements: its stream waits for none.  Rank 0 has
// another communicator's operation in it that rank 1 calls later.
TEST_F(StageJobs, JoinNoStreamOfACallWithoutElements)
{
    OnTwoRanks(kVersion, [&](int rank, const ncclUniqueId &id) {
        const Api &api = TheLibraries().Calm(rank, kVersion);
        cudaStream_t one = fake::NewStream(), two = fake::NewStream();
        char data[2][1536];
        ncclComm_t comm, other;

        api.ncclCommInitRank(&comm, 2, id, rank);
        api.ncclCommSplit(comm, 0, rank, &other, nullptr);
        const auto run = [&] {
            RunStep(api, kStaged, data[1], data[1], other, two);
        };
        if (rank == 0)
            run();
        api.ncclGroupStart();
        RunStep(api, kStaged, data[0], data[0], comm, one);
        RunStep(api, Reduce(0), data[1], data[1], comm, two);
        api.ncclBroadcast(data[1], data[1], 0, 7, 0, comm, two);
        EXPECT_EQ(api.ncclGroupEnd(), ncclSuccess);
        EXPECT_TRUE(fake::Synchronize(one));
        if (rank == 1)
            run();
        EXPECT_TRUE(fake::Synchronize(two));
        EXPECT_EQ(api.ncclCommDestroy(other), ncclSuccess);
        EXPECT_EQ(api.ncclCommDestroy(comm), ncclSuccess);
    });
}

// As JAX and nccl-tests do: one thread has all GPUs.
TEST_F(StageJobs, OfOneThreadAreStaged)
{
    enum { kRanks = 4 };
    const Api &api = TheLibraries().Calm(0, kVersion);
    char data[kRanks][1536];
    cudaStream_t streams[kRanks];
    ncclComm_t comms[kRanks], children[kRanks];
    const uint64_t before = fake::CountSymmetric();

    setenv("FAKE_NCCL_VERSION", kVersion, 1);
    setenv("FAKE_NCCL_ONE_PROCESS", "1", 1);
    fake::BeginJob(1, 1);
    fake::EnterThread(0);
    ASSERT_EQ(api.ncclCommInitAll(comms, kRanks, nullptr), ncclSuccess);
    api.ncclGroupStart();
    for (int r = 0; r < kRanks; r++) {
        streams[r] = fake::NewStream();
        api.ncclCommSplit(comms[r], r / 2, r, &children[r], nullptr);
    }
    ASSERT_EQ(api.ncclGroupEnd(), ncclSuccess);
    for (const ncclComm_t *all : {comms, children}) {
        api.ncclGroupStart();
        for (int r = 0; r < kRanks; r++)
            RunStep(api, kStaged, data[r], data[r], all[r], streams[r]);
        EXPECT_EQ(api.ncclGroupEnd(), ncclSuccess);
        for (cudaStream_t stream : streams)
            EXPECT_TRUE(fake::Synchronize(stream));
    }
    EXPECT_EQ(fake::CountSymmetric() - before, 2u * kRanks);
    api.ncclGroupStart();
    api.ncclSend(data[0], 1, 7, 0, comms[0], streams[0]);
    EXPECT_EQ(api.ncclAlltoAll(nullptr, nullptr, 0, 7, comms[0], streams[0]),
              ncclSuccess);
    EXPECT_EQ(api.ncclGroupSimulateEnd(nullptr), ncclSuccess);
    // A simulated group does not run.
    api.ncclGroupStart();
    for (int r = 0; r < kRanks; r++) {
        RunStep(api, kStaged, data[r], data[r], comms[r], streams[r]);
        api.ncclSend(data[r], 1, 7, r, comms[r], streams[r]);
    }
    EXPECT_EQ(api.ncclGroupSimulateEnd(nullptr), ncclSuccess);
    // By the names of a profiler, and a function that returns a struct.
    api.pncclGroupStart();
    for (int r = 0; r < kRanks; r++)
        api.pncclAllReduce(data[r], data[r], 384, 7, 0, comms[r], streams[r]);
    EXPECT_EQ(api.pncclGroupEnd(), ncclSuccess);
    for (cudaStream_t stream : streams)
        EXPECT_TRUE(fake::Synchronize(stream));
    EXPECT_EQ(fake::CountSymmetric() - before, 3u * kRanks);
    const nccl_words team = api.pncclTeamWorld(
        reinterpret_cast<uintptr_t>(comms[3]), 0, 0, 0, 0, 0);
    EXPECT_EQ(team.word[0], 3ull << 32 | kRanks);
    EXPECT_EQ(static_cast<int>(team.word[1]), 1);
    EXPECT_EQ(api.ncclTeamLsa(0, 0, 0, 0, 0, 0).word[0], ncclInvalidUsage);
    // In a thread without a context, which names the default stream, and behind
    // a call that does nothing.
    EXPECT_EQ(api.ncclCommSuspend(comms[1], 0), ncclSuccess);
    fake::EnterThread(-1);
    api.ncclGroupStart();
    for (int r = 0; r < kRanks; r++)
        RunStep(api, kStaged, data[r], data[r], comms[r],
                r == 0 ? nullptr : streams[r]);
    EXPECT_EQ(api.ncclGroupEnd(), ncclSuccess);
    fake::EnterThread(0);
    EXPECT_TRUE(fake::Synchronize(nullptr));
    EXPECT_EQ(fake::CountSymmetric() - before, 4u * kRanks);
    // NCCL waits for none of them before the last one ends.
    api.ncclGroupStart();
    for (int r = 0; r < kRanks; r++)
        RunStep(api, kStaged, data[r], data[r], comms[r], streams[r]);
    EXPECT_EQ(api.ncclGroupEnd(), ncclSuccess);
    for (const ncclComm_t *all : {children, comms})
        for (int r = 0; r < kRanks; r++)
            EXPECT_EQ(api.ncclCommDestroy(all[r]), ncclSuccess);
    for (cudaStream_t stream : streams)
        EXPECT_TRUE(fake::Synchronize(stream));
    unsetenv("FAKE_NCCL_ONE_PROCESS");
    fake::LeaveThread({});
    EXPECT_EQ(fake::EndJob(), "");
}

} // namespace
