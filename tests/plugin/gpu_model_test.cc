// Which GPU the driver's files say a host has.
#include <gtest/gtest.h>

#include "faults/open_files.h"
#include "support/temporary_folder.h"

extern "C" {
#include "plugin/gpu.h"
}

namespace
{

namespace fs = std::filesystem;

const struct {
    const char *name;
    std::vector<const char *> pages; // of its GPUs; NULL: without a page
    const char *want;
} kHosts[] = {
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
    {"three_of_which_the_first_has_none",
     {"IRQ: 16\n", "Model: NVIDIA H200\n", "Model: NVIDIA H200\n"},
     ""},
    {"key_within_a_line", {"The Model: X\nModel: Y\n"}, "Y"},
    {"first_of_two_models", {"Model: X\nModel: Y\n"}, "X"},
    {"no_line_end", {"Model: X"}, "X"},
    {"model_with_no_name", {"Model: \n"}, ""},
};

TEST(GpuModel, IsWhatAllGpusOfTheHostHave)
{
    for (const auto &c : kHosts) {
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
        const ptrdiff_t n_open = CountOpenFiles();

        stp_read_gpu(folder.path().c_str(), got);

        EXPECT_STREQ(c.want, got);
        EXPECT_EQ(n_open, CountOpenFiles());
    }
}

TEST(GpuModel, HasOneByteLessThanItsPlace)
{
    const TemporaryFolder folder;
    const std::string model(STP_GPU_SIZE - 1, 'x');
    char got[STP_GPU_SIZE];

    fs::create_directory(folder.Path("0"));
    for (const char *end : {"", "x", "yz"}) {
        std::ofstream(folder.Path("0/information")) << "Model: " + model + end;
        stp_read_gpu(folder.path().c_str(), got);
        EXPECT_EQ(model, got);
    }
}

TEST(GpuModel, IsNotOfFilesThatBeginWithADot)
{
    const TemporaryFolder folder;
    char got[STP_GPU_SIZE];

    for (const char *name : {"0", ".0"})
        fs::create_directory(folder.Path(name));
    std::ofstream(folder.Path("0/information")) << "Model: X\n";
    std::ofstream(folder.Path(".0/information")) << "Model: Y\n";

    stp_read_gpu(folder.path().c_str(), got);

    EXPECT_STREQ("X", got);
}

TEST(GpuModel, IsUnknownWithoutADriver)
{
    char got[STP_GPU_SIZE] = "left over";

    stp_read_gpu("/no/such/folder", got);

    EXPECT_STREQ("", got);
}

} // namespace
