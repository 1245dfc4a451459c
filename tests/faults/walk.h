// Which calls of a program to fail: all of them, or a part of them.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <random>
#include <set>
#include <string>
#include <vector>

extern "C" {
#include "faults/faults.h"
}

namespace faults
{

inline constexpr const char *kKinds[FAULT_KINDS] = {
    "none",    "memory", "open", "map",   "thread",
    "process", "clock",  "read", "write", "file"};

// A plan that a program and its processes share.
class Plan
{
  public:
    // 'file' -1: of this process and its children.
    explicit Plan(int file = -1)
    {
        void *memory =
            mmap(nullptr, sizeof(fault_plan), PROT_READ | PROT_WRITE,
                 MAP_SHARED | (file < 0 ? MAP_ANONYMOUS : 0), file, 0);
        if (memory == MAP_FAILED)
            abort();
        plan_ = new (memory) fault_plan{};
    }
    Plan(const Plan &) = delete;
    Plan &operator=(const Plan &) = delete;
    ~Plan()
    {
        munmap(plan_, sizeof(fault_plan));
    }

    fault_plan *get() const
    {
        return plan_;
    }
    fault_plan *operator->() const
    {
        return plan_;
    }

  private:
    fault_plan *plan_;
};

struct Fault {
    fault_kind kind;
    uint32_t n;
    bool for_good;
};

inline std::string Named(const Fault &fault)
{
    return std::string(kKinds[fault.kind]) + " call " +
           std::to_string(fault.n) + (fault.for_good ? " and later" : "");
}

// At most so many of 1 to n_calls: some of the first, where most differs, and
// others at random.
inline std::set<uint32_t> Spread(uint32_t n_calls, uint32_t most,
                                 std::mt19937_64 *random)
{
    std::set<uint32_t> numbers;

    for (uint32_t n = 1; n <= n_calls && n <= most / 2; n++)
        numbers.insert(n);
    while (numbers.size() < n_calls && numbers.size() < most)
        numbers.insert(1 + static_cast<uint32_t>((*random)() % n_calls));
    return numbers;
}

// The faults to walk through in a program that does so many calls of each kind:
// at most 'most' of a kind.
inline std::vector<Fault> Choose(const fault_plan &counted, uint32_t most,
                                 uint64_t seed)
{
    std::mt19937_64 random(seed);
    std::vector<Fault> faults;

    for (int k = FAULT_MEMORY; k < FAULT_KINDS; k++)
        for (uint32_t n : Spread(counted.n_calls[k], most, &random))
            for (bool for_good : {false, true})
                if (most >= 100 || for_good == (random() % 2 == 0))
                    faults.push_back({static_cast<fault_kind>(k), n, for_good});
    return faults;
}

// A line: how many of a scenario's faults struck, and the calls by kind.
inline void PrintWalk(const char *name, const std::vector<Fault> &faults,
                      size_t n_struck, const fault_plan &counted)
{
    printf("%s: %zu faults, of which %zu struck;", name, faults.size(),
           n_struck);
    for (int k = FAULT_MEMORY; k < FAULT_KINDS; k++)
        printf(" %s %u", kKinds[k], counted.n_calls[k]);
    printf("\n");
    fflush(stdout);
}

// The limit on the calls of a kind that fail in a scenario; 0: the test's own.
inline uint32_t most_of_a_kind = 0;

inline uint32_t MostOfAKind(uint32_t in_test)
{
    return most_of_a_kind != 0 ? most_of_a_kind : in_test;
}

// "all", which is 'all', or a number.
inline void ReadArguments(int argc, char **argv, uint32_t all)
{
    if (argc > 1)
        most_of_a_kind = std::string(argv[1]) == "all"
                             ? all
                             : static_cast<uint32_t>(atoi(argv[1]));
}

} // namespace faults
