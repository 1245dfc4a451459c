// Readers of traces: ours and PyTorch's.
#include "analyse/traces/trace_words.h"

#include <zlib.h>

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

        EXPECT_EQ("", trace.Read(c.text.empty() ? ReadFile(kTraces + c.head)
                                                : c.text));
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
    cases.push_back({"an archive, expected a trace: unpack it, and name a file "
                     "of it",
                     std::string(257, 'x') + "ustar" + std::string(300, '\0'),
                     {}});
    cases.push_back({"a pickle, as PyTorch's flight recorder dumps it, "
                     "expected JSON: python3 -c",
                     "\x80\2}q\1.",
                     {}});
    cases.push_back({"an archive", "PK\3\4", {}});

    for (const Block &c : cases) {
        SCOPED_TRACE(c.text);
        TraceUnderTest trace;

        EXPECT_THAT(trace.Read(c.text), StartsWith(c.head));
        EXPECT_EQ(0u, trace.get().n_rows) << "the trace is left as it was";
    }
}

// A part that gzip cannot decompress is left out, and a line of a table that it
// ends within; the table is stored as it is, so that a cut file ends where it
// does.
TEST(Traces, OfDamagedGzipAreReadUpToThere)
{
    const std::string table = "collective,bytes\nallreduce,8\nallreduce,1048";
    const TemporaryFolder folder;
    const std::string path = folder.Path("damaged.gz");
    TraceUnderTest trace;

    gzFile file = gzopen(path.c_str(), "wb0");
    gzwrite(file, table.data(), unsigned(table.size()));
    gzclose(file);
    for (const std::string &whole :
         {ReadFile(kTraces + "torch_ddp_et.json.gz"), ReadFile(path)})
        for (size_t n : {3UL, 20UL, whole.size() - 9, whole.size()}) {
            const bool is_whole = n == whole.size();
            std::ofstream(path, std::ios::binary) << whole.substr(0, n);
            const std::string why = trace.Load(path);
            SCOPED_TRACE(std::to_string(n) + why);

            EXPECT_EQ(n > 20, why.empty());
            EXPECT_EQ(n > 20 && !is_whole, trace.get().cut_line > 0);
            if (n > 20 && whole.size() < 200) {
                EXPECT_EQ(is_whole ? 2U : 1U, trace.get().n_rows);
            }
        }
}

TEST(Traces, OfAFolderAreThoseOfItsFirstFile)
{
    const TemporaryFolder folder;
    auto write = [&](const std::string &name, int bytes) {
        std::ofstream(folder.Path(name))
            << R"({"traceEvents": [{"cat": "kernel", "name": "nccl", "ts": 1, )"
               R"("args": {"dtype": "Char", "Collective name": "allreduce", )"
               R"("Group size": 4, "In msg nelems": )"
            << bytes << "}}]}";
    };
    TraceUnderTest trace;

    EXPECT_EQ("a folder without a file", trace.Load(folder.path()));
    std::ofstream(folder.Path("README")) << "text";
    EXPECT_THAT(trace.Load(folder.path()), HasSubstr("another format"));
    write("rank10", 8);
    write("rank9", 16);
    ASSERT_EQ("", trace.Load(folder.path()));
    EXPECT_STREQ("rank9", trace.get().file);
    EXPECT_THAT(trace.Rows(), ElementsAre("/1:allreduce:16:i8@group "));
}

} // namespace
