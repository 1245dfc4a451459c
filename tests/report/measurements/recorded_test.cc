// The differences that record tells between choices of NCCL and of mock NCCL.
#include <cstring>

#include <gmock/gmock.h>

extern "C" {
#include "core/dtype.h"
#include "report/measurements/machine_folder.h"
}

#include "support/in_folder.h"
#include "support/written.h"

namespace
{

stp_nccl_choice Choice(int algo, int n_channels, float ring_ll)
{
    stp_nccl_choice c{};
    c.what.coll = ncclFuncAllReduce;
    c.what.n_bytes = 1024;
    c.what.type = STP_TYPE_F32;
    c.question.cost[NCCL_ALGO_RING][NCCL_PROTO_LL] = ring_ll;
    c.algo = algo;
    c.n_channels = n_channels;
    return c;
}

using RecordedFolder = InFolder;

TEST_F(RecordedFolder, SaysWhichGpusRanksShared)
{
    const struct {
        unsigned n_gpus;
        const char *origin;
        const char *rows;
    } cases[] = {
        {0, "# Recorded by a test on 2 x H100, NCCL 2.30.7: ",
         "\ngpu,compute_capability,ranks,nodes,cpu_vendor,nccl\n"
         "H100,90,2,1,intel,2.30.7\n"},
        {1, "# Recorded by a test on 1 x H100 shared by 2 ranks, NCCL 2.30.7: ",
         "\ngpu,compute_capability,ranks,gpus,nodes,cpu_vendor,nccl\n"
         "H100,90,2,1,1,intel,2.30.7\n"},
    };

    for (const auto &c : cases) {
        stp_machine_record record{};
        stp_folder folder{};
        record.made_by = "a test";
        record.info.is_live = true;
        record.info.n_ranks = 2;
        record.info.n_nodes = 1;
        record.info.n_gpus = c.n_gpus;
        record.info.compute_capability = 90;
        std::strcpy(record.info.gpu, "H100");
        std::strcpy(record.info.cpu_vendor, "intel");
        std::strcpy(record.info.nccl, "2.30.7");
        std::strcpy(folder.temporary, Path(".").c_str());

        ASSERT_EQ(STP_OK, stp_machine_write_info(&record, &folder, nullptr));

        EXPECT_THAT(Read("machine.csv"),
                    testing::AllOf(testing::StartsWith(c.origin),
                                   testing::EndsWith(c.rows)));
    }
}

TEST(Recorded, TellsHowManyChoicesDifferAndHow)
{
    const stp_nccl_choice ring = Choice(NCCL_ALGO_RING, 24, 2);
    std::vector<stp_nccl_choice> nccl(4, ring);
    std::vector<stp_nccl_choice> mock(4, ring);
    stp_machine_record record{};
    stp_choices played{mock.data(), mock.size(), mock.size(), {}};
    const stp_recorded recorded{&record, "box", &played};

    std::strcpy(record.info.what, "box");
    record.choices = {nccl.data(), nccl.size(), nccl.size(), {}};
    auto print = [&] {
        return Written(
            [&](FILE *fp) { stp_print_recorded(&recorded, false, fp); });
    };
    const std::string head =
        "box\n\nbox: 0 times of collectives, 0 of iterations with compute\n";

    EXPECT_EQ(head + "4 of 4 choices reproduced\n", print());
    mock[2] = Choice(NCCL_ALGO_TREE, 1, 2);
    const std::string third = "  allreduce 1024 f32: NCCL ring/ll on 24 "
                              "channels, mock NCCL tree/ll on 1\n";
    EXPECT_EQ(head + "3 of 4 choices reproduced, 1 differs\n" + third, print());
    mock[3] = Choice(NCCL_ALGO_RING, 24, 3);
    EXPECT_EQ(head + "2 of 4 choices reproduced, 2 differ\n" + third +
                  "  allreduce 1024 f32: NCCL ring/ll on 24 channels, mock "
                  "NCCL ring/ll on 24; cost of ring/ll 2 us, mock NCCL 3\n",
              print());
    EXPECT_EQ(2u, stp_recorded_alike(&recorded));
}

} // namespace
