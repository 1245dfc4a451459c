// Cases in a fixture: "== HEAD", the lines of a text, and lines "-- EXPECTED".
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

struct Block {
    std::string head, text;
    std::vector<std::string> expected;
};

inline std::vector<Block> ReadBlocks(const std::string &path)
{
    std::ifstream file(path);
    std::vector<Block> blocks;

    for (std::string line; std::getline(file, line);)
        if (line.rfind("== ", 0) == 0)
            blocks.push_back({line.substr(3), "", {}});
        else if (!blocks.empty() && line.rfind("-- ", 0) == 0)
            blocks.back().expected.push_back(line.substr(3));
        else if (!blocks.empty())
            blocks.back().text += line + "\n";
    EXPECT_FALSE(blocks.empty()) << path;
    return blocks;
}
