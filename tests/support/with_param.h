// A fixture of tests that have a parameter, too.
#pragma once

#include <gtest/gtest.h>

template <typename Fixture, typename Param>
class WithParam : public Fixture, public testing::WithParamInterface<Param>
{
};
