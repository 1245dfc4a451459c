// Results of training that nobody measured: plain arithmetic, for charts.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
#include "report/training/train_results.h"
}

namespace made_up
{

struct Setting {
    std::string mode;
    std::string size;
    std::string precision;
    unsigned n_gpus;
    unsigned ga = 1;
    std::string gpu = "Made-up GPU";
};

template <size_t N> void Put(char (&to)[N], const std::string &from)
{
    snprintf(to, N, "%s", from.c_str());
}

inline double *List(const std::vector<double> &values)
{
    double *list =
        static_cast<double *>(malloc(values.size() * sizeof(double)));
    std::copy(values.begin(), values.end(), list);
    return list;
}

// Runs of two epochs each unless said otherwise.
class Runs
{
  public:
    Runs() = default;
    ~Runs()
    {
        for (size_t i = 0; i < all.n; i++)
            for (double *list : {all.runs[i].epoch_s, all.runs[i].comm_s,
                                 all.runs[i].exposed_s, all.runs[i].losses})
                free(list);
        free(all.runs);
    }
    Runs(const Runs &) = delete;
    Runs &operator=(const Runs &) = delete;

    // Epochs of these seconds, a quarter of it communication, an eighth that
    // is waited for (none on one GPU).
    stp_train_run &Add(const Setting &s, const std::vector<double> &epoch_s)
    {
        return Add(s, epoch_s, s.n_gpus > 1 ? 0.25 : 0,
                   s.n_gpus > 1 ? 0.125 : 0);
    }

    stp_train_run &Add(const Setting &s, const std::vector<double> &epoch_s,
                       double comm, double exposed)
    {
        std::vector<double> comm_s, exposed_s, losses;
        for (double t : epoch_s) {
            comm_s.push_back(t * comm);
            exposed_s.push_back(t * exposed);
            losses.push_back(2.5 - 0.125 * (double)losses.size());
        }
        all.runs = static_cast<stp_train_run *>(
            realloc(all.runs, (all.n + 1) * sizeof(stp_train_run)));
        stp_train_run &r = all.runs[all.n++];
        memset(&r, 0, sizeof(r));
        Put(r.mode, s.mode);
        Put(r.size, s.size);
        Put(r.precision, s.precision);
        Put(r.gradients, "fp32");
        Put(r.gpu, s.gpu);
        Put(r.made_by, "made up: no machine ran this");
        r.n_gpus = s.n_gpus;
        r.ga = s.ga;
        r.batch = 4096;
        r.n_samples = 65536;
        r.rate = 0.01;
        r.seed = 42;
        r.bucket_bytes = s.mode == "bucketed" ? 26214400 : 0;
        r.n_params = s.size == "base"     ? 64000000
                     : s.size == "large"  ? 250000000
                     : s.size == "xlarge" ? 730000000
                                          : 100000;
        r.n_epochs = (unsigned)epoch_s.size();
        r.epoch_s = List(epoch_s);
        r.comm_s = List(comm_s);
        r.exposed_s = List(exposed_s);
        r.losses = List(losses);
        r.accuracy = 0.125;
        r.loss_scale = 1;
        return r;
    }

    stp_train_runs all{};
};

// A matrix of all settings.
inline void AddMatrix(Runs &runs, const std::string &gpu)
{
    for (const char *size : {"base", "large", "xlarge"})
        for (const char *precision : {"fp32", "bf16"})
            for (unsigned gpus : {1, 2, 4, 8})
                for (const char *mode :
                     {"single", "naive", "interleaved", "bucketed", "sharded"})
                    for (unsigned ga : {1, 4})
                        if ((strcmp(mode, "single") == 0) == (gpus == 1))
                            runs.Add({mode, size, precision, gpus, ga, gpu},
                                     {1. / gpus, 1.1 / gpus});
}

} // namespace made_up
