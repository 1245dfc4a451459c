/* rendezvous_server.c - rank 0 awaits all others, and refuses strangers */
#define _GNU_SOURCE /* accept4(), POLLRDHUP */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch/clock.h"
#include "launch/hub.h"
#include "launch/rendezvous.h"

enum {
    MAX_CALLERS = 128,  /* that have not said hello yet; more have to wait */
    PATIENCE_MS = 5000, /* with a caller that says nothing */
    BIND_TRIES = 4,     /* a client that reached itself has the port briefly */
    BIND_PAUSE_MS = 50,
};

/* A connection on which no hello has come yet. */
struct caller {
    int fd;
    int64_t since_ms;
};

struct server {
    const struct stp_torchrun *settings;
    int listener;
    struct caller callers[MAX_CALLERS];
    unsigned n_callers;
    int *fds; /* of the ranks that joined; else -1 */
    unsigned n_joined;
    struct pollfd *polled; /* the listener, the ranks from 1 on, the callers */
    struct stp_error refusal; /* why the last one was refused, or "" */
};

/* ---- listening ---- */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* A listening socket for both IPv6 and IPv4 where there is IPv6, or -1 and
 * errno. */
static int server_try_listen(unsigned port)
{
    const int off = 0, on = 1;
    const int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    union address address = {.v6 = {.sin6_family = AF_INET6}};
    socklen_t size = sizeof(address.v6);
    int fd = socket(AF_INET6, type, 0);
    int error;

    if (fd < 0) {
        fd = socket(AF_INET, type, 0);
        address = (union address){.v4 = {.sin_family = AF_INET}};
        size = sizeof(address.v4);
    } else {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    address.v4.sin_port = htons((uint16_t)port); /* IPv6's is there as well */
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, &address.any, size) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

static enum stp_status server_listen(struct server *s, struct stp_error *err)
{
    unsigned port = s->settings->port;

    s->listener = server_try_listen(port);
    for (int i = 1; i < BIND_TRIES && s->listener < 0 && errno == EADDRINUSE;
         i++) {
        poll(NULL, 0, BIND_PAUSE_MS);
        s->listener = server_try_listen(port);
    }
    if (s->listener >= 0)
        return STP_OK;
    if (errno == EADDRINUSE)
        return stp_fail(
            err, STP_ERR_LIMIT,
            "port %u, where rank 0 awaits the other ranks, is in use on its "
            "host: set STEPTUNE_PORT to a free one, the same for all ranks",
            port);
    return stp_fail(err, STP_ERR_DEVICE, "rank 0 cannot listen on port %u: %s",
                    port, strerror(errno));
}

/* ---- callers ---- */

/* Whether the client may join; if not, *why says it. */
static bool server_judge(const struct server *s, const struct stp_hello *hello,
                         struct stp_error *why)
{
    const unsigned size = s->settings->size;

    if (hello->version != STP_RENDEZVOUS_VERSION)
        stp_fail(why, STP_ERR_DEVICE,
                 "it is another version of Steptune than rank 0 is");
    else if (hello->size != size)
        stp_fail(why, STP_ERR_DEVICE,
                 "its WORLD_SIZE is %u, that of rank 0 is %u", hello->size,
                 size);
    else if (hello->rank == 0 || hello->rank >= size)
        stp_fail(why, STP_ERR_DEVICE, "there is no rank %u in a run of %u",
                 hello->rank, size);
    else if (s->fds[hello->rank] >= 0)
        stp_fail(why, STP_ERR_DEVICE, "there is a rank %u already",
                 hello->rank);
    else
        return true;
    return false;
}

/* Answers a hello; whether the client joins. */
static bool server_answer(struct server *s, int fd,
                          const struct stp_hello *hello)
{
    struct stp_answer answer = {.refused = 1};
    struct stp_error why = {0};

    if (memcmp(hello->magic, STP_RENDEZVOUS_HELLO, sizeof(hello->magic)) != 0)
        return false;
    memcpy(answer.magic, STP_RENDEZVOUS_ANSWER, sizeof(answer.magic));
    if (server_judge(s, hello, &why))
        answer.refused = 0;
    else
        s->refusal = why;
    memcpy(answer.why, why.text, sizeof(answer.why));
    /* So little fits into any new connection. */
    return send(fd, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL) ==
               (ssize_t)sizeof(answer) &&
           !answer.refused;
}

/* A hello comes whole, or it is none. */
static void server_hear(struct server *s, int fd)
{
    struct stp_hello hello;

    if (recv(fd, &hello, sizeof(hello), MSG_DONTWAIT) ==
            (ssize_t)sizeof(hello) &&
        server_answer(s, fd, &hello)) {
        s->fds[hello.rank] = fd;
        s->n_joined++;
    } else {
        close(fd);
    }
}

static void server_hear_all(struct server *s)
{
    const struct pollfd *polled = s->polled + s->settings->size;
    unsigned n_stay = 0;

    for (unsigned i = 0; i < s->n_callers; i++) {
        struct caller caller = s->callers[i];

        if (polled[i].revents != 0)
            server_hear(s, caller.fd);
        else if (stp_now_ms() - caller.since_ms > PATIENCE_MS)
            close(caller.fd);
        else
            s->callers[n_stay++] = caller;
    }
    s->n_callers = n_stay;
}

static enum stp_status server_accept(struct server *s, struct stp_error *err)
{
    while (s->n_callers < MAX_CALLERS) {
        int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
            return stp_fail(
                err, STP_ERR_LIMIT,
                "rank 0 cannot have as many sockets as there are ranks: %s",
                strerror(errno));
        if (fd < 0) /* none, or one that is gone already */
            return STP_OK;
        s->callers[s->n_callers++] =
            (struct caller){.fd = fd, .since_ms = stp_now_ms()};
    }
    return STP_OK;
}

/* Another client may come in place of a rank that is gone. */
static void server_drop_gone(struct server *s)
{
    for (unsigned r = 1; r < s->settings->size; r++) {
        if (s->fds[r] < 0 || s->polled[r].fd < 0 ||
            (s->polled[r].revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0)
            continue;
        close(s->fds[r]);
        s->fds[r] = -1;
        s->n_joined--;
    }
}

/* ---- until all are there ---- */

static void server_poll(struct server *s, int timeout_ms)
{
    const unsigned size = s->settings->size;
    const unsigned n = size + s->n_callers;

    s->polled[0] = (struct pollfd){
        .fd = s->n_callers < MAX_CALLERS ? s->listener : -1, .events = POLLIN};
    for (unsigned r = 1; r < size; r++)
        s->polled[r] = (struct pollfd){.fd = s->fds[r], .events = POLLRDHUP};
    for (unsigned i = 0; i < s->n_callers; i++)
        s->polled[size + i] =
            (struct pollfd){.fd = s->callers[i].fd, .events = POLLIN};
    if (poll(s->polled, n, timeout_ms) < 0)
        memset(s->polled, 0, n * sizeof(*s->polled));
}

static enum stp_status server_fail_missing(const struct server *s,
                                           struct stp_error *err)
{
    const struct stp_torchrun *settings = s->settings;
    unsigned n_missing = settings->size - 1 - s->n_joined;
    bool has_refused = s->refusal.text[0] != '\0';
    unsigned r = 1;
    char others[32] = "";

    while (s->fds[r] >= 0)
        r++;
    if (n_missing > 1)
        snprintf(others, sizeof(others), " and %u other%s", n_missing - 1,
                 n_missing > 2 ? "s" : "");
    return stp_fail(
        err, STP_ERR_DEVICE,
        "rank %u%s of %u did not come to rank 0's port %u in %g s%s%s", r,
        others, settings->size, settings->port, settings->limit_ms / 1000.0,
        has_refused ? "; one was refused: " : "", s->refusal.text);
}

static enum stp_status server_await_all(struct server *s, struct stp_error *err)
{
    int64_t deadline_ms = stp_now_ms() + s->settings->limit_ms;
    enum stp_status status = server_listen(s, err);

    while (status == STP_OK && s->n_joined < s->settings->size - 1) {
        int64_t left_ms = deadline_ms - stp_now_ms();

        if (left_ms <= 0)
            return server_fail_missing(s, err);
        server_poll(s, left_ms < 1000 ? (int)left_ms : 1000);
        server_drop_gone(s);
        server_hear_all(s);
        status = server_accept(s, err);
    }
    return status;
}

static void server_reject_joined(struct server *s, enum stp_status status,
                                 const struct stp_error *why)
{
    for (unsigned r = 1; r < s->settings->size; r++)
        if (s->fds[r] >= 0)
            stp_hub_refuse(s->fds[r], status, why);
}

enum stp_status stp_rendezvous_serve(const struct stp_torchrun *settings,
                                     int *fds, struct stp_error *err)
{
    struct server s = {.settings = settings, .listener = -1, .fds = fds};
    struct stp_error why = {0};
    enum stp_status status;

    memset(fds, -1, settings->size * sizeof(*fds));
    if (settings->size == 1)
        return STP_OK;
    s.polled = calloc(settings->size + MAX_CALLERS, sizeof(*s.polled));
    status = s.polled == NULL ? stp_nomem(&why) : server_await_all(&s, &why);
    if (status != STP_OK)
        server_reject_joined(&s, status, &why);
    if (status != STP_OK && err != NULL)
        *err = why;
    for (unsigned i = 0; i < s.n_callers; i++)
        close(s.callers[i].fd);
    if (s.listener >= 0)
        close(s.listener);
    free(s.polled);
    return status;
}
