// Measurements in CSV and JSON: what they are of, and what comes back.
#include <cstring>

extern "C" {
#include "core/dtype.h"
}

#include "nccl_tuner_abi.h"
#include "report/measurements/measured_files.h"

namespace
{

using testing::HasSubstr;

constexpr char kShort[] = "collective,bytes,round,algorithm,protocol,nNodes,"
                          "nRanks,median_us,type,op,root,in_place,wrong\n";

constexpr char kHeader[] =
    "collective,bytes,round,algorithm,protocol,channels,nNodes,nRanks,iters,"
    "mean_us,median_us,p95_us,p99_us,min_us,ran_algorithm,ran_protocol,"
    "ran_channels,type,op,root,in_place,wrong,source,single_pass\n";

std::string Row(const std::string &rest)
{
    return kShort + ("allreduce,64,0,auto,auto,1,4,5," + rest) + "\n";
}

// ---- CSV ----
TEST_F(Measured, NeedOnlyTheColumnsWithoutDefaults)
{
    ASSERT_EQ(STP_OK, ReadCsv("median_us,nRanks,nNodes,protocol,algorithm,"
                              "round,bytes,collective\r\n\r\n"
                              "5.5,8,1,ll,tree,2,64,allreduce\r\n"))
        << err_.text;

    EXPECT_EQ("# test\n# machine: \n# gpu: \n# nccl: \n# backend: nccl\n" +
                  std::string(kHeader) +
                  "allreduce,64,2,tree,ll,0,1,8,1,5.500,5.500,,,"
                  "5.500,tree,ll,0,bf16,sum,0,0,,measured,0\n",
              Csv(data_));
}

TEST_F(Measured, FilesAreRoundsOfTheirOwn)
{
    const std::string file =
        Row("bf16,sum,0,0,") + "allreduce,64,1,auto,auto,1,4,5,f32,sum,0,0,\n";

    ASSERT_EQ(STP_OK, ReadCsv(file));
    ASSERT_EQ(STP_OK, ReadCsv(file));

    ASSERT_EQ(4u, data_.n_rows);
    for (unsigned i = 0; i < 4; i++)
        EXPECT_EQ(i, data_.rows[i].round);
}

TEST_F(Measured, NameTheirRunAndPolicyUnlessTheyAreOfSeveral)
{
    const struct {
        const char *files[2]; // their heads
        const char *run, *policy_hash;
    } cases[] = {
        {{"# run: 0a1b2c3d\n", "# run: 0a1b2c3d\n"}, "0a1b2c3d", ""},
        {{"# run: 0a1b2c3d\n# policy hash: 0123456789abcdef\n",
          "# run: 11111111\n# policy hash: 0123456789abcdef\n"},
         "",
         "0123456789abcdef"},
        {{"# run: 0a1b2c3d\n", ""}, "", ""},
        {{"", "# policy hash: 0123456789abcdef\n"}, "", ""},
    };
    for (const auto &c : cases) {
        stp_dataset_free(&data_);
        for (const char *head : c.files)
            ASSERT_EQ(STP_OK, ReadCsv(head + Row("bf16,sum,0,0,")));

        EXPECT_STREQ(c.run, data_.run);
        EXPECT_STREQ(c.policy_hash, data_.policy_hash);
        EXPECT_EQ(*c.run != '\0',
                  Csv(data_).find("# run: ") != std::string::npos);
    }
}

TEST_F(Measured, IsRefusedWithLineColumnAndWord)
{
#define SHORT                                                                  \
    "collective,bytes,round,algorithm,protocol,nNodes,nRanks,median_us\n"
    // clang-format off
    const struct {
        std::string text;
        unsigned line;
        unsigned column;
        const char *expected;
    } cases[] = {
        {"", 0, 0, "no measurements"},
        {SHORT, 1, 0, "no measurements"},
        {"collective,byts\n", 1, 12, "header with 'byts'"},
        {"bytes,bytes\n", 1, 7, "header with 'bytes'"},
        {"collective,bytes\n", 1, 1, "without the column round"},
        {SHORT "allreduce,64\n", 2, 1, "2 fields, expected 8"},
        {SHORT "alreduce,64,0,auto,auto,1,4,5\n", 2, 1, "collective 'alreduce', expected the name of a collective"},
        {SHORT "allreduce,-64,0,auto,auto,1,4,5\n", 2, 11, "bytes '-64', expected a number of bytes from 1 to 2^48"},
        {SHORT "allreduce,281474976710657,0,auto,auto,1,4,5\n", 2, 11, "bytes '281474976710657', expected"},
        {SHORT "allreduce,0,0,auto,auto,1,4,5\n", 2, 11, "bytes '0', expected"},
        {SHORT "allreduce,64,0,rnig,ll,1,4,5\n", 2, 16, "algorithm 'rnig', expected an algorithm, auto, or an arm that forces none"},
        {SHORT "allreduce,64,0,auto,auto,1,4,0\n", 2, 30, "median_us '0', expected a time above 0"},
        {SHORT "allreduce,64,0,auto,auto,1,4,nan\n", 2, 30, "median_us 'nan', expected a time above 0"},
        {SHORT "allreduce,64,0,auto,auto,1,0,5\n", 2, 28, "nRanks '0', expected a number from 1"},
        {Row("bf17,sum,0,0,"), 2, 32, "type 'bf17', expected i8, u8"},
        {Row("f32,add,0,0,"), 2, 36, "op 'add', expected sum, prod"},
        {Row("f32,sum,-1,0,"), 2, 40, "root '-1', expected a rank from 0"},
        {Row("f32,sum,0,2,"), 2, 42, "in_place '2', expected 0 or 1"},
        {Row("f32,sum,0,,"), 2, 42, "in_place '', expected 0 or 1"},
        {Row("f32,sum,0,0,-1"), 2, 44, "wrong '-1', expected a number of elements"},
        {SHORT "allreduce,64,0,auto,auto,1,4,\x1b[1m\n", 2, 30, "median_us '\\x1B[1m', expected a time above 0"},
    };
    // clang-format on

    for (const auto &c : cases) {
        SCOPED_TRACE(c.text);
        EXPECT_EQ(STP_ERR_SYNTAX, ReadCsv(c.text));
        EXPECT_EQ(c.line, err_.line);
        EXPECT_EQ(c.column, err_.column);
        EXPECT_THAT(err_.text, HasSubstr(c.expected));
        EXPECT_EQ(0u, data_.n_rows);
    }
}

TEST_F(Measured, GpusAndBackendsAreNotMixed)
{
    ASSERT_EQ(STP_OK, ReadCsv("# gpu: A\n# nccl: 2.28.9\n# backend: gloo\n" +
                              Row("f32,sum,0,0,")));

    EXPECT_EQ(STP_ERR_SYNTAX, ReadCsv("# gpu: A\n# nccl: 2.28.9\n"
                                      "# backend: mpi\n" +
                                      Row("f32,sum,0,0,")));
    EXPECT_STREQ("measured with backend mpi, expected gloo as in the file "
                 "before",
                 err_.text);
    EXPECT_EQ(STP_ERR_SYNTAX, ReadCsv("# gpu: B\n" + Row("f32,sum,0,0,")));
    EXPECT_STREQ("measured on 'B' with NCCL , expected 'A' with NCCL 2.28.9 as "
                 "in the file before",
                 err_.text);
    EXPECT_EQ(1u, data_.n_rows);
    EXPECT_STREQ("gloo", data_.backend);
}

// ---- arms ----

// A row of that arm, without a word of what NCCL ran.
std::string ArmRow(const std::string &arm)
{
    return "collective,bytes,round,algorithm,protocol,channels,nNodes,nRanks,"
           "median_us\nallreduce,64,0," +
           arm + ",1,4,5\n";
}

TEST_F(Measured, ArmsComeBackAsTheyWereWritten)
{
    const struct {
        const char *columns; // algorithm, protocol, channels
        const char *name;
    } cases[] = {
        {"auto,auto,0", "auto"},
        {"auto2,auto2,0", "auto2"},
        {"plugin,plugin,0", "plugin"},
        {"ring,ll128,0", "ring/ll128"},
        {"tree,ll,16", "tree/ll/16"},
        {"auto,simple,0", "simple"},
        {"auto,ll128,8", "ll128/8"},
        {"ring,auto,0", "ring"},
        {"nvls,auto,24", "nvls/24"},
        {"auto,auto,16", "auto/16"},
        {"sym,sym,0", "sym"},
        {"ctas=8,ctas=8,0", "ctas=8"},
        {"ce/cga=0,ce/cga=0,0", "ce/cga=0"},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        stp_dataset_free(&data_);
        ASSERT_EQ(STP_OK, ReadCsv(ArmRow(c.columns))) << err_.text;
        char name[STP_ARM_NAME];
        stp_arm_name(&data_.rows[0].arm, name);
        EXPECT_STREQ(c.name, name);
        EXPECT_THAT(Csv(data_), HasSubstr("allreduce,64,0," +
                                          std::string(c.columns) + ",1,4,1,"));
    }
}
TEST_F(Measured, ColumnsOfTwoArmsAreRefused)
{
    for (const char *arm : {"auto2,auto,0", "ring,plugin,0", "auto2,plugin,0",
                            "sym,auto,0", "sym,ce,0", "sym,sym/ctas=8,0"})
        EXPECT_EQ(STP_ERR_SYNTAX, ReadCsv(ArmRow(arm))) << arm;

    EXPECT_EQ(2u, err_.line);
    EXPECT_STREQ("algorithm and protocol are not of one arm, expected an arm "
                 "that forces none, such as auto2 or sym, in both columns or "
                 "in none",
                 err_.text);
}

const std::string kAll =
    "# test\n# machine: m\n# gpu: G\n# nccl: 2.28.9\n# backend: mpi\n" +
    std::string(kHeader) +
    "allgather,4096,0,auto,auto,0,1,4,20,10.500,10.250,11.000,12.000,9.125,"
    "ring,ll,24,bf16,none,0,0,,recorded,0\n"
    "reduce,6442450944,3,ring,ll128,16,2,8,1,8.500,8.250,9.000,9.500,7.125,"
    "ring,ll128,16,u8,max,7,1,12,measured,0\n"
    "allreduce,64,1,plugin,plugin,0,1,4,20,8.500,8.250,9.000,9.500,7.125,-,-,"
    "0,f64,avg,0,0,0,virtual,0\n"
    "allreduce,8,0,auto,auto,0,2,16,20,8.500,8.250,9.000,9.500,7.125,tree,"
    "simple,8,fp8e4m3,prod,0,0,,interpolated,0\n";

TEST_F(Measured, RowsComeBackAsTheyWereWritten)
{
    ASSERT_EQ(STP_OK, ReadCsv(kAll)) << err_.text;

    EXPECT_EQ(kAll, Csv(data_));
    EXPECT_EQ(uint64_t{6442450944}, data_.rows[1].n_bytes);
    EXPECT_EQ(STP_ARM_PLUGIN, data_.rows[2].arm.kind);
}
// Only where there are such arms, as others read these files, too.
TEST_F(Measured, KernelsChunksAndGraphsComeBackAsTheyWereWritten)
{
    const std::string with =
        "# test\n# machine: m\n# gpu: G\n"
        "# nccl: 2.30.7\n# backend: nccl\n" +
        std::string(kHeader).substr(0, strlen(kHeader) - 1) +
        ",chunk,ran_kernel,graph\n";
    const std::string times = "1,4,20,10.500,10.250,11.000,12.000,9.125,";
    const std::string rows =
        "allreduce,4096,0,sym,sym,0," + times +
        "-,-,0,bf16,sum,0,0,0,measured,0,0,AllReduce_AGxLL_R_sum_bf16,1\n" +
        "allgather,4096,0,ce,ce,0," + times +
        "-,-,0,bf16,none,0,0,0,measured,0,0,copy engines,0\n" +
        "allreduce,4096,0,ring,simple,0," + times +
        "ring,simple,16,bf16,sum,0,0,0,measured,0,131072,,0\n";

    ASSERT_EQ(STP_OK, ReadCsv(with + rows)) << err_.text;

    EXPECT_EQ(with + rows, Csv(data_));
    EXPECT_TRUE(data_.rows[0].graph);
    EXPECT_FALSE(data_.rows[1].graph);
    EXPECT_EQ(131072u, data_.rows[2].arm.chunk_bytes);
    EXPECT_STREQ("copy engines", data_.rows[1].ran_kernel);
    EXPECT_EQ(STP_ERR_SYNTAX,
              ReadCsv(with + "allreduce,8,0,sym,sym,0," + times +
                      "-,-,0,bf16,sum,0,0,0,measured,0,0," +
                      std::string(STP_KERNEL_NAME, 'x') + ",0\n"));
    EXPECT_THAT(err_.text, HasSubstr("fewer than 40 bytes"));
}
TEST_F(Measured, JsonIsForOtherPrograms)
{
    ASSERT_EQ(STP_OK, ReadCsv(kAll)) << err_.text;
    const std::string json = Json(data_);
    stp_dataset_free(&data_);

    EXPECT_EQ(STP_ERR_SYNTAX, ReadCsv(json));
    EXPECT_STREQ("JSON of `steptune sweep`, which other programs read, "
                 "expected its CSV: -o FILE.csv",
                 err_.text);
}

TEST_F(Measured, ATimeThatNoClockCanTellComesBackToo)
{
    ASSERT_EQ(STP_OK, ReadCsv("collective,bytes,round,algorithm,protocol,"
                              "nNodes,nRanks,median_us,min_us\n"
                              "allreduce,64,0,tree,ll,1,8,0.000999,7.25e-10\n"))
        << err_.text;
    const std::string csv = Csv(data_);
    EXPECT_THAT(csv, HasSubstr(",0.000999,0.000999,,,7.25e-10,tree,"));
    stp_dataset_free(&data_);
    ASSERT_EQ(STP_OK, ReadCsv(csv)) << err_.text;
    EXPECT_EQ(csv, Csv(data_));
}

} // namespace
