// Compiled policies by hand: what is looked up, and where answers may change.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <thread>
#include <utility>

#include <gmock/gmock.h>

extern "C" {
#include "core/names.h"
}

#include "core/policy/first_rule.h"
#include "support/policy_text.h"

using namespace policy_text;
using testing::ElementsAre;
using testing::IsEmpty;

namespace
{

// ---- lookup, by hand ----

TEST(CompiledLookup, FindsTheFirstRuleThatMatches)
{
    struct Lookup {
        uint64_t n_bytes;
        int n_pipe_ops, reg_buff;
        unsigned line; // 0: none
    };
    const std::pair<const char *, std::vector<Lookup>> cases[] = {
        // both ends of a range are in it
        {"allreduce,100,200,ring,ll,1,1,8",
         {{99, 1, 0, 0}, {100, 1, 0, 1}, {200, 1, 0, 1}, {201, 1, 0, 0}}},
        {"allreduce,0,0,ring,ll,1,1,8\nallreduce,1,1,ring,ll,2,1,8\n"
         "allreduce,2,2,ring,ll,2,1,8\nallreduce,3,3,ring,ll,2,1,8\n",
         {{0, 1, 0, 1},
          {1, 1, 0, 2},
          {2, 1, 0, 3},
          {3, 1, 0, 4},
          {4, 1, 0, 0}}},
        {"allreduce,0,inf,ring,ll,1,1,8,2,1\n" // pipe ops, buffers
         "allreduce,0,inf,ring,ll,2,1,8,2,-1\n"
         "allreduce,0,inf,ring,ll,3,1,8,-1,1\n"
         "allreduce,0,inf,ring,ll,4,1,8,3,0\n"
         "allreduce,0,99,ring,ll,5,1,8,-1,-1\n",
         {{5, 2, 1, 1},
          {5, 2, 0, 2},
          {5, 3, 1, 3},
          {5, 3, 0, 4},
          {5, 1, 0, 5},
          {100, 1, 0, 0}}},
        {"allreduce,0,inf,ring,ll,4,1,8,-1,0\n" // buffers alone
         "allreduce,0,9,ring,ll,4,1,8,-1,1\n",
         {{5, 1, 0, 1}, {5, 1, 1, 2}, {10, 1, 0, 1}, {10, 1, 1, 0}}},
        {"allreduce,0,inf,ring,ll,4,1,8,-1,1\n"
         "allreduce,0,9,ring,ll,4,1,8,-1,0\n",
         {{5, 1, 0, 2}, {5, 1, 1, 1}, {10, 1, 0, 0}, {10, 1, 1, 1}}},
        // not in the order of their sizes
        {"allreduce,261,inf,ring,ll,1,1,8\nallreduce,5,inf,tree,ll,1,1,8\n",
         {{4, 1, 0, 0}, {5, 1, 0, 2}, {261, 1, 0, 1}}},
        {"allreduce,72057594037927936,inf,ring,ll,1,1,8\n"
         "allreduce,16777217,inf,tree,ll,1,1,8\n",
         {{16777216, 1, 0, 0},
          {16777217, 1, 0, 2},
          {uint64_t{1} << 56, 1, 0, 1}}},
        {"allreduce,11,inf,ring,ll,1,1,8\nallreduce,10,inf,tree,ll,1,1,8\n",
         {{9, 1, 0, 0}, {10, 1, 0, 2}, {11, 1, 0, 1}}},
        {"broadcast,1,inf,ring,ll,1,1,8\nbroadcast,2,inf,ring,ll,1,1,8\n"
         "broadcast,3,inf,ring,ll,1,1,8\n"
         "allreduce,10,inf,ring,ll,1,1,8\nallreduce,3,inf,tree,ll,1,1,8\n",
         {{2, 1, 0, 0}, {3, 1, 0, 5}, {9, 1, 0, 5}, {10, 1, 0, 4}}},
        // the first begins within another and ends before it
        {"allreduce,0,1,ring,ll,1,1,8\nallreduce,0,2,ring,ll,1,1,8\n"
         "allreduce,20,30,ring,ll,1,1,8\nallreduce,10,99,ring,ll,1,1,8\n",
         {{1, 1, 0, 1},
          {2, 1, 0, 2},
          {3, 1, 0, 0},
          {19, 1, 0, 4},
          {20, 1, 0, 3},
          {31, 1, 0, 4}}},
        {"allreduce,18446744073709551615,inf,ring,ll,1,1,8\n"
         "allreduce,0,18446744073709551614,tree,ll,1,1,8\n",
         {{UINT64_MAX - 1, 1, 0, 2}, {UINT64_MAX, 1, 0, 1}}},
    };
    for (const auto &[csv, lookups] : cases) {
        Both b(csv);

        for (const Lookup &l : lookups)
            EXPECT_EQ(l.line, LineOf(b.compiled, {kAllReduce, l.n_bytes,
                                                  l.n_pipe_ops, l.reg_buff}))
                << csv << l.n_bytes;
    }
}

TEST(CompiledLookup, FillsTheWholeChoice)
{
    Both b("collective,algorithm,protocol,channels,chunk_bytes,max_bytes\n"
           "allreduce,nvls_tree,simple,64,16M,9\n"
           "allreduce,tree,ll128,-1,4097,inf\n");
    Costs costs;
    stp_cost_view view = costs.View();
    stp_query query = {kAllReduce, 9, 1, 0};
    stp_choice choice{};

    ASSERT_TRUE(stp_compiled_lookup(b.compiled.get(), &query, &view, &choice));
    EXPECT_EQ(NCCL_ALGO_NVLS_TREE, choice.algo);
    EXPECT_EQ(NCCL_PROTO_SIMPLE, choice.proto);
    EXPECT_EQ(64, choice.n_channels);
    EXPECT_EQ(16u << 20, choice.chunk_bytes);
    EXPECT_EQ(2u, choice.line);

    query.n_bytes = 10;
    ASSERT_TRUE(stp_compiled_lookup(b.compiled.get(), &query, &view, &choice));
    EXPECT_EQ(NCCL_ALGO_TREE, choice.algo);
    EXPECT_EQ(NCCL_PROTO_LL128, choice.proto);
    EXPECT_EQ(0, choice.n_channels);
    EXPECT_EQ(4097u, choice.chunk_bytes);
    EXPECT_EQ(3u, choice.line);
}

TEST(CompiledLookup, GivesEveryChunkToTheByte)
{
    for (uint32_t chunk_bytes :
         {0u, 4096u, 4097u, 5120u, 5125u, 8191u, (16u << 20) - 1, 16u << 20}) {
        Both b("collective,algorithm,protocol,chunk_bytes\n"
               "allreduce,ring,ll," +
               std::to_string(chunk_bytes));
        const Costs costs;
        const stp_cost_view view = costs.View();
        const stp_query query = {kAllReduce, 9, 1, 0};
        stp_choice choice{};

        EXPECT_TRUE(
            stp_compiled_lookup(b.compiled.get(), &query, &view, &choice));
        EXPECT_EQ(chunk_bytes, choice.chunk_bytes);
    }
}

TEST(CompiledLookup, LeavesTheChoiceAloneIfNothingMatches)
{
    Both b("allreduce,0,9,ring,ll,1,1,8,2");
    Costs costs;
    stp_cost_view view = costs.View();
    stp_choice choice, before;
    memset(&choice, 0x5A, sizeof(choice));
    before = choice;

    for (const stp_query &query :
         {stp_query{kAllReduce, 10, 2, 0}, stp_query{kAllReduce, 9, 1, 0},
          stp_query{ncclFuncReduce, 9, 2, 0}})
        EXPECT_FALSE(
            stp_compiled_lookup(b.compiled.get(), &query, &view, &choice));

    EXPECT_EQ(0, memcmp(&before, &choice, sizeof(choice)));
}

TEST(CompiledLookup, KnowsNoOtherCollectives)
{
    Both b("allreduce,0,inf,ring,ll,1,1,8");

    for (int coll : {-1, 5, 6, 1 << 30, std::numeric_limits<int>::min()}) {
        const stp_query query = {coll, 0, 1, 0};
        const Costs costs;
        const stp_cost_view view = costs.View();
        stp_choice choice;

        EXPECT_FALSE(
            stp_compiled_lookup(b.compiled.get(), &query, &view, &choice));
        EXPECT_EQ(UINT64_MAX,
                  stp_compiled_next_break(b.compiled.get(), coll, 0));
    }
}

TEST(CompiledLookup, FallsThroughWhatNcclRuledOut)
{
    Both b("allreduce,0,inf,nvls,simple,1,1,8\n"
           "allreduce,0,inf,tree,ll,2,1,8\n"
           "allreduce,0,inf,ring,simple,3,1,8\n");
    const stp_query query = {kAllReduce, 5, 1, 0};
    Costs costs;

    EXPECT_EQ(1u, LineOf(b.compiled, query, costs));
    costs.Set(NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE, NCCL_ALGO_PROTO_IGNORE);
    EXPECT_EQ(2u, LineOf(b.compiled, query, costs));
    costs.Set(NCCL_ALGO_TREE, NCCL_PROTO_LL, -1024.0f);
    EXPECT_EQ(3u, LineOf(b.compiled, query, costs));
    costs.Set(NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, NAN);
    EXPECT_EQ(0u, LineOf(b.compiled, query, costs));
    costs.Set(NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0.0f);
    EXPECT_EQ(3u, LineOf(b.compiled, query, costs));
}

TEST(CompiledLookup, ReadsTheTableWithItsOwnRowLength)
{
    Both b(
        "allreduce,0,inf,ring,simple,1,1,8\nallreduce,0,inf,ring,ll,2,1,8\n");
    const stp_query query = {kAllReduce, 5, 1, 0};
    Costs costs;
    costs.n_proto = 4;
    costs.cost.assign(64, -1.0f);
    costs.cost[1 * 4 + 2] = 5.0f;

    EXPECT_EQ(1u, LineOf(b.compiled, query, costs));
    costs.n_proto = 2;
    costs.cost.assign(64, 1.0f);
    EXPECT_EQ(2u, LineOf(b.compiled, query, costs)) << "no column for simple";
}

TEST(CompiledLookup, LooksAtNoRowThatTheTableLacks)
{
    Both b(
        "allgather,0,inf,pat,simple,1,1,8\nallgather,0,9,ring,simple,2,1,8\n");
    Costs costs;
    costs.n_algo = 6; // NCCL 2.21 and 2.22

    EXPECT_EQ(2u, LineOf(b.compiled, {ncclFuncAllGather, 5, 1, 0}, costs));
    EXPECT_EQ(0u, LineOf(b.compiled, {ncclFuncAllGather, 10, 1, 0}, costs));
    costs.n_algo = 0;
    EXPECT_EQ(0u, LineOf(b.compiled, {ncclFuncAllGather, 5, 1, 0}, costs));
}

TEST(CompiledLookup, MatchesTheCommunicator)
{
    const std::string csv = "collective,algorithm,protocol,nNodes,nRanks,gpu\n"
                            "allreduce,ring,ll,2-3,-1,*\n"
                            "allreduce,ring,ll,-1,8,A\n"
                            "allreduce,ring,ll,-1,9-10,*\n"
                            "allreduce,ring,ll,-1,-1,B\n";
    const struct {
        stp_shape shape;
        unsigned line;
        size_t n_rules;
    } cases[] = {
        {{4, 1, nullptr}, 0, 0}, {{4, 2, nullptr}, 2, 1}, {{4, 3, "A"}, 2, 1},
        {{4, 4, "A"}, 0, 0},     {{8, 1, "A"}, 3, 1},     {{8, 1, "AB"}, 0, 0},
        {{8, 1, nullptr}, 0, 0}, {{9, 1, "A"}, 4, 1},     {{10, 2, "B"}, 2, 3},
        {{11, 1, "B"}, 5, 1},    {{11, 1, "b"}, 0, 0},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(testing::Message()
                     << c.shape.n_ranks << " ranks, " << c.shape.n_nodes
                     << " nodes, " << (c.shape.gpu ? c.shape.gpu : "-"));
        Both b(csv, c.shape);

        EXPECT_EQ(c.line, LineOf(b.compiled, {kAllReduce, 5, 1, 0}));
        EXPECT_EQ(c.n_rules, stp_compiled_size(b.compiled.get()));
    }
}

TEST(CompiledLookup, ScalesSizesPerRank)
{
    constexpr uint64_t kEighth = UINT64_MAX / 8, kThird = UINT64_MAX / 3;
    const struct {
        size_t n_ranks;
        uint64_t min, max;    // a rank
        uint64_t first, last; // bytes of all; none if reversed
    } cases[] = {
        {8, 0, 0, 0, 7},
        {8, 1, 2, 8, 23},
        {3, 5, UINT64_MAX, 15, UINT64_MAX},
        {1, 5, 6, 5, 6},
        {8, kEighth, UINT64_MAX, kEighth * 8, UINT64_MAX},
        {8, kEighth + 1, UINT64_MAX, 1, 0},
        {8, 1, kEighth - 1, 8, kEighth * 8 - 1},
        {8, 1, kEighth, 8, UINT64_MAX},
        {3, 1, kThird, 3, UINT64_MAX},
        {3, 1, kThird - 1, 3, UINT64_MAX - 1},
    };

    for (const auto &c : cases) {
        const std::string text =
            std::to_string(c.min) + "," + std::to_string(c.max);
        SCOPED_TRACE(text);
        Both b("collective,algorithm,protocol,min_bytes_per_rank,"
               "max_bytes_per_rank\nreduce,ring,ll,0,inf\n"
               "allreduce,ring,ll," +
                   text,
               {c.n_ranks, 1, nullptr});
        const auto matches = [&](uint64_t n_bytes) {
            return LineOf(b.compiled, {kAllReduce, n_bytes, 1, 0}) != 0;
        };

        EXPECT_EQ(c.first <= c.last ? 2u : 1u,
                  stp_compiled_size(b.compiled.get()));
        for (uint64_t end : {c.first, c.last})
            for (uint64_t n : {end - 1, end, end + 1})
                EXPECT_EQ(c.first <= n && n <= c.last, matches(n)) << n;
    }
}

// Ranges that meet, hide and outlive each other.
TEST(CompiledLookup, EqualsTheDefinitionForFewSizes)
{
    const char *rules[] = {"ring,ll,1,1,8",      "ring,ll,1,1,8",
                           "ring,ll,1,1,8",      "tree,ll,1,1,8",
                           "ring,ll,1,1,8,-1,0", "ring,ll,1,1,8,1",
                           "ring,ll,1,1,8,1,0"};
    const stp_shape shape = {8, 1, nullptr};
    const Costs costs;
    std::mt19937 rng(1);

    for (int round = 0; round < 1000; round++) {
        std::string csv;
        for (size_t n = 1 + rng() % 9; n > 0; n--) {
            const unsigned a = rng() % 12, b = rng() % 12;
            csv += "allreduce," + std::to_string(std::min(a, b)) + "," +
                   (a == b ? "inf" : std::to_string(std::max(a, b))) + "," +
                   rules[rng() % (round % 2 ? std::size(rules) : 3)] + "\n";
        }
        Both b(csv);

        for (uint64_t n_bytes = 0; n_bytes <= 12; n_bytes++)
            for (int pipe : {1, 2})
                for (int reg : {0, 1}) {
                    const stp_query query = {kAllReduce, n_bytes, pipe, reg};
                    const stp_rule *want = first_rule::Find(
                        b.policy.get(), shape, query, costs.View());

                    ASSERT_EQ(want ? want->line : 0, LineOf(b.compiled, query))
                        << csv << n_bytes;
                }
    }
}

TEST(CompiledLookup, FindsEachOfManyRangesThatLieClose)
{
    std::string csv = "allreduce,0,9,tree,ll,1,1,8\n";
    const uint64_t far = uint64_t{1} << 40;
    for (uint64_t i = 0; i < 100; i++)
        csv += "allreduce," + std::to_string(far + 7 * i) + "," +
               std::to_string(far + 7 * i + 6) + ",ring,ll,1,1,8\n";
    Both b(csv);

    EXPECT_EQ(0u, LineOf(b.compiled, {kAllReduce, far - 1, 1, 0}));
    for (uint64_t i = 0; i < 700; i++)
        ASSERT_EQ(2 + i / 7, LineOf(b.compiled, {kAllReduce, far + i, 1, 0}));
    EXPECT_EQ(0u, LineOf(b.compiled, {kAllReduce, far + 700, 1, 0}));
    EXPECT_EQ(1u, LineOf(b.compiled, {kAllReduce, 9, 1, 0}));
}

TEST(CompiledLookup, TellsAnyNumbersOfPipeOpsApart)
{
    std::mt19937 rng(1);

    for (int n = 1; n <= 64; n++) {
        std::vector<int> pipe_ops;
        std::string csv;
        for (int i = 0; i < n; i++) {
            pipe_ops.push_back(static_cast<int>(rng() >> 1));
            csv += "allreduce,0,inf,ring,ll,1,1,8," +
                   std::to_string(pipe_ops.back()) + "\n";
        }
        Both b(csv);

        for (size_t i = 0; i < pipe_ops.size(); i++)
            ASSERT_EQ(i + 1,
                      LineOf(b.compiled, {kAllReduce, 9, pipe_ops[i], 0}))
                << n;
        EXPECT_EQ(0u, LineOf(b.compiled, {kAllReduce, 9, 1, 0}));
    }
}

TEST(CompiledLookup, KeepsNothingOfThePolicyOrShape)
{
    Compiled compiled;
    {
        std::string gpu = "H200";
        Policy policy = Parse("collective,algorithm,protocol,gpu\n"
                              "allreduce,ring,ll,H200\n");
        compiled = Compile(policy.get(), {8, 1, gpu.c_str()});
    }

    EXPECT_EQ(2u, LineOf(compiled, {kAllReduce, 5, 1, 0}));
}

TEST(CompiledLookup, ServesManyThreadsAtOnce)
{
    std::string csv;
    for (int i = 0; i < 1000; i++)
        csv += "allreduce," + std::to_string(i * 10) + "," +
               std::to_string(i * 10 + 9) + ",ring,ll,1,1,8\n";
    Both b(csv);
    std::vector<std::thread> threads;
    std::vector<unsigned> n_wrong(4);

    for (unsigned &wrong : n_wrong)
        threads.emplace_back([&] {
            for (unsigned n = 0; n < 10000; n++)
                wrong +=
                    LineOf(b.compiled, {kAllReduce, n, 1, 0}) != n / 10 + 1;
        });
    for (std::thread &thread : threads)
        thread.join();

    EXPECT_THAT(n_wrong, ElementsAre(0, 0, 0, 0));
}

// ---- shape of the result ----

TEST(Compiled, HasNoRuleThatNcclHasNoKernelFor)
{
    Both b("broadcast,0,inf,tree,simple,1,-1,-1\n"
           "allreduce,5,inf,nvls,ll,1,-1,-1\n");

    EXPECT_EQ(0u, stp_compiled_size(b.compiled.get()));
    EXPECT_THAT(Breaks(b.compiled, kAllReduce), IsEmpty());
}

TEST(Compiled, OfAnEmptyPolicyAnswersNothing)
{
    Both b("");

    EXPECT_EQ(0u, stp_compiled_size(b.compiled.get()));
    for (int coll = 0; coll < NCCL_NUM_TUNED_FUNCS; coll++) {
        EXPECT_EQ(0u, LineOf(b.compiled, {coll, 0, 1, 0}));
        EXPECT_EQ(0u, LineOf(b.compiled, {coll, UINT64_MAX, 1, 0}));
        EXPECT_THAT(Breaks(b.compiled, coll), IsEmpty());
    }
}

// ---- what ranks compare ----

uint64_t HashOf(const std::string &csv, const char *gpu = "A")
{
    Policy policy = Parse(csv);
    Compiled compiled = Compile(policy.get(), {8, 1, gpu});
    return stp_compiled_hash(compiled.get());
}

constexpr char kTwoGpus[] = "collective,algorithm,protocol,gpu\n"
                            "allreduce,tree,ll,A\nallreduce,ring,ll,*\n";

TEST(CompiledHash, IsThatOfWhatDecidesNotOfTheFile)
{
    const std::string base = "allreduce,1K,1M,ring,ll,2,1,8\n";
    const struct {
        const char *name;
        std::string a, b;
        bool is_same;
    } cases[] = {
        // clang-format off
        {"comments", base, "# text\n\n" + base, true},
        {"a rule for others", base, "allreduce,0,inf,tree,ll,2,1,4\n" + base, true},
        {"a rule without a kernel", base, "broadcast,0,inf,tree,ll,2,1,8\n" + base, true},
        {"a hidden rule", base, base + "reduce,0,1,ring,ll,2,1,8\n", false},
        {"channels", base, "allreduce,1K,1M,ring,ll,3,1,8\n", false},
        {"an end", base, "allreduce,1K,1048577,ring,ll,2,1,8\n", false},
        {"pipe ops", base, "allreduce,1K,1M,ring,ll,2,1,8,1\n", false},
        {"registration", base, "allreduce,1K,1M,ring,ll,2,1,8,-1,1\n", false},
        {"a collective", base, "reduce,1K,1M,ring,ll,2,1,8\n", false},
        {"an algorithm", base, "allreduce,1K,1M,tree,ll,2,1,8\n", false},
        {"a protocol", base, "allreduce,1K,1M,ring,ll128,2,1,8\n", false},
        {"a chunk", base,
         "collective,min_bytes,max_bytes,algorithm,protocol,channels,chunk_bytes\nallreduce,1K,1M,ring,ll,2,4K\n",
         false},
        {"a second choice", base + "allreduce,1K,1M,tree,ll,2,1,8\n", base + "allreduce,1K,1M,tree,ll,3,1,8\n",
         false},
        {"one between the first and the last", base + "allreduce,1K,1M,tree,ll,2,1,8\n" +
         "allreduce,1K,1M,nvls,simple,2,1,8\n", base + "allreduce,1K,1M,tree,ll,3,1,8\n" +
         "allreduce,1K,1M,nvls,simple,2,1,8\n", false},
        {"nothing", base, "", false},
        // clang-format on
    };

    for (const auto &c : cases)
        EXPECT_EQ(c.is_same, HashOf(c.a) == HashOf(c.b)) << c.name;
    EXPECT_NE(HashOf(kTwoGpus, "A"), HashOf(kTwoGpus, "B"));
    std::set<uint64_t> hashes = {HashOf("")};
    for (int coll = 0; coll < NCCL_NUM_TUNED_FUNCS; coll++)
        hashes.insert(
            HashOf(std::string(stp_coll_name(coll)) + ",0,9,ring,ll,1,1,8\n"));
    EXPECT_EQ(size_t{NCCL_NUM_TUNED_FUNCS} + 1, hashes.size());
    EXPECT_EQ(HashOf(kTwoGpus, "C"), HashOf(kTwoGpus, "B"));
    EXPECT_NE(0U, HashOf(""));
}

TEST(CompiledHash, DiffersBetweenMillionsOfPairsOfNearPolicies)
{
    std::vector<uint64_t> hashes;

    for (int end = 1; end < 40; end++)
        for (int n_channels = 0; n_channels <= 64; n_channels++)
            for (const char *pair : {"tree,ll", "ring,simple"})
                hashes.push_back(HashOf("allreduce,0," + std::to_string(end) +
                                        "," + pair + "," +
                                        std::to_string(n_channels) + ",1,8\n"));

    EXPECT_GT(hashes.size() * (hashes.size() - 1) / 2, 12000000U);
    std::sort(hashes.begin(), hashes.end());
    EXPECT_EQ(hashes.end(), std::adjacent_find(hashes.begin(), hashes.end()));
}

TEST(CompiledRegBuffLine, IsOfTheFirstRuleInForceThatDependsOnIt)
{
    Both without("allreduce,0,1,ring,ll,1,1,8\n"
                 "allreduce,0,1,ring,ll,1,1,4,-1,1\n");
    Both with("allreduce,0,1,ring,ll,1,1,8\n"
              "allgather,0,1,ring,ll,1,1,8,-1,0\n"
              "allreduce,0,1,ring,ll,1,1,8,-1,1\n");

    Both later("allreduce,0,1,ring,ll,1,1,8,-1,1\n"
               "allgather,0,1,ring,ll,1,1,8,-1,0\n");

    EXPECT_EQ(1U, stp_compiled_reg_buff_line(later.compiled.get()));
    EXPECT_EQ(0U, stp_compiled_reg_buff_line(without.compiled.get()));
    EXPECT_EQ(2U, stp_compiled_reg_buff_line(with.compiled.get()));
}

TEST(CompiledNextBreak, VisitsEveryEnd)
{
    Both b("allreduce,10,19,ring,ll,1,1,8\nallreduce,20,29,ring,ll,2,1,8\n"
           "allreduce,1G,inf,tree,ll,3,1,8\nreduce,0,6,ring,ll,3,1,8\n");

    EXPECT_THAT(Breaks(b.compiled, kAllReduce),
                ElementsAre(10, 20, 30, 1u << 30));
    EXPECT_THAT(Breaks(b.compiled, ncclFuncReduce), ElementsAre(7));
    EXPECT_THAT(Breaks(b.compiled, ncclFuncBroadcast), IsEmpty());
    EXPECT_EQ(20u, stp_compiled_next_break(b.compiled.get(), kAllReduce, 10));
    EXPECT_EQ(20u, stp_compiled_next_break(b.compiled.get(), kAllReduce, 19));
    EXPECT_EQ(30u, stp_compiled_next_break(b.compiled.get(), kAllReduce, 20));
    EXPECT_EQ(UINT64_MAX, stp_compiled_next_break(b.compiled.get(), kAllReduce,
                                                  UINT64_MAX));
}

TEST(CompiledNextBreak, SkipsRulesThatCanNeverWin)
{
    const char *dead[][2] = {
        {"ring,ll,1,1,8", "ring,ll,1,1,8"}, // the same again
        {"ring,ll,1,1,8", "ring,ll,1,1,8,2"},
        {"ring,ll,1,1,8", "ring,ll,1,1,8,-1,0"},
        {"ring,ll,1,1,8", "ring,ll,1,1,8,3,1"},
        {"ring,ll,1,1,8,3", "ring,ll,1,1,8,3,1"},
        {"ring,ll,1,1,8,-1,1", "ring,ll,1,1,8,3,1"},
        {"ring,ll,1,1,8,3,1", "ring,ll,2,1,8,3,1"},
    };
    for (const auto &rules : dead)
        for (const std::string sizes : {"10,20", "1,1"}) {
            SCOPED_TRACE(std::string(rules[0]) + " / " + rules[1]);
            Both b(std::string("allreduce,0,inf,") + rules[0] + "\nallreduce," +
                   sizes + "," + rules[1] + "\n");

            EXPECT_THAT(Breaks(b.compiled, kAllReduce), IsEmpty());
        }
}

TEST(CompiledNextBreak, KeepsRulesThatAWiderOneDoesNotCover)
{
    const char *alive[][2] = {
        {"ring,ll,1,1,8,2", "ring,ll,1,1,8"},
        {"ring,ll,1,1,8,2", "ring,ll,1,1,8,3"},
        {"ring,ll,1,1,8,-1,0", "ring,ll,1,1,8,-1,1"},
        {"ring,ll,1,1,8,-1,0", "ring,ll,1,1,8,2,-1"},
        {"ring,ll,1,1,8", "ring,ll128,1,1,8"},
        {"ring,ll,1,1,8", "tree,ll,1,1,8"},
        {"ring,ll,1,1,8,3,1", "ring,ll,1,1,8,3"},
        {"ring,ll,1,1,8,3,1", "ring,ll,1,1,8,-1,1"},
        {"ring,ll,1,1,8,3,0", "ring,ll,1,1,8,3,1"},
        {"ring,ll,1,1,8,2,1", "ring,ll,1,1,8,3,1"},
    };
    for (const auto &rules : alive) {
        SCOPED_TRACE(std::string(rules[0]) + " / " + rules[1]);
        Both b(std::string("allreduce,0,inf,") + rules[0] +
               "\nallreduce,10,20," + rules[1] + "\n");

        EXPECT_THAT(Breaks(b.compiled, kAllReduce), ElementsAre(10, 21));
    }
}

TEST(CompiledFree, TakesNull)
{
    stp_compiled_free(nullptr);
}

} // namespace
