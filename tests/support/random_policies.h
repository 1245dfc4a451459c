// Random policies, and what to ask them.
#ifndef RANDOM_POLICIES_H
#define RANDOM_POLICIES_H

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>
#include <vector>

extern "C" {
#include "core/names.h"
}

#include "core/policy/first_rule.h"
#include "support/policy_text.h"

namespace policy_text
{

using first_rule::InterestingSizes;
using first_rule::Queries;

class Generator
{
  public:
    // Of the sizes at which rules end, these are some, too.
    explicit Generator(uint64_t seed, std::vector<uint64_t> ends = {})
        : rng_(seed), kind_(Below(4)), ends_(std::move(ends))
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

} // namespace policy_text

#endif // RANDOM_POLICIES_H
