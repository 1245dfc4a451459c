// Runs collectives on real GPUs in a child process, and reads from NCCL's log
// and a recording tuner what NCCL asked and what it ran.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace recording
{

inline constexpr size_t kMaxBytes = size_t{256} << 20; // of a rank's buffer
inline constexpr const char *kColls[] = {"broadcast", "reduce", "allgather",
                                         "reducescatter", "allreduce"};

struct Op {
    int coll;         // place in kColls
    size_t count;     // elements, as the application gives them
    const char *type; // bf16, f32 or i8
};
using Group = std::vector<Op>;

size_t SizeOf(const Op &op); // of an element

// A question that NCCL asked the tuner.
struct Question {
    int coll;
    size_t n_bytes;
    std::string shape_and_costs; // as choices.csv has it
    int forced;                  // entry of the table; -1: none
    int asked;                   // channels
};

// A collective as it ran on rank 0.
struct Ran {
    std::string coll; // as NCCL writes it, in small letters
    size_t n_bytes;   // as NCCL writes it: of one rank's count
    std::string algo;
    std::string proto;
    int n_channels;
};

struct Recorded {
    std::vector<Question> questions;
    std::vector<Ran> runs;
    std::string gpu; // "NAME,COMPUTE CAPABILITY"
};

// Runs the groups on the first 'n_ranks' GPUs.  Leaves NCCL's log and its
// search graphs (graphs.xml) in 'dir'.  With 'force', a tuner chooses at
// random.
Recorded Record(int n_ranks, const std::vector<Group> &groups, bool force,
                const std::filesystem::path &dir);

// machine.csv of that machine: what the graphs do not say.
void WriteMachine(const std::filesystem::path &dir, const Recorded &recorded);

} // namespace recording
