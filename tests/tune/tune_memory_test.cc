// Tests of registration in tune: iterations with it are measured a second time,
// and rules for plain buffers are tried in iterations in which compute waits.
#include <gmock/gmock.h>

#include <functional>

#include "support/in_folder.h"
#include "support/mock_device.h"
#include "support/owned.h"
#include "tune/plain_machine.h"
#include "support/slow.h"

extern "C" {
#include "nccl_tuner_abi.h"
#include "tune/tune.h"

// A device that captures, if it is not 0: iterations in CUDA graphs take so
// many times as long with the policy.
static double captured_factor;
static bool is_captured, is_live;
static int arm_kind;

void __real_stp_device_get_info(const stp_device *, stp_device_info *);
void __wrap_stp_device_get_info(const stp_device *device, stp_device_info *info)
{
    __real_stp_device_get_info(device, info);
    info->captures = captured_factor > 0;
    info->is_live |= is_live;
}
bool __real_stp_device_knows_mode(const stp_device *, int, int);
bool __wrap_stp_device_knows_mode(const stp_device *device, int mode, int coll)
{
    return is_live || __real_stp_device_knows_mode(device, mode, coll);
}
void __wrap_stp_device_use_graphs(const stp_device *, bool uses)
{
    is_captured = uses;
}
stp_status __real_stp_device_select_arm(const stp_device *, const stp_arm *,
                                        stp_error *);
stp_status __wrap_stp_device_select_arm(const stp_device *device,
                                        const stp_arm *arm, stp_error *err)
{
    arm_kind = arm->kind;
    return __real_stp_device_select_arm(device, arm, err);
}
double __real_stp_device_elapsed_us(const stp_device *, unsigned, unsigned);
double __wrap_stp_device_elapsed_us(const stp_device *device, unsigned from,
                                    unsigned to)
{
    return __real_stp_device_elapsed_us(device, from, to) *
           (is_captured && arm_kind == STP_ARM_PLUGIN ? captured_factor : 1);
}
}

namespace
{

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr uint64_t MiB = 1 << 20;

// The times of symmetric memory as a share of plain buffers', by bytes.
using Share = std::function<double(uint64_t)>;

// A line of a machine's times for such memory, out of that of AUTO.
std::string Symmetric(const std::string &line, const char *memory,
                      const Share &share)
{
    std::vector<std::string> fields = plain_machine::Fields(line);
    if (line[0] == '#' || fields[0] != "allreduce" || fields[2] != "auto" ||
        fields[6] == "sweep")
        return "";
    fields[2] = fields[3] = memory;
    fields[13] = "AllReduce";
    const bool is_iteration = fields.size() > 15;
    const double compute = is_iteration ? std::stod(fields[14]) * // layers
                                              std::stod(fields[15])
                                        : 0;
    for (size_t i = 9; i < 13; i++)
        fields[i] = std::to_string(compute + (std::stod(fields[i]) - compute) *
                                                 share(std::stoull(fields[1])));
    std::string all;
    for (const std::string &field : fields)
        all += (all.empty() ? "" : ",") + field;
    return all + "\n";
}

using Result = Owned<stp_tune_result, stp_tune_result_free>;

class TuneMemory : public InFolder
{
  protected:
    // h200x2 with symmetric memory that takes half the time of plain buffers
    // alone, and in iterations this share of what they take beside compute.
    void MakeMachine(const std::string &name, const Share &share,
                     const char *memory = "sym") const
    {
        plain_machine::CopyH200x2(dir_ / name);
        Extend(name + "/timings.csv", memory, [](uint64_t) { return 0.5; });
        Extend(name + "/overlap.csv", memory, share);
    }

    void Extend(const std::string &file, const char *memory,
                const Share &share) const
    {
        std::string text;
        for (const std::string &line : SplitLines(Read(file)))
            text += line + "\n" + Symmetric(line, memory, share);
        Write(file, text);
    }

    // Opens "first" to measure, and "again" to try policies.
    static stp_status Open(void *user, unsigned, const char *plugin,
                           stp_device *device, stp_error *err)
    {
        const auto *test = static_cast<const TuneMemory *>(user);

        return OpenMockDevice(test->Path(plugin == nullptr ? "first" : "again"),
                              1, device, err, plugin);
    }

    // Tunes all-reduces, or others, from 2 to 16 MiB.
    void Tune(stp_tune_result *result, int coll = ncclFuncAllReduce)
    {
        stp_tune_host host{};
        stp_tune_plan plan{};
        stp_tune_files files;
        stp_error err{};

        host.open = Open;
        host.progress = [](void *, stp_tune_stage, size_t, size_t) {
            return true;
        };
        host.goes_on = [](void *) { return true; };
        host.tell = [](void *, const char *) {};
        host.user = this;
        plan.measure.colls[0] = coll;
        plan.measure.n_colls = 1;
        plan.measure.begin = 2 * MiB;
        plan.measure.end = 16 * MiB;
        plan.measure.factor = 2;
        plan.measure.types[0] = STP_TYPE_BF16;
        plan.measure.n_types = 1;
        plan.resolution = 2;
        plan.min_gain = 0.02;
        plan.plugin = STP_PLUGIN;
        ASSERT_TRUE(stp_tune_name_files(Path("t.conf").c_str(), &files));
        ASSERT_EQ(STP_OK, stp_tune_run(&plan, &host, &files, result, &err))
            << err.text;
    }

    // "2097152-4194304 sym overlapped" of each rule.
    static std::vector<std::string> Rules(const stp_tune_result &result)
    {
        std::vector<std::string> rules;

        for (size_t i = 0; i < result.memory.table.n_rules; i++) {
            const stp_rule &rule = result.memory.table.rules[i].rule;
            rules.push_back(std::to_string(rule.bytes.min) + "-" +
                            std::to_string(rule.bytes.max) + " " +
                            stp_memory_name(rule.memory) +
                            (rule.overlap == 1 ? " overlapped" : " alone"));
        }
        return rules;
    }
};

TEST_F(TuneMemory, KeepsWhatHoldsInIterations)
{
    Result result;
    MakeMachine("first", [](uint64_t) { return 0.7; });
    MakeMachine("again", [](uint64_t) { return 0.7; });

    Tune(&result);

    EXPECT_THAT(Rules(result), ElementsAre("2097152-16777216 sym alone",
                                           "2097152-16777216 sym overlapped"));
    EXPECT_EQ(0u, result.memory.table.n_drops);
    EXPECT_GT(result.overlap_registered.n_rows, 0u);
    EXPECT_THAT(Read("t.conf.memory"), Not(HasSubstr("Dropped")));
}

TEST_F(TuneMemory, DropsWhatDoesNotHoldAndSaysWhy)
{
    Result result;
    MakeMachine("first", [](uint64_t) { return 0.7; });
    MakeMachine("again",
                [](uint64_t bytes) { return bytes > 4 * MiB ? 1.1 : 0.7; });

    Tune(&result);

    EXPECT_THAT(Rules(result), ElementsAre("2097152-16777216 sym alone",
                                           "2097152-4194304 sym overlapped"));
    EXPECT_EQ(2u, result.memory.table.n_drops);
    for (const char *file : {"t.conf.memory", "t.report.txt"})
        for (const char *bytes : {"8388608", "16777216"})
            EXPECT_THAT(Read(file),
                        ContainsRegex(std::string("Dropped: sym for allreduce "
                                                  "of ") +
                                      bytes +
                                      " bytes on 2 ranks overlapped with "
                                      "compute, gain 1.[1-9][0-9]+ at first; "
                                      "measured again it was slower than plain "
                                      "buffers in some workload\n"))
                << file;
}

// The policy makes plain buffers 1.12x as fast at 2 MiB, but 1.03x at 4 MiB.
TEST_F(TuneMemory, DropsWhatThePolicyIsAsFastAs)
{
    STP_SLOW();
    Result result;
    MakeMachine("first", [](uint64_t) { return 0.7; });
    MakeMachine("again",
                [](uint64_t bytes) { return bytes < 4 * MiB ? 0.94 : 0.7; });

    Tune(&result);

    EXPECT_THAT(Rules(result), ElementsAre("2097152-16777216 sym alone",
                                           "4194304-16777216 sym overlapped"));
    EXPECT_THAT(Read("t.conf.memory"),
                ContainsRegex("\n# Dropped: sym for allreduce of 2097152 bytes "
                              "on 2 ranks overlapped with compute, gain 1.[1-9]"
                              "[0-9]+ at first; measured again it was 1.0"
                              "[0-9]+, and the policy's 1.12[0-9]\n"));
    EXPECT_EQ(1u, result.memory.table.n_drops);
}

TEST_F(TuneMemory, MeasuresNothingAgainWhereNothingWasFaster)
{
    STP_SLOW();
    Result result;
    MakeMachine("first", [](uint64_t) { return 1; });
    MakeMachine("again", [](uint64_t) { return 0.7; });

    Tune(&result);

    EXPECT_THAT(Rules(result), ElementsAre("2097152-16777216 sym alone"));
    EXPECT_EQ(0u, result.overlap_registered.n_rows);
}

// Staged buffers take half the time back to back, and less or more in
// iterations, of which those that wait for collectives are captured.
TEST_F(TuneMemory, StagesInGraphsWhereCapturedIterationsGain)
{
    for (const double share : {0.5, 1.1}) {
        SCOPED_TRACE(share);
        Result result;
        std::vector<uint64_t> iterated;
        std::vector<std::pair<uint64_t, int>> ruled;
        for (const char *name : {"first", "again"}) {
            std::filesystem::remove_all(dir_ / name);
            MakeMachine(
                name, [share](uint64_t) { return share; }, "stage");
        }
        captured_factor = is_live = true;

        Tune(&result);

        captured_factor = is_live = false;
        for (size_t i = 0; i < result.captured.n_rows; i++) {
            const stp_measurement &row = result.captured.rows[i];
            EXPECT_TRUE(row.graph);
            if (row.work.mode == STP_MODE_SEQUENTIAL && row.round == 0 &&
                row.arm.kind == STP_ARM_SETUP)
                iterated.push_back(row.n_bytes / MiB);
        }
        for (size_t i = 0; i < result.stage.table.n_rules; i++)
            if (result.stage.table.rules[i].rule.graph == 1)
                ruled.emplace_back(result.stage.table.rules[i].rule.bytes.min,
                                   result.stage.table.rules[i].rule.overlap);
        EXPECT_THAT(iterated, ElementsAre(2, 4, 8, 16));
        // Iterations in which compute goes on are slower: where none does.
        EXPECT_THAT(ruled,
                    ElementsAre(testing::Pair(2 * MiB, share < 1 ? -1 : 0)));
    }
}

class TuneSteps : public TuneMemory
{
  protected:
    // h200x2 on which ring/ll128 takes so many times as long in sequential
    // iterations up to 'last' bytes, and at this size alone.
    void MakeMachineOfSteps(double factor, uint64_t last = UINT64_MAX,
                            double alone = 1) const
    {
        std::filesystem::copy(STP_FIXTURES "/machines/h200x2", dir_ / "first");
        for (const char *file : {"first/overlap.csv", "first/timings.csv"}) {
            std::string text;
            for (const std::string &line : SplitLines(Read(file))) {
                std::vector<std::string> fields = plain_machine::Fields(line);
                double times = 1;
                if (fields.size() > 12 && fields[3] == "ll128" &&
                    fields[2] == "ring")
                    times = fields.back() == "sequential"
                                ? (std::stoull(fields[1]) <= last ? factor : 1)
                            : std::stoull(fields[1]) == last ? alone
                                                             : 1;
                for (size_t i = 9; i < 13 && times != 1; i++)
                    fields[i] = std::to_string(std::stod(fields[i]) * times);
                for (size_t i = 0; i < fields.size(); i++)
                    text += (i == 0 ? "" : ",") + fields[i];
                text += "\n";
            }
            Write(file, text);
        }
        std::filesystem::copy(dir_ / "first", dir_ / "again");
    }

    // "2097152 to 8833068 ring/ll128" of each rule for collectives alone.
    static std::vector<std::string> RulesAlone(const stp_tune_result &result)
    {
        std::vector<std::string> rules;

        for (size_t i = 0; i < result.alone.derived.n_rules; i++) {
            const stp_derived_rule &rule = result.alone.derived.rules[i];
            char name[STP_ARM_NAME];
            stp_arm_name(&rule.arm, name);
            rules.push_back(std::to_string(rule.min_bytes) + " to " +
                            std::to_string(rule.max_bytes) + " " + name);
        }
        return rules;
    }
};

TEST_F(TuneSteps, AreShorterWithEachRule)
{
    Result result;
    MakeMachineOfSteps(1);

    Tune(&result);

    EXPECT_THAT(RulesAlone(result),
                ElementsAre("2097152 to 8498543 ring/ll128"));
    EXPECT_EQ(3u, result.alone.step_verdicts.n_points);
    EXPECT_EQ(0u, result.alone.n_dropped);
    EXPECT_THAT(Read("t.report.txt"),
                ContainsRegex("\nsequential allreduce x 1, ratio 1 +4194304 "
                              "[^\n]*ring/ll128/24 +faster"));
}

// A rule makes steps shorter that are launched, or that are captured in a CUDA
// graph, and longer the other way.
TEST_F(TuneSteps, DropARuleThatHoldsInOneWayOfLaunching)
{
    STP_SLOW();
    const struct {
        const char *name;
        double launched, captured; // times of the policy
        size_t n_rules, n_overlapped;
    } cases[] = {{"holds", 1, 1, 1, 2},
                 {"loses_captured", 1, 1.2, 0, 0},
                 {"loses_launched", 1.2, 0.7, 0, 2}};

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        Result result;
        std::filesystem::remove_all(dir_ / "first");
        std::filesystem::remove_all(dir_ / "again");
        MakeMachineOfSteps(c.launched);
        captured_factor = c.captured;
        is_live = true; // a recording has graphs of sequential iterations alone

        Tune(&result);

        is_live = false;
        EXPECT_THAT(RulesAlone(result), SizeIs(c.n_rules));
        EXPECT_EQ(c.n_overlapped, result.overlap.derived.n_rules);
        EXPECT_EQ(1 - c.n_rules, result.alone.n_dropped);
        for (const stp_dataset *data :
             {&result.alone.steps, &result.overlap.tried})
            EXPECT_EQ(data->n_rows > 0,
                      std::any_of(data->rows, data->rows + data->n_rows,
                                  [](const auto &row) { return row.graph; }));
        EXPECT_THAT(Read("t.conf"), HasSubstr("captured in a CUDA graph"));
    }
    captured_factor = 0;
}

// Up to 2 MiB NCCL runs ring/ll, then ring/simple, over which the rule gains.
TEST_F(TuneSteps, SayNothingOfSizesAtWhichNcclChoosesOtherwise)
{
    Result result;
    MakeMachineOfSteps(1.2, 2 * MiB, 0.95);

    Tune(&result, ncclFuncAllGather);

    EXPECT_THAT(RulesAlone(result),
                ElementsAre("2568448 to 16777216 ring/ll128"));
}

TEST_F(TuneSteps, DropARuleThatOnlyCollectivesBackToBackGainBy)
{
    STP_SLOW();
    Result result;
    MakeMachineOfSteps(1.04);

    Tune(&result);

    EXPECT_THAT(RulesAlone(result),
                ElementsAre("2097152 to 2097152 ring/ll128"))
        << "there a step is 7 percent shorter without the factor";
    EXPECT_THAT(Read("t.report.txt"),
                HasSubstr("\n1 of these rules was trimmed: at a size just "
                          "outside of the range that is left\nAUTO was faster, "
                          "or a step in which compute waits no shorter.\n"));
}

} // namespace
