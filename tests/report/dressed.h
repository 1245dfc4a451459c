// dressed.h - a text as web pages, collectors of logs and Ray have it
#pragma once

#include <regex>

#include "support/read_file.h"

constexpr int kDresses = 11;

inline std::string Dressed(const std::string &text, int how)
{
    static const char *const kRaw[][4] = {{"&", "<", ">", "$^"},
                                          {"  ", "$^", "$^", "$^"},
                                          {"\\\\", "\"", "<", ">"}};
    static const char *const kWeb[][4] = {
        {"&amp;", "&lt;", "&#62;", ""},
        {" \xC2\xA0", "", "", ""},
        {"\\\\", "\\\"", "\\u003c", "\\u003e"}};
    static const char *const kLines[] = {
        "$&",
        "\xEF\xBB\xBF$&",
        "{\"log\":\"$&\\n\",\"stream\":\"stdout\"}",
        "  \"$&\",",
        "[{\"log\":{\"line\":\"7\"}, \"message\": \"$&\\n\",\"x\":\"\"},",
        "    \"textPayload\":\t\"$&\",",
        "$& \t",
        "$& [repeated 3x across cluster] (Ray",
        "\"$&\"",
        "$&",
        "17547,\"$&\""};
    const int s = how < 3 ? how : how < 6 || how == 8 ? 2 : -1;
    const std::string ends[] = {"\n", ", ", "\r"};
    std::string all =
        how == 8 ? "ok: [a] => {\"changed\": true, \"stdout_lines\": [" : "";

    for (std::string line : SplitLines(text)) {
        line.erase(line.find_last_not_of(how > 7 ? "\r" : "") + 1);
        for (int i = 0; i < 4 && s >= 0; i++)
            line = std::regex_replace(line, std::regex(kRaw[s][i]), kWeb[s][i]);
        all += std::regex_replace(line, std::regex("^.*$"), kLines[how]) +
               ends[how == 8 || how == 9 ? how - 7 : 0];
    }
    return how == 8 ? all + "\"\"]}\n" : all;
}
