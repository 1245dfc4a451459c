// A job for `steptune run`: mock NCCL with the tuner that
// NCCL_TUNER_PLUGIN names, so many calls of a collective, and an end.
//
//   mock_job MACHINE END CALLSxBYTES...
//   mock_job MACHINE END @STEPS CALLSxBYTES...
//
// The second, for what learns, is of all ranks: so many steps in virtual time,
// of these calls each (g4096 is an all-gather), with the profiler that
// NCCL_PROFILER_PLUGIN names.
//
// END: "finalize" destroys the communicator, "exit" leaves it, "crash" aborts,
// "wait" says "ready" and waits for a signal, a number is the exit status.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/job/mock_job.h"
#include "mock_nccl.h"

namespace
{

// The exit status.
int End(const std::string &how)
{
    sigset_t term;
    int got = 0;
    if (how == "crash")
        abort();
    if (how != "wait")
        return atoi(how.c_str());
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, nullptr);
    puts("ready");
    fflush(stdout);
    sigwait(&term, &got);
    return 40 + got;
}

// One "CALLSxBYTES", an all-reduce, or "CALLSxgBYTES", an all-gather.
long ParseCalls(const char *text, mock_call *call)
{
    char *x;
    long n = strtol(text, &x, 10);
    *call = {};
    const bool gather = x[1] == 'g';
    call->coll = gather ? ncclFuncAllGather : ncclFuncAllReduce;
    call->n_bytes = strtoull(x + 1 + gather, nullptr, 10);
    return n;
}

// One rank alone, which stands for all.
bool CallEach(mock_comm *comm, char **calls)
{
    for (; *calls != nullptr; calls++) {
        mock_call call;
        for (long n = ParseCalls(*calls, &call); n > 0; n--) {
            mock_outcome outcome;
            if (mock_comm_collective(comm, &call, &outcome) != ncclSuccess)
                return false;
        }
    }
    return true;
}

// All ranks, in steps.
bool PlaySteps(mock_job *job, size_t n_steps)
{
    if (mock_job_play(job, n_steps) == ncclSuccess)
        return true;
    fprintf(stderr, "mock_job: %s\n", mock_last_error());
    return false;
}

std::vector<mock_job_call> Step(char **calls)
{
    std::vector<mock_job_call> step;
    for (; *calls != nullptr; calls++) {
        mock_job_call call{};
        call.compute_us = 50;
        for (long n = ParseCalls(*calls, &call.call); n > 0; n--)
            step.push_back(call);
    }
    return step;
}

int Train(mock_nccl *nccl, mock_machine *machine, const std::string &end,
          char **argv)
{
    const std::vector<mock_job_call> step = Step(argv + 1);
    mock_job_options options{};
    mock_job *job;

    options.comm_id = mock_new_comm_id();
    options.step = {step.data(), step.size(), 100};
    if (mock_job_create(nccl, machine, &options, &job) != ncclSuccess)
        return 99;
    if (!PlaySteps(job, strtoul(argv[0] + 1, nullptr, 10)))
        return 98;
    if (end != "finalize")
        _exit(End(end));
    mock_job_destroy(job);
    return 0;
}

int CallAlone(mock_nccl *nccl, mock_machine *machine, const std::string &end,
              char **argv)
{
    mock_comm *comm;

    setenv("STEPTUNE_AGREE", "assume", 1);
    if (mock_comm_create(nccl, machine, mock_new_comm_id(), &comm) !=
        ncclSuccess)
        return 99;
    if (!CallEach(comm, argv))
        return 98;
    if (end != "finalize")
        _exit(End(end)); // what it leaves is no leak of ours
    mock_comm_destroy(comm);
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    mock_nccl_options options{};
    mock_nccl *nccl;
    mock_machine *machine;
    int status;

    options.tuner_plugin = getenv("NCCL_TUNER_PLUGIN");
    options.profiler_plugin = getenv("NCCL_PROFILER_PLUGIN");
    if (argc < 3 || mock_nccl_create(&options, &nccl) != ncclSuccess ||
        mock_machine_load(argv[1], &machine) != ncclSuccess)
        return 99;
    status = argc > 3 && argv[3][0] == '@'
                 ? Train(nccl, machine, argv[2], argv + 3)
                 : CallAlone(nccl, machine, argv[2], argv + 3);
    mock_nccl_destroy(nccl);
    mock_machine_free(machine);
    return status;
}
