#include "store/store_client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "store/clock.h"

enum { NAP_MAX_MS = 50 };

bool stp_client_fail(struct stp_client *client)
{
    snprintf(client->why, sizeof(client->why), "the store does not answer: %s",
             strerror(errno));
    return false;
}

bool stp_client_sleep(struct stp_client *client, unsigned *ms)
{
    const int64_t left_ms = client->deadline_ms - stp_now_ms();

    errno = ETIMEDOUT;
    if (left_ms <= 0)
        return stp_client_fail(client);
    poll(NULL, 0, left_ms < *ms ? (int)left_ms : (int)*ms);
    *ms = *ms < NAP_MAX_MS / 2 ? *ms * 2 : NAP_MAX_MS;
    return true;
}

bool stp_client_open(struct stp_client *client,
                     const struct stp_store_address *address, const char *token,
                     int64_t deadline_ms)
{
    *client = (struct stp_client){.fd = -1, .deadline_ms = deadline_ms};
    stp_store_prefix(token, client->prefix);
    if (address->engine == STP_STORE_NOWHERE) {
        snprintf(client->why, sizeof(client->why), "no address");
        return false;
    }
    client->ops =
        address->engine == STP_STORE_TCP ? &stp_store_tcp : &stp_store_folder;
    return client->ops->open(client, address);
}

void stp_client_close(struct stp_client *client)
{
    if (client->ops != NULL)
        client->ops->close(client);
    client->ops = NULL;
}
