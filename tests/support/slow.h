/* slow.h - the mark of a test that a build with sanitizers leaves out: it takes
 * minutes there, others run the same code with less, or it forks, which the
 * sanitizers' own threads and locks do not survive */
#pragma once

#include <cstdlib>

#include <gtest/gtest.h>

/* STEPTUNE_SKIP_SLOW is set by the test presets of builds with sanitizers; it
 * is read before a fixture clears the environment. */
inline const bool kSkipsSlow = std::getenv("STEPTUNE_SKIP_SLOW") != nullptr;

/* The first statement of such a test. */
#define STP_SLOW()                                                             \
    do {                                                                       \
        if (kSkipsSlow)                                                        \
            GTEST_SKIP() << "takes minutes with sanitizers, or forks";         \
    } while (0)
