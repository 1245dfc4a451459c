// A page, and the files that it is made from.
#pragma once

#include <gmock/gmock.h>

#include <utility>

extern "C" {
#include "report/measurements/measurements_csv.h"
#include "report/page/page.h"
}

#include "support/in_folder.h"
#include "support/measured_data.h"
#include "support/written.h"

namespace page
{

namespace fs = std::filesystem;
using measured::Data;
using measured::kPlugin;
using measured::kReg;
using measured::kRingLl128;
using measured::kRingSimple;
using measured::kSym;
using measured::kTreeLl;

inline constexpr uint64_t kMiB = 1 << 20;

// A page of these files, by enum stp_page_source; the user named none.
inline stp_page_sources
Sources(const std::vector<std::pair<int, const std::string &>> &files,
        const char *title = nullptr)
{
    stp_page_sources sources{};
    for (const auto &[source, path] : files)
        sources.path[source] = path.c_str();
    sources.title = title;
    return sources;
}

class Page : public InFolder
{
  protected:
    std::string Save(const std::string &name, Data *d,
                     const char *gpu = "NVIDIA H200") const
    {
        std::snprintf(d->data.machine, sizeof(d->data.machine), "four");
        std::snprintf(d->data.gpu, sizeof(d->data.gpu), "%s", gpu);
        std::snprintf(d->data.nccl, sizeof(d->data.nccl), "2.28.9");
        for (size_t i = 0; i < d->data.n_rows; i++) {
            stp_measurement *m = &d->data.rows[i];
            m->us.mean = m->us.p95 = m->us.p99 = m->us.min = m->us.median;
            m->n_wrong = -1;
        }
        EXPECT_EQ(STP_OK, stp_measurements_save(&d->data, "test",
                                                Path(name).c_str(), nullptr));
        return Path(name);
    }

    // The page of these, or the error's text.
    std::string Make(const stp_page_sources &sources)
    {
        const std::string path = Path("page.html");
        stp_status status{};
        stp_error err;
        said_ = Written([&](FILE *fp) {
            status =
                stp_page_save(&sources, path.c_str(), false, fp, nullptr, &err);
        });
        if (status != STP_OK) {
            EXPECT_FALSE(fs::exists(path));
            return err.text;
        }
        const std::string page = Read(path);
        fs::remove(path);
        return page;
    }

    std::string said_;
};

// AUTO of 100 us; ring/ll128 as fast as 'gains' say, from 1 MiB by doubling.
inline void AddSweep(Data *d, const std::vector<double> &gains)
{
    uint64_t n_bytes = kMiB;
    for (double gain : gains) {
        d->AddAuto(n_bytes).AddGain(n_bytes, kRingLl128, gain);
        d->AddGain(n_bytes, kTreeLl, 0.5);
        n_bytes *= 2;
    }
}

// Makes the rows training steps.
inline void MakeSteps(Data *d)
{
    for (size_t i = 0; i < d->data.n_rows; i++) {
        d->data.rows[i].work.mode = STP_MODE_OVERLAP;
        d->data.rows[i].work.layers = 8;
        d->data.rows[i].work.ratio = 1;
    }
}

inline constexpr char kPolicy[] =
    "allreduce,2097152,4194304,ring,ll128,-1,1,4\n";

inline constexpr char kMemoryHeader[] =
    "collective,min_bytes,max_bytes,memory,nNodes,nRanks,overlap,gpu\n";

inline constexpr char kMemory[] =
    "collective,min_bytes,max_bytes,memory,nNodes,nRanks\n"
    "allreduce,1048576,4194304,sym,1,4\n";

inline constexpr char kStage[] =
    "collective,min_bytes,max_bytes,memory,min_ctas,nNodes,nRanks,graph\n"
    "allreduce,1048576,4194304,stage,32,1,4,0\n"
    "allreduce,1048576,4194304,stage,16,1,4,1\n";

} // namespace page
