// NVIDIA's performance CSV into a policy of the fastest arms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

extern "C" {
#include "report/measurements/best_csv.h"
}

#include "support/written.h"

namespace
{

using testing::HasSubstr;
using testing::StrEq;

#define HEADER                                                                 \
    "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,pipeOps,"   \
    "regBuff,cost_metric,bandwidth_gbps,latency_us\n"

class DeriveBest : public testing::Test
{
  protected:
    void TearDown() override
    {
        stp_best_rows_free(&rows_);
    }

    stp_status Read(const std::string &text)
    {
        return stp_best_csv_read(text.data(), text.size(), &rows_, &err_);
    }

    // The rules without their comments.
    std::string Rules()
    {
        stp_best best{};
        text_ = Written([&](FILE *fp) {
            stp_status status = stp_best_derive(&rows_, &best, nullptr);
            stp_best_policy_write(&best, &rows_, "test", fp);
            return status;
        });
        stp_best_free(&best);
        std::string rules;
        for (const char *s = text_.c_str(); *s != '\0';) {
            const char *end = strchr(s, '\n') + 1;
            if (*s != '#' && *s != '\n')
                rules.append(s, end);
            s = end;
        }
        return rules;
    }

    stp_best_rows rows_{};
    std::string text_; // all of it
    stp_error err_{};
};

TEST_F(DeriveBest, TakesTheFastestArmFromHalfwayToHalfway)
{
    // bandwidth and cost_metric say otherwise, and decide nothing
    ASSERT_EQ(STP_OK,
              Read(HEADER "allreduce,400,ring,ll,-1,1,4,-1,-1,1,9,7\n"
                          "allreduce,400,tree,ll,8,1,4,-1,-1,2,8,6\n"
                          "allreduce,100,ring,ll,-1,1,4,-1,-1,1,9,7\n"
                          "allreduce,100,tree,ll,8,1,4,-1,-1,2,8,6\n"
                          "allreduce,1600,tree,ll,8,1,4,-1,-1,2,8,9\n"
                          "allreduce,1600,tree,ll,16,1,4,-1,-1,2,8,8\n"))
        << err_.text;

    EXPECT_EQ("allreduce,100,800,tree,ll,8,1,4\n"
              "allreduce,801,1600,tree,ll,16,1,4\n",
              Rules());
}

TEST_F(DeriveBest, RulesForAnyComeBehindThoseForSome)
{
    ASSERT_EQ(STP_OK, Read(HEADER "allgather,64,ring,ll,-1,-1,-1,-1,-1,0,0,1\n"
                                  "allgather,64,ring,ll,-1,1,8,-1,1,0,0,1\n"
                                  "allgather,64,ring,ll,-1,1,-1,-1,-1,0,0,1\n"
                                  "allgather,64,ring,ll,-1,1,8,2,0,0,0,1\n"
                                  "allgather,64,ring,ll,-1,1,4,-1,-1,0,0,1\n"));

    EXPECT_EQ("allgather,64,64,ring,ll,-1,1,4\n"
              "allgather,64,64,ring,ll,-1,1,8,2,0\n"
              "allgather,64,64,ring,ll,-1,1,8,-1,1\n"
              "allgather,64,64,ring,ll,-1,1,-1\n"
              "allgather,64,64,ring,ll,-1,-1,-1\n",
              Rules());
}

TEST_F(DeriveBest, ColumnsStandInAnyOrderAndSomeMayBeMissing)
{
    ASSERT_EQ(STP_OK, Read("# made by hand\n"
                           "latency_us,ranks,nodes,channels,protocol,algorithm,"
                           "size_bytes,collective\n"
                           "5,4,1,2,simple,nvls,4096,allreduce\n"))
        << err_.text;

    EXPECT_EQ("allreduce,4096,4096,nvls,simple,2,1,4\n", Rules());
}

struct Refusal {
    const char *row;
    unsigned column;
    const char *text;
};

TEST_F(DeriveBest, RefusesWhatItCannotRead)
{
    const Refusal cases[] = {
        {"all_reduce,64,ring,ll,-1,1,4,-1,-1,0,0,1", 1,
         "collective 'all_reduce', expected broadcast, reduce, allgather, "
         "reducescatter or allreduce"},
        {"allreduce,1K,ring,ll,-1,1,4,-1,-1,0,0,1", 11,
         "size_bytes '1K', expected a number of bytes from 1"},
        {"allreduce,64,Ring,ll,-1,1,4,-1,-1,0,0,1", 14,
         "algorithm 'Ring', expected tree, ring, collnet_direct, "
         "collnet_chain, nvls, nvls_tree or pat"},
        {"allreduce,64,ring,auto,-1,1,4,-1,-1,0,0,1", 19,
         "protocol 'auto', expected ll, ll128 or simple"},
        {"allreduce,64,ring,ll,65,1,4,-1,-1,0,0,1", 22,
         "channels '65', expected 1 to 64, or -1 for NCCL's own count"},
        {"allreduce,64,ring,ll,-1,0,4,-1,-1,0,0,1", 25,
         "nodes '0', expected a number from 1, or -1 for any"},
        {"allreduce,64,ring,ll,-1,1,4,-1,2,0,0,1", 32,
         "regBuff '2', expected 0, 1, or -1 for any"},
        {"allreduce,64,ring,ll,-1,1,4,-1,-1,0,0,0", 39,
         "latency_us '0', expected microseconds above 0"},
    };

    for (const Refusal &c : cases) {
        stp_best_rows_free(&rows_);
        EXPECT_EQ(STP_ERR_SYNTAX, Read(std::string(HEADER) + c.row + "\n"));
        EXPECT_EQ(2u, err_.line) << c.row;
        EXPECT_EQ(c.column, err_.column) << c.row;
        EXPECT_THAT(err_.text, StrEq(c.text));
    }
}

TEST_F(DeriveBest, LeavesOutWhatNcclHasNoKernelForAndSaysSo)
{
    ASSERT_EQ(STP_OK, Read(HEADER "broadcast,64,tree,simple,2,1,8,-1,-1,0,0,8\n"
                                  "broadcast,64,ring,ll,4,1,8,-1,-1,0,0,12\n"
                                  "broadcast,64,nvls,ll,4,1,8,-1,-1,0,0,1\n"));

    EXPECT_EQ("broadcast,64,64,ring,ll,4,1,8\n", Rules());
    EXPECT_EQ(2u, rows_.n_impossible);
    EXPECT_EQ(2u, rows_.impossible.line);
    EXPECT_THAT(text_, HasSubstr("Left out: 2 times of pairs that NCCL has no "
                                 "kernel for, and that were not what ran, the "
                                 "first broadcast with tree/simple in line "
                                 "2."));
}

TEST_F(DeriveBest, AnArmHasOneRowASize)
{
    const std::string row = "allreduce,64,ring,ll,-1,1,4,-1,-1,0,0,";

    EXPECT_EQ(STP_ERR_SYNTAX,
              Read(HEADER + row +
                   "5\nallreduce,64,ring,ll,4,1,4,-1,-1,0,0,5\n" + row +
                   "4\n"));

    EXPECT_EQ(4u, err_.line);
    EXPECT_STREQ("allreduce of 64 bytes with ring/ll once more, expected one "
                 "row an arm and size",
                 err_.text);
}

TEST_F(DeriveBest, IsKnownByItsHeader)
{
    EXPECT_TRUE(stp_best_csv_is(HEADER, sizeof(HEADER) - 1));
    const std::string ours = "# size_bytes,\ncollective,bytes,round\n";
    EXPECT_FALSE(stp_best_csv_is(ours.data(), ours.size()));
    EXPECT_FALSE(stp_best_csv_is("", 0));
}

} // namespace
