#include "store/store_address.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

enum { REDIS_PORT = 6379, REDIS_DATABASE_MAX = 65535 };

/* A part of a text, up to 'end'. */
struct part {
    const char *s, *end;
};

static bool address_parse_number(struct part part, uint64_t min, uint64_t max,
                                 unsigned *number_ret)
{
    uint64_t number;

    if (!stp_parse_u64(part.s, (size_t)(part.end - part.s), &number) ||
        number < min || number > max)
        return false;
    *number_ret = (unsigned)number;
    return true;
}

static int address_hex(char c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *at = c == '\0' ? NULL : strchr(digits, c);

    return at == NULL ? -1 : (int)((at - digits) % 16);
}

/* Copies a part, in which %XX stands for a byte other than 0. */
static bool address_decode(struct part part, char to[STP_STORE_NAME])
{
    size_t n = 0;

    for (const char *s = part.s; s < part.end; s++) {
        int byte = (unsigned char)*s;

        if (n == STP_STORE_NAME - 1)
            return false;
        if (byte == '%') {
            const int high = part.end - s > 2 ? address_hex(s[1]) : -1;
            const int low = high >= 0 ? address_hex(s[2]) : -1;

            byte = low >= 0 ? high * 16 + low : 0;
            s += 2;
        }
        if (byte == 0)
            return false;
        to[n++] = (char)byte;
    }
    to[n] = '\0';
    return true;
}

static bool address_has(struct part part, const char *bytes)
{
    for (const char *s = part.s; s < part.end; s++)
        if (strchr(bytes, *s) != NULL)
            return true;
    return false;
}

/* "a:1", "10.0.0.1:1" or "[::1]:1"; without a port if 'port' is one. */
static bool address_parse_host(struct part part, unsigned port,
                               struct stp_store_address *address)
{
    struct part host = part;
    const char *colon = part.end;

    while (colon > part.s && colon[-1] != ':' && colon[-1] != ']')
        colon--;
    if (colon > part.s && colon[-1] == ':') {
        host.end = colon - 1;
        if (!address_parse_number((struct part){colon, part.end}, 1, UINT16_MAX,
                                  &port))
            return false;
    } else if (colon > part.s && colon != part.end) {
        return false; /* "[::1]1" */
    }
    if (host.end - host.s > 2 && *host.s == '[' && host.end[-1] == ']')
        host = (struct part){host.s + 1, host.end - 1};
    else if (address_has(host, ":"))
        return false;
    if (address_has(host, "[]/?#@") || host.s == host.end ||
        host.end - host.s >= STP_STORE_NAME || port == 0)
        return false;
    memcpy(address->host, host.s, (size_t)(host.end - host.s));
    address->port = port;
    return true;
}

static bool address_parse_tcp(struct part part,
                              struct stp_store_address *address)
{
    return address_parse_host(part, 0, address);
}

/* "cacert=FILE&cert=FILE&key=FILE" in any order. */
static bool address_parse_options(struct part part,
                                  struct stp_store_address *address)
{
    const struct {
        const char *name;
        char *to;
    } options[] = {
        {"cacert=", address->cacert},
        {"cert=", address->cert},
        {"key=", address->key},
    };

    while (part.s < part.end) {
        const char *next = memchr(part.s, '&', (size_t)(part.end - part.s));
        struct part value = {part.s, next != NULL ? next : part.end};
        char *to = NULL;

        for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
            const size_t n = strlen(options[i].name);

            if (to == NULL && strncmp(part.s, options[i].name, n) == 0) {
                to = options[i].to;
                value.s += n;
            }
        }
        if (to == NULL || *to != '\0' || value.s >= value.end ||
            !address_decode(value, to))
            return false;
        part.s = next != NULL ? next + 1 : part.end;
    }
    return (address->cert[0] == '\0') == (address->key[0] == '\0');
}

/* "[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]" */
static bool address_parse_redis(struct part part,
                                struct stp_store_address *address)
{
    const char *at = part.end;
    const char *slash;

    while (at > part.s && at[-1] != '@')
        at--;
    if (at > part.s) {
        const char *colon = memchr(part.s, ':', (size_t)(at - part.s));
        const char *end = colon != NULL ? colon : at - 1;

        if (!address_decode((struct part){part.s, end}, address->user) ||
            (colon != NULL && !address_decode((struct part){colon + 1, at - 1},
                                              address->password)))
            return false;
    }
    slash = memchr(at, '/', (size_t)(part.end - at));
    if (slash != NULL && slash + 1 < part.end &&
        !address_parse_number((struct part){slash + 1, part.end}, 0,
                              REDIS_DATABASE_MAX, &address->database))
        return false;
    return address_parse_host(
        (struct part){at, slash != NULL ? slash : part.end}, REDIS_PORT,
        address);
}

static bool address_parse_rediss(struct part part,
                                 struct stp_store_address *address)
{
    const char *query = memchr(part.s, '?', (size_t)(part.end - part.s));

    address->has_tls = true;
    return (query == NULL ||
            address_parse_options((struct part){query + 1, part.end},
                                  address)) &&
           address_parse_redis(
               (struct part){part.s, query != NULL ? query : part.end},
               address);
}

static bool address_parse_folder(struct part part,
                                 struct stp_store_address *address)
{
    return part.s < part.end && *part.s == '/' &&
           address_decode(part, address->folder);
}

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

static const struct {
    const char *scheme;
    enum stp_store_engine engine;
    bool (*parse)(struct part rest, struct stp_store_address *address);
} schemes[] = {
    {"tcpstore://", STP_STORE_TCP, address_parse_tcp},
    {"redis://", STP_STORE_REDIS, address_parse_redis},
    {"rediss://", STP_STORE_REDIS, address_parse_rediss},
    {"file://", STP_STORE_FOLDER, address_parse_folder},
};

bool stp_store_parse(const char *text, struct stp_store_address *address_ret)
{
    const char *end = text + strlen(text);

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        const size_t n = strlen(schemes[i].scheme);
        struct stp_store_address address = {.engine = schemes[i].engine};

        if (strncmp(text, schemes[i].scheme, n) != 0 ||
            !schemes[i].parse((struct part){text + n, end}, &address))
            continue;
        *address_ret = address;
        return true;
    }
    return false;
}

void stp_store_describe(const struct stp_store_address *address,
                        char place[STP_STORE_PLACE])
{
    if (address->engine == STP_STORE_FOLDER)
        snprintf(place, STP_STORE_PLACE, "the folder %s", address->folder);
    else
        snprintf(place, STP_STORE_PLACE, "the %s at %s port %u",
                 address->engine == STP_STORE_REDIS ? "Redis server" : "store",
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
