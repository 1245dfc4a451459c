// What is written to a file, as a string; the lines of a string.
#ifndef WRITTEN_H
#define WRITTEN_H

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

// What 'write' writes to the file it is given.
template <typename Write> std::string Written(Write write)
{
    char *text = nullptr;
    size_t len = 0;
    FILE *fp = open_memstream(&text, &len);
    EXPECT_EQ(0, write(fp)); // STP_OK
    fclose(fp);
    std::string s(text, len);
    free(text);
    return s;
}

inline std::vector<std::string> SplitLines(const std::string &text)
{
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        lines.push_back(line);
    return lines;
}

#endif // WRITTEN_H
