// Recorded times, and the times between and beyond them.
#include <cmath>

#include "support/mock_folder.h"
#include "support/mock_times.h"

using namespace mock_test;

namespace
{

// An h200x4 with these rows.  One without spread: "coll,bytes,algo,proto,
// channels" and "run,round" and one time.
class Timings : public testing::Test
{
  protected:
    void Add(const std::string &what, const std::string &when,
             const std::string &us)
    {
        rows_ += what + ",4," + when + ",10," + us + "," + us + "," + us + "," +
                 us + "\n";
    }
    // The same times in two interleaved rounds.
    void AddRounds(const std::string &what, const std::string &us)
    {
        Add(what, "w,1", us);
        Add(what, "w,2", us);
    }
    Machine Load()
    {
        folder_.Write("timings.csv", kTimingsHeader + rows_);
        return LoadFolder(folder_.Path());
    }

    Folder folder_;
    std::string rows_;
};

// ---- rounds and pooling ----

TEST_F(Timings, OfARoundAreThatRounds)
{
    Add("allreduce,1024,ring,ll,0", "w,1", "10");
    Add("allreduce,1024,ring,ll,0", "w,2", "20");
    Add("allreduce,1024,ring,ll,0", "w,3", "33");
    Add("allreduce,1024,ring,simple,0", "w,3", "6");
    Add("allreduce,1024,ring,simple,0", "w,2", "5");
    Add("allreduce,1024,ring,simple,0", "w,1", "4");
    Machine machine = Load();

    EXPECT_DOUBLE_EQ(10, At(machine, Ll(1024), 0).us);
    EXPECT_DOUBLE_EQ(10, At(machine, Ll(1024), .333).us);
    EXPECT_DOUBLE_EQ(20, At(machine, Ll(1024), .334).us);
    EXPECT_DOUBLE_EQ(33, At(machine, Ll(1024), .999).us);
    EXPECT_DOUBLE_EQ(21, Mean(machine, Ll(1024)).us);
    EXPECT_EQ(MOCK_TIME_RECORDED, Mean(machine, Ll(1024)).source);
    EXPECT_DOUBLE_EQ(4, At(machine, Simple(1024), 0).us);
    EXPECT_DOUBLE_EQ(6, At(machine, Simple(1024), .999).us);
}

TEST_F(Timings, OfAPairWithFewerRoundsGoRoundAgain)
{
    Add("allreduce,1024,ring,ll,0", "w,1", "10");
    Add("allreduce,1024,ring,ll,0", "w,2", "20");
    Add("allreduce,1024,ring,ll,0", "w,3", "30");
    Add("allreduce,1024,ring,ll,0", "w,4", "40");
    Add("allreduce,1024,ring,simple,0", "w,1", "4");
    Add("allreduce,1024,ring,simple,0", "w,2", "5");
    Machine machine = Load();

    EXPECT_DOUBLE_EQ(4, At(machine, Simple(1024), 0).us);
    EXPECT_DOUBLE_EQ(5, At(machine, Simple(1024), .25).us);
    EXPECT_DOUBLE_EQ(4, At(machine, Simple(1024), .5).us);
    EXPECT_DOUBLE_EQ(5, At(machine, Simple(1024), .75).us);
    EXPECT_DOUBLE_EQ(4.5, Mean(machine, Simple(1024)).us);
}

TEST_F(Timings, OfAutoAndItsPairAreOneTruth)
{
    Add("allreduce,1024,auto,auto,0", "w,1", "10");
    Add("allreduce,1024,ring,ll,0", "w,1", "14");
    Add("allreduce,1024,ring,ll,0", "w,2", "30");
    Add("allreduce,1024,auto,auto,0", "w,2", "20");
    Add("allreduce,1024,ring,simple,0", "w,1", "50");
    Add("allreduce,67108864,auto,auto,0", "w,1", "7"); // ring/simple, alone
    Machine machine = Load();

    EXPECT_DOUBLE_EQ(12, At(machine, Ll(1024), 0).us);
    EXPECT_DOUBLE_EQ(25, At(machine, Ll(1024), .5).us);
    EXPECT_DOUBLE_EQ(50, At(machine, Simple(1024), 0).us);
    EXPECT_DOUBLE_EQ(7, Mean(machine, Simple(64 * kMiB)).us);
}

TEST_F(Timings, OfASinglePassCountOnlyOutsideTheRounds)
{
    Add("allreduce,256,ring,ll,0", "s,0", "1");
    Add("allreduce,1024,ring,ll,0", "s,0", "99");
    Add("allreduce,2048,ring,ll,0", "s,0", "99");
    Add("allreduce,4096,ring,ll,0", "s,0", "99");
    Add("allreduce,8192,ring,ll,0", "s,0", "8");
    AddRounds("allreduce,1024,ring,ll,0", "2");
    AddRounds("allreduce,4096,ring,ll,0", "4");
    Machine machine = Load();

    EXPECT_DOUBLE_EQ(1, Mean(machine, Ll(256)).us);
    EXPECT_DOUBLE_EQ(2, Mean(machine, Ll(1024)).us);
    EXPECT_NEAR(std::sqrt(8), Mean(machine, Ll(2048)).us, 1e-9);
    EXPECT_EQ(MOCK_TIME_INTERPOLATED, Mean(machine, Ll(2048)).source);
    EXPECT_DOUBLE_EQ(4, Mean(machine, Ll(4096)).us);
    EXPECT_DOUBLE_EQ(8, Mean(machine, Ll(8192)).us);
}

// ---- sizes ----

TEST_F(Timings, BetweenSizesLieOnALineInLogarithms)
{
    AddRounds("allreduce,1024,ring,ll,0", "10");
    AddRounds("allreduce,16384,ring,ll,0", "20");
    Machine machine = Load();

    EXPECT_NEAR(10 * std::pow(2, .25), Mean(machine, Ll(2048)).us, 1e-9);
    EXPECT_NEAR(10 * std::pow(2, .5), Mean(machine, Ll(4096)).us, 1e-9);
    EXPECT_NEAR(10 * std::pow(2, .5), At(machine, Ll(4096), .7, .2).us, 1e-9);
    EXPECT_EQ(MOCK_TIME_INTERPOLATED, Mean(machine, Ll(4096)).source);
}

TEST_F(Timings, BetweenSizesKeepToTheRound)
{
    Add("allreduce,1024,ring,ll,0", "w,1", "10");
    Add("allreduce,1024,ring,ll,0", "w,2", "40");
    Add("allreduce,4096,ring,ll,0", "w,1", "10");
    Add("allreduce,4096,ring,ll,0", "w,2", "160");
    Add("allreduce,16384,ring,ll,0", "w,1", "10");
    Machine machine = Load();

    EXPECT_NEAR(10, At(machine, Ll(2048), 0).us, 1e-9);
    EXPECT_NEAR(80, At(machine, Ll(2048), .5).us, 1e-9);
    EXPECT_NEAR(45, Mean(machine, Ll(2048)).us, 1e-9);
    EXPECT_NEAR(10, At(machine, Ll(8192), 0).us, 1e-9);
    EXPECT_NEAR(40, At(machine, Ll(8192), .5).us, 1e-9);
}

TEST_F(Timings, BelowTheSmallestSizeAreItsOwn)
{
    Add("allreduce,1024,ring,ll,0", "w,1", "10");
    Add("allreduce,4096,ring,ll,0", "w,1", "40");
    Machine machine = Load();

    EXPECT_DOUBLE_EQ(10, Mean(machine, Ll(1)).us);
    EXPECT_EQ(MOCK_TIME_MODELLED, Mean(machine, Ll(1)).source);
}

TEST_F(Timings, AboveTheLargestSizeGoOnAsBefore)
{
    Add("allreduce,1024,ring,ll,0", "w,1", "5");
    Add("allreduce,2048,ring,ll,0", "w,1", "10");
    Add("allreduce,4096,ring,ll,0", "w,1", "15");
    Machine machine = Load();

    EXPECT_NEAR(22.5, Mean(machine, Ll(8192)).us, 1e-9);
    EXPECT_EQ(MOCK_TIME_MODELLED, Mean(machine, Ll(8192)).source);
}

TEST_F(Timings, AboveTheLargestSizeDoNotFall)
{
    Add("allreduce,2048,ring,ll,0", "w,1", "10");
    Add("allreduce,4096,ring,ll,0", "w,1", "9");
    Machine machine = Load();

    EXPECT_NEAR(9, Mean(machine, Ll(1 << 30)).us, 1e-9);
}

TEST_F(Timings, OfOneSizeAreHeldBothWays)
{
    Add("allreduce,2048,ring,ll,0", "w,1", "10");
    Machine machine = Load();

    EXPECT_DOUBLE_EQ(10, Mean(machine, Ll(8)).us);
    EXPECT_DOUBLE_EQ(10, Mean(machine, Ll(1 << 30)).us);
}

// ---- sources ----

struct SourceCase {
    size_t n_bytes;
    mock_time_source want;
};

TEST_F(Timings, ReportTheirSource)
{
    AddRounds("allreduce,1024,ring,ll,0", "10");
    AddRounds("allreduce,4096,ring,ll,0", "20");
    Add("allreduce,16384,ring,ll,0", "v,1", "40"); // a round alone
    Add("allreduce,65536,ring,ll,0", "s,0", "80");
    Add("allreduce,65536,ring,ll,0", "t,0", "90"); // two passes are no rounds
    Machine machine = Load();
    const SourceCase cases[] = {
        {1023, MOCK_TIME_MODELLED},     {1024, MOCK_TIME_RECORDED},
        {2048, MOCK_TIME_INTERPOLATED}, {4096, MOCK_TIME_RECORDED},
        {8192, MOCK_TIME_SINGLE_PASS},  {16384, MOCK_TIME_SINGLE_PASS},
        {32768, MOCK_TIME_SINGLE_PASS}, {65536, MOCK_TIME_SINGLE_PASS},
        {65537, MOCK_TIME_MODELLED},
    };

    for (const SourceCase &c : cases) {
        EXPECT_EQ(c.want, Mean(machine, Ll(c.n_bytes)).source) << c.n_bytes;
        EXPECT_EQ(c.want, At(machine, Ll(c.n_bytes), 0).source) << c.n_bytes;
    }
}

TEST_F(Timings, ListTheInterleavedSizes)
{
    AddRounds("allreduce,4096,ring,ll,0", "10");
    AddRounds("allreduce,1024,ring,ll,0", "10");
    Add("allreduce,1024,ring,ll,0", "w,3", "10");
    Add("allreduce,1024,ring,simple,0", "w,1", "10");
    Add("allreduce,256,ring,ll,0", "s,0", "10");
    Add("allreduce,256,ring,ll,0", "t,0", "10");
    AddRounds("allgather,512,ring,ll,0", "10");
    Machine machine = Load();
    size_t sizes[2] = {0, 0};

    EXPECT_EQ(2u,
              mock_machine_sizes(machine.get(), ncclFuncAllReduce, sizes, 2));
    EXPECT_EQ(1024u, sizes[0]);
    EXPECT_EQ(4096u, sizes[1]);
    EXPECT_EQ(1u,
              mock_machine_sizes(machine.get(), ncclFuncAllGather, sizes, 0));
    EXPECT_EQ(1024u, sizes[0]) << "no room, so nothing is written";
    EXPECT_EQ(0u,
              mock_machine_sizes(machine.get(), ncclFuncBroadcast, sizes, 2));
    EXPECT_EQ(2u, mock_machine_rounds(machine.get()));
}

TEST(NoTimings, HaveNoSizesAndNoRounds)
{
    Machine machine = LoadMachine("h100x8");
    size_t size;

    EXPECT_EQ(0u,
              mock_machine_sizes(machine.get(), ncclFuncAllReduce, &size, 1));
    EXPECT_EQ(0u, mock_machine_rounds(machine.get()));
}

// ---- channels ----

class TimingsOfChannels : public Timings
{
  protected:
    // NCCL's own count is 24 from 512 x 64 x 24 bytes on.
    TimingsOfChannels()
    {
        AddRounds("allreduce,16777216,ring,simple,0", "100");
        Add("allreduce,16777216,ring,simple,0", "s,0", "200"); // it drifted
        Add("allreduce,16777216,ring,simple,2", "s,0", "1600");
        Add("allreduce,16777216,ring,simple,8", "s,0", "400");
        Add("allreduce,16777216,ring,simple,24", "s,0", "230");
        Add("allreduce,67108864,ring,simple,0", "s,0", "800");
        Add("allreduce,67108864,ring,simple,2", "s,0", "800");
        Add("allreduce,67108864,ring,simple,8", "s,0", "6400");
    }
};

TEST_F(TimingsOfChannels, AreRatiosToNcclsOwnOfTheSameRun)
{
    Machine machine = Load();

    EXPECT_DOUBLE_EQ(100, Mean(machine, Simple(16 * kMiB)).us);
    EXPECT_NEAR(200, Mean(machine, Simple(16 * kMiB, 8)).us, 1e-9);
    EXPECT_EQ(MOCK_TIME_SINGLE_PASS,
              Mean(machine, Simple(16 * kMiB, 8)).source);
    EXPECT_NEAR(800, At(machine, Simple(16 * kMiB, 2), .5).us, 1e-9);
}

TEST_F(TimingsOfChannels, BetweenCountsLieOnALineInLogarithms)
{
    Machine machine = Load();

    EXPECT_NEAR(400, Mean(machine, Simple(16 * kMiB, 4)).us, 1e-9);
    EXPECT_EQ(MOCK_TIME_SINGLE_PASS,
              Mean(machine, Simple(16 * kMiB, 4)).source);
    // from 8 (2) to NCCL's own 24 (1): 2 x 2^(-ln 2 / ln 3)
    EXPECT_NEAR(200 * std::pow(2, -std::log(2) / std::log(3)),
                Mean(machine, Simple(16 * kMiB, 16)).us, 1e-9);
}

TEST_F(TimingsOfChannels, FromNcclsOwnCountOnAreItsOwn)
{
    Machine machine = Load();

    for (int n : {24, 25, 32, 64, 127})
        EXPECT_DOUBLE_EQ(100, Mean(machine, Simple(16 * kMiB, n)).us) << n;
    EXPECT_EQ(MOCK_TIME_RECORDED, Mean(machine, Simple(16 * kMiB, 32)).source);
    // NCCL uses 2 channels for 64 KiB, so 2 are its own count
    EXPECT_DOUBLE_EQ(100, Mean(machine, Simple(65536, 2)).us);
}

TEST_F(TimingsOfChannels, BelowTheSmallestCountGoOnButNeverGetFaster)
{
    Machine machine = Load();

    EXPECT_NEAR(1600, Mean(machine, Simple(16 * kMiB, 1)).us, 1e-6);
    EXPECT_EQ(MOCK_TIME_MODELLED, Mean(machine, Simple(16 * kMiB, 1)).source);
    // at 64 MiB two were faster than eight, so one has the time of two
    EXPECT_NEAR(800, Mean(machine, Simple(64 * kMiB, 1)).us, 1e-6);
}

TEST_F(TimingsOfChannels, BetweenSizesMixTheRatios)
{
    Machine machine = Load();
    double truth = Mean(machine, Simple(32 * kMiB)).us;

    mock_time got = Mean(machine, Simple(32 * kMiB, 8));

    EXPECT_NEAR(std::sqrt(100 * 800), truth, 1e-9);
    EXPECT_NEAR(truth * std::sqrt(2 * 8), got.us, 1e-6);
    EXPECT_EQ(MOCK_TIME_SINGLE_PASS, got.source);
}

TEST_F(TimingsOfChannels, BeyondTheSizesHoldTheRatios)
{
    Machine machine = Load();
    double truth = Mean(machine, Simple(1024 * kMiB)).us;

    EXPECT_NEAR(8 * truth, Mean(machine, Simple(1024 * kMiB, 8)).us, 1e-6);
    EXPECT_NEAR(2 * 100, Mean(machine, Simple(8 * kMiB, 8)).us, 1e-6);
}

TEST_F(Timings, WithoutAnyOtherCountAreModelledForFewerChannels)
{
    AddRounds("allreduce,16777216,ring,simple,0", "100");
    Machine machine = Load();

    EXPECT_EQ(MOCK_TIME_MODELLED, Mean(machine, Simple(16 * kMiB, 4)).source);
    EXPECT_EQ(MOCK_TIME_RECORDED, Mean(machine, Simple(16 * kMiB, 24)).source);
}

TEST_F(Timings, OfInterleavedCountsHaveTheSourceOfTheOthers)
{
    AddRounds("allreduce,16777216,ring,simple,0", "100");
    AddRounds("allreduce,16777216,ring,simple,2", "400");
    AddRounds("allreduce,16777216,ring,simple,8", "200");
    Machine machine = Load();

    EXPECT_EQ(MOCK_TIME_RECORDED, Mean(machine, Simple(16 * kMiB, 8)).source);
    EXPECT_EQ(MOCK_TIME_INTERPOLATED,
              Mean(machine, Simple(16 * kMiB, 4)).source);
    EXPECT_EQ(MOCK_TIME_INTERPOLATED,
              Mean(machine, Simple(16 * kMiB, 16)).source);
}

TEST_F(Timings, OfACountInASinglePassCountOnlyOutsideTheRounds)
{
    AddRounds("allreduce,16777216,ring,simple,0", "100");
    AddRounds("allreduce,16777216,ring,simple,8", "200");
    Add("allreduce,16777216,ring,simple,0", "s,0", "100");
    Add("allreduce,16777216,ring,simple,8", "s,0", "900");
    Machine machine = Load();

    EXPECT_NEAR(200, Mean(machine, Simple(16 * kMiB, 8)).us, 1e-9);
}

// ---- spread ----

TEST_F(Timings, SpreadFromTheSmallestToWhatMakesTheMeanRight)
{
    // max = (11 - .25 x (8 + 10) - .225 x (10 + 12)) / .025 - 12 = 50
    rows_ = "allreduce,1024,ring,ll,0,4,w,1,10,11,10,12,8\n";
    Machine machine = Load();

    EXPECT_NEAR(8, At(machine, Ll(1024), 0, 0).us, 1e-9);
    EXPECT_NEAR(9, At(machine, Ll(1024), 0, .25).us, 1e-9);
    EXPECT_NEAR(10, At(machine, Ll(1024), 0, .5).us, 1e-9);
    EXPECT_NEAR(11, At(machine, Ll(1024), 0, .725).us, 1e-9);
    EXPECT_NEAR(12, At(machine, Ll(1024), 0, .95).us, 1e-9);
    EXPECT_NEAR(31, At(machine, Ll(1024), 0, .975).us, 1e-9);
}

TEST_F(Timings, SpreadIsScaledWhereTheLargestWouldBeBelowP95)
{
    // (8, 10, 12, 12) have a mean of 10.05
    rows_ = "allreduce,1024,ring,ll,0,4,w,1,10,9,10,12,8\n";
    Machine machine = Load();

    EXPECT_NEAR(8 * 9 / 10.05, At(machine, Ll(1024), 0, 0).us, 1e-9);
    EXPECT_NEAR(12 * 9 / 10.05, At(machine, Ll(1024), 0, .95).us, 1e-9);
    EXPECT_NEAR(12 * 9 / 10.05, At(machine, Ll(1024), 0, .99).us, 1e-9);
    EXPECT_DOUBLE_EQ(9, Mean(machine, Ll(1024)).us);
}

TEST_F(Timings, SpreadIsMixedBetweenSizes)
{
    rows_ = "allreduce,1024,ring,ll,0,4,w,1,10,10.5,10,12,8\n"
            "allreduce,4096,ring,ll,0,4,w,1,10,42,42,42,42\n";
    Machine machine = Load();

    EXPECT_NEAR(21 * (8 / 10.5 + 1) / 2, At(machine, Ll(2048), 0, 0).us, 1e-9);
}

TEST_F(Timings, SpreadBeyondTheLargestSizeIsItsOwn)
{
    rows_ = "allreduce,1024,ring,ll,0,4,w,1,10,10.5,10,12,8\n"
            "allreduce,2048,ring,ll,0,4,w,1,10,21,21,21,21\n";
    Machine machine = Load();

    EXPECT_NEAR(42, At(machine, Ll(4096), 0, 0).us, 1e-9);
}

} // namespace
