// Tests with a parameter: fixtures of them, and their names.
#pragma once

#include <string>

#include <gtest/gtest.h>

template <typename Fixture, typename Param>
class WithParam : public Fixture, public testing::WithParamInterface<Param>
{
};

// For INSTANTIATE_TEST_SUITE_P over cases with a name.
struct CaseName {
    template <class T>
    std::string operator()(const testing::TestParamInfo<T> &test) const
    {
        return test.param.name;
    }
};
