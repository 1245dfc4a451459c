// A job of one rank for `steptune run`: mock NCCL with the tuner that
// NCCL_TUNER_PLUGIN names, so many calls of a collective, and an end.
//
//   mock_job MACHINE END CALLSxBYTES...
//
// END: "finalize" destroys the communicator, "exit" leaves it, "crash" aborts,
// "wait" says "ready" and waits for a signal, a number is the exit status.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

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

} // namespace

int main(int argc, char **argv)
{
    mock_nccl_options options{};
    mock_nccl *nccl;
    mock_machine *machine;
    mock_comm *comm;

    options.tuner_plugin = getenv("NCCL_TUNER_PLUGIN");
    if (argc < 3 || mock_nccl_create(&options, &nccl) != ncclSuccess ||
        mock_machine_load(argv[1], &machine) != ncclSuccess ||
        mock_comm_create(nccl, machine, mock_new_comm_id(), &comm) !=
            ncclSuccess)
        return 99;
    for (int i = 3; i < argc; i++) {
        char *x;
        long n = strtol(argv[i], &x, 10);
        mock_call call{};
        call.coll = ncclFuncAllReduce;
        call.n_bytes = strtoull(x + 1, nullptr, 10);
        for (long k = 0; k < n; k++) {
            mock_outcome outcome;
            if (mock_comm_collective(comm, &call, &outcome) != ncclSuccess)
                return 98;
        }
    }
    if (std::string(argv[2]) != "finalize")
        _exit(End(argv[2])); // what it leaves is no leak of ours
    mock_comm_destroy(comm);
    mock_nccl_destroy(nccl);
    mock_machine_free(machine);
    return 0;
}
