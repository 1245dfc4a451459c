// The time of a step, out of a job's trace or what it prints.
#include <gmock/gmock.h>

#include <random>
#include <vector>

extern "C" {
#include "analyse/jobs/steps.h"
}

namespace
{

using testing::HasSubstr;

// A trace as it is recorded.
class Recording
{
  public:
    explicit Recording(size_t n_comms = 1) : comms_(n_comms)
    {
    }

    // A collective that begins 'us' after the one before.
    void Add(double us, size_t n_bytes, size_t comm = 0,
             ncclFunc_t coll = ncclFuncAllReduce)
    {
        stp_trace_row row{};
        ns_ += static_cast<uint64_t>(us * 1e3);
        row.comm = comm;
        row.call.coll = coll;
        row.call.n_bytes = n_bytes;
        row.begin_ns = ns_;
        rows.push_back(row);
    }

    // A step of 'sizes', a collective of each every 'us', and 'tail_us'.
    void Step(const std::vector<size_t> &sizes, double us, double tail_us)
    {
        for (size_t n_bytes : sizes)
            Add(us, n_bytes);
        ns_ += static_cast<uint64_t>(tail_us * 1e3);
    }

    // 'n' of them.
    void Steps(int n, const std::vector<size_t> &sizes, double us,
               double tail_us)
    {
        for (int i = 0; i < n; i++)
            Step(sizes, us, tail_us);
    }

    // "TIME STEPS CALLS", or why there is none.
    std::string Measure()
    {
        stp_trace trace{};
        stp_job_step step{};
        stp_error err{};
        trace.rows = rows.data();
        trace.n_rows = rows.size();
        trace.comms = comms_.data();
        trace.n_comms = comms_.size();
        if (stp_job_step_traced(&trace, &step, &err) != STP_OK)
            return err.text;
        char text[80];
        snprintf(text, sizeof(text), "%.1f %zu %zu", step.time, step.n_steps,
                 step.n_calls);
        return text;
    }

    std::vector<stp_trace_row> rows;

  private:
    uint64_t ns_ = 1000000000000000000; // as GPUs count since 1970
    std::vector<stp_trace_comm> comms_;
};

const std::vector<size_t> kStep = {64, 128, 64, 256, 64};

TEST(JobSteps, AreASequenceThatRepeats)
{
    const struct {
        const char *name;
        void (*record)(Recording &);
        const char *want;
    } cases[] = {
        // clang-format off
        {"a sequence", [](Recording &r) { r.Steps(100, kStep, 100, 500); }, "1000.0 79 5"},
        {"calls that are all alike are steps", [](Recording &r) {
             r.Steps(6000, std::vector<size_t>(12, 2 << 20), 100, 0);
         }, "100.0 57599 1"},
        {"neither the first fifth nor what is no step", [](Recording &r) {
             for (int i = 0; i < 5; i++)
                 r.Add(1e5, 1 << 20, 0, ncclFuncBroadcast); // the model
             r.Steps(40, kStep, 300, 500);                  // until all is compiled
             for (int i = 0; i < 160; i++) {
                 if (i % 50 == 0) // a validation
                     for (int k = 0; k < 7; k++)
                         r.Add(1e4, 8);
                 r.Step(kStep, 100, 500);
             }
             for (int i = 0; i < 20; i++)
                 r.Add(1e5, 8); // the end
         }, "1000.0 152 5"},
        {"no phase of alike calls within them", [](Recording &r) {
             std::vector<size_t> sizes(200, 4096);
             sizes.push_back(8);
             r.Steps(60, sizes, 10, 990);
         }, "3000.0 47 201"},
        {"no pause", [](Recording &r) {
             for (int n : {50, 19}) {
                 r.Steps(n, kStep, 100, 500);
                 r.Step(kStep, 100, 1e6);
             }
             r.Steps(29, kStep, 100, 500);
         }, "1000.0 79 5"},
        {"the communicator that repeats most", [](Recording &r) {
             for (int i = 0; i < 100; i++) {
                 r.Add(10, 64, 0, ncclFuncAllGather);
                 for (int k = 0; k < 4; k++)
                     r.Add(20, size_t{1} << k, 1);
                 r.Add(10, 64, 2);
             }
         }, "100.0 79 4"},
        // clang-format on
    };

    for (const auto &c : cases) {
        Recording r(3);
        c.record(r);
        EXPECT_EQ(c.want, r.Measure()) << c.name;
    }
}

TEST(JobSteps, AreKnownWhereTimesWereLost)
{
    std::mt19937_64 random(5);
    Recording r;
    r.Steps(1000, kStep, 100, 500);
    for (stp_trace_row &row : r.rows)
        if (random() % 5 == 0)
            row.begin_ns = 0;

    EXPECT_THAT(r.Measure(), HasSubstr("1000.0 7"));
}

TEST(JobSteps, AreNotMadeUp)
{
    Recording random, untimed, few, changing;
    std::mt19937_64 numbers(3);
    for (int i = 0; i < 5000; i++)
        random.Add(10, numbers() % 1000);
    untimed.Steps(100, kStep, 100, 0);
    for (stp_trace_row &row : untimed.rows)
        row.begin_ns = 0;
    few.Steps(4, kStep, 100, 0);
    for (size_t i = 0; i < 600; i++)
        for (size_t k = 0; k < 10; k++)
            changing.Add(10, k == 3 ? 1000 + i : k);

    EXPECT_EQ("no sequence of at most 512 collectives repeats",
              random.Measure());
    EXPECT_EQ("fewer than 5 steps have times on the GPU", untimed.Measure());
    EXPECT_EQ("fewer than 5 steps have times on the GPU", few.Measure());
    EXPECT_EQ("no sequence of at most 512 collectives repeats",
              Recording().Measure());
}

TEST(JobSteps, ArePrintedByTheJob)
{
    const struct {
        std::vector<double> times;
        double time;
        size_t n_steps;
    } cases[] = {
        {{7}, 7, 1},
        {{100, 8, 8, 8, 8}, 8, 4},
        {{50, 40, 9, 1, 2, 3, 4, 5, 6, 7}, 4.625, 8},
        {{99, 99, 99, 99, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 77},
         2,
         16},
    };

    for (auto c : cases) {
        const stp_job_step step =
            stp_job_step_printed(c.times.data(), c.times.size());

        EXPECT_DOUBLE_EQ(c.time, step.time);
        EXPECT_EQ(c.n_steps, step.n_steps);
    }
}

} // namespace
