/* store_client.h - a client of a key-value store, whichever engine it has
 *
 * An engine is a table of functions.  All keep what is promised here.  Not for
 * several threads at once.  Functions return false on failure; 'why' then says
 * the reason, and the client can only be closed. */
#pragma once

#include "store/socket.h"
#include "store/store.h"
#include "store/store_address.h"

struct stp_client {
    const struct stp_store_ops *ops; /* NULL: not open */
    int fd;                          /* of an engine with a socket; else -1 */
    void *state;                     /* of the engine */
    char prefix[STP_STORE_PREFIX];
    int64_t deadline_ms;              /* for all calls (stp_now_ms()) */
    int64_t unit, stale_ms;           /* of add(), in a folder; 0: none */
    char address[STP_SOCKET_ADDRESS]; /* that was tried last, or "" */
    char why[256];
};

/* Opens the store at 'address'.  'token' is that of the keys
 * (stp_store_prefix()).  Also a failed client is to be closed. */
bool stp_client_open(struct stp_client *client,
                     const struct stp_store_address *address, const char *token,
                     int64_t deadline_ms);

/* Also of a client that is all zero, or closed. */
void stp_client_close(struct stp_client *client);

/* Calls of an open client's engine, as struct stp_store_ops tells. */
#define stp_client_set(c, ...)         ((c)->ops->put((c), STP_SET, __VA_ARGS__))
#define stp_client_append(c, ...)      ((c)->ops->put((c), STP_APPEND, __VA_ARGS__))
#define stp_client_check(c, ...)       ((c)->ops->check((c), __VA_ARGS__))
#define stp_client_add(c, ...)         ((c)->ops->add((c), __VA_ARGS__))
#define stp_client_delete(c, ...)      ((c)->ops->del((c), __VA_ARGS__))
#define stp_client_get(c, ...)         ((c)->ops->get((c), __VA_ARGS__))
#define stp_client_compare_set(c, ...) ((c)->ops->compare_set((c), __VA_ARGS__))

/* ---- engines ---- */

struct stp_store_ops {
    /* finds 'prefix' and 'deadline_ms' filled in */
    bool (*open)(struct stp_client *client,
                 const struct stp_store_address *address);
    void (*close)(struct stp_client *client); /* also when open() failed */

    /* STP_SET gives a value, of STP_STORE_MAX_VALUE bytes at most, and
     * STP_APPEND adds to one, which is empty if there is none; atomic. */
    bool (*put)(struct stp_client *client, enum stp_store_query query,
                const char *key, const void *value, size_t size);
    bool (*check)(struct stp_client *client, const char *key,
                  bool *is_there_ret);

    /* Adds to a number, which is 0 if there is none, and is stored in decimal;
     * atomic.  Adding 0 reads it.  In a folder, which outlives jobs, a number
     * that is no multiple of 'unit', and was not added to for 'stale_ms', first
     * becomes the next one. */
    bool (*add)(struct stp_client *client, const char *key, int64_t number,
                int64_t *sum_ret);
    bool (*del)(struct stp_client *client, const char *key);

    /* Waits for a key until the deadline; a value above 'max' is a failure. */
    bool (*get)(struct stp_client *client, const char *key, void *value,
                size_t max, size_t *size_ret);

    /* Gives the key a value if it has none; then as get(), without waiting;
     * atomic. */
    bool (*compare_set)(struct stp_client *client, const char *key,
                        const void *value, size_t size, void *now, size_t max,
                        size_t *now_size_ret);
};

/* For enum stp_store_engine. */
extern const struct stp_store_ops stp_store_tcp;
extern const struct stp_store_ops stp_store_folder;

/* Fails by errno. */
bool stp_client_fail(struct stp_client *client);

/* Sleeps between looks for a key, and doubles *ms, which is 1 at first, up to
 * 50.  Fails if the deadline has passed. */
bool stp_client_sleep(struct stp_client *client, unsigned *ms);
