// The policy of `steptune tune -- COMMAND`, from the job's journal.
#include <gmock/gmock.h>

#include <cmath>

extern "C" {
#include "core/learn/evidence.h"
#include "report/learning/job_rules.h"
}

#include "nccl_tuner_abi.h"
#include "report/learning/journals.h"
#include "support/in_folder.h"
#include "support/owned.h"
#include "support/written.h"

namespace
{

using namespace journals;
using testing::AllOf;
using testing::HasSubstr;

const std::string kLl = "ring,ll,0";
const std::string kTree = "tree,ll128,0";

// Blocks in which 'arm' had a gain over NCCL's own choice, and won.
std::string Wins(const std::string &arm, double gain, int n_blocks,
                 const char *comm = "1")
{
    std::string text;
    const std::string g = std::to_string(gain);

    for (int i = 0; i < n_blocks; i++)
        text += Line(2, "block", kOwn, "20,,,", comm) +
                Line(2, "block", arm, "19," + g + "," + g + "," + g, comm);
    return text + Line(3, "incumbent", arm, kNoGain, comm);
}

std::string Sets(double gain, int n, const std::string &comm = "1")
{
    std::string text = "4," + comm + ",1,4,window,9,,,,,,,24,,,\n";
    const std::string g = std::to_string(gain);

    for (int i = 0; i < n; i++)
        text += "9," + comm + ",1,4,set,9,,,,,,,500," + g + "," + g + "," + g +
                "\n";
    return text;
}

// Rules from runs one after another; only the last says what is in force.
class Rules
{
  public:
    Rules(const std::string &before, const std::string &last)
        : all(before + last), last_(last)
    {
        stp_job_rules_make(&all.sum, &last_.sum, &rules);
    }

    std::string Sentences() const
    {
        return Written([&](FILE *fp) {
            stp_job_totals_write(&rules, "", fp);
            return STP_OK;
        });
    }

    Learning all;
    Owned<stp_job_rules, stp_job_rules_free> rules;

  private:
    Learning last_;
};

TEST(JobRules, AreTheArmsInForceWhenTheJobEnds)
{
    Rules r("", Wins(kLl, 1.02, 5) + Wins(kRing, 1.1, 6) + Sets(1.1, 8));

    ASSERT_EQ(1u, r.rules.n);
    EXPECT_EQ(NCCL_PROTO_LL128, r.rules.rules[0].arm.proto);
    EXPECT_EQ(24, r.rules.rules[0].arm.n_channels);
    EXPECT_EQ(6u, r.rules.rules[0].n_blocks);
    EXPECT_NEAR(1.1, r.rules.rules[0].gain.gain, 1e-6);
    EXPECT_EQ("The step is 1.100x as fast as without Steptune (1.100 to "
              "1.100): 8 blocks of windows of 0.0005 s measured in the job.\n",
              r.Sentences());
}

TEST(JobRules, AreNoneWhereNcclsOwnChoiceReturned)
{
    const std::string dropped =
        Sets(.9, 8) + "9,1,1,4,dropped,9,,,,,,,8,0.9,0.8,1\n";

    EXPECT_EQ(0u, Rules("", "").rules.n);
    EXPECT_EQ(0u, Rules("", Wins(kRing, 1.1, 1)).rules.n) << "no interval";
    EXPECT_EQ(0u, Rules("", Wins(kRing, 1.1, 6) + Wins(kOwn, 1, 1)).rules.n);
    EXPECT_EQ(0u, Rules("", Wins(kRing, 1.1, 6) + dropped).rules.n);
    const Rules left_out("", Wins(kRing, 1.1, 6) + Sets(1.0004, 8));
    EXPECT_EQ(0u, left_out.rules.n) << "steps gain nothing";
    EXPECT_THAT(left_out.Sentences(),
                HasSubstr("(1.000 to 1.000): 8 blocks of windows of 0.0005 s "
                          "measured in the job, and what won in windows of "
                          "equal work is left out.\n"));
}

TEST(JobRules, OfACommunicatorThatWasNotComparedSayIt)
{
    Rules r("", Wins(kRing, 1.1, 6));

    EXPECT_EQ("The rules were not compared together with the job as it is: "
              "the job ended before that.\n",
              r.Sentences());
    EXPECT_THAT(Rules("", Wins(kRing, 1.1, 6) + "9,1,1,4,set,9,,,,,,,0,,,\n")
                    .Sentences(),
                HasSubstr("other collectives, as of an evaluation"));
}

// The evidence of runs adds up; the set of an earlier run counts if it is the
// same.
TEST(JobRules, RestOnAllRuns)
{
    const std::string first = Wins(kRing, 1.1, 6) + Sets(1.1, 8);

    Rules same(first, Wins(kRing, 1.1, 4, "2") + Sets(1.1, 8, "2"));
    ASSERT_EQ(1u, same.rules.n);
    EXPECT_EQ(10u, same.rules.rules[0].n_blocks);
    EXPECT_EQ(16u, same.rules.totals[0].n_blocks);
    EXPECT_EQ(2u, same.rules.totals[0].n_comms);

    Rules other(first, Wins(kTree, 1.2, 4, "2") + Sets(1.2, 8, "2"));
    ASSERT_EQ(1u, other.rules.n);
    EXPECT_EQ(NCCL_ALGO_TREE, other.rules.rules[0].arm.algo);
    EXPECT_EQ(4u, other.rules.rules[0].n_blocks);
    EXPECT_EQ(8u, other.rules.totals[0].n_blocks);
    EXPECT_NEAR(1.2, other.rules.totals[0].gain.gain, 1e-6);
}

TEST(JobRules, PoolBlocksOfCommunicators)
{
    Rules r("", Wins(kRing, 1.1, 6) + Wins(kRing, 1.1, 6, "2") + Sets(1.1, 2) +
                    Sets(1.21, 2, "2"));
    const double off = std::log(1.1) / 2;
    const stp_learning_blocks four{4, 3 * off, 4 * off * off};
    const stp_gain gain = stp_learning_gain_of(&four);

    ASSERT_EQ(1u, r.rules.n_totals);
    EXPECT_EQ(4u, r.rules.totals[0].n_blocks);
    EXPECT_NEAR(gain.gain, r.rules.totals[0].gain.gain, 1e-6);
    EXPECT_NEAR(gain.low, r.rules.totals[0].gain.low, 1e-6);
    EXPECT_THAT(r.Sentences(), HasSubstr(", on average of 2 communicators, "));
    EXPECT_NEAR(gain.high, r.rules.totals[0].gain.high, 1e-6);

    const Rules open("", Wins(kRing, 1.1, 6) + Wins(kRing, 1.1, 6, "2") +
                             Sets(.9, 2) + Sets(1.1, 2, "2"));
    EXPECT_EQ(1u, open.rules.n) << "as it won in windows of equal work";
    EXPECT_THAT(open.Sentences(),
                HasSubstr("job, which leave open whether steps gain or lose: "
                          "`steptune tune --resume` measures for longer.\n"));
}

TEST(JobRules, TakeTheBetterOfArmsThatDiffer)
{
    Rules r("", Wins(kRing, 1.1, 6) + Wins(kLl, 1.05, 6, "2") + Sets(1.1, 2) +
                    Sets(1.05, 2, "2"));

    ASSERT_EQ(1u, r.rules.n);
    EXPECT_EQ(NCCL_PROTO_LL128, r.rules.rules[0].arm.proto);
    EXPECT_EQ(2u, r.rules.totals[0].n_blocks) << "of the first communicator";
}

// Short windows say which arm is the best, long ones what the step gains: as
// much as whole runs that were compared.
TEST(JobRules, OfRealJobsAreWhatTheirStepsGain)
{
    const struct {
        const char *file;
        int proto;
        double gain; // of its windows
        const char *said;
    } cases[] = {
        {"h200x2_torch_step_tuned", NCCL_PROTO_LL, 1.050,
         "The step is 1.021x as fast as without Steptune (1.018 to 1.024): 14 "
         "blocks of windows of 0.3 s measured in the job.\n"},
        {"h200x2_planted", NCCL_PROTO_LL128, 1.061,
         "The step is 1.039x as fast as without Steptune (1.031 to 1.046): 17 "
         "blocks of windows of 0.31 s measured in the job.\n"},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.file);
        std::ifstream file(std::string(STP_FIXTURES "/jobs/") + c.file +
                           ".csv");
        std::stringstream text;
        std::string line;

        std::getline(file, line); // how it was made
        std::getline(file, line);
        EXPECT_EQ(0u, line.find("t_us,comm,"));
        text << line << "\n" << file.rdbuf();
        Rules r("", text.str());

        ASSERT_EQ(1u, r.rules.n);
        EXPECT_EQ(NCCL_ALGO_RING, r.rules.rules[0].arm.algo);
        EXPECT_EQ(c.proto, r.rules.rules[0].arm.proto);
        EXPECT_NEAR(c.gain, r.rules.rules[0].gain.gain, .0005);
        EXPECT_EQ(c.said, r.Sentences());
    }
}

// ---- files ----

using JobFiles = InFolder;

TEST_F(JobFiles, AreAPolicyWithItsEvidence)
{
    Rules r("", Wins(kRing, 1.1, 6) + Sets(1.08, 8));
    const stp_job_origin origin = {"torchrun train.py", "NVIDIA H200", false,
                                   false};

    ASSERT_EQ(STP_OK, stp_job_rules_save(&r.rules, &origin,
                                         Path("p.conf").c_str(), &err_));

    EXPECT_THAT(
        Read("p.conf"),
        AllOf(
            HasSubstr("# steptune tune -- torchrun train.py\n# policy hash: "),
            HasSubstr("\n# The step is 1.080x as fast as without Steptune "),
            HasSubstr("\n# 1.100x (1.100 to 1.100) in windows of equal work, "
                      "6 blocks measured\n"
                      "allgather,4194304,5242879,ring,ll128,24,1,4,NVIDIA "
                      "H200\n")));
    stp_policy *policy = nullptr;
    ASSERT_EQ(STP_OK, stp_policy_load(STP_POLICY_OF_ARMS,
                                      Path("p.conf").c_str(), &policy, &err_));
    EXPECT_EQ(1u, stp_policy_size(policy));
    stp_policy_free(policy);
}
TEST_F(JobFiles, TellTheNextRunWhatIsKnown)
{
    Rules r("", Wins(kLl, .9, 1) + Wins(kRing, 1.1, 6));
    stp_evidence_list read{};

    const std::string text = Written([&](FILE *fp) {
        stp_job_evidence_write(&r.all.sum, fp);
        return STP_OK;
    });
    ASSERT_EQ(STP_OK,
              stp_evidence_parse(text.data(), text.size(), &read, &err_))
        << err_.text;

    ASSERT_EQ(2u, read.n);
    EXPECT_EQ(NCCL_PROTO_LL, read.all[0].arm.proto);
    EXPECT_EQ(1u, read.all[0].n_blocks);
    EXPECT_NEAR(std::log(.9), read.all[0].log_gain, 1e-6);
    EXPECT_EQ(24u, read.all[1].arm.n_channels);
    EXPECT_EQ(6u, read.all[1].n_blocks);
    EXPECT_EQ(4u, read.all[1].n_ranks);
    EXPECT_EQ(4194304u, read.all[1].bytes.min);
    stp_evidence_free(&read);
}

TEST_F(JobFiles, NameNoGpuThatIsNotKnownOrCannotBeWritten)
{
    Rules r("", Wins(kRing, 1.1, 6));

    for (const char *gpu : {(const char *)nullptr, "a,b", "a#b"}) {
        const stp_job_origin origin = {"job", gpu, false, false};

        ASSERT_EQ(STP_OK, stp_job_rules_save(&r.rules, &origin,
                                             Path("p.conf").c_str(), &err_));
        EXPECT_THAT(Read("p.conf"), AllOf(HasSubstr("ring,ll128,24,1,4\n"),
                                          Not(HasSubstr("gpu"))));
    }
}

} // namespace
