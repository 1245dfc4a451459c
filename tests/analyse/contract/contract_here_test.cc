// Tuners with one fault in one place: a collective, a size or a few, a number
// of operations, regBuff, and sometimes ranks.  The contract suite finds each,
// and its text has the size.
//
// PLACES_SEED=N in the environment draws other places; each test prints its
// row.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>

#include <gmock/gmock.h>

extern "C" {
#include "analyse/contract/contract.h"
#include "core/names.h"
}

#include "support/slow.h"

namespace
{

using testing::HasSubstr;

// Where a kind of fault may be, to be found for certain.
enum Reach {
    kCalls,  // all that one call can be, and any communicator
    kRanks,  // likewise, with up to 8 operations
    kMemory, // lone calls of plain buffers
};

struct Kind {
    const char *name; // in tests/plugins/planted.c
    const char *check;
    Reach reach;
    const char *where = ""; // further bounds
    bool any_reg_buff = false;
    bool by_chance = false; // agrees once in 27 calls where channels are one
};

constexpr char kProcess[] = "leaves the process alone";

const Kind kKinds[] = {
    {"exits", "never fails a collective", kCalls},
    {"crashes", "stays inside the table", kCalls},
    {"hangs", "never revives", kCalls},
    {"spins", "never negative", kCalls},
    {"sleeps", "never fails a collective", kCalls},
    {"fails", "never fails a collective", kCalls},
    {"fails", "all NCCL versions", kCalls},
    {"writes_behind", "stays inside the table", kCalls},
    {"writes_before", "stays inside the table", kCalls},
    {"asks_100", "channels in range", kCalls},
    {"asks_below", "channels in range", kCalls},
    {"only_channels", "leaves unmatched untouched", kCalls},
    {"revives", "never revives", kCalls},
    {"rules_out", "never negative", kCalls},
    {"writes_nan", "never negative", kCalls},
    {"leaves_nothing", "never fails a collective", kCalls},
    {"by_context", "ranks agree", kRanks},
    {"by_count", "ranks agree", kRanks},
    {"by_clock", "ranks agree", kRanks, "", false, true},
    {"by_process", "ranks agree as processes", kMemory, "", false, true},
    {"by_reg_buff", "ranks agree on regBuff", kRanks, "", true},
    {"by_variable", "ranks agree on environment", kRanks},
    {"by_file", "ranks agree on files", kMemory},
    {"exits", "ranks agree as processes", kRanks},
    {"fails", "ranks agree as threads", kMemory},
    {"hangs", "ranks agree when one dies", kMemory},
    {"crashes", "ranks of children agree", kMemory},
    {"by_latest", "contexts apart", kMemory},
    {"by_life", "survives staying loaded", kMemory},
    {"by_life", "finalize in any order", kMemory},
    {"exits", "survives reload", kMemory},
    {"sleeps", "thread-safe init", kMemory},
    {"by_count", "thread-safe calls", kMemory},
    {"splits_words", "thread-safe calls", kMemory},
    {"prints", "quiet", kRanks},
    {"complains", "quiet", kRanks},
    {"logs", "quiet", kRanks},
    {"keeps_file", kProcess, kMemory},
    {"sets_variable", kProcess, kMemory},
    {"leaves_folder", kProcess, kMemory},
    {"ignores_signal", kProcess, kMemory},
    {"sets_timer", kProcess, kMemory},
    {"limits_cores", kProcess, kMemory},
    {"keeps_memory", kProcess, kMemory},
    {"asks_100", "all NCCL versions", kCalls},
    {"revives", "all NCCL versions", kCalls},
    // of a few communicators, init or finalize, or after a finalize
    {"rules_out", "never negative", kMemory, ",ended=1"},
    {"revives", "never revives", kMemory, ",ended=1,nodes=3"},
    {"asks_100", "channels in range", kMemory, ",ended=1"},
    {"by_context", "ranks agree", kMemory, ",nodes=3"},
    {"by_count", "ranks agree", kMemory, ",ranks=7"},
    {"by_variable", "ranks agree on environment", kMemory, ",nodes=16"},
    {"by_reg_buff", "ranks agree on regBuff", kMemory, ",nodes=256", true},
    {"prints", "quiet", kMemory, ",nodes=3"},
    {"logs", "quiet", kMemory, ",ranks=2"},
    {"prints", "quiet", kMemory, ",life=2"},
    {"complains", "quiet", kMemory, ",life=1,nodes=3"},
    {"keeps_memory", kProcess, kMemory, ",life=1,nodes=3"},
    {"keeps_much", kProcess, kMemory, ",life=2"},
    {"keeps_pages", kProcess, kMemory, ",life=1,nodes=16"},
    {"keeps_file", kProcess, kMemory, ",nodes=3"},
    {"sets_variable", kProcess, kMemory, ",life=2,nodes=3"},
    {"moves_thread", kProcess, kMemory, ",life=1"},
    {"traps", kProcess, kMemory, ",nodes=3"},
    {"flushes", kProcess, kMemory},
    {"draws", kProcess, kMemory, ",life=1"},
    {"takes_stack", kProcess, kMemory, ",life=1"},
    {"leaves_child", kProcess, kMemory, ",life=1,nodes=3"},
    {"restarts_calls", kProcess, kMemory},
    {"speaks", kProcess, kMemory},
};

struct Place {
    int coll = 0;
    unsigned long long min = 0, max = 0; // bytes
    int n_pipe_ops = 1;
    int reg_buff = 0;
    std::string ranks; // a bound, or ""
};

// A power of two, an element to a side of it, a decimal number, a 64th of an
// octave, or a range of that width somewhere.
Place DrawPlace(const Kind &kind, std::mt19937_64 *random)
{
    auto draw = [random](int n) {
        return static_cast<int>((*random)() % static_cast<unsigned>(n));
    };
    const int shape = kind.reach == kMemory ? draw(2) : draw(5);
    const unsigned long long power = 1ull << draw(34);
    Place place;

    place.coll = draw(5);
    place.min = power;

    if (shape == 1 && power > 8) {
        const int element = 1 << draw(4);
        place.min = draw(2) != 0 ? power - static_cast<unsigned>(element)
                                 : power + static_cast<unsigned>(element);
    } else if (shape == 2) {
        place.min = 1 + static_cast<unsigned>(draw(99));
        for (int i = draw(9); i > 0; i--)
            place.min *= 10;
    } else if (shape == 3) {
        place.min = (64ull + static_cast<unsigned>(draw(64))) << draw(27);
    }
    place.max = place.min;
    if (shape == 4) {
        place.min = static_cast<unsigned long long>(
            std::exp2(6 + 27 * std::ldexp((*random)() >> 11, -53)));
        place.max = place.min + place.min / 64 + 1;
    }
    if (shape < 2 && kind.reach != kMemory) {
        place.n_pipe_ops = 1 + draw(kind.reach == kCalls ? 16 : 8);
        place.reg_buff = kind.any_reg_buff ? -1 : draw(2);
    } else if (kind.any_reg_buff) {
        place.reg_buff = -1;
    }
    if (shape < 2 && kind.reach == kCalls && draw(4) == 0 &&
        std::strstr(kind.check, "versions") == nullptr) {
        const char *const bounds[] = {"ranks=2",  "ranks=3",   "ranks=5",
                                      "ranks=12", "nodes=3",   "nodes=16",
                                      "ranks=64", "nodes=256", "ranks=32"};
        place.ranks = bounds[draw(9)];
        place.n_pipe_ops = 1; // communicators like that are asked less
        place.reg_buff = 0;
    }
    if (kind.by_chance) // more sizes than chance is kind to
        place = {place.coll,       place.min / 8,  64 + place.max * 2,
                 place.n_pipe_ops, place.reg_buff, ""};
    return place;
}

std::string Words(const Kind &kind, const Place &place)
{
    std::string words = std::string(kind.name) +
                        ",coll=" + std::to_string(place.coll) +
                        ",min=" + std::to_string(place.min) +
                        ",max=" + std::to_string(place.max) +
                        ",pipe=" + std::to_string(place.n_pipe_ops);
    if (place.reg_buff >= 0)
        words += ",reg=" + std::to_string(place.reg_buff);
    words += kind.where;
    return place.ranks.empty() ? words : words + "," + place.ranks;
}

class FaultInOnePlace : public testing::TestWithParam<size_t>
{
  protected:
    ~FaultInOnePlace() override
    {
        unsetenv("PLANTED");
        stp_contract_free(&contract_);
    }

    stp_contract contract_{};
};

TEST_P(FaultInOnePlace, IsFound)
{
    if (GetParam() >= 4) // the others are like these
        STP_SLOW();
    const Kind &kind = kKinds[GetParam()];
    const char *seed = std::getenv("PLACES_SEED");
    std::mt19937_64 random(GetParam() +
                           1000 * (seed != nullptr ? std::atoll(seed) : 1));
    const Place place = DrawPlace(kind, &random);
    const std::string words = Words(kind, place);
    stp_contract_options options{
        .plugin = STP_TEST_PLUGINS "/libnccl-tuner-planted_here.so",
        .machine_path = STP_FIXTURES "/machines/h200x4",
        .nccl = nullptr,
        .over = nullptr,
        .policy = nullptr,
        .n_ranks = 0,
        .n_seeds = 4,
        .seed = 77,
        .only = kind.check,
        .time_limit_s = 600,
        .tell = nullptr,
        .tell_s = 0};
    stp_error err{};
    const stp_contract_check *found = nullptr;

    setenv("PLANTED", words.c_str(), 1);
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(STP_OK, stp_contract_run(&options, &contract_, &err)) << err.text;
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - begin;

    for (size_t i = 0; i < contract_.n_checks; i++)
        if (std::strcmp(contract_.checks[i].name, kind.check) == 0)
            found = &contract_.checks[i];
    ASSERT_NE(nullptr, found);
    std::printf("%-15s %-13s %11llu to %11llu B, pipe %2d, reg %2d %-9s | "
                "%-4s %-27s | %5.2f s\n",
                kind.name, stp_coll_name(place.coll), place.min, place.max,
                place.n_pipe_ops, place.reg_buff, place.ranks.c_str(),
                stp_contract_verdict_name(found->verdict), found->name,
                took.count());
    EXPECT_EQ(STP_CONTRACT_FAIL, found->verdict) << words;
    if (kind.check != kProcess && std::strstr(kind.where, "life") == nullptr &&
        std::strcmp(kind.name, "splits_words") != 0 && place.min == place.max) {
        EXPECT_THAT(std::string(found->text),
                    HasSubstr(std::string(stp_coll_name(place.coll)) + " of " +
                              std::to_string(place.min) + " bytes"));
    }
}

INSTANTIATE_TEST_SUITE_P(Table, FaultInOnePlace,
                         testing::Range(size_t{0}, std::size(kKinds)),
                         [](const auto &c) {
                             return std::to_string(c.param) + "_" +
                                    kKinds[c.param].name;
                         });

} // namespace
