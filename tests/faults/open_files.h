// The file descriptors that this process has open.
#ifndef OPEN_FILES_H
#define OPEN_FILES_H

#include <cstddef>
#include <filesystem>
#include <iterator>

inline std::ptrdiff_t CountOpenFiles()
{
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
}

#endif // OPEN_FILES_H
