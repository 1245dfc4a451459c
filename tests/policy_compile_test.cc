#include "core/policy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/names.h"
#include "nccl_tuner_abi.h"

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace
{

constexpr int kAllReduce = ncclFuncAllReduce;

struct Free {
    void operator()(stp_policy *p) const
    {
        stp_policy_free(p);
    }
    void operator()(stp_compiled *c) const
    {
        stp_compiled_free(c);
    }
};
using Policy = std::unique_ptr<stp_policy, Free>;
using Compiled = std::unique_ptr<stp_compiled, Free>;

Policy Parse(const std::string &csv)
{
    stp_policy *policy = nullptr;
    stp_error err{};

    EXPECT_EQ(STP_OK, stp_policy_parse(csv.data(), csv.size(), &policy, &err))
        << err.line << ":" << err.column << ": " << err.text;
    return Policy(policy);
}

Compiled Compile(const stp_policy *policy, const stp_shape &shape)
{
    stp_compiled *compiled = nullptr;
    stp_error err{};

    EXPECT_EQ(STP_OK, stp_policy_compile(policy, &shape, &compiled, &err))
        << err.text;
    return Compiled(compiled);
}

// A policy and its compiled form for one node of 8 ranks.
struct Both {
    Policy policy;
    Compiled compiled;

    explicit Both(const std::string &csv, stp_shape shape = {8, 1, nullptr})
        : policy(Parse(csv)), compiled(Compile(policy.get(), shape))
    {
    }
};

struct Costs {
    int n_algo = NCCL_NUM_ALGORITHMS;
    int n_proto = NCCL_NUM_PROTOCOLS;
    std::vector<float> cost = std::vector<float>(64, 1.0f);

    void Set(int algo, int proto, float value)
    {
        cost[(size_t)(algo * n_proto + proto)] = value;
    }
    stp_cost_view View() const
    {
        return {cost.data(), n_algo, n_proto};
    }
};

// The line of the rule that wins, or 0.
unsigned LineOf(const Compiled &compiled, const stp_query &query,
                const Costs &costs = Costs())
{
    stp_choice choice{};
    stp_cost_view view = costs.View();

    return stp_compiled_lookup(compiled.get(), &query, &view, &choice)
               ? choice.line
               : 0;
}

std::vector<uint64_t> Breaks(const Compiled &compiled, int coll)
{
    std::vector<uint64_t> breaks;
    uint64_t at = 0;

    while ((at = stp_compiled_next_break(compiled.get(), coll, at)) !=
           UINT64_MAX)
        breaks.push_back(at);
    return breaks;
}

// ---- lookup, by hand ----

TEST(CompiledLookup, IncludesBothEndsOfARange)
{
    Both b("allreduce,100,200,ring,ll,1,1,8");

    EXPECT_EQ(0u, LineOf(b.compiled, {kAllReduce, 99, 1, 0}));
    EXPECT_EQ(1u, LineOf(b.compiled, {kAllReduce, 100, 1, 0}));
    EXPECT_EQ(1u, LineOf(b.compiled, {kAllReduce, 200, 1, 0}));
    EXPECT_EQ(0u, LineOf(b.compiled, {kAllReduce, 201, 1, 0}));
}

TEST(CompiledLookup, TellsZeroFromOneByte)
{
    Both b("allreduce,0,0,ring,ll,1,1,8\nallreduce,1,1,ring,ll,2,1,8\n"
           "allreduce,2,2,ring,ll,2,1,8\nallreduce,3,3,ring,ll,2,1,8\n");

    for (uint64_t n = 0; n < 4; n++)
        EXPECT_EQ(n + 1, LineOf(b.compiled, {kAllReduce, n, 1, 0}));
    EXPECT_EQ(0u, LineOf(b.compiled, {kAllReduce, 4, 1, 0}));
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
        EXPECT_EQ(0u, LineOf(b.compiled, {coll, 0, 1, 0}));
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

TEST(CompiledLookup, AsksForPipeOpsAndRegisteredBuffers)
{
    Both b("allreduce,0,inf,ring,ll,1,1,8,2,1\n"
           "allreduce,0,inf,ring,ll,2,1,8,2,-1\n"
           "allreduce,0,inf,ring,ll,3,1,8,-1,1\n"
           "allreduce,0,inf,ring,ll,4,1,8,3,0\n"
           "allreduce,0,99,ring,ll,5,1,8,-1,-1\n");

    EXPECT_EQ(1u, LineOf(b.compiled, {kAllReduce, 5, 2, 1}));
    EXPECT_EQ(2u, LineOf(b.compiled, {kAllReduce, 5, 2, 0}));
    EXPECT_EQ(3u, LineOf(b.compiled, {kAllReduce, 5, 3, 1}));
    EXPECT_EQ(4u, LineOf(b.compiled, {kAllReduce, 5, 3, 0}));
    EXPECT_EQ(5u, LineOf(b.compiled, {kAllReduce, 5, 1, 0}));
    EXPECT_EQ(0u, LineOf(b.compiled, {kAllReduce, 100, 1, 0}));
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
    const char *dead[] = {
        "ring,ll,1,1,8\n",      // the same again
        "ring,ll,1,1,8,2\n",    // narrower
        "ring,ll,1,1,8,-1,0\n", // narrower
        "ring,ll,1,1,8,3,1\n",  // narrower
    };
    for (const char *rule : dead) {
        SCOPED_TRACE(rule);
        Both b("allreduce,0,inf,ring,ll,1,1,8\nallreduce,10,20," +
               std::string(rule));

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
    };
    for (const auto &rules : alive) {
        SCOPED_TRACE(std::string(rules[0]) + " / " + rules[1]);
        Both b(std::string("allreduce,0,inf,") + rules[0] +
               "\nallreduce,10,20," + rules[1] + "\n");

        EXPECT_THAT(Breaks(b.compiled, kAllReduce), ElementsAre(10, 21));
    }
}

// Rule i begins at i bytes and all differ in numPipeOps, so that n of them need
// 1 + 2 + ... + n entries.
std::string Staircase(int n)
{
    std::string csv;

    for (int i = 0; i < n; i++)
        csv += "allreduce," + std::to_string(i) + ",inf,ring,ll,1,1,8," +
               std::to_string(i + 1) + "\n";
    return csv;
}

TEST(PolicyCompile, TakesAlmostTwoToThe22EntriesAndRefusesMore)
{
    const stp_shape shape = {8, 1, nullptr};
    Policy most = Parse(Staircase(2895)), more = Parse(Staircase(2896));
    stp_compiled *untouched = reinterpret_cast<stp_compiled *>(&more);
    stp_compiled *refused = untouched;
    stp_error err{};

    Compiled compiled = Compile(most.get(), shape);
    stp_status status = stp_policy_compile(more.get(), &shape, &refused, &err);

    EXPECT_EQ(2000u, LineOf(compiled, {kAllReduce, 1999, 2000, 0}));
    EXPECT_EQ(0u, LineOf(compiled, {kAllReduce, 1998, 2000, 0}));
    EXPECT_EQ(STP_ERR_LIMIT, status);
    EXPECT_EQ(untouched, refused);
    EXPECT_THAT(err.text, HasSubstr("more than 4194304 entries"));
    EXPECT_EQ(0u, err.line);
    EXPECT_EQ(STP_ERR_LIMIT,
              stp_policy_compile(more.get(), &shape, &refused, nullptr));
}

// 1000 rules that can win everywhere, 3000 behind them that never can, and one
// more break: what counts is one entry in either range for each that can.
TEST(PolicyCompile, CountsNoRuleThatCanNeverWin)
{
    std::string csv;
    for (int i = 1; i <= 1000; i++)
        csv += "allreduce,0,inf,ring,ll,1,1,8," + std::to_string(i) + "\n";
    for (int i = 0; i < 3000; i++)
        csv += "allreduce," + std::to_string(10 * i) + "," +
               std::to_string(10 * i + 5) + ",ring,ll,2,1,8,1,0\n";
    csv += "allreduce,1G,inf,tree,ll,1,1,8\n";

    Both b(csv);

    ASSERT_TRUE(b.compiled);
    EXPECT_THAT(Breaks(b.compiled, kAllReduce), ElementsAre(1u << 30));
}

// 12,000 rules that each hide 12,000 others.
TEST(PolicyCompile, RefusesWhatWouldTakeForEver)
{
    const stp_shape shape = {8, 1, nullptr};
    std::string csv;
    for (int i = 0; i < 12000; i++)
        csv += "allreduce," + std::to_string(10 * i) + "," +
               std::to_string(10 * i + 9) + ",ring,ll,1,1,8\n";
    for (int i = 1; i <= 12000; i++)
        csv += "allreduce,0,119999,ring,ll,1,1,8," + std::to_string(i) + "\n";
    Policy policy = Parse(csv);
    stp_compiled *compiled = nullptr;

    EXPECT_EQ(STP_ERR_LIMIT,
              stp_policy_compile(policy.get(), &shape, &compiled, nullptr));
    EXPECT_EQ(nullptr, compiled);
}

TEST(CompiledFree, TakesNull)
{
    stp_compiled_free(nullptr);
}

// ---- against the definition ----

bool In(const stp_range &range, uint64_t value)
{
    return range.min <= value && value <= range.max;
}

bool Matches(const stp_rule &r, const stp_shape &shape, const stp_query &query)
{
    return r.coll == query.coll && In(r.bytes, query.n_bytes) &&
           In(r.bytes_per_rank, query.n_bytes / shape.n_ranks) &&
           In(r.nodes, shape.n_nodes) && In(r.ranks, shape.n_ranks) &&
           (r.gpu == nullptr ||
            (shape.gpu != nullptr && strcmp(r.gpu, shape.gpu) == 0)) &&
           (r.n_pipe_ops == -1 || r.n_pipe_ops == query.n_pipe_ops) &&
           (r.reg_buff == -1 || r.reg_buff == query.reg_buff);
}

bool Allows(const Costs &costs, const stp_rule &r)
{
    return stp_pair_exists(r.coll, r.algo, r.proto) && r.algo < costs.n_algo &&
           r.proto < costs.n_proto &&
           costs.cost[(size_t)(r.algo * costs.n_proto + r.proto)] >= 0;
}

const stp_rule *FirstRule(const stp_policy *policy, const stp_shape &shape,
                          const stp_query &query, const Costs &costs)
{
    for (size_t i = 0; i < stp_policy_size(policy); i++) {
        const stp_rule *r = stp_policy_rule(policy, i);
        if (Matches(*r, shape, query) && Allows(costs, *r))
            return r;
    }
    return nullptr;
}

class Generator
{
  public:
    explicit Generator(uint64_t seed) : rng_(seed), kind_(Below(4))
    {
        for (int i = 0; i < 12; i++)
            ends_.push_back(AnySize());
    }

    uint64_t Below(uint64_t n)
    {
        return rng_() % n;
    }

    std::string Csv()
    {
        std::string csv = "collective,algorithm,protocol,channels,min_bytes,"
                          "max_bytes,min_bytes_per_rank,max_bytes_per_rank,"
                          "nNodes,nRanks,numPipeOps,regBuff,chunk_bytes,gpu\n";
        for (uint64_t n = 1 + Below(40); n > 0; n--)
            csv += Rule();
        return csv;
    }

    stp_shape Shape()
    {
        const char *gpus[] = {nullptr, "A", "B"};
        const size_t ranks[] = {1, 2, 3, 8, 1000};
        return {ranks[Below(5)], 1 + Below(4), gpus[Below(3)]};
    }

    Costs AnyCosts()
    {
        Costs costs;
        costs.n_algo = Below(4) ? 7 : 6;
        for (float &cost : costs.cost)
            if (Below(3) == 0)
                cost = Below(4) ? -1.0f : Below(2) ? NAN : -1024.0f;
        return costs;
    }

  private:
    std::mt19937_64 rng_;
    uint64_t kind_;
    std::vector<uint64_t> ends_;

    // Small, near powers of two, anything at all, or a crowd far from 0.
    uint64_t AnySize()
    {
        switch (kind_) {
        case 0:
            return Below(40);
        case 1:
            return ((uint64_t)1 << Below(64)) + Below(3) - 1;
        case 2:
            return rng_() >> Below(64);
        default:
            return ((uint64_t)1 << 40) + Below(5000);
        }
    }

    // Often the same one, so that ends meet.
    uint64_t Size()
    {
        return Below(3) ? ends_[Below(ends_.size())] : AnySize();
    }

    std::string Bytes()
    {
        uint64_t a = Size(), b = Size();
        if (a > b)
            std::swap(a, b);
        return std::to_string(a) + "," +
               (Below(6) ? std::to_string(b) : std::string("inf"));
    }

    std::string OneOf(std::initializer_list<const char *> words)
    {
        return words.begin()[Below(words.size())];
    }

    std::string Rule()
    {
        std::string coll =
            Below(4) ? "allreduce" : stp_coll_name((int)Below(5));
        std::string algo =
            Below(4) ? OneOf({"ring", "tree"}) : stp_algo_name((int)Below(7));
        return coll + "," + algo + "," + stp_proto_name((int)Below(3)) + "," +
               std::to_string(Below(65)) + "," + Bytes() + "," +
               (Below(4) ? "0,inf" : Bytes()) + "," +
               OneOf({"-1", "-1", "-1", "1", "2-3", "2-inf"}) + "," +
               OneOf({"-1", "-1", "-1", "8", "2-8", "3-inf"}) + "," +
               OneOf({"-1", "-1", "1", "2", "2147483647"}) + "," +
               OneOf({"-1", "-1", "0", "1"}) + "," +
               OneOf({"-1", "-1", "4K", "16M", "5000"}) + "," +
               OneOf({"*", "*", "*", "A", "B"}) + "\n";
    }
};

// Every size at which some rule of the policy may begin or end, and those on
// both sides of it.
std::vector<uint64_t> InterestingSizes(const stp_policy *policy,
                                       const stp_shape &shape)
{
    std::set<uint64_t> sizes = {0, 1, UINT64_MAX, UINT64_MAX - 1};
    auto add = [&](uint64_t n) { sizes.insert({n - 1, n, n + 1}); };

    for (size_t i = 0; i < stp_policy_size(policy); i++) {
        const stp_rule *r = stp_policy_rule(policy, i);
        add(r->bytes.min);
        add(r->bytes.max);
        add(r->bytes_per_rank.min * shape.n_ranks); // wraps: a size like any
        add(r->bytes_per_rank.max * shape.n_ranks + shape.n_ranks - 1);
    }
    return {sizes.begin(), sizes.end()};
}

std::vector<stp_query> Queries(int coll, uint64_t n_bytes)
{
    std::vector<stp_query> queries;

    for (int pipe : {1, 2, 3, 2147483647})
        for (int reg : {0, 1})
            queries.push_back({coll, n_bytes, pipe, reg});
    return queries;
}

TEST(CompiledLookup, EqualsTheDefinitionForRandomPolicies)
{
    for (uint64_t seed = 0; seed < 300; seed++) {
        SCOPED_TRACE(seed);
        Generator random(seed);
        Policy policy = Parse(random.Csv());
        ASSERT_TRUE(policy);
        const stp_shape shape = random.Shape();
        Compiled compiled = Compile(policy.get(), shape);
        const Costs costs = random.AnyCosts();
        stp_cost_view view = costs.View();

        for (uint64_t n_bytes : InterestingSizes(policy.get(), shape))
            for (const stp_query &query :
                 Queries(random.Below(3) ? kAllReduce : (int)random.Below(5),
                         n_bytes)) {
                const stp_rule *want =
                    FirstRule(policy.get(), shape, query, costs);
                stp_choice got{};

                bool found =
                    stp_compiled_lookup(compiled.get(), &query, &view, &got);

                ASSERT_EQ(want ? want->line : 0, got.line) << n_bytes;
                ASSERT_EQ(want != nullptr, found);
                if (want == nullptr)
                    continue;
                ASSERT_EQ(std::make_tuple(want->algo, want->proto,
                                          want->n_channels, want->chunk_bytes),
                          std::make_tuple(got.algo, got.proto, got.n_channels,
                                          got.chunk_bytes));
            }
    }
}

TEST(CompiledLookup, EqualsTheDefinitionForManyRules)
{
    for (uint64_t seed = 0; seed < 3; seed++) {
        SCOPED_TRACE(seed);
        std::mt19937_64 rng(seed);
        std::string csv;
        for (int i = 0; i < 3000; i++) {
            uint64_t a = rng() >> (seed == 0 ? 40 : rng() % 64);
            uint64_t b = seed == 2 ? a + rng() % 100 : rng() >> rng() % 64;
            csv += std::string("allreduce,") + std::to_string(std::min(a, b)) +
                   "," + std::to_string(std::max(a, b)) +
                   (rng() % 2 ? ",ring,ll,1,1,8\n" : ",tree,simple,2,1,8\n");
        }
        Both b(csv);
        const stp_shape shape = {8, 1, nullptr};

        for (int i = 0; i < 3000; i++) {
            const stp_rule *rule = stp_policy_rule(b.policy.get(), (size_t)i);
            for (uint64_t n : {rule->bytes.min - 1, rule->bytes.min,
                               rule->bytes.max, rule->bytes.max + 1}) {
                stp_query query = {kAllReduce, n, 1, 0};
                const stp_rule *want =
                    FirstRule(b.policy.get(), shape, query, Costs());

                ASSERT_EQ(want ? want->line : 0, LineOf(b.compiled, query))
                    << n;
            }
        }
    }
}

// What all queries of a size are answered; equal if nothing changes.
std::vector<const stp_rule *> Answers(const stp_policy *policy,
                                      const stp_shape &shape, int coll,
                                      uint64_t n_bytes)
{
    std::vector<const stp_rule *> answers;

    for (const stp_query &query : Queries(coll, n_bytes))
        answers.push_back(FirstRule(policy, shape, query, Costs()));
    return answers;
}

TEST(CompiledNextBreak, VisitsEveryChangeOfRandomPolicies)
{
    for (uint64_t seed = 1000; seed < 1100; seed++) {
        SCOPED_TRACE(seed);
        Generator random(seed);
        Policy policy = Parse(random.Csv());
        ASSERT_TRUE(policy);
        const stp_shape shape = random.Shape();
        Compiled compiled = Compile(policy.get(), shape);
        const std::vector<uint64_t> breaks = Breaks(compiled, kAllReduce);

        ASSERT_TRUE(std::is_sorted(breaks.begin(), breaks.end()));
        for (uint64_t n : InterestingSizes(policy.get(), shape)) {
            if (n == 0 || n == UINT64_MAX ||
                Answers(policy.get(), shape, kAllReduce, n) ==
                    Answers(policy.get(), shape, kAllReduce, n - 1))
                continue;
            ASSERT_TRUE(std::binary_search(breaks.begin(), breaks.end(), n))
                << n;
        }
    }
}

} // namespace
