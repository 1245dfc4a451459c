// A test with a folder of its own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "support/temporary_folder.h"

extern "C" {
#include "core/status.h"
}

class InFolder : public testing::Test
{
  protected:
    std::string Path(const std::string &name) const
    {
        return (dir_ / name).string();
    }

    // Reads a file of the folder, or one elsewhere by its whole path.
    std::string Read(const std::string &name) const
    {
        return ReadFile(dir_ / name);
    }

    // Returns the path.
    std::string Write(const std::string &name, const std::string &text) const
    {
        std::ofstream(dir_ / name) << text;
        return Path(name);
    }

    // The names in it, in order.
    std::vector<std::string> Files() const
    {
        std::vector<std::string> names;
        for (const auto &entry : std::filesystem::directory_iterator(dir_))
            names.push_back(entry.path().filename());
        std::sort(names.begin(), names.end());
        return names;
    }

    TemporaryFolder folder_;
    const std::filesystem::path dir_ = folder_.path();
    stp_error err_{};
};
