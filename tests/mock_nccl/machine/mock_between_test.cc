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

// Errors in percent, of all sizes and from kLarge on: median and p95.
struct Errors {
    std::vector<double> list[2];

    void Add(size_t n_bytes, double us, double want)
    {
        for (int i = 0; i <= int{n_bytes >= kLarge}; i++)
            list[i].push_back(100 * std::fabs(us / want - 1));
    }
    std::vector<double> Quantiles()
    {
        std::vector<double> found;
        for (auto &l : list) {
            std::sort(l.begin(), l.end());
            for (double at : {.5, .95})
                found.push_back(l[static_cast<size_t>(at * l.size())]);
        }
        std::printf("median %5.2f p95 %5.2f, from 512 KiB on %5.2f and %5.2f, "
                    "of %zu\n",
                    found[0], found[1], found[2], found[3], list[0].size());
        return found;
    }
};

// A machine, NCCL on it, and the sizes that it has rounds of.
struct Choices {
    explicit Choices(const std::string &name) : machine(LoadMachine(name))
    {
    }

    mock_run At(int coll, size_t n_bytes) const
    {
        const mock_call call = Call(static_cast<ncclFunc_t>(coll), n_bytes);
        mock_outcome chosen{};
        EXPECT_EQ(ncclSuccess,
                  mock_comm_collective(comm.get(), &call, &chosen));
        return mock_outcome_run(&call, &chosen);
    }
    std::vector<size_t> Sizes(int coll) const
    {
        std::vector<size_t> sizes(64);
        sizes.resize(mock_machine_sizes(
            machine.get(), static_cast<ncclFunc_t>(coll), sizes.data(), 64));
        return sizes;
    }

    Machine machine;
    Nccl nccl = MakeNccl({});
    Comm comm = MakeComm(nccl, machine);
};

// The machine without the sizes between the first and the last of which every
// second one is left, from the second ('odd' false) or third on.
Machine LoadHalf(const std::string &name, const Choices &choices, bool odd)
{
    const std::string from = STP_FIXTURES "/machines/" + name + "/";
    Folder folder;
    std::stringstream lines(ReadFile(from + "timings.csv"));
    std::string text;

    for (std::string line; std::getline(lines, line);) {
        const size_t comma = line.find(',');
        const int coll = Find(kColls, line.substr(0, comma));
        bool is_held = false;
        if (line[0] != '#' && coll >= 0) {
            const size_t n_bytes = std::stoull(line.substr(comma + 1));
            const std::vector<size_t> sizes = choices.Sizes(coll);
            for (size_t i = odd ? 2 : 1; i + 1 < sizes.size(); i += 2)
                is_held |= sizes[i] == n_bytes;
        }
        if (!is_held)
            text += line + "\n";
    }
    for (const char *file : {"machine.csv", "graphs.xml"})
        folder.Write(file, ReadFile(from + file));
    folder.Write("timings.csv", text);
    return LoadFolder(folder.Path());
}

// Percent: the most that the median and p95 may be.
struct Bound {
    const char *machine;
    double most[4];
};

const Bound kBounds[] = {
    {"h100_shared", {2.0, 14.3, 1.8, 8.7}},
    {"h100x2", {1.7, 15.3, 1.4, 6.1}},
    {"h100x2_nccl2.30", {2.0, 12.6, 2.3, 12.5}},
    {"h200x2", {1.8, 10.5, 1.3, 10.3}},
    {"h200x2_staged", {1.1, 5.8, .9, 4.5}},
    {"h200x4", {.8, 4.4, .8, 4.4}},
    {"h200x4_full", {1.5, 7.4, 1.3, 7.4}},
};

class Between : public testing::TestWithParam<Bound>
{
};

TEST_P(Between, RecordedSizesTimesComeCloseToWhatWasRecorded)
{
    const Bound &bound = GetParam();
    const Choices choices(bound.machine);
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
    for (int i = 0; i < 4; i++)
        EXPECT_GE(bound.most[i], found[i]);
}

INSTANTIATE_TEST_SUITE_P(Machines, Between, testing::ValuesIn(kBounds),
                         [](const auto &bound) {
                             return std::regex_replace(bound.param.machine,
                                                       std::regex("[.]"), "_");
                         });

// Two machines of four H200s each, of two leases.
TEST(AnotherLease, IsWhatItIs)
{
    const Choices one("h200x4"), other("h200x4_full");
    Errors errors;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        for (size_t n_bytes : one.Sizes(c)) {
            const mock_run run = one.At(c, n_bytes);
            errors.Add(n_bytes, Mean(other.machine, run).us,
                       Mean(one.machine, run).us);
        }
    EXPECT_NEAR(5.2, errors.Quantiles()[0], .1);
    EXPECT_NEAR(23.0, errors.Quantiles()[1], .1);
}

} // namespace
