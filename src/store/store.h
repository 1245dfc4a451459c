/*
 * store.h - what a client and the server of a key-value store say to each other
 *
 * The protocol of PyTorch's TCPStore: a client sends VALIDATE, then requests.
 * Numbers have the byte order of the host.  A key or a value is a 64-bit length
 * and its bytes, a list a 64-bit count and its members.  Nobody here sends or
 * serves the queries without a comment.
 */
#ifndef STP_STORE_H
#define STP_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stp_query {
    STP_VALIDATE,    /* STP_STORE_MAGIC; no reply */
    STP_SET,         /* key, value; no reply */
    STP_COMPARE_SET, /* key, expected value, value; the value it has now */
    STP_GET,         /* key; its value */
    STP_ADD,         /* key, 64-bit number; the sum */
    STP_CHECK,       /* list of keys; a byte: 0 all are there, 1 not */
    STP_WAIT,        /* list of keys; a byte once all are there: 0 */
    STP_GETNUMKEYS,
    STP_DELETE_KEY, /* key; 64-bit number of keys deleted */
    STP_APPEND,     /* key, value; no reply */
    STP_MULTI_GET,
    STP_MULTI_SET,
    STP_CANCEL_WAIT,
    STP_PING,
    STP_N_QUERIES
};

#define STP_STORE_MAGIC UINT32_C(0x3C85F7CE)

enum {
    STP_STORE_PREFIX = 128,         /* bytes of "/steptune/TOKEN/" */
    STP_STORE_MAX_KEY = 1024,       /* bytes */
    STP_STORE_MAX_KEYS = 16384,     /* in a request */
    STP_STORE_MAX_VALUE = 64 << 20, /* bytes */
    STP_STORE_MAX_BYTES = 1 << 30,  /* of all that a server keeps */
};

/* Bytes that grow.  Without memory 'failed' is set and nothing is added. */
struct stp_bytes {
    unsigned char *data;
    size_t size, capacity;
    bool failed;
};

/* Makes room for 'size' more bytes. */
bool stp_bytes_reserve(struct stp_bytes *bytes, size_t size);
void stp_bytes_add(struct stp_bytes *bytes, const void *data, size_t size);

/* Parts of a request. */
void stp_bytes_add_query(struct stp_bytes *bytes, enum stp_query query);
void stp_bytes_add_u64(struct stp_bytes *bytes, uint64_t number);
void stp_bytes_add_key(struct stp_bytes *bytes, const char *prefix,
                       const char *key);
void stp_bytes_add_value(struct stp_bytes *bytes, const void *value,
                         size_t size);

/* "/steptune/TOKEN/": all keys of a run begin with it.  PyTorch's clients put
 * the slash before their keys themselves. */
void stp_store_prefix(const char *token, char prefix_ret[STP_STORE_PREFIX]);

/* TCP's options for a connection to a store; none of them is needed, and all
 * fail on a socket within a host. */
void stp_store_tune(int fd);

/* Whether the other host has not confirmed for 8 seconds what was sent to it.
 * Never true of sockets within a host. */
bool stp_store_is_stuck(int fd);

/* Whether a call on a socket that failed with this errno may do later. */
bool stp_store_may_retry(int error);

#endif /* STP_STORE_H */
