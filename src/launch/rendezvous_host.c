/* rendezvous_host.c - rank 0 awaits all others, and turns strangers away */
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
    PATIENCE_MS = 5000, /* with one of them */
    BIND_TRIES = 4,     /* a guest that reached itself has the port briefly */
    BIND_PAUSE_MS = 50,
};

/* Somebody who has connected. */
struct caller {
    int fd;
    size_t n; /* bytes of the hello so far */
    struct stp_hello hello;
    int64_t since_ms;
};

struct host {
    const struct stp_torchrun *settings;
    int listener;
    struct caller callers[MAX_CALLERS];
    unsigned n_callers;
    int *fds; /* of those who joined; else -1 */
    unsigned n_joined;
    struct pollfd *polled; /* the listener, the ranks from 1 on, the callers */
    char refusal[STP_ERROR_TEXT]; /* the last one's reason, or "" */
};

/* ---- listening ---- */

/* A socket for both IPv6 and IPv4 where there is IPv6. */
static int open_socket(int *family_ret)
{
    int off = 0, on = 1;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    *family_ret = AF_INET6;
    if (fd >= 0) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    } else {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        *family_ret = AF_INET;
    }
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    return fd;
}

static int bind_to(int fd, int family, unsigned port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_ANY)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons((uint16_t)port),
                              .sin6_addr = in6addr_any};

    if (family == AF_INET)
        return bind(fd, (struct sockaddr *)&v4, sizeof(v4));
    return bind(fd, (struct sockaddr *)&v6, sizeof(v6));
}

/* A listening socket, or -1 and errno. */
static int try_listen(unsigned port)
{
    int family;
    int fd = open_socket(&family);
    int error;

    if (fd < 0)
        return -1;
    if (bind_to(fd, family, port) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

static enum stp_status start_listening(struct host *host, struct stp_error *err)
{
    unsigned port = host->settings->port;

    host->listener = try_listen(port);
    for (int i = 1; i < BIND_TRIES && host->listener < 0 && errno == EADDRINUSE;
         i++) {
        poll(NULL, 0, BIND_PAUSE_MS);
        host->listener = try_listen(port);
    }
    if (host->listener >= 0)
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

/* Why this one cannot join, or "". */
static void judge(const struct host *host, const struct stp_hello *hello,
                  char why[STP_ERROR_TEXT])
{
    unsigned size = host->settings->size;

    why[0] = '\0';
    if (hello->version != STP_RENDEZVOUS_VERSION)
        snprintf(why, STP_ERROR_TEXT,
                 "it is another version of Steptune than rank 0 is");
    else if (hello->size != size)
        snprintf(why, STP_ERROR_TEXT,
                 "its WORLD_SIZE is %u, that of rank 0 is %u", hello->size,
                 size);
    else if (hello->rank == 0 || hello->rank >= size)
        snprintf(why, STP_ERROR_TEXT, "there is no rank %u in a run of %u",
                 hello->rank, size);
    else if (host->fds[hello->rank] >= 0)
        snprintf(why, STP_ERROR_TEXT, "there is a rank %u already",
                 hello->rank);
}

/* The hello is whole. */
static void answer(struct host *host, const struct caller *caller)
{
    struct stp_answer reply = {.refused = 0};
    ssize_t n;

    if (memcmp(caller->hello.magic, STP_RENDEZVOUS_HELLO,
               sizeof(caller->hello.magic)) != 0) {
        close(caller->fd);
        return;
    }
    memcpy(reply.magic, STP_RENDEZVOUS_ANSWER, sizeof(reply.magic));
    judge(host, &caller->hello, reply.why);
    reply.refused = reply.why[0] != '\0';
    /* So little fits into any new connection. */
    n = send(caller->fd, &reply, sizeof(reply), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (reply.refused)
        memcpy(host->refusal, reply.why, sizeof(host->refusal));
    if (reply.refused || n != (ssize_t)sizeof(reply)) {
        close(caller->fd);
        return;
    }
    host->fds[caller->hello.rank] = caller->fd;
    host->n_joined++;
}

/* Whether the caller stays one. */
static bool listen_to(struct host *host, struct caller *caller)
{
    ssize_t n = recv(caller->fd, (unsigned char *)&caller->hello + caller->n,
                     sizeof(caller->hello) - caller->n, MSG_DONTWAIT);

    if (n > 0)
        caller->n += (size_t)n;
    if (caller->n == sizeof(caller->hello)) {
        answer(host, caller);
        return false;
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) ||
        stp_now_ms() - caller->since_ms > PATIENCE_MS) {
        close(caller->fd);
        return false;
    }
    return true;
}

static void listen_to_all(struct host *host)
{
    unsigned n_stay = 0;

    for (unsigned i = 0; i < host->n_callers; i++)
        if (listen_to(host, &host->callers[i]))
            host->callers[n_stay++] = host->callers[i];
    host->n_callers = n_stay;
}

static enum stp_status let_in(struct host *host, struct stp_error *err)
{
    while (host->n_callers < MAX_CALLERS) {
        int fd = accept4(host->listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
            return stp_fail(
                err, STP_ERR_LIMIT,
                "rank 0 cannot have as many sockets as there are ranks: %s",
                strerror(errno));
        if (fd < 0) /* nobody, or one who is gone already */
            return STP_OK;
        host->callers[host->n_callers++] =
            (struct caller){.fd = fd, .since_ms = stp_now_ms()};
    }
    return STP_OK;
}

/* Another one may come in place of a rank that is gone. */
static void forget_gone(struct host *host)
{
    for (unsigned r = 1; r < host->settings->size; r++) {
        if (host->fds[r] < 0 || host->polled[r].fd < 0 ||
            (host->polled[r].revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0)
            continue;
        close(host->fds[r]);
        host->fds[r] = -1;
        host->n_joined--;
    }
}

/* ---- until all are there ---- */

static void wait_for_event(struct host *host, int timeout_ms)
{
    unsigned size = host->settings->size;

    host->polled[0] = (struct pollfd){
        .fd = host->n_callers < MAX_CALLERS ? host->listener : -1,
        .events = POLLIN};
    for (unsigned r = 1; r < size; r++)
        host->polled[r] =
            (struct pollfd){.fd = host->fds[r], .events = POLLRDHUP};
    for (unsigned i = 0; i < host->n_callers; i++)
        host->polled[size + i] =
            (struct pollfd){.fd = host->callers[i].fd, .events = POLLIN};
    if (poll(host->polled, size + host->n_callers, timeout_ms) < 0)
        memset(host->polled, 0, size * sizeof(*host->polled));
}

static void say_who_is_missing(const struct host *host, struct stp_error *why)
{
    const struct stp_torchrun *s = host->settings;
    unsigned n_missing = s->size - 1 - host->n_joined;
    unsigned r = 1;
    char others[32] = "";

    while (host->fds[r] >= 0)
        r++;
    if (n_missing > 1)
        snprintf(others, sizeof(others), " and %u other%s", n_missing - 1,
                 n_missing > 2 ? "s" : "");
    stp_fail(why, STP_ERR_DEVICE,
             "rank %u%s of %u did not come to rank 0's port %u in %g s%s%s", r,
             others, s->size, s->port, s->limit_ms / 1000.0,
             host->refusal[0] != '\0' ? "; one was refused: " : "",
             host->refusal);
}

static enum stp_status await_all(struct host *host, struct stp_error *err)
{
    int64_t deadline_ms = stp_now_ms() + host->settings->limit_ms;
    enum stp_status status = STP_OK;

    while (status == STP_OK && host->n_joined < host->settings->size - 1) {
        int64_t left = deadline_ms - stp_now_ms();

        if (left <= 0) {
            say_who_is_missing(host, err);
            return STP_ERR_DEVICE;
        }
        wait_for_event(host, left < 1000 ? (int)left : 1000);
        forget_gone(host);
        status = let_in(host, err);
        listen_to_all(host);
    }
    return status;
}

/* ---- */

static void clean_up(struct host *host)
{
    for (unsigned i = 0; i < host->n_callers; i++)
        close(host->callers[i].fd);
    if (host->listener >= 0)
        close(host->listener);
    free(host->polled);
    free(host);
}

/* Those who have come are told. */
static void send_home(struct host *host, enum stp_status status,
                      const struct stp_error *why)
{
    for (unsigned r = 1; r < host->settings->size; r++)
        if (host->fds[r] >= 0)
            stp_hub_refuse(host->fds[r], status, why);
}

static enum stp_status gather(struct host *host, struct stp_error *err)
{
    struct stp_error why = {0};
    enum stp_status status = start_listening(host, &why);

    if (status == STP_OK)
        status = await_all(host, &why);
    if (status != STP_OK) {
        send_home(host, status, &why);
        if (err != NULL)
            *err = why;
    }
    return status;
}

enum stp_status stp_rendezvous_host(const struct stp_torchrun *settings,
                                    int *fds, struct stp_error *err)
{
    struct host *host = calloc(1, sizeof(*host));
    enum stp_status status = STP_ERR_NOMEM;

    if (host == NULL)
        return stp_fail(err, status, "out of memory");
    host->settings = settings;
    host->listener = -1;
    host->fds = fds;
    host->polled = calloc(settings->size + MAX_CALLERS, sizeof(*host->polled));
    memset(fds, -1, settings->size * sizeof(*fds));
    if (host->polled == NULL)
        stp_fail(err, status, "out of memory");
    else if (settings->size == 1)
        status = STP_OK;
    else
        status = gather(host, err);
    clean_up(host);
    return status;
}
