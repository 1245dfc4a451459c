// A folder that nothing else uses: tests run at the same time.
#pragma once

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

#include "support/read_file.h"

// Is removed with all that is in it.
class TemporaryFolder
{
  public:
    // Its name ends in six of letters that spell no word: tests look for words
    // and numbers in what is printed of it, and mkdtemp() could spell those.
    TemporaryFolder()
    {
        for (unsigned n = static_cast<unsigned>(getpid());; n++) {
            for (size_t i = 0; i < 6; i++)
                path_[path_.size() - 1 - i] = "jkqvwxyz"[n >> 3 * i & 7];
            if (mkdir(path_.c_str(), 0700) == 0)
                return;
            if (errno != EEXIST)
                throw std::system_error(errno, std::generic_category(), path_);
        }
    }
    ~TemporaryFolder()
    {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder &) = delete;
    TemporaryFolder &operator=(const TemporaryFolder &) = delete;

    const std::string &path() const
    {
        return path_;
    }
    // The path of a file in the folder.
    std::string Path(const std::string &name) const
    {
        return path_ + "/" + name;
    }

  private:
    std::string path_ =
        std::filesystem::temp_directory_path() / "steptune-test-XXXXXX";
};
