/* rendezvous_guest.c - connecting to rank 0, which may not be there yet */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch/clock.h"
#include "launch/rendezvous.h"

enum {
    PAUSE_MS = 50, /* between attempts, at first */
    PAUSE_MAX_MS = 1000,
    CONNECT_MS = 5000, /* for one address to answer at all */
};

struct guest {
    const struct stp_torchrun *settings;
    int64_t deadline_ms;
    char address[64]; /* that was tried last, or "" */
    char why[160];    /* it did not work */
    struct stp_answer answer;
};

/* Whether the socket becomes ready in time; else why not is in errno. */
static bool await(int fd, short events, int64_t deadline_ms)
{
    struct pollfd polled = {.fd = fd, .events = events};

    for (;;) {
        int64_t left = deadline_ms - stp_now_ms();
        int n = poll(&polled, 1, left > 0 ? (int)left : 0);

        if (n > 0)
            return true;
        if (n == 0) {
            errno = ETIMEDOUT;
            return false;
        }
        if (errno != EINTR)
            return false;
    }
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A socket may reach itself, if the port that it got is the one it looks for:
 * rank 0 could not have it then. */
static bool is_itself(int fd)
{
    struct sockaddr_storage mine = {0}, other = {0};
    socklen_t mine_size = sizeof(mine), other_size = sizeof(other);

    return getsockname(fd, (struct sockaddr *)&mine, &mine_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&other, &other_size) == 0 &&
           mine_size == other_size && memcmp(&mine, &other, mine_size) == 0;
}

/* 0, or an errno. */
static int finish_connect(int fd, int64_t deadline_ms)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (!await(fd, POLLOUT, deadline_ms) ||
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        return errno;
    if (error == 0 && is_itself(fd))
        return ECONNREFUSED;
    return error;
}

/* A socket, or -1. */
static int connect_to(struct guest *guest, const struct addrinfo *to)
{
    int fd = socket(to->ai_family,
                    to->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = 0;

    getnameinfo(to->ai_addr, to->ai_addrlen, guest->address,
                sizeof(guest->address), NULL, 0, NI_NUMERICHOST);
    if (fd < 0 || (connect(fd, to->ai_addr, to->ai_addrlen) != 0 &&
                   errno != EINPROGRESS && errno != EINTR))
        error = errno;
    else
        error = finish_connect(
            fd, earlier(guest->deadline_ms, stp_now_ms() + CONNECT_MS));
    if (error == 0)
        return fd;
    snprintf(guest->why, sizeof(guest->why), "%s", strerror(error));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Whether it is rank 0 of a run that answers. */
static bool read_answer(struct guest *guest, int fd)
{
    unsigned char *bytes = (unsigned char *)&guest->answer;
    size_t n = 0;

    while (n < sizeof(guest->answer)) {
        ssize_t got =
            recv(fd, bytes + n, sizeof(guest->answer) - n, MSG_DONTWAIT);

        if (got > 0)
            n += (size_t)got;
        else if (got == 0 || (errno != EAGAIN && errno != EINTR))
            return false;
        else if (!await(fd, POLLIN, guest->deadline_ms))
            return false;
        if (n >= sizeof(guest->answer.magic) &&
            memcmp(guest->answer.magic, STP_RENDEZVOUS_ANSWER,
                   sizeof(guest->answer.magic)) != 0)
            return false;
    }
    guest->answer.why[sizeof(guest->answer.why) - 1] = '\0';
    return true;
}

static bool shake_hands(struct guest *guest, int fd)
{
    struct stp_hello hello = {.version = STP_RENDEZVOUS_VERSION,
                              .size = guest->settings->size,
                              .rank = guest->settings->rank};

    memcpy(hello.magic, STP_RENDEZVOUS_HELLO, sizeof(hello.magic));
    /* So little fits into any new connection. */
    if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) ==
            (ssize_t)sizeof(hello) &&
        read_answer(guest, fd))
        return true;
    snprintf(guest->why, sizeof(guest->why),
             "what listens there is not rank 0 of Steptune");
    return false;
}

/* One round over the addresses of rank 0's host: a socket on which it answered,
 * or -1. */
static int try_once(struct guest *guest)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list;
    char port[8];
    int error;
    int fd = -1;

    snprintf(port, sizeof(port), "%u", guest->settings->port);
    error = getaddrinfo(guest->settings->host, port, &hints, &list);
    if (error != 0) {
        snprintf(guest->why, sizeof(guest->why), "%s", gai_strerror(error));
        return -1;
    }
    for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd = connect_to(guest, a);
        if (fd >= 0 && !shake_hands(guest, fd)) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

static enum stp_status give_up(const struct guest *guest, struct stp_error *err)
{
    const struct stp_torchrun *s = guest->settings;
    char address[sizeof(guest->address) + 4] = "";

    if (guest->address[0] != '\0' && strcmp(guest->address, s->host) != 0)
        snprintf(address, sizeof(address), " (%s)", guest->address);
    return stp_fail(
        err, STP_ERR_DEVICE,
        "rank %u could not reach rank 0 at %.60s%s, port %u, in %g s: %s",
        s->rank, s->host, address, s->port, s->limit_ms / 1000.0, guest->why);
}

enum stp_status stp_rendezvous_guest(const struct stp_torchrun *settings,
                                     int *fd_ret, struct stp_error *err)
{
    struct guest guest = {.settings = settings,
                          .deadline_ms = stp_now_ms() + settings->limit_ms};
    int pause_ms = PAUSE_MS;
    int fd;

    while ((fd = try_once(&guest)) < 0) {
        if (stp_now_ms() + pause_ms >= guest.deadline_ms)
            return give_up(&guest, err);
        poll(NULL, 0, pause_ms);
        pause_ms = pause_ms < PAUSE_MAX_MS / 2 ? pause_ms * 2 : PAUSE_MAX_MS;
    }
    if (guest.answer.refused == 0) {
        *fd_ret = fd;
        return STP_OK;
    }
    close(fd);
    return stp_fail(
        err, STP_ERR_DEVICE, "rank 0 at %.60s, port %u, refused rank %u: %s",
        settings->host, settings->port, settings->rank, guest.answer.why);
}
