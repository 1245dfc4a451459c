#include "recording.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "gpu_ranks.h"

namespace recording
{

namespace fs = std::filesystem;

namespace
{

struct Type {
    const char *name;
    ncclDataType_t type;
    size_t size;
};
constexpr Type kTypes[] = {
    {"bf16", ncclBfloat16, 2}, {"f32", ncclFloat32, 4}, {"i8", ncclInt8, 1}};

const Type &TypeOf(const Op &op)
{
    for (const Type &type : kTypes)
        if (strcmp(type.name, op.type) == 0)
            return type;
    abort();
}

struct Rank {
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
    char *from = nullptr;
    char *to = nullptr;
};

ncclResult_t Call(const Op &op, const Rank &r)
{
    const ncclDataType_t type = TypeOf(op).type;

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

std::string Begin(std::vector<Rank> &ranks)
{
    std::vector<ncclComm_t> comms(ranks.size());
    const int n = static_cast<int>(ranks.size());

    if (ncclCommInitAll(comms.data(), n, GpusOf(n).data()) != ncclSuccess)
        return "ncclCommInitAll failed";
    for (int i = 0; i < n; i++) {
        ranks[i].comm = comms[i];
        if (cudaSetDevice(GpuOf(i)) != cudaSuccess ||
            cudaStreamCreate(&ranks[i].stream) != cudaSuccess ||
            cudaMalloc(&ranks[i].from, kMaxBytes) != cudaSuccess ||
            cudaMalloc(&ranks[i].to, kMaxBytes) != cudaSuccess)
            return "no stream or memory on a GPU";
        cudaMemset(ranks[i].from, 0, kMaxBytes);
    }
    return "";
}

// Returns what is wrong, or "".
std::string RunAll(int n_ranks, const std::vector<Group> &groups)
{
    std::vector<Rank> ranks(n_ranks);
    const std::string wrong = Begin(ranks);

    if (!wrong.empty())
        return wrong;
    for (const Group &group : groups) {
        ncclGroupStart();
        for (const Op &op : group)
            for (const Rank &r : ranks)
                if (Call(op, r) != ncclSuccess)
                    return "a collective failed";
        if (ncclGroupEnd() != ncclSuccess)
            return "a group failed";
    }
    for (int i = 0; i < n_ranks; i++) {
        cudaSetDevice(GpuOf(i));
        if (cudaStreamSynchronize(ranks[i].stream) != cudaSuccess)
            return "a collective failed on the GPU";
    }
    for (const Rank &r : ranks)
        ncclCommDestroy(r.comm);
    return "";
}

void DescribeGpu(const fs::path &file)
{
    cudaDeviceProp gpu{};

    cudaGetDeviceProperties(&gpu, 0);
    std::ofstream(file) << gpu.name << "," << gpu.major * 10 + gpu.minor;
}

int Child(int n_ranks, const std::vector<Group> &groups, bool force,
          const fs::path &dir)
{
    setenv("NCCL_TUNER_PLUGIN", "STATIC_PLUGIN", 1);
    setenv("STEPTUNE_TEST_QUESTIONS", (dir / "questions").c_str(), 1);
    if (force)
        setenv("STEPTUNE_TEST_FORCE", "1", 1);
    setenv("NCCL_GRAPH_DUMP_FILE", (dir / "graphs.xml").c_str(), 1);
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "INIT,ENV,TUNING", 1);
    setenv("NCCL_DEBUG_FILE", (dir / "log").c_str(), 1);
    DescribeGpu(dir / "gpu");
    const std::string wrong = RunAll(n_ranks, groups);
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

// "...: AllReduce: 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}"
std::vector<Ran> Runs(const fs::path &log)
{
    std::vector<Ran> runs;

    for (const std::string &line : Lines(log)) {
        char coll[32], algo[32], proto[32];
        size_t bytes;
        int lo, hi;
        size_t at = line.find("NCCL INFO ");
        if (at != std::string::npos &&
            sscanf(line.c_str() + at,
                   "NCCL INFO %31[A-Za-z]: %zu Bytes -> Algo %31s proto %31s "
                   "channel{Lo..Hi}={%d..%d}",
                   coll, &bytes, algo, proto, &lo, &hi) == 6)
            runs.push_back(
                {Lower(coll), bytes, Lower(algo), Lower(proto), hi - lo + 1});
    }
    return runs;
}

// collective,bytes,<shape and costs>,forced,asked
std::vector<Question> Questions(const fs::path &file)
{
    std::vector<Question> questions;

    for (const std::string &line : Lines(file)) {
        size_t bytes = line.find(',') + 1;
        size_t rest = line.find(',', bytes) + 1;
        size_t asked = line.rfind(',') + 1;
        size_t forced = line.rfind(',', asked - 2) + 1;
        questions.push_back({std::stoi(line), std::stoull(line.substr(bytes)),
                             line.substr(rest, forced - 1 - rest),
                             std::stoi(line.substr(forced)),
                             std::stoi(line.substr(asked))});
    }
    return questions;
}

} // namespace

size_t SizeOf(const Op &op)
{
    return TypeOf(op).size;
}

Recorded Record(int n_ranks, const std::vector<Group> &groups, bool force,
                const fs::path &dir)
{
    fs::create_directories(dir);
    pid_t child = fork();
    if (child == 0)
        _exit(Child(n_ranks, groups, force, dir));
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(0, status) << "the collectives went wrong";
    const std::vector<std::string> gpu = Lines(dir / "gpu");
    return {Questions(dir / "questions"), Runs(dir / "log"),
            gpu.empty() ? "" : gpu[0]};
}

void WriteMachine(const fs::path &dir, const Recorded &recorded)
{
    int version = 0;

    ncclGetVersion(&version);
    std::ofstream(dir / "machine.csv")
        << "# Written by gpu_tests/mock_gpu_test.cc.\n"
           "gpu,compute_capability,cpu_vendor,nccl\n"
        << recorded.gpu << ",unknown," << version / 10000 << "."
        << version / 100 % 100 << "." << version % 100 << "\n";
}

} // namespace recording
