// published FOLDER - compares the times of modelled machines with those that
// others published, and fits calibrations to them. See ci/by_hand/published.
//
// FOLDER has files as ai-dynamo/aiconfigurator has them, of nccl-tests: the
// columns version, device, op_name, nccl_dtype, num_gpus, message_size (in
// elements) and latency (ms).
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include "support/mock_times.h"

extern "C" {
#include "machine/machine.h"
#include "model/cost_model.h"
}

using namespace mock_test;

namespace
{

constexpr const char *kOps[] = {"broadcast", "reduce", "all_gather",
                                "reduce_scatter", "all_reduce"};
constexpr const char *kSource = "NVIDIA's nccl-tests (aiconfigurator 095f58a)";

// The machine that has the GPU's search graphs.
struct Gpu {
    const char *device;
    const char *machine;
};
const Gpu kGpus[] = {{"NVIDIA A100-SXM4-80GB", "a100x8"},
                     {"NVIDIA H100 80GB HBM3", "h100x8"},
                     {"NVIDIA H200", "h100x8"},
                     {"NVIDIA B200", "b200x8"}};

// A published time, that of the machine as it is, and the model's. A calibrated
// one is the product of the terms with the four columns of calibration.csv.
using Terms = std::array<double, 4>;
struct Cell {
    std::string gpu, version;
    int n_ranks, coll, algo, proto;
    double published_us, us, model_us;
    Terms terms;
};

// Adds the cells of one number of ranks.
void AddCells(const std::vector<Row> &rows, int n_ranks, const Machine &whole,
              std::vector<Cell> *cells)
{
    const std::string version = rows[0].at("version");
    const Nccl nccl = MakeNccl({.version = version.c_str()});
    const Machine machine = Resized(whole, n_ranks);
    const Machine plain = Resized(whole, n_ranks);
    const Comm comm = MakeComm(nccl, machine);
    for (auto &algos : plain->calibration)
        for (auto &protos : algos)
            for (auto &c : protos)
                c = {};

    for (const Row &row : rows) {
        const int coll = Find(kOps, row.at("op_name"));
        const bool half = row.at("nccl_dtype") == "half";
        if (coll < 0 || std::stoi(row.at("num_gpus")) != n_ranks)
            continue;
        mock_call call = Call(static_cast<ncclFunc_t>(coll),
                              std::stoull(row.at("message_size")) * (1 + half));
        mock_outcome chosen{};
        call.element_size = 1 + half;
        call.no_nvls = !half;
        EXPECT_EQ(ncclSuccess,
                  mock_comm_collective(comm.get(), &call, &chosen));
        const mock_run run = mock_outcome_run(&call, &chosen);
        const double model_us = Mean(plain, run).us;
        const double latency =
            machine->model.latency[coll][chosen.algo][chosen.proto];
        const double data = model_us - latency;
        cells->push_back(
            {row.at("device"), version, n_ranks, coll, chosen.algo,
             chosen.proto, 1000 * std::stod(row.at("latency")),
             Mean(machine, run).us, model_us,
             Terms{1,
                   latency - mock_default_constants
                                 .baseLatencies[chosen.algo][chosen.proto],
                   data, data * n_ranks / (n_ranks - 1)}});
    }
}

// The columns, none negative, of the least sum of squared relative errors, and
// of squared differences from 'prior', which count as .05 of a cell: each in
// turn, until none changes.
Terms Fit(const std::vector<const Cell *> &cells, const Terms &prior)
{
    constexpr Terms scale = {4, .7, .3, .3};
    double m[4][4] = {}, right[4], changed = 1;
    Terms x = prior;

    for (int i = 0; i < 4; i++) {
        m[i][i] = .05 / (scale[i] * scale[i]);
        right[i] = m[i][i] * prior[i];
        for (const Cell *c : cells) {
            const double weight = c->terms[i] / std::pow(c->published_us, 2);
            for (int j = 0; j < 4; j++)
                m[i][j] += weight * c->terms[j];
            right[i] += weight * c->published_us;
        }
    }
    while (changed > 1e-9) {
        changed = 0;
        for (int i = 0; i < 4; i++) {
            double rest = right[i] + m[i][i] * x[i];
            for (int j = 0; j < 4; j++)
                rest -= m[i][j] * x[j];
            rest = std::max(0., rest / m[i][i]);
            changed = std::max(changed, std::fabs(rest - x[i]));
            x[i] = rest;
        }
    }
    return x;
}

// The columns of a pair on a GPU: near those of the pair on all GPUs, and near
// those of all its collectives on this one; of a pair that nobody published, of
// the protocol with rings.
Terms FitPair(const std::vector<Cell> &cells, const std::string &gpu, int coll,
              int algo, int proto)
{
    auto fit = [&](bool this_gpu, bool this_coll, const Terms &prior) {
        std::vector<const Cell *> some;
        for (const Cell &c : cells)
            if (c.algo == algo && c.proto == proto &&
                (!this_gpu || c.gpu == gpu) && (!this_coll || c.coll == coll))
                some.push_back(&c);
        return some.empty() ? prior : Fit(some, prior);
    };
    const Terms everywhere = fit(false, false, {7, 1, 1, 0});
    const bool is_known =
        std::any_of(cells.begin(), cells.end(), [&](const Cell &c) {
            return c.algo == algo && c.proto == proto && c.gpu == gpu;
        });

    return fit(is_known, true, fit(is_known, false, everywhere));
}

double Calibrated(const Cell &c, const Terms &x)
{
    double us = 0;
    for (int i = 0; i < 4; i++)
        us += x[i] * c.terms[i];
    return us;
}

// ---- what is printed ----

using Select = std::function<bool(const Cell &)>;

void PrintErrors(const std::vector<Cell> &cells, const Select &select,
                 const std::function<double(const Cell &)> &us)
{
    std::vector<double> errors;
    double sum = 0;
    for (const Cell &c : cells)
        if (select(c))
            errors.push_back(std::fabs(std::log(us(c) / c.published_us)));
    if (errors.empty())
        return;
    std::sort(errors.begin(), errors.end());
    for (double e : errors)
        sum += e;
    std::printf("  %6.3f %6.3f", std::exp(sum / errors.size()),
                std::exp(errors[static_cast<size_t>(.95 * errors.size())]));
}

// The errors of NCCL's model, of the machine as it is, and after a fit to times
// of other machines or numbers of ranks.
void PrintRow(const std::string &what, const std::vector<Cell> &cells,
              const std::vector<double> &unseen, const Select &select)
{
    std::printf("%-42s", what.c_str());
    PrintErrors(cells, select, [](const Cell &c) { return c.model_us; });
    PrintErrors(cells, select, [](const Cell &c) { return c.us; });
    PrintErrors(cells, select,
                [&](const Cell &c) { return unseen[&c - cells.data()]; });
    std::puts("");
}

void PrintExam(const std::vector<Cell> &cells)
{
    std::vector<double> unseen;
    std::set<std::pair<std::string, std::string>> tables;
    std::vector<Cell> others;

    for (const Cell &c : cells) {
        if (&c == cells.data() || c.gpu != (&c)[-1].gpu ||
            c.n_ranks != (&c)[-1].n_ranks) {
            others.clear();
            std::copy_if(cells.begin(), cells.end(), std::back_inserter(others),
                         [&](const Cell &o) {
                             return o.gpu != c.gpu || o.n_ranks != c.n_ranks;
                         });
        }
        unseen.push_back(
            Calibrated(c, FitPair(others, c.gpu, c.coll, c.algo, c.proto)));
        tables.insert({c.gpu, c.version});
    }
    std::printf("Factors between published and modelled times, geometric mean "
                "and p95:\n%-42s  %-13s  %-13s  %-13s\n",
                "", "NCCL's model", "as it is", "fitted to others");
    for (const auto &[gpu, version] : tables) {
        const Select of_table = [gpu = gpu, version = version](const Cell &c) {
            return c.gpu == gpu && c.version == version;
        };
        PrintRow(gpu + ", NCCL " + version, cells, unseen, of_table);
        for (int n : {2, 4, 8})
            for (int coll = ncclFuncAllGather; coll <= ncclFuncAllReduce;
                 coll++)
                PrintRow("  " + std::to_string(n) + " ranks, " + kColls[coll],
                         cells, unseen, [&](const Cell &c) {
                             return of_table(c) && c.n_ranks == n &&
                                    c.coll == coll;
                         });
    }
}

void PrintCalibration(const std::vector<Cell> &cells, const Gpu &gpu)
{
    const Machine machine = LoadMachine(gpu.machine);

    std::printf("\n%s/calibration.csv:\n# Fitted by ci/by_hand/published to "
                "times of %s of 2, 4 and 8 GPUs. Nobody published those of "
                "broadcasts, reduces and trees: the fit of all collectives, "
                "and of rings, stands for them. The times are in "
                "ai-dynamo/aiconfigurator at 095f58a (Apache-2.0).\n"
                "collective,algorithm,protocol,launch_us,latency,bandwidth,"
                "copy,source\n",
                gpu.machine, gpu.device);
    for (int coll = 0; coll < NCCL_NUM_TUNED_FUNCS; coll++)
        for (int algo : {NCCL_ALGO_TREE, NCCL_ALGO_RING, NCCL_ALGO_NVLS})
            for (int proto = 0; proto < NCCL_NUM_PROTOCOLS; proto++) {
                if (!mock_kernel_exists(coll, algo, proto) ||
                    (algo == NCCL_ALGO_NVLS &&
                     machine->info.n_nvls_channels == 0))
                    continue;
                const Terms x = FitPair(
                    cells, gpu.device, coll,
                    algo == NCCL_ALGO_TREE ? NCCL_ALGO_RING : algo, proto);
                std::printf("%s,%s,%s", kColls[coll], kAlgos[algo],
                            kProtos[proto]);
                for (double v : x)
                    v < .0005 ? std::printf(",") : std::printf(",%.3f", v);
                std::printf(",%s\n", kSource);
            }
}

} // namespace

int main(int argc, char **argv)
{
    std::vector<Cell> cells;
    std::vector<std::filesystem::path> paths;

    if (argc != 2) {
        std::fprintf(stderr, "published: expected a folder\n");
        return 2;
    }
    for (const auto &entry : std::filesystem::directory_iterator(argv[1]))
        if (entry.path().extension() == ".csv")
            paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    for (const auto &path : paths) {
        const std::vector<Row> rows = ReadCsv(path);
        for (const Gpu &gpu : kGpus)
            if (rows[0].at("device") == gpu.device) {
                const Machine machine = LoadMachine(gpu.machine);
                for (int n : {2, 4, 8})
                    AddCells(rows, n, machine, &cells);
            }
    }
    PrintExam(cells);
    for (const Gpu &gpu : kGpus)
        if (gpu.device == std::string(LoadMachine(gpu.machine)->info.gpu))
            PrintCalibration(cells, gpu);
    return testing::UnitTest::GetInstance()->Failed() ? 1 : 0;
}
