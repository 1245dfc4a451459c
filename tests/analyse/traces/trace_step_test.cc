// A step of a traced job on the ranks of a device, and its times.
#include "analyse/traces/trace_words.h"
#include "support/blocks.h"
#include "support/mock_device.h"
#include "support/owned.h"

extern "C" {
#include "analyse/traces/trace_step.h"
#include "bench/iterate.h"
#include "nccl_tuner_abi.h"
}

namespace
{

using namespace testing;

const std::string kTraces = STP_FIXTURES "/traces/";

class Step
{
  public:
    std::string Make(const std::string &text, unsigned n_ranks, int type = -1)
    {
        stp_error err{};

        EXPECT_EQ("", trace.Read(text));
        stp_trace_step_free(&step);
        stp_trace_keep_process(&trace.get());
        return stp_trace_step_make(&trace.get(), n_ranks, type, &step, &err) ==
                       STP_OK
                   ? ""
                   : std::to_string(err.line) + ": " + err.text;
    }

    // "allreduce:8:bf16", of groups "allreduce:8:bf16@2/1"; "gemm:8x4x2:bf16",
    // "us:5", "record0", "wait0", "begin", "end"; "/" for stream comm.
    std::vector<std::string> Notes() const
    {
        std::vector<std::string> words;

        for (size_t i = 0; i < step.work.program.n_notes; i++) {
            const stp_work &w = step.work.program.notes[i];
            std::ostringstream s;

            s << (w.stream == STP_STREAM_COMM ? "/" : "");
            switch (w.kind) {
            case STP_WORK_COLLECTIVE:
                s << Word(w.collective);
                break;
            case STP_WORK_GEMM:
                if (w.gemm.m == 0)
                    s << "us:" << step.work.us[w.task - 1];
                else
                    s << "gemm:" << w.gemm.m << "x" << w.gemm.n << "x"
                      << w.gemm.k << ":" << stp_type_name(w.gemm.type);
                break;
            case STP_WORK_RECORD:
                s << "record" << w.event;
                break;
            case STP_WORK_WAIT:
                s << "wait" << w.event;
                break;
            default:
                s << (w.kind == STP_WORK_GROUP_BEGIN ? "begin" : "end");
            }
            words.push_back(s.str());
        }
        return words;
    }

    // "4" for all ranks, else "2/1": as many, so far apart.
    std::vector<std::string> Groups() const
    {
        std::vector<std::string> words;

        for (size_t i = 0; i < trace.get().n_comms; i++)
            words.push_back(Word(step.groups[i]));
        return words;
    }

    static std::string Word(const stp_rank_groups &groups)
    {
        return groups.size == 0 ? "all"
                                : std::to_string(groups.size) + "/" +
                                      std::to_string(groups.stride);
    }

    static std::string Word(const stp_collective &c)
    {
        return std::string(stp_coll_name(c.coll)) + ":" +
               std::to_string(c.n_bytes) + ":" + stp_type_name(c.type) +
               (c.groups.size != 0 ? "@" + Word(c.groups) : "");
    }

    TraceUnderTest trace;
    Owned<stp_trace_step, stp_trace_step_free> step;
};

/* ---- what it does ---- */

TEST(TraceStep, HasTheWorkOfTheTraceInItsStreams)
{
    for (const Block &c : ReadBlocks(STP_FIXTURES "/trace_steps.txt")) {
        SCOPED_TRACE(c.head);
        std::istringstream head(c.head);
        std::string name, type, notes, want;
        unsigned n_ranks = 0;
        Step step;

        head >> name >> n_ranks >> type;
        ASSERT_EQ("",
                  step.Make(c.text.empty() ? ReadFile(kTraces + name) : c.text,
                            n_ranks, type == "f32" ? STP_TYPE_F32 : -1));
        for (const std::string &note : step.Notes())
            notes += " " + note;
        for (size_t i = 1; i < c.expected.size(); i++)
            want += " " + c.expected[i];
        EXPECT_EQ(c.expected[0], "step " + std::to_string(step.step.number) +
                                     " of " +
                                     std::to_string(step.step.n_steps));
        EXPECT_EQ(want, notes);
    }
}
/* ---- steps that a recording does not name ---- */

TEST(TraceStep, IsTheSequenceThatTheTraceRepeats)
{
    const struct {
        const char *name;
        const char *sizes; // a letter each
        unsigned n_steps;
        size_t n_colls;
    } cases[] = {
        {"alike", "aaaaaaaa", 8, 1},
        {"after a start", "xyzabcabcabc", 4, 3},
        {"with repeats within", "abccccabccccabcccc", 3, 6},
        {"twice", "abcdabcd", 2, 4},
        {"ending within a step", "abcabcab", 2, 3},
        {"nothing", "abcdefgh", 1, 8},
        {"by chance", "abcdee", 1, 6},
        {"one", "a", 1, 1},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        std::string text = "collective,bytes\n";
        Step step;

        for (const char *s = c.sizes; *s != '\0'; s++)
            text += "allreduce," + std::to_string(16 * *s) + "\n";
        ASSERT_EQ("", step.Make(text, 2));
        EXPECT_EQ(c.n_steps, step.step.n_steps);
        EXPECT_EQ(c.n_colls, step.step.work.n_colls);
    }
}

/* ---- where ---- */

TEST(TraceStep, CutsGroupsToTheRanksThatThereAre)
{
    const std::string groups = ReadFile(kTraces + "groups.csv");
    const std::string head = "collective,bytes,comm,create,nRanks,ranks\n"
                             "allreduce,8,w,,8,\n";
    const struct {
        const std::string &text;
        unsigned n_ranks;
        std::vector<std::string> groups;
        const char *why;
    } cases[] = {
        // clang-format off
        {groups, 1, {"all", "all", "all"}, ""},
        {groups, 2, {"all", "all", "all"}, ""},
        {groups, 4, {"all", "2/1", "2/2"}, ""},
        {groups, 8, {"all", "2/1", "2/2"}, ""},
        {groups, 6, {"all", "2/1", "2/1"}, ""},
        {groups, 3, {}, "7: communicator 'tp' of 2 ranks, which 3 ranks cannot be divided into"},
        {head + "allreduce,8,a,split w,4,\n", 8, {"all", "4/1"}, ""},
        {head + "allreduce,8,a,split w,4,\n", 4, {"all", "all"}, ""},
        {head + "allreduce,8,a,shrink w,7,\n", 8, {"all", "4/1"}, ""},
        {head + "allreduce,8,a,split w,,1+3\n", 8, {"all", "2/2"}, ""},
        {head + "allreduce,8,a,split w,,0+1/2+4\n", 8, {},
         "3: communicator 'a' of ranks that are not equally far apart, expected such as 0+2/1+3"},
        {head + "allreduce,8,a,split w,,0+3/1+2\n", 8, {},
         "3: communicator 'a' of ranks that are not equally far apart, expected such as 0+2/1+3"},
        {head + "allreduce,0,a,split w,4,\n", 8, {"all", "4/1"}, ""},
        // clang-format on
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.text + " on " + std::to_string(c.n_ranks));
        Step step;

        EXPECT_EQ(c.why, step.Make(c.text, c.n_ranks));
        if (c.why[0] == '\0') {
            EXPECT_THAT(step.Groups(), ElementsAreArray(c.groups));
        }
    }
}

TEST(TraceStep, WantsAByteToSend)
{
    Step step;

    EXPECT_EQ("0: a step without a collective of at least a byte",
              step.Make("collective,bytes\nallreduce,0\n", 2));
}

/* ---- times on recorded machines ---- */

class TimesOfAStep : public TestWithParam<const char *>
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(STP_OK, OpenMockDevice(GetParam(), 3, &device_, &err_))
            << err_.text;
        stp_device_get_info(&device_, &info_);
        stp_arms_parse("ring/ll128", &arms_, nullptr);
    }

    void TearDown() override
    {
        stp_iterations_free(&out_);
        stp_device_close(&device_);
    }

    // Iterations of each arm, AUTO's first, of a trace's step.
    std::vector<double> Iterate(Step *step, const std::string &text)
    {
        stp_iterate_plan plan{};
        std::vector<double> us;

        EXPECT_EQ("", step->Make(text, info_.n_ranks));

        plan.step = &step->step.work;
        plan.arms = &arms_;
        plan.rounds = 1;
        plan.iters = 1;
        plan.alone = true;
        plan.type = STP_TYPE_BF16;
        stp_iterations_free(&out_);
        EXPECT_EQ(STP_OK, stp_iterate_run(&device_, &plan, nullptr, nullptr,
                                          &out_, &err_))
            << err_.text;
        for (size_t i = 0; i < out_.data.n_rows; i++)
            us.push_back(out_.data.rows[i].us.mean);
        EXPECT_EQ(2u, us.size());
        return us;
    }

    double Collectives(const Step &step, const stp_arm &arm)
    {
        double us = 0;

        EXPECT_EQ(STP_OK, stp_device_select_arm(&device_, &arm, &err_));
        for (size_t i = 0; i < step.step.work.n_colls; i++) {
            stp_device_run run{};
            EXPECT_EQ(STP_OK,
                      stp_device_probe(&device_, &step.step.work.colls[i], &run,
                                       nullptr, &err_));
            us += run.us;
        }
        return us;
    }

    stp_device device_{};
    stp_device_info info_{};
    stp_arms arms_{};
    stp_iterations out_{};
    stp_error err_{};
};

// In one stream nothing overlaps: the sum of all parts.  On b200x8 and in
// groups times are modelled, and do not spread.
TEST_P(TimesOfAStep, AreTheSumOfItsPartsInOneStream)
{
    const std::string text = "collective,bytes,comm,create,ranks,m,n,k,us\n"
                             "broadcast,1K,w,,,,,,\n"
                             "compute,,,,,2048,4096,4096,\n"
                             "allreduce,16M,tp,split w,0+1/2+3,,,,\n"
                             "allgather,4M,dp,split w,0+2/1+3,,,,\n"
                             "compute,,,,,,,,400\n"
                             "allreduce,16M,tp,,,,,,\n";
    Step step;

    const std::vector<double> us = Iterate(&step, text);
    const double compute_us = out_.data.rows[0].work.compute_us;
    EXPECT_THAT(compute_us, Gt(400));
    for (unsigned a = 0; a < 2; a++)
        EXPECT_NEAR(compute_us + Collectives(step, arms_.arm[a]), us[a],
                    out_.data.rows[a].source == STP_SOURCE_MODELLED &&
                            info_.n_ranks == 8
                        ? 1e-6
                        : .02 * us[a])
            << a;
}
// 8192^3 takes far longer than 400 us on all of these machines.
TEST_P(TimesOfAStep, OfComputeAreThoseThatTheTraceGives)
{
    const std::string head = "collective,bytes,m,n,k,us\nallreduce,8,,,,\n"
                             "compute,,8192,8192,8192,\n";
    Step step;

    Iterate(&step, head);
    const double shape_us = out_.data.rows[0].work.compute_us;
    EXPECT_GT(shape_us, 600);
    Iterate(&step, head + "compute,,,,,400\ncompute,,,,,400\n");
    EXPECT_NEAR(shape_us + 800, out_.data.rows[0].work.compute_us, 40);
    Iterate(&step, "collective,bytes,us\nallreduce,8,\ncompute,,40000\n");
    EXPECT_NEAR(40000, out_.data.rows[0].work.compute_us, 2000);
}

TEST_P(TimesOfAStep, StandForTheMessageOfTheMostBytes)
{
    Step step;

    Iterate(&step, "collective,bytes,us\nreducescatter,24M,\n"
                   "allreduce,16M,\ncompute,,540\nallreduce,16M,\n"
                   "compute,,6000\n");

    const stp_measurement &row = out_.data.rows[0];
    EXPECT_EQ(int(ncclFuncAllReduce), row.coll);
    EXPECT_EQ(16777216u, row.n_bytes);
    EXPECT_EQ(STP_MODE_TRACE, row.work.mode);
    EXPECT_EQ(1u, row.work.layers);
    EXPECT_EQ(nullptr, row.work.step);
    EXPECT_NEAR(540 + 6000, row.work.compute_us, .05 * 6540);
    EXPECT_GT(row.alone_us, 0);
}

INSTANTIATE_TEST_SUITE_P(OnMachines, TimesOfAStep,
                         Values("h200x2", "h200x4", "b200x8"),
                         [](const auto &machine) { return machine.param; });

} // namespace
