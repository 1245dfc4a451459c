#define _GNU_SOURCE /* POLLRDHUP */
#include "launch/store_world.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch/store_server.h"
#include "store/clock.h"
#include "store/store_client.h"

enum {
    STEP_MS = 1000,
    FAREWELL_MS = 500, /* for a last reply to processes that do not read */
    SPARE_FILES = 256, /* for all else that a run opens */
    HEADER = sizeof(struct stp_exchange),
};

struct process {
    char host[64];
    uint64_t pid; /* 0: not known yet */
};

/* Of rank 0. */
enum presence { ABSENT, PRESENT, LEFT };

/* When rank 0 last had a request of a rank. */
struct sight {
    int64_t at_ms;
    bool is_missed; /* and that was told */
};

struct members {
    unsigned rank, size;
    char prefix[STP_STORE_PREFIX];
    struct process *processes;
    enum stp_status status; /* why nothing works any more, or STP_OK */
    struct stp_error why;

    /* Rank 0's. */
    struct stp_server *server;
    unsigned char *presence; /* enum presence, one a rank */
    unsigned n_present;
    bool is_complete;         /* all were there */
    struct stp_error refusal; /* why the last one could not join, or "" */
    struct stp_error loss;    /* which rank is lost, until all are told */
    struct sight *sights;     /* one a rank */
    int64_t watched_ms;       /* when they were looked at */
    unsigned n_given;         /* of the exchange under way: the first ranks */
    void (*warn)(const char *text);

    /* The others'. */
    int fd;
    bool has_first_left;
    int64_t sign_ms; /* when the last sign of life was sent */

    unsigned silent_ms;
};

/* A world: the first 'n' processes. */
struct view {
    struct stp_world_ops ops; /* with the name of the whole */
    struct members *members;
    unsigned rank, local_rank;
    unsigned n;
    bool is_part; /* the members are another's */
};

const char *stp_next_key(unsigned rank, char text[STP_KEY_TEXT])
{
    snprintf(text, STP_KEY_TEXT, "next/%u", rank);
    return text;
}

/* ---- failures ---- */

static enum stp_status members_failed(const struct members *m,
                                      struct stp_error *err)
{
    if (m->status != STP_OK && err != NULL)
        *err = m->why;
    return m->status;
}

/* Sends a last value to all: of a failure, or of leaving.  A process that does
 * not read it in time finds the connection closed. */
static void members_end_server(struct members *m, uint32_t status,
                               const char *text)
{
    const struct stp_exchange header = {.n = m->size, .status = status};
    struct stp_value *value = stp_value_new(HEADER + strlen(text));
    const int64_t deadline_ms = stp_now_ms() + FAREWELL_MS;

    if (value == NULL)
        return;
    memcpy(value->bytes, &header, HEADER);
    memcpy(value->bytes + HEADER, text, strlen(text));
    stp_server_end(m->server, value);
    while (stp_server_has_unsent(m->server) && stp_now_ms() < deadline_ms)
        stp_server_step(m->server, 1);
    stp_value_drop(value);
}

/* The first failure is the one that all processes are told. */
static enum stp_status members_fail(struct members *m, enum stp_status status,
                                    const struct stp_error *why)
{
    if (m->status != STP_OK)
        return m->status;
    m->status = status;
    m->why = *why;
    if (m->server != NULL)
        members_end_server(m, status, why->text);
    return status;
}

enum { NAME = 128 };

static const char *members_name(const struct members *m, unsigned rank,
                                char text[NAME])
{
    const struct process *p = &m->processes[rank];

    if (p->pid == 0)
        snprintf(text, NAME, "rank %u", rank);
    else
        snprintf(text, NAME, "rank %u (%s, process %llu)", rank, p->host,
                 (unsigned long long)p->pid);
    return text;
}

static void members_blame(const struct members *m, unsigned rank,
                          const char *how, struct stp_error *why)
{
    char text[NAME];

    stp_fail(why, STP_ERR_DEVICE, "%s %s", members_name(m, rank, text), how);
}

static enum stp_status members_fail_rank(struct members *m, unsigned rank,
                                         const char *how)
{
    struct stp_error why = {0};

    members_blame(m, rank, how, &why);
    return members_fail(m, STP_ERR_DEVICE, &why);
}

static const char strange[] = "sent what does not belong to this run, or too "
                              "much for this host's memory";

/* ---- rank 0: what the server asks ---- */

static bool members_is_key(const char *key, const char *folder, int owner)
{
    char text[32];

    snprintf(text, sizeof(text), "%s/%d", folder, owner);
    return strcmp(key, text) == 0;
}

/* A rank has four keys, and sets its value once an exchange; a process that is
 * none can ask to join. */
static bool members_may_use(void *user, int owner, enum stp_query query,
                            const char *key)
{
    const struct members *m = user;

    if (owner == STP_STRANGER)
        return query == STP_COMPARE_SET && strcmp(key, STP_JOIN_KEY) == 0;
    m->sights[owner] = (struct sight){.at_ms = stp_now_ms()};
    if (query == STP_GET)
        return members_is_key(key, "next", owner);
    if (query != STP_SET)
        return false;
    if (members_is_key(key, "left", owner)) {
        m->presence[owner] = LEFT;
        return true;
    }
    return members_is_key(key, "sign", owner) ||
           (members_is_key(key, "x", owner) && !stp_server_has(m->server, key));
}

static struct stp_value *members_admit(void *user, int *owner,
                                       const void *value, size_t size)
{
    struct members *m = user;
    struct stp_join join;
    struct stp_join_answer answer = {.magic = STP_JOIN_MAGIC};
    struct stp_error why = {0};
    struct stp_value *reply;

    if (size != sizeof(join))
        return NULL;
    memcpy(&join, value, sizeof(join));
    if (memcmp(join.magic, STP_JOIN_MAGIC, sizeof(join.magic)) != 0)
        return NULL;
    if (join.version != STP_JOIN_VERSION)
        stp_fail(&why, STP_ERR_DEVICE,
                 "it is another version of Steptune than rank 0 is");
    else if (join.size != m->size)
        stp_fail(&why, STP_ERR_DEVICE,
                 "its WORLD_SIZE is %u, that of rank 0 is %u", join.size,
                 m->size);
    else if (join.rank == 0 || join.rank >= m->size)
        stp_fail(&why, STP_ERR_DEVICE, "there is no rank %u in a run of %u",
                 join.rank, m->size);
    else if (m->presence[join.rank] != ABSENT)
        stp_fail(&why, STP_ERR_DEVICE, "there is a rank %u already", join.rank);
    answer.is_refused = why.text[0] != '\0';
    memcpy(answer.why, why.text, sizeof(answer.why));
    reply = stp_value_new(sizeof(answer));
    if (reply == NULL)
        return NULL;
    memcpy(reply->bytes, &answer, sizeof(answer));
    if (answer.is_refused) {
        m->refusal = why;
    } else {
        *owner = (int)join.rank;
        m->presence[join.rank] = PRESENT;
        m->n_present++;
    }
    return reply;
}

/* Until all are there, another process may come in place of one that is gone.
 * The others are told after the step. */
static void members_note_closed(void *user, int owner, bool is_bad)
{
    struct members *m = user;

    if (!m->is_complete && m->presence[owner] == PRESENT) {
        m->presence[owner] = ABSENT;
        m->n_present--;
    } else if (m->presence[owner] == PRESENT && m->loss.text[0] == '\0') {
        members_blame(m, (unsigned)owner, is_bad ? strange : "died", &m->loss);
    }
}

/* Tells of each rank that has given no sign of life, and is not waiting for
 * rank 0 either.  Rank 0 has seen none before 'begin_ms' if it did not look. */
static void members_watch(struct members *m, int64_t begin_ms)
{
    const int64_t now_ms = stp_now_ms();
    const bool was_away = begin_ms - m->watched_ms > m->silent_ms / 2;
    char text[NAME + 64];
    char name[NAME];
    char key[STP_KEY_TEXT];

    m->watched_ms = now_ms;
    for (unsigned r = 1; r < m->size; r++) {
        struct sight *sight = &m->sights[r];

        snprintf(key, sizeof(key), "x/%u", r);
        if (was_away)
            sight->at_ms = now_ms;
        if (sight->is_missed || now_ms - sight->at_ms < m->silent_ms ||
            m->presence[r] != PRESENT || r < m->n_given ||
            stp_server_has(m->server, key))
            continue;
        sight->is_missed = true;
        snprintf(text, sizeof(text), "%s gave no sign of life for %g s",
                 members_name(m, r, name), m->silent_ms / 1000.0);
        m->warn(text);
    }
}

static enum stp_status members_step(struct members *m, int timeout_ms)
{
    const int64_t begin_ms = stp_now_ms();

    if (m->loss.text[0] != '\0') /* while something was sent */
        timeout_ms = 0;
    else if (timeout_ms > (int)m->silent_ms / 2)
        timeout_ms = (int)m->silent_ms / 2;
    if (!stp_server_step(m->server, timeout_ms) && !m->is_complete)
        stp_fail(&m->loss, STP_ERR_LIMIT,
                 "rank 0 cannot have as many sockets as there are ranks: %s",
                 strerror(EMFILE));
    if (m->loss.text[0] != '\0')
        members_fail(m, m->is_complete ? STP_ERR_DEVICE : STP_ERR_LIMIT,
                     &m->loss);
    else if (m->is_complete && m->warn != NULL)
        members_watch(m, begin_ms);
    return m->status;
}

/* ---- rank 0: an exchange ---- */

/* Waits for what a rank gives. */
static enum stp_status members_gather(struct members *m, unsigned rank,
                                      uint32_t n, size_t size, void *to)
{
    struct stp_exchange header = {0};
    struct stp_error why = {0};
    struct stp_value *value;
    char text[NAME];
    char key[STP_KEY_TEXT];

    snprintf(key, sizeof(key), "x/%u", rank);
    while ((value = stp_server_take(m->server, key)) == NULL) {
        if (m->presence[rank] == LEFT)
            return members_fail_rank(m, rank, "has left the run");
        if (members_step(m, STEP_MS) != STP_OK)
            return m->status;
    }
    if (value->size >= HEADER)
        memcpy(&header, value->bytes, HEADER);
    members_name(m, rank, text);
    if (header.n == n && value->size == HEADER + size) {
        memcpy(to, value->bytes + HEADER, size);
    } else if (value->size < HEADER || m->processes[rank].pid == 0) {
        /* One that has not introduced itself can send only that. */
        members_fail_rank(m, rank, strange);
    } else {
        if (header.n != n)
            stp_fail(&why, STP_ERR_RANGE,
                     "%s exchanges among %u processes, rank 0 among %u", text,
                     header.n, n);
        else
            stp_fail(&why, STP_ERR_RANGE,
                     "%s gave %zu bytes to exchange, rank 0 gave %zu", text,
                     (size_t)value->size - HEADER, size);
        members_fail(m, STP_ERR_RANGE, &why);
    }
    stp_value_drop(value);
    return m->status;
}

static void members_exchange_as_first(struct members *m, unsigned n,
                                      const void *mine, size_t size,
                                      unsigned char *all)
{
    const struct stp_exchange header = {.n = n};
    struct stp_value *value = stp_value_new(HEADER + n * size);
    struct stp_error why = {0};
    char key[STP_KEY_TEXT];

    if (value == NULL) {
        members_fail(m, stp_nomem(&why), &why);
        return;
    }
    memcpy(value->bytes, &header, HEADER);
    if (size > 0) /* memcpy() does not take NULL, not even for no bytes */
        memcpy(value->bytes + HEADER, mine, size);
    for (unsigned r = 1; r < n && m->status == STP_OK; r++) {
        m->n_given = r;
        members_gather(m, r, n, size, value->bytes + HEADER + r * size);
    }
    m->n_given = n;
    for (unsigned r = 1; r < n && m->status == STP_OK; r++)
        if (!stp_server_put_once(m->server, stp_next_key(r, key), value))
            members_fail(m, stp_nomem(&why), &why);
    while (m->status == STP_OK && stp_server_has_unsent(m->server))
        members_step(m, STEP_MS);
    for (unsigned r = 1; r < n; r++)
        m->sights[r] = (struct sight){.at_ms = stp_now_ms()};
    m->n_given = 0;
    if (m->status == STP_OK && size > 0)
        memcpy(all, value->bytes + HEADER, n * size);
    stp_value_drop(value);
}

/* ---- the others: an exchange ---- */

static bool members_receive(struct members *m, void *to, size_t size)
{
    if (stp_socket_receive(m->fd, to, size, INT64_MAX))
        return true;
    members_fail_rank(m, 0, "died");
    return false;
}

/* Reads that rank 0 has left, or a failure: 'size' bytes of text. */
static void members_read_end(struct members *m, uint32_t status, uint64_t size)
{
    const bool has_left = status == STP_EXCHANGE_LEFT;
    struct stp_error why = {0};

    if (size >= sizeof(why.text) || status == STP_OK) {
        members_fail_rank(m, 0, strange);
    } else if (members_receive(m, why.text, (size_t)size)) {
        stp_clean_text(why.text, sizeof(why.text));
        m->has_first_left = has_left;
        if (!has_left && why.text[0] == '\0')
            members_fail_rank(m, 0, strange);
        else if (!has_left)
            members_fail(m, stp_status_of(status), &why);
    }
}

/* Reads the answer to a GET of next/R: the bytes of all 'n', or an end. */
static void members_read_next(struct members *m, uint32_t n, size_t size,
                              void *all)
{
    struct {
        uint64_t size;
        struct stp_exchange header;
    } reply;

    if (!members_receive(m, &reply, sizeof(reply)))
        return;
    if (reply.size < HEADER)
        members_fail_rank(m, 0, strange);
    else if (reply.header.status != STP_OK || n == 0)
        members_read_end(m, reply.header.status, reply.size - HEADER);
    else if (reply.header.n != n || reply.size != HEADER + n * size)
        members_fail_rank(m, 0, strange);
    else
        members_receive(m, all, n * size);
}

static void members_exchange_as_other(struct members *m, unsigned n,
                                      const void *mine, size_t size, void *all)
{
    const struct stp_exchange header = {.n = n};
    struct stp_bytes set = {0}, get = {0};
    struct iovec parts[3];
    char key[STP_KEY_TEXT];

    snprintf(key, sizeof(key), "x/%u", m->rank);
    stp_bytes_add_query(&set, STP_SET);
    stp_bytes_add_key(&set, m->prefix, key);
    stp_bytes_add_u64(&set, HEADER + size);
    stp_bytes_add(&set, &header, HEADER);
    stp_bytes_add_query(&get, STP_GET);
    stp_bytes_add_key(&get, m->prefix, stp_next_key(m->rank, key));
    parts[0] = (struct iovec){set.data, set.size};
    parts[1] = (struct iovec){(void *)mine, size};
    parts[2] = (struct iovec){get.data, get.size};
    if (set.failed || get.failed)
        m->status = stp_nomem(&m->why);
    else
        stp_socket_send(m->fd, parts, 3, true, INT64_MAX);
    free(set.data);
    free(get.data);
    /* Also a rank 0 that is gone may have answered before. */
    if (m->status == STP_OK)
        members_read_next(m, n, size, all);
}

/* ---- the world ---- */

static enum stp_status view_exchange(void *self, const void *mine, size_t size,
                                     void *all_ret, struct stp_error *err)
{
    const struct view *view = self;
    struct members *m = view->members;

    if (m->status == STP_OK && size > STP_STORE_MAX_VALUE - HEADER)
        return stp_fail(err, STP_ERR_LIMIT,
                        "%zu bytes to exchange, expected at most %d", size,
                        STP_STORE_MAX_VALUE - (int)HEADER);
    if (m->status == STP_OK && m->rank == 0)
        members_exchange_as_first(m, view->n, mine, size, all_ret);
    else if (m->status == STP_OK && !m->has_first_left)
        members_exchange_as_other(m, view->n, mine, size, all_ret);
    if (m->status == STP_OK && m->has_first_left)
        members_fail_rank(m, 0, "has left the run");
    return members_failed(m, err);
}

static bool view_alive(void *self, struct stp_error *err)
{
    struct members *m = ((struct view *)self)->members;
    struct pollfd polled = {.fd = m->fd, .events = POLLIN};
    const int64_t now_ms = stp_now_ms();
    struct stp_bytes set = {0};
    char key[STP_KEY_TEXT];

    if (m->status == STP_OK && m->server != NULL) {
        members_step(m, 0);
    } else if (m->status == STP_OK && m->rank != 0 && !m->has_first_left) {
        if (poll(&polled, 1, 0) > 0) {
            members_read_next(m, 0, 0, NULL);
        } else if (stp_store_is_stuck(m->fd)) {
            members_fail_rank(m, 0, "died");
        } else if (now_ms - m->sign_ms >= m->silent_ms / 4) {
            m->sign_ms = now_ms;
            snprintf(key, sizeof(key), "sign/%u", m->rank);
            stp_bytes_add_query(&set, STP_SET);
            stp_bytes_add_key(&set, m->prefix, key);
            stp_bytes_add_u64(&set, 0);
            if (!set.failed)
                stp_socket_send(m->fd, &(struct iovec){set.data, set.size}, 1,
                                true, INT64_MAX);
            free(set.data);
        }
    }
    return members_failed(m, err) == STP_OK;
}

static void members_close(struct members *m)
{
    struct stp_client client = {.ops = &stp_store_tcp,
                                .fd = m->fd,
                                .deadline_ms = stp_now_ms() + FAREWELL_MS};
    char key[STP_KEY_TEXT];
    char unread[4096];

    if (m->server != NULL && m->status == STP_OK)
        members_end_server(m, STP_EXCHANGE_LEFT, "");
    if (m->fd >= 0) {
        memcpy(client.prefix, m->prefix, sizeof(client.prefix));
        snprintf(key, sizeof(key), "left/%u", m->rank);
        stp_client_set(&client, key, NULL, 0);
        /* With unread bytes closing would reset the connection and left/R would
         * be lost. */
        while (recv(m->fd, unread, sizeof(unread), MSG_DONTWAIT) > 0)
            ;
        stp_client_close(&client);
    }
    stp_server_free(m->server);
    free(m->sights);
    free(m->presence);
    free(m->processes);
    free(m);
}

static void view_close(void *self)
{
    struct view *view = self;

    if (!view->is_part)
        members_close(view->members);
    free(view);
}

static enum stp_status view_new(const struct view *like, unsigned n,
                                struct stp_world *world_ret,
                                struct stp_error *err)
{
    const struct process *processes = like->members->processes;
    struct view *view = malloc(sizeof(*view));
    bool is_in = like->rank < n;
    unsigned n_local = 0;

    if (view == NULL)
        return stp_nomem(err);
    *view = *like;
    view->n = n;
    for (unsigned r = 0; r < n; r++)
        n_local += strcmp(processes[r].host, processes[like->rank].host) == 0;
    *world_ret = (struct stp_world){.ops = &view->ops,
                                    .self = view,
                                    .rank = view->rank,
                                    .size = is_in ? n : 0,
                                    .local_rank = view->local_rank,
                                    .local_size = is_in ? n_local : 0};
    return STP_OK;
}

static enum stp_status view_part(void *self, unsigned n,
                                 struct stp_world *part_ret,
                                 struct stp_error *err)
{
    struct view part = *(const struct view *)self;

    if (n == 0 || n > part.n)
        return stp_fail(err, STP_ERR_RANGE, "%u of %u processes", n, part.n);
    part.is_part = true;
    return view_new(&part, n, part_ret, err);
}

/* ---- opening ---- */

/* A sentence on the ranks that are not there after so long. */
static void members_say_missing(const struct members *m, unsigned port,
                                unsigned after_ms, struct stp_error *why)
{
    const unsigned n_missing = m->size - 1 - m->n_present;
    const bool has_refused = m->refusal.text[0] != '\0';
    char others[32] = "";
    unsigned r = 1;

    while (m->presence[r] != ABSENT)
        r++;
    if (n_missing > 1)
        snprintf(others, sizeof(others), " and %u other%s", n_missing - 1,
                 n_missing > 2 ? "s" : "");
    stp_fail(why, STP_ERR_DEVICE,
             "rank %u%s of %u did not come to rank 0's port %u in %g s%s%s", r,
             others, m->size, port, after_ms / 1000.0,
             has_refused ? "; one was refused: " : "", m->refusal.text);
}

/* Awaits all others where rank 0 listens. */
static enum stp_status members_await_all(struct members *m,
                                         const struct stp_store_options *o)
{
    const int64_t begin_ms = stp_now_ms();
    bool is_told = o->warn == NULL;
    struct stp_error why = {0};

    while (m->status == STP_OK && m->n_present < m->size - 1) {
        const int64_t now_ms = stp_now_ms();
        const int64_t left_ms = begin_ms + o->limit_ms - now_ms;

        if (left_ms <= 0) {
            members_say_missing(m, o->port, o->limit_ms, &why);
            return members_fail(m, STP_ERR_DEVICE, &why);
        }
        if (!is_told && now_ms - begin_ms >= m->silent_ms) {
            is_told = true;
            members_say_missing(m, o->port, m->silent_ms, &why);
            o->warn(why.text);
        }
        members_step(m, left_ms < STEP_MS ? (int)left_ms : STEP_MS);
    }
    stp_server_listen(m->server, -1); /* nobody else can come */
    return m->status;
}

/* Takes the sockets over, also on failure. */
static enum stp_status members_serve(struct members *m,
                                     const struct stp_store_options *o)
{
    const struct stp_server_hooks hooks = {.user = m,
                                           .may_use = members_may_use,
                                           .admit = members_admit,
                                           .closed = members_note_closed};
    char key[STP_KEY_TEXT];

    m->presence = calloc(o->size, sizeof(*m->presence));
    m->sights = calloc(o->size, sizeof(*m->sights));
    if (m->presence == NULL || m->sights == NULL)
        return m->status = stp_nomem(&m->why);
    m->status = stp_server_new(o->token, &hooks, &m->server, &m->why);
    if (o->fds == NULL && m->status == STP_OK && o->size > 1)
        stp_server_listen(m->server, o->listener);
    else if (o->fds == NULL && o->listener >= 0)
        close(o->listener);
    for (unsigned r = 1; r < o->size && o->fds != NULL; r++) {
        m->presence[r] = PRESENT;
        if (m->status != STP_OK)
            close(o->fds[r]);
        else if (!stp_server_adopt(m->server, o->fds[r], (int)r,
                                   stp_next_key(r, key)))
            m->status = stp_nomem(&m->why);
    }
    if (o->fds == NULL && m->status == STP_OK)
        members_await_all(m, o);
    m->is_complete = true;
    return m->status;
}

static enum stp_status members_open(const struct stp_store_options *o,
                                    struct members **m_ret,
                                    struct stp_error *err)
{
    struct members *m = calloc(1, sizeof(*m));
    enum stp_status status;

    if (m != NULL)
        m->processes = calloc(o->size, sizeof(*m->processes));
    if (m == NULL || m->processes == NULL) {
        free(m);
        return stp_nomem(err);
    }
    m->rank = o->rank;
    m->size = o->size;
    m->fd = o->rank == 0 ? -1 : o->fds[0];
    m->warn = o->warn;
    m->silent_ms = o->silent_ms > 0 ? o->silent_ms : STP_SILENT_MS;
    m->sign_ms = stp_now_ms();
    stp_store_prefix(o->token, m->prefix);
    stp_store_tune(m->fd);
    status = o->rank == 0 ? members_serve(m, o) : STP_OK;
    if (status == STP_OK)
        *m_ret = m;
    else
        members_failed(m, err);
    if (status != STP_OK)
        members_close(m);
    return status;
}

enum stp_status stp_store_world_open(const struct stp_store_options *options,
                                     struct stp_world *world_ret,
                                     struct stp_error *err)
{
    struct view view = {.ops = {.name = options->name,
                                .exchange = view_exchange,
                                .alive = view_alive,
                                .part = view_part,
                                .close = view_close},
                        .rank = options->rank,
                        .local_rank = options->local_rank,
                        .n = options->size};
    struct process me = {.pid = (uint64_t)getpid()};
    struct process *processes;
    enum stp_status status = members_open(options, &view.members, err);

    if (status != STP_OK)
        return status;
    /* Each says who it is, so that a rank that dies can be named, and the ranks
     * of a host counted. */
    gethostname(me.host, sizeof(me.host) - 1);
    processes = calloc(view.n, sizeof(*processes));
    status = processes == NULL
                 ? stp_nomem(err)
                 : view_exchange(&view, &me, sizeof(me), processes, err);
    for (unsigned r = 0; r < view.n && status == STP_OK; r++) {
        stp_clean_text(processes[r].host, sizeof(processes[r].host));
        view.members->processes[r] = processes[r];
    }
    free(processes);
    STP_THEN(status, view_new(&view, options->size, world_ret, err));
    if (status != STP_OK)
        members_close(view.members);
    else if (options->local_size != 0)
        world_ret->local_size = options->local_size;
    return status;
}

void stp_store_allow(unsigned size)
{
    const rlim_t needed = size + SPARE_FILES;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return;
    limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}
