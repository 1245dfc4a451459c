// NCCL's log: lines of all versions, and whatever stands before and between
// them.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <regex>

#include "report/dressed.h"
#include "support/written.h"

extern "C" {
#include "report/logs/job_log_facts.h"
#include "report/logs/job_log_machine.h"
}

namespace
{

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Lines = std::vector<std::string>;

// All that is printed of a log; "" if it is none.
std::string Print(const std::string &text, bool is_json)
{
    stp_job_log log{};
    const stp_diagnosis findings{};
    stp_error err{};
    char *own = strndup(text.data(), text.size());

    if (stp_job_log_read(own, text.size(), &log, &err) != STP_OK) {
        free(own); // it is the caller's still
        return "";
    }
    const std::string all = Written(
        [&](FILE *fp) { stp_print_job_log(&log, &findings, is_json, fp); });
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
    std::ifstream in(STP_FIXTURES "/log_lines.txt");
    Lines messages;
    int n_read = 0;

    for (std::string line; std::getline(in, line);)
        if (line.rfind("-- ", 0) == 0) {
            EXPECT_THAT(Says(messages), ElementsAre(line.substr(3)));
            messages.clear();
            n_read++;
        } else {
            messages.push_back(line);
        }
    EXPECT_LT(50, n_read);
    EXPECT_THAT(Says({"\x1b[1;32mcudaDriverVersion 13010\x1b[0m",
                      "Using network IB\x1b["}),
                ElementsAre("CUDA driver: 13010", "network: IB"));
    EXPECT_THAT(Print("INFO pynccl.py:69] vLLM is using nccl==2.28.9\n"
                      "n:1:2 [0] NCCL INFO x\n[Segmentation fault, core]\n",
                      false),
                AllOf(HasSubstr("2.28.9"), Not(HasSubstr("failure"))));
}

TEST(JobLog, TakesLinesThatWereTornForNothing)
{
    EXPECT_THAT(Says({"Channel 00/0 : 0[0] -> n1:10:11 [0] NCCL INFO Channel",
                      "24 coll chann", "Pattern 4, crossNic 0, nChannels ",
                      "NVLS multicast support is", "AllReduce: 64 Bytes -> ",
                      "AllReduce | 0/0 | 0/0 | 0/0 | 0/0 | 0/0 | 24/240 |",
                      "Best tuning { .algo = RING, .proto = LL, .symKernelId = "
                      "Count, nChannels = 4, }", // which was not asked
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

// The answer without the numbers of lines.
std::string Answer(const std::string &text)
{
    return std::regex_replace(Print(text, true),
                              std::regex("\"line\":\\s*[0-9]+"), "\"line\": N");
}

using Launch = testing::TestWithParam<std::filesystem::path>;

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
    std::string disturbed;

    for (const std::string &line : SplitLines(text)) {
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

// The text in a terminal of so many columns.
std::string Wrapped(const std::string &text, size_t width)
{
    std::string wrapped;

    for (std::string all : SplitLines(text)) {
        for (; all.size() > width; all.erase(0, width))
            wrapped += all.substr(0, width) + "\n";
        wrapped += all + "\n";
    }
    return wrapped;
}

TEST_P(Launch, ChangesNoAnswer)
{
    const std::string text = ReadFile(GetParam());
    const std::string answer = Answer(text);
    std::mt19937 random(7);

    for (int how = 0; how < kDresses; how++)
        EXPECT_EQ(answer, Answer(Dressed(text, how))) << Dressed(text, how);
    EXPECT_EQ(answer, Answer(Wrapped(text, 132)));

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
