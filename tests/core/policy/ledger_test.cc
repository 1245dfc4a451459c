// Tests of the ledger that counts a tuner's decisions.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

extern "C" {
#include "core/policy/ledger.h"
}

#include "nccl_tuner_abi.h"

namespace
{

class Ledger : public testing::Test
{
  protected:
    Ledger()
    {
        const stp_shape shape{8, 2, "NVIDIA H200"};
        stp_ledger_begin(ledger_.get(), 77, 0xabc, &shape);
    }
    void Count(int coll, uint64_t n_bytes, int line = 0, int algo = -1,
               int proto = -1, int channels = 0)
    {
        stp_choice choice{algo, proto, channels, 0,
                          static_cast<unsigned>(line)};
        stp_ledger_count(ledger_.get(), coll, n_bytes,
                         line == 0 ? nullptr : &choice);
    }
    std::vector<stp_ledger_entry> Entries() const
    {
        std::vector<stp_ledger_entry> used;
        for (const stp_ledger_entry &e : ledger_->entries)
            if (e.n_calls > 0)
                used.push_back(e);
        return used;
    }

    std::unique_ptr<stp_ledger> ledger_{new stp_ledger()};
};

TEST_F(Ledger, BeginsEmptyAndSaysOfWhom)
{
    EXPECT_TRUE(stp_ledger_is_valid(ledger_.get(), sizeof(stp_ledger)));
    EXPECT_EQ(77u, ledger_->pid);
    EXPECT_EQ(0xabcu, ledger_->comm_id);
    EXPECT_EQ(8u, ledger_->n_ranks);
    EXPECT_EQ(2u, ledger_->n_nodes);
    EXPECT_STREQ("NVIDIA H200", ledger_->gpu);
    EXPECT_EQ(0u, ledger_->n_entries);
    EXPECT_TRUE(Entries().empty());
}

TEST_F(Ledger, PutsTogetherWhatHadTheSameAnswer)
{
    for (uint64_t n_bytes : {5000u, 4096u, 8191u, 6000u})
        Count(ncclFuncAllReduce, n_bytes, 3, NCCL_ALGO_RING, NCCL_PROTO_LL128,
              16);

    ASSERT_EQ(1u, Entries().size());
    const stp_ledger_entry e = Entries()[0];
    EXPECT_EQ(4u, e.n_calls);
    EXPECT_EQ(4096u, e.min_bytes);
    EXPECT_EQ(8191u, e.max_bytes);
    EXPECT_EQ(3u, e.line);
    EXPECT_EQ(ncclFuncAllReduce, e.coll);
    EXPECT_EQ(NCCL_ALGO_RING, e.algo);
    EXPECT_EQ(NCCL_PROTO_LL128, e.proto);
    EXPECT_EQ(16, e.n_channels);
}

TEST_F(Ledger, KeepsApartWhatDiffers)
{
    Count(ncclFuncAllReduce, 4096, 3, NCCL_ALGO_RING, NCCL_PROTO_LL128);
    Count(ncclFuncAllGather, 4096, 3, NCCL_ALGO_RING, NCCL_PROTO_LL128);
    Count(ncclFuncAllReduce, 8192, 3, NCCL_ALGO_RING, NCCL_PROTO_LL128);
    Count(ncclFuncAllReduce, 4096, 4, NCCL_ALGO_RING, NCCL_PROTO_LL128);
    Count(ncclFuncAllReduce, 4096, 3, NCCL_ALGO_TREE, NCCL_PROTO_LL128);
    Count(ncclFuncAllReduce, 4096, 3, NCCL_ALGO_RING, NCCL_PROTO_LL);
    Count(ncclFuncAllReduce, 4096, 3, NCCL_ALGO_RING, NCCL_PROTO_LL128, 8);
    Count(ncclFuncAllReduce, 4096);
    Count(ncclFuncAllReduce, 0);

    EXPECT_EQ(9u, Entries().size());
    EXPECT_EQ(9u, ledger_->n_entries);
}

TEST_F(Ledger, OfWhatNcclDecidedHasNoChoice)
{
    Count(ncclFuncReduce, 64);

    ASSERT_EQ(1u, Entries().size());
    EXPECT_EQ(0u, Entries()[0].line);
    EXPECT_EQ(-1, Entries()[0].algo);
    EXPECT_EQ(-1, Entries()[0].proto);
}

TEST_F(Ledger, CountsWhatFindsNoRoom)
{
    for (int line = 1; line <= STP_LEDGER_ENTRIES + 10; line++)
        Count(ncclFuncAllReduce, 4096, line, NCCL_ALGO_RING, NCCL_PROTO_LL);
    Count(ncclFuncAllReduce, 4096, 5, NCCL_ALGO_RING, NCCL_PROTO_LL);

    EXPECT_EQ(size_t(STP_LEDGER_ENTRIES), Entries().size());
    EXPECT_EQ(10u, ledger_->n_lost);
    uint64_t n = 0;
    for (const stp_ledger_entry &e : Entries())
        n += e.n_calls;
    EXPECT_EQ(STP_LEDGER_ENTRIES + 1u, n);
}

TEST_F(Ledger, HasRoomForAnyCallWhileAnyEntryIsFree)
{
    for (int line = 1; line <= STP_LEDGER_ENTRIES; line++)
        Count(ncclFuncAllReduce, 4096, line, NCCL_ALGO_RING, NCCL_PROTO_LL);

    stp_ledger_entry &free = ledger_->entries[100];
    for (int line = 1000; line < 1000 + 8 * STP_LEDGER_ENTRIES; line++) {
        free = {};
        Count(ncclFuncAllReduce, 4096, line, NCCL_ALGO_RING, NCCL_PROTO_LL);
        ASSERT_EQ(static_cast<uint32_t>(line), free.line);
    }
    EXPECT_EQ(0u, ledger_->n_lost);
}

TEST(LedgerClass, IsTheExponentOfThePowerOfTwoAtOrBelow)
{
    const std::pair<uint64_t, unsigned> cases[] = {
        {0, 0},     {1, 0},     {2, 1},         {3, 1},
        {4, 2},     {5, 2},     {7, 2},         {8, 3},
        {4095, 11}, {4096, 12}, {1u << 31, 31}, {UINT64_MAX, 63},
    };

    for (const auto &[n_bytes, exponent] : cases)
        EXPECT_EQ(exponent, stp_ledger_class(n_bytes)) << n_bytes;
}

TEST_F(Ledger, IsTakenForNothingElse)
{
    EXPECT_FALSE(stp_ledger_is_valid(ledger_.get(), sizeof(stp_ledger) - 1));
    memset(ledger_->what, 'x', sizeof(ledger_->what));
    EXPECT_FALSE(stp_ledger_is_valid(ledger_.get(), sizeof(stp_ledger)));
    ledger_->what[0] = '\0';
    ledger_->magic[0] = 'S';
    EXPECT_FALSE(stp_ledger_is_valid(ledger_.get(), sizeof(stp_ledger)));
    ledger_->magic[0] = 's';
    EXPECT_TRUE(stp_ledger_is_valid(ledger_.get(), sizeof(stp_ledger)));
    ledger_->size--;
    EXPECT_FALSE(stp_ledger_is_valid(ledger_.get(), sizeof(stp_ledger)));
    EXPECT_FALSE(stp_ledger_is_valid(ledger_.get(), ledger_->size));
}

} // namespace
