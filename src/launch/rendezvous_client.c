/* rendezvous_client.c - connecting to rank 0, which may not be there yet */
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

struct client {
    const struct stp_torchrun *settings;
    int64_t deadline_ms;
    char address[64]; /* that was tried last, or "" */
    char why[160];    /* why that failed */
    struct stp_answer answer;
};

/* Whether the socket becomes ready in time; if not, errno says why. */
static bool client_await(int fd, short events, int64_t deadline_ms)
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

/* A socket may reach itself, if the port that it got is the one it looks for:
 * rank 0 could not have it then. */
static bool client_reached_itself(int fd)
{
    struct sockaddr_storage mine = {0}, other = {0};
    socklen_t mine_size = sizeof(mine), other_size = sizeof(other);

    return getsockname(fd, (struct sockaddr *)&mine, &mine_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&other, &other_size) == 0 &&
           mine_size == other_size && memcmp(&mine, &other, mine_size) == 0;
}

/* 0, or an errno. */
static int client_finish_connect(int fd, int64_t deadline_ms)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (!client_await(fd, POLLOUT, deadline_ms) ||
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        return errno;
    if (error == 0 && client_reached_itself(fd))
        return ECONNREFUSED;
    return error;
}

/* A socket, or -1. */
static int client_try_address(struct client *client, const struct addrinfo *to)
{
    int64_t latest_ms = stp_now_ms() + CONNECT_MS;
    int fd = socket(to->ai_family,
                    to->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = 0;

    if (latest_ms > client->deadline_ms)
        latest_ms = client->deadline_ms;

    getnameinfo(to->ai_addr, to->ai_addrlen, client->address,
                sizeof(client->address), NULL, 0, NI_NUMERICHOST);
    if (fd < 0 || (connect(fd, to->ai_addr, to->ai_addrlen) != 0 &&
                   errno != EINPROGRESS && errno != EINTR))
        error = errno;
    else
        error = client_finish_connect(fd, latest_ms);
    if (error == 0)
        return fd;
    snprintf(client->why, sizeof(client->why), "%s", strerror(error));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Whether the answer is that of a rank 0. */
static bool client_read_answer(struct client *client, int fd)
{
    unsigned char *bytes = (unsigned char *)&client->answer;
    size_t n = 0;

    while (n < sizeof(client->answer)) {
        ssize_t got =
            recv(fd, bytes + n, sizeof(client->answer) - n, MSG_DONTWAIT);

        if (got > 0)
            n += (size_t)got;
        else if (got == 0 || (errno != EAGAIN && errno != EINTR))
            return false;
        else if (!client_await(fd, POLLIN, client->deadline_ms))
            return false;
        if (n >= sizeof(client->answer.magic) &&
            memcmp(client->answer.magic, STP_RENDEZVOUS_ANSWER,
                   sizeof(client->answer.magic)) != 0)
            return false;
    }
    client->answer.why[sizeof(client->answer.why) - 1] = '\0';
    return true;
}

static bool client_shake_hands(struct client *client, int fd)
{
    struct stp_hello hello = {.version = STP_RENDEZVOUS_VERSION,
                              .size = client->settings->size,
                              .rank = client->settings->rank};

    memcpy(hello.magic, STP_RENDEZVOUS_HELLO, sizeof(hello.magic));
    /* So little fits into any new connection. */
    if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) ==
            (ssize_t)sizeof(hello) &&
        client_read_answer(client, fd))
        return true;
    snprintf(client->why, sizeof(client->why),
             "what listens there is not rank 0 of Steptune");
    return false;
}

/* Tries each address of rank 0's host once: a socket on which it answered, or
 * -1. */
static int client_try_host(struct client *client)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list;
    char port[8];
    int error;
    int fd = -1;

    snprintf(port, sizeof(port), "%u", client->settings->port);
    error = getaddrinfo(client->settings->host, port, &hints, &list);
    if (error != 0) {
        snprintf(client->why, sizeof(client->why), "%s", gai_strerror(error));
        return -1;
    }
    for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        fd = client_try_address(client, a);
        if (fd >= 0 && !client_shake_hands(client, fd)) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

static enum stp_status client_give_up(const struct client *client,
                                      struct stp_error *err)
{
    const struct stp_torchrun *s = client->settings;
    char address[sizeof(client->address) + 4] = "";

    if (client->address[0] != '\0' && strcmp(client->address, s->host) != 0)
        snprintf(address, sizeof(address), " (%s)", client->address);
    return stp_fail(
        err, STP_ERR_DEVICE,
        "rank %u could not reach rank 0 at %.60s%s, port %u, in %g s: %s",
        s->rank, s->host, address, s->port, s->limit_ms / 1000.0, client->why);
}

enum stp_status stp_rendezvous_connect(const struct stp_torchrun *settings,
                                       int *fd_ret, struct stp_error *err)
{
    struct client client = {.settings = settings,
                            .deadline_ms = stp_now_ms() + settings->limit_ms};
    int pause_ms = PAUSE_MS;
    int fd;

    while ((fd = client_try_host(&client)) < 0) {
        if (stp_now_ms() + pause_ms >= client.deadline_ms)
            return client_give_up(&client, err);
        poll(NULL, 0, pause_ms);
        pause_ms = pause_ms < PAUSE_MAX_MS / 2 ? pause_ms * 2 : PAUSE_MAX_MS;
    }
    if (client.answer.refused == 0) {
        *fd_ret = fd;
        return STP_OK;
    }
    close(fd);
    return stp_fail(
        err, STP_ERR_DEVICE, "rank 0 at %.60s, port %u, refused rank %u: %s",
        settings->host, settings->port, settings->rank, client.answer.why);
}
