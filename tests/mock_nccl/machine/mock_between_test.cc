// Times between recorded sizes: every second size of a recording is taken out,
// predicted by the others, and compared with what was recorded there, under
// NCCL's own choice.
#include <algorithm>
#include <cmath>
#include <regex>

#include "support/mock_folder.h"
#include "support/mock_times.h"

using namespace mock_test;

namespace
{

constexpr size_t kLarge = 512 << 10; // from here on no launch is seen

// Errors in percent, of all sizes, below kLarge and from there on: median and
// p95.
struct Errors {
    std::vector<double> list[3];

    void Add(size_t n_bytes, double us, double want)
    {
        for (int i : {0, n_bytes < kLarge ? 1 : 2})
            list[i].push_back(100 * std::fabs(us / want - 1));
    }
    std::vector<double> Quantiles()
    {
        std::vector<double> found;
        for (auto &l : list) {
            std::sort(l.begin(), l.end());
            for (double at : {.5, .95})
                found.push_back(
                    l.empty() ? 0 : l[static_cast<size_t>(at * l.size())]);
        }
        std::printf("median %5.2f p95 %5.2f, below 512 KiB %5.2f and %5.2f, "
                    "from there on %5.2f and %5.2f, of %zu\n",
                    found[0], found[1], found[2], found[3], found[4], found[5],
                    list[0].size());
        return found;
    }
};

// A machine, NCCL on it, and the sizes that it has rounds of, so launched.
struct Choices {
    explicit Choices(const std::string &name, bool graphs = false)
        : machine(LoadMachine(name)), graph(graphs)
    {
    }

    mock_run At(int coll, size_t n_bytes) const
    {
        const mock_call call = Call(static_cast<ncclFunc_t>(coll), n_bytes);
        mock_outcome chosen{};
        EXPECT_EQ(ncclSuccess,
                  mock_comm_collective(comm.get(), &call, &chosen));
        mock_run run = mock_outcome_run(&call, &chosen);
        run.graph = graph;
        return run;
    }
    std::vector<size_t> Sizes(int coll) const
    {
        std::vector<size_t> sizes(64);
        sizes.resize(mock_machine_sizes(machine.get(),
                                        static_cast<ncclFunc_t>(coll), graph,
                                        sizes.data(), 64));
        return sizes;
    }

    Machine machine;
    bool graph;
    Nccl nccl = MakeNccl({});
    Comm comm = MakeComm(nccl, machine);
};

// The machine without the sizes between the first and the last of which every
// second one is left, from the second ('odd' false) or third on.
Machine LoadHalf(const std::string &name, const Choices &choices, bool odd)
{
    const std::string from = STP_FIXTURES "/machines/" + name + "/";
    Folder folder;
    std::string text;

    for (Row &row : ReadCsv(from + "timings.csv")) {
        const size_t n_bytes = std::stoull(row["bytes"]);
        const std::vector<size_t> sizes =
            choices.Sizes(Find(kColls, row["collective"]));
        std::string names, values;
        bool is_held = false;
        if (row["graph"].empty())
            row["graph"] = "0";
        if (choices.graph == (row["graph"] == "1"))
            for (size_t i = odd ? 2 : 1; i + 1 < sizes.size(); i += 2)
                is_held |= sizes[i] == n_bytes;
        for (const auto &[column, value] : row) {
            names += (names.empty() ? "" : ",") + column;
            values += (values.empty() ? "" : ",") + value;
        }
        if (text.empty())
            text = names + "\n";
        if (!is_held)
            text += values + "\n";
    }
    for (const char *file : {"machine.csv", "graphs.xml"})
        folder.Write(file, ReadFile(from + file));
    folder.Write("timings.csv", text);
    return LoadFolder(folder.Path());
}

// Percent: the most that the median and p95 may be.
struct Bound {
    const char *machine;
    bool graph;
    double most[6];
};

const Bound kBounds[] = {
    {"h100_shared", false, {2.0, 14.3, 2.4, 14.3, 1.8, 8.7}},
    {"h100x2", false, {1.7, 15.3, 1.8, 18.1, 1.4, 6.1}},
    {"h100x2_nccl2.30", false, {2.0, 12.6, 2.0, 13.1, 2.3, 12.5}},
    {"h200x2", false, {1.8, 10.5, 1.9, 11.9, 1.3, 10.3}},
    {"h200x2_graphs", false, {1.4, 4.8, 1.5, 7.0, 1.0, 4.7}},
    {"h200x2_graphs", true, {.9, 4.7, .8, 4.3, 1.1, 5.3}},
    {"h200x4", false, {.8, 4.4, 0, 0, .8, 4.4}},
    {"h200x4_graphs", false, {1.2, 4.8, 1.2, 4.0, 1.2, 5.5}},
    {"h200x4_graphs", true, {1.3, 5.7, 1.0, 5.3, 1.4, 5.8}},
};

using Between = testing::TestWithParam<Bound>;

TEST_P(Between, RecordedSizesTimesComeCloseToWhatWasRecorded)
{
    const Bound &bound = GetParam();
    const Choices choices(bound.machine, bound.graph);
    Errors errors;

    for (bool odd : {false, true}) {
        const Machine half = LoadHalf(bound.machine, choices, odd);
        for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
            const std::vector<size_t> sizes = choices.Sizes(c);
            for (size_t i = odd ? 2 : 1; i + 1 < sizes.size(); i += 2) {
                const mock_run run = choices.At(c, sizes[i]);
                const double want = Mean(choices.machine, run).us;
                const mock_time got = Mean(half, run);
                EXPECT_EQ(MOCK_TIME_INTERPOLATED, got.source);
                errors.Add(sizes[i], got.us, want);
            }
        }
    }
    const std::vector<double> found = errors.Quantiles();
    for (int i = 0; i < 6; i++)
        EXPECT_GE(bound.most[i], found[i]);
}

INSTANTIATE_TEST_SUITE_P(Machines, Between, testing::ValuesIn(kBounds),
                         [](const auto &bound) {
                             return std::regex_replace(bound.param.machine,
                                                       std::regex("[.]"), "_") +
                                    (bound.param.graph ? "_graph" : "");
                         });

// Two machines of four H200s each, of two leases.
TEST(AnotherLease, IsWhatItIs)
{
    const Choices one("h200x4"), other("h200x4_graphs");
    Errors errors;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        for (size_t n_bytes : one.Sizes(c)) {
            const mock_run run = one.At(c, n_bytes);
            errors.Add(n_bytes, Mean(other.machine, run).us,
                       Mean(one.machine, run).us);
        }
    EXPECT_NEAR(2.7, errors.Quantiles()[0], .1);
    EXPECT_NEAR(11.8, errors.Quantiles()[1], .1);
}

} // namespace
