/* store.h - what a client and the server of a key-value store say to each other
 *
 * The protocol of PyTorch's TCPStore: a client sends VALIDATE, then requests.
 * Numbers have the byte order of the host.  A key or a value is a 64-bit length
 * and its bytes, a list a 64-bit count and its members. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum stp_store_query {
    STP_VALIDATE,       /* STP_STORE_MAGIC; no reply */
    STP_SET,            /* key, value; no reply */
    STP_COMPARE_SET,    /* key, expected value, value; the value it has now */
    STP_GET,            /* key; its value */
    STP_ADD,            /* key, 64-bit number; the sum */
    STP_CHECK,          /* list of keys; a byte: 0 all are there, 1 not */
    STP_WAIT,           /* list of keys; a byte once all are there: 0 */
    STP_DELETE_KEY = 8, /* key; 64-bit number of keys deleted */
    STP_APPEND,         /* key, value; no reply */
    STP_N_QUERIES
};

#define STP_STORE_MAGIC UINT32_C(0x3C85F7CE)

enum {
    STP_STORE_PREFIX = 128,         /* bytes of "/steptune/TOKEN/" */
    STP_STORE_MAX_VALUE = 64 << 20, /* bytes */
};

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
