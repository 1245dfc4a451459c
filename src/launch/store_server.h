/*
 * store_server.h - the server of a key-value store, without a thread of its own
 *
 * It works while stp_server_step() runs, and serves what store_client.h asks
 * for.  Beyond PyTorch's server, GET waits for a key that is missing, and SET
 * and APPEND are served while an earlier request of the connection waits.
 *
 * A connection is a stranger's until it names a key that begins with the prefix
 * of the store, which holds the token of the run: it has a few seconds for
 * that, little memory, and no answer.  There are at
 * most 128 strangers: the oldest makes room.  What is longer than store.h
 * allows, or no request, closes the connection.
 */
#ifndef STP_STORE_SERVER_H
#define STP_STORE_SERVER_H

#include "core/status.h"
#include "launch/store_table.h"
#include "store/store.h"

struct stp_server;

enum { STP_STRANGER = -1 /* the owner of a connection that has none */ };

/* Called from within stp_server_step().  Keys are without the prefix. */
struct stp_server_hooks {
    void *user;

    /* Whether the owner of a connection may name this key. */
    bool (*may_use)(void *user, int owner, enum stp_query query,
                    const char *key);

    /* Answers COMPARE_SET; *owner is that of the connection, and may be
     * changed.  NULL: closes the connection. */
    struct stp_value *(*admit)(void *user, int *owner, const void *value,
                               size_t size);

    /* The connection of an owner is gone; 'is_bad' if it sent no request. */
    void (*closed)(void *user, int owner, bool is_bad);
};

/* Without hooks (NULL) a store serves all that have the token. */
enum stp_status stp_server_new(const char *token,
                               const struct stp_server_hooks *hooks,
                               struct stp_server **server_ret,
                               struct stp_error *err);
void stp_server_free(struct stp_server *server); /* NULL is allowed */

/* Takes over a listening socket that does not block; -1 closes it, and all
 * connections that have no owner. */
bool stp_server_listen(struct stp_server *server, int fd);

/* Takes over a connection on which VALIDATE and GET of 'key' count as sent. */
bool stp_server_adopt(struct stp_server *server, int fd, int owner,
                      const char *key);

/* Serves what has come, or comes within the time.  False if the system has no
 * more sockets. */
bool stp_server_step(struct stp_server *server, int timeout_ms);

/* Whether a connection has not taken its replies yet. */
bool stp_server_has_unsent(const struct stp_server *server);

/* The value of a key, which is deleted; NULL if it has none. */
struct stp_value *stp_server_take(struct stp_server *server, const char *key);

bool stp_server_has(const struct stp_server *server, const char *key);

/* Sets a key to a value that the first GET deletes.  Holds the value, too. */
bool stp_server_put_once(struct stp_server *server, const char *key,
                         struct stp_value *value);

/* Every GET that waits and every later one gets this value, every WAIT is
 * canceled. */
void stp_server_end(struct stp_server *server, struct stp_value *value);

#endif /* STP_STORE_SERVER_H */
