// Which GPU the driver's files say a host has.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/temporary_folder.h"

extern "C" {
#include "plugin/gpu.h"
}

namespace
{

namespace fs = std::filesystem;

struct HostCase {
    const char *name;
    std::vector<const char *> pages; // of its GPUs; NULL: without a page
    const char *want;
};

const HostCase kHosts[] = {
    {"no_gpu", {}, ""},
    {"one", {"Model: \t\t NVIDIA H200\nIRQ:   16\n"}, "NVIDIA H200"},
    {"model_is_not_the_first_line",
     {"IRQ: 1\r\nModel:  NVIDIA A100-SXM4-80GB\r\n"},
     "NVIDIA A100-SXM4-80GB"},
    {"two_alike",
     {"Model: NVIDIA H200\n", "Model: NVIDIA H200\n"},
     "NVIDIA H200"},
    {"two_kinds", {"Model: NVIDIA H200\n", "Model: NVIDIA L4\n"}, ""},
    {"one_without_a_page", {"Model: NVIDIA H200\n", nullptr}, ""},
    {"page_without_a_model", {"IRQ: 16\n"}, ""},
};

TEST(GpuModel, IsWhatAllGpusOfTheHostHave)
{
    for (const HostCase &c : kHosts) {
        SCOPED_TRACE(c.name);
        const TemporaryFolder folder;
        int n = 0;
        for (const char *page : c.pages) {
            fs::path gpu = folder.Path("0000:0" + std::to_string(n++));
            fs::create_directory(gpu);
            if (page != nullptr)
                std::ofstream(gpu / "information") << page;
        }
        char got[STP_GPU_SIZE] = "left over";

        stp_read_gpu(folder.path().c_str(), got);

        EXPECT_STREQ(c.want, got);
    }
}

TEST(GpuModel, IsUnknownWithoutADriver)
{
    char got[STP_GPU_SIZE] = "left over";

    stp_read_gpu("/no/such/folder", got);

    EXPECT_STREQ("", got);
}

} // namespace
