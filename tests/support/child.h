// A child of the test's process.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

// The status of a child that does 'what' and then ends by 'end': 0 if nothing
// failed in it.
template <typename What> int StatusOfChild(What what, void (*end)(int) = _exit)
{
    int status = -1;
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        what();
        end(testing::Test::HasFailure() ? 1 : 0);
    }
    EXPECT_EQ(child, waitpid(child, &status, 0));
    return status;
}
