// Recorded times, and the times between and beyond them.
#include <cmath>

#include <gmock/gmock.h>

#include "support/mock_folder.h"
#include "support/mock_times.h"

using namespace mock_test;

namespace
{

// A row of timings.csv: size, pair and channels, run and round, and either one
// time without spread or mean, median, p95 and min. Round "*" is rounds 1 and 2
// of the same times.
struct Recorded {
    size_t n_bytes;
    const char *arm;
    std::string when;
    std::string us;
};

std::string Text(const Recorded &r)
{
    bool has_spread = r.us.find(',') != std::string::npos;
    std::string times =
        has_spread ? r.us : r.us + "," + r.us + "," + r.us + "," + r.us;
    std::string text;

    for (const char *round : {"1", "2"}) {
        std::string when = r.when;
        bool both = when.back() == '*';
        if (both)
            when.replace(when.size() - 1, 1, round);
        else if (*round == '2')
            break;
        text += "allreduce," + std::to_string(r.n_bytes) + "," + r.arm + ",4," +
                when + ",10," + times + "\n";
    }
    return text;
}

// An h200x4 with these rows.
Machine Load(const std::vector<Recorded> &rows, const std::string &more = "")
{
    Folder folder;
    std::string text = kTimingsHeader + more;

    for (const Recorded &row : rows)
        text += Text(row);
    folder.Write("timings.csv", text);
    return LoadFolder(folder.Path());
}

// Likewise, of all-reduces, with more columns.
Machine LoadRows(const std::string &columns,
                 const std::vector<std::string> &rows)
{
    Folder folder;
    std::string text(kTimingsHeader, strlen(kTimingsHeader) - 1);

    text += "," + columns + "\n";
    for (const std::string &row : rows)
        text += "allreduce," + row + "\n";
    folder.Write("timings.csv", text);
    return LoadFolder(folder.Path());
}

constexpr double kMean = -1;
constexpr int kAny = -1;

struct Wanted {
    mock_run run;
    double round; // or kMean
    double us;
    int source = kAny;
    double iteration = .5;
};

struct TimingsCase {
    const char *name;
    std::vector<Recorded> rows;
    std::vector<Wanted> wanted;
};

using Timings = testing::TestWithParam<TimingsCase>;

TEST_P(Timings, AreThoseOfTheRecords)
{
    Machine machine = Load(GetParam().rows);

    for (const Wanted &w : GetParam().wanted) {
        mock_time got = w.round == kMean
                            ? Mean(machine, w.run)
                            : At(machine, w.run, w.round, w.iteration);
        EXPECT_NEAR(w.us, got.us, 1e-9 * w.us)
            << w.run.n_bytes << " on " << w.run.n_channels << " in " << w.round;
        if (w.source != kAny) {
            EXPECT_EQ(w.source, got.source) << w.run.n_bytes;
        }
    }
}

constexpr char kLl[] = "ring,ll,0";
constexpr char kSimple[] = "ring,simple,0";
constexpr char kAuto[] = "auto,auto,0";
constexpr size_t M = kMiB;

// NCCL's own count is 24 from 512 x 64 x 24 bytes on. The run drifted from 100
// to 200 us.
const std::vector<Recorded> kCounts = {
    {16 * M, kSimple, "w,*", "100"},
    {16 * M, kSimple, "s,0", "200"},
    {16 * M, "ring,simple,2", "s,0", "1600"},
    {16 * M, "ring,simple,8", "s,0", "400"},
    {16 * M, "ring,simple,24", "s,0", "230"},
    {64 * M, kSimple, "s,0", "800"},
    {64 * M, "ring,simple,2", "s,0", "800"},
    {64 * M, "ring,simple,8", "s,0", "6400"},
};
const std::vector<Recorded> kInterleavedCounts = {
    {16 * M, kSimple, "w,*", "100"},
    {16 * M, "ring,simple,2", "w,*", "400"},
    {16 * M, "ring,simple,8", "w,*", "200"},
};
// max = (11 - .25 x (8 + 10) - .225 x (10 + 12)) / .025 - 12 = 50
const std::vector<Recorded> kSpread = {{1024, kLl, "w,1", "11,10,12,8"}};
// (8, 10, 12, 12) have a mean of 10.05
const std::vector<Recorded> kScaled = {{1024, kLl, "w,1", "9,10,12,8"}};

// clang-format off
const TimingsCase kCases[] = {
    // rounds and pooling
    {"of_a_round",
     {{1024, kLl, "w,1", "10"}, {1024, kLl, "w,2", "20"}, {1024, kLl, "w,3", "33"},
      {1024, kSimple, "w,3", "6"}, {1024, kSimple, "w,2", "5"}, {1024, kSimple, "w,1", "4"}},
     {{Ll(1024), 0, 10}, {Ll(1024), .333, 10}, {Ll(1024), .334, 20}, {Ll(1024), .999, 33},
      {Ll(1024), kMean, 21, MOCK_TIME_RECORDED}, {Simple(1024), 0, 4}, {Simple(1024), .999, 6}}},
    {"of_all_pairs_are_as_many_as_of_the_one_with_the_fewest",
     {{1024, kLl, "w,1", "10"}, {1024, kLl, "w,2", "20"}, {1024, kLl, "w,3", "30"}, {1024, kLl, "w,4", "40"},
      {1024, kSimple, "w,1", "4"}, {1024, kSimple, "w,2", "5"}},
     {{Simple(1024), 0, 4}, {Simple(1024), .25, 4}, {Simple(1024), .5, 5}, {Simple(1024), .75, 5},
      {Simple(1024), kMean, 4.5}, {Ll(1024), .5, 20}, {Ll(1024), kMean, 25}}},
    {"of_a_size_with_fewer_rounds_than_the_one_before_are_its_own",
     {{1024, kLl, "w,1", "10"}, {1024, kLl, "w,2", "20"}, {1024, kLl, "w,3", "30"}, {1024, kLl, "w,4", "40"},
      {4096, kLl, "w,1", "50"}, {4096, kLl, "w,2", "60"}},
     {{Ll(4096), .25, 50}, {Ll(4096), .5, 60}, {Ll(4096), .75, 60}}},
    {"between_sizes_have_as_many_rounds_as_the_neighbour_with_more",
     {{1024, kLl, "w,1", "10"}, {4096, kLl, "w,1", "10"}, {4096, kLl, "w,2", "20"}, {4096, kLl, "w,3", "40"},
      {16384, kLl, "w,1", "10"}, {16384, kLl, "w,2", "80"}},
     {{Ll(2048), .4, 40. / 3}, {Ll(2048), .7, 20}, {Ll(2048), kMean, 130. / 9},
      {Ll(8192), .4, 40}, {Ll(8192), .7, 30}, {Ll(8192), kMean, (10 + 40 + 30) / 3.}}},
    {"below_a_size_with_fewer_rounds_have_those_of_the_one_before",
     {{1024, kLl, "w,1", "10"}, {1024, kLl, "w,2", "20"}, {1024, kLl, "w,3", "40"}, {4096, kLl, "w,1", "10"}},
     {{Ll(2048), .4, 50. / 3}, {Ll(2048), .7, 30}}},
    {"above_the_largest_size_have_its_rounds",
     {{1024, kLl, "w,1", "10"}, {4096, kLl, "w,1", "10"}, {4096, kLl, "w,2", "20"}, {4096, kLl, "w,3", "40"}},
     {{Ll(16384), .4, 60}, {Ll(16384), .7, 160}}},
    {"of_auto_and_its_pair_in_every_round_are_pooled_round_by_round", // of 64 MiB, as above
     {{64 * M, kAuto, "w,1", "10"}, {64 * M, kSimple, "w,1", "20"}, {64 * M, kAuto, "w,2", "30"},
      {64 * M, kSimple, "w,2", "50"}},
     {{Simple(64 * M), 0, 15}, {Simple(64 * M), .5, 40}, {Simple(64 * M), kMean, 27.5}}},
    {"of_auto_and_its_pair_are_one_truth", // 64 MiB is ring/simple, alone
     {{1024, kAuto, "w,1", "10"}, {1024, kLl, "w,1", "14"}, {1024, kLl, "w,2", "30"}, {1024, kAuto, "w,2", "20"},
      {1024, kSimple, "w,1", "50"}, {64 * M, kAuto, "w,1", "7"}},
     {{Ll(1024), 0, 12}, {Ll(1024), .5, 25}, {Simple(1024), 0, 50}, {Simple(64 * M), kMean, 7}}},
    {"of_a_single_pass_count_only_outside_the_rounds",
     {{256, kLl, "s,0", "1"}, {1024, kLl, "s,0", "99"}, {2048, kLl, "s,0", "99"}, {4096, kLl, "s,0", "99"},
      {8192, kLl, "s,0", "8"}, {1024, kLl, "w,*", "2"}, {4096, kLl, "w,*", "4"}},
     {{Ll(256), kMean, 1}, {Ll(1024), kMean, 2}, {Ll(2048), kMean, 8. / 3, MOCK_TIME_INTERPOLATED},
      {Ll(4096), kMean, 4}, {Ll(8192), kMean, 8}}},
    {"of_a_single_pass_do_not_count_beside_the_first_round",
     {{1024, kLl, "s,0", "99"}, {1024, kLl, "a,1", "2"}}, {{Ll(1024), kMean, 2}}},
    {"of_one_iteration_need_no_p95", {{1024, kLl, "w,1", "10,10,,10"}}, {{Ll(1024), kMean, 10}, {Ll(1024), 0, 10}}},
    // sizes
    {"between_sizes_lie_on_a_line",
     {{1024, kLl, "w,*", "10"}, {16384, kLl, "w,*", "20"}},
     {{Ll(2048), kMean, 10 + 10. / 15}, {Ll(4096), kMean, 12, MOCK_TIME_INTERPOLATED}, {Ll(4096), .7, 12, kAny, .2}}},
    {"between_sizes_go_up_where_all_warps_move_more_lines", // 512 threads move 8 bytes each, on 24 channels, of 4 ranks
     {{384 << 10, kLl, "w,*", "10"}, {3 * 384 << 10, kLl, "w,*", "20"}},
     {{Ll(768 << 10), kMean, 15}, {Ll(400000), kMean, 10 + 10 * ((2 * 400000 + (768 << 10)) / 3. / (384 << 10) - 1) / 2}}},
    {"between_sizes_keep_to_the_round",
     {{1024, kLl, "w,1", "10"}, {1024, kLl, "w,2", "40"}, {4096, kLl, "w,1", "10"}, {4096, kLl, "w,2", "160"},
      {16384, kLl, "w,1", "10"}},
     {{Ll(2048), 0, 10}, {Ll(2048), .5, 80}, {Ll(2048), kMean, 45}, {Ll(8192), 0, 10}, {Ll(8192), .5, 110}}},
    {"below_the_smallest_size_are_its_own",
     {{1024, kLl, "w,1", "10"}, {4096, kLl, "w,1", "40"}},
     {{Ll(1), kMean, 10, MOCK_TIME_MODELLED}}},
    {"above_the_largest_size_go_on_as_before",
     {{1024, kLl, "w,1", "5"}, {2048, kLl, "w,1", "10"}, {4096, kLl, "w,1", "15"}},
     {{Ll(8192), kMean, 25, MOCK_TIME_MODELLED}}},
    {"above_the_largest_size_do_not_fall",
     {{2048, kLl, "w,1", "10"}, {4096, kLl, "w,1", "9"}},
     {{Ll(5000), kMean, 9}, {Ll(1 << 30), kMean, 9}}},
    {"of_one_size_are_held_both_ways",
     {{2048, kLl, "w,1", "10"}},
     {{Ll(8), kMean, 10}, {Ll(1 << 30), kMean, 10}}},
    // channels
    {"of_channels_are_ratios_to_nccls_own_of_the_same_run", kCounts,
     {{Simple(16 * M), kMean, 100}, {Simple(16 * M, 8), kMean, 200, MOCK_TIME_RECORDED},
      {Simple(16 * M, 2), .5, 800}}},
    {"between_counts_lie_on_a_line_in_logarithms", kCounts, // from 8 (2) to NCCL's own 24 (1): 2 x 2^(-ln 2 / ln 3)
     {{Simple(16 * M, 4), kMean, 400, MOCK_TIME_INTERPOLATED},
      {Simple(16 * M, 16), kMean, 200 * std::pow(2, -std::log(2) / std::log(3))}}},
    {"from_nccls_own_count_on_are_its_own", kCounts, // which is 2 for 64 KiB
     {{Simple(16 * M, 24), kMean, 100}, {Simple(16 * M, 25), kMean, 100},
      {Simple(16 * M, 32), kMean, 100, MOCK_TIME_RECORDED}, {Simple(16 * M, 64), kMean, 100},
      {Simple(16 * M, 127), kMean, 100}, {Simple(65536, 2), kMean, 100}}},
    {"below_the_smallest_count_go_on_but_never_get_faster", kCounts, // at 64 MiB two were faster than eight
     {{Simple(16 * M, 1), kMean, 1600, MOCK_TIME_MODELLED}, {Simple(64 * M, 1), kMean, 800}}},
    {"between_sizes_mix_the_ratios", kCounts,
     {{Simple(32 * M), kMean, 1000. / 3}, {Simple(32 * M, 8), kMean, 4000. / 3, MOCK_TIME_INTERPOLATED}}},
    {"beyond_the_sizes_hold_the_ratios", kCounts, // 700 us from 16 to 64 MiB, so 14000 to 1 GiB
     {{Simple(128 * M, 8), kMean, 8 * (800 + 700 * 64 / 48.)}, {Simple(1024 * M), kMean, 14800}, {Simple(1024 * M, 8), kMean, 8 * 14800},
      {Simple(8 * M, 8), kMean, 2 * 100}}},
    {"of_interleaved_counts_have_the_source_of_the_others", kInterleavedCounts,
     {{Simple(16 * M, 8), kMean, 200, MOCK_TIME_RECORDED},
      {Simple(16 * M, 4), kMean, 100 * std::pow(2, 1.5), MOCK_TIME_INTERPOLATED},
      {Simple(16 * M, 16), kMean, 200 * std::pow(2, -std::log(2) / std::log(3)), MOCK_TIME_INTERPOLATED}}},
    {"of_a_count_in_a_single_pass_count_only_outside_the_rounds",
     {{16 * M, kSimple, "w,*", "100"}, {16 * M, "ring,simple,8", "w,*", "200"}, {16 * M, kSimple, "s,0", "100"},
      {16 * M, "ring,simple,8", "s,0", "900"}},
     {{Simple(16 * M, 8), kMean, 200}}},
    {"of_a_count_below_nccls_own_are_used_though_another_is_not",
     {{16 * M, kSimple, "w,*", "100"}, {16 * M, "ring,simple,8", "w,*", "200"},
      {16 * M, "ring,simple,24", "w,*", "100"}},
     {{Simple(16 * M, 8), kMean, 200, MOCK_TIME_RECORDED}}},
    {"of_fewer_channels_are_the_same_where_nccl_rules_the_pair_out",
     {{64 * M, "collnet_chain,simple,0", "w,*", "100"}},
     {{{ncclFuncAllReduce, 64 * M, NCCL_ALGO_COLLNET_CHAIN, NCCL_PROTO_SIMPLE, 4}, kMean, 100, MOCK_TIME_MODELLED}}},
    // spread
    {"spread_from_the_smallest_to_what_makes_the_mean_right", kSpread,
     {{Ll(1024), 0, 8, kAny, 0}, {Ll(1024), 0, 9, kAny, .25}, {Ll(1024), 0, 10, kAny, .5},
      {Ll(1024), 0, 11, kAny, .725}, {Ll(1024), 0, 12, kAny, .95}, {Ll(1024), 0, 31, kAny, .975}}},
    {"spread_is_scaled_where_the_largest_would_be_below_p95", kScaled,
     {{Ll(1024), 0, 8 * 9 / 10.05, kAny, 0}, {Ll(1024), 0, 12 * 9 / 10.05, kAny, .95},
      {Ll(1024), 0, 12 * 9 / 10.05, kAny, .99}, {Ll(1024), kMean, 9}}},
    {"spread_is_mixed_between_sizes",
     {{1024, kLl, "w,1", "10.5,10,12,8"}, {4096, kLl, "w,1", "42"}},
     {{Ll(2048), 0, 21 * (2 * 8 / 10.5 + 1) / 3, kAny, 0}}},
    {"spread_beyond_the_largest_size_is_its_own",
     {{1024, kLl, "w,1", "10.5,10,12,8"}, {2048, kLl, "w,1", "21"}},
     {{Ll(4096), 0, 42, kAny, 0}}},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, Timings, testing::ValuesIn(kCases), CaseName());

// ---- sources ----

TEST(Timings, ReportTheirSource)
{
    Machine machine = Load({{1024, kLl, "w,*", "10"},
                            {4096, kLl, "w,*", "20"},
                            {16384, kLl, "v,1", "40"}, // a round alone
                            {65536, kLl, "s,0", "80"},
                            {65536, kLl, "t,0", "90"}}); // passes, not rounds
    const struct {
        size_t n_bytes;
        mock_time_source source;
        bool is_single_pass;
    } cases[] = {
        {1023, MOCK_TIME_MODELLED, false},
        {1024, MOCK_TIME_RECORDED, false},
        {2048, MOCK_TIME_INTERPOLATED, false},
        {4096, MOCK_TIME_RECORDED, false},
        {8192, MOCK_TIME_INTERPOLATED, true},
        {16384, MOCK_TIME_RECORDED, true},
        {32768, MOCK_TIME_INTERPOLATED, true},
        {65536, MOCK_TIME_RECORDED, true},
        {65537, MOCK_TIME_MODELLED, true},
    };

    for (const auto &c : cases)
        for (const mock_time &time :
             {Mean(machine, Ll(c.n_bytes)), At(machine, Ll(c.n_bytes), 0)}) {
            EXPECT_EQ(c.source, time.source) << c.n_bytes;
            EXPECT_EQ(c.is_single_pass, time.is_single_pass) << c.n_bytes;
        }
}

TEST(Timings, ListTheInterleavedSizes)
{
    Machine machine = Load({{4096, kLl, "w,*", "10"},
                            {1024, kLl, "w,*", "10"},
                            {1024, kLl, "w,3", "10"},
                            {1024, kSimple, "w,*", "10"},
                            {2048, "tree,ll,0", "w,*", "10"},
                            {2048, "tree,ll128,0", "s,0", "10"},
                            {2048, "tree,ll128,0", "t,0", "10"},
                            {2048, "tree,ll128,0", "u,0", "10"},
                            {8192, kLl, "w,*", "10"},
                            {8192, kSimple, "w,*", "10"},
                            {16384, kLl, "s,0", "10"},
                            {16384, kLl, "t,0", "10"}},
                           "allgather,512,ring,ll,0,4,w,1,10,10,10,10,10\n"
                           "allgather,512,ring,ll,0,4,w,2,10,10,10,10,10\n");
    size_t sizes[4] = {0, 0};

    EXPECT_EQ(4u, mock_machine_sizes(machine.get(), ncclFuncAllReduce, false,
                                     sizes, 4));
    EXPECT_THAT(sizes, testing::ElementsAre(1024, 2048, 4096, 8192));
    EXPECT_EQ(1u, mock_machine_sizes(machine.get(), ncclFuncAllGather, false,
                                     sizes, 0));
    EXPECT_EQ(1024u, sizes[0]) << "no room, so nothing is written";
    EXPECT_EQ(0u, mock_machine_sizes(machine.get(), ncclFuncBroadcast, false,
                                     sizes, 2));
    for (int coll : {-1, int{NCCL_NUM_TUNED_FUNCS}})
        EXPECT_EQ(0u, mock_machine_sizes(machine.get(),
                                         static_cast<ncclFunc_t>(coll), false,
                                         sizes, 2));
    EXPECT_EQ(2u, mock_machine_rounds(machine.get(), false));
}

TEST(Timings, RoundsAreTheFewestOfAnySizeButASinglePass)
{
    Machine machine = Load({{512, kLl, "s,0", "10"},
                            {1024, kLl, "w,*", "10"},
                            {1024, kLl, "w,3", "10"},
                            {1024, kLl, "w,4", "10"},
                            {4096, kLl, "w,*", "10"},
                            {4096, kLl, "w,3", "10"},
                            {8192, kLl, "w,1", "10"}});

    EXPECT_EQ(3u, mock_machine_rounds(machine.get(), false));
}

TEST(Timings, HaveTheSourceThatTheirRecordingNames)
{
    const std::pair<const char *, mock_time_source> cases[] = {
        {"measured", MOCK_TIME_RECORDED},
        {"recorded", MOCK_TIME_RECORDED},
        {"interpolated", MOCK_TIME_INTERPOLATED},
        {"virtual", MOCK_TIME_VIRTUAL},
        {"modelled", MOCK_TIME_MODELLED},
    };
    const std::string header(kTimingsHeader, strlen(kTimingsHeader) - 1);

    for (const auto &[word, source] : cases) {
        Folder folder;
        folder.Write("timings.csv",
                     header +
                         ",source\n"
                         "allreduce,1024,ring,ll,0,4,w,1,9,9,9,9,9," +
                         word +
                         "\nallreduce,1024,ring,ll,0,4,w,2,9,9,9,9,9,"
                         "measured\n");
        Machine machine = LoadFolder(folder.Path());
        EXPECT_EQ(source, Mean(machine, Ll(1024)).source) << word;
        EXPECT_EQ(source, At(machine, Ll(1024), .5).source)
            << "the worst of all rounds: " << word;
    }
    for (const std::string first : {"auto,auto", "ring,simple"}) {
        const std::string second =
            first == "auto,auto" ? "ring,simple" : "auto,auto";
        Folder folder; // 64 MiB is ring/simple, pooled with auto
        folder.Write("timings.csv", header + ",source\n" +
                                        "allreduce,67108864," + first +
                                        ",0,4,w,1,9,9,9,9,9,recorded\n" +
                                        "allreduce,67108864," + second +
                                        ",0,4,w,1,9,9,9,9,9,virtual\n");
        EXPECT_EQ(MOCK_TIME_VIRTUAL,
                  Mean(LoadFolder(folder.Path()), Simple(64 * M)).source)
            << first;
    }
}

// Bits are known of just the size and the number of channels that were
// recorded.
TEST(Timings, TellBitsOnlyOfWhatWasRecorded)
{
    Machine machine =
        LoadRows("bits", {"1024,ring,ll,0,4,w,1,10,9,9,9,9,same",
                          "1024,ring,ll,0,4,w,2,10,9,9,9,9,-",
                          "1024,ring,ll,2,4,w,1,10,9,9,9,9,other",
                          "4096,ring,ll,0,4,w,1,10,9,9,9,9,same",
                          "16384,ring,ll,0,4,w,1,10,9,9,9,9,same",
                          "16384,ring,ll,0,4,w,2,10,9,9,9,9,other",
                          "65536,ring,ll,0,4,w,1,10,9,9,9,9,-"});
    const struct {
        size_t n_bytes;
        int n_channels;
        mock_bits bits;
    } cases[] = {
        {1024, 0, MOCK_BITS_SAME},    {1024, 2, MOCK_BITS_OTHER},
        {1024, 3, MOCK_BITS_UNKNOWN}, {2048, 0, MOCK_BITS_UNKNOWN},
        {4096, 0, MOCK_BITS_SAME},    {4096, 2, MOCK_BITS_UNKNOWN},
        {16384, 0, MOCK_BITS_OTHER},  {65536, 0, MOCK_BITS_UNKNOWN},
        {512, 0, MOCK_BITS_UNKNOWN},  {1 << 20, 0, MOCK_BITS_UNKNOWN},
    };

    for (const auto &c : cases) {
        const mock_run run{ncclFuncAllReduce, c.n_bytes, NCCL_ALGO_RING,
                           NCCL_PROTO_LL, c.n_channels};
        EXPECT_EQ(c.bits, Mean(machine, run).bits)
            << c.n_bytes << " " << c.n_channels;
        EXPECT_EQ(c.bits, At(machine, run, 0).bits);
    }
}

// Registered buffers have times of their own, of which nothing is modelled.
TEST(Timings, OfRegisteredBuffersAreThoseThatWereRecorded)
{
    Machine machine = LoadRows(
        "ran_kernel", {"1024,ring,ll,0,4,w,1,10,9,9,9,9,",
                       "1024,sym,sym,0,4,w,1,10,5,5,5,5,AllReduce_A",
                       "1024,sym,sym,0,4,w,2,10,6,6,6,6,AllReduce_A",
                       "4096,sym,sym,0,4,w,1,10,9,9,9,9,AllReduce_B",
                       "4096,sym,sym,0,4,w,2,10,9,9,9,9,AllReduce_B",
                       "16384,sym,sym,0,4,w,1,10,9,9,9,9,AllReduce_C",
                       "16384,sym,sym,0,4,w,2,10,9,9,9,9,AllReduce_C",
                       "1024,sym/ctas=16-64,sym/ctas=16-64,0,4,w,1,10,4,4,"
                       "4,4,AllReduce_A",
                       "1024,sym/ctas=32-64,sym/ctas=32-64,0,4,w,1,10,3,3,"
                       "3,3,AllReduce_A",
                       "1024,stage/ctas=32-64,stage/ctas=32-64,0,4,w,1,10,"
                       "7,7,7,7,AllReduce_B",
                       "1024,reg,reg,0,4,w,1,10,8,8,8,8,"});
    const mock_run sym{ncclFuncAllReduce, 1024, MOCK_WAY_SYM, 0, 0};
    const mock_run larger{ncclFuncAllReduce, 3000, MOCK_WAY_SYM, 0, 0};
    const mock_run halfway{ncclFuncAllReduce, 8192, MOCK_WAY_SYM, 0, 0};
    const mock_run wide{ncclFuncAllReduce, 1024, MOCK_WAY_SYM_16, 0, 0};
    const mock_run widest{ncclFuncAllReduce, 1024, MOCK_WAY_SYM_32, 0, 0};
    const mock_run staged{ncclFuncAllReduce, 1024, MOCK_WAY_STAGE_32, 0, 0};
    const mock_run reg{ncclFuncAllReduce, 1024, MOCK_WAY_REG, 0, 0};
    const mock_run copied{ncclFuncAllReduce, 1024, MOCK_WAY_CE, 0, 0};
    mock_time time{};

    EXPECT_NEAR(5, At(machine, sym, 0).us, 1e-9);
    EXPECT_NEAR(6, At(machine, sym, .5).us, 1e-9);
    EXPECT_NEAR(4, At(machine, wide, 0).us, 1e-9);
    EXPECT_NEAR(3, At(machine, widest, 0).us, 1e-9);
    EXPECT_NEAR(7, At(machine, staged, 0).us, 1e-9);
    EXPECT_STREQ("AllReduce_B", At(machine, staged, 0).kernel);
    EXPECT_EQ(MOCK_TIME_RECORDED, At(machine, sym, 0).source);
    EXPECT_STREQ("AllReduce_A", At(machine, sym, 0).kernel);
    EXPECT_EQ(MOCK_TIME_INTERPOLATED, Mean(machine, larger).source);
    EXPECT_STREQ("AllReduce_B", Mean(machine, larger).kernel);
    EXPECT_STREQ("AllReduce_C", Mean(machine, halfway).kernel);
    EXPECT_STREQ("AllReduce_C", At(machine, halfway, 0).kernel);
    EXPECT_STREQ("", Mean(machine, reg).kernel);
    EXPECT_STREQ("", Mean(machine, Ll(1024)).kernel);
    EXPECT_EQ(ncclInvalidArgument,
              mock_machine_time(machine.get(), &copied, 0, 0, &time));
    EXPECT_EQ("no time for allreduce of registered buffers: none was recorded "
              "on " +
                  std::string(mock_machine_get_info(machine.get())->name) +
                  ", and none is modelled",
              mock_last_error());
    EXPECT_TRUE(mock_machine_has_way(machine.get(), ncclFuncAllReduce,
                                     MOCK_WAY_SYM, false));
    EXPECT_FALSE(mock_machine_has_way(machine.get(), ncclFuncAllGather,
                                      MOCK_WAY_SYM, false));
    EXPECT_FALSE(mock_machine_has_way(machine.get(), ncclFuncAllReduce,
                                      MOCK_WAY_CE, false));
}

mock_run InGraph(mock_run run)
{
    run.graph = true;
    return run;
}

TEST(GraphTimes, AreThoseOfRowsThatSaySoAndElseAModel)
{
    Machine machine = LoadRows(
        "bits,graph", {"1024,ring,ll,0,4,w,1,9,10,10,10,10,same,0",
                       "1024,ring,ll,0,4,w,2,9,12,12,12,12,same,0",
                       "1024,ring,ll,0,4,w,3,9,11,11,11,11,same,0",
                       "1024,ring,ll,0,4,w,1,9,4,4,4,4,-,1",
                       "1024,ring,ll,0,4,w,2,9,6,6,6,6,-,1",
                       "4096,ring,ll,0,4,w,1,9,7,7,7,7,-,1",
                       "4096,ring,ll,0,4,w,2,9,9,9,9,9,-,1",
                       "16777216,ring,ll,0,4,w,1,9,90,90,90,90,same,0",
                       "16777216,ring,ll,0,4,w,2,9,90,90,90,90,same,0",
                       "16777216,ring,ll,0,4,w,3,9,90,90,90,90,same,0",
                       "16777216,ring,simple,0,4,w,1,9,80,80,80,80,same,0",
                       "16777216,ring,simple,8,4,w,1,9,160,160,160,160,other,0",
                       "16777216,ring,simple,0,4,w,1,9,60,60,60,60,-,1",
                       "1024,ring,ll128,0,4,w,1,9,5,5,5,5,same,1",
                       "1024,reg,reg,0,4,w,1,9,8,8,8,8,same,0",
                       "1024,stage,stage,0,4,w,1,9,3,3,3,3,same,1"});
    const mock_run ll128 = RingOf(1024, NCCL_PROTO_LL128);
    const mock_run reg{ncclFuncAllReduce, 1024, MOCK_WAY_REG, 0, 0};
    const mock_run stage{ncclFuncAllReduce, 1024, MOCK_WAY_STAGE, 0, 0};
    const struct {
        mock_run run;
        double us;
        mock_time_source source;
        mock_bits bits;
    } cases[] = {
        {Ll(1024), 11, MOCK_TIME_RECORDED, MOCK_BITS_SAME},
        // bits are the same however it is launched
        {InGraph(Ll(1024)), 5, MOCK_TIME_RECORDED, MOCK_BITS_SAME},
        {InGraph(Ll(512)), 5, MOCK_TIME_MODELLED, MOCK_BITS_UNKNOWN},
        {InGraph(Ll(2048)), 6, MOCK_TIME_INTERPOLATED, MOCK_BITS_UNKNOWN},
        {InGraph(Ll(4096)), 8, MOCK_TIME_RECORDED, MOCK_BITS_UNKNOWN},
        // above them as launched one by one, where nobody sees the launch
        {InGraph(Ll(16 * M)), 90, MOCK_TIME_MODELLED, MOCK_BITS_SAME},
        {InGraph(Simple(16 * M)), 60, MOCK_TIME_RECORDED, MOCK_BITS_SAME},
        {Simple(16 * M, 8), 160, MOCK_TIME_RECORDED, MOCK_BITS_OTHER},
        {InGraph(Simple(16 * M, 8)), 120, MOCK_TIME_MODELLED, MOCK_BITS_OTHER},
        // of one launch alone
        {InGraph(ll128), 5, MOCK_TIME_RECORDED, MOCK_BITS_SAME},
        {ll128, 5, MOCK_TIME_MODELLED, MOCK_BITS_SAME},
        {InGraph(reg), 8, MOCK_TIME_MODELLED, MOCK_BITS_SAME},
        {InGraph(stage), 3, MOCK_TIME_RECORDED, MOCK_BITS_SAME},
    };
    size_t sizes[4] = {0, 0, 0, 0};

    for (const auto &c : cases) {
        const mock_time time = Mean(machine, c.run);
        EXPECT_NEAR(c.us, time.us, 1e-9)
            << c.run.n_bytes << " " << c.run.proto << " " << c.run.graph;
        EXPECT_EQ(c.source, time.source) << c.run.n_bytes << c.run.proto;
        EXPECT_EQ(c.bits, time.bits) << c.run.n_bytes << c.run.proto;
    }
    EXPECT_NEAR(4, At(machine, InGraph(Ll(1024)), 0).us, 1e-9);
    EXPECT_NEAR(6, At(machine, InGraph(Ll(1024)), .5).us, 1e-9);
    for (bool graph : {false, true}) {
        EXPECT_EQ(graph ? 2u : 3u, mock_machine_rounds(machine.get(), graph));
        EXPECT_NE(graph, mock_machine_has_way(machine.get(), ncclFuncAllReduce,
                                              MOCK_WAY_REG, graph));
        EXPECT_EQ(graph, mock_machine_has_way(machine.get(), ncclFuncAllReduce,
                                              MOCK_WAY_STAGE, graph));
    }
    EXPECT_EQ(2u, mock_machine_sizes(machine.get(), ncclFuncAllReduce, true,
                                     sizes, 4));
    EXPECT_THAT(sizes, testing::ElementsAre(1024, 4096, 0, 0));
    EXPECT_FALSE(mock_machine_captures(machine.get())) << "of no iterations";
}

TEST(NoTimings, HaveNoSizesAndNoRounds)
{
    Machine machine = LoadMachine("h100x8");
    size_t size;

    EXPECT_EQ(0u, mock_machine_sizes(machine.get(), ncclFuncAllReduce, false,
                                     &size, 1));
    EXPECT_EQ(0u, mock_machine_rounds(machine.get(), false));
}

TEST(OutcomeLimit, IsNcclsOwnCountIfItIsBelowTheOneAskedFor)
{
    const struct {
        int asked, kept, limit;
        int run; // in which a negative count is the largest
    } cases[] = {{0, 0, 0, 0},    {2, 1, 1, 1},        {24, 8, 8, 8},
                 {8, 8, 0, 8},    {127, 24, 24, 24},   {128, 24, 0, 24},
                 {-2, 24, 0, 24}, {4, -1, 0, INT8_MAX}};
    const mock_call call = Call(ncclFuncAllGather, 1024);

    for (const auto &c : cases) {
        mock_outcome outcome{};
        outcome.asked_channels = c.asked;
        outcome.tuned_channels = c.kept;
        outcome.algo = NCCL_ALGO_TREE;
        outcome.proto = NCCL_PROTO_LL128;
        const mock_run run = mock_outcome_run(&call, &outcome);
        EXPECT_EQ(c.limit, mock_outcome_limit(&outcome)) << c.asked;
        EXPECT_EQ(c.run, run.n_channels) << c.asked;
        EXPECT_EQ(ncclFuncAllGather, run.coll);
        EXPECT_EQ(1024u, run.n_bytes);
        EXPECT_EQ(NCCL_ALGO_TREE, run.algo);
        EXPECT_EQ(NCCL_PROTO_LL128, run.proto);
    }
}

} // namespace
