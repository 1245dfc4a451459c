/*
 * redis_store.c - the engine that asks a Redis server, or what speaks its
 * protocol
 *
 * Every key expires (STP_STORE_LIFETIME_S), by the same transaction that gives
 * it a value.  A key is awaited by looking for it, with pauses
 * (stp_client_nap()).
 */
#include <errno.h>
#include <hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis/redis_link.h"

/* Commands that are sent together. */
struct redis_request {
    struct stp_bytes bytes;
    int n;
    bool is_login; /* an error may repeat the password, and is not told */
};

static bool redis_fail(struct stp_client *client, int error)
{
    errno = error;
    return stp_client_fail(client);
}

/* As redisCommand(): %b is a pointer and a size. */
static void redis_add_command(struct redis_request *request, const char *format,
                              ...)
{
    char *text = NULL;
    va_list arguments;
    int n;

    va_start(arguments, format);
    n = redisvFormatCommand(&text, format, arguments);
    va_end(arguments);
    request->bytes.failed |= n < 0;
    if (n >= 0)
        stp_bytes_add(&request->bytes, text, (size_t)n);
    redisFreeCommand(text);
    request->n++;
}

/* The first error in a reply and its elements, or NULL. */
static const redisReply *redis_find_error(const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        return reply;
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements;
         i++)
        if (reply->element[i]->type == REDIS_REPLY_ERROR)
            return reply->element[i];
    return NULL;
}

/* Sends commands, and frees them.  The reply to the last, or NULL if any of
 * them failed. */
static redisReply *redis_ask(struct stp_client *client,
                             struct redis_request *request)
{
    bool is_good =
        request->bytes.failed
            ? redis_fail(client, ENOMEM)
            : stp_redis_send(client, request->bytes.data, request->bytes.size);
    redisReply *last = NULL;

    free(request->bytes.data);
    for (int i = 0; is_good && i < request->n; i++) {
        const redisReply *error;

        if (last != NULL)
            freeReplyObject(last);
        last = stp_redis_receive(client);
        error = last != NULL ? redis_find_error(last) : NULL;
        is_good = last != NULL && error == NULL;
        if (error != NULL)
            snprintf(client->why, sizeof(client->why),
                     "the Redis server refuses%s%s",
                     request->is_login ? " the user or the password" : ": ",
                     request->is_login ? "" : error->str);
    }
    if (!is_good && last != NULL)
        freeReplyObject(last);
    return is_good ? last : NULL;
}

/* Asks where the reply is of no interest. */
static bool redis_tell(struct stp_client *client, struct redis_request *request)
{
    redisReply *reply = redis_ask(client, request);

    if (reply != NULL)
        freeReplyObject(reply);
    return reply != NULL;
}

static bool redis_take_integer(struct stp_client *client,
                               const redisReply *reply, int64_t *number_ret)
{
    if (reply->type != REDIS_REPLY_INTEGER)
        return redis_fail(client, EPROTO);
    *number_ret = reply->integer;
    return true;
}

static bool redis_take_value(struct stp_client *client, const redisReply *reply,
                             void *value, size_t max, size_t *size_ret)
{
    if (reply->type != REDIS_REPLY_STRING)
        return redis_fail(client, EPROTO);
    if ((size_t)reply->len > max)
        return redis_fail(client, EMSGSIZE);
    memcpy(value, reply->str, (size_t)reply->len);
    *size_ret = (size_t)reply->len;
    return true;
}

/* ---- login ---- */

static bool redis_login(struct stp_client *client,
                        const struct stp_store_address *address)
{
    struct redis_request request = {.is_login = true};

    if (address->password[0] == '\0')
        return true;
    if (address->user[0] != '\0')
        redis_add_command(&request, "AUTH %s %s", address->user,
                          address->password);
    else
        redis_add_command(&request, "AUTH %s", address->password);
    return redis_tell(client, &request);
}

static bool redis_open(struct stp_client *client,
                       const struct stp_store_address *address)
{
    struct redis_request request = {.n = 0};

    if (!stp_redis_connect(client, address) || !redis_login(client, address))
        return false;
    if (address->database == 0)
        return true;
    redis_add_command(&request, "SELECT %u", address->database);
    return redis_tell(client, &request);
}

/* ---- operations ---- */

/* Room for a key with its prefix. */
struct redis_key {
    char text[STP_STORE_PREFIX + STP_STORE_MAX_KEY];
};

static const char *redis_key(const struct stp_client *client, const char *key,
                             struct redis_key *room)
{
    snprintf(room->text, sizeof(room->text), "%s%s", client->prefix, key);
    return room->text;
}

static bool redis_set(struct stp_client *client, const char *key,
                      const void *value, size_t size)
{
    struct redis_request request = {.n = 0};
    struct redis_key room;

    redis_add_command(&request, "SET %s %b EX %d",
                      redis_key(client, key, &room), value, size,
                      STP_STORE_LIFETIME_S);
    return redis_tell(client, &request);
}

static bool redis_append(struct stp_client *client, const char *key,
                         const void *value, size_t size)
{
    struct redis_request request = {.n = 0};
    struct redis_key room;

    redis_key(client, key, &room);
    redis_add_command(&request, "MULTI");
    redis_add_command(&request, "APPEND %s %b", room.text, value, size);
    redis_add_command(&request, "EXPIRE %s %d", room.text,
                      STP_STORE_LIFETIME_S);
    redis_add_command(&request, "EXEC");
    return redis_tell(client, &request);
}

static bool redis_check(struct stp_client *client, const char *key,
                        bool *is_there_ret)
{
    struct redis_request request = {.n = 0};
    struct redis_key room;
    redisReply *reply;
    int64_t n = 0;
    bool is_good;

    redis_add_command(&request, "EXISTS %s", redis_key(client, key, &room));
    reply = redis_ask(client, &request);
    if (reply == NULL)
        return false;
    is_good = redis_take_integer(client, reply, &n);
    *is_there_ret = n > 0;
    freeReplyObject(reply);
    return is_good;
}

/* What a transaction replies, if it has two commands. */
static redisReply *redis_ask_two(struct stp_client *client,
                                 struct redis_request *request)
{
    redisReply *reply = redis_ask(client, request);

    if (reply == NULL ||
        (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2))
        return reply;
    freeReplyObject(reply);
    redis_fail(client, EPROTO);
    return NULL;
}

static bool redis_add(struct stp_client *client, const char *key,
                      int64_t number, int64_t *sum_ret)
{
    struct redis_request request = {.n = 0};
    struct redis_key room;
    redisReply *reply;
    bool is_good;

    redis_key(client, key, &room);
    redis_add_command(&request, "MULTI");
    redis_add_command(&request, "INCRBY %s %lld", room.text, (long long)number);
    redis_add_command(&request, "EXPIRE %s %d", room.text,
                      STP_STORE_NUMBER_LIFETIME_S);
    redis_add_command(&request, "EXEC");
    reply = redis_ask_two(client, &request);
    if (reply == NULL)
        return false;
    is_good = redis_take_integer(client, reply->element[0], sum_ret);
    freeReplyObject(reply);
    return is_good;
}

static bool redis_delete(struct stp_client *client, const char *key)
{
    struct redis_request request = {.n = 0};
    struct redis_key room;

    redis_add_command(&request, "DEL %s", redis_key(client, key, &room));
    return redis_tell(client, &request);
}

static bool redis_wait(struct stp_client *client, const char *key)
{
    bool is_there = false;
    unsigned nap_ms = 1;

    while (redis_check(client, key, &is_there) && !is_there)
        if (!stp_client_nap(client, &nap_ms))
            return false;
    return is_there;
}

static bool redis_get(struct stp_client *client, const char *key, void *value,
                      size_t max, size_t *size_ret)
{
    unsigned nap_ms = 1;
    struct redis_key room;

    redis_key(client, key, &room);
    for (;;) {
        struct redis_request request = {.n = 0};
        redisReply *reply;
        bool is_there, is_good;

        redis_add_command(&request, "GET %s", room.text);
        reply = redis_ask(client, &request);
        if (reply == NULL)
            return false;
        is_there = reply->type != REDIS_REPLY_NIL;
        is_good =
            is_there && redis_take_value(client, reply, value, max, size_ret);
        freeReplyObject(reply);
        if (is_there || !stp_client_nap(client, &nap_ms))
            return is_good;
    }
}

static bool redis_compare_set(struct stp_client *client, const char *key,
                              const void *value, size_t size,
                              const struct stp_bytes *after, void *now,
                              size_t max, size_t *now_size_ret)
{
    struct redis_request request = {.n = 0};
    struct redis_key room;
    redisReply *reply;
    bool is_good;

    (void)after;
    redis_key(client, key, &room);
    redis_add_command(&request, "MULTI");
    redis_add_command(&request, "SET %s %b EX %d NX", room.text, value, size,
                      STP_STORE_LIFETIME_S);
    redis_add_command(&request, "GET %s", room.text);
    redis_add_command(&request, "EXEC");
    reply = redis_ask_two(client, &request);
    if (reply == NULL)
        return false;
    is_good =
        redis_take_value(client, reply->element[1], now, max, now_size_ret);
    freeReplyObject(reply);
    return is_good;
}

static const struct stp_store_ops redis_ops = {
    .open = redis_open,
    .close = stp_redis_disconnect,
    .set = redis_set,
    .append = redis_append,
    .check = redis_check,
    .add = redis_add,
    .del = redis_delete,
    .wait = redis_wait,
    .get = redis_get,
    .compare_set = redis_compare_set,
};

extern const struct stp_store_library stp_store_redis;

__attribute__((visibility("default")))
const struct stp_store_library stp_store_redis = {
    .version = STP_STORE_VERSION,
    .ops = &redis_ops,
};
