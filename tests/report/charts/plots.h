// Curves made of CSV, for tests of what is plotted and said of them.
#pragma once

#include <gmock/gmock.h>

extern "C" {
#include "analyse/curves.h"
#include "report/measurements/measurements_csv.h"
}

#include "nccl_tuner_abi.h"
#include "support/written.h"

namespace plots
{

// The head of a file that was measured with 'backend'.
inline std::string Head(const std::string &machine, const std::string &gpu,
                        const std::string &nccl, const std::string &backend)
{
    return "# machine: " + machine + "\n# gpu: " + gpu + "\n# nccl: " + nccl +
           "\n# backend: " + backend +
           "\ncollective,bytes,round,algorithm,protocol,nNodes,nRanks,"
           "iters,median_us,p95_us,p99_us,min_us,type,in_place,wrong,source\n";
}

// A round of 60 iterations of AUTO or of an arm such as "ring,ll".
inline std::string Row(const std::string &coll, uint64_t n_bytes,
                       unsigned round, const std::string &arm, unsigned ranks,
                       double us, bool in_place = false)
{
    char row[256];

    snprintf(row, sizeof(row),
             "%s,%llu,%u,%s,1,%u,60,%g,%g,%g,%g,f32,%d,0,measured\n",
             coll.c_str(), (unsigned long long)n_bytes, round, arm.c_str(),
             ranks, us, us * 1.25, us * 1.5, us * 0.9, in_place);
    return row;
}

inline std::string Auto(uint64_t n_bytes, unsigned ranks, double us)
{
    return Row("allreduce", n_bytes, 0, "auto,auto", ranks, us);
}

// The curves of files with these texts, which are called "a.csv", "b.csv" and
// so on.
class Curves
{
  public:
    explicit Curves(const std::vector<std::string> &texts)
        : sets_(texts.size()), names_(texts.size())
    {
        static const char *const names[] = {"x/a.csv", "b.csv", "c.csv"};
        stp_error err{};

        for (size_t i = 0; i < texts.size(); i++) {
            EXPECT_EQ(STP_OK,
                      stp_measurements_read(texts[i].data(), texts[i].size(),
                                            &sets_[i], &err))
                << err.line << ": " << err.text;
            names_[i] = names[i];
        }
        all = stp_curves_make(sets_.data(), names_.data(), sets_.size());
    }
    ~Curves()
    {
        stp_curves_free(&all);
        for (stp_dataset &set : sets_)
            stp_dataset_free(&set);
    }
    Curves(const Curves &) = delete;
    Curves &operator=(const Curves &) = delete;

    stp_curves all{};

  private:
    std::vector<stp_dataset> sets_;
    std::vector<const char *> names_;
};

} // namespace plots
