// The world of MPI, and the contract suite over it.  mpirun starts the ranks;
// all of them run the same tests.
#include "device/contract.h"

extern "C" {
#include "device/module.h"
}

namespace
{

struct Ranks {
    const stp_module *module = nullptr;
    stp_world world{};
};

Ranks ranks;

class Mpi : public RanksUnderTest
{
  public:
    stp_status Open(stp_device_options *options, stp_engines *engines,
                    stp_error *err) override
    {
        options->world = &ranks.world;
        return ranks.module->open(options, engines, err);
    }
};

const ContractCase kMpi[] = {{"mpi", MakeRanks<Mpi>}};

INSTANTIATE_TEST_SUITE_P(Mpi, DeviceContract, testing::ValuesIn(kMpi), NameOf);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EngineContract);

TEST(MpiWorld, ExchangesInOrderOfRank)
{
    const stp_world &w = ranks.world;
    const uint64_t mine = 100 + w.rank;
    std::vector<uint64_t> all(w.size);
    stp_error err;

    ASSERT_EQ(STP_OK,
              w.ops->exchange(w.self, &mine, sizeof(mine), all.data(), &err));

    for (unsigned r = 0; r < w.size; r++)
        EXPECT_EQ(100 + r, all[r]);
    EXPECT_EQ(w.rank, w.local_rank);
    EXPECT_EQ(w.size, w.local_size);
    EXPECT_TRUE(w.ops->alive(w.self, &err));
}

TEST(MpiWorld, HasPartsOfTheFirstRanks)
{
    const stp_world &w = ranks.world;
    stp_error err;

    for (unsigned n = 1; n <= w.size; n++) {
        stp_world part{};
        std::vector<unsigned> all(n);
        ASSERT_EQ(STP_OK, w.ops->part(w.self, n, &part, &err));
        EXPECT_EQ(w.rank < n ? n : 0, part.size);
        if (w.rank < n) {
            EXPECT_EQ(STP_OK,
                      part.ops->exchange(part.self, &part.rank,
                                         sizeof(part.rank), all.data(), &err));
            EXPECT_EQ(w.rank, all[w.rank]);
        }
        part.ops->close(part.self);
    }
}

TEST(MpiWorld, HasNoMorePartsThanRanks)
{
    const stp_world &w = ranks.world;
    stp_world part{};
    stp_error err;

    EXPECT_EQ(STP_ERR_RANGE, w.ops->part(w.self, w.size + 1, &part, &err));
    EXPECT_EQ(STP_ERR_RANGE, w.ops->part(w.self, 0, &part, &err));
    EXPECT_EQ(nullptr, part.ops);
}

TEST(MpiWorld, BeginsOnce)
{
    stp_world again{};
    stp_error err;

    EXPECT_EQ(STP_ERR_RANGE,
              ranks.module->world(nullptr, nullptr, &again, &err));
    EXPECT_STREQ("MPI was started before in this process", err.text);
}

TEST(MpiDevice, RunsOnRanksOfMpiOnly)
{
    stp_device_options options{};
    stp_engines engines{};
    stp_world alone;
    stp_error err;
    stp_world_alone(&alone);
    options.world = &alone;
    options.measures = true;

    EXPECT_EQ(STP_ERR_RANGE, ranks.module->open(&options, &engines, &err));
    EXPECT_STREQ("ranks of MPI are started by mpirun or srun, these by 'alone'",
                 err.text);
}

TEST(MpiDevice, RunsOnAPart)
{
    const stp_world &w = ranks.world;
    stp_device_options options{};
    stp_engines engines{};
    stp_device device{};
    stp_world part{};
    stp_error err;
    stp_collective collective{};
    uint64_t n_wrong = 1;
    collective.coll = ncclFuncAllReduce;
    collective.type = STP_TYPE_BF16;
    collective.n_bytes = 4096;
    options.measures = true;
    options.max_bytes = 4096;
    options.world = &part;
    ASSERT_EQ(STP_OK, w.ops->part(w.self, 1, &part, &err));

    if (part.size > 0) {
        ASSERT_EQ(STP_OK, ranks.module->open(&options, &engines, &err));
        ASSERT_EQ(STP_OK, stp_device_open(&options, &engines, &device, &err));
        EXPECT_EQ(STP_OK,
                  stp_device_check(&device, &collective, 1, &n_wrong, &err));
        EXPECT_EQ(0u, n_wrong);
        stp_device_close(&device);
    }
    part.ops->close(part.self);
}

} // namespace

int main(int argc, char **argv)
{
    stp_error err;
    int failed;

    testing::InitGoogleTest(&argc, argv);
    if (stp_module_open(STP_MPI_MODULE, &ranks.module, &err) != STP_OK ||
        ranks.module->world(&argc, &argv, &ranks.world, &err) != STP_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    failed = RUN_ALL_TESTS();
    ranks.world.ops->close(ranks.world.self);
    return failed;
}
