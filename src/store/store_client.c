#define _GNU_SOURCE /* SOCK_CLOEXEC, POLLRDHUP */
#include "store/store_client.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/clock.h"

enum {
    CONNECT_MS = 5000, /* for one address to answer at all */
    CHECK_MS = 1000,   /* between looks for a host that is gone */
};

/* ---- sockets ---- */

bool stp_socket_await(int fd, short events, int64_t deadline_ms)
{
    struct pollfd polled = {.fd = fd, .events = events};

    for (;;) {
        int64_t left = deadline_ms - stp_now_ms();
        int n;

        if (left < 0)
            left = 0;
        n = poll(&polled, 1, left < CHECK_MS ? (int)left : CHECK_MS);
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
        if (left == 0 || stp_store_is_stuck(fd)) {
            errno = ETIMEDOUT;
            return false;
        }
    }
}

bool stp_socket_send(int fd, struct iovec *parts, int n_parts, bool until_input,
                     int64_t deadline_ms)
{
    const short events = until_input ? POLLIN | POLLOUT : POLLOUT;

    while (n_parts > 0) {
        struct msghdr message = {.msg_iov = parts,
                                 .msg_iovlen = (size_t)n_parts};
        ssize_t n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        struct pollfd polled = {.fd = fd, .events = POLLIN};

        if (n < 0 && (!stp_store_may_retry(errno) ||
                      !stp_socket_await(fd, events, deadline_ms)))
            return false;
        if (n < 0 && until_input && poll(&polled, 1, 0) > 0)
            return true;
        for (size_t left = n < 0 ? 0 : (size_t)n; n_parts > 0; parts++) {
            const size_t part = left < parts->iov_len ? left : parts->iov_len;

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
    for (size_t n_received = 0; n_received < size;) {
        ssize_t n = recv(fd, (unsigned char *)to + n_received,
                         size - n_received, MSG_DONTWAIT);

        if (n > 0) {
            n_received += (size_t)n;
            continue;
        }
        if (n == 0)
            errno = ECONNRESET;
        if (n == 0 || !stp_store_may_retry(errno) ||
            !stp_socket_await(fd, POLLIN, deadline_ms))
            return false;
    }
    return true;
}

/* ---- connecting ---- */

/* A socket may reach itself, if the port that it got is the one it looks for:
 * no server could have it then. */
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

    if (!stp_socket_await(fd, POLLOUT, deadline_ms) ||
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        return errno;
    if (error == 0 && client_reached_itself(fd))
        return ECONNREFUSED;
    return error;
}

static bool client_try_address(struct stp_client *client,
                               const struct addrinfo *to)
{
    int64_t latest_ms = stp_now_ms() + CONNECT_MS;
    int error = 0;

    if (latest_ms > client->deadline_ms)
        latest_ms = client->deadline_ms;
    client->fd = socket(to->ai_family,
                        to->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    getnameinfo(to->ai_addr, to->ai_addrlen, client->address,
                sizeof(client->address), NULL, 0, NI_NUMERICHOST);
    if (client->fd < 0 ||
        (connect(client->fd, to->ai_addr, to->ai_addrlen) != 0 &&
         errno != EINPROGRESS && errno != EINTR))
        error = errno;
    else
        error = client_finish_connect(client->fd, latest_ms);
    if (error == 0)
        return true;
    snprintf(client->why, sizeof(client->why), "%s", strerror(error));
    stp_client_close(client);
    return false;
}

bool stp_client_connect(struct stp_client *client, const char *name,
                        unsigned port, const char *token, int64_t deadline_ms)
{
    const uint32_t magic = STP_STORE_MAGIC;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    unsigned char validate[1 + sizeof(magic)] = {STP_VALIDATE};
    struct iovec part = {validate, sizeof(validate)};
    char text[8];
    int error;

    *client = (struct stp_client){.fd = -1, .deadline_ms = deadline_ms};
    stp_store_prefix(token, client->prefix);
    snprintf(text, sizeof(text), "%u", port);
    error = getaddrinfo(name, text, &hints, &list);
    if (error != 0) {
        snprintf(client->why, sizeof(client->why), "%s", gai_strerror(error));
        return false;
    }
    for (struct addrinfo *a = list; a != NULL && client->fd < 0; a = a->ai_next)
        client_try_address(client, a);
    freeaddrinfo(list);
    if (client->fd < 0)
        return false;
    stp_store_tune(client->fd);
    memcpy(validate + 1, &magic, sizeof(magic));
    return stp_socket_send(client->fd, &part, 1, false, deadline_ms);
}

void stp_client_close(struct stp_client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
}

/* ---- requests ---- */

static bool client_fail(struct stp_client *client)
{
    snprintf(client->why, sizeof(client->why), "the store does not answer: %s",
             strerror(errno));
    return false;
}

static bool client_receive(struct stp_client *client, void *to, size_t size)
{
    return stp_socket_receive(client->fd, to, size, client->deadline_ms) ||
           client_fail(client);
}

/* Sends a request, and frees it. */
static bool client_send(struct stp_client *client, struct stp_bytes *request)
{
    struct iovec part = {request->data, request->size};
    bool is_sent =
        !request->failed &&
        stp_socket_send(client->fd, &part, 1, false, client->deadline_ms);

    if (request->failed)
        errno = ENOMEM;
    free(request->data);
    return is_sent || client_fail(client);
}

/* The beginning of a request about one key, which some take as a list. */
static struct stp_bytes client_begin(const struct stp_client *client,
                                     enum stp_query query, const char *key)
{
    struct stp_bytes request = {0};

    stp_bytes_add_query(&request, query);
    if (query == STP_CHECK || query == STP_WAIT)
        stp_bytes_add_u64(&request, 1);
    stp_bytes_add_key(&request, client->prefix, key);
    return request;
}

static bool client_receive_value(struct stp_client *client, void *value,
                                 size_t max, size_t *size_ret)
{
    uint64_t size;

    if (!client_receive(client, &size, sizeof(size)))
        return false;
    errno = EMSGSIZE;
    if (size > max)
        return client_fail(client);
    *size_ret = (size_t)size;
    return client_receive(client, value, (size_t)size);
}

/* Sends a request whose reply has a fixed size, and is at most 'max'. */
static bool client_ask(struct stp_client *client, enum stp_query query,
                       const char *key, unsigned char *byte_ret)
{
    struct stp_bytes request = client_begin(client, query, key);

    if (!client_send(client, &request) || !client_receive(client, byte_ret, 1))
        return false;
    errno = EPROTO;
    return *byte_ret <= 1 || client_fail(client);
}

bool stp_client_set(struct stp_client *client, const char *key,
                    const void *value, size_t size)
{
    struct stp_bytes request = client_begin(client, STP_SET, key);

    stp_bytes_add_value(&request, value, size);
    return client_send(client, &request);
}

bool stp_client_append(struct stp_client *client, const char *key,
                       const void *value, size_t size)
{
    struct stp_bytes request = client_begin(client, STP_APPEND, key);

    stp_bytes_add_value(&request, value, size);
    return client_send(client, &request);
}

bool stp_client_check(struct stp_client *client, const char *key,
                      bool *is_there_ret)
{
    unsigned char byte;

    if (!client_ask(client, STP_CHECK, key, &byte))
        return false;
    *is_there_ret = byte == 0;
    return true;
}

bool stp_client_wait(struct stp_client *client, const char *key)
{
    unsigned char byte;

    errno = ECANCELED;
    return client_ask(client, STP_WAIT, key, &byte) &&
           (byte == 0 || client_fail(client));
}

bool stp_client_add(struct stp_client *client, const char *key, int64_t number,
                    int64_t *sum_ret)
{
    struct stp_bytes request = client_begin(client, STP_ADD, key);

    stp_bytes_add_u64(&request, (uint64_t)number);
    return client_send(client, &request) &&
           client_receive(client, sum_ret, sizeof(*sum_ret));
}

bool stp_client_delete(struct stp_client *client, const char *key)
{
    struct stp_bytes request = client_begin(client, STP_DELETE_KEY, key);
    int64_t n_deleted;

    return client_send(client, &request) &&
           client_receive(client, &n_deleted, sizeof(n_deleted));
}

/* WAIT first: PyTorch's server closes the connection for a missing key. */
bool stp_client_get(struct stp_client *client, const char *key, void *value,
                    size_t max, size_t *size_ret)
{
    struct stp_bytes request;

    if (!stp_client_wait(client, key))
        return false;
    request = client_begin(client, STP_GET, key);
    return client_send(client, &request) &&
           client_receive_value(client, value, max, size_ret);
}

bool stp_client_compare_set(struct stp_client *client, const char *key,
                            const void *value, size_t size,
                            const struct stp_bytes *after, void *now,
                            size_t max, size_t *now_size_ret)
{
    struct stp_bytes request = client_begin(client, STP_COMPARE_SET, key);

    stp_bytes_add_value(&request, NULL, 0);
    stp_bytes_add_value(&request, value, size);
    if (after != NULL)
        stp_bytes_add(&request, after->data, after->size);
    return client_send(client, &request) &&
           client_receive_value(client, now, max, now_size_ret);
}
