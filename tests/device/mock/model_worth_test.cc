// How good the cost model is on recorded machines: the figures that are printed
// wherever a modelled machine plays.
#include <algorithm>
#include <cmath>

#include "support/mock_folder.h"
#include "support/mock_times.h"

extern "C" {
#include "core/stats.h"
#include "device/source.h"
}

using namespace mock_test;

namespace
{

// The machines of which each rank has a GPU; the first has no overlap.csv.
const char *const kMachines[] = {"h100x2_nccl2.30", "h100x2", "h200x2",
                                 "h200x2_graphs",   "h200x4", "h200x4_graphs"};

// A recorded machine, and what is left of it without the files.
struct Pair {
    Pair(const std::string &name, std::vector<std::string> kept)
        : folder(STP_FIXTURES "/machines/" + name), recorded(LoadMachine(name)),
          modelled(nullptr)
    {
        kept.insert(kept.end(), {"machine.csv", "graphs.xml"});
        for (const auto &file : kept)
            std::ofstream(rest.Path(file)) << ReadFile(folder + "/" + file);
        modelled = LoadFolder(rest.path());
    }
    std::string folder;
    TemporaryFolder rest;
    Machine recorded, modelled;
};

// The arm of a row; that of NCCL's own choice is what the machine chooses.
mock_run RunOf(const Machine &machine, const Row &row)
{
    const int coll = Find(kColls, row.at("collective"));
    const size_t n_bytes = std::stoull(row.at("bytes"));
    if (row.at("algorithm") == "auto") {
        const mock_call call = Call(ncclFunc_t(coll), n_bytes);
        const mock_outcome out = OnMachine(machine, call);
        return {ncclFunc_t(coll), n_bytes, out.algo, out.proto, 0};
    }
    return {ncclFunc_t(coll), n_bytes, Find(kAlgos, row.at("algorithm")),
            Find(kProtos, row.at("protocol")), std::stoi(row.at("channels"))};
}

std::string ArmOf(const Row &row)
{
    return row.at("algorithm") + "/" + row.at("protocol") + "/" +
           row.at("channels");
}

using Times = std::map<std::string, std::map<std::string, std::vector<Row>>>;

// The interleaved rows of algorithms by place and arm.
Times RowsOf(const Pair &pair, const std::string &file,
             const std::vector<std::string> &place)
{
    Times rows;
    for (const Row &row : ReadCsv(pair.folder + "/" + file)) {
        std::string key;
        for (const auto &column : place)
            key += (row.count(column) ? row.at(column) : "") + " ";
        if (row.at("round") != "0" && (row.at("algorithm") == "auto" ||
                                       Find(kAlgos, row.at("algorithm")) >= 0))
            rows[key][ArmOf(row)].push_back(row);
    }
    return rows;
}

double MeanUs(const std::vector<Row> &rows)
{
    double sum = 0;
    for (const Row &row : rows)
        sum += std::stod(row.at("mean_us"));
    return sum / double(rows.size());
}

std::string Percent(double share)
{
    return std::to_string(std::lround(share * 100));
}

TEST(ModelWords, HaveTheFiguresOfRecordedMachines)
{
    double least = INFINITY, most = 0;           // median error of AUTO
    std::pair<int, int> worst{1, 1}, best{0, 1}; // of the best arms
    for (const char *name : kMachines) {
        const Pair pair(name, {});
        std::vector<double> errors;
        std::pair<int, int> right{0, 0};
        for (const auto &place :
             RowsOf(pair, "timings.csv", {"collective", "bytes"})) {
            std::string recorded_arm, modelled_arm;
            double recorded_us = INFINITY, modelled_us = INFINITY;
            for (const auto &arm : place.second) {
                const mock_run run = RunOf(pair.modelled, arm.second[0]);
                const double us = MeanUs(arm.second);
                const double model = Mean(pair.modelled, run).us;
                if (arm.second[0].at("algorithm") == "auto") {
                    errors.push_back(std::fabs(model / us - 1));
                    continue;
                }
                if (us < recorded_us)
                    recorded_arm = arm.first;
                if (model < modelled_us)
                    modelled_arm = arm.first;
                recorded_us = std::min(recorded_us, us);
                modelled_us = std::min(modelled_us, model);
            }
            right.first += recorded_arm == modelled_arm;
            right.second++;
        }
        stp_summary sum;
        stp_summarise(errors.data(), errors.size(), &sum);
        least = std::min(least, sum.median);
        most = std::max(most, sum.median);
        const auto share = [](std::pair<int, int> p) {
            return double(p.first) / p.second;
        };
        worst = share(right) < share(worst) ? right : worst;
        best = share(right) > share(best) ? right : best;
    }
    // gains of iterations whose sign is beyond doubt
    int n = 0, n_right = 0, n_faster = 0, n_found = 0;
    for (size_t m = 1; m < std::size(kMachines); m++) {
        const Pair pair(kMachines[m], {});
        for (const auto &place :
             RowsOf(pair, "overlap.csv",
                    {"collective", "bytes", "mode", "m", "n", "k"})) {
            const auto own = place.second.find("auto/auto/0");
            const Row &first = own->second[0];
            if (first.count("mode") && first.at("mode") != "overlap")
                continue;
            for (const auto &arm : place.second) {
                const size_t rounds =
                    std::min(arm.second.size(), own->second.size());
                std::vector<double> a, b;
                double us[2];
                for (size_t i = 0; i < rounds; i++) {
                    a.push_back(std::stod(own->second[i].at("mean_us")));
                    b.push_back(std::stod(arm.second[i].at("mean_us")));
                }
                const stp_gain gain =
                    stp_paired_gain(a.data(), b.data(), rounds);
                if ((gain.low <= 1 && gain.high >= 1) ||
                    arm.second[0].at("channels") != "0")
                    continue;
                for (int i = 0; i < 2; i++) {
                    const Row &row = i == 0 ? first : arm.second[0];
                    const mock_run run = RunOf(pair.recorded, row);
                    mock_overlap o;
                    ASSERT_EQ(ncclSuccess,
                              mock_machine_overlap(
                                  pair.modelled.get(), &run, MOCK_MODE_OVERLAP,
                                  std::stod(row.at("compute_us")), 0, .5, &o));
                    us[i] = mock_iteration_us(MOCK_MODE_OVERLAP, &o, 0,
                                              std::stoi(row.at("layers")));
                }
                n++;
                n_right += (us[0] > us[1]) == (gain.gain > 1);
                n_faster += gain.gain > 1;
                n_found += gain.gain > 1 && us[0] > us[1];
            }
        }
    }
    const auto of = [](int a, int b) {
        return std::to_string(a) + " of " + std::to_string(b);
    };
    EXPECT_EQ("A modelled machine shows what NCCL would choose, not what is "
              "fast: on recorded machines the model is off by " +
                  Percent(least) + " to " + Percent(most) +
                  " percent (median of AUTO), its best arm is the best in " +
                  of(worst.first, worst.second) + " to " +
                  of(best.first, best.second) +
                  " cases, and modelled overlap has the sign of a gain right "
                  "in " +
                  of(n_right, n) + ", but in " + std::to_string(n_found) +
                  " of the " + std::to_string(n_faster) + " that are faster",
              STP_MODEL_WORDS);
}

} // namespace
