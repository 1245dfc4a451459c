// Tests of the log to which an application writes its times: which lines count,
// and that the pieces in which they arrive do not matter.
#include <gmock/gmock.h>

#include <cstdio>
#include <string>
#include <vector>

extern "C" {
#include "core/learn/reward_log.h"
#include "core/names.h"
#include "core/rng.h"
}

namespace
{

using testing::ElementsAre;
using testing::IsEmpty;
using Lines = std::vector<std::string>;

void Collect(void *user, const stp_reward *r)
{
    char text[160];

    snprintf(text, sizeof(text), "%s %llu %llu %llu %g", stp_coll_name(r->coll),
             static_cast<unsigned long long>(r->n_bytes),
             static_cast<unsigned long long>(r->n_nodes),
             static_cast<unsigned long long>(r->n_ranks), r->latency_ms);
    static_cast<Lines *>(user)->push_back(text);
}

struct Reader {
    stp_reward_log log{};
    Lines good;

    void Feed(const std::string &text)
    {
        stp_reward_log_feed(&log, text.data(), text.size(), Collect, &good);
    }
};

TEST(RewardLog, HandsOutLinesInOrder)
{
    Reader r;

    r.Feed("allreduce,4194304,1,8,12.34\nreducescatter,0,2,16,5e-3\n");

    EXPECT_THAT(r.good, ElementsAre("allreduce 4194304 1 8 12.34",
                                    "reducescatter 0 2 16 0.005"));
    EXPECT_EQ(2u, r.log.n_good);
    EXPECT_EQ(0u, r.log.n_bad);
    EXPECT_STREQ("", r.log.first_bad);
}

TEST(RewardLog, TakesLinesThatPeopleAndToolsWrite)
{
    const std::string longest =
        std::string(256 - 19, ' ') + "broadcast,8,1,2,3.5";
    const struct {
        std::string line;
        const char *reward;
    } cases[] = {
        {"broadcast,8,1,2,3.5", "broadcast 8 1 2 3.5"},
        {"broadcast,8,1,2,3.5\r", "broadcast 8 1 2 3.5"},
        {" broadcast ,\t8, 1,2 ,3.5\t", "broadcast 8 1 2 3.5"},
        {"allgather,18446744073709551615,1,8,7",
         "allgather 18446744073709551615 1 8 7"},
        {"reduce,008,1,2,1e300", "reduce 8 1 2 1e+300"},
        {longest, "broadcast 8 1 2 3.5"},
    };

    for (const auto &c : cases) {
        Reader r;
        r.Feed(c.line + "\n");
        EXPECT_THAT(r.good, ElementsAre(c.reward)) << c.line;
        EXPECT_EQ(0u, r.log.n_bad) << c.line;
    }
}

TEST(RewardLog, PassesOverEmptyLinesAndComments)
{
    Reader r;

    r.Feed("\n\r\n  \t\n# allreduce,8,1,2,3\n#" + std::string(200, 'x') +
           "\n\nbroadcast,8,1,2,3.5\n");

    EXPECT_THAT(r.good, ElementsAre("broadcast 8 1 2 3.5"));
    EXPECT_EQ(0u, r.log.n_bad);
}

TEST(RewardLog, CountsLinesThatMeanNothing)
{
    const std::string too_long(257, ' ');
    const std::string cut = too_long.substr(0, 63);
    const struct {
        std::string line;
        std::string shown;
    } cases[] = {
        {"allreduce,8,1,2", "allreduce,8,1,2"},
        {"allreduce,8,1,2,3,4", "allreduce,8,1,2,3,4"},
        {"AllReduce,8,1,2,3", "AllReduce,8,1,2,3"},
        {"4,8,1,2,3", "4,8,1,2,3"},
        {",8,1,2,3", ",8,1,2,3"},
        {"allreduce,,1,2,3", "allreduce,,1,2,3"},
        {"allreduce,-8,1,2,3", "allreduce,-8,1,2,3"},
        {"allreduce,+8,1,2,3", "allreduce,+8,1,2,3"},
        {"allreduce,8K,1,2,3", "allreduce,8K,1,2,3"},
        {"allreduce,8 8,1,2,3", "allreduce,8 8,1,2,3"},
        {"allreduce,18446744073709551616,1,2,3",
         "allreduce,18446744073709551616,1,2,3"},
        {"allreduce,8,1.0,2,3", "allreduce,8,1.0,2,3"},
        {"allreduce,8,1,x,3", "allreduce,8,1,x,3"},
        {"allreduce,8,1,2,0", "allreduce,8,1,2,0"},
        {"allreduce,8,1,2,-3", "allreduce,8,1,2,-3"},
        {"allreduce,8,1,2,nan", "allreduce,8,1,2,nan"},
        {"allreduce,8,1,2,inf", "allreduce,8,1,2,inf"},
        {"allreduce,8,1,2,1e999", "allreduce,8,1,2,1e999"},
        {"allreduce,8,1,2,", "allreduce,8,1,2,"},
        {"allreduce,8,1,2,3ms", "allreduce,8,1,2,3ms"},
        {"allreduce,8,1,2,3\r\r", "allreduce,8,1,2,3?"},
        {std::string("allreduce,8\0,1,2,3", 18), "allreduce,8?,1,2,3"},
        {"\x7f\xff\x01\x1b[2J", "????[2J"},
        {"! }~", "! }~"},
        {too_long, cut},
        {std::string(10 << 20, 'x'), std::string(63, 'x')},
    };

    for (const auto &c : cases) {
        const std::string name = c.line.substr(0, 80);
        Reader r;
        r.Feed(c.line + "\nbroadcast,8,1,2,3.5\nnext bad\n");
        EXPECT_THAT(r.good, ElementsAre("broadcast 8 1 2 3.5")) << name;
        EXPECT_EQ(2u, r.log.n_bad) << name;
        EXPECT_EQ(c.shown, r.log.first_bad) << name;
    }
}

TEST(RewardLog, CountsALineThatIsTooLongBeforeItEnds)
{
    Reader r;

    r.Feed(std::string(256, 'x'));
    EXPECT_EQ(0u, r.log.n_bad);
    r.Feed("x");
    EXPECT_EQ(1u, r.log.n_bad);
    r.Feed("x\n");
    EXPECT_EQ(1u, r.log.n_bad);
}

TEST(RewardLog, WaitsForTheEndOfALine)
{
    Reader r;

    r.Feed("broadcast,8,1,2,3");
    EXPECT_THAT(r.good, IsEmpty());
    r.Feed(".5\n");
    EXPECT_THAT(r.good, ElementsAre("broadcast 8 1 2 3.5"));
}

TEST(RewardLog, DropsWhatCameOfALineOnRestart)
{
    for (const std::string &part :
         {std::string("allreduce,8,"), std::string(300, 'x')}) {
        Reader r;
        r.Feed(part);
        stp_reward_log_restart(&r.log);
        r.Feed("broadcast,8,1,2,3.5\n");
        EXPECT_THAT(r.good, ElementsAre("broadcast 8 1 2 3.5"));
    }
}

// ---- pieces ----

std::string RandomText(uint64_t seed)
{
    const std::string lines[] = {"allreduce,8,1,2,3",
                                 "# comment",
                                 "",
                                 "broadcast,16,1,2,4.5\r",
                                 "bad",
                                 std::string(256, ' '),
                                 std::string(257, ' '),
                                 std::string(600, ','),
                                 std::string("a\0b", 3),
                                 "reduce,1,1,2,0"};
    std::string text;

    for (uint64_t i = 0; i < 60; i++) {
        text += lines[stp_rng(seed, i) % std::size(lines)];
        text += stp_rng(seed + 1, i) % 8 != 0 ? "\n" : "";
    }
    return text;
}

TEST(RewardLog, ReadsTheSameInWhateverPieces)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        const std::string text = RandomText(seed);
        Reader whole;
        whole.Feed(text);
        ASSERT_GT(whole.log.n_good, 0u);
        ASSERT_GT(whole.log.n_bad, 0u);
        for (size_t most : {1, 2, 7, 100, 1000}) {
            Reader pieces;
            for (size_t at = 0, n; at < text.size(); at += n) {
                n = 1 + stp_rng(seed, at) % most;
                pieces.Feed(text.substr(at, n));
            }
            EXPECT_EQ(whole.good, pieces.good) << seed << " " << most;
            EXPECT_EQ(whole.log.n_bad, pieces.log.n_bad) << seed;
            EXPECT_STREQ(whole.log.first_bad, pieces.log.first_bad) << seed;
        }
    }
}

} // namespace
