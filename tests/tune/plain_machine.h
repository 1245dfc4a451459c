// Recorded machines without what was recorded of registered buffers, to which
// tests add times of their own.
#pragma once

#include <algorithm>
#include <filesystem>

#include "support/read_file.h"

namespace plain_machine
{

inline std::vector<std::string> Fields(const std::string &line)
{
    std::vector<std::string> fields = Split(line, ',');
    if (!line.empty() && line.back() == ',')
        fields.emplace_back();
    return fields;
}

// Whether a row is of plain buffers and, of iterations, overlapped; the columns
// are -1 where the file lacks them.
inline bool IsPlain(const std::vector<std::string> &fields, long algorithm,
                    long mode)
{
    const std::string &arm = fields.at(static_cast<size_t>(algorithm));

    return arm != "reg" && arm != "ce" && arm.find("sym") != 0 &&
           arm.find("stage") != 0 &&
           (mode < 0 || fields.at(static_cast<size_t>(mode)) == "overlap");
}

inline void CopyFile(const std::filesystem::path &from,
                     const std::filesystem::path &to)
{
    std::ifstream in(from);
    std::ofstream out(to);
    long algorithm = -1, mode = -1;
    const auto find = [](const std::vector<std::string> &names,
                         const char *name) {
        const auto at = std::find(names.begin(), names.end(), name);
        return at == names.end() ? -1 : static_cast<long>(at - names.begin());
    };

    for (std::string line; std::getline(in, line);) {
        if (line[0] != '#' && algorithm < 0) {
            algorithm = find(Fields(line), "algorithm");
            mode = find(Fields(line), "mode");
        } else if (line[0] != '#' && !IsPlain(Fields(line), algorithm, mode)) {
            continue;
        }
        out << line << "\n";
    }
}

// Copies the machine of 2 x H200 to the new folder 'to'.
inline void CopyH200x2(const std::filesystem::path &to)
{
    const std::filesystem::path from = STP_FIXTURES "/machines/h200x2";

    std::filesystem::copy(from, to);
    for (const char *name : {"timings.csv", "overlap.csv"}) {
        std::filesystem::remove(to / name);
        CopyFile(from / name, to / name);
    }
}

} // namespace plain_machine
