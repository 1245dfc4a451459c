// The files of a machine's folder.
#include "fuzz/fuzz.h"

#include <filesystem>

#include "mock_nccl.h"

extern "C" {
#include "model/graphs.h"
}

namespace fuzz
{

namespace
{

std::string FaultOfMock()
{
    return *mock_last_error() == '\0' ? "no sentence" : "";
}

// The machine h100x8, which has no times, in a folder of its own for each file
// that is 'bytes'.
std::string LoadWith(const std::string &name, std::string_view bytes)
{
    const std::string folder = Folder() + "/with-" + name;
    mock_machine *machine = nullptr;

    if (std::filesystem::create_directory(folder))
        for (const char *file : {"/machine.csv", "/graphs.xml"})
            std::filesystem::copy_file(STP_FIXTURES "/machines/h100x8" +
                                           std::string(file),
                                       folder + file);
    WriteFile("with-" + name + "/" + name, bytes);
    if (mock_machine_load(folder.c_str(), &machine) != ncclSuccess)
        return FaultOfMock();
    size_t sizes[16];
    mock_machine_sizes(machine, ncclFuncAllReduce, false, sizes, 16);
    mock_machine *resized = nullptr;
    if (mock_machine_resize(machine, 4, &resized) == ncclSuccess)
        mock_machine_free(resized);
    mock_machine_free(machine);
    return "";
}

} // namespace

std::string Graphs(std::string_view bytes)
{
    const std::string path = WriteFile("graphs.xml", bytes);
    mock_graphs graphs{};

    return mock_graphs_load(path.c_str(), 0, &graphs) == ncclSuccess
               ? ""
               : FaultOfMock();
}

std::string Machine(std::string_view bytes)
{
    return LoadWith("machine.csv", bytes);
}

std::string Timings(std::string_view bytes)
{
    return LoadWith("timings.csv", bytes);
}

std::string Overlap(std::string_view bytes)
{
    return LoadWith("overlap.csv", bytes);
}

} // namespace fuzz
