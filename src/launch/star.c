#define _GNU_SOURCE /* accept4() */
#include "launch/star.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/clock.h"
#include "store/socket.h"
#include "store/store.h"

enum {
    STEP_MS = 1000,
    FAREWELL_MS = 500, /* for a last frame to processes that do not read */
    SPARE_FILES = 256, /* for all else that a run opens */
    MAX_STRANGERS = 128,
    MAX_ACCEPTS = 32, /* a step: those that came before are heard in between */
    PATIENCE_MS = 5000,
    CHECK_MS = 1000, /* between looks at strangers and hosts that are gone */
    MAX_HELD_BYTES = 1 << 30, /* of what all ranks gave */
    FRAME = sizeof(struct stp_star_frame),
};

struct process {
    char host[64];
    uint64_t pid; /* 0: not known yet */
};

enum presence { ABSENT, PRESENT, LEFT };

/* A message on its way to a rank. */
struct outgoing {
    const unsigned char *data;
    size_t size, n_sent;
};

/* A rank, as rank 0 sees it. */
struct peer {
    int fd;                /* -1: none */
    struct pollfd *polled; /* while it is, of a socket; NULL */
    enum presence presence;
    struct stp_star_frame frame; /* that comes */
    size_t n_frame;              /* bytes of it so far */
    unsigned char *body;
    size_t n_body;
    bool has_given; /* what rank 0 has not taken yet */
    struct stp_star_frame given;
    unsigned char *bytes;
    struct outgoing out[2]; /* what all gave, and then an end */
    int64_t seen_ms;        /* when its last frame came */
    bool is_missed;         /* it gave no sign since, and that was told */
};

struct stranger {
    int fd;
    int64_t since_ms;
    struct stp_star_hello hello;
    size_t n; /* bytes of it so far */
};

struct star {
    unsigned rank, size;
    struct process *processes;
    enum stp_status status; /* why nothing works any more, or STP_OK */
    struct stp_error why;
    unsigned silent_ms;

    /* Rank 0's. */
    struct peer *peers;    /* one a rank */
    struct pollfd *polled; /* the listener, ranks, strangers */
    struct stranger strangers[MAX_STRANGERS]; /* in order of their age */
    unsigned n_strangers;
    int listener;
    const char *token;
    unsigned n_present;
    bool is_complete;         /* all were there */
    size_t n_held;            /* bytes of what ranks gave, and give */
    unsigned char *end;       /* the last frame to all */
    struct stp_error refusal; /* why the last one could not join, or "" */
    struct stp_error loss;    /* which rank is lost, until all are told */
    int64_t checked_ms, watched_ms;
    unsigned n_given; /* of the exchange under way: the first ranks */
    void (*warn)(const char *text);

    /* The others'. */
    int fd;
    bool has_first_left;
    int64_t sign_ms; /* when the last sign of life was sent */
};

/* A world: the first 'n' processes. */
struct view {
    struct stp_world_ops ops; /* with the name of the whole */
    struct star *star;
    unsigned rank, local_rank;
    unsigned n;
    bool is_part; /* the star is another's */
};

static const char strange[] = "sent what does not belong to this run, or too "
                              "much for this host's memory";

/* ---- names ---- */

enum { NAME = 128 };

static const char *star_name(const struct star *s, unsigned rank,
                             char text[NAME])
{
    const struct process *p = &s->processes[rank];

    if (p->pid == 0)
        snprintf(text, NAME, "rank %u", rank);
    else
        snprintf(text, NAME, "rank %u (%s, process %llu)", rank, p->host,
                 (unsigned long long)p->pid);
    return text;
}

static void star_describe_rank(const struct star *s, unsigned rank,
                               const char *how, struct stp_error *why)
{
    char text[NAME];

    stp_fail(why, STP_ERR_DEVICE, "%s %s", star_name(s, rank, text), how);
}

/* ---- rank 0: connections ---- */

static void peer_close(struct star *s, unsigned rank, const char *how)
{
    struct peer *p = &s->peers[rank];

    if (p->fd < 0)
        return;
    close(p->fd);
    p->fd = -1;
    s->n_held -= p->body != NULL ? p->frame.size : 0;
    free(p->body);
    p->body = NULL;
    p->n_frame = p->n_body = 0;
    memset(p->out, 0, sizeof(p->out));
    /* Until all are there, another process may come in place of one that is
     * gone.  The others are told after the step. */
    if (p->presence == PRESENT && !s->is_complete) {
        s->n_held -= p->has_given ? p->given.size : 0;
        free(p->bytes);
        *p = (struct peer){.fd = -1};
        s->n_present--;
    } else if (p->presence == PRESENT && s->loss.text[0] == '\0') {
        star_describe_rank(s, rank, how, &s->loss);
    }
}

/* Sends as much as the connection takes. A broken connection is read to its end
 * before it is closed. */
static void peer_flush(struct peer *p)
{
    for (int i = 0; i < 2; i++)
        while (p->out[i].n_sent < p->out[i].size) {
            struct outgoing *o = &p->out[i];
            ssize_t n = send(p->fd, o->data + o->n_sent, o->size - o->n_sent,
                             MSG_DONTWAIT | MSG_NOSIGNAL);

            if (n < 0 && stp_store_may_retry(errno))
                return;
            o->n_sent = n < 0 ? o->size : o->n_sent + (size_t)n;
        }
}

static bool peer_has_unsent(const struct peer *p)
{
    return p->fd >= 0 && (p->out[0].n_sent < p->out[0].size ||
                          p->out[1].n_sent < p->out[1].size);
}

static bool star_has_unsent(const struct star *s)
{
    for (unsigned r = 1; r < s->size; r++)
        if (peer_has_unsent(&s->peers[r]))
            return true;
    return false;
}

/* Makes room for the frame that begins; false if it is none that a rank may
 * send: a rank gives once an exchange. */
static bool peer_begin_frame(struct star *s, struct peer *p)
{
    const uint64_t size = p->frame.size;

    if (p->frame.kind != STP_STAR_GIVE)
        return size == 0 && (p->frame.kind == STP_STAR_SIGN ||
                             p->frame.kind == STP_STAR_LEAVE);
    if (p->has_given || size > STP_STAR_MAX_BYTES ||
        s->n_held + size > MAX_HELD_BYTES)
        return false;
    p->body = malloc(size + 1);
    s->n_held += p->body != NULL ? size : 0;
    return p->body != NULL;
}

/* Receives a frame, as far as it has arrived: only one, so that a rank's part
 * counts before its end. */
static void peer_receive(struct star *s, unsigned rank)
{
    struct peer *p = &s->peers[rank];

    while (p->fd >= 0) {
        const bool begins = p->n_frame < FRAME;
        void *to = begins ? (unsigned char *)&p->frame + p->n_frame
                          : p->body + p->n_body;
        const size_t size =
            begins ? FRAME - p->n_frame : p->frame.size - p->n_body;
        ssize_t n = recv(p->fd, to, size, MSG_DONTWAIT);

        if (n < 0 && stp_store_may_retry(errno))
            return;
        if (n <= 0) {
            peer_close(s, rank, "died");
            return;
        }
        *(begins ? &p->n_frame : &p->n_body) += (size_t)n;
        if (p->n_frame < FRAME)
            continue;
        if (begins && !peer_begin_frame(s, p)) {
            peer_close(s, rank, strange);
            return;
        }
        if (p->n_body < p->frame.size)
            continue;
        p->seen_ms = stp_now_ms();
        p->is_missed = false;
        if (p->frame.kind == STP_STAR_LEAVE)
            p->presence = LEFT;
        if (p->frame.kind == STP_STAR_GIVE) {
            p->has_given = true;
            p->given = p->frame;
            p->bytes = p->body;
            p->body = NULL;
        }
        p->n_frame = p->n_body = 0;
        return;
    }
}

/* ---- rank 0: strangers ---- */

static void stranger_drop(struct star *s, unsigned i, bool closes)
{
    if (closes)
        close(s->strangers[i].fd);
    s->n_strangers--;
    memmove(&s->strangers[i], &s->strangers[i + 1],
            (s->n_strangers - i) * sizeof(s->strangers[0]));
}

/* Answers one that has said hello: it becomes a rank, or is told why not. */
static void stranger_admit(struct star *s, unsigned i)
{
    const struct stp_star_hello hello = s->strangers[i].hello;
    const int fd = s->strangers[i].fd;
    struct stp_star_answer answer = {.magic = STP_STAR_MAGIC};
    struct stp_error why = {0};
    struct peer *p = NULL;
    bool is_sent;

    if (hello.version != STP_STAR_VERSION)
        stp_fail(&why, STP_ERR_DEVICE,
                 "it is another version of Steptune than rank 0 is");
    else if (hello.size != s->size)
        stp_fail(&why, STP_ERR_DEVICE,
                 "its WORLD_SIZE is %u, that of rank 0 is %u", hello.size,
                 s->size);
    else if (hello.rank == 0 || hello.rank >= s->size)
        stp_fail(&why, STP_ERR_DEVICE, "there is no rank %u in a run of %u",
                 hello.rank, s->size);
    else if (s->peers[hello.rank].presence != ABSENT)
        stp_fail(&why, STP_ERR_DEVICE, "there is a rank %u already",
                 hello.rank);
    else
        p = &s->peers[hello.rank];
    answer.is_refused = p == NULL;
    memcpy(answer.why, why.text, sizeof(answer.why));
    is_sent = send(fd, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL) ==
              (ssize_t)sizeof(answer);
    stranger_drop(s, i, p == NULL || !is_sent);
    if (p == NULL)
        s->refusal = why;
    if (p == NULL || !is_sent)
        return;
    *p = (struct peer){.fd = fd, .presence = PRESENT, .seen_ms = stp_now_ms()};
    s->n_present++;
}

static void stranger_receive(struct star *s, unsigned i)
{
    struct stranger *t = &s->strangers[i];
    char token[STP_STAR_TOKEN] = "";
    unsigned char differs = 0;
    ssize_t n = recv(t->fd, (char *)&t->hello + t->n, sizeof(t->hello) - t->n,
                     MSG_DONTWAIT);

    if (n < 0 && stp_store_may_retry(errno))
        return;
    t->n += n > 0 ? (size_t)n : 0;
    if (n <= 0 ||
        memcmp(t->hello.magic, STP_STAR_MAGIC,
               t->n < sizeof(t->hello.magic) ? t->n : sizeof(t->hello.magic)) !=
            0) {
        stranger_drop(s, i, true);
        return;
    }
    if (t->n < sizeof(t->hello))
        return;
    snprintf(token, sizeof(token), "%s", s->token);
    for (size_t k = 0; k < sizeof(token); k++) /* all, to tell nothing */
        differs |= (unsigned char)(token[k] ^ t->hello.token[k]);
    if (differs != 0)
        stranger_drop(s, i, true);
    else
        stranger_admit(s, i);
}

static void star_accept(struct star *s)
{
    for (int i = 0; i < MAX_ACCEPTS; i++) {
        int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
            stp_fail(&s->loss, STP_ERR_LIMIT,
                     "rank 0 cannot have as many sockets as there are ranks: "
                     "%s",
                     strerror(EMFILE));
        if (fd < 0)
            return;
        if (s->n_strangers == MAX_STRANGERS)
            stranger_drop(s, 0, true);
        stp_store_tune(fd);
        s->strangers[s->n_strangers++] =
            (struct stranger){.fd = fd, .since_ms = stp_now_ms()};
    }
}

/* ---- rank 0: a step ---- */

/* Serves what has come, or comes within the time. */
static void star_serve(struct star *s, int timeout_ms)
{
    const unsigned n_strangers = s->n_strangers;
    struct pollfd *polled = s->polled;
    unsigned n = 1;
    int64_t now_ms;

    polled[0] = (struct pollfd){.fd = s->listener, .events = POLLIN};
    /* Sockets alone: poll() takes no more entries than a process may have files
       open. */
    for (struct peer *p = s->peers + 1; p < s->peers + s->size; p++) {
        p->polled = p->fd >= 0 ? &polled[n++] : NULL;
        if (p->polled != NULL)
            *p->polled = (struct pollfd){
                .fd = p->fd,
                .events = POLLIN | (peer_has_unsent(p) ? POLLOUT : 0)};
    }
    for (unsigned i = 0; i < n_strangers; i++)
        polled[n + i] =
            (struct pollfd){.fd = s->strangers[i].fd, .events = POLLIN};
    if (poll(polled, n + n_strangers, timeout_ms) > 0) {
        for (unsigned r = 1; r < s->size; r++) {
            const struct pollfd *p = s->peers[r].polled;

            if (p != NULL && (p->revents & POLLOUT) != 0)
                peer_flush(&s->peers[r]);
            if (p != NULL && (p->revents & ~POLLOUT) != 0)
                peer_receive(s, r);
        }
        for (unsigned i = n_strangers; i-- > 0;)
            if (polled[n + i].revents != 0)
                stranger_receive(s, i);
        if (polled[0].revents != 0)
            star_accept(s);
    }
    now_ms = stp_now_ms();
    if (now_ms - s->checked_ms < CHECK_MS)
        return;
    s->checked_ms = now_ms;
    while (s->n_strangers > 0 &&
           now_ms - s->strangers[0].since_ms > PATIENCE_MS)
        stranger_drop(s, 0, true);
    for (unsigned r = 1; r < s->size; r++)
        if (s->peers[r].fd >= 0 && stp_store_is_stuck(s->peers[r].fd))
            peer_close(s, r, "died");
}

/* Sends a last frame to all: of a failure, or of leaving.  The connection of a
 * process that does not read it in time is closed. */
static void star_end(struct star *s, uint32_t status, const char *text)
{
    const struct stp_star_frame frame = {STP_STAR_END, status, strlen(text)};
    const int64_t deadline_ms = stp_now_ms() + FAREWELL_MS;

    if (s->end != NULL || (s->end = malloc(FRAME + frame.size)) == NULL)
        return;
    memcpy(s->end, &frame, FRAME);
    memcpy(s->end + FRAME, text, frame.size);
    for (unsigned r = 1; r < s->size; r++) {
        s->peers[r].out[1] =
            (struct outgoing){.data = s->end, .size = FRAME + frame.size};
        if (s->peers[r].fd >= 0)
            peer_flush(&s->peers[r]);
    }
    while (star_has_unsent(s) && stp_now_ms() < deadline_ms)
        star_serve(s, 1);
    for (unsigned r = 1; r < s->size; r++)
        if (peer_has_unsent(&s->peers[r]))
            peer_close(s, r, "died");
}

/* The first failure is the one that all processes are told. */
static enum stp_status star_fail(struct star *s, enum stp_status status,
                                 const struct stp_error *why)
{
    if (s->status != STP_OK)
        return s->status;
    s->status = status;
    s->why = *why;
    if (s->peers != NULL)
        star_end(s, status, why->text);
    return status;
}

static enum stp_status star_fail_rank(struct star *s, unsigned rank,
                                      const char *how)
{
    struct stp_error why = {0};

    star_describe_rank(s, rank, how, &why);
    return star_fail(s, STP_ERR_DEVICE, &why);
}

/* Tells of each rank that has given no sign of life, and is not waiting for
 * rank 0 either.  Rank 0 has seen none before 'begin_ms' if it did not look. */
static void star_watch(struct star *s, int64_t begin_ms)
{
    const int64_t now_ms = stp_now_ms();
    const bool was_away = begin_ms - s->watched_ms > s->silent_ms / 2;
    char text[NAME + 64];
    char name[NAME];

    s->watched_ms = now_ms;
    for (unsigned r = 1; r < s->size; r++) {
        struct peer *p = &s->peers[r];

        if (was_away)
            p->seen_ms = now_ms;
        if (p->is_missed || now_ms - p->seen_ms < s->silent_ms ||
            p->presence != PRESENT || r < s->n_given || p->has_given)
            continue;
        p->is_missed = true;
        snprintf(text, sizeof(text), "%s gave no sign of life for %g s",
                 star_name(s, r, name), s->silent_ms / 1000.0);
        s->warn(text);
    }
}

static enum stp_status star_step(struct star *s, int timeout_ms)
{
    const int64_t begin_ms = stp_now_ms();

    if (s->loss.text[0] != '\0' || timeout_ms < 0) /* lost as it sent */
        timeout_ms = 0;
    else if (timeout_ms > (int)s->silent_ms / 2)
        timeout_ms = (int)s->silent_ms / 2;
    star_serve(s, timeout_ms);
    if (s->loss.text[0] != '\0')
        star_fail(s, s->is_complete ? STP_ERR_DEVICE : STP_ERR_LIMIT, &s->loss);
    else if (s->is_complete && s->warn != NULL)
        star_watch(s, begin_ms);
    return s->status;
}

/* ---- rank 0: an exchange ---- */

/* Waits for what a rank gives to an exchange among 'n'. */
static enum stp_status star_gather(struct star *s, unsigned rank, uint32_t n,
                                   size_t size, void *to)
{
    struct peer *p = &s->peers[rank];
    struct stp_error why = {0};
    char text[NAME];

    while (!p->has_given) {
        if (p->presence == LEFT)
            return star_fail_rank(s, rank, "has left the run");
        if (star_step(s, STEP_MS) != STP_OK)
            return s->status;
    }
    star_name(s, rank, text);
    p->has_given = false;
    s->n_held -= p->given.size;
    if (p->given.n == n && p->given.size == size) {
        memcpy(to, p->bytes, size);
    } else if (s->processes[rank].pid == 0) {
        /* One that has not introduced itself can give only that. */
        star_fail_rank(s, rank, strange);
    } else {
        if (p->given.n != n)
            STP_REFUSE(&why, "%s exchanges among %u processes, rank 0 among %u",
                       text, p->given.n, n);
        else
            STP_REFUSE(&why, "%s gave %zu bytes to exchange, rank 0 gave %zu",
                       text, (size_t)p->given.size, size);
        star_fail(s, STP_ERR_RANGE, &why);
    }
    free(p->bytes);
    p->bytes = NULL;
    return s->status;
}

static void star_exchange_as_first(struct star *s, unsigned n, const void *mine,
                                   size_t size, void *all)
{
    const struct stp_star_frame frame = {STP_STAR_ALL, n, n * size};
    unsigned char *data = malloc(FRAME + n * size);
    struct stp_error why = {0};

    if (data == NULL) {
        star_fail(s, stp_nomem(&why), &why);
        return;
    }
    memcpy(data, &frame, FRAME);
    if (size > 0) /* memcpy() does not take NULL, not even for no bytes */
        memcpy(data + FRAME, mine, size);
    for (unsigned r = 1; r < n && s->status == STP_OK; r++) {
        s->n_given = r;
        star_gather(s, r, n, size, data + FRAME + r * size);
    }
    s->n_given = n;
    for (unsigned r = 1; r < n && s->status == STP_OK; r++) {
        s->peers[r].out[0] =
            (struct outgoing){.data = data, .size = FRAME + n * size};
        if (s->peers[r].fd >= 0)
            peer_flush(&s->peers[r]);
    }
    while (s->status == STP_OK && star_has_unsent(s))
        star_step(s, STEP_MS);
    for (unsigned r = 1; r < n; r++) {
        s->peers[r].out[0] = (struct outgoing){0};
        s->peers[r].seen_ms = stp_now_ms();
        s->peers[r].is_missed = false;
    }
    s->n_given = 0;
    if (s->status == STP_OK && size > 0)
        memcpy(all, data + FRAME, n * size);
    free(data);
}

/* ---- the others: an exchange ---- */

static bool star_receive(struct star *s, void *to, size_t size)
{
    if (stp_socket_receive(s->fd, to, size, INT64_MAX))
        return true;
    star_fail_rank(s, 0, "died");
    return false;
}

/* Reads the parts of all 'n' ranks, or an end: rank 0 left, or failed. */
static void star_read(struct star *s, uint32_t n, size_t size, void *all)
{
    struct stp_star_frame frame;
    struct stp_error why = {0};

    if (!star_receive(s, &frame, FRAME))
        return;
    if (frame.kind == STP_STAR_ALL && n > 0 && frame.n == n &&
        frame.size == n * size) {
        star_receive(s, all, n * size);
        return;
    }
    if (frame.kind != STP_STAR_END || frame.size >= sizeof(why.text) ||
        frame.n == STP_OK) {
        star_fail_rank(s, 0, strange);
        return;
    }
    if (!star_receive(s, why.text, (size_t)frame.size))
        return;
    stp_clean_text(why.text, sizeof(why.text));
    s->has_first_left = frame.n == STP_STAR_LEFT;
    if (!s->has_first_left && why.text[0] == '\0')
        star_fail_rank(s, 0, strange);
    else if (!s->has_first_left)
        star_fail(s, stp_status_of(frame.n), &why);
}

/* Sends a frame; a frame that rank 0 sends meanwhile is read first. */
static void star_send(const struct star *s, enum stp_star_kind kind, uint32_t n,
                      const void *bytes, size_t size, bool until_input,
                      int64_t deadline_ms)
{
    struct stp_star_frame frame = {kind, n, size};
    struct iovec parts[] = {{&frame, FRAME}, {(void *)bytes, size}};

    stp_socket_send(s->fd, parts, 2, until_input, deadline_ms);
}

/* ---- the world ---- */

static enum stp_status star_failed(const struct star *s, struct stp_error *err)
{
    if (s->status != STP_OK && err != NULL)
        *err = s->why;
    return s->status;
}

static enum stp_status view_exchange(void *self, const void *mine, size_t size,
                                     void *all_ret, struct stp_error *err)
{
    const struct view *view = self;
    struct star *s = view->star;

    if (s->status == STP_OK && size > STP_STAR_MAX_BYTES)
        return stp_fail(err, STP_ERR_LIMIT,
                        "%zu bytes to exchange, expected at most %d", size,
                        (int)STP_STAR_MAX_BYTES);
    if (s->status == STP_OK && s->rank == 0) {
        star_exchange_as_first(s, view->n, mine, size, all_ret);
    } else if (s->status == STP_OK && !s->has_first_left) {
        star_send(s, STP_STAR_GIVE, view->n, mine, size, true, INT64_MAX);
        /* Also a rank 0 that is gone may have answered before. */
        star_read(s, view->n, size, all_ret);
    }
    if (s->status == STP_OK && s->has_first_left)
        star_fail_rank(s, 0, "has left the run");
    return star_failed(s, err);
}

static bool view_alive(void *self, struct stp_error *err)
{
    struct star *s = ((struct view *)self)->star;
    struct pollfd polled = {.fd = s->fd, .events = POLLIN};
    const int64_t now_ms = stp_now_ms();

    if (s->status == STP_OK && s->rank == 0) {
        star_step(s, 0);
    } else if (s->status == STP_OK && !s->has_first_left) {
        if (poll(&polled, 1, 0) > 0) {
            star_read(s, 0, 0, NULL);
        } else if (stp_store_is_stuck(s->fd)) {
            star_fail_rank(s, 0, "died");
        } else if (now_ms - s->sign_ms >= s->silent_ms / 4) {
            s->sign_ms = now_ms;
            star_send(s, STP_STAR_SIGN, 0, NULL, 0, true, INT64_MAX);
        }
    }
    return star_failed(s, err) == STP_OK;
}

static void star_close(struct star *s)
{
    char unread[4096];

    if (s->peers != NULL && s->polled != NULL && s->status == STP_OK)
        star_end(s, STP_STAR_LEFT, "");
    if (s->fd >= 0) {
        star_send(s, STP_STAR_LEAVE, 0, NULL, 0, false,
                  stp_now_ms() + FAREWELL_MS);
        /* With unread bytes closing would reset the connection, and what was
         * sent would be lost. */
        while (recv(s->fd, unread, sizeof(unread), MSG_DONTWAIT) > 0)
            ;
        close(s->fd);
    }
    for (unsigned r = 1; s->peers != NULL && r < s->size; r++) {
        peer_close(s, r, "died");
        free(s->peers[r].bytes);
    }
    free(s->peers);
    free(s->polled);
    free(s->end);
    free(s->processes);
    free(s);
}

static void view_close(void *self)
{
    struct view *view = self;

    if (!view->is_part)
        star_close(view->star);
    free(view);
}

static enum stp_status view_new(const struct view *like, unsigned n,
                                struct stp_world *world_ret,
                                struct stp_error *err)
{
    const struct process *processes = like->star->processes;
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
        return STP_REFUSE(err, "%u of %u processes", n, part.n);
    part.is_part = true;
    return view_new(&part, n, part_ret, err);
}

/* ---- opening ---- */

/* Writes which ranks are not there after so long. */
static void star_list_missing(const struct star *s, unsigned port,
                              unsigned after_ms, struct stp_error *why)
{
    const unsigned n_missing = s->size - 1 - s->n_present;
    const bool has_refused = s->refusal.text[0] != '\0';
    char others[32] = "";
    unsigned r = 1;

    while (s->peers[r].presence != ABSENT)
        r++;
    if (n_missing > 1)
        snprintf(others, sizeof(others), " and %u other%s", n_missing - 1,
                 n_missing > 2 ? "s" : "");
    stp_fail(why, STP_ERR_DEVICE,
             "rank %u%s of %u did not come to rank 0's port %u in %g s%s%s", r,
             others, s->size, port, after_ms / 1000.0,
             has_refused ? "; one was refused: " : "", s->refusal.text);
}

/* Awaits all others where rank 0 listens; nobody else can come afterwards. */
static void star_await_all(struct star *s, const struct stp_star_options *o)
{
    const int64_t begin_ms = stp_now_ms();
    bool has_warned = o->warn == NULL;
    struct stp_error why = {0};
    int n_last = 0; /* looks after the limit: at who waits, and at its hello */

    while (s->status == STP_OK && s->n_present < s->size - 1) {
        const int64_t now_ms = stp_now_ms();
        const int64_t left_ms = begin_ms + o->limit_ms - now_ms;

        if (left_ms <= 0 && n_last++ == 2) {
            star_list_missing(s, o->port, o->limit_ms, &why);
            star_fail(s, STP_ERR_DEVICE, &why);
            break;
        }
        if (!has_warned && now_ms - begin_ms >= s->silent_ms) {
            has_warned = true;
            star_list_missing(s, o->port, s->silent_ms, &why);
            o->warn(why.text);
        }
        star_step(s, left_ms < STEP_MS ? (int)left_ms : STEP_MS);
    }
    while (s->n_strangers > 0)
        stranger_drop(s, 0, true);
}

/* Takes the sockets over, also on failure. */
static void star_open_first(struct star *s, const struct stp_star_options *o)
{
    s->peers = calloc(o->size, sizeof(*s->peers));
    s->polled = calloc(o->size + MAX_STRANGERS, sizeof(*s->polled));
    if (s->peers == NULL || s->polled == NULL)
        s->status = stp_nomem(&s->why);
    for (unsigned r = 0; r < o->size; r++) {
        const int fd = r > 0 && o->fds != NULL ? o->fds[r] : -1;

        stp_store_tune(fd);
        if (s->peers == NULL && fd >= 0)
            close(fd);
        if (s->peers != NULL)
            s->peers[r] =
                (struct peer){.fd = fd, .presence = fd >= 0 ? PRESENT : ABSENT};
    }
    s->listener = o->fds == NULL && o->size > 1 ? o->listener : -1;
    s->token = o->token;
    if (o->fds == NULL && s->status == STP_OK)
        star_await_all(s, o);
    if (o->fds == NULL && o->listener >= 0)
        close(o->listener);
    s->listener = -1;
    s->is_complete = true;
}

enum stp_status stp_star_open(const struct stp_star_options *options,
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
    struct process *processes = calloc(view.n, sizeof(*processes));
    struct process *known = calloc(view.n, sizeof(*known));
    struct star *s = calloc(1, sizeof(*s));
    enum stp_status status;

    if (processes == NULL || known == NULL || s == NULL) {
        free(s);
        free(known);
        free(processes);
        return stp_nomem(err);
    }
    view.star = s;
    s->processes = known;
    s->rank = options->rank;
    s->size = options->size;
    s->fd = options->rank == 0 ? -1 : options->fds[0];
    s->listener = -1;
    s->warn = options->warn;
    s->silent_ms = options->silent_ms > 0 ? options->silent_ms : STP_SILENT_MS;
    s->sign_ms = stp_now_ms();
    stp_store_tune(s->fd);
    if (s->rank == 0)
        star_open_first(s, options);
    status = star_failed(s, err);
    /* Each says who it is, so that a rank that dies can be named, and the ranks
     * of a host counted. */
    gethostname(me.host, sizeof(me.host) - 1);
    STP_THEN(status, view_exchange(&view, &me, sizeof(me), processes, err));
    for (unsigned r = 0; r < view.n && status == STP_OK; r++) {
        stp_clean_text(processes[r].host, sizeof(processes[r].host));
        s->processes[r] = processes[r];
    }
    free(processes);
    STP_THEN(status, view_new(&view, options->size, world_ret, err));
    if (status != STP_OK)
        star_close(s);
    else if (options->local_size != 0)
        world_ret->local_size = options->local_size;
    return status;
}

void stp_star_allow(unsigned size)
{
    const rlim_t needed = size + SPARE_FILES;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return;
    limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}
