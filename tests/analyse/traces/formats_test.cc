// A job, written in each of the formats in which others record theirs, is read
// as one job; a file that is cut is read up to there.
#include <algorithm>
#include <cstdarg>
#include <random>

#include "analyse/traces/trace_words.h"
#include "support/temporary_folder.h"

namespace
{

using namespace testing;

struct Coll {
    int kind;         // of kNames
    uint64_t n_bytes; // as a tuner counts them
    int group;        // 0: all ranks, 1: pairs of neighbours
    int compute_us;   // before it
    int overlap_us;   // of compute that goes on while it runs
};

// Times are such that pieces of compute are told apart: a collective takes
// 100 us, and compute behind it waits unless it overlaps.
using Job = std::vector<std::vector<Coll>>; // by step

const int kRanks = 4, kUs = 100;

const struct {
    const char *csv, *torch, *flight, *inspector;
} kNames[] = {
    {"allreduce", "allreduce", "nccl:all_reduce", "AllReduce"},
    {"allgather", "_allgather_base", "nccl:_all_gather_base", "AllGather"},
    {"reducescatter", "_reduce_scatter_base", "nccl:_reduce_scatter_base",
     "ReduceScatter"},
    {"broadcast", "broadcast", "nccl:broadcast", "Broadcast"},
    {"reduce", "_reduce_oop", "nccl:_reduce_oop", "Reduce"},
};

int Size(const Coll &c)
{
    return c.group == 0 ? kRanks : 2;
}

// Elements of bf16 that a rank has before and after the collective.
uint64_t In(const Coll &c)
{
    return c.n_bytes / 2 / (c.kind == 1 ? Size(c) : 1);
}

uint64_t Out(const Coll &c)
{
    return c.n_bytes / 2 / (c.kind == 2 ? Size(c) : 1);
}

Job Random(std::mt19937 *random)
{
    auto upto = [&](int n) { return int((*random)() % unsigned(n)); };
    Job job(1 + upto(4));

    for (auto &step : job) {
        // a pair needs the world of which it is a part to come first
        step.push_back({0, 64, 0, 20 + upto(500), 0});
        for (int n = upto(5); n > 0; n--)
            step.push_back({upto(5), 32ULL << upto(20), upto(2), upto(3) * 200,
                            upto(2) * 50});
    }
    return job;
}

/* ---- formats ---- */

std::string Print(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

std::string Print(const char *format, ...)
{
    char text[640];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return text;
}

// Steps are numbered from 7.
std::string Csv(const Job &job)
{
    std::string text =
        "collective,bytes,comm,nRanks,create,ranks,us,stream,wait,step\n";
    int number = 7, made = 0, behind = 0;
    bool waits = false;
    auto compute = [&](int us) {
        if (us == 0)
            return;
        text += Print("compute,,,,,,%d,,%d,%d\n", us, waits, number);
        waits = false;
    };

    for (const auto &step : job) {
        for (const Coll &c : step) {
            const bool splits = c.group == 1 && (made & 2) == 0;
            compute(behind + c.compute_us);
            text +=
                Print("%s,%ju,group %d,%d,%s,,comm,%d,%d\n", kNames[c.kind].csv,
                      c.n_bytes, c.group, Size(c),
                      splits ? "split group 0,0+1/2+3" : ",", waits, number);
            made |= 1 << c.group;
            behind = c.overlap_us > 0 ? kUs + c.overlap_us : 0;
            waits = behind == 0;
        }
        compute(behind);
        behind = 0;
        number++;
    }
    return text;
}

std::string Execution(const Job &job)
{
    std::string text =
        R"({"schema": "1.1.0", "nodes": [
{"id": 1, "name": "## process_group:init ##", "ctrl_deps": 1, "inputs": {"values": ["[{\"pg_name\": \"0\", \"group_size\": 4}]"], "types": ["String"]}, "outputs": {}})";
    int id = 1;

    for (const auto &step : job) {
        for (const Coll &c : step)
            text += Print(
                R"(,
{"id": %d, "name": "record_param_comms", "ctrl_deps": 1, "inputs": {"values": [[[7, 8, 0, %ju, 2, "cuda:0"]], 3, ["%d", "x"], 0, "%s", [], [], 0, 1, %d], "types": ["GenericList[Tensor(c10::BFloat16)]"]}, "outputs": {}})",
                ++id, In(c), c.group, kNames[c.kind].torch, Size(c));
        text += Print(R"(,
{"id": %d, "name": "Optimizer.step#SGD", "ctrl_deps": 1})",
                      ++id);
    }
    return text + "]}\n";
}

std::string Event(const char *cat, const char *name, int ts, int dur,
                  const std::string &args)
{
    return Print(R"({"ph": "X", "cat": "%s", "name": "%s", "ts": %d.000, )"
                 R"("dur": %d, "args": {%s}})",
                 cat, name, ts, dur, args.c_str());
}

// Events in the order of time or, with 'random', in any; the host launches all
// kernels of a step before the first of them runs.
std::string Profiler(const Job &job, std::mt19937 *random)
{
    std::vector<std::string> events = {
        R"({"ph": "M", "name": "process_name"})"};
    int t = 100000, host = 1000, id = 0, number = 7;

    for (const auto &step : job) {
        const int begin = host++;
        auto kernel = [&](const char *name, int us, const std::string &args) {
            const std::string launch = Print(R"("correlation": %d)", ++id);
            if (us == 0)
                return;
            events.push_back(
                Event("cuda_runtime", "cudaLaunchKernel", host++, 1, launch));
            events.push_back(Event("kernel", name, t, us, launch + args));
        };
        for (const Coll &c : step) {
            const int behind = c.overlap_us > 0 ? kUs + c.overlap_us : 0;
            kernel("gemm", c.compute_us, "");
            t += c.compute_us;
            kernel("ncclDevKernel_X(ncclDevComm*)", kUs,
                   Print(R"(, "Collective name": "%s", "In msg nelems": %ju, )"
                         R"("Out msg nelems": %ju, "Group size": %d, )"
                         R"("dtype": "BFloat16", "Process Group Name": "%d", )"
                         R"("Process Group Ranks": "%s")",
                         kNames[c.kind].torch, In(c), Out(c), Size(c), c.group,
                         c.group == 0 ? "[0, 1, 2, 3]" : "[0, 1]"));
            kernel("gemm", behind, "");
            t += behind > 0 ? behind : kUs;
        }
        events.push_back(Event("user_annotation",
                               Print("ProfilerStep#%d", number++).c_str(),
                               begin, host++ - begin, ""));
    }
    if (random != nullptr)
        std::shuffle(events.begin(), events.end(), *random);
    std::string text = R"({"schemaVersion": 1,
"distributedInfo": {"backend": "nccl", "rank": 2, "world_size": 4},
"traceEvents": [)";
    for (size_t i = 0; i < events.size(); i++)
        text += (i == 0 ? "\n" : ",\n") + events[i];
    return text + "\n], \"traceName\": \"x\"}\n";
}

std::string Flight(const Job &job)
{
    std::string text = R"({"comm_lib_version": "2.28.9", "entries": [{})";

    for (const auto &step : job)
        for (const Coll &c : step)
            text += Print(
                R"(, {"process_group": ["%d", "x"], "profiling_name": "%s", )"
                R"("input_sizes": [[2, %ju]], "input_dtypes": ["BFloat16"], )"
                R"("output_sizes": [[%ju]], "output_dtypes": ["BFloat16"]})",
                c.group, kNames[c.kind].flight, In(c) / 2, Out(c));
    return text + R"(], "pg_config": {"0": {"name": "0", "ranks": )"
                  R"("[0, 1, 2, 3]"}, "1": {"name": "1", "ranks": "[0, 1]"}}})";
}

// Two ranks are in one process.
std::string Inspector(const Job &job)
{
    std::string text;

    for (const auto &step : job)
        for (const Coll &c : step)
            for (int rank : {1, 0})
                text += Print(
                    R"({"header": {"id": "%d", "rank": %d, "n_ranks": %d}, )"
                    R"("metadata": {"pid": 1}, "coll_perf": {"coll": "%s", )"
                    R"("coll_sn": 1, "coll_msg_size_bytes": %ju}})"
                    "\n",
                    c.group, rank, Size(c), kNames[c.kind].inspector,
                    2 * std::min(In(c), Out(c)));
    return text;
}

const struct {
    const char *name;
    std::string (*write)(const Job &job);
} kFormats[] = {
    {"steptune CSV", Csv},
    {"execution trace", Execution},
    {"profiler's trace", [](const Job &job) { return Profiler(job, nullptr); }},
    {"flight recorder", Flight},
    {"NCCL Inspector", Inspector},
};

// "allreduce:4096:bf16 on 4"
std::vector<std::string> Collectives(const stp_trace &trace)
{
    std::vector<std::string> words;

    for (size_t i = 0; i < trace.n_rows; i++) {
        const stp_trace_row &row = trace.rows[i];
        words.push_back(Print("%s:%ju:%s on %d",
                              stp_coll_name(int(row.call.coll)),
                              row.call.n_bytes, stp_type_name(row.type),
                              trace.comms[row.comm].n_ranks));
    }
    return words;
}

/* ---- what they read ---- */

TEST(Formats, OfOneJobGiveOneJob)
{
    std::mt19937 random(1);

    for (int i = 0; i < 40; i++) {
        const Job job = Random(&random);
        TraceUnderTest csv;

        ASSERT_EQ("", csv.Read(Csv(job)));
        for (const auto &format : kFormats) {
            const std::string text = format.write(job);
            TraceUnderTest trace;
            SCOPED_TRACE(text);

            ASSERT_EQ("", trace.Read(text));
            EXPECT_STREQ(format.name, trace.get().format);
            EXPECT_EQ(Collectives(csv.get()), Collectives(trace.get()));
            EXPECT_EQ(format.write == Flight, !trace.Skips().empty());
            EXPECT_EQ(0u, trace.get().cut_line);
        }
    }
}

TEST(Formats, OfTheProfilerKeepComputeOverlapAndSteps)
{
    std::mt19937 random(2);

    for (int i = 0; i < 40; i++) {
        const Job job = Random(&random);
        const std::string text = Profiler(job, &random);
        TraceUnderTest csv, trace;
        SCOPED_TRACE(Csv(job) + text);

        ASSERT_EQ("", csv.Read(Csv(job)));
        ASSERT_EQ("", trace.Read(text));
        EXPECT_EQ(csv.Rows(), trace.Rows());
    }
}

TEST(Formats, CutAnywhereAreReadUpToThereOrRefusedInASentence)
{
    std::mt19937 random(3);
    const Job job = Random(&random);

    for (const auto &format : kFormats) {
        const std::string text = format.write(job);
        TraceUnderTest whole;
        size_t n_read = 0;

        if (format.write == Csv) // has nothing that tells its end
            continue;
        ASSERT_EQ("", whole.Read(text));
        for (size_t n = 0; n + 2 < text.size(); n += 29) {
            TraceUnderTest cut;
            const std::string why = cut.Read(text.substr(0, n));
            const std::vector<std::string> rows = cut.Rows();
            SCOPED_TRACE(text.substr(0, n));

            ASSERT_EQ(why.empty(), cut.get().n_rows > 0);
            if (!why.empty())
                continue;
            n_read++;
            // between two lines a log of lines is whole
            ASSERT_TRUE(cut.get().cut_line > 0 || text[n] == '\n' ||
                        text[n - 1] == '\n');
            ASSERT_LE(cut.get().n_rows, whole.get().n_rows);
            for (size_t i = 0; i < cut.get().n_rows; i++)
                ASSERT_TRUE(cut.get().rows[i].call.coll ==
                                whole.get().rows[i].call.coll &&
                            cut.get().rows[i].call.n_bytes ==
                                whole.get().rows[i].call.n_bytes);
        }
        EXPECT_GT(n_read, text.size() / 120) << format.name;
    }
}

} // namespace
