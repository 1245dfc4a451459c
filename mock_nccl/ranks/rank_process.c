/* rank_process.c - a rank in a process of its own
 *
 * Orders, calls and outcomes are sent over a socket as they are in memory: both
 * ends are the same program. A machine is sent by value, because the process
 * does not have machines that were loaded after the fork. */
#define _GNU_SOURCE /* prctl(), strsignal() */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "machine/machine.h"
#include "ranks/rank.h"

enum { PATIENCE_MS = 10000 };

struct process {
    struct mock_carrier carrier;
    pid_t pid;  /* 0 once it has ended */
    int socket; /* socket to the process */
    struct mock_outcome *outcomes;
    size_t n_outcomes;
};

static struct process *rank_process_get(const struct mock_rank *rank)
{
    return (struct process *)rank->carrier;
}

/* ---- both ends ---- */

/* Sends all of the data, or receives it. */
static bool rank_process_move(int socket, void *data, size_t size, bool sends)
{
    char *at = data;

    while (size > 0) {
        ssize_t n = sends ? send(socket, at, size, MSG_NOSIGNAL)
                          : recv(socket, at, size, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* ---- the rank's end ---- */

/* Receives an order with its calls and its machine, which stays allocated until
 * the process ends, and makes room for its outcomes. */
static bool rank_process_receive_order(int socket, struct mock_order *order,
                                       struct mock_call **calls,
                                       struct mock_outcome **outcomes)
{
    struct mock_machine *machine;

    if (!rank_process_move(socket, order, sizeof(*order), false))
        return false;
    free(*calls);
    free(*outcomes);
    *calls = calloc(order->n_calls + 1, sizeof(**calls));
    *outcomes = calloc(order->n_calls + 1, sizeof(**outcomes));
    order->calls = *calls;
    if (*calls == NULL || *outcomes == NULL ||
        !rank_process_move(socket, *calls, order->n_calls * sizeof(**calls),
                           false))
        return false;
    if (order->machine == NULL)
        return true;
    machine = calloc(1, sizeof(*machine));
    order->machine = machine;
    if (machine == NULL ||
        !rank_process_move(socket, machine, sizeof(*machine), false))
        return false;
    machine->timings = NULL; /* communicators do not use them */
    machine->overlaps = NULL;
    return true;
}

/* ---- the caller's end ---- */

/* Reports the exit of the process. */
static ncclResult_t rank_process_report_exit(struct process *p)
{
    int status = 0;

    waitpid(p->pid, &status, 0);
    p->pid = 0;
    if (WIFSIGNALED(status))
        return mock_fail(ncclRemoteError, "its process ended: %s",
                         strsignal(WTERMSIG(status)));
    return mock_fail(ncclRemoteError, "its process ended with exit status %d",
                     WEXITSTATUS(status));
}

static void rank_process_end(struct mock_rank *rank)
{
    struct process *p = rank_process_get(rank);

    if (p->pid == 0)
        return;
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
    p->pid = 0;
}

static ncclResult_t rank_process_post(struct mock_rank *rank,
                                      const struct mock_order *order,
                                      struct mock_outcome *outcomes)
{
    struct process *p = rank_process_get(rank);

    p->outcomes = outcomes;
    p->n_outcomes = order->n_calls;
    if (p->pid == 0)
        return mock_fail(ncclRemoteError, "its process has ended");
    if (rank_process_move(p->socket, (void *)order, sizeof(*order), true) &&
        rank_process_move(p->socket, (void *)order->calls,
                          order->n_calls * sizeof(*order->calls), true) &&
        (order->machine == NULL ||
         rank_process_move(p->socket, (void *)order->machine,
                           sizeof(*order->machine), true)))
        return ncclSuccess;
    return rank_process_report_exit(p);
}

static ncclResult_t rank_process_wait_for(struct mock_rank *rank)
{
    struct process *p = rank_process_get(rank);
    struct pollfd fd = {.fd = p->socket, .events = POLLIN};
    struct mock_kept reply;
    int n;

    do
        n = poll(&fd, 1, PATIENCE_MS);
    while (n < 0 && errno == EINTR);
    if (n == 0) {
        rank_process_end(rank);
        return mock_fail(ncclInProgress, "has not come back for %d s",
                         PATIENCE_MS / 1000);
    }
    if (!rank_process_move(p->socket, &reply, sizeof(reply), false) ||
        !rank_process_move(p->socket, p->outcomes,
                           p->n_outcomes * sizeof(*p->outcomes), false))
        return rank_process_report_exit(p);
    return mock_restore(&reply);
}

static void rank_process_stop(struct mock_rank *rank)
{
    struct process *p = rank_process_get(rank);

    close(p->socket);
    if (p->pid != 0)
        waitpid(p->pid, NULL, 0);
    free(p);
    rank->carrier = NULL;
}

static const struct mock_carrier_ops ops = {
    rank_process_post, rank_process_wait_for, rank_process_end,
    rank_process_stop};

ncclResult_t mock_process_start(struct mock_rank *rank,
                                const struct mock_rank *others)
{
    struct process *p = calloc(1, sizeof(*p));
    int sockets[2];
    int error;

    if (p == NULL)
        return mock_fail_memory();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
        free(p);
        return mock_fail(ncclSystemError, "no socket for rank %d: %s",
                         rank->number, strerror(errno));
    }
    p->pid = fork();
    error = errno;
    if (p->pid == 0) {
        close(sockets[0]);

        /* Executes orders until the socket closes. */
        const int socket = sockets[1];
        struct mock_call *calls = NULL;
        struct mock_outcome *outcomes = NULL;
        struct mock_order order;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int i = 0; i < rank->number; i++)
            close(rank_process_get(&others[i])->socket);
        while (rank_process_receive_order(socket, &order, &calls, &outcomes)) {
            struct mock_kept reply;

            mock_keep(&reply, mock_rank_execute(rank, &order, outcomes));
            if (!rank_process_move(socket, &reply, sizeof(reply), true) ||
                !rank_process_move(socket, (void *)outcomes,
                                   order.n_calls * sizeof(*outcomes), true))
                break;
        }
        _exit(0); /* the caller's exit handlers must not run here */
    }
    close(sockets[1]);
    p->carrier.ops = &ops;
    p->socket = sockets[0];
    rank->carrier = &p->carrier;
    if (p->pid > 0)
        return ncclSuccess;
    p->pid = 0;
    rank_process_stop(rank);
    return mock_fail(ncclSystemError, "no process for rank %d: %s",
                     rank->number, strerror(error));
}
