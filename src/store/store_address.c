#include "store/store_address.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

/* HOST and PORT, which are 'n_host' and the rest of bytes. */
static bool address_set_host(const char *host, size_t n_host, const char *port,
                             struct stp_store_address *address)
{
    uint64_t number;

    if (n_host == 0 || n_host >= sizeof(address->host) ||
        !stp_parse_u64(port, strlen(port), &number) || number < 1 ||
        number > UINT16_MAX)
        return false;
    memcpy(address->host, host, n_host);
    address->host[n_host] = '\0';
    address->port = (unsigned)number;
    return true;
}

/* "a:1", "10.0.0.1:1" or "[::1]:1". */
static bool address_parse_host(const char *place,
                               struct stp_store_address *address)
{
    const char *colon = strrchr(place, ':');
    size_t n_host;

    if (colon == NULL)
        return false;
    n_host = (size_t)(colon - place);
    if (n_host > 2 && place[0] == '[' && colon[-1] == ']')
        return address_set_host(place + 1, n_host - 2, colon + 1, address);
    return memchr(place, ':', n_host) == NULL &&
           address_set_host(place, n_host, colon + 1, address);
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
    bool (*parse)(const char *rest, struct stp_store_address *address);
} schemes[] = {
    {"tcpstore://", STP_STORE_TCP, address_parse_host},
};

bool stp_store_parse(const char *text, struct stp_store_address *address_ret)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        const size_t n = strlen(schemes[i].scheme);
        struct stp_store_address address = {.engine = schemes[i].engine};

        if (strncmp(text, schemes[i].scheme, n) != 0 ||
            !schemes[i].parse(text + n, &address))
            continue;
        *address_ret = address;
        return true;
    }
    return false;
}

void stp_store_describe(const struct stp_store_address *address,
                        char place[STP_STORE_PLACE])
{
    snprintf(place, STP_STORE_PLACE, "the store at %s port %u", address->host,
             address->port);
}
