// dressed.h - a text as web pages, collectors of logs and Ray have it
#pragma once

#include <regex>
#include <sstream>
#include <string>

constexpr int kDresses = 7;

inline std::string Dressed(const std::string &text, int how)
{
    static const char *const kSigns[][4] = {{"&", "<", ">", "$^"},
                                            {"  ", "$^", "$^", "$^"},
                                            {"\\\\", "\"", "<", ">"}};
    static const char *const kWritten[][4] = {
        {"&amp;", "&lt;", "&#62;", ""},
        {" \xC2\xA0", "", "", ""},
        {"\\\\", "\\\"", "\\u003c", "\\u003e"}};
    static const char *const kLines[] = {
        "$&",
        "\xEF\xBB\xBF$&",
        "{\"log\":\"$&\\n\",\"stream\":\"stdout\"}",
        "  \"$&\",",
        "$& \t",
        "$& [repeated 3x across cluster] (Ray",
        "17547,\"$&\""};
    const int signs = how < 3 ? how : how == 3 ? 2 : -1;
    std::string dressed, line;
    std::stringstream in(text);

    while (std::getline(in, line)) {
        for (int i = 0; i < 4 && signs >= 0; i++)
            line = std::regex_replace(line, std::regex(kSigns[signs][i]),
                                      kWritten[signs][i]);
        dressed +=
            std::regex_replace(line, std::regex("^.*$"), kLines[how]) + "\n";
    }
    return dressed;
}
