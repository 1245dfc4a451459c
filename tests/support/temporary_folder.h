// A folder that nothing else uses: tests run at the same time.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

// Is removed with all that is in it.
class TemporaryFolder
{
  public:
    TemporaryFolder()
    {
        if (mkdtemp(path_.data()) == nullptr)
            throw std::system_error(errno, std::generic_category(), path_);
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
