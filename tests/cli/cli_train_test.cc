// steptune train on this machine's CPUs.
#include <cmath>

#include "support/cli_ranks.h"

namespace
{

using namespace cli;
using namespace testing;

const std::string kQuick =
    "train --on cpu --batch 64 --samples 128 --epochs 2 --warmup 1 ";

class TrainCommand : public CliRanks
{
  protected:
    std::vector<std::string> Results() const
    {
        return Files("results");
    }
};

TEST_F(TrainCommand, WritesWhatTheNotebookReads)
{
    Outcome o = Run(kQuick + "--gpus 2 --ga 2 --precision bf16 -o results");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, StartsWith("2 processes on "));
    EXPECT_THAT(o.out, HasSubstr("tiny, 52650 parameters, bucketed, bf16, 2 "
                                 "ranks, a step of 64 samples in 2 "
                                 "micro-batches"));
    EXPECT_THAT(o.out, ContainsRegex("samples/s, accuracy 0\\.[0-9]{4}"));
    ASSERT_THAT(Results(),
                ElementsAre("benchmark_results.json",
                            MatchesRegex("benchmark_results_[A-Za-z0-9_]+"
                                         "\\.json")));
    const Json all = Parse(Read(("results/" + Results()[1]).c_str()));
    ASSERT_EQ(1, cJSON_GetArraySize(all.get()));
    const cJSON *run = cJSON_GetArrayItem(all.get(), 0);
    EXPECT_EQ("bucketed", String(run, "mode"));
    EXPECT_EQ("tiny", String(run, "model_size"));
    EXPECT_TRUE(cJSON_IsTrue(cJSON_GetObjectItem(run, "use_amp")));
    EXPECT_TRUE(cJSON_IsString(cJSON_GetObjectItem(run, "gpu_name")));
    EXPECT_EQ(2, Number(run, "n_gpus"));
    EXPECT_EQ(52650, Number(run, "n_params"));
    EXPECT_EQ(2, Number(run, "grad_accum_steps"));
    for (const char *key :
         {"epoch_times", "losses", "comm_times", "exposed_comm_times"})
        EXPECT_EQ(2, cJSON_GetArraySize(cJSON_GetObjectItem(run, key))) << key;
    EXPECT_NEAR(Number(run, "total_time") / 2, Number(run, "avg_epoch_time"),
                1e-12);
    EXPECT_NEAR(256 / Number(run, "total_time"), Number(run, "throughput"),
                1e-3);
    const Json plain = Parse(Read("results/benchmark_results.json"));
    ASSERT_EQ(1, cJSON_GetArraySize(plain.get()));
    EXPECT_EQ("ddp_builtin",
              String(cJSON_GetArrayItem(plain.get(), 0), "mode"));
}

TEST_F(TrainCommand, LeavesTheNotebooksOwnFileAlone)
{
    const char *file = "results/benchmark_results.json";
    const std::string own = "[{\"mode\": \"single_gpu\", \"n_gpus\": 1}]";
    fs::create_directory(dir_ / "results");
    Write(file, own);

    EXPECT_EQ(0, Run(kQuick + "--gpus 1 -o results").status);

    EXPECT_EQ(own, Read(file));
    EXPECT_EQ(2u, Results().size());
}

TEST_F(TrainCommand, WritesFromOneOfTheRanksThatALauncherStarted)
{
    EXPECT_THAT(RunRanks(2, kQuick + "-o results"), Each(0))
        << Read("err0") << Read("err1");

    EXPECT_EQ("", Read("out1") + Read("err1"));
    EXPECT_THAT(Files("results"), SizeIs(2));
    const Json all = Parse(Read("results/" + Results()[1]));
    ASSERT_EQ(1, cJSON_GetArraySize(all.get()));
    EXPECT_EQ(2, Number(cJSON_GetArrayItem(all.get(), 0), "n_gpus"));
}

TEST_F(TrainCommand, HasTheSameLossesOnOneRankAndOnTwo)
{
    const auto losses = [this](const char *how) {
        Outcome o = Run(kQuick + "--json " + how);
        EXPECT_EQ(0, o.status) << o.err;
        const Json all = Parse(o.out);
        const cJSON *list =
            cJSON_GetObjectItem(cJSON_GetArrayItem(all.get(), 0), "losses");
        return cJSON_GetArrayItem(list, 1)->valuedouble;
    };

    const double want = losses("--gpus 1");

    EXPECT_NEAR(want, losses("--gpus 2 --mode sharded"), 1e-6 * want);
    EXPECT_NEAR(want, losses("--gpus 2 --mode naive --ga 4"), 1e-6 * want);
}

TEST_F(TrainCommand, HasTheLossesOfAStepInMicroBatches)
{
    const auto run = [this](const std::string &how) {
        Outcome o = Run("train --on cpu --samples 256 --epochs 2 --warmup 0 "
                        "--gpus 2 --mode interleaved --precision fp64 --json " +
                        how);
        EXPECT_EQ(0, o.status) << o.err;
        return Parse(o.out);
    };
    const Json whole = run("--batch 64");
    const Json micro = run("--micro-batch 16 --ga 4");
    const cJSON *want = cJSON_GetArrayItem(whole.get(), 0);
    const cJSON *got = cJSON_GetArrayItem(micro.get(), 0);

    EXPECT_EQ(64, Number(want, "batch_size"));
    EXPECT_EQ(64, Number(want, "micro_batch_size"));
    EXPECT_EQ(64, Number(got, "batch_size"));
    EXPECT_EQ(16, Number(got, "micro_batch_size"));
    EXPECT_EQ(4, Number(got, "grad_accum_steps"));
    for (int e = 0; e < 2; e++) {
        const double loss =
            cJSON_GetArrayItem(cJSON_GetObjectItem(want, "losses"), e)
                ->valuedouble;
        EXPECT_NEAR(loss,
                    cJSON_GetArrayItem(cJSON_GetObjectItem(got, "losses"), e)
                        ->valuedouble,
                    1e-12 * loss);
    }
}

TEST_F(TrainCommand, SaysOnceWhatFailedAndWritesNothing)
{
    const struct {
        const char *args;
        const char *text;
    } cases[] = {
        {"--gpus 3",
         "steptune train: tiny, 3 ranks, bucketed, fp32, ga 1: a batch "
         "of 64 for 3 ranks with 1 micro-batch each, expected a "
         "multiple of 3\n"},
        {"--gpus 2 --lr 1e30",
         "steptune train: tiny, 2 ranks, bucketed, fp32, ga 1: the loss is NaN "
         "at step 2 (epoch 1), expected a "
         "finite number: is the learning rate of 1e+30 too high for fp32?\n"},
    };

    for (const auto &c : cases) {
        Outcome o = Run(kQuick + c.args + " -o results");
        EXPECT_EQ(1, o.status);
        EXPECT_EQ(c.text, o.err);
        EXPECT_THAT(Results(), IsEmpty());
    }
}

/* ---- on a recorded machine ---- */

TEST_F(TrainCommand, TakesTheTimesOfARecordedMachine)
{
    Outcome o = Run("train --on h200x4 --samples 8192 --epochs 1 --profile -o "
                    "results");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, StartsWith("h200x4: 4 x NVIDIA H200, NCCL 2.28.9; "
                                  "collectives of a recorded machine"));
    EXPECT_THAT(o.out, HasSubstr("base, 64058378 parameters, bucketed, fp32, 4 "
                                 "ranks"));
    EXPECT_THAT(o.out, Not(HasSubstr("nan")));
    EXPECT_THAT(o.out,
                ContainsRegex("\ncommunication [0-9.]+ ms a step, [5-9][0-9] "
                              "% hidden behind compute\n"));
    EXPECT_THAT(Results(),
                UnorderedElementsAre("benchmark_results_NVIDIA_H200.json",
                                     "trace_rank0.json"));
    const Json all = Parse(Read("results/benchmark_results_NVIDIA_H200.json"));
    const cJSON *run = cJSON_GetArrayItem(all.get(), 0);
    EXPECT_TRUE(cJSON_IsNull(
        cJSON_GetArrayItem(cJSON_GetObjectItem(run, "losses"), 0)));
    EXPECT_TRUE(cJSON_IsNull(cJSON_GetObjectItem(run, "final_accuracy")));
    EXPECT_THAT(String(run, "made_by"), HasSubstr("recorded machine"));
    EXPECT_GT(Number(run, "traced_comm_ms"), 1);
    EXPECT_GT(Number(run, "hidden_share"), 0.5);
    EXPECT_LT(Number(run, "hidden_share"), 1);
}

TEST_F(TrainCommand, PrintsTheShareHiddenInEachMode)
{
    const struct {
        const char *args;
        const char *line;
    } cases[] = {
        {"--mode naive", "ms a step, 0 % hidden behind compute\n$"},
        {"--mode interleaved", "ms a step, [1-9][0-9] % hidden behind"},
        {"--mode sharded", "ms a step, 0 % hidden behind compute\n$"},
        {"--gpus 1", "\nno communication in a step\n$"},
        {"--gpus 2", "modelled times of collectives and compute"},
    };

    for (const auto &c : cases) {
        Outcome o = Run(std::string("train --on h200x4 --samples 4096 "
                                    "--epochs 1 --profile ") +
                        c.args);
        EXPECT_EQ(0, o.status) << o.err;
        EXPECT_THAT(o.out, ContainsRegex(c.line)) << c.args;
    }
    EXPECT_THAT(Files(), ElementsAre("trace_rank0.json"));
}

TEST_F(TrainCommand, HasATraceOfEachRankOnCpus)
{
    Outcome o = Run(kQuick + "--gpus 2 --mode naive --profile -o results");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("ms a step, 0 % hidden behind compute\n"));
    EXPECT_THAT(Results(),
                IsSupersetOf({"trace_rank0.json", "trace_rank1.json"}));
}

TEST_F(TrainCommand, SaysWhatNoRecordedMachineHas)
{
    const struct {
        const char *args;
        int status;
        const char *text;
    } cases[] = {
        {"--on nowhere", 77,
         "no recorded machine 'nowhere', expected a folder"},
        {"--on h200x4 --backend gloo", 1,
         "--backend gloo does not run on 'h200x4'"},
        {"--on h200x4 --gpus 3", 1, "a batch of 4096 for 3 ranks"},
        {"--on h200x4 --gpus 1 --size xlarge --batch 1000000 --samples 1000000",
         1, "no memory on each of 1 NVIDIA H200 for the outputs of a layer: "},
    };

    for (const auto &c : cases) {
        Outcome o = Run(std::string("train ") + c.args + " -o results");
        EXPECT_EQ(c.status, o.status) << c.args;
        EXPECT_THAT(o.err, HasSubstr(c.text));
        EXPECT_THAT(Results(), IsEmpty());
    }
}

const std::string kMatrix = "train --on cpu --batch 16 --samples 32 "
                            "--epochs 1 --warmup 0 --modes naive,single "
                            "-o results ";

// But for the last bits of numbers that were written and read again.
void ExpectTheSame(const cJSON *a, const cJSON *b)
{
    ASSERT_EQ(cJSON_GetArraySize(a), cJSON_GetArraySize(b));
    ASSERT_EQ(a->type, b->type);
    if (cJSON_IsNumber(a)) {
        EXPECT_NEAR(a->valuedouble, b->valuedouble,
                    1e-12 * std::abs(a->valuedouble))
            << (a->string != nullptr ? a->string : "");
        return;
    }
    if (a->child == nullptr) {
        EXPECT_TRUE(cJSON_Compare(a, b, true));
        return;
    }
    const cJSON *other = b->child;
    for (const cJSON *c = a->child; c != nullptr; c = c->next) {
        ExpectTheSame(c, other);
        other = other->next;
    }
}

TEST_F(TrainCommand, TrainsOnlyWhatIsNotThereYet)
{
    Outcome first = Run(kMatrix + "--gpus 1,2");
    ASSERT_EQ(0, first.status) << first.err;
    EXPECT_EQ("steptune train: skipped: naive on 1 rank, where all is single; "
              "single on 2 ranks\n",
              first.err);
    const std::string file = "results/" + Results().back();
    const std::string before = Read(file.c_str());

    Outcome more = Run(kMatrix + "--gpus 2 --ga 1,4");
    EXPECT_EQ(0, more.status) << more.err;
    EXPECT_THAT(more.err,
                HasSubstr("steptune train: 1 of 2 configurations were in "
                          "results already; --fresh trains them anew\n"));
    // a line each; the run on one GPU is in the file, and so are speed-ups
    EXPECT_THAT(more.out, ContainsRegex("tiny +52650 +2 +naive +fp32 +1 +16 "
                                        ".*%.*\n"
                                        "tiny +52650 +2 +naive +fp32 +4 +16 "
                                        ".* - +-"));
    EXPECT_THAT(more.out, Not(HasSubstr("single")));
    const Json all = Parse(Read(file.c_str()));
    ASSERT_EQ(3, cJSON_GetArraySize(all.get()));
    const Json old = Parse(before);
    for (int i = 0; i < 2; i++)
        ExpectTheSame(cJSON_GetArrayItem(old.get(), i),
                      cJSON_GetArrayItem(all.get(), i));

    Outcome again = Run(kMatrix + "--gpus 2 --fresh");
    EXPECT_EQ(0, again.status);
    const Json anew = Parse(Read(file.c_str()));
    EXPECT_EQ(1, cJSON_GetArraySize(anew.get()));
}

// It has read the folder when its trace is there, and waits for the lock.
TEST_F(TrainCommand, AddsToWhatOthersWroteMeanwhile)
{
    const std::string train =
        "train --on h200x2 --samples 4096 --epochs 1 --modes naive ";
    const std::string file = "/benchmark_results_NVIDIA_H200.json";
    ASSERT_EQ(0, Run(train + "--seed 1 -o other").status);
    fs::create_directory(dir_ / "results");
    pid_t child;
    {
        const HeldLock other(dir_ / ("results" + file + ".lock"),
                             "process 4711 (steptune train)");
        child = Start(train + "--seed 2 -o results --profile");
        WaitForFile("results/trace_rank0.json");
        fs::rename(dir_ / ("other" + file), dir_ / ("results" + file));
    }
    EXPECT_EQ(0, Wait(child)) << Read("err");

    const Json all = Parse(Read(("results" + file).c_str()));
    ASSERT_EQ(2, cJSON_GetArraySize(all.get()));
    EXPECT_EQ(1, Number(cJSON_GetArrayItem(all.get(), 0), "seed"));
    EXPECT_EQ(2, Number(cJSON_GetArrayItem(all.get(), 1), "seed"));
    EXPECT_EQ(2u, Results().size()) << "the lock is gone";
}

TEST_F(TrainCommand, GoesOnAfterWhatCannotBe)
{
    Outcome o = Run(kMatrix + "--gpus 3,2 --precision tf32,bf16 --json");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, HasSubstr("tiny, 3 ranks, naive, tf32, ga 1: a batch of "
                                 "16 for 3 ranks"));
    EXPECT_THAT(o.err, HasSubstr("tiny, 3 ranks, naive, bf16, ga 1: a batch of "
                                 "16 for 3 ranks"));
    EXPECT_THAT(o.err, HasSubstr("tiny, 2 ranks, naive, tf32, ga 1: no tf32"));
    const Json all = Parse(o.out);
    ASSERT_EQ(1, cJSON_GetArraySize(all.get()));
    EXPECT_EQ("bf16", String(cJSON_GetArrayItem(all.get(), 0), "precision"));
}

TEST_F(TrainCommand, LeavesAFileAloneThatItCannotRead)
{
    ASSERT_EQ(0, Run(kMatrix + "--gpus 1").status);
    const std::string name = Results().back();
    const std::string file = "results/" + name;
    const std::string whole = Read(file.c_str());
    const std::string half = whole.substr(0, whole.size() / 2);
    Write(file.c_str(), half);

    Outcome o = Run(kMatrix + "--gpus 1");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, StartsWith("steptune train: skipped"));
    EXPECT_THAT(o.err, HasSubstr("steptune train: " + name + ":"));
    EXPECT_THAT(o.err, HasSubstr("not JSON from here on"));
    EXPECT_THAT(o.err, HasSubstr("--fresh would train all anew"));
    EXPECT_EQ(half, Read(file.c_str()));
    EXPECT_EQ(2u, Results().size());
}

TEST_F(TrainCommand, KeepsWhatWasDoneBeforeASignal)
{
    const struct {
        int signal;
        bool to_all; // ranks get it twice
    } cases[] = {
        {SIGINT, true}, {SIGINT, false}, {SIGTERM, true}, {SIGTERM, false}};

    for (const auto &c : cases) {
        const pid_t child =
            Start(kMatrix + "--gpus 1,2 --fresh --repeat 10000");
        const auto is_json = [](const std::string &name) {
            return fs::path(name).extension() == ".json";
        };
        const auto saved = [&] {
            const std::vector<std::string> names = Results();
            return std::any_of(names.begin(), names.end(), is_json);
        };
        for (int i = 0; i < 3000 && !saved(); i++)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        kill(c.to_all ? -child : child, c.signal);
        EXPECT_EQ(1, Wait(child));
        EXPECT_THAT(Read("err"),
                    ContainsRegex("steptune train: stopped by a signal after "
                                  "[0-9]+ of 20000 configurations; the same "
                                  "command goes on from there\n$"));
        ASSERT_EQ(2u, Results().size());

        Outcome o = Run(kMatrix + "--gpus 1");
        EXPECT_EQ(0, o.status) << o.err;
        EXPECT_THAT(o.err, HasSubstr("1 of 1 configurations were in results"));
        fs::remove_all(dir_ / "results");
    }
}

// Whether a process has a handler for SIGTERM by now.
bool Listens(pid_t process)
{
    std::ifstream status("/proc/" + std::to_string(process) + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind("SigCgt:", 0) == 0)
            return std::stoull(line.substr(7), nullptr, 16) >> (SIGTERM - 1) &
                   1;
    return false;
}

TEST_F(TrainCommand, StopsBetweenTwoEpochs)
{
    const pid_t child = Start(kMatrix + "--gpus 1 --epochs 1000000");
    const auto listens = [&] {
        const std::vector<pid_t> ranks = ChildrenOf(child);
        return !ranks.empty() && Listens(ranks[0]);
    };
    for (int i = 0; i < 3000 && !listens(); i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));

    kill(child, SIGTERM);

    EXPECT_EQ(1, Wait(child));
    EXPECT_THAT(Read("err"), HasSubstr("stopped by a signal after 0 of 1"));
    EXPECT_THAT(Results(), IsEmpty());
}

TEST_F(TrainCommand, RefusesWordsItDoesNotKnow)
{
    ExpectRefusals(
        "train ",
        {
            {"--mode ddp", 2,
             "--modes 'ddp', expected all, or some of single, naive, "
             "interleaved, bucketed and sharded"},
            {"--size huge", 2,
             "--sizes 'huge', expected tiny, base, large or xlarge"},
            {"--precision fp8", 2,
             "--precision 'fp8', expected fp32, tf32, bf16, fp16 or fp64"},
            {"--backend nccl", 2, "--backend 'nccl', expected gloo"},
            {"--lr 0", 2, "--lr '0', expected a number above 0"},
            {"--bucket-mb -1", 2,
             "--bucket-mb '-1', expected a number above 0"},
            {"--ga 0", 2, "--ga '0', expected a number from 1 to 1000000"},
            {"--gpus 0", 2, "--gpus '0', expected a number from 1 to 4096"},
            {"--gpus 2,4097", 2,
             "--gpus '4097', expected a number from 1 to 4096"},
            {"--gpus 1,2,1", 2, "--gpus '1,2,1', expected 1 at most once"},
            {"--sizes tiny,", 2,
             "--sizes '', expected tiny, base, large or xlarge"},
            {"--on h200x4 --arms=sym", 2,
             "--arms is gone, expected `steptune iterate`, which compares arms "
             "and tuners in training iterations, or `steptune compare` in a "
             "job of yours"},
            {"--policy p.conf", 2, "--policy is gone, expected `steptune"},
            {"--rounds 3", 2, "--rounds is gone, expected no rounds: "},
            {"--fresh", 2, "--fresh has no effect without -o"},
            {"--batch 64 --micro-batch 16", 2,
             "--batch and --micro-batch, expected one of them: the samples of "
             "a step or of a micro-batch"},
            {"--on h200x4 --ga 32", 1,
             "a step of 32 micro-batches of 4096 samples, expected at most the "
             "65536 samples of an epoch"},
            {"--seed 9007199254740993", 2,
             "expected a number from 0 to "
             "9007199254740992"},
            {"more", 2, "'more', expected options only"},
        });
}

} // namespace
