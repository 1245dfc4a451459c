#include "store/redis/redis_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <hiredis.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PIECE = 16 << 10,
    MAX_REPLY = STP_STORE_MAX_VALUE + PIECE, /* bytes */
};

struct redis_link {
    redisReader *reader;
    SSL_CTX *context; /* NULL: no TLS */
    SSL *tls;
};

/* ---- TLS ---- */

static bool link_fail_tls(struct stp_client *client, const char *what,
                          const char *file)
{
    const struct redis_link *link = client->state;
    const unsigned long error = ERR_get_error();
    const char *reason = error != 0 ? ERR_reason_error_string(error) : NULL;
    const long verdict =
        link->tls != NULL ? SSL_get_verify_result(link->tls) : X509_V_OK;

    if (verdict != X509_V_OK)
        reason = X509_verify_cert_error_string(verdict);
    snprintf(client->why, sizeof(client->why), "%s%.150s: %.80s", what, file,
             reason != NULL ? reason : "TLS failed");
    return false;
}

/* Sends what OpenSSL has written. */
static bool link_flush_tls(struct stp_client *client)
{
    const struct redis_link *link = client->state;
    char piece[PIECE];
    int n;

    while ((n = BIO_read(SSL_get_wbio(link->tls), piece, sizeof(piece))) > 0) {
        struct iovec part = {piece, (size_t)n};

        if (!stp_socket_send(client->fd, &part, 1, false, client->deadline_ms))
            return stp_client_fail(client);
    }
    return true;
}

/* After an operation of TLS returned 'result', which is not positive: gives
 * OpenSSL what comes, if it needs that to try again. */
static bool link_continue_tls(struct stp_client *client, int result,
                              const char *what)
{
    const struct redis_link *link = client->state;
    const int error = SSL_get_error(link->tls, result);
    char piece[PIECE];
    size_t n;

    if (error == SSL_ERROR_ZERO_RETURN) {
        errno = ECONNRESET;
        return stp_client_fail(client);
    }
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
        link_flush_tls(client); /* an alert, for the server's log */
        return link_fail_tls(client, what, "");
    }
    if (!link_flush_tls(client))
        return false;
    n = stp_socket_receive_some(client->fd, piece, sizeof(piece),
                                client->deadline_ms);
    if (n == 0)
        return stp_client_fail(client);
    errno = ENOMEM;
    return BIO_write(SSL_get_rbio(link->tls), piece, (int)n) == (int)n ||
           stp_client_fail(client);
}

static bool link_load_files(struct stp_client *client,
                            const struct stp_store_address *address)
{
    const struct redis_link *link = client->state;
    SSL_CTX *context = link->context;

    if (address->cacert[0] == '\0')
        SSL_CTX_set_default_verify_paths(context);
    else if (SSL_CTX_load_verify_locations(context, address->cacert, NULL) != 1)
        return link_fail_tls(client, "cacert=", address->cacert);
    if (address->cert[0] == '\0')
        return true;
    if (SSL_CTX_use_certificate_chain_file(context, address->cert) != 1)
        return link_fail_tls(client, "cert=", address->cert);
    return SSL_CTX_use_PrivateKey_file(context, address->key,
                                       SSL_FILETYPE_PEM) == 1 ||
           link_fail_tls(client, "key=", address->key);
}

/* The server must have a certificate for this host. */
static bool link_expect_host(SSL *tls, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];

    if (inet_pton(AF_INET, host, address) == 1 ||
        inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host) == 1;
    return SSL_set1_host(tls, host) == 1 &&
           SSL_set_tlsext_host_name(tls, host) == 1;
}

static bool link_begin_tls(struct stp_client *client,
                           const struct stp_store_address *address)
{
    struct redis_link *link = client->state;
    BIO *in, *out;
    int result;

    ERR_clear_error();
    link->context = SSL_CTX_new(TLS_client_method());
    if (link->context == NULL)
        return link_fail_tls(client, "TLS", "");
    SSL_CTX_set_min_proto_version(link->context, TLS1_2_VERSION);
    SSL_CTX_set_verify(link->context, SSL_VERIFY_PEER, NULL);
    if (!link_load_files(client, address))
        return false;
    link->tls = SSL_new(link->context);
    if (link->tls == NULL || !link_expect_host(link->tls, address->host))
        return link_fail_tls(client, "TLS", "");
    in = BIO_new(BIO_s_mem());
    out = BIO_new(BIO_s_mem());
    SSL_set_bio(link->tls, in, out);
    if (in == NULL || out == NULL)
        return link_fail_tls(client, "TLS", "");
    while ((result = SSL_connect(link->tls)) != 1)
        if (!link_continue_tls(client, result, "the server cannot be trusted"))
            return false;
    return link_flush_tls(client);
}

/* ---- both ---- */

bool stp_redis_connect(struct stp_client *client,
                       const struct stp_store_address *address)
{
    struct redis_link *link = calloc(1, sizeof(*link));

    client->state = link;
    if (link != NULL)
        link->reader = redisReaderCreate();
    errno = ENOMEM;
    if (link == NULL || link->reader == NULL)
        return stp_client_fail(client);
    client->fd =
        stp_socket_connect(address->host, address->port, client->deadline_ms,
                           client->address, client->why, sizeof(client->why));
    return client->fd >= 0 &&
           (!address->has_tls || link_begin_tls(client, address));
}

void stp_redis_disconnect(struct stp_client *client)
{
    struct redis_link *link = client->state;

    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
    client->state = NULL;
    if (link == NULL)
        return;
    if (link->reader != NULL)
        redisReaderFree(link->reader);
    SSL_free(link->tls);
    SSL_CTX_free(link->context);
    free(link);
}

bool stp_redis_send(struct stp_client *client, const void *data, size_t size)
{
    const struct redis_link *link = client->state;
    struct iovec part = {(void *)(uintptr_t)data, size};
    int result;

    if (link->tls == NULL)
        return stp_socket_send(client->fd, &part, 1, false,
                               client->deadline_ms) ||
               stp_client_fail(client);
    ERR_clear_error();
    while ((result = SSL_write(link->tls, data, (int)size)) <= 0)
        if (!link_continue_tls(client, result, "TLS"))
            return false;
    return link_flush_tls(client);
}

/* The next bytes, 1 to 'size'; 0 on failure. */
static size_t link_receive(struct stp_client *client, char *to, size_t size)
{
    const struct redis_link *link = client->state;
    size_t n_received;
    int n;

    if (link->tls == NULL) {
        n_received =
            stp_socket_receive_some(client->fd, to, size, client->deadline_ms);
        if (n_received == 0)
            stp_client_fail(client);
        return n_received;
    }
    ERR_clear_error();
    while ((n = SSL_read(link->tls, to, (int)size)) <= 0)
        if (!link_continue_tls(client, n, "TLS"))
            return 0;
    return (size_t)n;
}

struct redisReply *stp_redis_receive(struct stp_client *client)
{
    struct redis_link *link = client->state;
    void *reply = NULL;
    char piece[PIECE];
    size_t n_received = 0, n;

    for (;;) {
        if (redisReaderGetReply(link->reader, &reply) != REDIS_OK) {
            snprintf(client->why, sizeof(client->why),
                     "it does not speak Redis' protocol: %s",
                     link->reader->errstr);
            return NULL;
        }
        if (reply != NULL)
            return reply;
        errno = EMSGSIZE;
        if (n_received > MAX_REPLY) {
            stp_client_fail(client);
            return NULL;
        }
        n = link_receive(client, piece, sizeof(piece));
        n_received += n;
        if (n == 0)
            return NULL;
        errno = ENOMEM;
        if (redisReaderFeed(link->reader, piece, n) != REDIS_OK) {
            stp_client_fail(client);
            return NULL;
        }
    }
}
