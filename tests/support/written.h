// Text written to a file as a string, and texts that must stay as they are.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <type_traits>

#include "support/read_file.h"

// Returns the text that 'write' writes to its file.
template <typename Write> std::string Written(Write write)
{
    char *text = nullptr;
    size_t len = 0;
    FILE *fp = open_memstream(&text, &len);
    if constexpr (std::is_void_v<decltype(write(fp))>)
        write(fp);
    else
        EXPECT_EQ(0, write(fp)); // STP_OK
    fclose(fp);
    std::string s(text, len);
    free(text);
    return s;
}

// The text of a file of fixtures/golden; with STP_UPDATE in the environment it
// is 'text' from now on.
inline std::string Golden(const std::string &name, const std::string &text)
{
    const std::string path = STP_FIXTURES "/golden/" + name;
    if (std::getenv("STP_UPDATE") != nullptr)
        std::ofstream(path) << text;
    return ReadFile(path);
}

#define EXPECT_GOLDEN(name, text) EXPECT_EQ(Golden(name, text), text)

namespace charts
{

// Writes a program in the place of gnuplot, whose picture is the script with
// the end that pictures of its format have.
inline void WriteCopyist(const std::string &path)
{
    std::ofstream(path) << "#!/bin/sh\n"
                           "script=$(cat)\n"
                           "printf '%s\\n' \"$script\"\n"
                           "case $script in\n"
                           "\"format = 'svg'\"*) echo '# </svg>' ;;\n"
                           "*) printf 'IEND\\256B`\\202' ;;\n"
                           "esac\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

} // namespace charts
