// Files of NCCL's own constants: what they mean, and how bad ones are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

extern "C" {
#include "core/policy/constants.h"
}

namespace
{

namespace fs = std::filesystem;

constexpr char kHeader[] = "constant,row,column,value\n";

std::vector<fs::path> Fixtures(const char *folder)
{
    std::vector<fs::path> paths;

    for (const auto &file : fs::directory_iterator(
             std::string(STP_FIXTURES "/constants/") + folder))
        paths.push_back(file.path());
    std::sort(paths.begin(), paths.end());
    return paths;
}

std::string FirstLine(const fs::path &path)
{
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    return line;
}

stp_constants Parse(const std::string &text)
{
    stp_constants c{};
    stp_error err{};

    EXPECT_EQ(STP_OK, stp_constants_parse(text.data(), text.size(), &c, &err))
        << err.text;
    return c;
}

stp_constants Load(const std::string &name)
{
    stp_constants c{};
    stp_error err{};

    EXPECT_EQ(STP_OK,
              stp_constants_load(
                  (STP_FIXTURES "/constants/good/" + name).c_str(), &c, &err))
        << err.text;
    return c;
}

// The first line of each file is "# expect LINE:COLUMN: TEXT".
TEST(BadConstants, AreRefusedWithPlaceAndReason)
{
    int n_files = 0;

    for (const fs::path &path : Fixtures("bad")) {
        SCOPED_TRACE(path.filename().string());
        stp_constants c, untouched;
        stp_error err{};
        memset(&c, 0x5a, sizeof(c));
        memcpy(&untouched, &c, sizeof(c));

        EXPECT_EQ(STP_ERR_SYNTAX, stp_constants_load(path.c_str(), &c, &err));

        EXPECT_EQ(FirstLine(path), "# expect " + std::to_string(err.line) +
                                       ":" + std::to_string(err.column) + ": " +
                                       err.text);
        EXPECT_EQ(0, memcmp(&c, &untouched, sizeof(c)));
        n_files++;
    }
    EXPECT_GE(n_files, 19) << "fixtures are missing";
}

TEST(BadConstants, AFileThatIsNotThereIsAnErrorOfReading)
{
    stp_constants c;
    stp_error err{};

    EXPECT_EQ(STP_ERR_IO, stp_constants_load("/nonexistent/f", &c, &err));
}

// Comments say what a file means: "# set N", "# is NAME[ROW][COLUMN] VALUE" in
// the order of NCCL's struct.
TEST(GoodConstants, MeanWhatTheirCommentsSay)
{
    int n_files = 0;

    for (const fs::path &path : Fixtures("good")) {
        SCOPED_TRACE(path.filename().string());
        const stp_constants c = Load(path.filename());
        std::ostringstream expected, found;
        std::ifstream in(path);
        std::string line;

        while (std::getline(in, line)) {
            line.erase(std::remove(line.begin(), line.end(), '\r'), line.end());
            if (line.rfind("# set ", 0) == 0 || line.rfind("# is ", 0) == 0)
                expected << line << "\n";
        }
        found << "# set " << stp_constants_size(&c) << "\n";
        for (size_t i = 0; i < STP_N_CONSTANTS; i++) {
            const stp_constant_name name = stp_constant_words(i);
            if (c.is_set[i])
                found << "# is " << name.constant << "[" << name.row << "]["
                      << name.column << "] " << c.value[i] << "\n";
        }
        EXPECT_EQ(expected.str(), found.str());
        n_files++;
    }
    EXPECT_GE(n_files, 2);
}

TEST(GoodConstants, EditWhatTheyNameAndNothingElse)
{
    const stp_constants c = Load("all_matrices.csv");
    ncclTunerConstants_v7_t nccl, expected;
    double *numbers = reinterpret_cast<double *>(&nccl);
    for (size_t i = 0; i < STP_N_CONSTANTS; i++)
        numbers[i] = -1000.0 - static_cast<double>(i);
    expected = nccl;
    expected.baseLatencies[NCCL_ALGO_RING][NCCL_PROTO_LL128] = 12.5;
    expected.hwLatencies[NCCL_HW_NVLINK][NCCL_ALGO_TREE][NCCL_PROTO_LL] = 0;
    expected.hwLatencies[NCCL_HW_PCI][NCCL_ALGO_NVLS][NCCL_PROTO_SIMPLE] = 24;
    expected.hwLatencies[NCCL_HW_NET][NCCL_ALGO_PAT][NCCL_PROTO_SIMPLE] = 13.75;
    expected.llMaxBws[NCCL_HOPPER_COMPCAP_IDX][0] = 39;
    expected.perChMaxRingLL128Bws[NCCL_AMPERE_COMPCAP_IDX][1] = 20.5;
    expected.perChMaxTreeLL128Bws[NCCL_BLACKWELL_COMPCAP_IDX][2] = 2.5;
    expected.perChMaxTreeBws[NCCL_VOLTA_COMPCAP_IDX][0] = 1000;
    expected.perChMaxNVLSTreeBws[NCCL_HOPPER_COMPCAP_IDX][2] = 45.5;

    stp_constants_apply(&c, &nccl);

    for (size_t i = 0; i < STP_N_CONSTANTS; i++)
        EXPECT_EQ(reinterpret_cast<double *>(&expected)[i], numbers[i]) << i;
}

TEST(GoodConstants, EditEachConstantIntoItsOwnPlace)
{
    ncclTunerConstants_v7_t nccl{};
    const double *numbers = reinterpret_cast<double *>(&nccl);
    stp_constants c{};
    for (size_t i = 0; i < STP_N_CONSTANTS; i++) {
        c.is_set[i] = true;
        c.value[i] = 100.0 + static_cast<double>(i);
    }

    stp_constants_apply(&c, &nccl);

    EXPECT_EQ(size_t{STP_N_CONSTANTS}, stp_constants_size(&c));
    for (size_t i = 0; i < STP_N_CONSTANTS; i++)
        EXPECT_EQ(100.0 + static_cast<double>(i), numbers[i]) << i;
}

TEST(GoodConstants, LieWithinTheirRange)
{
    const struct {
        const char *constant, *value;
        bool is_good;
    } cases[] = {
        {"base_latency,tree,ll,", "0", true},
        {"base_latency,tree,ll,", "-1e-9", false},
        {"base_latency,tree,ll,", "0.5", true},
        {"base_latency,tree,ll,", "10000", true},
        {"base_latency,tree,ll,", "10000.001", false},
        {"ll_bandwidth,volta,1,", "1", true},
        {"ll_bandwidth,volta,1,", "0.999", false},
        {"ll_bandwidth,volta,1,", "100000", true},
        {"ll_bandwidth,volta,1,", "100000.01", false},
    };

    for (const auto &c : cases) {
        const std::string row = std::string(c.constant) + c.value;
        const std::string text = kHeader + row;
        stp_constants constants{};

        EXPECT_EQ(
            c.is_good ? STP_OK : STP_ERR_SYNTAX,
            stp_constants_parse(text.data(), text.size(), &constants, nullptr))
            << row;
    }
}

TEST(GoodConstants, EachHasItsOwnName)
{
    std::set<std::tuple<std::string, std::string, std::string>> names;

    for (size_t i = 0; i < STP_N_CONSTANTS; i++) {
        const stp_constant_name n = stp_constant_words(i);
        const std::string zero = kHeader + std::string(n.constant) + "," +
                                 n.row + "," + n.column + ",0";
        stp_constants c{};
        EXPECT_EQ(stp_constant_is_latency(i),
                  stp_constants_parse(zero.data(), zero.size(), &c, nullptr) ==
                      STP_OK)
            << zero;
        EXPECT_EQ(strstr(n.constant, "latency") != nullptr,
                  stp_constant_is_latency(i))
            << n.constant;
        names.emplace(n.constant, n.row, n.column);
    }
    EXPECT_EQ(size_t{STP_N_CONSTANTS}, names.size());
}

TEST(HashOfConstants, IsThatOfWhatTheySayNotOfHowTheyAreWritten)
{
    const struct {
        const char *rows;
        bool is_same;
    } cases[] = {
        {"base_latency,ring,ll,3\nbase_latency,tree,ll,0\n", true},
        {"base_latency,tree,ll,0.0\n# comment\nbase_latency,ring,ll,3e0\n",
         true},
        {"base_latency,ring,ll,3\nbase_latency,tree,ll,-0\n", true},
        {"base_latency,ring,ll,3\n", false},
        {"base_latency,ring,ll,0\nbase_latency,tree,ll,3\n", false},
        {"base_latency,ring,ll,3\nbase_latency,tree,ll,1e-300\n", false},
        {"base_latency,ring,ll,3\nbase_latency,tree,ll128,0\n", false},
        {"base_latency,ring,ll,3\nnvlink_latency,tree,ll,0\n", false},
    };
    const stp_constants first = Parse(std::string(kHeader) + cases[0].rows);

    for (const auto &c : cases) {
        const stp_constants other = Parse(std::string(kHeader) + c.rows);
        EXPECT_EQ(c.is_same,
                  stp_constants_hash(&first) == stp_constants_hash(&other))
            << c.rows;
    }
}

TEST(HashOfConstants, IsNeverZero)
{
    const stp_constants none{};

    EXPECT_NE(0U, stp_constants_hash(&none));
}

// Whole numbers differ in few bits of their doubles.
TEST(HashOfConstants, DiffersBetweenAMillionNearFiles)
{
    std::vector<uint64_t> hashes;
    stp_constants c{};

    for (size_t i = 0; i < STP_N_CONSTANTS; i += 8) {
        c.is_set[i] = c.is_set[i + 1] = true;
        for (int a = 0; a < 250; a++)
            for (int b = 0; b < 250; b++) {
                c.value[i] = a;
                c.value[i + 1] = b;
                hashes.push_back(stp_constants_hash(&c));
            }
        c.is_set[i] = c.is_set[i + 1] = false;
    }

    EXPECT_GT(hashes.size(), 1000000U);
    std::sort(hashes.begin(), hashes.end());
    EXPECT_EQ(hashes.end(), std::adjacent_find(hashes.begin(), hashes.end()));
}

} // namespace
