// Storms run and count random jobs, one a seed; a fault is printed with the
// seed of its job.
#pragma once

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace storms
{

struct Outcome {
    std::string wrong;                // "": nothing
    std::vector<std::string> marks{}; // what it was, of which jobs are counted

    void Mark(bool is_so, const std::string &mark)
    {
        if (is_so)
            marks.push_back(mark);
    }
};

// A number of the command line, or the usual one.
inline uint64_t Argument(int argc, char **argv, int i, uint64_t usual)
{
    return argc > i ? strtoull(argv[i], nullptr, 10) : usual;
}

// Runs so many jobs, of 'seed' and those that follow it, until 'most_wrong' are
// wrong; prints how many had each mark, in the end and each 'print_each' jobs.
// False if one was wrong.
template <typename Run>
bool RunAll(const char *what, uint64_t n, uint64_t seed, const Run &run,
            uint64_t most_wrong = 1, uint64_t print_each = UINT64_MAX)
{
    std::map<std::string, uint64_t> counts;
    uint64_t n_wrong = 0;

    for (uint64_t i = 0; i < n && n_wrong < most_wrong; i++) {
        const Outcome outcome = run(seed + i);
        for (const std::string &mark : outcome.marks)
            counts[mark]++;
        if (!outcome.wrong.empty()) {
            printf("seed %" PRIu64 ", %s: %s\n", seed + i, what,
                   outcome.wrong.c_str());
            n_wrong++;
        }
        if (i + 1 != n && (i + 1) % print_each != 0)
            continue;
        printf("%10" PRIu64 " %s, %" PRIu64 " wrong:", i + 1, what, n_wrong);
        for (const auto &[mark, count] : counts)
            printf(" %" PRIu64 " %s;", count, mark.c_str());
        printf("\n");
        fflush(stdout);
    }
    return n_wrong == 0;
}

} // namespace storms
