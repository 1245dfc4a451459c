/* store_tcp.c - the engine that speaks PyTorch's protocol (store.h) */
#include <errno.h>
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

/* Sends a request about one key, for some a list, and what follows. */
static bool tcp_send(struct stp_client *client, enum stp_store_query query,
                     const char *key, const struct iovec *more, int n_more)
{
    const uint64_t one = 1, n_key = strlen(client->prefix) + strlen(key);
    const bool takes_list = query == STP_CHECK || query == STP_WAIT;
    unsigned char byte = (unsigned char)query;
    struct iovec parts[8] = {{&byte, 1},
                             {(void *)&one, takes_list ? sizeof(one) : 0},
                             {(void *)&n_key, sizeof(n_key)},
                             {client->prefix, strlen(client->prefix)},
                             {(void *)key, strlen(key)}};

    for (int i = 0; i < n_more; i++)
        parts[5 + i] = more[i];
    return stp_socket_send(client->fd, parts, 5 + n_more, false,
                           client->deadline_ms) ||
           stp_client_fail(client);
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

/* Sends a request whose reply is a byte, 0 or 1. */
static bool tcp_ask(struct stp_client *client, enum stp_store_query query,
                    const char *key, unsigned char *byte_ret)
{
    if (!tcp_send(client, query, key, NULL, 0) ||
        !tcp_receive(client, byte_ret, 1))
        return false;
    errno = EPROTO;
    return *byte_ret <= 1 || stp_client_fail(client);
}

static bool tcp_put(struct stp_client *client, enum stp_store_query query,
                    const char *key, const void *value, size_t size)
{
    const uint64_t n = size;
    const struct iovec more[] = {{(void *)&n, sizeof(n)},
                                 {(void *)value, size}};

    return tcp_send(client, query, key, more, 2);
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

static bool tcp_add(struct stp_client *client, const char *key, int64_t number,
                    int64_t *sum_ret)
{
    const struct iovec more = {&number, sizeof(number)};

    return tcp_send(client, STP_ADD, key, &more, 1) &&
           tcp_receive(client, sum_ret, sizeof(*sum_ret));
}

static bool tcp_delete(struct stp_client *client, const char *key)
{
    int64_t n_deleted;

    return tcp_send(client, STP_DELETE_KEY, key, NULL, 0) &&
           tcp_receive(client, &n_deleted, sizeof(n_deleted));
}

/* Waits first: PyTorch's server closes the connection for a missing key. */
static bool tcp_get(struct stp_client *client, const char *key, void *value,
                    size_t max, size_t *size_ret)
{
    unsigned char byte = 1;

    if (!tcp_ask(client, STP_WAIT, key, &byte))
        return false;
    errno = ECANCELED;
    return byte == 0 ? tcp_send(client, STP_GET, key, NULL, 0) &&
                           tcp_receive_value(client, value, max, size_ret)
                     : stp_client_fail(client);
}

static bool tcp_compare_set(struct stp_client *client, const char *key,
                            const void *value, size_t size, void *now,
                            size_t max, size_t *now_size_ret)
{
    const uint64_t sizes[] = {0, size}; /* that of the expected value first */
    const struct iovec more[] = {{(void *)sizes, sizeof(sizes)},
                                 {(void *)value, size}};

    return tcp_send(client, STP_COMPARE_SET, key, more, 2) &&
           tcp_receive_value(client, now, max, now_size_ret);
}

const struct stp_store_ops stp_store_tcp = {
    .open = tcp_open,
    .close = tcp_close,
    .put = tcp_put,
    .check = tcp_check,
    .add = tcp_add,
    .del = tcp_delete,
    .get = tcp_get,
    .compare_set = tcp_compare_set,
};
