// Decisions and times of mock NCCL, as the files of fixtures/mock_nccl list
// them. The last column of a row is what the others lead to. With STP_WRITE=1
// in the environment the test writes that column anew.
#include <algorithm>
#include <cstdlib>

#include "mock_nccl/comm/mock_collnet_machine.h"
#include "support/mock_script.h"
#include "support/read_file.h"

using namespace mock_test;

namespace
{

// Compares the last field of each row with the result of the others, or
// replaces it.
template <class Result>
void ExpectRows(const std::string &file, size_t n_least, Result result)
{
    const std::string path = STP_FIXTURES "/mock_nccl/" + file;
    std::ifstream in(path);
    std::string written;
    size_t n = 0;

    for (std::string line; std::getline(in, line); n++) {
        const bool is_row = line[0] != '#' && n > 1;
        const size_t last = line.rfind(',') + 1;
        const std::string got =
            is_row ? result(Split(line.substr(0, last), ',')) : "";
        if (is_row && std::getenv("STP_WRITE") == nullptr) {
            EXPECT_EQ(line.substr(last), got) << path << ":" << n + 1;
        }
        written += (is_row ? line.substr(0, last) + got : line) + "\n";
    }
    EXPECT_LT(n_least, n) << path;
    if (std::getenv("STP_WRITE") != nullptr)
        std::ofstream(path) << written;
}

const char *Word(const char *const *words, int i, int n)
{
    return i >= 0 && i < n ? words[i] : "-";
}

std::string Pair(int algo, int proto)
{
    return std::string(Word(kAlgos, algo, NCCL_NUM_ALGORITHMS)) + "/" +
           Word(kProtos, proto, NCCL_NUM_PROTOCOLS);
}

// A machine, kept for the next row, of another number of ranks unless it is 0.
// "collnet 100 arm" is one with CollNet, its GPUs' compute capability and CPUs.
const Machine &MachineOf(const std::string &name, int n_ranks)
{
    static std::map<std::pair<std::string, int>, Machine> machines;
    Machine &machine = machines[{name, n_ranks}];
    const std::vector<std::string> words = Split(name, ' ');
    if (!machine)
        machine = n_ranks != 0       ? Resized(MachineOf(name, 0), n_ranks)
                  : words.size() < 3 ? LoadMachine(name)
                                     : CollNetMachine(words[1], words[2]);
    return machine;
}

// The call that "allreduce 1024 e4 avg k1 r2 both fp8 reg" stands for: element
// size, reduction, kind, root, windows and settings.
mock_call CallOf(const std::string &text)
{
    const std::vector<std::string> words = Split(text, ' ');
    mock_call call = Call(static_cast<ncclFunc_t>(Find(kColls, words[0])),
                          std::stoull(words[1]));
    for (const std::string &word : words) {
        if (word[0] == 'e' && word.size() == 2)
            call.element_size = word[1] - '0';
        else if (word[0] == 'k' && word.size() == 2)
            call.kind = word[1] - '0';
        else if (word[0] == 'r' && word.size() == 2)
            call.root = word[1] - '0';
        call.reg_buff |= word == "reg";
        call.fp8 |= word == "fp8";
        call.no_nvls |= word == "no_nvls";
        call.no_pat |= word == "no_pat";
        call.no_collnet |= word == "no_collnet";
        const char *windows[] = {"none", "both", "send", "recv"};
        const char *reductions[] = {"sum", "avg", "other"};
        if (Find(windows, word) >= 0)
            call.windows = static_cast<mock_windows>(Find(windows, word));
        if (Find(reductions, word) >= 0)
            call.reduction =
                static_cast<mock_reduction>(Find(reductions, word));
    }
    return call;
}

// Makes the tuner answer as "ring/simple n4 c65536" says: with a pair, channels
// and a chunk. It notes in 'questions' what it is asked.
void SetTuner(const std::string &text, std::string *questions)
{
    int algo = -1, proto = -1, n_channels = 0;
    size_t chunk = 0;
    for (const std::string &word : Split(text, ' ')) {
        const std::vector<std::string> pair = Split(word, '/');
        if (pair.size() == 2)
            algo = Find(kAlgos, pair[0]), proto = Find(kProtos, pair[1]);
        else if (word[0] == 'n')
            n_channels = std::stoi(word.substr(1));
        else if (word[0] == 'c')
            chunk = std::stoull(word.substr(1));
    }
    on_ask = [=](const Asked &asked) {
        *questions += std::string(kColls[asked.coll]) + ":" +
                      std::to_string(asked.n_bytes) + "x" +
                      std::to_string(asked.n_pipe_ops) +
                      (asked.reg_buff ? "reg " : " ");
        if (asked.table == nullptr && algo >= 0)
            *asked.algo = algo, *asked.proto = proto;
        else if (algo >= 0 && asked.table[algo][proto] >= 0)
            asked.table[algo][proto] = 0;
        if (n_channels != 0)
            *asked.n_channels = n_channels;
        return ncclSuccess;
    };
    chunk_script = [=](size_t n_bytes, size_t *size) {
        *questions += "chunk:" + std::to_string(n_bytes) + "=" +
                      std::to_string(*size) + " ";
        if (chunk != 0)
            *size = chunk;
        return ncclSuccess;
    };
}

mock_nccl_options OptionsOf(const std::string &version, const std::string &text,
                            std::string *algo, std::string *proto)
{
    mock_nccl_options options =
        WithScript(version.c_str(), version < "2.22"   ? 2
                                    : version < "2.24" ? 3
                                    : version < "2.28" ? 4
                                    : version < "2.30" ? 5
                                                       : 6);
    for (const std::string &word : Split(text, ' ')) {
        const std::vector<std::string> pair = Split(word, '=');
        if (pair[0] == "algo")
            options.algo = (*algo = pair[1]).c_str();
        if (pair[0] == "proto")
            options.proto = (*proto = pair[1]).c_str();
        options.collnet |= word == "collnet";
        options.zero_ctas |= word == "zero_ctas";
        options.rearch |= word == "rearch";
    }
    return options;
}

// The bits of a table as a number.
std::string HashOf(const mock_table &table)
{
    uint64_t hash = 14695981039346656037u;
    char text[32];
    for (const auto &row : table)
        for (const float entry : row) {
            std::snprintf(text, sizeof(text), "%.9g", (double)entry);
            for (const char *c = text; *c != '\0'; c++)
                hash = (hash ^ (unsigned char)*c) * 1099511628211u;
        }
    std::snprintf(text, sizeof(text), "%08x", (unsigned)(hash >> 32 ^ hash));
    return text;
}

TEST(Golden, DecisionsAreThoseOfTheFile)
{
    ExpectRows("decisions.csv", 1500, [](const std::vector<std::string> &row) {
        std::string questions, algo, proto;
        const mock_nccl_options options =
            OptionsOf(row[0], row[3], &algo, &proto);
        const bool is_graph = row[3].find("graph") != std::string::npos;
        std::vector<mock_call> calls;
        for (const std::string &call : Split(row[5], '+'))
            calls.push_back(CallOf(call));
        std::vector<mock_outcome> outcomes(calls.size());
        SetTuner(row[4], &questions);
        Nccl nccl = MakeNccl(options);
        Comm comm = MakeComm(nccl, MachineOf(row[1], std::stoi(row[2])));
        mock_cuda_graph *graph = nullptr;

        const ncclResult_t rc =
            is_graph ? mock_comm_capture(comm.get(), calls.data(), calls.size(),
                                         &graph)
                     : mock_comm_group(comm.get(), calls.data(), calls.size(),
                                       outcomes.data());
        if (graph != nullptr)
            mock_graph_launch(graph, outcomes.data());
        mock_graph_destroy(graph);

        std::string got = questions;
        for (const mock_outcome &o : outcomes) {
            if (rc != ncclSuccess)
                break;
            got += "| " + Pair(o.algo, o.proto) + " " +
                   std::to_string(o.n_channels) + "@" +
                   std::to_string(o.first_channel) + " " +
                   std::to_string(o.tuned_channels) +
                   (o.asked ? " asked " : " ") +
                   (o.kernel != nullptr ? std::string(o.kernel) + " " : "") +
                   HashOf(o.cost);
        }
        ForgetScript();
        if (rc != ncclSuccess)
            got += std::string("error: ") + mock_last_error();
        std::replace(got.begin(), got.end(), ',', ';');
        return got;
    });
}

const char *const kSources[] = {"recorded", "interpolated", "virtual",
                                "modelled"};

TEST(Golden, TimesAreThoseOfTheFile)
{
    ExpectRows("times.csv", 1000, [](const std::vector<std::string> &row) {
        const Machine &machine = MachineOf(row[0], std::stoi(row[1]));
        const mock_run run{static_cast<ncclFunc_t>(Find(kColls, row[2])),
                           std::stoull(row[3]), std::stoi(row[4]),
                           std::stoi(row[5]), std::stoi(row[6])};
        const double round = std::stod(row[7]), iteration = std::stod(row[8]);
        mock_time time{};
        mock_overlap overlap{};
        const double compute_us = std::stod(row[10]);
        const int source_of_time = row[9] == "alone" || row[9] == "sequential";
        const mock_mode mode =
            row[9] == "fsdp" ? MOCK_MODE_FSDP : MOCK_MODE_OVERLAP;
        char text[96];

        const ncclResult_t rc =
            row[9] == "alone" ? mock_machine_time(machine.get(), &run, round,
                                                  iteration, &time)
            : row[9] == "sequential"
                ? mock_machine_time_after(machine.get(), &run, compute_us,
                                          round, iteration, &time)
                : mock_machine_overlap(machine.get(), &run, mode, compute_us,
                                       round, iteration, &overlap);
        if (!source_of_time) {
            time.us = mock_iteration_us(mode, &overlap, compute_us, 3);
            time.source = overlap.source;
            time.is_single_pass = overlap.is_single_pass;
        }
        std::snprintf(text, sizeof(text), "%.9g %s%s%s%s", time.us,
                      kSources[time.source],
                      time.is_single_pass ? " single_pass" : "",
                      time.kernel != nullptr && *time.kernel != '\0' ? " " : "",
                      time.kernel != nullptr ? time.kernel : "");
        return rc == ncclSuccess ? std::string(text) : std::string("error");
    });
}

} // namespace
