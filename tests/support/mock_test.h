// Fixtures of the tests of mock NCCL.
#pragma once

#include <cstdio>
#include <map>
#include <memory>

#include <strings.h>

#include <gtest/gtest.h>

#include "mock_nccl.h"
#include "support/read_file.h"
#include "support/with_param.h"

// Tests initialise only the members that matter to them.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace mock_test
{

struct Free {
    void operator()(mock_machine *machine) const
    {
        mock_machine_free(machine);
    }
    void operator()(mock_nccl *nccl) const
    {
        mock_nccl_destroy(nccl);
    }
    void operator()(mock_comm *comm) const
    {
        mock_comm_destroy(comm);
    }
};
using Machine = std::unique_ptr<mock_machine, Free>;
using Nccl = std::unique_ptr<mock_nccl, Free>;
using Comm = std::unique_ptr<mock_comm, Free>;

// Returns nullptr and prints the reason if it fails.
inline Machine LoadFolder(const std::string &path)
{
    mock_machine *machine = nullptr;
    EXPECT_EQ(ncclSuccess, mock_machine_load(path.c_str(), &machine))
        << mock_last_error();
    return Machine(machine);
}

inline Machine LoadMachine(const std::string &name)
{
    return LoadFolder(STP_FIXTURES "/machines/" + name);
}

inline Machine Resized(const Machine &machine, int n_ranks)
{
    mock_machine *resized = nullptr;
    EXPECT_EQ(ncclSuccess,
              mock_machine_resize(machine.get(), n_ranks, &resized))
        << mock_last_error();
    return Machine(resized);
}

inline Nccl MakeNccl(const mock_nccl_options &options)
{
    mock_nccl *nccl = nullptr;
    EXPECT_EQ(ncclSuccess, mock_nccl_create(&options, &nccl))
        << mock_last_error();
    return Nccl(nccl);
}

inline Comm MakeComm(const Nccl &nccl, const Machine &machine,
                     uint64_t comm_id = 1)
{
    mock_comm *comm = nullptr;
    EXPECT_EQ(ncclSuccess,
              mock_comm_create(nccl.get(), machine.get(), comm_id, &comm))
        << mock_last_error();
    return Comm(comm);
}

// Rows of a CSV file by column name; '#' lines are skipped.
using Row = std::map<std::string, std::string>;
inline std::vector<Row> ReadCsv(const std::string &path)
{
    std::vector<std::string> names;
    std::vector<Row> rows;

    for (const std::string &line : SplitLines(ReadFile(path))) {
        std::vector<std::string> fields = Split(line, ',');
        if (line.empty() || line[0] == '#')
            continue;
        if (line.back() == ',')
            fields.emplace_back();
        if (names.empty()) {
            names = fields;
            continue;
        }
        Row row;
        for (size_t i = 0; i < names.size(); i++)
            row[names[i]] = fields.at(i);
        rows.push_back(row);
    }
    EXPECT_FALSE(rows.empty()) << path;
    return rows;
}

constexpr const char *kColls[] = {"broadcast", "reduce", "allgather",
                                  "reducescatter", "allreduce"};
constexpr const char *kAlgos[] = {
    "tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
    "nvls_tree", "pat"};
constexpr const char *kProtos[] = {"ll", "ll128", "simple"};

// The index of a word in one of the lists above, in any case; -1 for others.
template <size_t N>
int Find(const char *const (&words)[N], const std::string &word)
{
    for (size_t i = 0; i < N; i++)
        if (strcasecmp(words[i], word.c_str()) == 0)
            return static_cast<int>(i);
    return -1;
}

inline std::string Printed(double number)
{
    char text[64];
    std::snprintf(text, sizeof(text), "%.3f", number);
    return text;
}

inline mock_call Call(ncclFunc_t coll, size_t n_bytes)
{
    mock_call call{};
    call.coll = coll;
    call.n_bytes = n_bytes;
    return call;
}

// Runs one collective on a communicator of its own.
inline mock_outcome OnMachine(const Machine &machine, const mock_call &call,
                              const mock_nccl_options &options = {})
{
    Nccl nccl = MakeNccl(options);
    Comm comm = MakeComm(nccl, machine);
    mock_outcome outcome;
    EXPECT_EQ(ncclSuccess, mock_comm_collective(comm.get(), &call, &outcome))
        << mock_last_error();
    return outcome;
}

// Collects the log of the process during its lifetime.
class Log
{
  public:
    struct Line {
        ncclDebugLogLevel level;
        unsigned long flags;
        std::string text;
    };

    Log()
    {
        mock_set_log(Take, this);
    }
    ~Log()
    {
        mock_set_log(nullptr, nullptr);
    }
    Log(const Log &) = delete;
    Log &operator=(const Log &) = delete;

    std::vector<std::string> Texts() const
    {
        std::vector<std::string> texts;
        for (const Line &line : lines)
            texts.push_back(line.text);
        return texts;
    }

    std::vector<Line> lines;

  private:
    static void Take(void *user, ncclDebugLogLevel level, unsigned long flags,
                     const char *text)
    {
        static_cast<Log *>(user)->lines.push_back({level, flags, text});
    }
};

} // namespace mock_test
