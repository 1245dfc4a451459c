#define _GNU_SOURCE /* accept4() */
#include "launch/store_server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/text.h"
#include "store/clock.h"

enum {
    MAX_STRANGERS = 128,
    MAX_ACCEPTS = 32, /* a step: those that came before are heard in between */
    PATIENCE_MS = 5000,
    CHECK_MS = 1000, /* between looks at strangers and hosts that are gone */
    STRANGER_BYTES = 4096,
    READ_BYTES = 4096,       /* room for a read, at least */
    BEHIND_BYTES = 64 << 10, /* that wait behind a request that waits */
    N_EVENTS = 64,
};

struct connection {
    struct stp_server *server;
    struct connection *next, *previous; /* in order of their age */
    struct connection *next_waiting;    /* for the same key */
    struct connection *next_ready;
    int fd;    /* -1: closed, and freed at the end of the step */
    int owner; /* STP_STRANGER: nobody */
    bool is_valid, is_trusted, is_ready, is_unsent;
    int64_t since_ms;
    struct stp_bytes in, out;
    struct stp_bytes pending;  /* the request that waits, or nothing */
    struct stp_entry *awaited; /* the first key that it misses */
    struct stp_value *body;    /* sent after 'out' */
    size_t n_sent;             /* of both */
};

struct stp_server {
    char prefix[STP_STORE_PREFIX];
    struct stp_server_hooks hooks;
    int epoll, listener;
    struct stp_store_table table;
    size_t n_bytes; /* of what connections send and are sent */
    struct connection *first, *last, *closed, *ready;
    unsigned n_strangers, n_unsent;
    int64_t checked_ms;
    struct stp_value *end; /* stp_server_end() */
};

/* ---- values ---- */

static void connection_make_ready(struct connection *c)
{
    if (c->is_ready || c->fd < 0)
        return;
    c->is_ready = true;
    c->next_ready = c->server->ready;
    c->server->ready = c;
}

static bool server_has_room(const struct stp_server *server, size_t size)
{
    return server->n_bytes + server->table.n_bytes + size <=
           STP_STORE_MAX_BYTES;
}

/* Takes over the value, also on failure. */
static bool server_set(struct stp_server *server, const char *key,
                       struct stp_value *value, bool is_once)
{
    struct stp_entry *entry =
        value == NULL ? NULL : stp_store_table_add(&server->table, key);

    if (entry == NULL) {
        stp_value_drop(value);
        return false;
    }
    stp_store_table_set(&server->table, entry, value, is_once);
    while (entry->waiting != NULL) {
        struct connection *c = entry->waiting;

        entry->waiting = c->next_waiting;
        c->awaited = NULL;
        connection_make_ready(c);
    }
    return true;
}

static bool server_delete(struct stp_server *server, const char *key)
{
    struct stp_entry *entry = stp_store_table_find(&server->table, key);

    if (entry == NULL || entry->value == NULL)
        return false;
    stp_store_table_set(&server->table, entry, NULL, false);
    stp_store_table_tidy(&server->table, entry);
    return true;
}

/* ---- connections ---- */

static void connection_stop_waiting(struct connection *c)
{
    struct connection **at;

    c->pending.size = 0;
    if (c->awaited == NULL)
        return;
    for (at = &c->awaited->waiting; *at != c; at = &(*at)->next_waiting)
        ;
    *at = c->next_waiting;
    stp_store_table_tidy(&c->server->table, c->awaited);
    c->awaited = NULL;
}

static void connection_note_unsent(struct connection *c, bool is_unsent)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP |
                                          (is_unsent ? EPOLLOUT : 0),
                                .data.ptr = c};

    if (c->is_unsent == is_unsent)
        return;
    c->is_unsent = is_unsent;
    c->server->n_unsent += is_unsent ? 1U : -1U;
    epoll_ctl(c->server->epoll, EPOLL_CTL_MOD, c->fd, &event);
}

static void connection_close(struct connection *c, bool is_bad)
{
    struct stp_server *server = c->server;

    if (c->fd < 0)
        return;
    connection_stop_waiting(c);
    connection_note_unsent(c, false);
    /* Another process may have the socket, too: closing it here would leave its
     * events. */
    epoll_ctl(server->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    c->fd = -1;
    server->n_strangers -= !c->is_trusted;
    server->n_bytes -= c->in.capacity + c->out.capacity + c->pending.capacity;
    *(c->previous == NULL ? &server->first : &c->previous->next) = c->next;
    *(c->next == NULL ? &server->last : &c->next->previous) = c->previous;
    c->next = server->closed;
    server->closed = c;
    if (c->owner != STP_STRANGER && server->hooks.closed != NULL)
        server->hooks.closed(server->hooks.user, c->owner, is_bad);
}

static struct connection *connection_new(struct stp_server *server, int fd)
{
    struct connection *c = calloc(1, sizeof(*c));
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};

    if (c == NULL || epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        free(c);
        close(fd);
        return NULL;
    }
    stp_store_tune(fd);
    c->server = server;
    c->fd = fd;
    c->owner = STP_STRANGER;
    c->since_ms = stp_now_ms();
    c->previous = server->last;
    *(server->last == NULL ? &server->first : &server->last->next) = c;
    server->last = c;
    server->n_strangers++;
    return c;
}

static void server_free_closed(struct stp_server *server)
{
    while (server->closed != NULL) {
        struct connection *c = server->closed;

        server->closed = c->next;
        stp_value_drop(c->body);
        free(c->in.data);
        free(c->out.data);
        free(c->pending.data);
        free(c);
    }
}

/* Makes room within what this connection and the server may keep. */
static bool connection_reserve(struct connection *c, struct stp_bytes *bytes,
                               size_t size)
{
    const size_t before = bytes->capacity;

    if (!server_has_room(c->server, 2 * (bytes->size + size)) ||
        (!c->is_trusted && bytes->size + size > STRANGER_BYTES) ||
        !stp_bytes_reserve(bytes, size))
        return false;
    c->server->n_bytes += bytes->capacity - before;
    return true;
}

static bool connection_add(struct connection *c, struct stp_bytes *bytes,
                           const void *data, size_t size)
{
    if (!connection_reserve(c, bytes, size))
        return false;
    stp_bytes_add(bytes, data, size);
    return true;
}

/* ---- replies ---- */

static bool connection_reply(struct connection *c, const void *data,
                             size_t size)
{
    return connection_add(c, &c->out, data, size);
}

/* Ends a reply with a value. */
static bool connection_reply_value(struct connection *c,
                                   struct stp_value *value)
{
    if (!connection_reply(c, &value->size, sizeof(uint64_t)))
        return false;
    value->n_holders++;
    c->body = value;
    return true;
}

/* Sends as much as the connection takes. */
static void connection_flush(struct connection *c)
{
    while (c->fd >= 0 && c->out.size > 0) {
        const size_t n_body = c->body == NULL ? 0 : c->body->size;
        const size_t n_out = c->n_sent < c->out.size ? c->n_sent : c->out.size;
        struct iovec parts[] = {
            {c->out.data + n_out, c->out.size - n_out},
            {n_body == 0 ? NULL : c->body->bytes + (c->n_sent - n_out),
             n_body - (c->n_sent - n_out)}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t n = sendmsg(c->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && !stp_store_may_retry(errno))
            connection_close(c, false);
        if (n < 0)
            break;
        c->n_sent += (size_t)n;
        if (c->n_sent < c->out.size + n_body)
            continue;
        c->n_sent = c->out.size = 0;
        stp_value_drop(c->body);
        c->body = NULL;
    }
    if (c->fd >= 0)
        connection_note_unsent(c, c->out.size > 0);
}

/* ---- requests ---- */

enum outcome {
    DONE,
    SHORT,   /* the rest of the request has not come yet */
    MISSING, /* it waits for a key */
    BAD,
};

/* A request, from what is still to be read of it. */
struct request {
    struct connection *c;
    enum stp_query query;
    const unsigned char *at, *end;
    enum outcome outcome; /* DONE: nothing was wrong so far */
};

/* Points at the next bytes. */
static const void *request_read(struct request *q, size_t size)
{
    const unsigned char *at = q->at;

    if (q->outcome == DONE && (size_t)(q->end - at) < size)
        q->outcome = SHORT;
    if (q->outcome == DONE)
        q->at += size;
    return at;
}

/* A number up to 'max', 0 on failure. */
static uint64_t request_read_u64(struct request *q, uint64_t max)
{
    const void *bytes = request_read(q, sizeof(uint64_t));
    uint64_t number = 0;

    if (q->outcome == DONE)
        memcpy(&number, bytes, sizeof(number));
    if (number > max)
        q->outcome = BAD;
    return q->outcome == DONE ? number : 0;
}

static const void *request_read_value(struct request *q, size_t *size_ret)
{
    *size_ret = request_read_u64(q, STP_STORE_MAX_VALUE);
    return request_read(q, *size_ret);
}

struct key {
    char text[STP_STORE_MAX_KEY + 1]; /* without the prefix */
};

/* Reads a key that this connection may use for the request. */
static struct key request_read_key(struct request *q)
{
    struct stp_server *server = q->c->server;
    const size_t n_prefix = strlen(server->prefix);
    const size_t size = request_read_u64(q, STP_STORE_MAX_KEY);
    const char *whole = request_read(q, size);
    unsigned char differs = 0;
    struct key key = {0};

    if (q->outcome != DONE)
        return key;
    q->outcome = BAD;
    for (size_t i = 0; i < n_prefix && i < size; i++) /* all, to tell nothing */
        differs |= (unsigned char)(whole[i] ^ server->prefix[i]);
    if (size <= n_prefix || differs != 0 || memchr(whole, '\0', size) != NULL)
        return key;
    server->n_strangers -= !q->c->is_trusted;
    q->c->is_trusted = true;
    memcpy(key.text, whole + n_prefix, size - n_prefix);
    if (server->hooks.may_use == NULL ||
        server->hooks.may_use(server->hooks.user, q->c->owner, q->query,
                              key.text))
        q->outcome = DONE;
    return key;
}

/* Serves SET and APPEND. */
static enum outcome serve_set(struct request *q)
{
    struct stp_server *server = q->c->server;
    const struct key key = request_read_key(q);
    size_t size, n_old = 0;
    const void *data = request_read_value(q, &size);
    struct stp_value *value, *old = NULL;

    if (q->outcome != DONE)
        return q->outcome;
    if (q->query == STP_APPEND)
        old = stp_store_table_value(&server->table, key.text);
    if (old != NULL)
        n_old = old->size;
    if (!server_has_room(server, n_old + size))
        return BAD;
    value = stp_value_new(n_old + size);
    if (value != NULL && n_old > 0)
        memcpy(value->bytes, old->bytes, n_old);
    if (value != NULL && size > 0)
        memcpy(value->bytes + n_old, data, size);
    return server_set(server, key.text, value, false) ? DONE : BAD;
}

static enum outcome serve_compare_set(struct request *q)
{
    const struct stp_server_hooks *hooks = &q->c->server->hooks;
    const struct key key = request_read_key(q);
    size_t n_expected, size;
    const void *expected = request_read_value(q, &n_expected);
    const void *data = request_read_value(q, &size);
    struct stp_server *server = q->c->server;
    struct stp_value *answer, *now;
    bool is_expected, is_sent;

    if (q->outcome != DONE)
        return q->outcome;
    now = stp_store_table_value(&server->table, key.text);
    is_expected = now == NULL
                      ? n_expected == 0
                      : now->size == n_expected &&
                            memcmp(now->bytes, expected, n_expected) == 0;
    if (hooks->admit != NULL) {
        answer = hooks->admit(hooks->user, &q->c->owner, data, size);
    } else if (is_expected && server_has_room(server, size)) {
        answer = stp_value_of(data, size);
        if (!server_set(server, key.text, answer, false))
            return BAD;
        answer->n_holders++;
    } else if (now == NULL) { /* as PyTorch's server */
        answer = stp_value_of(expected, n_expected);
    } else {
        answer = now;
        answer->n_holders++;
    }
    is_sent = answer != NULL && connection_reply_value(q->c, answer);
    stp_value_drop(answer);
    return is_sent ? DONE : BAD;
}

static enum outcome serve_add(struct request *q)
{
    const struct key key = request_read_key(q);
    const uint64_t number = request_read_u64(q, UINT64_MAX);
    const struct stp_value *old;
    char text[32] = "";
    uint64_t sum;

    if (q->outcome != DONE)
        return q->outcome;
    old = stp_store_table_value(&q->c->server->table, key.text);
    if (old != NULL && old->size >= sizeof(text))
        return BAD;
    if (old != NULL)
        memcpy(text, old->bytes, old->size);
    sum = number + (uint64_t)strtoll(text, NULL, 10);
    snprintf(text, sizeof(text), "%" PRId64, (int64_t)sum);
    return server_set(q->c->server, key.text, stp_value_of(text, strlen(text)),
                      false) &&
                   connection_reply(q->c, &sum, sizeof(sum))
               ? DONE
               : BAD;
}

static enum outcome serve_delete(struct request *q)
{
    const struct key key = request_read_key(q);
    uint64_t n_deleted;

    if (q->outcome != DONE)
        return q->outcome;
    n_deleted = server_delete(q->c->server, key.text);
    return connection_reply(q->c, &n_deleted, sizeof(n_deleted)) ? DONE : BAD;
}

/* Makes the request wait for a key. */
static enum outcome request_await(struct request *q, const char *key)
{
    struct stp_entry *entry = stp_store_table_add(&q->c->server->table, key);

    if (entry == NULL)
        return BAD;
    q->c->awaited = entry;
    q->c->next_waiting = entry->waiting;
    entry->waiting = q->c;
    return MISSING;
}

static enum outcome serve_get(struct request *q)
{
    struct stp_server *server = q->c->server;
    const struct key key = request_read_key(q);
    struct stp_value *value = server->end;
    bool is_sent;

    if (q->outcome != DONE)
        return q->outcome;
    if (value == NULL)
        value = stp_store_table_value(&server->table, key.text);
    if (value == NULL)
        return request_await(q, key.text);
    is_sent = connection_reply_value(q->c, value);
    if (value != server->end &&
        stp_store_table_find(&server->table, key.text)->is_once)
        server_delete(server, key.text);
    return is_sent ? DONE : BAD;
}

/* Serves CHECK and WAIT. */
static enum outcome serve_keys(struct request *q)
{
    struct stp_value *end = q->query == STP_CHECK ? NULL : q->c->server->end;
    const uint64_t n = request_read_u64(q, STP_STORE_MAX_KEYS);
    bool has_all = true;
    struct key missing;
    unsigned char byte; /* 1: not ready, or canceled */

    for (uint64_t i = 0; i < n && q->outcome == DONE; i++) {
        const struct key key = request_read_key(q);
        const struct stp_value *value =
            end != NULL ? end
                        : stp_store_table_value(&q->c->server->table, key.text);

        if (value == NULL && has_all)
            missing = key;
        has_all = has_all && value != NULL;
    }
    if (q->outcome != DONE)
        return q->outcome;
    if (q->query != STP_CHECK && !has_all)
        return request_await(q, missing.text);
    byte = !has_all || end != NULL;
    return connection_reply(q->c, &byte, 1) ? DONE : BAD;
}

static enum outcome serve_validate(struct request *q)
{
    uint32_t number;
    const void *bytes = request_read(q, sizeof(number));

    if (q->outcome != DONE)
        return q->outcome;
    memcpy(&number, bytes, sizeof(number));
    q->c->is_valid = number == STP_STORE_MAGIC;
    return q->c->is_valid ? DONE : BAD;
}

static const struct {
    enum outcome (*serve)(struct request *q); /* NULL: not served */
    bool has_reply;
} queries[STP_N_QUERIES] = {
    [STP_VALIDATE] = {serve_validate, false},
    [STP_SET] = {serve_set, false},
    [STP_COMPARE_SET] = {serve_compare_set, true},
    [STP_GET] = {serve_get, true},
    [STP_ADD] = {serve_add, true},
    [STP_CHECK] = {serve_keys, true},
    [STP_WAIT] = {serve_keys, true},
    [STP_DELETE_KEY] = {serve_delete, true},
    [STP_APPEND] = {serve_set, false},
};

/* Serves the request that begins at 'data'; *size is how long it is. */
static enum outcome connection_serve(struct connection *c,
                                     const unsigned char *data, size_t *size)
{
    struct request q = {
        .c = c, .query = data[0], .at = data + 1, .end = data + *size};
    enum outcome outcome;

    if (q.query >= STP_N_QUERIES || queries[q.query].serve == NULL ||
        c->is_valid == (q.query == STP_VALIDATE))
        return BAD;
    outcome = queries[q.query].serve(&q);
    *size = (size_t)(q.at - data);
    return outcome;
}

/* Serves as many of the requests that have come as can be. */
static enum outcome connection_serve_in(struct connection *c, size_t *n_served)
{
    size_t n_pending = c->pending.size;
    enum outcome outcome = DONE;

    /* The request that waited comes first, if its key is there now. */
    if (n_pending > 0 && c->awaited == NULL && c->out.size == 0) {
        outcome = connection_serve(c, c->pending.data, &n_pending);
        if (outcome == DONE)
            c->pending.size = 0;
    }
    connection_flush(c);
    while (outcome != BAD && c->fd >= 0 && *n_served < c->in.size) {
        const unsigned char *request = c->in.data + *n_served;
        size_t size = c->in.size - *n_served;

        /* A request waits for the replies to earlier ones. */
        if (request[0] < STP_N_QUERIES && queries[request[0]].has_reply &&
            (c->out.size > 0 || c->pending.size > 0))
            return size > BEHIND_BYTES ? BAD : DONE;
        outcome = connection_serve(c, request, &size);
        if (outcome == SHORT)
            break;
        if (outcome == MISSING &&
            !connection_add(c, &c->pending, request, size))
            return BAD;
        *n_served += size;
        connection_flush(c);
    }
    return outcome;
}

static void connection_serve_all(struct connection *c)
{
    size_t n_served = 0;

    if (c->fd >= 0 && connection_serve_in(c, &n_served) == BAD)
        connection_close(c, true);
    c->in.size -= n_served;
    if (n_served > 0)
        memmove(c->in.data, c->in.data + n_served, c->in.size);
}

static void server_serve_ready(struct stp_server *server)
{
    while (server->ready != NULL) {
        struct connection *c = server->ready;

        server->ready = c->next_ready;
        c->is_ready = false;
        connection_serve_all(c);
    }
}

/* ---- what comes ---- */

static void connection_hear(struct connection *c)
{
    ssize_t n;

    if (!connection_reserve(c, &c->in, READ_BYTES / 4)) {
        connection_close(c, true);
        return;
    }
    if (c->in.capacity < READ_BYTES && c->is_trusted)
        connection_reserve(c, &c->in, READ_BYTES);
    n = recv(c->fd, c->in.data + c->in.size, c->in.capacity - c->in.size,
             MSG_DONTWAIT);
    if (n > 0) {
        c->in.size += (size_t)n;
        connection_serve_all(c);
    } else if (n == 0 || !stp_store_may_retry(errno)) {
        connection_close(c, false);
    }
}

bool stp_server_step(struct stp_server *server, int timeout_ms)
{
    struct epoll_event events[N_EVENTS];
    bool can_accept = false, has_sockets = true;
    int64_t now_ms;
    int n;

    server_serve_ready(server);
    n = epoll_wait(server->epoll, events, N_EVENTS, timeout_ms);
    now_ms = stp_now_ms();
    for (int i = 0; i < n; i++) {
        struct connection *c = events[i].data.ptr;

        if (c == NULL)
            can_accept = true;
        else if (c->fd >= 0 && (events[i].events & EPOLLOUT) != 0)
            connection_serve_all(c);
        if (c != NULL && c->fd >= 0 &&
            (events[i].events & ~(uint32_t)EPOLLOUT) != 0)
            connection_hear(c);
    }
    server_serve_ready(server);
    for (n = 0; can_accept && has_sockets && n < MAX_ACCEPTS; n++) {
        struct connection *oldest = server->first;
        int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0) {
            has_sockets = errno != EMFILE && errno != ENFILE;
            break;
        }
        while (oldest != NULL && oldest->is_trusted)
            oldest = oldest->next;
        if (server->n_strangers == MAX_STRANGERS && oldest != NULL)
            connection_close(oldest, false);
        connection_new(server, fd);
    }
    /* Silent strangers, and hosts that are gone, are given up. */
    if (now_ms - server->checked_ms >= CHECK_MS) {
        server->checked_ms = now_ms;
        for (struct connection *c = server->first, *next; c != NULL; c = next) {
            next = c->next;
            if (c->is_trusted ? stp_store_is_stuck(c->fd)
                              : now_ms - c->since_ms > PATIENCE_MS)
                connection_close(c, false);
        }
    }
    server_free_closed(server);
    return has_sockets;
}

/* ---- for the process of the server ---- */

enum stp_status stp_server_new(const char *token,
                               const struct stp_server_hooks *hooks,
                               struct stp_server **server_ret,
                               struct stp_error *err)
{
    struct stp_server *server = calloc(1, sizeof(*server));

    if (server == NULL)
        return stp_nomem(err);
    if (hooks != NULL)
        server->hooks = *hooks;
    server->listener = -1;
    stp_store_prefix(token, server->prefix);
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (server->epoll < 0) {
        free(server);
        return stp_fail(err, STP_ERR_LIMIT, "no socket for a store: %s",
                        strerror(errno));
    }
    *server_ret = server;
    return STP_OK;
}

void stp_server_free(struct stp_server *server)
{
    if (server == NULL)
        return;
    server->hooks.closed = NULL;
    while (server->first != NULL)
        connection_close(server->first, false);
    server_free_closed(server);
    stp_store_table_free(&server->table);
    stp_server_listen(server, -1);
    stp_value_drop(server->end);
    close(server->epoll);
    free(server);
}

bool stp_server_listen(struct stp_server *server, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    if (server->listener >= 0)
        close(server->listener);
    server->listener = fd;
    for (struct connection *c = server->first, *next; fd < 0 && c != NULL;
         c = next) {
        next = c->next;
        if (c->owner == STP_STRANGER)
            connection_close(c, false);
    }
    return fd < 0 || epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool stp_server_adopt(struct stp_server *server, int fd, int owner,
                      const char *key)
{
    struct connection *c = connection_new(server, fd);

    if (c == NULL)
        return false;
    server->n_strangers--;
    c->is_trusted = true;
    c->is_valid = true;
    c->owner = owner;
    stp_bytes_add_query(&c->in, STP_GET);
    stp_bytes_add_key(&c->in, server->prefix, key);
    server->n_bytes += c->in.capacity;
    if (c->in.failed)
        return false;
    connection_serve_all(c);
    return true;
}

bool stp_server_has_unsent(const struct stp_server *server)
{
    return server->n_unsent > 0;
}

bool stp_server_has(const struct stp_server *server, const char *key)
{
    return stp_store_table_value(&server->table, key) != NULL;
}

struct stp_value *stp_server_take(struct stp_server *server, const char *key)
{
    struct stp_value *value = stp_store_table_value(&server->table, key);

    if (value != NULL) {
        value->n_holders++;
        server_delete(server, key);
    }
    return value;
}

bool stp_server_put_once(struct stp_server *server, const char *key,
                         struct stp_value *value)
{
    bool is_set;

    value->n_holders++;
    is_set = server_set(server, key, value, true);
    server_serve_ready(server);
    return is_set;
}

void stp_server_end(struct stp_server *server, struct stp_value *value)
{
    stp_value_drop(server->end);
    value->n_holders++;
    server->end = value;
    for (struct connection *c = server->first; c != NULL; c = c->next) {
        struct stp_bytes pending = c->pending;

        if (c->awaited == NULL)
            continue;
        connection_stop_waiting(c);
        c->pending.size = pending.size;
        connection_make_ready(c);
    }
    server_serve_ready(server);
}
