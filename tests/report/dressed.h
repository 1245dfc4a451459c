// dressed.h - a text as web pages, collectors of logs and Ray have it
#pragma once

#include <regex>
#include <sstream>
#include <string>

constexpr int kDresses = 9;

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
        "17547,\"$&\""};
    const int s = how < 3 ? how : how < 6 ? 2 : -1;
    std::string all, line;
    std::stringstream in(text);

    while (std::getline(in, line)) {
        for (int i = 0; i < 4 && s >= 0; i++)
            line = std::regex_replace(line, std::regex(kRaw[s][i]), kWeb[s][i]);
        all += std::regex_replace(line, std::regex("^.*$"), kLines[how]) + "\n";
    }
    return all;
}
