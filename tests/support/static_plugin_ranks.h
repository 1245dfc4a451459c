// The static plugin on all ranks of a communicator: what its tests share.
#pragma once

#include <sys/stat.h>

#include <random>

#include "support/layouts.h"
#include "support/static_plugin.h"

namespace static_plugin
{

// Groups of one to four collectives of random kinds and sizes.
class RandomScript
{
  public:
    explicit RandomScript(uint64_t seed, size_t n_steps,
                          bool has_windows = false)
    {
        std::mt19937_64 random(seed);

        for (size_t s = 0; s < n_steps; s++) {
            calls_.emplace_back(1 + random() % 4);
            for (mock_call &call : calls_.back()) {
                call = {};
                call.coll = static_cast<ncclFunc_t>(random() % 5);
                call.n_bytes =
                    (size_t{64} << random() % 22) * (1 + random() % 3);
                if (has_windows)
                    call.windows = static_cast<mock_windows>(random() % 4);
            }
        }
        for (const auto &group : calls_)
            steps_.push_back({group.data(), group.size()});
        script.steps = steps_.data();
        script.n_steps = steps_.size();
    }

    mock_script script{};

  private:
    std::vector<std::vector<mock_call>> calls_;
    std::vector<mock_step> steps_;
};

class OnAllRanks : public StaticPlugin
{
  protected:
    Ranks JoinAll(const Nccl &nccl, void (*before_init)(void *, int) = nullptr,
                  mock_layout layout = MOCK_ONE_THREAD)
    {
        setenv("STEPTUNE_AGREE", agree_, 1);
        return MakeRanks(nccl, layout,
                         before_init == nullptr || layout == MOCK_PROCESSES,
                         id_, before_init);
    }
    Ranks JoinAs(const Nccl &nccl, const Layout &layout, uint64_t id,
                 void (*before_init)(void *, int) = nullptr)
    {
        return MakeRanks(nccl, layout.layout,
                         layout.at_once && before_init == nullptr, id,
                         before_init);
    }
    Ranks MakeRanks(const Nccl &nccl, mock_layout layout, bool at_once,
                    uint64_t id, void (*before_init)(void *, int))
    {
        mock_ranks *ranks = nullptr;
        mock_ranks_options options{};
        options.layout = layout;
        options.at_once = at_once;
        options.comm_id = id;
        options.before_init = before_init;
        options.user = this;
        EXPECT_EQ(ncclSuccess, mock_ranks_create(nccl.get(), machine_.get(),
                                                 &options, &ranks))
            << mock_last_error();
        return Ranks(ranks);
    }

    static void Play(size_t n_steps, const Ranks &ranks)
    {
        ASSERT_NE(nullptr, ranks);
        for (uint64_t seed = 0; seed < 4; seed++) {
            RandomScript random(seed, n_steps);
            ASSERT_EQ(ncclSuccess,
                      mock_ranks_play(ranks.get(), &random.script, seed))
                << mock_last_error();
        }
    }

    std::string Fifo() const
    {
        const std::string path = (dir_ / "fifo").string();
        EXPECT_EQ(0, mkfifo(path.c_str(), 0600));
        return path;
    }

    const char *agree_ = "compare"; // STEPTUNE_AGREE of JoinAll()

    // For JoinAll(): all ranks read file "a", rank 2 file "b".
    static void OddFileOnRank2(void *self, int rank)
    {
        fs::path file =
            static_cast<OnAllRanks *>(self)->dir_ / (rank == 2 ? "b" : "a");

        setenv("NCCL_TUNER_CONFIG_FILE", file.c_str(), 1);
    }
};

inline constexpr char kPolicy[] =
    "collective,min_bytes,max_bytes,algorithm,protocol,"
    "channels,nRanks,numPipeOps,chunk_bytes\n"
    "allreduce,1K,64K,tree,ll,2,-1,-1,-1\n"
    "allreduce,64K,4M,tree,ll128,-1,2-8,-1,64K\n"
    "allgather,1M,inf,ring,ll128,3,-1,-1,128K\n"
    "reducescatter,0,inf,nvls,simple,4,-1,-1,-1\n"
    "broadcast,0,1M,ring,simple,-1,-1,1,-1\n";

} // namespace static_plugin
