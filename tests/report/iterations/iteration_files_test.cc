// The files of iterations: what stands in them, and in which folder.
#include "report/iterations/iterations_by_hand.h"

#include <sys/stat.h>
#include <unistd.h>

namespace
{

using namespace by_hand;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
namespace fs = std::filesystem;

using IterationFiles = IterationFolder;

// ---- times ----

TEST_F(IterationFiles, TimesAreMillisecondsInTheirOrder)
{
    Iterations none, its;
    AddOverlap(its);

    Save(none);
    EXPECT_THAT(Files(),
                ElementsAre("rounds.csv", "summary.json", "summary.md"));
    Save(its);

    EXPECT_EQ("1.200000\n1.000000\n1.100000\n1.100000\n",
              Read("iteration_times_auto.txt"));
    EXPECT_EQ("1.000000\n0.950000\n1.050000\n1.000000\n",
              Read("iteration_times_ll128.txt"));
    EXPECT_EQ("1.300000\n", Read("iteration_times_ring-simple-16.txt"));
    EXPECT_THAT(Files(),
                ElementsAre("iteration_times_auto.txt",
                            "iteration_times_ll128.txt",
                            "iteration_times_ring-simple-16.txt", "rounds.csv",
                            "summary.json", "summary.md"));
}
const struct {
    const char *name;
    int mode, compute, coll;
    uint64_t n_bytes;
    double ratio;
} kNames[] = {
    {"overlap_8M_ratio1_layers8", STP_MODE_OVERLAP, STP_COMPUTE_GEMM,
     ncclFuncAllReduce, 8 << 20, 1},
    {"fsdp_1536K_ratio0.25_layers8", STP_MODE_FSDP, STP_COMPUTE_GEMM,
     ncclFuncAllGather, 1536 << 10, 0.25},
    {"sequential_training_1000_ratio1_layers8", STP_MODE_SEQUENTIAL,
     STP_COMPUTE_TRAINING, ncclFuncAllReduce, 1000, 1},
    {"overlap_allgather_6G_gemm4096x2048x1024_layers8", STP_MODE_OVERLAP,
     STP_COMPUTE_GEMM, ncclFuncAllGather, 6ull << 30, 0},
};

TEST(IterationNames, SayModeSizeAndWhatIsUnusual)
{
    for (const auto &c : kNames) {
        Iterations its;
        stp_iteration_setting &s = its.Setting(c.mode, c.n_bytes, c.ratio);
        s.like.work.compute = c.compute;
        s.like.coll = c.coll;
        char name[STP_SETTING_NAME];

        stp_iteration_setting_name(&s, true, name);

        EXPECT_STREQ(c.name, name);
    }
}

// ---- summaries ----

TEST_F(IterationFiles, WhatOneRoundDoesNotKnowIsNull)
{
    Iterations its;
    its.Setting(STP_MODE_OVERLAP, kMib).resolution = INFINITY;
    its.Arm("auto", {{100}}).gain = {NAN, NAN, NAN, 0};
    stp_iteration_arm &arm = its.Arm("ll", {{100}});
    arm.gain = {1, 0, INFINITY, 1};
    arm.alone_us = 10;
    arm.alone_gain = {NAN, 0, INFINITY, 0};
    its.report_.looked_for_regimes = true;
    its.Regime(0, 0, 1, {1.5, 0, INFINITY, 1}, {NAN, NAN, NAN, 0});

    Save(its);

    const std::string s = Read("summary.json");
    EXPECT_THAT(s, Not(HasSubstr("nan")));
    EXPECT_THAT(s, Not(HasSubstr("inf")));
    for (const char *key : {"resolution", "gain_low", "gain_high", "alone_gain",
                            "alone_gain_low", "fastest_alone_us"})
        EXPECT_THAT(s, HasSubstr(std::string("\"") + key + "\":\tnull"));
}

// ---- again and again ----

TEST_F(IterationFiles, WhatDidNotChangeIsLeftAlone)
{
    Iterations its;
    its.Setting(STP_MODE_OVERLAP, kMib);
    its.Arm("auto", {{1000, 1001}});
    its.Arm("ll", {{1000}});
    Save(its);
    struct stat before, after;
    ASSERT_EQ(0, stat((dir_ / "summary.json").c_str(), &before));
    std::ofstream(dir_ / "iteration_times_ll.txt") << "1.000001\n";

    Save(its);

    ASSERT_EQ(0, stat((dir_ / "summary.json").c_str(), &after));
    EXPECT_EQ(before.st_ino, after.st_ino);
    EXPECT_EQ("1.000000\n", Read("iteration_times_ll.txt"))
        << "of the same size, but another";
}

// ---- the folder ----
const char *const kOurs[] = {
    "iteration_times_auto.txt",
    "iteration_times_overlap_8M_ratio1_layers8_ring-ll128-16.txt",
    "rounds.csv",
    "summary.md",
    "summary.json",
    "regimes.md",
    "iteration_times_histogram.png",
    "iteration_times_histogram_fsdp_1K_ratio1_layers8.svg",
    "gain_vs_size.png",
    "gain_vs_size_overlap_ratio1_layers8.svg",
};

const char *const kNotOurs[] = {"notes.txt",      "summary.txt",
                                "regimes.txt",    "my_rounds.csv",
                                "rounds.csv.bak", "iteration_times_auto.csv"};

TEST_F(IterationFolder, OfAnEarlierRunIsRefused)
{
    for (const char *name : kOurs) {
        Write(name, "old");

        EXPECT_EQ(STP_ERR_IO, stp_iteration_folder(dir_.c_str(), false, &err_));

        EXPECT_EQ("'" + dir_.string() + "' holds " +
                      std::string(name).substr(0, 60) +
                      " of an earlier run, expected a folder without, or "
                      "--force, which replaces it",
                  std::string(err_.text).substr(0, STP_ERROR_TEXT));
        EXPECT_EQ("old", Read(name));
        fs::remove(dir_ / name);
    }
}

TEST_F(IterationFolder, LosesOurFilesAndNoOthersIfItIsReplaced)
{
    for (const char *name : kOurs)
        Write(name, "old");
    for (const char *name : kNotOurs)
        Write(name, "old");

    EXPECT_EQ(STP_OK, stp_iteration_folder(dir_.c_str(), true, &err_))
        << err_.text;

    EXPECT_THAT(Files(), testing::UnorderedElementsAreArray(kNotOurs));
    EXPECT_EQ(STP_OK, stp_iteration_folder(dir_.c_str(), false, &err_))
        << "others are in nobody's way";
}

TEST_F(IterationFolder, ThatIsNoFolderIsRefused)
{
    Write("file", "old");
    const std::string file = dir_ / "file";

    for (const std::string &path : {file, file + "/below", file + "/a/b"}) {
        EXPECT_EQ(STP_ERR_IO, stp_iteration_folder(path.c_str(), true, &err_));
        EXPECT_EQ("cannot make the folder '" + path + "': Not a directory",
                  std::string(err_.text));
    }
    EXPECT_EQ("old", Read("file"));
    EXPECT_EQ(STP_ERR_IO, stp_iteration_folder("", true, &err_));
    EXPECT_STREQ("cannot make the folder '': No such file or directory",
                 err_.text);
    EXPECT_EQ(STP_ERR_IO, stp_iteration_folder(std::string(5000, 'x').c_str(),
                                               true, &err_));
    EXPECT_THAT(err_.text, StartsWith("the path 'xxx"));
}

TEST_F(IterationFolder, ThatNobodyMayWriteIntoIsRefusedAtOnce)
{
    if (geteuid() == 0)
        GTEST_SKIP() << "root may write anywhere";
    fs::permissions(dir_, fs::perms::owner_read | fs::perms::owner_exec);

    EXPECT_EQ(STP_ERR_IO,
              stp_iteration_folder((dir_ / "new").c_str(), true, &err_));
    EXPECT_EQ("cannot make the folder '" + (dir_ / "new").string() +
                  "': Permission denied",
              std::string(err_.text));
    fs::permissions(dir_, fs::perms::owner_all);
}

} // namespace
