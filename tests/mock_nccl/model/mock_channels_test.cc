// Channels and chunks, with NCCL's own count and with a tuner's.
#include <tuple>

#include <gmock/gmock.h>

#include "support/mock_script.h"
#include "support/with_param.h"

// In C a function and a struct can share a name.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include "machine/machine.h"
#include "model/channels.h"
#include "versions/versions.h"
}
#pragma GCC diagnostic pop

using namespace mock_test;
using testing::Each;
using testing::HasSubstr;

namespace
{

// ---- channels ----

struct ChannelCase {
    const char *name;
    const char *machine;
    ncclFunc_t coll;
    size_t n_bytes;
    int algo;
    int proto;
    int asked;
    int want;
    int run; // what mock_outcome_run() says
};

using Channels = WithParam<Scripted, ChannelCase>;

TEST_P(Channels, AreScheduledAsNcclSchedulesThem)
{
    const ChannelCase &c = GetParam();
    mock_call call = Call(c.coll, c.n_bytes);
    int on_entry = -1;
    script = [&](Table table, int *n_channels) {
        on_entry = *n_channels;
        table[c.algo][c.proto] = 0;
        if (c.asked != 0)
            *n_channels = c.asked;
        return ncclSuccess;
    };

    EXPECT_EQ(ncclSuccess, Try(call, c.machine)) << mock_last_error();

    EXPECT_EQ(0, on_entry);
    EXPECT_EQ(c.want, outcome_.n_channels);
    EXPECT_EQ(c.asked, outcome_.asked_channels);
    EXPECT_EQ(c.run, mock_outcome_run(&call, &outcome_).n_channels);
}

// clang-format off
#define AR ncclFuncAllReduce
#define AG ncclFuncAllGather
const ChannelCase kChannelCases[] = {
    {"one",            "h200x4", AR, 64 << 20, 1, 2, 1,   1,  1},
    {"two",            "h200x4", AR, 64 << 20, 1, 2, 2,   2,  2},
    {"limit",          "h200x4", AR, 64 << 20, 1, 2, 32,  24, 32},
    {"small_use_few",  "h200x4", AR, 100000,   1, 2, 24,  13, 24},
    {"rounded",        "h200x4", AR, 100000,   1, 2, 8,   7,  8},
    {"ll_weighs_four", "h200x4", AR, 65536,    1, 0, 24,  16, 24},
    {"simple_does_not","h200x4", AR, 65536,    1, 2, 24,  8,  24},
    {"ll_large",       "h200x4", AR, 1 << 20,  1, 0, 8,   8,  8},
    {"ll128",          "h200x4", AR, 1 << 20,  1, 1, 16,  16, 16},
    {"tiny",           "h200x4", AR, 8,        1, 0, 16,  1,  16},
    {"gather",         "h200x4", AG, 3905536,  1, 2, 4,   4,  4},
    {"last_positive",  "h200x4", AR, 1 << 20,  1, 2, 127, 22, 127},
    {"n128_is_negative","h200x4", AR, 1 << 20,  1, 2, 128, 24, 127},
    {"n255_is_negative","h200x4", AR, 1 << 20,  1, 2, 255, 24, 127},
    {"n257_is_one",     "h200x4", AR, 64 << 20, 1, 2, 257, 1,  1},
    {"nvls",           "h100x8", AR, 64 << 20, 4, 2, 0,   16, 0},
    {"nvls_small",     "h100x8", AR, 65536,    4, 2, 0,   8,  0},
    {"nvls_limit",     "h100x8", AR, 64 << 20, 4, 2, 24,  16, 24},
    {"nvls_fewer",     "b200x8", AR, 1 << 20,  4, 2, 7,   7,  7},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, Channels, testing::ValuesIn(kChannelCases),
                         CaseName());

// The CTAs of a communicator's ncclConfig_t limit all channels, variables those
// of rings and trees or of NVLS; up to 2.24 NCCL has 32.
TEST(ChannelLimits, AreThoseOfTheCommunicatorAndTheUser)
{
    const struct {
        const char *version, *machine, *algo;
        mock_limits limits;
        int want;
    } cases[] = {
        {"2.28", "h200x4", "ring", {}, 24},
        {"2.28", "h200x4", "ring", {0, 8, 0, 0, 0}, 8},
        {"2.28", "h200x4", "ring", {16, 64, 0, 0, 0}, 24},
        {"2.28", "h200x4", "ring", {32, 64, 0, 0, 0}, 32},
        {"2.30", "h200x4", "ring", {40, 64, 0, 0, 0}, 40},
        {"2.25", "h200x4", "ring", {40, 64, 0, 0, 0}, 40},
        {"2.24", "h200x4", "ring", {40, 64, 0, 0, 0}, 32},
        {"2.21", "h200x4", "ring", {40, 64, 0, 0, 0}, 32},
        {"2.28", "h200x4", "ring", {0, 0, 32, 0, 0}, 32},
        {"2.24", "h200x4", "ring", {0, 0, 40, 0, 0}, 32},
        {"2.28", "h200x4", "ring", {0, 0, 0, 6, 0}, 6},
        {"2.28", "h200x4", "ring", {0, 0, 8, 6, 0}, 8},
        {"2.28", "h200x4", "ring", {0, 8, 16, 0, 0}, 16},
        {"2.28", "h200x4", "ring", {16, 32, 0, 8, 0}, 16},
        {"2.28", "h200x4", "ring", {0, 0, 0, 0, 4}, 24},
        {"2.28", "h100x8", "nvls", {}, 16},
        {"2.28", "h100x8", "nvls", {0, 4, 0, 0, 0}, 4},
        {"2.28", "h100x8", "nvls", {20, 64, 0, 0, 0}, 20},
        {"2.28", "h100x8", "nvls", {0, 0, 0, 4, 0}, 16},
        {"2.28", "h100x8", "nvls", {0, 0, 0, 0, 8}, 8},
        {"2.28", "h100x8", "nvls", {0, 6, 0, 0, 8}, 6},
        {"2.28", "h200x4", "ring", {4, 0, 0, 0, 0}, -1},
        {"2.28", "h200x4", "ring", {5, 4, 0, 0, 0}, -1},
    };

    for (const auto &c : cases) {
        mock_nccl_options options{};
        options.version = c.version;
        options.algo = c.algo;
        options.limits = c.limits;
        Nccl nccl = MakeNccl(options);
        Machine machine = LoadMachine(c.machine);
        const mock_call call = Call(ncclFuncAllReduce, 1 << 30);
        mock_outcome outcome{};
        mock_comm *comm = nullptr;

        EXPECT_EQ(c.want < 0 ? ncclInvalidArgument : ncclSuccess,
                  mock_comm_create(nccl.get(), machine.get(), 1, &comm));
        if (comm != nullptr) {
            mock_comm_collective(comm, &call, &outcome);
        }
        EXPECT_EQ(c.want < 0 ? 0 : c.want, outcome.n_channels)
            << c.version << " " << c.algo << " " << &c - cases;
        mock_comm_destroy(comm);
    }
}

TEST_F(Scripted, ChannelsThatEightBitsMakeZeroFail)
{
    script = [](Table, int *n_channels) {
        *n_channels = 256;
        return ncclSuccess;
    };

    EXPECT_EQ(ncclInternalError, Try(Call(ncclFuncAllReduce, 1 << 20)));

    EXPECT_STREQ("256 channels are 0 in NCCL's 8-bit field, and NCCL would "
                 "divide by 0",
                 mock_last_error());
    EXPECT_EQ(0, outcome_.n_channels);
    EXPECT_EQ(256, outcome_.asked_channels);
}

// ---- chunks ----

// 0 channels are NCCL's own count, 22. The last channel has what the others
// leave: 3905536 = 3 x 983040 + 956416.
TEST_F(Scripted, ChunksAreAskedForFirstLastAndMiddleChannels)
{
    const std::tuple<ncclFunc_t, size_t, int, std::vector<size_t>> cases[] = {
        {AR, 1 << 20, 0, {49152, 16384, 49152}},
        {AG, 3905536, 4, {983040, 956416, 983040}}};

    for (const auto &c : cases) {
        std::vector<size_t> parts;
        const int asked = std::get<2>(c);
        chunk_script = [&](size_t n_bytes, size_t *) {
            parts.push_back(n_bytes);
            return ncclSuccess;
        };
        script = [=](Table table, int *n_channels) {
            table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 0;
            *n_channels = asked;
            return ncclSuccess;
        };

        EXPECT_EQ(ncclSuccess,
                  Try(Call(std::get<0>(c), std::get<1>(c)), "h200x4", "2.30"));
        EXPECT_EQ(std::get<3>(c), parts);
        EXPECT_EQ(asked == 0 ? 22 : asked, outcome_.n_channels);
    }
}

struct WrittenCase {
    const char *name;
    size_t written;
    ncclResult_t rc;
    size_t want;
    const char *error;
    const char *log;
};

using WrittenChunk = WithParam<Scripted, WrittenCase>;

TEST_P(WrittenChunk, IsClampedToTheBufferAndNotBelowAGrain)
{
    const WrittenCase &c = GetParam();
    Log log;
    chunk_script = [&](size_t, size_t *size) {
        *size = c.written;
        return ncclSuccess;
    };
    script = [](Table table, int *n_channels) {
        table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 0;
        *n_channels = 1;
        return ncclSuccess;
    };

    ncclResult_t rc = Try(Call(ncclFuncAllReduce, 1 << 20), "h200x4", "2.30");

    EXPECT_EQ(c.rc, rc);
    EXPECT_EQ(c.want, outcome_.chunk_bytes);
    if (c.error != nullptr) {
        EXPECT_STREQ(c.error, mock_last_error());
    }
    EXPECT_THAT(log.Texts(), c.log == nullptr
                                 ? Each(testing::Not(HasSubstr("clamping")))
                                 : testing::Matcher<std::vector<std::string>>(
                                       testing::Contains(std::string(c.log))));
}

// clang-format off
const WrittenCase kWritten[] = {
    {"smaller",   65536,   ncclSuccess, 65536,   nullptr, nullptr},
    {"unchanged", 2097152, ncclSuccess, 0,       nullptr, nullptr},
    {"odd",       5000,    ncclSuccess, 5000,    nullptr, nullptr},
    {"too_large", 4194304, ncclSuccess, 0, nullptr,
     "AllReduce: tuner chunk size 4194304 exceeds buffer max 2097152, clamping"},
    {"grain",     512,     ncclSuccess, 512,     nullptr, nullptr},
    {"tiny",      511,     ncclInternalError, 0,
     "tuner 'scripted': a chunk of 511 bytes is below the grain of 512, and "
     "NCCL would divide by 0", nullptr},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, WrittenChunk, testing::ValuesIn(kWritten),
                         CaseName());

TEST_F(Scripted, AnErrorFromGetChunkSizeFailsTheCollective)
{
    chunk_script = [](size_t, size_t *) { return ncclSystemError; };

    EXPECT_EQ(ncclSystemError,
              Try(Call(ncclFuncAllReduce, 1 << 20), "h200x4", "2.30"));

    EXPECT_STREQ("tuner 'scripted': getChunkSize returned 2 (ncclSystemError)",
                 mock_last_error());
}

} // namespace
