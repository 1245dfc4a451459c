// What to register: measured, derived, verified, recorded and played again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "support/cli_fixture.h"
#include "support/plain_machine.h"
#include "support/slow.h"

extern "C" {
#include "core/names.h"
#include "core/policy/memory_policy.h"
#include "nccl_tuner_abi.h"
}

namespace
{

using namespace cli;
using namespace testing;

// h200x2 in ./m, made as if registered buffers had been recorded on it:
// symmetric memory takes 0.8 times as long up to 8 MiB and 1.2 times above,
// copy engines gather 0.9 times as long from 32 MiB on and else take 1.3 times
// as long, and registering alone changes nothing.  Without all of that in
// ./plain.
// The lines that are rules.
std::vector<std::string> RuleLines(const std::string &text)
{
    std::stringstream lines(text);
    std::vector<std::string> rules;

    for (std::string line; std::getline(lines, line);)
        if (line.find("all") == 0 || line.find("reduce") == 0)
            rules.push_back(line);
    return rules;
}

class Memory : public Cli
{
  protected:
    void SetUp() override
    {
        Cli::SetUp();
        plain_machine::CopyH200x2(dir_ / "m");
        fs::copy(dir_ / "m", dir_ / "plain");
        std::stringstream lines(Read("m/timings.csv"));
        std::string text;
        for (std::string line; std::getline(lines, line);) {
            text += line + "\n";
            if (line[0] != '#' && line.find("collective,") != 0)
                text += Registered(line);
        }
        Write("m/timings.csv", text);
    }

    static std::string Registered(const std::string &line)
    {
        const auto fields = plain_machine::Fields(line);
        if (fields[2] != "auto" || fields[6] != "window" ||
            (fields[0] != "allgather" && fields[0] != "allreduce"))
            return "";
        const bool gathers = fields[0] == "allgather";
        const double bytes = std::stod(fields[1]);
        const bool is_small = bytes <= 8 << 20;
        const double copied = gathers && bytes >= 32 << 20 ? 0.9 : 1.3;
        return With(fields, "reg", 1, "") +
               With(fields, "sym", is_small ? 0.8 : 1.2, "Kernel_A") +
               With(fields, "ce", copied,
                    gathers ? "copy engines" : "Kernel_A");
    }

    static std::string With(std::vector<std::string> fields,
                            const std::string &memory, double factor,
                            const std::string &kernel)
    {
        fields[2] = fields[3] = memory;
        for (size_t i = 9; i < 13; i++)
            fields[i] = std::to_string(std::stod(fields[i]) * factor);
        fields.resize(13);
        std::string line;
        for (const std::string &field : fields)
            line += field + ",";
        return line + kernel + "\n";
    }

    // In a communicator of 32 CTAs symmetric memory takes 0.7 times as long for
    // all-reduces of 2 MiB, and else as long as without.
    void AddWide()
    {
        std::stringstream lines(Read("m/timings.csv"));
        std::string text;
        for (std::string line; std::getline(lines, line);) {
            text += line + "\n";
            if (line.find(",sym,sym,") == std::string::npos)
                continue;
            text += With(plain_machine::Fields(line), "sym/ctas=32-64",
                         line.find("allreduce,2097152,") == 0 ? 0.7 : 1,
                         "Kernel_A");
        }
        Write("m/timings.csv", text);
    }

    std::vector<std::string> Rules(const std::string &file)
    {
        return RuleLines(Read(file));
    }
};

TEST_F(Memory, TuneWritesWhatToRegisterWithItsEvidence)
{
    const std::string tune = "tune --on ./m -b 1M -e 128M -f 4 --no-iterate "
                             "--collective allgather,allreduce ";

    const Outcome o = Run(tune);

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("steptune.conf.memory (3 rules)"));
    EXPECT_THAT(o.out, ContainsRegex("allgather +2  alone  sym +1048576 "));
    const std::vector<std::string> rules = Rules("steptune.conf.memory");
    EXPECT_THAT(
        rules,
        ElementsAre(
            MatchesRegex("allgather,1048576,[0-9]*,sym,1,2,0,NVIDIA H200"),
            MatchesRegex("allgather,[0-9]*,134217728,ce,1,2,0,NVIDIA H200"),
            MatchesRegex("allreduce,1048576,[0-9]*,sym,1,2,0,NVIDIA H200")));
    EXPECT_THAT(
        Read("steptune.conf.memory"),
        ContainsRegex("\n# 4194304 B: plain [0-9.]* us -> sym [0-9.]* "
                      "us, gain 1.2[0-9]* [^\n]*, over ring/ll128 1.0"));
    EXPECT_THAT(Read("steptune.report.txt"), HasSubstr("What to register"));
    EXPECT_THAT(Run("check steptune.conf.memory").status, 0);
    // rules of algorithms stay what NVIDIA's tuner reads
    EXPECT_THAT(Read("steptune.conf"), Not(HasSubstr("sym")));
    EXPECT_THAT(Read("steptune.verify.csv"),
                AllOf(HasSubstr(",plugin,"), Not(HasSubstr(",sym,"))));

    Json root = Parse(Run(tune + "--json").out);
    ASSERT_NE(nullptr, root);
    const cJSON *memory = cJSON_GetObjectItem(root.get(), "memory");
    ASSERT_EQ(3, cJSON_GetArraySize(memory));
    EXPECT_EQ("sym", String(cJSON_GetArrayItem(memory, 0), "memory"));
    EXPECT_NEAR(1.25, Number(cJSON_GetArrayItem(memory, 0), "gain_least"), .03);
    EXPECT_THAT(Files(), Contains("steptune.conf.memory.~1~"));

    // the page tells the same, by tune and by report
    const std::string page = Read("steptune.report.html");
    EXPECT_THAT(page, HasSubstr("<p class=\"lead\">Registering buffers makes "
                                "allgather up to 1.3"));
    EXPECT_THAT(page, HasSubstr("<h3><code>steptune.conf.memory</code>"));
    for (const cJSON *rule = memory->child; rule != nullptr; rule = rule->next)
        for (const std::string gain : {"gain_", "gain_over_best_"}) {
            char range[64];
            std::snprintf(range, sizeof(range), "<summary>%.3f to %.3f",
                          Number(rule, (gain + "least").c_str()),
                          Number(rule, (gain + "most").c_str()));
            EXPECT_THAT(page, HasSubstr(range));
        }
    ASSERT_EQ(0, Run("report . -o again.html").status);
    EXPECT_EQ(page, Read("again.html"));
}

// An application then makes a communicator of its own for these buffers.
TEST_F(Memory, TuneNamesTheCtasOfTheCommunicatorWhereTheyAreFaster)
{
    const std::string sizes = " -b 1M -e 4M -f 2 --collective allreduce ";
    AddWide();

    const Outcome o = Run("tune --no-iterate --on ./m" + sizes);

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, ContainsRegex("allreduce +2 +alone +sym, minCTAs 32 "));
    EXPECT_THAT(
        Rules("steptune.conf.memory"),
        ElementsAre(
            MatchesRegex("allreduce,1048576,[0-9]*,sym,0,1,2,0,NVIDIA H200"),
            MatchesRegex("allreduce,[0-9]*,[0-9]*,sym,32,1,2,0,NVIDIA H200"),
            MatchesRegex("allreduce,[0-9]*,4194304,sym,0,1,2,0,NVIDIA H200")));
    EXPECT_THAT(Read("steptune.conf.memory"),
                ContainsRegex("\n# 2097152 B: plain [0-9.]* us -> sym, minCTAs "
                              "32 [0-9.]* us, gain 1.7[0-9]* "));
    EXPECT_THAT(Read("steptune.report.html"),
                HasSubstr("<b>sym, minCTAs 32</b>"));

    const Outcome verified =
        Run("verify --on ./m --table" + sizes + "steptune.conf.memory");
    EXPECT_EQ(0, verified.status) << verified.err;
    EXPECT_THAT(verified.out, ContainsRegex("allreduce +2097152 [^\n]* 1.7"));
    EXPECT_THAT(verified.out, ContainsRegex("allreduce +1048576 [^\n]* 1.2"));
    ASSERT_EQ(
        0, Run("record --on ./m again -o . --no-overlap --channels 8" + sizes)
               .status);
    EXPECT_THAT(
        Read("again/timings.csv"),
        HasSubstr("\nallreduce,2097152,sym/ctas=32-64,sym/ctas=32-64,"));
    Write("none.memory", "collective,memory,min_ctas\nallreduce,sym,8\n");
    ExpectRefusals("verify --on ./m" + sizes,
                   {{"none.memory", 1,
                     "arm sym/ctas=8-64: machine 'm' has no recorded times of "
                     "it, and none are modelled"}});
}

TEST_F(Memory, TuneOfAMachineWithoutSuchTimesLeavesNoneOfAnEarlierRun)
{
    const std::string tune =
        "tune -b 1M -e 4M -f 4 --no-iterate --collective allreduce --on ";
    ASSERT_EQ(0, Run(tune + "./m").status);
    ASSERT_THAT(Files(), Contains("steptune.conf.memory"));

    EXPECT_EQ(0, Run(tune + "./plain").status);

    EXPECT_THAT(Files(), Not(Contains("steptune.conf.memory")));
}

TEST_F(Memory, VerifyComparesItWithPlainBuffers)
{
    const std::string verify =
        "verify --on ./m -b 1M -e 64M -f 8 --collective allgather,allreduce ";
    Write("good.memory",
          "collective,min_bytes,max_bytes,memory\n"
          "allgather,0,8388608,sym\nallgather,33554432,inf,ce\n");
    Write("bad.memory", "collective,min_bytes,max_bytes,memory\n"
                        "allgather,0,8388608,sym\nallreduce,8388609,inf,sym\n");

    const Outcome good = Run(verify + "--table good.memory");
    const Outcome bad = Run(verify + "bad.memory");

    EXPECT_EQ(0, good.status) << good.err;
    EXPECT_THAT(good.out, ContainsRegex("allgather +8388608 [^\n]* 1.2[0-9]* "
                                        "[^\n]*Kernel_A +faster"));
    EXPECT_THAT(good.out, ContainsRegex("allgather +67108864 [^\n]* copy "
                                        "engines +faster"));
    EXPECT_THAT(good.out, HasSubstr(" 0 slower"));
    EXPECT_EQ(1, bad.status);
    EXPECT_THAT(bad.out, ContainsRegex("allreduce +67108864 [^\n]*0.83"));
    EXPECT_THAT(Parse(Run(verify + "--json good.memory").out), NotNull());
    Write("none.memory", "collective,memory\nbroadcast,sym\n");
    ExpectRefusals(verify, {{"none.memory", 1,
                             "no rule of the memory policy names a message "
                             "that was measured, so nothing is verified"}});
}

TEST_F(Memory, DeriveMakesItOfMeasurementsOfBothKinds)
{
    ASSERT_EQ(0, Run("sweep --on ./m --arms all,memory -b 1M -e 64M -f 4 "
                     "--collective allgather -o sweep.csv")
                     .status);
    // as iterate writes them on GPUs
    std::string rounds =
        "# machine: m\n# gpu: NVIDIA H200\n# nccl: 2.28.9\n# backend: nccl\n"
        "collective,bytes,round,algorithm,protocol,nNodes,nRanks,median_us,"
        "mode,compute,layers,ratio,m,n,k,compute_us,alone_us\n";
    for (const char *round : {"0", "1", "2"})
        for (const auto &[arm, us] :
             {std::pair("auto", "100.0"), std::pair("ce", "80.0")})
            rounds += std::string("allreduce,4194304,") + round + "," + arm +
                      "," + arm + ",1,2," + us + round +
                      ",overlap,gemm,8,1,512,512,256,50,40\n";
    Write("rounds.csv", rounds);

    const Outcome o = Run("derive sweep.csv rounds.csv --as memory -o "
                          "x.conf.memory");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("3 rules from "));
    EXPECT_THAT(
        Rules("x.conf.memory"),
        ElementsAre(
            MatchesRegex("allgather,1048576,[0-9]*,sym,1,2,0,NVIDIA H200"),
            MatchesRegex("allgather,[0-9]*,67108864,ce,1,2,0,NVIDIA H200"),
            "allreduce,4194304,4194304,ce,1,2,1,NVIDIA H200"));
    ExpectRefusals("derive --as memory ",
                   {{STP_FIXTURES "/iterations/h200x2_scan.csv", 1,
                     "no times of registered buffers, expected those of arms "
                     "reg, sym or ce"}});
}

// What a memory policy says of the sizes of training steps: "allgather 1 4 sym
// 32", 1 being overlapped, of MiB. The alone ones without their CTAs.
std::vector<std::string> MemoryAnswers(const std::string &path)
{
    std::vector<std::string> answers;
    stp_policy *policy = nullptr;
    stp_error err{};

    EXPECT_EQ(STP_OK, stp_memory_policy_load(path.c_str(), &policy, &err))
        << err.text;
    for (int coll :
         {ncclFuncAllGather, ncclFuncReduceScatter, ncclFuncAllReduce})
        for (bool overlaps : {false, true})
            for (uint64_t mib = 2; mib <= 64; mib *= 2) {
                const stp_memory_query query{coll, mib << 20, 2,
                                             1,    overlaps,  "NVIDIA H200"};
                const stp_rule *rule = stp_memory_policy_match(policy, &query);
                std::ostringstream answer;

                answer << stp_coll_name(coll) << " " << overlaps << " " << mib
                       << " " << stp_memory_name(rule ? rule->memory : 0);
                if (overlaps && rule != nullptr)
                    answer << " " << rule->min_ctas;
                answers.push_back(answer.str());
            }
    stp_policy_free(policy);
    return answers;
}

// By what tune measured on 2 x H200, and on the recording that was made of them
// just before, in all of the modes that tune measures.
TEST_F(Cli, MemoryRulesOfMeasuredAndOfRecordedGpus)
{
    STP_SLOW();
    const std::string h200 = STP_FIXTURES "/reports/h200x2/steptune.";
    const std::vector<std::string> tuned = MemoryAnswers(h200 + "conf.memory");

    ASSERT_EQ(0, Run("derive " + h200 + "sweep.csv " + h200 +
                     "iterations.csv --as memory -o live.memory")
                     .status);
    ASSERT_EQ(0, Run("tune --on h200x2 -d bfloat16 -o played").status);

    EXPECT_THAT(tuned, IsSupersetOf(
                           {"allgather 0 2 sym", "allgather 1 2 sym 0",
                            "allgather 1 4 sym 32", "reducescatter 1 64 sym 16",
                            "allreduce 0 2 sym", "allreduce 0 64 sym",
                            "allreduce 1 2 sym 16", "allreduce 1 32 sym 32"}));
    EXPECT_EQ(tuned, MemoryAnswers(dir_ / "live.memory"));
    EXPECT_EQ(tuned, MemoryAnswers(dir_ / "played.memory"));
    EXPECT_EQ(RuleLines(Read(h200 + "conf.overlap")),
              RuleLines(Read("played.overlap")));
    EXPECT_THAT(Read("played.iterations.csv"), Not(HasSubstr(",modelled,")));
}

TEST_F(Memory, SweepAndRecordKeepWhatRan)
{
    const Outcome o = Run("sweep --on ./m --arms memory -b 32M -e 32M "
                          "--collective allgather,broadcast --format csv");
    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr(",chunk,ran_kernel\n"));
    EXPECT_THAT(o.out, ContainsRegex("\nallgather,33554432,0,ce,ce,0,[^\n]*,0,"
                                     "copy engines\n"));
    EXPECT_THAT(o.out, HasSubstr("\nbroadcast,33554432,0,auto,auto,"));
    EXPECT_THAT(o.out, Not(HasSubstr("broadcast,33554432,0,sym")));

    ASSERT_EQ(0,
              Run("record --on ./m again -o . --no-overlap -b 1M -e 32M -f 4 "
                  "--collective allgather --channels 8")
                  .status);
    const std::string again = Read("again/timings.csv");
    EXPECT_THAT(again, HasSubstr("min_us,source,ran_kernel\n"));
    EXPECT_THAT(again, ContainsRegex("\nallgather,1048576,sym,sym,0,2,window,"
                                     "1,[^\n]*,recorded,Kernel_A\n"));
    EXPECT_EQ(0, Run("sweep --on ./again --arms ce -b 32M -e 32M "
                     "--collective allgather")
                     .status);
}

// "memory" is what a machine has, a name is what was asked for.
TEST_F(Memory, ArmsAreThoseThatTheMachineHas)
{
    std::string text = Read("m/timings.csv"), kept;
    std::stringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        if (line.find(",ce,ce,") == std::string::npos)
            kept += line + "\n";
    Write("m/timings.csv", kept);
    const std::string sweep = "sweep --on ./m -b 1M -e 1M --collective "
                              "allreduce --format csv --arms ";

    const Outcome o = Run(sweep + "memory");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, AllOf(HasSubstr(",sym,sym,"), HasSubstr(",reg,reg,"),
                             Not(HasSubstr(",ce,ce,"))));
    ExpectRefusals(sweep, {{"memory,ce", 1, "arm ce: machine 'm' has no"}});
    ExpectRefusals("sweep --on ./plain -b 1M -e 1M --arms ",
                   {{"memory", 1,
                     "arm 'memory': plain has no arms of registered "
                     "buffers"}});
}

TEST_F(Memory, ArmsThatHadNoEffectOrNoTimesAreNamed)
{
    std::string text = Read("m/timings.csv");
    for (size_t at; (at = text.find("Kernel_A")) != std::string::npos;)
        text.erase(at, 8);
    Write("m/timings.csv", text);

    const Outcome o = Run("sweep --on ./m --arms sym -b 1M -e 1M "
                          "--collective allreduce");
    EXPECT_EQ(0, o.status);
    EXPECT_EQ("steptune sweep: arm sym had no effect in 5 of 5 measurements of "
              "allreduce: NCCL 2.28.9 ran neither a symmetric kernel nor copy "
              "engines\n",
              o.err);
    ExpectRefusals("sweep --on ./plain -b 1M -e 1M --arms ",
                   {{"sym", 1,
                     "arm sym: machine 'plain' has no recorded times of it, "
                     "and none are modelled"},
                    {"sym/ctas=16", 1, "arm sym/ctas=16: machine"}});
}

} // namespace
