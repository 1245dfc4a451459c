// A GPU's clock as the host's, and a collective's time from all ranks' times.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

extern "C" {
#include "core/learn/gpu_clock.h"
}

namespace
{

constexpr uint64_t kGpuZero =
    1795332025436339936u;                    // as H200 counts: since 1970
constexpr uint64_t kHostZero = 40860740861u; // since the host's start

struct Drifting {
    const char *what;
    double period_us; // between calls
    double ppm;       // the GPU's clock is faster by
    double late_us;   // the host hears, at most, on most calls
    double error_us;  // at most, once two windows are full
};

std::ostream &operator<<(std::ostream &os, const Drifting &d)
{
    return os << d.what;
}

class ClockOf : public testing::TestWithParam<Drifting>
{
};

TEST_P(ClockOf, IsTheHostsButForTheLeastDelay)
{
    const Drifting &d = GetParam();
    std::mt19937 random(42);
    std::uniform_real_distribution<> unit;
    stp_gpu_clock clock{};
    double worst = 0;

    for (int i = 0; i < 2000; i++) {
        const double us = i * d.period_us; // on the host's clock
        const auto gpu_ns =
            kGpuZero + static_cast<uint64_t>(us * (1e3 + d.ppm * 1e-3));
        const double late = unit(random) < 0.02
                                ? 4000
                                : 1 + d.late_us * unit(random) * unit(random);
        const stp_instant instant{
            gpu_ns, kHostZero + static_cast<uint64_t>((us + late) * 1e3)};
        uint64_t offset = 7;

        stp_gpu_clock_heard(&clock, &instant);
        ASSERT_EQ(i + 1 >= STP_CLOCK_READY,
                  stp_gpu_clock_offset(&clock, gpu_ns, &offset));
        if (i < 2 * STP_CLOCK_WINDOW)
            continue;
        const auto host = static_cast<double>(static_cast<int64_t>(
                              gpu_ns + offset - kHostZero)) /
                          1e3;
        worst = std::max(worst, std::abs(host - us - 1));
    }
    EXPECT_LT(worst, d.error_us);
}

INSTANTIATE_TEST_SUITE_P(
    Clocks, ClockOf,
    testing::Values(Drifting{"quick calls", 60, 3, 12, 1.5},
                    Drifting{"as fast as the host", 60, 0, 12, 1.5},
                    Drifting{"slower than the host", 400, -5, 12, 1.5},
                    Drifting{"five calls a second", 200e3, 3, 12, 6},
                    Drifting{"five calls a second, slower", 200e3, -5, 12, 6},
                    Drifting{"heard at once", 1000, 5, 0, 0.1}));

TEST(Clock, DoesNotFollowWhatNoClockDoes)
{
    stp_gpu_clock clock{};
    uint64_t offset = 0;

    // The host hears ever later: it is busy.  That is not the clock's.
    for (uint64_t i = 0; i < 4 * STP_CLOCK_WINDOW; i++) {
        const stp_instant instant{i * 1000, i * 1000 + 1000 + i * 100};
        stp_gpu_clock_heard(&clock, &instant);
    }
    ASSERT_TRUE(stp_gpu_clock_offset(&clock, 128000, &offset));
    EXPECT_EQ(1000u, offset);
}

// ---- a collective ----

struct Collective {
    const char *what;
    std::vector<stp_rank_time> spans; // us; on the host's clock
    double us;
    double at_most_us;
};

std::ostream &operator<<(std::ostream &os, const Collective &c)
{
    return os << c.what;
}

class TimeOf : public testing::TestWithParam<Collective>
{
};

TEST_P(TimeOf, IsFromTheLastRanksComingToTheLastOnesEnd)
{
    stp_rank_times spans{};

    for (const stp_rank_time &s : GetParam().spans) {
        const stp_rank_time ns{s.begin_ns * 1000, s.end_ns * 1000};
        stp_rank_times_add(&spans, &ns);
    }
    EXPECT_EQ(GetParam().spans.size(), spans.n);
    EXPECT_DOUBLE_EQ(GetParam().us, stp_rank_times_us(&spans, false));
    EXPECT_DOUBLE_EQ(GetParam().at_most_us, stp_rank_times_us(&spans, true));
}

INSTANTIATE_TEST_SUITE_P(
    Collectives, TimeOf,
    testing::Values(Collective{"one rank", {{100, 190}}, 90, 90},
                    Collective{"all at once", {{100, 190}, {100, 190}}, 90, 90},
                    // A ring of 16 MiB on 4 x H200, one rank 75 us behind.
                    Collective{"a ring that waits",
                               {{27, 188}, {100, 189}, {76, 189}, {50, 189}},
                               89,
                               90},
                    // A tree of 16 MiB there, which took 256 us in truth.
                    Collective{"a tree",
                               {{21, 277}, {56, 236}, {91, 198}, {100, 155}},
                               177,
                               299},
                    Collective{"an end before the last began",
                               {{0, 90}, {100, 150}, {20, 160}},
                               60,
                               120},
                    Collective{"clocks that are far apart: not below the least",
                               {{100, 190}, {5100, 5188}},
                               88,
                               176},
                    Collective{"clocks that are far apart: not above the most",
                               {{100, 190}, {191, 300}, {50, 299}},
                               109,
                               218}));

// ---- as it was on GPUs ----

struct Row {
    std::string algo, phase;
    size_t call, rank;
    stp_rank_time gpu;
    uint64_t heard_ns;
};

std::vector<Row> Recorded()
{
    std::ifstream in(STP_FIXTURES "/timings/h200x4_kernel_times.csv");
    std::vector<Row> rows;
    std::string line;

    while (std::getline(in, line)) {
        std::istringstream cells(line);
        std::string c[8];
        for (std::string &cell : c)
            std::getline(cells, cell, ',');
        if (c[1] == "simple")
            rows.push_back({c[0],
                            c[2],
                            std::stoul(c[3]),
                            std::stoul(c[4]),
                            {std::stoul(c[5]), std::stoul(c[6])},
                            std::stoul(c[7])});
    }
    return rows;
}

struct Recording {
    const char *algo, *phase;
    double least_us, most_us; // of the mean over calls
    double own_us;            // of rank 0's own times, at least
};

class RecordedTimes : public testing::TestWithParam<Recording>
{
};

// Ranks come when they come: rings take the same, by clocks that are 600 us
// apart.  Of a tree the truth, 255 us, is between the two bounds.
TEST_P(RecordedTimes, AreWithoutWhatRanksWaitForEachOther)
{
    const Recording &r = GetParam();
    stp_gpu_clock clocks[4]{};
    std::map<size_t, stp_rank_times> calls;
    double own = 0, us = 0, most = 0;
    size_t n = 0;

    for (const Row &row : Recorded()) {
        const stp_instant instant{row.gpu.end_ns, row.heard_ns};
        uint64_t offset;
        if (row.algo != r.algo)
            continue;
        stp_gpu_clock_heard(&clocks[row.rank], &instant);
        if (row.phase != r.phase ||
            !stp_gpu_clock_offset(&clocks[row.rank], row.gpu.end_ns, &offset))
            continue;
        const stp_rank_time span{row.gpu.begin_ns + offset,
                                 row.gpu.end_ns + offset};
        stp_rank_times_add(&calls[row.call], &span);
        if (row.rank == 0)
            own += static_cast<double>(row.gpu.end_ns - row.gpu.begin_ns) / 1e3;
    }
    for (const auto &call : calls) {
        ASSERT_EQ(4u, call.second.n);
        us += stp_rank_times_us(&call.second, false);
        most += stp_rank_times_us(&call.second, true);
        n++;
    }
    ASSERT_LE(64u - STP_CLOCK_READY, n);
    const auto calls_n = static_cast<double>(n);
    EXPECT_LE(r.least_us, us / calls_n);
    EXPECT_GE(r.most_us, us / calls_n);
    EXPECT_LE(r.own_us, own / calls_n);
    if (r.algo == std::string("tree")) {
        EXPECT_GE(255, us / calls_n);
        EXPECT_LE(255, most / calls_n);
    }
}

INSTANTIATE_TEST_SUITE_P(
    H200, RecordedTimes,
    testing::Values(Recording{"ring", "queued", 89, 92, 89},
                    Recording{"ring", "varied", 89, 92, 115},
                    Recording{"ring", "skewed", 89, 92, 140},
                    Recording{"tree", "queued", 150, 200, 240},
                    Recording{"tree", "varied", 140, 200, 240},
                    Recording{"tree", "skewed", 130, 200, 240}),
    [](const testing::TestParamInfo<Recording> &test) {
        return std::string(test.param.algo) + "_" + test.param.phase;
    });

} // namespace
