// Mock NCCL against the real one, on 2 to all GPUs of this host: from the
// search graphs that NCCL itself writes, mock NCCL must compute every cost
// table, make every choice and use as many channels.
//
// Each number of GPUs makes a machine's folder (machine.csv, graphs.xml,
// choices.csv), which STEPTUNE_KEEP=DIR keeps.  A process reads NCCL's
// environment once, so each runs in a child.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "recorded_choices.h"

namespace
{

namespace fs = std::filesystem;

constexpr size_t kMaxBytes = size_t{256} << 20; // of a rank's buffer
constexpr const char *kColls[] = {"broadcast", "reduce", "allgather",
                                  "reducescatter", "allreduce"};
constexpr const char *kAlgos[] = {
    "tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
    "nvls_tree", "pat"};
constexpr const char *kProtos[] = {"ll", "ll128", "simple"};

struct Type {
    const char *name;
    ncclDataType_t type;
    size_t size;
};
constexpr Type kTypes[] = {
    {"bf16", ncclBfloat16, 2}, {"f32", ncclFloat32, 4}, {"i8", ncclInt8, 1}};

struct Op {
    int coll;     // place in kColls
    size_t count; // elements that a rank gives: all of them, or its share
    int group_ops;
    const Type *type;
};

struct Rank {
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
    char *from = nullptr;
    char *to = nullptr;
};

// What is asked, the same for every number of GPUs.
std::vector<Op> Ops(int n_ranks)
{
    std::vector<Op> ops;

    for (int coll = 0; coll < 5; coll++)
        for (const Type &type : kTypes)
            for (size_t bytes = 64; bytes <= kMaxBytes; bytes *= 4)
                for (size_t odd : {size_t{0}, bytes / 2 + 2})
                    if (bytes + odd <= kMaxBytes)
                        ops.push_back(
                            {coll,
                             (bytes + odd) / type.size /
                                 (coll == 2 || coll == 3 ? n_ranks : 1),
                             1, &type});
    for (int coll = 0; coll < 5; coll++)
        for (int n : {2, 3, 8, 30})
            for (size_t bytes = 4096; bytes <= size_t{4} << 20; bytes *= 32)
                ops.push_back({coll, bytes / 2 / n_ranks, n, &kTypes[0]});
    return ops;
}

ncclResult_t Call(const Op &op, const Rank &r)
{
    const ncclDataType_t type = op.type->type;

    switch (op.coll) {
    case 0:
        return ncclBroadcast(r.from, r.to, op.count, type, 0, r.comm, r.stream);
    case 1:
        return ncclReduce(r.from, r.to, op.count, type, ncclSum, 0, r.comm,
                          r.stream);
    case 2:
        return ncclAllGather(r.from, r.to, op.count, type, r.comm, r.stream);
    case 3:
        return ncclReduceScatter(r.from, r.to, op.count, type, ncclSum, r.comm,
                                 r.stream);
    default:
        return ncclAllReduce(r.from, r.to, op.count, type, ncclSum, r.comm,
                             r.stream);
    }
}

// Returns what is wrong, or "".
std::string RunAll(int n_ranks)
{
    std::vector<ncclComm_t> comms(n_ranks);
    std::vector<Rank> ranks(n_ranks);

    if (ncclCommInitAll(comms.data(), n_ranks, nullptr) != ncclSuccess)
        return "ncclCommInitAll failed";
    for (int i = 0; i < n_ranks; i++) {
        ranks[i].comm = comms[i];
        if (cudaSetDevice(i) != cudaSuccess ||
            cudaStreamCreate(&ranks[i].stream) != cudaSuccess ||
            cudaMalloc(&ranks[i].from, kMaxBytes) != cudaSuccess ||
            cudaMalloc(&ranks[i].to, kMaxBytes) != cudaSuccess)
            return "no stream or memory on a GPU";
        cudaMemset(ranks[i].from, 0, kMaxBytes);
    }
    for (const Op &op : Ops(n_ranks)) {
        ncclGroupStart();
        for (int k = 0; k < op.group_ops; k++)
            for (const Rank &r : ranks)
                if (Call(op, r) != ncclSuccess)
                    return "a collective failed";
        if (ncclGroupEnd() != ncclSuccess)
            return "a group failed";
    }
    for (int i = 0; i < n_ranks; i++) {
        cudaSetDevice(i);
        if (cudaStreamSynchronize(ranks[i].stream) != cudaSuccess)
            return "a collective failed on the GPU";
    }
    for (ncclComm_t comm : comms)
        ncclCommDestroy(comm);
    return "";
}

// The GPU's name and compute capability go to a file, as the parent must not
// have used CUDA before it forks again.
void DescribeGpu(const fs::path &file)
{
    cudaDeviceProp gpu{};

    cudaGetDeviceProperties(&gpu, 0);
    std::ofstream(file) << gpu.name << "," << gpu.major * 10 + gpu.minor;
}

int Child(int n_ranks, const fs::path &dir)
{
    setenv("NCCL_TUNER_PLUGIN", "STATIC_PLUGIN", 1);
    setenv("STEPTUNE_TEST_QUESTIONS", (dir / "questions").c_str(), 1);
    setenv("NCCL_GRAPH_DUMP_FILE", (dir / "graphs.xml").c_str(), 1);
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "INIT,ENV,TUNING", 1);
    setenv("NCCL_DEBUG_FILE", (dir / "log").c_str(), 1);
    DescribeGpu(dir / "gpu");
    const std::string wrong = RunAll(n_ranks);
    if (!wrong.empty())
        fprintf(stderr, "child: %s\n", wrong.c_str());
    return wrong.empty() ? 0 : 1;
}

std::vector<std::string> Lines(const fs::path &file)
{
    std::ifstream in(file);
    std::vector<std::string> lines;

    for (std::string line; std::getline(in, line);)
        lines.push_back(line);
    return lines;
}

std::string Lower(std::string text)
{
    for (char &c : text)
        c = static_cast<char>(tolower(c));
    return text;
}

// What NCCL logged of a collective on rank 0.
struct Ran {
    std::string algo;
    std::string proto;
    int n_channels;
};

std::vector<Ran> Runs(const fs::path &log)
{
    std::vector<Ran> runs;

    for (const std::string &line : Lines(log)) {
        char algo[32], proto[32];
        int lo, hi;
        size_t at = line.find(" Bytes -> Algo ");
        if (at != std::string::npos &&
            sscanf(line.c_str() + at,
                   " Bytes -> Algo %31s proto %31s channel{Lo..Hi}={%d..%d}",
                   algo, proto, &lo, &hi) == 4)
            runs.push_back({Lower(algo), Lower(proto), hi - lo + 1});
    }
    return runs;
}

void WriteHeader(std::ostream &out, int n_ranks)
{
    out << "# Written by gpu_tests/mock_gpu_test.cc on " << n_ranks
        << " GPUs: a row for each question that NCCL put to a tuner.\n"
           "collective,bytes,group_ops,type,nNodes,nRanks,numPipeOps,regBuff";
    for (const char *algo : kAlgos)
        for (const char *proto : kProtos)
            out << ",cost_" << algo << "_" << proto;
    out << ",algo,proto,channels\n";
}

// Joins what was asked with what ran.
void WriteChoices(const fs::path &dir, int n_ranks)
{
    const std::vector<std::string> questions = Lines(dir / "questions");
    const std::vector<Ran> runs = Runs(dir / "log");
    const std::vector<Op> ops = Ops(n_ranks);
    std::ofstream out(dir / "choices.csv");
    size_t at = 0;

    ASSERT_EQ(ops.size(), questions.size());
    WriteHeader(out, n_ranks);
    for (size_t i = 0; i < ops.size(); i++) {
        const size_t n = static_cast<size_t>(ops[i].group_ops);
        std::stringstream question(questions[i]);
        std::string coll, bytes, rest, channels;
        std::getline(question, coll, ',');
        std::getline(question, bytes, ',');
        std::getline(question, rest);
        ASSERT_LE(at + n, runs.size());
        for (size_t k = 0; k < n; k++)
            channels +=
                (k ? "+" : "") + std::to_string(runs[at + k].n_channels);
        ASSERT_EQ(ops[i].coll, std::stoi(coll));
        out << kColls[ops[i].coll] << "," << bytes << "," << n << ","
            << ops[i].type->name << "," << rest << "," << runs[at].algo << ","
            << runs[at].proto << "," << channels << "\n";
        at += n;
    }
    EXPECT_EQ(at, runs.size());
}

void WriteMachine(const fs::path &dir, int n_ranks)
{
    int version = 0;
    ncclGetVersion(&version);
    std::ofstream(dir / "machine.csv")
        << "# Written by gpu_tests/mock_gpu_test.cc.\n"
           "gpu,compute_capability,ranks,nodes,cpu_vendor,nccl\n"
        << Lines(dir / "gpu").at(0) << "," << n_ranks << ",1,unknown,"
        << version / 10000 << "." << version / 100 % 100 << "." << version % 100
        << "\n";
}

int CountGpus() // without CUDA, which does not survive a fork
{
    int n = 0;
    while (access(("/dev/nvidia" + std::to_string(n)).c_str(), F_OK) == 0)
        n++;
    return n;
}

TEST(MockAgainstNccl, ComputesItsTablesChoicesAndChannels)
{
    const char *keep = getenv("STEPTUNE_KEEP");
    std::string temporary = testing::TempDir() + "steptune-gpu-XXXXXX";
    ASSERT_NE(nullptr, mkdtemp(temporary.data()));
    const fs::path top = keep != nullptr ? keep : temporary;
    const int n_gpus = CountGpus();
    if (n_gpus == 1)
        GTEST_SKIP() << "needs two GPUs: one rank asks no tuner";
    ASSERT_GT(n_gpus, 0);

    for (int n = 2; n <= n_gpus; n++) {
        SCOPED_TRACE(std::to_string(n) + " GPUs");
        const fs::path dir = top / ("gpus" + std::to_string(n));
        fs::create_directories(dir);
        pid_t child = fork();
        if (child == 0)
            _exit(Child(n, dir));
        int status = -1;
        waitpid(child, &status, 0);
        ASSERT_EQ(0, status);
        WriteMachine(dir, n);
        WriteChoices(dir, n);
        EXPECT_GT(ExpectChoices(dir.string()), 300);
    }
    fs::remove_all(temporary);
}

} // namespace
