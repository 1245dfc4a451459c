// Readers of traces: ours and PyTorch's.
#include <cstdlib>
#include <filesystem>

#include "analyse/traces/trace_words.h"

#include "support/blocks.h"
#include "support/temporary_folder.h"

namespace
{

using namespace testing;

const std::string kTraces = STP_FIXTURES "/traces/";

/* ---- what they read ---- */

// Each case is a file of theirs, or a text of its own; a format is expected,
// and its communicators, rows and what is skipped.
TEST(Traces, AreReadWithTheirGroupsComputeAndSteps)
{
    for (const Block &c : ReadBlocks(STP_FIXTURES "/traces_read.txt")) {
        SCOPED_TRACE(c.head);
        TraceUnderTest trace;
        std::vector<std::string> words;

        EXPECT_EQ(
            "", trace.Read(c.text.empty() ? TextOf(kTraces + c.head) : c.text));
        words.push_back(trace.get().format);
        for (const std::string &comm : trace.Comms())
            words.push_back("comm " + comm);
        for (const std::string &row : trace.Rows())
            words.push_back(row);
        for (const std::string &skip : trace.Skips())
            words.push_back("skip " + skip);
        EXPECT_EQ(c.expected, words);
    }
}

TEST(Traces, CompressedOnesAreTheSame)
{
    TraceUnderTest plain, compressed;

    ASSERT_EQ("", plain.Load(kTraces + "torch_ddp_et.json"));
    ASSERT_EQ("", compressed.Load(kTraces + "torch_ddp_et.json.gz"));

    EXPECT_EQ(plain.Rows(), compressed.Rows());
    EXPECT_EQ(plain.Comms(), compressed.Comms());
    EXPECT_EQ(plain.Skips(), compressed.Skips());
}

TEST(Traces, AllFixturesAreRead)
{
    for (const auto &file : std::filesystem::directory_iterator(kTraces)) {
        TraceUnderTest trace;

        if (file.path().filename() == "README")
            continue;
        EXPECT_EQ("", trace.Load(file.path())) << file.path();
    }
}

/* ---- what they refuse ---- */

TEST(Traces, SayLineAndWordOfWhatTheyRefuse)
{
    std::vector<Block> cases = ReadBlocks(STP_FIXTURES "/traces_refused.txt");
    cases.push_back(
        {"no collectives, expected a header line and rows", "", {}});
    cases.push_back({"a tar archive, expected a trace: unpack it, and name a "
                     "file of it",
                     std::string(257, 'x') + "ustar" + std::string(300, '\0'),
                     {}});
    cases.push_back({"1:2: this is not JSON", "{", {}});
    cases.push_back({"2:12: this is not JSON", "{\n \"schema\": x}", {}});

    for (const Block &c : cases) {
        SCOPED_TRACE(c.text);
        TraceUnderTest trace;

        EXPECT_THAT(trace.Read(c.text), StartsWith(c.head));
        EXPECT_EQ(0u, trace.get().n_rows) << "the trace is left as it was";
    }
}

// Cut, or with a byte changed, a file is read or refused, and nothing else.
TEST(Traces, SurviveDamage)
{
    for (const char *name : {"groups.csv", "torch_ddp_et.json"}) {
        const std::string whole = TextOf(kTraces + name);
        unsigned random = 1;

        for (int i = 0; i < 300; i++) {
            std::string text = whole;
            TraceUnderTest trace;

            random = random * 1103515245 + 12345;
            const size_t at = random / 65536 % text.size();
            if (i % 2 == 0)
                text.resize(at);
            else
                text[at] = "0-9,/x{\"\n"[random / 7 % 9];
            trace.Read(text);
        }
    }
}

TEST(Traces, DamagedGzipIsRefused)
{
    const std::string whole = TextOf(kTraces + "torch_ddp_et.json.gz");
    const TemporaryFolder folder;
    const std::string path = folder.Path("damaged.json.gz");

    for (size_t n : {3ul, 20ul, whole.size() / 2, whole.size() - 1}) {
        TraceUnderTest trace;

        std::ofstream(path, std::ios::binary) << whole.substr(0, n);
        EXPECT_THAT(trace.Load(path), HasSubstr("cut or damaged")) << n;
    }
}

} // namespace
