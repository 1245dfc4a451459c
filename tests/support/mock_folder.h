// A temporary machine folder of a test.
#pragma once

#include "support/mock_test.h"
#include "support/temporary_folder.h"

namespace mock_test
{

// Initially a copy of h200x4 without its timings.
class Folder
{
  public:
    Folder()
    {
        for (const char *name : {"machine.csv", "graphs.xml"})
            Write(name, ReadFile(STP_FIXTURES "/machines/h200x4/" +
                                 std::string(name)));
    }

    void Write(const std::string &name, const std::string &text) const
    {
        std::ofstream(path_ + "/" + name) << text;
    }
    void Remove(const std::string &name) const
    {
        std::filesystem::remove(path_ + "/" + name);
    }
    // As 'machine' is, but with another NCCL.
    void WriteAs(const std::string &machine, const std::string &nccl) const
    {
        const std::string folder = STP_FIXTURES "/machines/" + machine + "/";
        std::string text = ReadFile(folder + "machine.csv");
        text.replace(text.rfind(',') + 1, std::string::npos, nccl + "\n");
        Write("machine.csv", text);
        Write("graphs.xml", ReadFile(folder + "graphs.xml"));
    }
    const std::string &Path() const
    {
        return path_;
    }

  private:
    TemporaryFolder folder_;
    const std::string &path_ = folder_.path();
};

constexpr char kTimingsHeader[] =
    "collective,bytes,algorithm,protocol,channels,nRanks,run,round,iters,"
    "mean_us,median_us,p95_us,min_us\n";

} // namespace mock_test
