/* store_address.h - where a store is, and which engine it has */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum stp_store_engine {
    STP_STORE_NOWHERE,
    STP_STORE_TCP,    /* PyTorch's TCPStore, or our own */
    STP_STORE_FOLDER, /* files in a folder that the hosts share */
};

enum {
    STP_STORE_NAME = 256,  /* of a host or a folder, with its NUL */
    STP_STORE_PLACE = 320, /* of stp_store_describe() */
};

struct stp_store_address {
    enum stp_store_engine engine;
    char host[STP_STORE_NAME]; /* a name or an address, IPv4 or IPv6 */
    unsigned port;
    char folder[STP_STORE_NAME];
};

/* The addresses that stp_store_parse() takes, for messages. */
#define STP_STORE_EXPECTED "tcpstore://HOST:PORT or file:///FOLDER"

/* A TCPStore.  NOWHERE if the host is empty or too long, or the port is none
 * of 1 to 65535. */
struct stp_store_address stp_store_at(const char *host, unsigned port);

/* An address of STP_STORE_EXPECTED.  False, and *address_ret untouched, if the
 * text is none.  %XX stands for a byte in a folder. */
bool stp_store_parse(const char *text, struct stp_store_address *address_ret);

/* "the store at HOST port PORT", for messages. */
void stp_store_describe(const struct stp_store_address *address,
                        char place[STP_STORE_PLACE]);

/* A text that is no address, for messages: without what may be a password. */
void stp_store_redact(const char *text, char *shown, size_t size);
