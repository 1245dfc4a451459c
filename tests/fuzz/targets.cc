// The targets by name, and what they share.
#include "fuzz/fuzz.h"

#include <cstdlib>
#include <cstring>

#include "support/temporary_folder.h"

namespace fuzz
{

static const Target kTargets[] = {
    {"graphs", Graphs},
    {"journal", Journal},
    {"learned_policy", LearnedPolicy},
    {"ledger", Ledger},
    {"machine", Machine},
    {"measurements_csv", MeasurementsCsv},
    {"memory_policy", MemoryPolicy},
    {"nccl_log", NcclLog},
    {"nccl_tests_json", NcclTests},
    {"nccl_tests_text", NcclTests},
    {"overlap", Overlap},
    {"policy", Policy},
    {"rewards", Rewards},
    {"settings", Settings},
    {"stage_policy", StagePolicy},
    {"stage_report", StageReport},
    {"store", StoreOfJob},
    {"timings", Timings},
    {"trace_csv", Trace},
    {"trace_execution", Trace},
    {"trace_flight", Trace},
    {"trace_gzip", Trace},
    {"trace_inspector", Trace},
    {"trace_profiler", Trace},
    {"training_runs", TrainingRuns},
};

const Target *Find(std::string_view name)
{
    for (const Target &target : kTargets)
        if (name == target.name)
            return &target;
    return nullptr;
}

std::string FaultOf(const stp_error &err)
{
    const std::string text(err.text, strnlen(err.text, sizeof(err.text)));
    if (text.empty() || text.size() == sizeof(err.text))
        return "no sentence";
    for (char c : text)
        if ((static_cast<unsigned char>(c) < ' ' && c != '\t') || c == 0x7f)
            return "a control character in: " + text;
    return "";
}

// ---- files ----

const std::string &Folder()
{
    static const TemporaryFolder folder;
    return folder.path();
}

std::string WriteFile(const std::string &name, std::string_view bytes)
{
    const std::string path = Folder() + "/" + name;
    std::filesystem::create_directories(
        std::filesystem::path(path).parent_path());
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!file.flush())
        abort();
    return path;
}

} // namespace fuzz
