// What torchrun's environment says, and what is wrong with it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

extern "C" {
#include "launch/torchrun.h"
}

#include "support/processes.h"

namespace
{

using processes::Process;

using Variables = std::vector<std::pair<const char *, const char *>>;

const Variables kGood = {{"RANK", "3"},
                         {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "node-0"},
                         {"MASTER_PORT", "29500"}};

struct ReadCase {
    const char *name;
    Variables changes; // to kGood; NULL takes one away
    const char *want;
};

// clang-format off
const ReadCase kReads[] = {
    {"good", {}, "3/8 1/2 node-0:29500 60000"},
    {"no_local_size", {{"LOCAL_WORLD_SIZE", nullptr}},
     "3/8 1/0 node-0:29500 60000"},
    {"no_store", {{"TORCHELASTIC_USE_AGENT_STORE", "False"}},
     "3/8 1/2 node-0:29500 60000"},
    {"store", {{"TORCHELASTIC_USE_AGENT_STORE", "True"}},
     "3/8 1/2 node-0:29501 60000 job 29500"},
    {"store_on_the_last_port",
     {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_PORT", "65535"}},
     "3/8 1/2 node-0:65534 60000 job 65535"},
    {"own_port",
     {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"STEPTUNE_PORT", "4000"}},
     "3/8 1/2 node-0:4000 60000 job 29500"},
    {"run", {{"TORCHELASTIC_RUN_ID", "a b\n"},
             {"TORCHELASTIC_RESTART_COUNT", "2"}},
     "3/8 1/2 node-0:29500 60000 a_b_/2"},
    {"no_rank", {{"RANK", nullptr}}, "RANK is not set, as torchrun would"},
    {"no_local_rank", {{"LOCAL_RANK", nullptr}},
     "LOCAL_RANK is not set, as torchrun would"},
    {"no_port", {{"MASTER_PORT", nullptr}},
     "MASTER_PORT is not set, as torchrun would"},
    {"no_host", {{"MASTER_ADDR", nullptr}},
     "MASTER_ADDR is not set, expected rank 0's host"},
    {"empty_host", {{"MASTER_ADDR", ""}},
     "MASTER_ADDR is not set, expected rank 0's host"},
    {"negative_rank", {{"RANK", "-1"}},
     "RANK is '-1', expected a number from 0 to 4095"},
    {"empty_rank", {{"RANK", ""}},
     "RANK is '', expected a number from 0 to 4095"},
    {"no_ranks", {{"WORLD_SIZE", "0"}},
     "WORLD_SIZE is '0', expected a number from 1 to 4096"},
    {"too_many_ranks", {{"WORLD_SIZE", "4097"}},
     "WORLD_SIZE is '4097', expected a number from 1 to 4096"},
    {"rank_outside", {{"RANK", "8"}},
     "RANK is 8, expected less than WORLD_SIZE, which is 8"},
    {"local_rank_outside", {{"LOCAL_RANK", "2"}},
     "LOCAL_RANK is 2, expected less than LOCAL_WORLD_SIZE, which is 2"},
    {"port_0", {{"MASTER_PORT", "0"}},
     "MASTER_PORT is '0', expected a number from 1 to 65535"},
    {"port_with_a_blank", {{"MASTER_PORT", "29500 "}},
     "MASTER_PORT is '29500 ', expected a number from 1 to 65535"},
    {"bad_own_port", {{"STEPTUNE_PORT", "65536"}},
     "STEPTUNE_PORT is '65536', expected a number from 1 to 65535"},
};
// clang-format on

void Set(const Variables &variables)
{
    for (const auto &[name, value] : variables) {
        if (value != nullptr)
            setenv(name, value, 1);
        else
            unsetenv(name);
    }
}

// In a process of its own.
std::string Read(const Variables &changes)
{
    clearenv();
    Set(kGood);
    Set(changes);
    stp_torchrun s{};
    s.size = 99;
    stp_error err{};
    if (stp_torchrun_read(&s, &err) != STP_OK)
        return s.size == 99 ? err.text : "touched";
    auto number = [](unsigned n) { return std::to_string(n); };
    return number(s.rank) + "/" + number(s.size) + " " + number(s.local_rank) +
           "/" + number(s.local_size) + " " + s.host + ":" + number(s.port) +
           " " + number(s.limit_ms) +
           (s.job_port == 0 ? "" : " job " + number(s.job_port)) +
           (s.token == std::string("none/0") ? "" : std::string(" ") + s.token);
}

class TorchrunRead : public testing::TestWithParam<ReadCase>
{
};

TEST_P(TorchrunRead, IsStrict)
{
    Process process([] { return Read(GetParam().changes); });

    EXPECT_EQ(GetParam().want, process.Said());
}

INSTANTIATE_TEST_SUITE_P(Table, TorchrunRead, testing::ValuesIn(kReads),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

} // namespace
