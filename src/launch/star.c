#include "launch/star.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/clock.h"
#include "launch/wire.h"

enum {
    LOOK_MS = 1000,    /* between looks for hosts that do not answer */
    FAREWELL_MS = 500, /* for a last frame to those who do not read */
};

/* What is known of a process. */
struct process {
    char host[64];
    uint64_t pid; /* 0: not known yet */
};

struct stp_star {
    unsigned rank, size;
    struct process *processes;
    struct stp_wire *wires; /* rank 0: [r] to rank r, [0] unused; others: [0] */
    struct pollfd *polled;  /* one a wire */
    bool *told;             /* one a wire: send_last() began its frame */
    int64_t looked_ms;      /* for hosts that do not answer */
    enum stp_status status; /* why nothing works any more, or STP_OK */
    struct stp_error why;
};

/* The wires are [first, end). */
static unsigned first_wire(const struct stp_star *star)
{
    return star->rank == 0 ? 1 : 0;
}

static unsigned end_wire(const struct stp_star *star)
{
    return star->rank == 0 ? star->size : 1;
}

/* ---- what went wrong ---- */

enum { WHO = 128 };

static const char *who(const struct stp_star *star, unsigned rank,
                       char text[WHO])
{
    const struct process *p = &star->processes[rank];

    if (p->pid == 0)
        snprintf(text, WHO, "rank %u", rank);
    else
        snprintf(text, WHO, "rank %u (%s, process %llu)", rank, p->host,
                 (unsigned long long)p->pid);
    return text;
}

static const char *what_happened(enum stp_wire_state state)
{
    static const char *const words[] = {
        [STP_WIRE_LEFT] = "has left the run",
        [STP_WIRE_DEAD] = "died",
        [STP_WIRE_BROKEN] = "sent what does not belong to this run, or too "
                            "much for this host's memory",
    };

    return words[state];
}

/* ---- sockets ---- */

static void look_for_stuck(struct stp_star *star)
{
    int64_t now = stp_now_ms();

    if (now - star->looked_ms < LOOK_MS)
        return;
    star->looked_ms = now;
    for (unsigned i = first_wire(star); i < end_wire(star); i++)
        if (stp_wire_is_stuck(&star->wires[i]))
            stp_wire_end(&star->wires[i], STP_WIRE_DEAD);
}

/* Waits until a socket is ready, and reads and writes what goes. */
static void turn(struct stp_star *star, int timeout_ms)
{
    unsigned first = first_wire(star);
    unsigned end = end_wire(star);
    int n_ready;

    for (unsigned i = first; i < end; i++)
        star->polled[i] = (struct pollfd){
            .fd = star->wires[i].fd,
            .events = star->wires[i].sending ? POLLIN | POLLOUT : POLLIN};
    n_ready = poll(star->polled + first, end - first, timeout_ms);
    for (unsigned i = first; n_ready > 0 && i < end; i++) {
        if (star->polled[i].revents == 0)
            continue;
        stp_wire_receive(&star->wires[i]);
        stp_wire_flush(&star->wires[i]);
    }
    look_for_stuck(star);
}

/* Whether all have what has been begun. */
static bool flush_all(struct stp_star *star)
{
    bool done = true;

    for (unsigned i = first_wire(star); i < end_wire(star); i++)
        done = stp_wire_flush(&star->wires[i]) && done;
    return done;
}

/* The caller's memory, which is on its way, goes away with this call. */
static void stop_sending(struct stp_star *star)
{
    for (unsigned i = first_wire(star); i < end_wire(star); i++)
        if (star->wires[i].sending)
            stp_wire_end(&star->wires[i], STP_WIRE_LEFT);
}

/* A last frame to all, each behind what is on its way there already.  Whoever
 * does not read it finds the socket closed. */
static void send_last(struct stp_star *star, enum stp_wire_kind kind,
                      uint32_t number, const char *text)
{
    int64_t deadline = stp_now_ms() + FAREWELL_MS;
    bool done;

    memset(star->told, 0, end_wire(star) * sizeof(*star->told));
    for (;;) {
        done = true;
        for (unsigned i = first_wire(star); i < end_wire(star); i++) {
            if (!star->told[i])
                star->told[i] = stp_wire_begin(&star->wires[i], kind, number,
                                               text, strlen(text));
            done = star->told[i] && done;
        }
        done = flush_all(star) && done;
        if (done || stp_now_ms() >= deadline)
            break;
        turn(star, 10);
    }
    stop_sending(star);
}

/* ---- failures ---- */

static enum stp_status failed(const struct stp_star *star,
                              struct stp_error *err)
{
    if (err != NULL)
        *err = star->why;
    return star->status;
}

/* The first failure is the one that everybody hears of. */
static void fail(struct stp_star *star, enum stp_status status,
                 const struct stp_error *why)
{
    star->status = status;
    star->why = *why;
    if (star->rank == 0)
        send_last(star, STP_WIRE_NOTICE, status, why->text);
    else
        stop_sending(star);
}

static void fail_rank(struct stp_star *star, unsigned rank,
                      enum stp_wire_state state)
{
    struct stp_error why = {0};
    char text[WHO];

    stp_fail(&why, STP_ERR_DEVICE, "%s %s", who(star, rank, text),
             what_happened(state));
    fail(star, STP_ERR_DEVICE, &why);
}

/* Looks at what turn() found out.  Who left is missed only if among the first
 * 'n_needed'. */
static enum stp_status check(struct stp_star *star, unsigned n_needed,
                             struct stp_error *err)
{
    for (unsigned i = first_wire(star);
         i < end_wire(star) && star->status == STP_OK; i++) {
        const struct stp_wire *wire = &star->wires[i];

        if (star->rank != 0 && wire->has_notice)
            fail(star, wire->notice_status, &wire->notice);
        else if (wire->state == STP_WIRE_DEAD ||
                 wire->state == STP_WIRE_BROKEN ||
                 (wire->state == STP_WIRE_LEFT && i < n_needed))
            fail_rank(star, i, wire->state);
    }
    return star->status == STP_OK ? STP_OK : failed(star, err);
}

/* ---- exchange ---- */

/* memcpy() does not take NULL, not even for no bytes. */
static void copy(void *to, const void *from, size_t size)
{
    if (size > 0)
        memcpy(to, from, size);
}

static bool have_all(const struct stp_star *star, unsigned n)
{
    for (unsigned r = 1; r < n; r++)
        if (!star->wires[r].has_data)
            return false;
    return true;
}

static enum stp_status gather(struct stp_star *star, unsigned n,
                              struct stp_error *err)
{
    enum stp_status status;

    while ((status = check(star, n, err)) == STP_OK && !have_all(star, n))
        turn(star, LOOK_MS);
    return status;
}

/* That all gave as much, in the same part. */
static enum stp_status compare(struct stp_star *star, unsigned n, size_t size,
                               struct stp_error *err)
{
    struct stp_error why = {0};
    char text[WHO];

    for (unsigned r = 1; r < n; r++) {
        const struct stp_wire_header *data = &star->wires[r].data;

        if (data->number != n)
            stp_fail(&why, STP_ERR_RANGE,
                     "%s exchanges among %u processes, rank 0 among %u",
                     who(star, r, text), data->number, n);
        else if (data->size != size)
            stp_fail(&why, STP_ERR_RANGE,
                     "%s gave %llu bytes to exchange, rank 0 gave %zu",
                     who(star, r, text), (unsigned long long)data->size, size);
        else
            continue;
        fail(star, STP_ERR_RANGE, &why);
        return failed(star, err);
    }
    return STP_OK;
}

static enum stp_status scatter(struct stp_star *star, unsigned n,
                               const void *all, size_t size,
                               struct stp_error *err)
{
    enum stp_status status = STP_OK;

    for (unsigned r = 1; r < n; r++)
        stp_wire_begin(&star->wires[r], STP_WIRE_DATA, n, all, size);
    while (!flush_all(star)) {
        turn(star, LOOK_MS);
        status = check(star, 0, err); /* who has it all may leave */
        if (status != STP_OK)
            break;
    }
    return status;
}

static enum stp_status exchange_as_first(struct stp_star *star, unsigned n,
                                         const void *mine, size_t size,
                                         void *all_ret, struct stp_error *err)
{
    unsigned char *all = all_ret;
    enum stp_status status = gather(star, n, err);

    if (status == STP_OK)
        status = compare(star, n, size, err);
    if (status != STP_OK)
        return status;
    copy(all, mine, size);
    for (unsigned r = 1; r < n; r++) {
        copy(all + r * size, star->wires[r].body, size);
        star->wires[r].has_data = false;
    }
    return scatter(star, n, all, n * size, err);
}

static enum stp_status exchange_as_other(struct stp_star *star, unsigned n,
                                         const void *mine, size_t size,
                                         void *all_ret, struct stp_error *err)
{
    struct stp_wire *wire = &star->wires[0];
    enum stp_status status;

    stp_wire_begin(wire, STP_WIRE_DATA, n, mine, size);
    stp_wire_flush(wire);
    /* What came before rank 0 went is good. */
    while (!wire->has_data) {
        status = check(star, n, err);
        if (status != STP_OK)
            return status;
        turn(star, LOOK_MS);
    }
    if (wire->data.size != n * size) {
        fail_rank(star, 0, STP_WIRE_BROKEN);
        return failed(star, err);
    }
    copy(all_ret, wire->body, n * size);
    wire->has_data = false;
    return STP_OK;
}

enum stp_status stp_star_exchange(struct stp_star *star, unsigned n,
                                  const void *mine, size_t size, void *all_ret,
                                  struct stp_error *err)
{
    if (star->status != STP_OK)
        return failed(star, err);
    if (star->rank == 0)
        return exchange_as_first(star, n, mine, size, all_ret, err);
    return exchange_as_other(star, n, mine, size, all_ret, err);
}

bool stp_star_alive(struct stp_star *star, struct stp_error *err)
{
    if (star->status == STP_OK)
        turn(star, 0);
    return check(star, 0, err) == STP_OK;
}

unsigned stp_star_count_local(const struct stp_star *star, unsigned n)
{
    const char *host = star->processes[star->rank].host;
    unsigned n_local = 0;

    for (unsigned r = 0; r < n; r++)
        n_local += strcmp(star->processes[r].host, host) == 0;
    return n_local;
}

/* ---- opening and closing ---- */

static void free_star(struct stp_star *star)
{
    free(star->told);
    free(star->polled);
    free(star->wires);
    free(star->processes);
    free(star);
}

/* What has arrived is read first: closing a socket before would throw away what
 * was just sent. */
void stp_star_close(struct stp_star *star)
{
    turn(star, 0);
    send_last(star, STP_WIRE_BYE, 0, "");
    for (unsigned i = first_wire(star); i < end_wire(star); i++)
        stp_wire_close(&star->wires[i]);
    free_star(star);
}

static enum stp_status make(unsigned rank, unsigned size,
                            struct stp_star **star_ret, struct stp_error *err)
{
    unsigned n_wires = rank == 0 ? size : 1;
    struct stp_star *star = calloc(1, sizeof(*star));

    if (star == NULL)
        return stp_nomem(err);
    star->rank = rank;
    star->size = size;
    star->processes = calloc(size, sizeof(*star->processes));
    star->wires = calloc(n_wires, sizeof(*star->wires));
    star->polled = calloc(n_wires, sizeof(*star->polled));
    star->told = calloc(n_wires, sizeof(*star->told));
    if (star->processes == NULL || star->wires == NULL ||
        star->polled == NULL || star->told == NULL) {
        free_star(star);
        return stp_nomem(err);
    }
    *star_ret = star;
    return STP_OK;
}

/* So that whoever dies can be named. */
static enum stp_status introduce(struct stp_star *star, struct stp_error *err)
{
    struct process me = {.pid = (uint64_t)getpid()};
    struct process *all = calloc(star->size, sizeof(*all));
    enum stp_status status;

    if (all == NULL)
        return stp_nomem(err);
    gethostname(me.host, sizeof(me.host) - 1);
    status = stp_star_exchange(star, star->size, &me, sizeof(me), all, err);
    if (status == STP_OK)
        memcpy(star->processes, all, star->size * sizeof(*all));
    free(all);
    return status;
}

enum stp_status stp_star_open(unsigned rank, unsigned size, const int *fds,
                              struct stp_star **star_ret, struct stp_error *err)
{
    struct stp_star *star = NULL;
    enum stp_status status = make(rank, size, &star, err);

    for (unsigned i = rank == 0 ? 1 : 0; i < (rank == 0 ? size : 1); i++) {
        if (status == STP_OK)
            stp_wire_open(&star->wires[i], fds[i]);
        else
            close(fds[i]);
    }
    if (status != STP_OK)
        return status;
    status = introduce(star, err);
    if (status == STP_OK)
        *star_ret = star;
    else
        stp_star_close(star);
    return status;
}
