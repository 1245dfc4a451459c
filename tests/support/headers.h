/* headers.h - what most tests include, read once for all of them
 *
 * Nobody calls the function.  What it uses, of the templates that many tests
 * use alike, Clang instantiates while it reads this file, and compiles once. */
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

inline void UseWhatTestsUse(int i, unsigned u, size_t n, double d, bool is,
                            const char *c, const std::string &s)
{
    using namespace testing;
    std::vector<std::string> v{s, c};
    std::set<std::string> set{s};
    std::map<std::string, std::string> map{{s, c}};
    std::filesystem::path path = std::filesystem::path(s) / c;
    std::ifstream in(path);
    std::ofstream out(s);
    std::stringstream text;

    SCOPED_TRACE(s + c + std::to_string(i) + s + std::to_string(u));
    v.emplace_back(std::to_string(n) + "c");
    v.insert(v.end(), set.begin(), set.end());
    map[s] = c;
    text << in.rdbuf() << s << c << i << d;
    out << s << c << i << d;
    std::getline(text, v[0]);
    std::filesystem::remove_all(path);
    EXPECT_TRUE(is) << s << c << i << u << n << d << "text";
    EXPECT_EQ(i, 1);
    EXPECT_EQ(1u, u);
    EXPECT_EQ(1u, n);
    EXPECT_EQ(d, 1.0);
    EXPECT_EQ(is, true);
    EXPECT_EQ(nullptr, c);
    EXPECT_EQ("text", s);
    EXPECT_EQ(s, c);
    EXPECT_EQ(s, s);
    EXPECT_EQ(v, v);
    EXPECT_NE(i, 1);
    EXPECT_NE(nullptr, c);
    EXPECT_LT(i, 1);
    EXPECT_LE(i, 1);
    EXPECT_GT(n, 1u);
    EXPECT_GE(n, 1u);
    EXPECT_LE(1u, n);
    EXPECT_LE(u, 1u);
    EXPECT_LT(d, 1.0);
    EXPECT_GT(d, 1.0);
    EXPECT_THAT(s,
                AllOf(HasSubstr("text"), Not(HasSubstr("text")), Ne("text")));
    EXPECT_THAT(s, StartsWith("text"));
    EXPECT_THAT(s, IsEmpty());
    EXPECT_THAT(c, HasSubstr("text"));
    EXPECT_THAT(c, StrEq("text"));
    EXPECT_THAT(v, ElementsAre("text", "text"));
    EXPECT_THAT(v, ElementsAreArray(v));
    EXPECT_THAT(v, Contains(s));
    EXPECT_THAT(v, IsEmpty());
    EXPECT_THAT(std::vector<int>{i}, ElementsAre(1));
    throw std::system_error(i, std::generic_category(), s);
}
