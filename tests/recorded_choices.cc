#include "recorded_choices.h"

#include "mock_test.h"

using namespace mock_test;

namespace
{

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

mock_call CallOf(const Row &row, size_t n)
{
    mock_call call{};
    call.coll = static_cast<ncclFunc_t>(Find(kColls, row.at("collective")));
    call.n_bytes = std::stoull(row.at("bytes")) / n;
    call.element_size = ElementSize(row);
    call.reg_buff = std::stoi(row.at("regBuff"));
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
    std::string channels;

    ASSERT_EQ(ncclSuccess,
              mock_comm_group(comm.get(), calls.data(), n, outcomes.data()))
        << mock_last_error();
    for (const mock_outcome &out : outcomes) {
        ExpectTable(row, out.cost);
        EXPECT_EQ(row.at("algo"), kAlgos[out.algo]);
        EXPECT_EQ(row.at("proto"), kProtos[out.proto]);
        EXPECT_EQ(0, out.asked_channels);
        channels +=
            (channels.empty() ? "" : "+") + std::to_string(out.n_channels);
    }
    EXPECT_EQ(row.at("channels"), channels);
}

} // namespace

int ExpectChoices(const std::string &folder)
{
    Machine machine = LoadFolder(folder);
    if (!machine)
        return 0;
    Nccl nccl = MakeNccl({});
    Comm comm = MakeComm(nccl, machine);
    int n = 0;

    for (const Row &row : ReadCsv(folder + "/choices.csv")) {
        SCOPED_TRACE(row.at("collective") + " " + row.at("bytes") + " in " +
                     row.at("group_ops"));
        ExpectRow(comm, row);
        n++;
    }
    return n;
}
