// Reads tuner_lines.txt and profiler_lines.txt: log lines by version and
// setting.
#pragma once

#include <algorithm>

#include "support/mock_folder.h"

namespace mock_test
{

struct LogCase {
    std::string name;
    std::string version;
    std::map<std::string, std::string> variables;
    int tuner = 0; // version of the loaded tuner
    std::vector<std::string> lines;

    // nullptr for a variable that is not set.
    const char *Get(const std::string &variable) const
    {
        auto found = variables.find(variable);
        return found == variables.end() ? nullptr : found->second.c_str();
    }
};

inline std::string Replaced(std::string text, char letter,
                            const std::string &path)
{
    for (size_t at; (at = text.find(letter)) != std::string::npos;)
        text.replace(at, 1, path);
    return text;
}

// A case per version of each header; with the plugins' folder for @.
inline std::vector<LogCase> ReadLogCases(const std::string &file)
{
    std::vector<LogCase> all;
    size_t n_versions = 0;
    for (std::string line : SplitLines(ReadFile(STP_MOCK_LINES "/" + file))) {
        line = Replaced(line, '@', STP_TEST_PLUGINS);
        if (line.empty() || line[0] == '#')
            continue;
        if (line[0] == '[') {
            std::stringstream words(line.substr(1, line.size() - 2));
            std::vector<std::string> versions;
            for (std::string word; words >> word;)
                versions.push_back(word);
            std::string name = versions.back();
            versions.pop_back();
            n_versions = versions.size();
            for (const std::string &v : versions) {
                std::string id = v;
                std::replace(id.begin(), id.end(), '.', '_');
                all.push_back({"v" + id + "_" + name, v, {}, 0, {}});
            }
            continue;
        }
        for (size_t i = all.size() - n_versions; i < all.size(); i++)
            if (line.compare(0, 5, "NCCL_") == 0)
                all[i].variables[line.substr(0, line.find('='))] =
                    line.substr(line.find('=') + 1);
            else if (line.compare(0, 6, "tuner ") == 0)
                all[i].tuner = std::stoi(line.substr(6));
            else
                all[i].lines.push_back(line);
    }
    return all;
}

inline std::string FlagLetters(unsigned long flags)
{
    std::string text;
    for (auto [bit, letter] : {std::pair{0x1ul, 'I'},
                               {0x80ul, 'E'},
                               {0x10000ul, 'D'},
                               {0x40ul, 'T'},
                               {0x10ul, 'N'},
                               {0x4000ul, 'P'}})
        if (flags & bit)
            text += letter;
    return text + " ";
}

} // namespace mock_test
