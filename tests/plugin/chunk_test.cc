// Chunk sizes, which NCCL asks for after the calls of a group.
#include <gtest/gtest.h>

extern "C" {
#include "plugin/chunk.h"
}

#include "nccl_tuner_abi.h"

namespace
{

const stp_choice kRing = [] {
    stp_choice choice{};
    choice.algo = NCCL_ALGO_RING;
    choice.proto = NCCL_PROTO_LL128;
    choice.chunk_bytes = 65536;
    return choice;
}();

class Chunk : public testing::Test
{
  protected:
    size_t Find(int coll, int algo = NCCL_ALGO_RING,
                int proto = NCCL_PROTO_LL128)
    {
        return stp_chunk_find(&notes_, coll, algo, proto);
    }

    stp_chunk_notes notes_{};
};

TEST_F(Chunk, IsOfTheAlgorithmAndProtocolThatWereChosen)
{
    stp_chunk_note(&notes_, ncclFuncAllReduce, &kRing);

    EXPECT_EQ(65536u, Find(ncclFuncAllReduce));
    EXPECT_EQ(0u, Find(ncclFuncAllReduce, NCCL_ALGO_TREE));
    EXPECT_EQ(0u, Find(ncclFuncAllReduce, NCCL_ALGO_RING, NCCL_PROTO_LL));
    EXPECT_EQ(0u, Find(ncclFuncAllGather));
}

TEST_F(Chunk, IsOfEachCollectiveThatATunerKnows)
{
    stp_choice other = kRing;
    other.chunk_bytes = 4096;
    for (int coll = 0; coll < NCCL_NUM_TUNED_FUNCS; coll++) {
        stp_chunk_note(&notes_, coll, coll % 2 == 0 ? &kRing : &other);
        stp_chunk_note(&notes_, coll, coll % 2 == 0 ? &kRing : &other);
    }

    for (int coll = 0; coll < NCCL_NUM_TUNED_FUNCS; coll++)
        EXPECT_EQ(coll % 2 == 0 ? 65536u : 4096u, Find(coll)) << coll;
}

TEST_F(Chunk, IsNoneWhereNcclDecides)
{
    stp_chunk_note(&notes_, ncclFuncAllReduce, nullptr);
    EXPECT_EQ(0u, Find(ncclFuncAllReduce, -1, -1));

    stp_chunk_note(&notes_, ncclFuncAllReduce, &kRing);
    stp_chunk_note(&notes_, ncclFuncAllReduce, nullptr);
    EXPECT_EQ(0u, Find(ncclFuncAllReduce));
}

TEST_F(Chunk, IsNoneOfACollectiveThatNoTunerKnows)
{
    stp_chunk_note(&notes_, ncclFuncAllReduce, &kRing);
    for (int coll : {-1, int{NCCL_NUM_TUNED_FUNCS}, 1 << 30}) {
        stp_chunk_note(&notes_, coll, &kRing);
        EXPECT_EQ(0u, Find(coll)) << coll;
        EXPECT_EQ(65536u, Find(ncclFuncAllReduce))
            << "the group's is kept after collective " << coll;
    }
}

TEST_F(Chunk, IsNoneWhereTheCallsOfAGroupDiffer)
{
    const struct {
        const char *differs;
        void (*change)(stp_choice *choice);
    } cases[] = {
        {"algorithm", [](stp_choice *c) { c->algo = NCCL_ALGO_TREE; }},
        {"protocol", [](stp_choice *c) { c->proto = NCCL_PROTO_LL; }},
        {"chunk", [](stp_choice *c) { c->chunk_bytes = 4096; }},
    };

    for (const auto &c : cases) {
        stp_choice other = kRing;
        c.change(&other);
        stp_chunk_note(&notes_, ncclFuncAllReduce, &kRing);
        stp_chunk_note(&notes_, ncclFuncAllReduce, &kRing);
        stp_chunk_note(&notes_, ncclFuncAllReduce, &other);
        EXPECT_EQ(0u, Find(ncclFuncAllReduce)) << c.differs;

        stp_chunk_note(&notes_, ncclFuncAllReduce, &kRing); // the next group
        EXPECT_EQ(65536u, Find(ncclFuncAllReduce)) << c.differs;
    }
}

} // namespace
