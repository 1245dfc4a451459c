// Where ranks can live, for tests of what must hold wherever they do.
#pragma once

#include <memory>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "mock_ranks.h"

struct FreeRanks {
    void operator()(mock_ranks *ranks) const
    {
        mock_ranks_destroy(ranks);
    }
};
using Ranks = std::unique_ptr<mock_ranks, FreeRanks>;

struct Layout {
    const char *name;
    mock_layout layout;
    bool at_once;

    friend void PrintTo(const Layout &l, std::ostream *out)
    {
        *out << l.name;
    }
};

inline auto AllLayouts()
{
    return testing::Values(Layout{"OneThread", MOCK_ONE_THREAD, false},
                           Layout{"OneThreadAtOnce", MOCK_ONE_THREAD, true},
                           Layout{"Threads", MOCK_THREADS, false},
                           Layout{"ThreadsAtOnce", MOCK_THREADS, true},
                           Layout{"Processes", MOCK_PROCESSES, false},
                           Layout{"ProcessesAtOnce", MOCK_PROCESSES, true});
}

inline std::string LayoutName(const testing::TestParamInfo<Layout> &test)
{
    return test.param.name;
}
