// Tests of the file that keeps the evidence of a job's earlier runs.
#include <gmock/gmock.h>

#include <string>

extern "C" {
#include "core/learn/evidence.h"
}

#include "nccl_tuner_abi.h"

namespace
{

using testing::HasSubstr;

constexpr const char *kHead =
    "collective,min_bytes,max_bytes,nNodes,nRanks,algorithm,protocol,channels,"
    "blocks,log_gain,log_ss\n";

TEST(Evidence, IsReadInFull)
{
    stp_evidence_list read{};
    stp_error err{};
    const std::string text =
        std::string("# of a job\n") + kHead +
        "allreduce,2097152,2621439,1,8,ring,ll128,0,24,0.0125,1e-05\n"
        "allgather,0,18446744073709551615,2,16,nvls,simple,16,1,-2.5,0\n";
    ASSERT_EQ(STP_OK, stp_evidence_parse(text.data(), text.size(), &read, &err))
        << err.text;

    ASSERT_EQ(2u, read.n);
    EXPECT_EQ(ncclFuncAllReduce, read.all[0].coll);
    EXPECT_EQ(2097152u, read.all[0].bytes.min);
    EXPECT_EQ(2621439u, read.all[0].bytes.max);
    EXPECT_EQ(1u, read.all[0].n_nodes);
    EXPECT_EQ(8u, read.all[0].n_ranks);
    EXPECT_EQ(NCCL_ALGO_RING, read.all[0].arm.algo);
    EXPECT_EQ(NCCL_PROTO_LL128, read.all[0].arm.proto);
    EXPECT_EQ(0u, read.all[0].arm.n_channels);
    EXPECT_EQ(24u, read.all[0].n_blocks);
    EXPECT_EQ(.0125, read.all[0].log_gain);
    EXPECT_EQ(1e-5, read.all[0].log_ss);
    EXPECT_EQ(UINT64_MAX, read.all[1].bytes.max);
    EXPECT_EQ(16u, read.all[1].arm.n_channels);
    EXPECT_EQ(-2.5, read.all[1].log_gain);
    stp_evidence_free(&read);
}

TEST(Evidence, HasValuesUpToTheirLimits)
{
    stp_evidence_list read{};
    stp_error err{};
    const std::string text =
        std::string(kHead) +
        "allreduce,0,0,1,1,tree,ll,0,1,-1e9,0\n"
        "reduce,18446744073709551615,18446744073709551615,"
        "18446744073709551615,18446744073709551615,pat,simple,64,4294967295,"
        "1e9,1e9\n";
    ASSERT_EQ(STP_OK, stp_evidence_parse(text.data(), text.size(), &read, &err))
        << err.text;

    ASSERT_EQ(2u, read.n);
    EXPECT_EQ(1u, read.all[0].n_ranks);
    EXPECT_EQ(1u, read.all[0].n_blocks);
    EXPECT_EQ(0, read.all[0].log_ss);
    EXPECT_EQ(UINT64_MAX, read.all[1].bytes.min);
    EXPECT_EQ(UINT64_MAX, read.all[1].n_nodes);
    EXPECT_EQ(UINT64_MAX, read.all[1].n_ranks);
    EXPECT_EQ(64u, read.all[1].arm.n_channels);
    EXPECT_EQ(UINT32_MAX, read.all[1].n_blocks);
    stp_evidence_free(&read);
    EXPECT_EQ(nullptr, read.all);
    EXPECT_EQ(0u, read.n);
}

TEST(Evidence, IsRefusedWithThePlaceOfAnError)
{
    const struct {
        const char *row;
        const char *error;
    } cases[] = {
        {"alltoall,0,1,1,2,ring,ll,0,1,0,0", "collective 'alltoall'"},
        {"allreduce,0,1,0,2,ring,ll,0,1,0,0", "nNodes '0'"},
        {"allreduce,0,1,1,0,ring,ll,0,1,0,0", "nRanks '0'"},
        {"allreduce,-1,1,1,2,ring,ll,0,1,0,0", "min_bytes '-1'"},
        {"allreduce,0,x,1,2,ring,ll,0,1,0,0", "max_bytes 'x'"},
        {"allreduce,0,1,1,2,star,ll,0,1,0,0", "algorithm 'star'"},
        {"allreduce,0,1,1,2,ring,ll64,0,1,0,0", "protocol 'll64'"},
        {"allreduce,0,1,1,2,ring,ll,65,1,0,0", "channels '65'"},
        {"allreduce,0,1,1,2,ring,ll,0,4294967296,0,0", "blocks '4294967296'"},
        {"allreduce,0,1,1,2,ring,ll,0,0,0,0", "blocks '0'"},
        {"allreduce,0,1,1,2,ring,ll,0,1,nan,0", "log_gain 'nan'"},
        {"allreduce,0,1,1,2,ring,ll,0,1,0,-1", "log_ss '-1'"},
        {"allreduce,0,1,1,2,ring,ll,0,1,0", "fields"},
    };
    for (const auto &c : cases) {
        stp_evidence_list read{};
        stp_error err{};

        const std::string text = std::string(kHead) + c.row + "\n";
        EXPECT_EQ(STP_ERR_SYNTAX,
                  stp_evidence_parse(text.data(), text.size(), &read, &err))
            << c.row;
        EXPECT_EQ(2u, err.line) << c.row;
        EXPECT_THAT(err.text, HasSubstr(c.error)) << c.row;
        EXPECT_EQ(nullptr, read.all);
    }
}

TEST(Evidence, NeedsEveryColumn)
{
    const std::string head = kHead;

    for (size_t begin = 0, end; begin < head.size(); begin = end + 1) {
        end = head.find_first_of(",\n", begin);
        const std::string name = head.substr(begin, end - begin);
        std::string text = head;
        text.replace(begin, end - begin, "");
        text.erase(begin > 0 ? begin - 1 : 0, 1);
        stp_evidence_list read{};
        stp_error err{};

        EXPECT_EQ(STP_ERR_SYNTAX,
                  stp_evidence_parse(text.data(), text.size(), &read, &err))
            << name;
        EXPECT_EQ("header without the column " + name, err.text);
    }
}

} // namespace
