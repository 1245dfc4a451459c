// plan_scale - what it costs the store and the job that hosts compare and plan:
// a table of jobs of 8 ranks a host up to 16,384 ranks, in virtual time
// (plan_scale_job.h).  Without options that of fixtures/reports/plan_scale.csv.
#include "agree/plan_scale_job.h"

#include <getopt.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace
{

// A store of the job's own cluster, with few calls and many; one whose hosts
// come within a second; one that is ten times as slow; one that is far away,
// with few calls and many, and with more lead.
constexpr struct {
    uint64_t calls_per_s;
    int64_t latency_us, request_us, wake_us, arrive_us;
    unsigned lead;
} kJobs[] = {
    {1000, 50, 10, 10, 0, 1000},       {10000, 50, 10, 10, 0, 1000},
    {1000, 50, 10, 10, 1000000, 1000}, {1000, 50, 100, 100, 0, 1000},
    {1000, 200000, 10, 10, 0, 1000},   {10000, 200000, 10, 10, 0, 1000},
    {1000, 200000, 10, 10, 0, 3000},
};

constexpr uint64_t kHosts[] = {2, 8, 64, 256, 1024, 2048};

const option kOptions[] = {{"hosts", required_argument, nullptr, 'n'},
                           {"calls", required_argument, nullptr, 'c'},
                           {"latency-us", required_argument, nullptr, 'l'},
                           {"request-us", required_argument, nullptr, 'r'},
                           {"wake-us", required_argument, nullptr, 'w'},
                           {"arrive-us", required_argument, nullptr, 'a'},
                           {"lead", required_argument, nullptr, 'L'},
                           {nullptr, 0, nullptr, 0}};

std::vector<plan_scale::Input> Table()
{
    std::vector<plan_scale::Input> inputs;

    for (const auto &job : kJobs)
        for (uint64_t n_hosts : kHosts) {
            plan_scale::Input input;
            input.n_hosts = n_hosts;
            input.calls_per_s = job.calls_per_s;
            input.latency_us = job.latency_us;
            input.request_us = job.request_us;
            input.wake_us = job.wake_us;
            input.arrive_us = job.arrive_us;
            input.lead = job.lead;
            inputs.push_back(input);
        }
    return inputs;
}

bool ReadOptions(int argc, char **argv, plan_scale::Input *input)
{
    int key;

    while ((key = getopt_long(argc, argv, "", kOptions, nullptr)) != -1) {
        const int64_t number = key == '?' ? 0 : atoll(optarg);
        if (number < 1)
            return false;
        if (key == 'n')
            input->n_hosts = static_cast<uint64_t>(number);
        else if (key == 'c')
            input->calls_per_s = static_cast<uint64_t>(number);
        else if (key == 'l')
            input->latency_us = number;
        else if (key == 'r')
            input->request_us = number;
        else if (key == 'w')
            input->wake_us = number;
        else if (key == 'a')
            input->arrive_us = number;
        else
            input->lead = static_cast<unsigned>(number);
    }
    return optind == argc && input->n_hosts > 1;
}

} // namespace

int main(int argc, char **argv)
{
    std::vector<plan_scale::Input> inputs(1);

    if (!ReadOptions(argc, argv, &inputs[0])) {
        fprintf(stderr, "Usage: plan_scale [--hosts N] [--calls PER_SECOND] "
                        "[--latency-us N] [--request-us N] [--wake-us N] "
                        "[--arrive-us N] [--lead N]\n");
        return 2;
    }
    if (argc == 1)
        inputs = Table();
    printf("# all modelled, by tests/agree/plan_scale.cc: the hosts' own code "
           "in virtual time, a modelled store and network\n%s",
           plan_scale::Header().c_str());
    for (const plan_scale::Input &input : inputs) {
        const plan_scale::Result result = plan_scale::Run(input);
        if (!result.fault.empty()) {
            fprintf(stderr, "plan_scale: %d hosts: %s\n",
                    static_cast<int>(input.n_hosts), result.fault.c_str());
            return 1;
        }
        fputs(plan_scale::Row(input, result).c_str(), stdout);
        fflush(stdout);
    }
    return 0;
}
