// Files as a whole, and texts in parts.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

// "" if it cannot be read.
inline std::string ReadFile(const std::string &path)
{
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

inline std::vector<std::string> Split(const std::string &text, char separator)
{
    std::vector<std::string> parts;
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, separator);)
        parts.push_back(part);
    return parts;
}

inline std::vector<std::string> SplitLines(const std::string &text)
{
    return Split(text, '\n');
}
