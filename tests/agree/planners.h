// Hosts that plan through a store, in virtual time and in random order, while
// hosts, connections and the store fail.
#ifndef STP_TESTS_PLANNERS_H
#define STP_TESTS_PLANNERS_H

#include <cstdint>
#include <string>

namespace planners
{

// Of one schedule, or of several.
struct Outcome {
    std::string fault;        // empty: none
    uint64_t n_published;     // plans
    uint64_t n_committed;     // plans
    uint64_t n_words;         // that ranks took
    uint64_t n_failed;        // ranks, by name
    uint64_t n_late;          // verdicts that a host did not hear in time,
                              // without any failure
    uint64_t n_requests;      // to the store
    uint64_t n_with_failures; // of hosts, connections or the store
    uint64_t n_store_losses;  // with failures of the store

    void Add(const Outcome &outcome)
    {
        fault = outcome.fault;
        n_published += outcome.n_published;
        n_committed += outcome.n_committed;
        n_words += outcome.n_words;
        n_failed += outcome.n_failed;
        n_late += outcome.n_late;
        n_requests += outcome.n_requests;
        n_with_failures += outcome.n_with_failures;
        n_store_losses += outcome.n_store_losses;
    }
};

// One schedule.
Outcome RunRandom(uint64_t seed);

} // namespace planners

#endif // STP_TESTS_PLANNERS_H
