// Texts that must stay as they are: files of fixtures/golden.
#ifndef GOLDEN_H
#define GOLDEN_H

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

// The text of the file; with STP_UPDATE in the environment it is 'text' from
// now on.
inline std::string Golden(const std::string &name, const std::string &text)
{
    const std::string path = STP_FIXTURES "/golden/" + name;
    std::stringstream golden;

    if (std::getenv("STP_UPDATE") != nullptr)
        std::ofstream(path) << text;
    golden << std::ifstream(path).rdbuf();
    return golden.str();
}

#define EXPECT_GOLDEN(name, text) EXPECT_EQ(Golden(name, text), text)

#endif // GOLDEN_H
