/* store_tcp.c - the engine that speaks PyTorch's protocol (store.h) */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/store_client.h"

static void tcp_close(struct stp_client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
}

static bool tcp_open(struct stp_client *client,
                     const struct stp_store_address *address)
{
    const uint32_t magic = STP_STORE_MAGIC;
    unsigned char validate[1 + sizeof(magic)] = {STP_VALIDATE};
    struct iovec part = {validate, sizeof(validate)};

    client->fd =
        stp_socket_connect(address->host, address->port, client->deadline_ms,
                           client->address, client->why, sizeof(client->why));
    memcpy(validate + 1, &magic, sizeof(magic));
    return client->fd >= 0 &&
           (stp_socket_send(client->fd, &part, 1, false, client->deadline_ms) ||
            stp_client_fail(client));
}

static bool tcp_receive(struct stp_client *client, void *to, size_t size)
{
    return stp_socket_receive(client->fd, to, size, client->deadline_ms) ||
           stp_client_fail(client);
}

/* Sends a request, and frees it. */
static bool tcp_send(struct stp_client *client, struct stp_bytes *request)
{
    struct iovec part = {request->data, request->size};
    bool is_sent =
        !request->failed &&
        stp_socket_send(client->fd, &part, 1, false, client->deadline_ms);

    if (request->failed)
        errno = ENOMEM;
    free(request->data);
    return is_sent || stp_client_fail(client);
}

/* The beginning of a request about one key, which some take as a list. */
static struct stp_bytes tcp_begin(const struct stp_client *client,
                                  enum stp_query query, const char *key)
{
    struct stp_bytes request = {0};

    stp_bytes_add_query(&request, query);
    if (query == STP_CHECK || query == STP_WAIT)
        stp_bytes_add_u64(&request, 1);
    stp_bytes_add_key(&request, client->prefix, key);
    return request;
}

static bool tcp_receive_value(struct stp_client *client, void *value,
                              size_t max, size_t *size_ret)
{
    uint64_t size;

    if (!tcp_receive(client, &size, sizeof(size)))
        return false;
    errno = EMSGSIZE;
    if (size > max)
        return stp_client_fail(client);
    *size_ret = (size_t)size;
    return tcp_receive(client, value, (size_t)size);
}

/* Sends a request whose reply has a fixed size, and is at most 'max'. */
static bool tcp_ask(struct stp_client *client, enum stp_query query,
                    const char *key, unsigned char *byte_ret)
{
    struct stp_bytes request = tcp_begin(client, query, key);

    if (!tcp_send(client, &request))
        return false;
    if (!stp_socket_await(client->fd, POLLIN, client->deadline_ms))
        return stp_client_fail(client);
    if (!tcp_receive(client, byte_ret, 1))
        return false;
    errno = EPROTO;
    return *byte_ret <= 1 || stp_client_fail(client);
}

static bool tcp_set(struct stp_client *client, const char *key,
                    const void *value, size_t size)
{
    struct stp_bytes request = tcp_begin(client, STP_SET, key);

    stp_bytes_add_value(&request, value, size);
    return tcp_send(client, &request);
}

static bool tcp_append(struct stp_client *client, const char *key,
                       const void *value, size_t size)
{
    struct stp_bytes request = tcp_begin(client, STP_APPEND, key);

    stp_bytes_add_value(&request, value, size);
    return tcp_send(client, &request);
}

static bool tcp_check(struct stp_client *client, const char *key,
                      bool *is_there_ret)
{
    unsigned char byte = 1;

    if (!tcp_ask(client, STP_CHECK, key, &byte))
        return false;
    *is_there_ret = byte == 0;
    return true;
}

static bool tcp_wait(struct stp_client *client, const char *key)
{
    unsigned char byte = 1;

    errno = ECANCELED;
    return tcp_ask(client, STP_WAIT, key, &byte) &&
           (byte == 0 || stp_client_fail(client));
}

static bool tcp_add(struct stp_client *client, const char *key, int64_t number,
                    int64_t *sum_ret)
{
    struct stp_bytes request = tcp_begin(client, STP_ADD, key);

    stp_bytes_add_u64(&request, (uint64_t)number);
    return tcp_send(client, &request) &&
           tcp_receive(client, sum_ret, sizeof(*sum_ret));
}

static bool tcp_delete(struct stp_client *client, const char *key)
{
    struct stp_bytes request = tcp_begin(client, STP_DELETE_KEY, key);
    int64_t n_deleted;

    return tcp_send(client, &request) &&
           tcp_receive(client, &n_deleted, sizeof(n_deleted));
}

/* WAIT first: PyTorch's server closes the connection for a missing key. */
static bool tcp_get(struct stp_client *client, const char *key, void *value,
                    size_t max, size_t *size_ret)
{
    struct stp_bytes request;

    if (!tcp_wait(client, key))
        return false;
    request = tcp_begin(client, STP_GET, key);
    return tcp_send(client, &request) &&
           tcp_receive_value(client, value, max, size_ret);
}

static bool tcp_compare_set(struct stp_client *client, const char *key,
                            const void *value, size_t size,
                            const struct stp_bytes *after, void *now,
                            size_t max, size_t *now_size_ret)
{
    struct stp_bytes request = tcp_begin(client, STP_COMPARE_SET, key);

    stp_bytes_add_value(&request, NULL, 0);
    stp_bytes_add_value(&request, value, size);
    if (after != NULL)
        stp_bytes_add(&request, after->data, after->size);
    return tcp_send(client, &request) &&
           tcp_receive_value(client, now, max, now_size_ret);
}

const struct stp_store_ops stp_store_tcp = {
    .open = tcp_open,
    .close = tcp_close,
    .set = tcp_set,
    .append = tcp_append,
    .check = tcp_check,
    .add = tcp_add,
    .del = tcp_delete,
    .wait = tcp_wait,
    .get = tcp_get,
    .compare_set = tcp_compare_set,
};
