// A job of many hosts that compare and then plan, in virtual time: the plugin's
// own code from hosts.c, plans.c and planner.c down to store_tcp.c, a host a
// coroutine, and a modelled store and network in place of sockets.
//
// The store has one thread, which serves requests in the order in which they
// come: each takes 'request_us', and each waiter that a SET wakes 'wake_us'
// more.  A message takes 'latency_us' whatever its size.  Hosts take no time.
// All ranks enter an epoch at once, since collectives keep them together.
#ifndef STP_TESTS_PLAN_SCALE_JOB_H
#define STP_TESTS_PLAN_SCALE_JOB_H

#include <cstdint>
#include <string>

namespace plan_scale
{

// Of time: virtual microseconds.
struct Input {
    uint64_t n_hosts = 2;
    uint64_t n_own = 8;          // ranks of a host
    uint64_t calls_per_s = 1000; // of a rank, while it waits for no plan
    int64_t latency_us = 50;     // one way: TCP within a data center
    int64_t request_us = 10;     // an epoll round with a read and a write
    int64_t wake_us = 10;        // a write
    int64_t arrive_us = 0; // from the first host's coming to the last one's
    unsigned lead = 1000;  // STEPTUNE_AGREE_LEAD: milliseconds, and calls
    uint64_t n_plans = 3;  // that are to be committed
};

struct Traffic {
    uint64_t n_requests = 0; // messages to the store
    uint64_t n_bytes = 0;    // both ways, without TCP's and IP's headers
};

struct Result {
    std::string fault; // empty: none
    Traffic compare;   // of all hosts, until all know the outcome
    int64_t compare_us = 0;
    Traffic plan;           // the last one, of all hosts
    int64_t known_us = 0;   // the longest from a proposal to the last host that
                            // knows the verdict, of plans that were committed
    int64_t spare_us = 0;   // the shortest from then until ranks come to the
                            // plan, of the same
    int64_t wait_us = 0;    // the longest that ranks waited for a verdict
    uint64_t n_dropped = 0; // plans
    double quiet = 0;       // messages a second once nothing is proposed
};

Result Run(const Input &input);

// A table's columns, and a row of it; both end with a newline.
std::string Header();
std::string Row(const Input &input, const Result &result);

// The input of a row; false if it is none.
bool ReadInput(const std::string &row, Input *input_ret);

} // namespace plan_scale

#endif // STP_TESTS_PLAN_SCALE_JOB_H
