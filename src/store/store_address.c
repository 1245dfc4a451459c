#include "store/store_address.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

#define TCP_SCHEME    "tcpstore://"
#define FOLDER_SCHEME "file://"

struct stp_store_address stp_store_at(const char *host, unsigned port)
{
    struct stp_store_address address = {.engine = STP_STORE_TCP, .port = port};
    const size_t n_host = strlen(host);

    if (n_host == 0 || n_host >= sizeof(address.host) || port < 1 ||
        port > UINT16_MAX)
        return (struct stp_store_address){.engine = STP_STORE_NOWHERE};
    memcpy(address.host, host, n_host + 1);
    return address;
}

/* "a:1", "10.0.0.1:1" or "[::1]:1"; NOWHERE if the text is none. */
static struct stp_store_address address_parse_tcp(const char *text)
{
    const struct stp_store_address nowhere = {.engine = STP_STORE_NOWHERE};
    const char *colon = strrchr(text, ':');
    char host[STP_STORE_NAME + 1];
    size_t n_host;
    uint64_t port;

    if (colon == NULL || !stp_parse_u64(colon + 1, strlen(colon + 1), &port) ||
        port > UINT16_MAX)
        return nowhere;
    n_host = (size_t)(colon - text);
    if (n_host > 2 && text[0] == '[' && colon[-1] == ']') {
        text++;
        n_host -= 2;
    } else if (memchr(text, ':', n_host) != NULL) {
        return nowhere;
    }
    if (strcspn(text, "[]/?#@") < n_host)
        return nowhere;
    snprintf(host, sizeof(host), "%.*s", (int)n_host, text);
    return stp_store_at(host, (unsigned)port);
}

/* Copies an absolute path, in which %XX stands for a byte other than 0. */
static bool address_decode_path(const char *text, char path[STP_STORE_NAME])
{
    size_t n = 0;

    if (text[0] != '/')
        return false;
    for (const char *s = text; *s != '\0'; s++) {
        path[n] = *s;
        if (*s == '%') {
            const char hex[3] = {s[1], s[1] != '\0' ? s[2] : '\0'};

            if (!isxdigit((unsigned char)hex[0]) ||
                !isxdigit((unsigned char)hex[1]))
                return false;
            path[n] = (char)strtoul(hex, NULL, 16);
            s += 2;
        }
        if (path[n] == '\0' || ++n == STP_STORE_NAME)
            return false;
    }
    path[n] = '\0';
    return true;
}

bool stp_store_parse(const char *text, struct stp_store_address *address_ret)
{
    struct stp_store_address address = {.engine = STP_STORE_NOWHERE};

    if (strncmp(text, TCP_SCHEME, strlen(TCP_SCHEME)) == 0)
        address = address_parse_tcp(text + strlen(TCP_SCHEME));
    else if (strncmp(text, FOLDER_SCHEME, strlen(FOLDER_SCHEME)) == 0 &&
             address_decode_path(text + strlen(FOLDER_SCHEME), address.folder))
        address.engine = STP_STORE_FOLDER;
    if (address.engine == STP_STORE_NOWHERE)
        return false;
    *address_ret = address;
    return true;
}

void stp_store_describe(const struct stp_store_address *address,
                        char place[STP_STORE_PLACE])
{
    if (address->engine == STP_STORE_FOLDER)
        snprintf(place, STP_STORE_PLACE, "the folder %s", address->folder);
    else
        snprintf(place, STP_STORE_PLACE, "the store at %s port %u",
                 address->host, address->port);
}

void stp_store_redact(const char *text, char *shown, size_t size)
{
    const size_t n_scheme = strcspn(text, ":");
    const bool may_be_secret =
        strchr(text, '@') != NULL || strncmp(text, "redis", 5) == 0;

    if (!may_be_secret)
        snprintf(shown, size, "%s", text);
    else if (text[n_scheme] == ':')
        snprintf(shown, size, "%.*s:...", (int)n_scheme, text);
    else
        snprintf(shown, size, "...");
}
