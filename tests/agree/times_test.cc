// What ranks note of their collectives, as one of them reads it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

extern "C" {
#include "agree/times.h"
}

#include "nccl_tuner_abi.h"

namespace
{

struct Leave {
    void operator()(stp_times *times) const
    {
        stp_times_leave(times);
    }
};
using Times = std::unique_ptr<stp_times, Leave>;

class TimesOf : public testing::Test
{
  protected:
    Times Join(size_t n_ranks)
    {
        stp_times *times = nullptr;
        EXPECT_EQ(STP_OK, stp_times_join(id_, n_ranks, &times, &err_))
            << err_.text;
        return Times(times);
    }

    static void Put(const Times &times, unsigned coll, uint64_t number,
                    uint64_t begin_ns, uint64_t end_ns)
    {
        const stp_rank_time one{begin_ns, end_ns};
        stp_times_put(times.get(), {coll, number}, &one);
    }

    uint64_t id_ = static_cast<uint64_t>(getpid()) << 20 |
                   static_cast<uint64_t>(
                       testing::UnitTest::GetInstance()->random_seed() + 1);
    stp_error err_{};
};

TEST_F(TimesOf, AreReadWhenAllRanksHaveNotedThem)
{
    const Times a = Join(3);
    EXPECT_FALSE(stp_times_complete(a.get()));
    const Times b = Join(3);
    const Times c = Join(3);
    stp_rank_times all{};

    EXPECT_TRUE(stp_times_complete(a.get()));
    Put(b, ncclFuncAllReduce, 0, 100, 190);
    Put(a, ncclFuncAllReduce, 0, 120, 191);
    EXPECT_FALSE(stp_times_get(a.get(), {ncclFuncAllReduce, 0}, &all));
    Put(c, ncclFuncAllGather, 0, 500, 600); // of another function
    Put(c, ncclFuncAllReduce, 1, 700, 800); // another one
    EXPECT_FALSE(stp_times_get(a.get(), {ncclFuncAllReduce, 0}, &all));
    Put(c, ncclFuncAllReduce, 0, 80, 189);
    ASSERT_TRUE(stp_times_get(a.get(), {ncclFuncAllReduce, 0}, &all));
    EXPECT_EQ(3u, all.n);
    EXPECT_EQ(120u, all.last_begin_ns);
    EXPECT_EQ(189u, all.first_end_ns);
    EXPECT_EQ(191u, all.last_end_ns);
}

TEST_F(TimesOf, AreThoseOfTheLastAsManyAsARowHolds)
{
    const Times a = Join(1);
    stp_rank_times all{};

    for (uint64_t i = 0; i < 2u * STP_TIMES_SLOTS; i++)
        Put(a, ncclFuncReduceScatter, i, i, i + 5);
    for (uint64_t i = 0; i < 2u * STP_TIMES_SLOTS; i++)
        EXPECT_EQ(i >= STP_TIMES_SLOTS,
                  stp_times_get(a.get(), {ncclFuncReduceScatter, i}, &all))
            << i;
}

TEST_F(TimesOf, OfEachFunctionLieBesideThoseOfOthers)
{
    const Times a = Join(1);
    stp_rank_times all{};

    for (unsigned coll = 0; coll < NCCL_NUM_TUNED_FUNCS; coll++)
        for (uint64_t i = 1000; i < 1064; i++)
            Put(a, coll, i, i, i + coll);
    for (unsigned coll = 0; coll < NCCL_NUM_TUNED_FUNCS; coll++)
        for (uint64_t i = 1000; i < 1064; i++) {
            ASSERT_TRUE(stp_times_get(a.get(), {coll, i}, &all));
            EXPECT_EQ(coll, all.last_end_ns - all.last_begin_ns);
        }
}

TEST_F(TimesOf, AreNeverOfTwoCollectivesAtOnce)
{
    constexpr uint64_t kEnd = 50000;
    const Times writer = Join(2);
    const Times reader = Join(2);
    std::atomic<uint64_t> now{0};

    std::thread thread([&] {
        for (uint64_t i = 1; i < kEnd; i++) {
            Put(writer, ncclFuncAllReduce, i * STP_TIMES_SLOTS, i, 3 * i);
            now.store(i);
        }
    });
    for (uint64_t i = 0; i < kEnd - 1;) {
        stp_rank_times all{};
        i = now.load();
        const stp_times_id id{ncclFuncAllReduce, i * STP_TIMES_SLOTS};
        Put(reader, ncclFuncAllReduce, id.number, i, 3 * i);
        if (stp_times_get(reader.get(), id, &all)) {
            EXPECT_EQ(i, all.last_begin_ns);
            EXPECT_EQ(3 * i, all.last_end_ns);
            EXPECT_EQ(3 * i, all.first_end_ns);
        }
    }
    thread.join();
}

} // namespace
