// A tuner that knows its rank, and a communicator of all ranks with it.
#pragma once

#include <mutex>

#include "support/layouts.h"
#include "support/mock_script.h"

namespace mock_test
{

// The context is the rank, by order of init.
inline std::mutex by_rank_lock;
inline std::vector<uint64_t> inits; // commIds
inline std::vector<int> order;      // of the ranks that asked
inline std::vector<int> finalized;  // ranks
inline int init_fails_on = -1;      // by order of init
inline std::function<void(int rank, size_t n_bytes, int reg_buff, Table, int *)>
    decide;

inline ncclResult_t InitRank(void **context, uint64_t comm_id, size_t, size_t,
                             ncclDebugLogger_t, ncclNvlDomainInfo_v5_t *,
                             ncclTunerConstants_v5_t *)
{
    const std::lock_guard<std::mutex> guard(by_rank_lock);
    auto rank = static_cast<intptr_t>(inits.size());

    *context = reinterpret_cast<void *>(rank);
    inits.push_back(comm_id);
    return rank == init_fails_on ? ncclSystemError : ncclSuccess;
}

inline ncclResult_t AskRank(void *context, ncclFunc_t, size_t n_bytes, int,
                            float **table, int, int, int reg_buff,
                            int *n_channels)
{
    auto rank = static_cast<int>(reinterpret_cast<intptr_t>(context));

    {
        const std::lock_guard<std::mutex> guard(by_rank_lock);
        order.push_back(rank);
    }
    if (decide)
        decide(rank, n_bytes, reg_buff, reinterpret_cast<Table>(table),
               n_channels);
    return ncclSuccess;
}

inline ncclResult_t FinalizeRank(void *context)
{
    const std::lock_guard<std::mutex> guard(by_rank_lock);
    finalized.push_back(static_cast<int>(reinterpret_cast<intptr_t>(context)));
    return ncclSuccess;
}

inline const ncclTuner_v5_t kByRank{"by-rank", InitRank, AskRank, FinalizeRank};

class AllRanks : public testing::Test
{
  protected:
    AllRanks()
    {
        inits.clear();
        order.clear();
        finalized.clear();
        init_fails_on = -1;
        decide = nullptr;
        steps_ = {{&one_, 1}, {group_, 2}, {&one_, 1}};
        script_.steps = steps_.data();
        script_.n_steps = steps_.size();
    }

    // Returns nullptr after a failure, with the reason in mock_last_error().
    Ranks Join(const mock_ranks_options &options = {})
    {
        mock_ranks *ranks = nullptr;
        mock_ranks_create(nccl_.get(), machine_.get(), &options, &ranks);
        return Ranks(ranks);
    }
    Ranks Join(mock_layout layout, bool at_once = false)
    {
        mock_ranks_options options{};
        options.layout = layout;
        options.at_once = at_once;
        return Join(options);
    }

    Machine machine_ = LoadMachine("h200x4");
    Nccl nccl_ = MakeNccl({nullptr, nullptr, &kByRank, 5});
    mock_call one_ = Call(ncclFuncAllReduce, 4096);
    mock_call group_[2] = {Call(ncclFuncAllReduce, 1 << 20),
                           Call(ncclFuncAllGather, 64)};
    std::vector<mock_step> steps_;
    mock_script script_{};
};

} // namespace mock_test
