// The file descriptors that this process has open.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>

inline std::ptrdiff_t CountOpenFiles()
{
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
}
