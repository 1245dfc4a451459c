// steptune record, on a recorded machine: the copy is that machine.
#include <cmath>
#include <set>

#include "support/cli_fixture.h"
#include "support/mock_folder.h"
#include "support/recorded_choices.h"
#include "support/slow.h"

using mock_test::ReadCsv;
using mock_test::Row;

namespace
{

using namespace cli;
using namespace testing;

class Record : public Cli
{
  protected:
    std::string In(const std::string &file) const
    {
        return (dir_ / file).string();
    }
};

TEST_F(Record, MakesAFolderThatReproducesTheMachine)
{
    STP_SLOW();
    Outcome o = Run("record again --on h200x4");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("405 of 405 choices reproduced\n"));
    EXPECT_THAT(o.out, HasSubstr("a recorded machine in mock NCCL"));
    EXPECT_THAT(o.err, IsEmpty());
    EXPECT_THAT(Files(), ElementsAre("again"));
    // tables as printed, choices and channels, by a test of mock NCCL itself
    EXPECT_EQ(405, ExpectChoices(In("again")));
}

using Key = std::vector<std::string>;

std::map<Key, double> MeansOf(const std::string &path,
                              const std::vector<const char *> &key)
{
    std::map<Key, double> means;

    for (const Row &row : ReadCsv(path)) {
        Key k;
        for (const char *column : key)
            k.push_back(row.at(column));
        means[k] = std::stod(row.at("mean_us"));
    }
    return means;
}

// Times of a round come back as means of 50 draws from its spread.
TEST_F(Record, TimesAreThoseOfTheMachine)
{
    const std::vector<const char *> key = {
        "collective", "bytes", "algorithm", "protocol",
        "channels",   "run",   "round"};
    ASSERT_EQ(0, Run("record again --on h200x4 --no-overlap --collective "
                     "allgather,allreduce")
                     .status);
    std::map<Key, double> again = MeansOf(In("again/timings.csv"), key);
    std::map<Key, double> first =
        MeansOf(STP_FIXTURES "/machines/h200x4/timings.csv", key);
    int n_window = 0;
    int n_sweep = 0;

    for (const auto &[k, us] : again) {
        auto found = first.find(k);
        // auto is recorded pooled with the pair that it is
        if (found == first.end() || k[2] == "auto")
            continue;
        bool window = k[5] == "window";
        EXPECT_NEAR(1, us / found->second, window ? .1 : .25)
            << PrintToString(k);
        (window ? n_window : n_sweep)++;
    }
    EXPECT_GE(n_window, 400);
    EXPECT_GE(n_sweep, 300);
}

TEST_F(Record, HasSizesBetweenThoseFrom1To32MiBUnlessAskedForSteps)
{
    const struct {
        const char *sizes;
        std::vector<size_t> kib;
    } cases[] = {
        {"-b 512K -e 4M",
         {512, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096}},
        {"-b 16M -e 64M", {16384, 20480, 24576, 28672, 32768, 65536}},
        {"-b 1M -e 4M -f 2", {1024, 2048, 4096}},
        {"-b 1M -e 4M -i 1M", {1024, 2048, 3072, 4096}},
    };
    for (const auto &c : cases) {
        ASSERT_EQ(0, Run("record a --force --on h200x2 --no-overlap --rounds 2 "
                         "--channels 8 --collective allgather " +
                         std::string(c.sizes))
                         .status);
        std::map<size_t, std::set<std::string>> rounds;
        for (const Row &row : ReadCsv(In("a/timings.csv")))
            if (row.at("run") == "window")
                rounds[std::stoull(row.at("bytes")) >> 10].insert(
                    row.at("round"));
        ASSERT_EQ(c.kib.size(), rounds.size()) << c.sizes;
        for (size_t size : c.kib)
            EXPECT_THAT(rounds[size], ElementsAre("1", "2")) << size;
    }
}

TEST_F(Record, IterationsAreThoseOfTheMachine)
{
    STP_SLOW();
    ASSERT_EQ(0, Run("record again --on h200x4 --collective allreduce").status);
    mock_test::Machine first = mock_test::LoadMachine("h200x4");
    mock_test::Machine again = mock_test::LoadFolder(In("again"));
    mock_overlap_setting settings[16];
    size_t n = mock_machine_overlap_settings(again.get(), settings, 16);

    ASSERT_EQ(8u, n); // those whose GEMM is near enough to a recorded one
    EXPECT_EQ(4u, mock_machine_overlap_rounds(again.get()));
    for (size_t i = 0; i < n; i++) {
        const mock_run run{ncclFuncAllReduce, settings[i].n_bytes,
                           NCCL_ALGO_RING, NCCL_PROTO_LL128, 0};
        mock_overlap a{}, b{};
        mock_machine_overlap(first.get(), &run, MOCK_MODE_OVERLAP,
                             settings[i].compute_us, .5, .5, &a);
        mock_machine_overlap(again.get(), &run, MOCK_MODE_OVERLAP,
                             settings[i].compute_us, .5, .5, &b);
        EXPECT_NE(0u, settings[i].k);
        EXPECT_NEAR(1,
                    mock_iteration_us(MOCK_MODE_OVERLAP, &b, 0, 8) /
                        mock_iteration_us(MOCK_MODE_OVERLAP, &a, 0, 8),
                    .04); // some of other arms' times
    }
}

// Every setting has times of buffers in symmetric windows.
TEST_F(Record, IterationsOfAllModesAreThoseOfTheMachine)
{
    STP_SLOW();
    ASSERT_EQ(0, Run("record again --on h100x2 -b 4M -e 8M -f 2 --collective "
                     "allreduce,allgather,reducescatter")
                     .status);
    mock_test::Machine first = mock_test::LoadMachine("h100x2");
    mock_test::Machine again = mock_test::LoadFolder(In("again"));
    mock_overlap_setting settings[32];
    size_t n = mock_machine_overlap_settings(again.get(), settings, 32);
    std::map<int, int> n_of_mode;

    ASSERT_LE(n, 32u);
    for (size_t i = 0; i < n; i++) {
        const mock_overlap_setting &s = settings[i];
        const mock_run run{s.coll, s.n_bytes, MOCK_WAY_SYM, 0, 0};
        double us[2];
        for (int k = 0; k < 2; k++) {
            const mock_machine *m = k == 0 ? first.get() : again.get();
            mock_overlap o{};
            mock_time t{};
            if (s.mode == MOCK_MODE_SEQUENTIAL)
                EXPECT_EQ(ncclSuccess, mock_machine_time_after(
                                           m, &run, s.compute_us, .5, .5, &t));
            else
                EXPECT_EQ(ncclSuccess,
                          mock_machine_overlap(m, &run, s.mode, s.compute_us,
                                               .5, .5, &o));
            us[k] = s.mode == MOCK_MODE_SEQUENTIAL
                        ? t.us
                        : mock_iteration_us(s.mode, &o, o.comm_us, s.n_layers);
        }
        n_of_mode[s.mode]++;
        EXPECT_NEAR(1, us[1] / us[0], .03)
            << s.mode << " " << s.coll << " " << s.n_bytes;
    }
    EXPECT_THAT(n_of_mode, ElementsAre(Pair(MOCK_MODE_OVERLAP, 2 * 3),
                                       Pair(MOCK_MODE_FSDP, 2 * 2 * 3),
                                       Pair(MOCK_MODE_SEQUENTIAL, 3 * 2)));
}

} // namespace
