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

struct Read {
    const char *name;
    std::string text;
    const char *format;
    std::vector<std::string> comms;
    std::vector<std::string> rows;
    std::vector<std::string> skips;
};

std::vector<Read> Reads()
{
    return {
        {"OurColors",
         TextOf(kTraces + "groups.csv"),
         "steptune CSV",
         {"world: 0", "tp: 2 of world, 0011", "dp: 2 of world, 0101"},
         {"0:broadcast:1048576:bf16@world", "1:gemm:2048x4096x4096:bf16",
          "1:allreduce:16777216:bf16@tp", "1:gemm:2048x4096x2048:bf16",
          "/1:reducescatter:33554432:bf16@dp", "1:us:400",
          "1:allreduce:16777216:bf16@tp", "/1:allgather:33554432:bf16@dp",
          "<1:allreduce:4:f32@world"},
         {}},
        {"OursAsRecorded",
         "collective,bytes,begin_ns,end_ns,t_ns,process,graph\n"
         "allreduce,8,1000,2000,5,1,0\n"
         "allreduce,8,12500,13000,6,1,0\n"
         "allreduce,8,13500,14000,6,1,0\n" // less than 1 us
         "allreduce,8,,,6,1,0\n"
         "allreduce,8,9014000,9015000,6,1,0\n",
         "steptune CSV",
         {": 0"},
         {"1:allreduce:8:bf16@", "1:us:10.5", "1:allreduce:8:bf16@",
          "1:allreduce:8:bf16@", "1:allreduce:8:bf16@", "1:allreduce:8:bf16@"},
         {}},
        {"OursWithLongCompute",
         "collective,bytes,begin_ns,end_ns\n"
         "allreduce,8,1,1000\n"
         "allreduce,8,10001000,10002000\n",
         "steptune CSV",
         {": 0"},
         {"1:allreduce:8:bf16@", "1:us:2000", "1:us:2000", "1:us:2000",
          "1:us:2000", "1:us:2000", "1:allreduce:8:bf16@"},
         {}},
        {"RanksOfAllKinds",
         "collective,bytes,comm,create,ranks\n"
         "allreduce,8,a,init,\n"
         "allreduce,8,b,split a,0-3\n"
         "allreduce,8,c,split a,6-0:1\n",
         nullptr,
         {},
         {},
         {}},
        {"ExecutionTrace",
         TextOf(kTraces + "torch_ddp_et.json"),
         "execution trace",
         {"group 0: 2"},
         {"/1:broadcast:424:i64@group 0",
          "<1:gemm:401408x64x147:f32",
          "1:gemm:100352x128x576:f32",
          "1:gemm:32x1000x128:f32",
          "1:gemm:32x128x1000:f32",
          "1:gemm:1000x128x32:f32",
          "/1:allreduce:8196000:f32@group 0",
          "1:gemm:100352x576x128:f32",
          "1:gemm:128x576x100352:f32",
          "/1:allreduce:31502336:f32@group 0",
          "1:gemm:64x147x401408:f32",
          "/1:allreduce:9724160:f32@group 0",
          "</2:broadcast:424:i64@group 0",
          "<2:gemm:401408x64x147:f32",
          "2:gemm:100352x128x576:f32",
          "2:gemm:32x1000x128:f32",
          "2:gemm:32x128x1000:f32",
          "2:gemm:1000x128x32:f32",
          "/2:allreduce:8196000:f32@group 0",
          "2:gemm:100352x576x128:f32",
          "2:gemm:128x576x100352:f32",
          "/2:allreduce:31502336:f32@group 0",
          "2:gemm:64x147x401408:f32",
          "/2:allreduce:9724160:f32@group 0"},
         {"2 x aten::relu_ from line 36",
          "2 x aten::_foreach_add_ from line 102"}},
        {"ExecutionTraceOfSchema10",
         "{\"schema\": \"1.0.1\", \"nodes\": [\n"
         "{\"id\": 2, \"name\": \"aten::bmm\", \"parent\": 1,\n"
         " \"inputs\": [[1,2,0,64,2,\"cuda:0\"], [3,4,0,64,2,\"cuda:0\"]],\n"
         " \"input_shapes\": [[2,4,8],[2,8,4]],\n"
         " \"input_types\": [\"Tensor(c10::Half)\", \"Tensor(c10::Half)\"],\n"
         " \"outputs\": [[5,6,0,32,2,\"cuda:0\"]]},\n"
         "{\"id\": 4, \"name\": \"record_param_comms\", \"parent\": 1,\n"
         " \"inputs\": [[[5,6,0,32,2,\"cuda:0\"]], 12, 777, 0, "
         "\"_allgather_base\", [], [], 4],\n"
         " \"input_shapes\": [[[32]]], "
         "\"input_types\": [\"GenericList[Tensor(c10::BFloat16)]\"],\n"
         " \"outputs\": []},\n"
         "{\"id\": 3, \"name\": \"record_param_comms\", \"parent\": 1,\n"
         " \"inputs\": [[[5,6,0,32,2,\"cuda:0\"]], 12, 777, 0, "
         "\"all_to_all\", [], [], 4],\n"
         " \"input_types\": [\"GenericList[Tensor(float)]\"]}]}",
         "execution trace",
         {"world: 0", "group 777: 4 of world, 1 apart"},
         {"1:gemm:8x4x8:f16", "/1:allgather:256:bf16@group 777"},
         {"1 x all_to_all from line 11"}},
    };
}

TEST(Traces, AreReadWithTheirGroupsComputeAndSteps)
{
    for (const Read &c : Reads()) {
        SCOPED_TRACE(c.name);
        TraceUnderTest trace;
        const std::string why = trace.Read(c.text);

        if (c.format == nullptr) {
            EXPECT_THAT(why, HasSubstr("expected ranks"));
            continue;
        }
        EXPECT_EQ("", why);
        EXPECT_STREQ(c.format, trace.get().format);
        EXPECT_THAT(trace.Comms(), ElementsAreArray(c.comms));
        EXPECT_THAT(trace.Rows(), ElementsAreArray(c.rows));
        EXPECT_THAT(trace.Skips(), ElementsAreArray(c.skips));
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
