/*
 * store_address.h - where a store is, and which engine it has
 */
#ifndef STP_STORE_ADDRESS_H
#define STP_STORE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

enum stp_store_engine {
    STP_STORE_NOWHERE,
    STP_STORE_TCP,    /* PyTorch's TCPStore, or our own */
    STP_STORE_REDIS,  /* Redis, or what speaks its protocol, such as Valkey */
    STP_STORE_FOLDER, /* files in a folder that the hosts share */
};

/* Redis is an engine in a library of its own, because it needs libraries and a
 * plugin may not. */
#define STP_STORE_REDIS_LIBRARY "libsteptune-redis.so"

enum {
    STP_STORE_NAME = 256,  /* of a host, a file or a password, with its NUL */
    STP_STORE_PLACE = 320, /* of stp_store_describe() */
};

/* Of strings "" is none. */
struct stp_store_address {
    enum stp_store_engine engine;
    char host[STP_STORE_NAME]; /* a name or an address, IPv4 or IPv6 */
    unsigned port;
    char folder[STP_STORE_NAME];

    /* Redis alone. */
    char user[STP_STORE_NAME], password[STP_STORE_NAME];
    unsigned database;
    bool has_tls;
    char cacert[STP_STORE_NAME]; /* files, PEM */
    char cert[STP_STORE_NAME], key[STP_STORE_NAME];
};

/* What stp_store_parse() takes, for messages. */
#define STP_STORE_EXPECTED                                                     \
    "tcpstore://HOST:PORT, redis://[[USER]:PASSWORD@]HOST[:PORT][/DB], "       \
    "rediss://... or file:///FOLDER"

/* A TCPStore.  NOWHERE if the host is empty or too long, or the port is none
 * of 1 to 65535. */
struct stp_store_address stp_store_at(const char *host, unsigned port);

/*
 * An address of STP_STORE_EXPECTED.  False, and *address_ret untouched, if the
 * text is none.  %XX stands for a byte in a user, a password and a path.
 * rediss:// (TLS) may end in options, each once:
 * ?cacert=FILE&cert=FILE&key=FILE
 */
bool stp_store_parse(const char *text, struct stp_store_address *address_ret);

/* "the store at HOST port PORT", for messages; no user and no password. */
void stp_store_describe(const struct stp_store_address *address,
                        char place[STP_STORE_PLACE]);

/* A text that is no address, for messages: without what may be a password. */
void stp_store_redact(const char *text, char *shown, size_t size);

#endif /* STP_STORE_ADDRESS_H */
