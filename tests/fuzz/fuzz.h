// The readers of bytes from outside, each as a function of these bytes: for
// libFuzzer (fuzz.cc), and for a test that has only the corpora (fuzz_test.cc).
#pragma once

#include <string>
#include <string_view>

extern "C" {
#include "core/status.h"
}

namespace fuzz
{

// Reads the bytes, and works with what they mean.  Returns what is wrong with
// the outcome, "" for nothing; for the rest there are sanitizers.
using Run = std::string (*)(std::string_view bytes);

struct Target {
    const char *name; // of its folder in corpus/
    Run run;
};

// NULL if there is none of that name.
const Target *Find(std::string_view name);

std::string Graphs(std::string_view bytes);
std::string Journal(std::string_view bytes);
std::string LearnedPolicy(std::string_view bytes);
std::string Ledger(std::string_view bytes);
std::string Machine(std::string_view bytes);
std::string MeasurementsCsv(std::string_view bytes);
std::string MemoryPolicy(std::string_view bytes);
std::string NcclLog(std::string_view bytes);
std::string NcclTests(std::string_view bytes);
std::string Overlap(std::string_view bytes);
std::string Policy(std::string_view bytes);
std::string Rewards(std::string_view bytes);
std::string Settings(std::string_view bytes);
std::string StagePolicy(std::string_view bytes);
std::string StageReport(std::string_view bytes);
std::string StoreOfJob(std::string_view bytes);
std::string Timings(std::string_view bytes);
std::string Trace(std::string_view bytes);
std::string TrainingRuns(std::string_view bytes);

// ---- for the targets ----

// Returns a fault unless the error of a failure is one printable sentence.
std::string FaultOf(const stp_error &err);

// A private folder, which is removed at the end, and a file in it that becomes
// 'bytes'; both return the path.
const std::string &Folder();
std::string WriteFile(const std::string &name, std::string_view bytes);

} // namespace fuzz
