#include "support/recorded_choices.h"

#include <gmock/gmock.h>

#include "support/mock_script.h"

using namespace mock_test;

namespace
{

// ---- a tuner that does what the row's did ----

int forced = -1; // entry of the table
int asked = 0;   // channels
int n_questions = 0;

void Force(int entry, int channels)
{
    forced = entry;
    asked = channels;
    script = [](Table table, int *n_channels) {
        n_questions++;
        if (forced >= 0)
            (&table[0][0])[forced] = 0;
        if (asked != 0)
            *n_channels = asked;
        return ncclSuccess;
    };
}

// ---- rows ----

int Optional(const Row &row, const char *column, int otherwise)
{
    auto field = row.find(column);
    return field == row.end() ? otherwise : std::stoi(field->second);
}

std::string Exact(double number)
{
    char text[64];
    std::snprintf(text, sizeof(text), "%.9g", number);
    return text;
}

size_t ElementSize(const Row &row)
{
    auto type = row.find("type");

    if (type == row.end() || type->second == "bf16")
        return 2;
    return type->second == "f32" ? 4 : 1;
}

// Types that NCCL keeps apart in a group; it gathers and broadcasts bytes.
unsigned KindOf(const Row &row)
{
    const std::string &coll = row.at("collective");

    return coll == "allgather" || coll == "broadcast"
               ? 1
               : static_cast<unsigned>(ElementSize(row));
}

mock_call CallOf(const Row &row, size_t n)
{
    mock_call call{};
    call.kind = KindOf(row);
    call.coll = static_cast<ncclFunc_t>(Find(kColls, row.at("collective")));
    call.n_bytes = std::stoull(row.at("bytes")) / n;
    call.element_size = ElementSize(row);
    if (call.element_size == 1) // NCCL's symmetric kernels add up floats
        call.reduction = MOCK_REDUCTION_OTHER;
    call.reg_buff = Optional(row, "regBuff", 0);
    return call;
}

void ExpectTable(const Row &row, const mock_table &cost)
{
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            const std::string &want =
                row.at(std::string("cost_") + kAlgos[a] + "_" + kProtos[p]);
            if (want != Printed(cost[a][p])) {
                EXPECT_EQ(want, Exact(cost[a][p]))
                    << kAlgos[a] << "/" << kProtos[p];
            }
        }
}

void ExpectRow(const Comm &comm, const Row &row)
{
    size_t n = std::stoul(row.at("group_ops"));
    std::vector<mock_call> calls(n, CallOf(row, n));
    std::vector<mock_outcome> outcomes(n);
    std::string channels, reversed;

    Force(Optional(row, "forced", -1), Optional(row, "asked", 0));
    ASSERT_EQ(ncclSuccess,
              mock_comm_group(comm.get(), calls.data(), n, outcomes.data()))
        << mock_last_error();
    for (const mock_outcome &out : outcomes) {
        ExpectTable(row, out.cost);
        EXPECT_EQ(row.at("algo"), kAlgos[out.algo]);
        EXPECT_EQ(row.at("proto"), kProtos[out.proto]);
        EXPECT_EQ(asked, out.asked_channels);
        const std::string own = std::to_string(out.n_channels);
        channels += (channels.empty() ? "" : "+") + own;
        reversed = own + (reversed.empty() ? "" : "+") + reversed;
    }
    // NCCL's log lists equals as it schedules them: from 2.29 on in reverse,
    // where it looked for some that symmetric kernels could run.
    EXPECT_THAT(row.at("channels"), testing::AnyOf(channels, reversed));
}

void ExpectGroup(const Comm &comm, const std::vector<Row> &rows)
{
    std::vector<mock_call> calls;
    std::vector<mock_outcome> outcomes(rows.size());

    Force(-1, 0);
    for (const Row &row : rows)
        calls.push_back(CallOf(row, 1));
    ASSERT_EQ(ncclSuccess, mock_comm_group(comm.get(), calls.data(),
                                           calls.size(), outcomes.data()))
        << mock_last_error();
    for (size_t i = 0; i < rows.size(); i++)
        EXPECT_EQ(rows[i].at("expect"),
                  std::string(kAlgos[outcomes[i].algo]) + "/" +
                      kProtos[outcomes[i].proto] + "/" +
                      std::to_string(outcomes[i].n_channels))
            << rows[i].at("collective") << " " << rows[i].at("bytes");
}

// The version that recorded.
Nccl MakeNcclOf(const Machine &machine)
{
    return MakeNccl(WithScript(mock_machine_get_info(machine.get())->nccl));
}

} // namespace

int ExpectGroups(const std::string &folder, const std::string &file)
{
    Machine machine = LoadFolder(folder);
    if (!machine)
        return 0;
    Nccl nccl = MakeNcclOf(machine);
    Comm comm = MakeComm(nccl, machine);
    std::map<int, std::vector<Row>> groups;

    n_questions = 0;
    for (const Row &row : ReadCsv(folder + "/" + file))
        groups[std::stoi(row.at("group"))].push_back(row);
    for (const auto &[number, rows] : groups) {
        SCOPED_TRACE("group " + std::to_string(number));
        ExpectGroup(comm, rows);
    }
    return n_questions;
}

int ExpectChoices(const std::string &folder, const std::string &file)
{
    Machine machine = LoadFolder(folder);
    if (!machine)
        return 0;
    Nccl nccl = MakeNcclOf(machine);
    Comm comm = MakeComm(nccl, machine);
    int n = 0;

    for (const Row &row : ReadCsv(folder + "/" + file)) {
        SCOPED_TRACE(row.at("collective") + " " + row.at("bytes") + " in " +
                     row.at("group_ops"));
        ExpectRow(comm, row);
        n++;
    }
    return n;
}
