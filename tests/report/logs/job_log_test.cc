// NCCL's log: lines of all versions, and whatever stands before and between
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

extern "C" {
#include "report/logs/job_log_facts.h"
#include "report/logs/job_log_machine.h"
}

namespace
{

using testing::ElementsAre;
using testing::HasSubstr;
using Lines = std::vector<std::string>;

// All that is printed of a log; "" if it is none.
std::string Print(const std::string &text, bool is_json)
{
    stp_job_log log{};
    const stp_diagnosis findings{};
    stp_error err{};
    char *printed = nullptr, *own = strndup(text.data(), text.size());
    size_t size = 0;

    if (stp_job_log_read(own, text.size(), &log, &err) != STP_OK) {
        free(own); // it is the caller's still
        return "";
    }
    FILE *fp = open_memstream(&printed, &size);
    stp_print_job_log(&log, &findings, is_json, fp);
    fclose(fp);
    std::string all(printed, size);
    free(printed);
    stp_job_log_free(&log);
    return all;
}

// "what: what the log says of it" of lines of one rank; what is unknown is left
// out, and decisions have blanks between their columns.
Lines Says(const Lines &messages)
{
    std::string text = "n1:10:11 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes "
                       "1 localRanks 8 localRank 0 MNNVL 0\n";
    for (const std::string &message : messages)
        text += "n1:10:11 [0] NCCL INFO " + message + "\n";
    const std::string json = Print(text, true);
    const std::regex fact("\"what\":\\s*\"([^\"]*)\",\\s*\"says\":\\s*\"((?:"
                          "[^\"\\\\]|\\\\.)*)\"");
    const std::regex decision(
        "\"collective\":\\s*(\\S+),\\s*\"bytes\":\\s*(\\S+),\\s*"
        "\"algorithm\":\\s*(\\S+),\\s*\"protocol\":\\s*(\\S+),\\s*"
        "\"channels\":\\s*(\\S+),");
    Lines said;

    for (std::sregex_iterator i(json.begin(), json.end(), fact), end; i != end;
         ++i)
        if ((*i)[2].str().find("unknown: ") != 0 && (*i)[1] != "communicator")
            said.push_back((*i)[1].str() + ": " + (*i)[2].str());
    for (std::sregex_iterator i(json.begin(), json.end(), decision), end;
         i != end; ++i) {
        std::string columns;
        for (int c = 1; c <= 5; c++)
            columns += (c > 1 ? " " : "") + (*i)[c].str();
        columns.erase(std::remove(columns.begin(), columns.end(), '"'),
                      columns.end());
        said.push_back(columns);
    }
    return said;
}

TEST(JobLog, ReadsLinesOfAllVersions)
{
    const struct {
        const char *message, *says;
    } lines[] = {
        {"NCCL version 2.21.5+cuda12.4", "NCCL: 2.21.5+cuda12.4"},
        {"cudaDriverVersion 13010", "CUDA driver: 13010"},
        {"NCCL_ALGO set by environment to ring,tree",
         "variable: NCCL_ALGO=ring,tree"},
        {"NCCL_MAX_NCHANNELS set by environment to 2.",
         "variable: NCCL_MAX_NCHANNELS=2"},
        {"NCCL_IB_HCA set to mlx5_0", "variable: NCCL_IB_HCA=mlx5_0"},
        {"Comm config maxCTAs reset to NCCL_MAX_CTAS=4",
         "variable: NCCL_MAX_CTAS=4"},
        {"Comm config maxCTAs set to 4", "set by the program: maxCTAs=4"},
        {"Invalid value yes for NCCL_P2P_DISABLE, using default 0.",
         "variable: NCCL_P2P_DISABLE=yes is not understood: 0."},
        // plugins of clouds, and what they set for NCCL
        {"NET/OFI Initializing aws-ofi-nccl 1.14.0",
         "network plugin: aws-ofi-nccl 1.14.0"},
        {"NET/OFI Using aws-ofi-nccl 1.4.0aws",
         "network plugin: aws-ofi-nccl 1.4.0aws"},
        {"P2P plugin IBext_v7", "network plugin: IBext_v7"},
        {"NET/OFI Selected Provider is efa (found 4 nics)",
         "network devices: efa (found 4 nics)"},
        {"NET/OFI Selected provider is efa, fabric is efa-direct (found 16 "
         "nics)",
         "network devices: efa, fabric is efa-direct (found 16 nics)"},
        {"NET/OFI Using transport protocol RDMA (platform set)",
         "network devices: protocol RDMA"},
        {"NET/OFI Setting NCCL_PROTO to \"simple\"",
         "variable: NCCL_PROTO=simple, set by the plugin OFI"},
        {"NET/OFI Running on a platform, Setting NCCL_TOPO_FILE environment "
         "variable to /x.xml",
         "variable: NCCL_TOPO_FILE=/x.xml, set by the plugin OFI"},
        {"GPU Direct RDMA Enabled for GPU 3b000 / HCA 0 (distance 4 <= 4), "
         "read 0",
         "GPUDirect RDMA: on"},
        {"TUNER/Plugin: Using internal tuner plugin.", "tuner: NCCL's own"},
        {"TUNER/Plugin: Failed to find ncclTunerPlugin_v2 symbol, using "
         "internal tuner instead.",
         "tuner: NCCL's own"},
        {"TUNER/Plugin: Using tuner plugin mine", "tuner: mine"},
        {"TUNER/Plugin: Using mine (v5)", "tuner: mine (v5)"},
        {"TUNER/Plugin: Could not find: a.so b.so. Using internal tuner "
         "plugin.",
         "tuner plugin: none: a.so b.so"},
        {"TUNER/Plugin: Could not find: libnccl-tuner.so",
         "tuner plugin: none: libnccl-tuner.so"},
        {"External tuner plugin mine is unsupported",
         "tuner plugin: none: mine"},
        {"Using network AWS Libfabric", "network: AWS Libfabric"},
        {"NET/Plugin: Loaded net plugin Libfabric (v11)",
         "network plugin: Libfabric (v11)"},
        {"NET/IB : No device found.", "InfiniBand: no device found."},
        {"NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
         "GPUDirect RDMA: Disabled for devices of IB"},
        {"=== System : maxBw 370.8 totalBw 450.0 ===",
         "links of a GPU: 450 GB/s"},
        {"Pattern 4, crossNic 0, nChannels 12, bw 30.000000/20.500000, type "
         "NVL/PIX, sameChannels 1",
         "ring graph: 12 channels of 30 GB/s within a node (NVL), 20.5 to the "
         "network (PIX)"},
        {"Pattern 3, crossNic 2, nChannels 2, bw 30.000000/20.500000, type "
         "SYS/PXN, sameChannels 0",
         "tree graph: 2 channels of 30 GB/s within a node (SYS), 20.5 to the "
         "network (PXN)"},
        {"24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p "
         "channels, 2 p2p channels per peer",
         "channels: 24 of collectives, 16 of NVLS, 32 point to point, 2 a "
         "peer"},
        {"Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer/read",
         "transport: P2P/direct pointer/read"},
        {"Channel 03 : 0[0] -> 1[1] via SHM/direct/direct",
         "transport: SHM/direct/direct"},
        {"Channel 00/0 : 7[7] -> 8[0] [send] via NET/AWS Libfabric/3(2)/GDRDMA",
         "transport: NET/AWS Libfabric/GDRDMA, PXN"},
        {"Channel 01/1 : 8[0] -> 0[0] [receive] via NET/Socket/1/Shared",
         "transport: NET/Socket/Shared"},
        {"Channel 00/24 : 0 1 2 3", "ring of channel 0: 0 1 2 3"},
        {"Connected all rings, use ring PXN 0 GDR 1",
         "rings: PXN off, GPUDirect RDMA on"},
        {"Check P2P Type intraNodeP2pSupport 0 directMode 0",
         "direct access in a node: off"},
        {"Check P2P Type isAllDirectP2p 1 directMode 0 isAllCudaP2p 1",
         "direct access in a node: on"},
        {"P2P is disabled between connected GPUs 1 and 0. You can repress",
         "no direct access: connected GPUs 1 and 0"},
        {"NVLS multicast support is available on dev 3 (NVLS_NCHANNELS 16)",
         "NVLS: available"},
        {"NVLS multicast support is not available on dev 3",
         "NVLS: not available"},
        {"Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 "
         ": CUDA error 401",
         "NVLS: lost: memory of size 2097152 : CUDA error 401"},
        {"MNNVL 1 cliqueId 3f cliqueSize 72 cliqueRank 5",
         "NVLink between nodes: 72 GPUs"},
        {"    AllReduce |     6.8/  39.9 |    14.0/ 150.0 |     8.4/ 163.9 |   "
         "  6.6/  50.0 |    14.0/   0.0 |     8.4/ 187.5 |     0.0/   0.0 |",
         "GB/s by NCCL's model: tree LL 39.9, LL128 150.0, Simple 163.9; ring "
         "LL 50.0, LL128 0.0, Simple 187.5"},
        {"1048576 Bytes -> Algo 1 proto 2 time 86.968750",
         "null 1048576 ring simple null"},
        {"ReduceScatter: 1024 Bytes -> Algo 4 proto 2 time 8.5",
         "reducescatter 1024 nvls simple null"},
        {"AllReduce: 64 Bytes -> Algo TREE proto LL128 channel{Lo..Hi}={0..23}",
         "allreduce 64 tree ll128 0..23"},
        {"AllGather [Symmetric]: 64 Bytes -> Kernel AllGather_LLMC nchannels 8 "
         "nthreads 512 nWorks 1",
         "allgather 64 AllGather_LLMC null 8"},
        {"AllGather [Copy Engine]: 64 Bytes -> cudaMemcpy; CE synchronization "
         "with NVLS",
         "allgather 64 cudaMemcpy; null null"},
    };

    for (const auto &line : lines)
        EXPECT_THAT(Says({line.message}), ElementsAre(line.says))
            << line.message;
}

TEST(JobLog, JoinsWhatNccl2_31AskedAndAnswered)
{
    EXPECT_THAT(
        Says({"Input: { .comm = 0x1, .tuningMask = 0x7, .func = AllReduce, "
              ".redOp = 0, .nBytes = 4096, .numPipesOps = 1 }",
              "Best tuning { .id = 3, .valid = 1, timeUs = 9.5,  .algo = RING, "
              ".proto = LL, .symKernelId = Count, .ceMethodId = 2, nChannels = "
              "4, maxChannels = 8, nWarps = 16, forced = 0 }"}),
        ElementsAre("allreduce 4096 ring ll 4"));
    EXPECT_THAT(Says({"Best tuning { .algo = RING, .proto = LL, .symKernelId = "
                      "Count, nChannels = 4, }"}),
                ElementsAre());
}

TEST(JobLog, LeavesColoursOut)
{
    EXPECT_THAT(Says({"\x1b[1;32mcudaDriverVersion 13010\x1b[0m",
                      "Using network IB\x1b["}),
                ElementsAre("CUDA driver: 13010", "network: IB"));
}

TEST(JobLog, TakesLinesThatWereTornForNothing)
{
    EXPECT_THAT(Says({"Channel 00/0 : 0[0] -> n1:10:11 [0] NCCL INFO Channel",
                      "24 coll chann", "Pattern 4, crossNic 0, nChannels ",
                      "NVLS multicast support is", "AllReduce: 64 Bytes -> ",
                      "Channel 00/0 : 0[0] -> 1[1] via SHM/dirn1:10:11 [0] x"}),
                ElementsAre());
    EXPECT_EQ("", Print("rank 0 of 8\nNCCL INF", true));
}

// Pairs of a communicator and what is said of it.
Lines Owners(const std::string &text)
{
    const std::regex row("\"what\":\\s*\"(NVLS|rings)\",\\s*\"says\":\\s*\"("
                         "?!unknown)[^\"]*\",\\s*\"communicator\":\\s*(\\w+)");
    const std::string json = Print(text, true);
    Lines owners;

    for (std::sregex_iterator i(json.begin(), json.end(), row), end; i != end;
         ++i)
        owners.push_back((*i)[1].str() + " " + (*i)[2].str());
    return owners;
}

TEST(JobLog, TellsWhoseLinesAre)
{
    const std::string first =
        "n:1:2 [0] NCCL INFO NVLS multicast support is available on dev 0\n"
        "n:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8\n"
        "n:1:9 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 1\n";
    const std::string second =
        "n:1:3 [0] NCCL INFO comm 0x2 rank 0 nRanks 2 nNodes 1 localRanks 2\n";

    EXPECT_THAT(Owners(first), ElementsAre("rings 1", "NVLS 1"));
    EXPECT_THAT(Owners(first + second), ElementsAre("NVLS 1", "rings null"));
}

// ---- any launcher, and ranks in any order ----

std::string ReadFile(const std::filesystem::path &path)
{
    std::ifstream in(path);
    std::stringstream text;

    text << in.rdbuf();
    return text.str();
}

// The answer without the numbers of lines.
std::string Answer(const std::string &text)
{
    return std::regex_replace(Print(text, true),
                              std::regex("\"line\":\\s*[0-9]+"), "\"line\": N");
}

class Launch : public testing::TestWithParam<std::filesystem::path>
{
};

// The lines of threads, each in its order, in an order that is drawn.
std::string Disturb(const std::string &text, std::mt19937 &random)
{
    static const char *const prefixes[] = {"",
                                           "0: ",
                                           "[1,3]<stdout>:",
                                           "[3] ",
                                           "p4 | ",
                                           "(Worker pid=7) ",
                                           "2026-01-01T00:00:00Z stdout F ",
                                           "rank3:",
                                           "\t",
                                           "> "};
    static const char *const others[] = {"step 3 loss 1.25",
                                         "",
                                         "Traceback (most recent call last):",
                                         "# 1024 256 float sum",
                                         "srun: warning: 24 coll channels",
                                         "libfabric:31:17:core:mr: failed",
                                         "n9:1 NCCL version"};
    const std::regex thread("([A-Za-z0-9._-]+:[0-9]+:[0-9]+) \\[");
    std::map<std::string, Lines> threads;
    std::stringstream in(text);
    std::string line, disturbed;

    while (std::getline(in, line)) {
        std::smatch found;
        const bool has = std::regex_search(line, found, thread);
        threads[has ? found[1].str() : ""].push_back(line);
    }
    std::vector<std::pair<std::string, size_t>> left; // thread, its next line
    std::map<std::string, std::string> prefix;
    for (const auto &t : threads) {
        left.emplace_back(t.first, 0);
        prefix[t.first] = prefixes[random() % std::size(prefixes)];
    }
    while (!left.empty()) {
        const size_t i = random() % left.size();
        auto &[name, next] = left[i];

        if (random() % 8 == 0)
            disturbed += std::string(others[random() % std::size(others)]) +
                         (random() % 2 == 0 ? "\r\n" : "\n");
        disturbed += prefix[name] + threads[name][next] + "\n";
        if (++next == threads[name].size())
            left.erase(left.begin() + static_cast<ptrdiff_t>(i));
    }
    return disturbed;
}

TEST_P(Launch, ChangesNoAnswer)
{
    const std::string text = ReadFile(GetParam());
    const std::string answer = Answer(text);
    std::mt19937 random(7);

    ASSERT_THAT(answer, HasSubstr("communicator"));
    for (int i = 0; i < 12; i++) {
        const std::string disturbed = Disturb(text, random);
        ASSERT_EQ(answer, Answer(disturbed)) << disturbed;
    }
}

std::vector<std::filesystem::path> Logs()
{
    std::vector<std::filesystem::path> logs;

    for (const auto &entry :
         std::filesystem::directory_iterator(STP_FIXTURES "/logs"))
        logs.push_back(entry.path());
    std::sort(logs.begin(), logs.end());
    return logs;
}

INSTANTIATE_TEST_SUITE_P(Any, Launch, testing::ValuesIn(Logs()),
                         [](const auto &tested) {
                             std::string name = tested.param.stem().string();
                             for (char &c : name)
                                 c = isalnum(static_cast<unsigned char>(c)) != 0
                                         ? c
                                         : '_';
                             return name;
                         });

} // namespace
