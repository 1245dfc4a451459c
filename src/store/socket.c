#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "store/socket.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/clock.h"
#include "store/store.h"

enum {
    CONNECT_MS = 5000, /* for one address to answer at all */
    CHECK_MS = 1000,   /* between looks for a host that is gone */
};

/* Waits for poll()'s events; bytes that come do not move the deadline. */
static bool socket_await(int fd, short events, int64_t deadline_ms)
{
    struct pollfd polled = {.fd = fd, .events = events};
    int64_t left;

    while ((left = deadline_ms - stp_now_ms()) > 0) {
        const int n = poll(&polled, 1, left < CHECK_MS ? (int)left : CHECK_MS);

        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
        if (n == 0 && stp_store_is_stuck(fd))
            break;
    }
    errno = ETIMEDOUT;
    return false;
}

bool stp_socket_send(int fd, struct iovec *parts, int n_parts, bool until_input,
                     int64_t deadline_ms)
{
    const short events = until_input ? POLLIN | POLLOUT : POLLOUT;
    unsigned n_sent = 0; /* pieces, of which the first has no deadline */

    while (n_parts > 0) {
        struct msghdr message = {.msg_iov = parts,
                                 .msg_iovlen = (size_t)n_parts};
        ssize_t n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        struct pollfd polled = {.fd = fd, .events = POLLIN};

        if (n < 0 && (!stp_store_may_retry(errno) ||
                      !socket_await(fd, events, deadline_ms)))
            return false;
        if (n < 0 && until_input && poll(&polled, 1, 0) > 0)
            return true;
        errno = ETIMEDOUT;
        if (n > 0 && n_sent++ > 0 && stp_now_ms() >= deadline_ms)
            return false;
        for (size_t left = n < 0 ? 0 : (size_t)n; n_parts > 0; parts++) {
            const size_t part = left < parts->iov_len ? left : parts->iov_len;

            if (part > 0) /* an empty part may be NULL */
                parts->iov_base = (char *)parts->iov_base + part;
            parts->iov_len -= part;
            left -= part;
            if (parts->iov_len > 0)
                break;
            n_parts--;
        }
    }
    return true;
}

bool stp_socket_receive(int fd, void *to, size_t size, int64_t deadline_ms)
{
    size_t n_received = 0;

    for (;;) {
        const ssize_t n = recv(fd, (unsigned char *)to + n_received,
                               size - n_received, MSG_DONTWAIT);

        n_received += n > 0 ? (size_t)n : 0;
        if (n_received == size)
            return true;
        if (n == 0)
            errno = ECONNRESET;
        if (n == 0 || (n < 0 && !stp_store_may_retry(errno)) ||
            !socket_await(fd, POLLIN, deadline_ms))
            return false;
    }
}

/* A socket that got the very port which it looks for may reach itself. */
static bool socket_reached_itself(int fd)
{
    struct sockaddr_storage mine = {0}, other = {0};
    socklen_t mine_size = sizeof(mine), other_size = sizeof(other);

    return getsockname(fd, (struct sockaddr *)&mine, &mine_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&other, &other_size) == 0 &&
           mine_size == other_size && memcmp(&mine, &other, mine_size) == 0;
}

/* The socket, or -1 and errno.  An answer counts after the deadline, too. */
static int socket_try_address(const struct addrinfo *to, int64_t deadline_ms)
{
    const int64_t latest_ms = stp_now_ms() + CONNECT_MS;
    const int fd = socket(to->ai_family,
                          to->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof(error);

    if (fd < 0)
        return -1;
    if ((connect(fd, to->ai_addr, to->ai_addrlen) != 0 &&
         errno != EINPROGRESS && errno != EINTR) ||
        (!socket_await(fd, POLLOUT,
                       latest_ms < deadline_ms ? latest_ms : deadline_ms) &&
         poll(&polled, 1, 0) <= 0) ||
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    else if (error == 0 && socket_reached_itself(fd))
        error = ECONNREFUSED;
    if (error == 0)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

int stp_socket_connect(const char *name, unsigned port, int64_t deadline_ms,
                       char address[STP_SOCKET_ADDRESS], char *why, size_t size)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char text[8];
    int error, fd = -1;

    snprintf(text, sizeof(text), "%u", port);
    error = getaddrinfo(name, text, &hints, &list);
    if (error != 0) {
        snprintf(why, size, "%s", gai_strerror(error));
        return -1;
    }
    for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        getnameinfo(a->ai_addr, a->ai_addrlen, address, STP_SOCKET_ADDRESS,
                    NULL, 0, NI_NUMERICHOST);
        fd = socket_try_address(a, deadline_ms);
        if (fd < 0)
            snprintf(why, size, "%s", strerror(errno));
    }
    freeaddrinfo(list);
    if (fd >= 0)
        stp_store_tune(fd);
    return fd;
}
