// The doctor's findings on the GPUs that a driver lists.
#include <gmock/gmock.h>
#include <cstring>

#include "support/temporary_folder.h"

extern "C" {
#include "cli/doctor/doctor.h"
}

namespace
{

struct Gpu {
    const char *name;
    uint64_t memory;
    int compute_capability;
};

constexpr uint64_t kGib = 1u << 30;
constexpr Gpu kH200{"NVIDIA H200", 139 * kGib + kGib / 2, 90};
constexpr Gpu kV100{"Tesla V100", 32 * kGib, 70};
constexpr Gpu kA100{"NVIDIA A100", 80 * kGib, 80};

class DoctorGpus : public testing::Test
{
  protected:
    void SetUp() override
    {
        std::filesystem::create_directories(dir_ + "/proc/driver/nvidia");
    }

    static stp_doctor &Doctor()
    {
        static stp_doctor d;
        return d;
    }

    // The symptoms, a line each: "LEVEL WHAT".
    std::string Judge(const std::vector<Gpu> &gpus, unsigned n_nvlink,
                      unsigned n_pcie, unsigned n_none, int driver_cuda = 13000)
    {
        stp_doctor &d = Doctor();
        stp_survey s{};
        std::string all;

        d = {};
        d.root = dir_.c_str();
        s.n_gpus = static_cast<unsigned>(gpus.size());
        for (size_t i = 0; i < gpus.size(); i++) {
            strcpy(s.gpus[i].name, gpus[i].name);
            s.gpus[i].memory = gpus[i].memory;
            s.gpus[i].compute_capability = gpus[i].compute_capability;
        }
        s.n_nvlink = n_nvlink;
        s.n_pcie = n_pcie;
        s.n_none = n_none;
        s.driver_cuda = driver_cuda;
        s.built_cuda = 12080;
        stp_doctor_judge_gpus(&d, &s);
        for (size_t i = 0; i < d.diagnosis.n; i++)
            all += std::to_string(d.diagnosis.all[i].level) + " " +
                   d.diagnosis.all[i].what + "\n";
        return all;
    }

    TemporaryFolder folder_;
    const std::string &dir_ = folder_.path();
};

TEST_F(DoctorGpus, NamesThemAndWhatConnectsThem)
{
    const struct {
        std::vector<Gpu> gpus;
        unsigned n_nvlink, n_pcie, n_none;
        const char *expected;
    } cases[] = {
        {{kH200}, 0, 0, 0, "0 1 x NVIDIA H200 with 139.5 GiB; one GPU; bf16\n"},
        {{kH200, kH200},
         1,
         0,
         0,
         "0 2 x NVIDIA H200 with 139.5 GiB; NVLink between all of them; "
         "bf16\n"},
        {{kH200, kH200, kH200},
         1,
         2,
         0,
         "0 3 x NVIDIA H200 with 139.5 GiB; NVLink between some of them, PCIe "
         "between others; bf16\n"},
        {{kH200, kV100},
         0,
         1,
         0,
         "0 1 x NVIDIA H200 with 139.5 GiB, 1 x Tesla V100 with 32.0 GiB; PCIe "
         "between them; no bf16\n"},
        {{kV100, kV100, kH200},
         0,
         2,
         1,
         "0 2 x Tesla V100 with 32.0 GiB, 1 x NVIDIA H200 with 139.5 GiB; no "
         "direct path between some of them; no bf16\n"},
    };
    for (const auto &c : cases)
        EXPECT_EQ(c.expected, Judge(c.gpus, c.n_nvlink, c.n_pcie, c.n_none));
}

TEST_F(DoctorGpus, KnowsWhereNvlsAndLl128CannotBe)
{
    const struct {
        std::vector<Gpu> gpus;
        unsigned n_nvlink, n_pcie;
        bool no_nvls, no_ll128;
    } cases[] = {
        {{kH200}, 0, 0, false, false},
        {{kH200, kH200}, 1, 0, false, false},
        {{kH200, kH200}, 0, 1, true, true},
        {{kH200, kH200, kH200}, 1, 2, false, true},
        {{kA100, kA100}, 1, 0, true, false},
        {{kA100, kV100}, 1, 0, true, true}, // of unlike capabilities
    };
    for (const auto &c : cases) {
        const std::string all = Judge(c.gpus, c.n_nvlink, c.n_pcie, 0);

        EXPECT_EQ(c.no_nvls, Doctor().has_no_nvls) << all;
        EXPECT_EQ(c.no_ll128, Doctor().has_no_ll128) << all;
    }
}

TEST_F(DoctorGpus, ComparesTheDriverWithOurCuda)
{
    const struct {
        int driver_cuda;
        const char *expected;
    } cases[] = {
        {13000, "0 driver 580.65.06 runs CUDA up to 13.0; Steptune was built "
                "with 12.8\n"},
        // of the same major version
        {12020, "0 driver 580.65.06 runs CUDA up to 12.2; Steptune was built "
                "with 12.8\n"},
        {11080, "2 driver 580.65.06 runs CUDA up to 11.8; Steptune was built "
                "with 12.8\n"},
    };
    std::ofstream(dir_ + "/proc/driver/nvidia/version")
        << "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06 "
           " Release Build  (dvs-builder@U22)\nGCC version:  gcc version "
           "12.3.0\n";
    for (const auto &c : cases) {
        const std::string all = Judge({kH200}, 0, 0, 0, c.driver_cuda);

        EXPECT_EQ(c.expected, all.substr(all.find('\n') + 1));
    }
}

} // namespace
