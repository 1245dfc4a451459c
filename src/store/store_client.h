/*
 * store_client.h - a client of a key-value store: PyTorch's, or our own
 *
 * Not for several threads at once.  Functions return false on failure; 'why'
 * then says the reason, and the client can only be closed.
 */
#ifndef STP_STORE_CLIENT_H
#define STP_STORE_CLIENT_H

#include <sys/uio.h>

#include "store/store.h"

struct stp_client {
    int fd; /* -1: none */
    char prefix[STP_STORE_PREFIX];
    int64_t deadline_ms; /* for all calls (stp_now_ms()) */
    char address[64];    /* that was tried last, or "" */
    char why[160];
};

/* Connects to a name or an address, IPv4 or IPv6.  'token' is that of the keys
 * (stp_store_prefix()).  Also a failed client is to be closed. */
bool stp_client_connect(struct stp_client *client, const char *name,
                        unsigned port, const char *token, int64_t deadline_ms);
void stp_client_close(struct stp_client *client);

bool stp_client_set(struct stp_client *client, const char *key,
                    const void *value, size_t size);
bool stp_client_append(struct stp_client *client, const char *key,
                       const void *value, size_t size);
bool stp_client_check(struct stp_client *client, const char *key,
                      bool *is_there_ret);
bool stp_client_add(struct stp_client *client, const char *key, int64_t number,
                    int64_t *sum_ret);
bool stp_client_delete(struct stp_client *client, const char *key);

/* Waits for a key until the deadline. */
bool stp_client_wait(struct stp_client *client, const char *key);

/* Waits for a key; a value longer than 'max' is a failure. */
bool stp_client_get(struct stp_client *client, const char *key, void *value,
                    size_t max, size_t *size_ret);

/* Gives the key a value if it has none; then as stp_client_get(), without
 * waiting.  'after' is sent with it: requests whose replies come later. */
bool stp_client_compare_set(struct stp_client *client, const char *key,
                            const void *value, size_t size,
                            const struct stp_bytes *after, void *now,
                            size_t max, size_t *now_size_ret);

/* ---- for connections that are used without these functions ---- */

/* Waits, at most a second, and until the deadline. False and errno if that has
 * passed, or if the other host is gone. */
bool stp_socket_await(int fd, short events, int64_t deadline_ms);

/* Sends the parts, which it changes.  With 'until_input' it ends, with true,
 * when something can be read. */
bool stp_socket_send(int fd, struct iovec *parts, int n_parts, bool until_input,
                     int64_t deadline_ms);
bool stp_socket_receive(int fd, void *to, size_t size, int64_t deadline_ms);

#endif /* STP_STORE_CLIENT_H */
