#include "store/store_client.h"

#include <stdio.h>

static const struct stp_store_ops *
client_find_engine(struct stp_client *client, enum stp_store_engine engine)
{
    switch (engine) {
    case STP_STORE_TCP:
        return &stp_store_tcp;
    case STP_STORE_REDIS:
        return stp_store_load_redis(client->why, sizeof(client->why));
    case STP_STORE_FOLDER:
        return &stp_store_folder;
    case STP_STORE_NOWHERE:
        break;
    }
    snprintf(client->why, sizeof(client->why), "no address");
    return NULL;
}

bool stp_client_open(struct stp_client *client,
                     const struct stp_store_address *address, const char *token,
                     int64_t deadline_ms)
{
    *client = (struct stp_client){
        .fd = -1, .wake_fd = -1, .deadline_ms = deadline_ms};
    stp_store_prefix(token, client->prefix);
    client->ops = client_find_engine(client, address->engine);
    return client->ops != NULL && client->ops->open(client, address);
}

void stp_client_close(struct stp_client *client)
{
    if (client->ops != NULL)
        client->ops->close(client);
    client->ops = NULL;
}

bool stp_client_set(struct stp_client *client, const char *key,
                    const void *value, size_t size)
{
    return client->ops->set(client, key, value, size);
}

bool stp_client_append(struct stp_client *client, const char *key,
                       const void *value, size_t size)
{
    return client->ops->append(client, key, value, size);
}

bool stp_client_check(struct stp_client *client, const char *key,
                      bool *is_there_ret)
{
    return client->ops->check(client, key, is_there_ret);
}

bool stp_client_add(struct stp_client *client, const char *key, int64_t number,
                    int64_t *sum_ret)
{
    return client->ops->add(client, key, number, sum_ret);
}

bool stp_client_delete(struct stp_client *client, const char *key)
{
    return client->ops->del(client, key);
}

bool stp_client_wait(struct stp_client *client, const char *key)
{
    return client->ops->wait(client, key);
}

bool stp_client_get(struct stp_client *client, const char *key, void *value,
                    size_t max, size_t *size_ret)
{
    return client->ops->get(client, key, value, max, size_ret);
}

bool stp_client_compare_set(struct stp_client *client, const char *key,
                            const void *value, size_t size,
                            const struct stp_bytes *after, void *now,
                            size_t max, size_t *now_size_ret)
{
    return client->ops->compare_set(client, key, value, size, after, now, max,
                                    now_size_ret);
}
