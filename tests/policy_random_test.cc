// Compiled policies against the definition, for random ones, and at the limits.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "core/names.h"
#include "policy_text.h"

using namespace policy_text;
using testing::ElementsAre;
using testing::HasSubstr;

namespace
{

// ---- limits ----

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
