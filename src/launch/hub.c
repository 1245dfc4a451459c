#define _GNU_SOURCE /* POLLRDHUP, struct tcp_info */
#include "launch/hub.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch/clock.h"

/*
 * A host that is gone while nothing is on its way is found by keepalive, after
 * IDLE + PROBES * INTERVAL seconds; with something on its way by
 * hub_is_stuck().  Not by TCP_USER_TIMEOUT: that also gives up on a process
 * that is alive and does not read for a while.
 */
enum {
    KEEPALIVE_IDLE_S = 3,
    KEEPALIVE_INTERVAL_S = 2,
    KEEPALIVE_PROBES = 2,
    STUCK_MS = 8000,
    STUCK_CHECK_MS = 1000, /* between checks */
    FAREWELL_MS = 500,     /* for a last frame to processes that do not read */
    SPARE_FILES = 256,     /* for all else that a run opens */
    HEADER = sizeof(struct stp_hub_header),
    NO_LINK = STP_MAX_PROCESSES,
};

struct process {
    char host[64];
    uint64_t pid; /* 0: not known yet */
};

/* A socket to another process. */
struct link {
    int fd;        /* -1: that process has left, or the run has failed */
    size_t n_sent; /* bytes of the frame that is being sent */
};

struct hub {
    unsigned rank, size;
    struct process *processes;
    struct link *links;    /* rank 0: [r] to rank r, [0] unused; others: [0] */
    struct pollfd *polled; /* one a link */
    struct stp_hub_header out; /* of the DATA that is being sent */
    const void *out_body;
    int64_t checked_ms;     /* for hosts that do not answer */
    enum stp_status status; /* why nothing works any more, or STP_OK */
    struct stp_error why;
};

/* A world: the first 'n' processes. */
struct view {
    struct stp_world_ops ops; /* with the hub's name */
    struct hub *hub;
    unsigned rank, local_rank;
    unsigned n;
    bool is_part; /* the hub is another's */
};

/* The links are [first, end). */
static unsigned hub_first_link(const struct hub *hub)
{
    return hub->rank == 0 ? 1 : 0;
}

static unsigned hub_end_link(const struct hub *hub)
{
    return hub->rank == 0 ? hub->size : 1;
}

/* ---- sockets ---- */

/* On a socket within a host all of these fail, and none is needed. */
static void hub_tune_socket(int fd)
{
    static const struct {
        int level, option, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
    };

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        setsockopt(fd, options[i].level, options[i].option, &options[i].value,
                   sizeof(options[i].value));
}

/* Whether the other host has not confirmed for 8 seconds what was sent to it.
 * Never true of sockets within a host. */
static bool hub_is_stuck(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return false;
    /* A second probe of a closed window: the first may be on its way. */
    return (info.tcpi_retransmits > 0 || info.tcpi_probes > 1) &&
           info.tcpi_last_ack_recv > STUCK_MS;
}

static bool hub_may_retry(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS ||
           error == ENOMEM || error == EINTR;
}

static void link_close(struct link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
}

/* Sends as much of a frame as the socket takes.  True when nothing is left to
 * send, or if the other process is gone, which the next read notices. */
static bool link_send(struct link *link, const struct stp_hub_header *header,
                      const void *body)
{
    while (link->fd >= 0 && link->n_sent < HEADER + header->size) {
        const size_t n_header = link->n_sent < HEADER ? link->n_sent : HEADER;
        const size_t n_body = link->n_sent - n_header;
        struct iovec parts[] = {
            {(unsigned char *)header + n_header, HEADER - n_header},
            {header->size > 0 ? (unsigned char *)body + n_body : NULL,
             (size_t)header->size - n_body}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t n = sendmsg(link->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n >= 0)
            link->n_sent += (size_t)n;
        else if (errno != EINTR)
            return !hub_may_retry(errno);
    }
    return true;
}

/* Closes the link if it has but a part of the frame. */
static void link_end_frame(struct link *link,
                           const struct stp_hub_header *header)
{
    if (link->n_sent > 0 && link->n_sent < HEADER + header->size)
        link_close(link);
    link->n_sent = 0;
}

/* Looks at the header of the next frame: 1 if it has come, 0 if not yet, -1 if
 * none will come. */
static int link_peek(const struct link *link, struct stp_hub_header *header)
{
    ssize_t n;

    do
        n = recv(link->fd, header, HEADER, MSG_PEEK | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n == HEADER)
        return 1;
    return n > 0 || (n < 0 && hub_may_retry(errno)) ? 0 : -1;
}

/* ---- failures ---- */

static enum stp_status hub_failed(const struct hub *hub, struct stp_error *err)
{
    if (hub->status != STP_OK && err != NULL)
        *err = hub->why;
    return hub->status;
}

/* Goes on sending a frame over the links up to 'end': only where a part of it
 * has been sent already unless 'begin'.  False if there is more to send. */
static bool hub_send_some(struct hub *hub, unsigned end, bool begin,
                          const struct stp_hub_header *header, const void *body)
{
    bool is_done = true;

    for (unsigned i = hub_first_link(hub); i < end; i++)
        if (begin || hub->links[i].n_sent > 0)
            is_done = link_send(&hub->links[i], header, body) && is_done;
    return is_done;
}

/* Sends a last frame to all, behind DATA of which they have a part.  A process
 * that does not read it in time finds the socket closed. */
static void hub_send_last(struct hub *hub, enum stp_hub_kind kind,
                          uint32_t number, const char *text)
{
    const struct stp_hub_header header = {
        .kind = kind, .number = number, .size = strlen(text)};
    const int64_t deadline_ms = stp_now_ms() + FAREWELL_MS;
    const unsigned end = hub_end_link(hub);

    while (!hub_send_some(hub, end, false, &hub->out, hub->out_body) &&
           stp_now_ms() < deadline_ms)
        poll(NULL, 0, 1);
    for (unsigned i = hub_first_link(hub); i < end; i++)
        link_end_frame(&hub->links[i], &hub->out);
    while (!hub_send_some(hub, end, true, &header, text) &&
           stp_now_ms() < deadline_ms)
        poll(NULL, 0, 1);
    for (unsigned i = hub_first_link(hub); i < end; i++)
        link_end_frame(&hub->links[i], &header);
}

/* The first failure is the one that all processes are told. */
static void hub_fail(struct hub *hub, enum stp_status status,
                     const struct stp_error *why)
{
    if (hub->status != STP_OK)
        return;
    hub->status = status;
    hub->why = *why;
    if (hub->rank == 0)
        hub_send_last(hub, STP_HUB_NOTICE, status, why->text);
}

enum { NAME = 128 };

static const char *hub_name_rank(const struct hub *hub, unsigned rank,
                                 char text[NAME])
{
    const struct process *p = &hub->processes[rank];

    if (p->pid == 0)
        snprintf(text, NAME, "rank %u", rank);
    else
        snprintf(text, NAME, "rank %u (%s, process %llu)", rank, p->host,
                 (unsigned long long)p->pid);
    return text;
}

static enum stp_status hub_fail_rank(struct hub *hub, unsigned rank,
                                     const char *how)
{
    struct stp_error why = {0};
    char text[NAME];

    stp_fail(&why, STP_ERR_DEVICE, "%s %s", hub_name_rank(hub, rank, text),
             how);
    link_close(&hub->links[rank]);
    hub_fail(hub, STP_ERR_DEVICE, &why);
    return hub->status;
}

static enum stp_status hub_fail_strange(struct hub *hub, unsigned rank)
{
    return hub_fail_rank(hub, rank,
                         "sent what does not belong to this run, or too much "
                         "for this host's memory");
}

/* ---- waiting ---- */

/* Looks at a link whose other end has closed it.  A rank 0 that is gone may
 * have sent its last frames before. */
static void hub_check_closed(struct hub *hub, unsigned i)
{
    struct stp_hub_header header;
    int n = link_peek(&hub->links[i], &header);

    if (n > 0 && header.kind == STP_HUB_BYE)
        link_close(&hub->links[i]);
    else if (hub->rank == 0 || n <= 0)
        hub_fail_rank(hub, i, "died");
}

static void hub_check_hosts(struct hub *hub)
{
    int64_t now = stp_now_ms();

    if (now - hub->checked_ms < STUCK_CHECK_MS)
        return;
    hub->checked_ms = now;
    for (unsigned i = hub_first_link(hub);
         i < hub_end_link(hub) && hub->status == STP_OK; i++)
        if (hub->links[i].fd >= 0 && hub_is_stuck(hub->links[i].fd))
            hub_fail_rank(hub, i, "died");
}

/* Waits for 'events' of the links [i, end), and notices deaths of all. */
static enum stp_status hub_await(struct hub *hub, unsigned i, unsigned end,
                                 short events, int timeout_ms)
{
    const short closed = POLLRDHUP | POLLHUP | POLLERR;
    unsigned first = hub_first_link(hub);
    int n;

    for (unsigned j = first; j < hub_end_link(hub); j++)
        hub->polled[j] = (struct pollfd){
            .fd = hub->links[j].fd,
            .events = j >= i && j < end ? events | POLLRDHUP : POLLRDHUP};
    n = poll(hub->polled + first, hub_end_link(hub) - first, timeout_ms);
    for (unsigned j = first; j < hub_end_link(hub) && n > 0; j++)
        if ((hub->polled[j].revents & closed) != 0 && hub->status == STP_OK)
            hub_check_closed(hub, j);
    hub_check_hosts(hub);
    return hub->status;
}

/* ---- frames ---- */

static enum stp_status hub_receive(struct hub *hub, unsigned i, void *to,
                                   size_t size)
{
    size_t n_received = 0;

    while (n_received < size && hub->status == STP_OK) {
        ssize_t n = recv(hub->links[i].fd, (unsigned char *)to + n_received,
                         size - n_received, MSG_DONTWAIT);

        if (n > 0)
            n_received += (size_t)n;
        else if (n == 0 || !hub_may_retry(errno))
            hub_fail_rank(hub, i, "died");
        else
            hub_await(hub, i, i + 1, POLLIN, STUCK_CHECK_MS);
    }
    return hub->status;
}

static void hub_read_notice(struct hub *hub, struct stp_hub_header header)
{
    struct stp_error why = {0};

    if (header.size >= sizeof(why.text))
        hub_fail_strange(hub, 0);
    else if (hub_receive(hub, 0, &header, HEADER) == STP_OK &&
             hub_receive(hub, 0, why.text, (size_t)header.size) == STP_OK)
        hub_fail(hub, (enum stp_status)header.number, &why);
}

/* Looks for the next frame of a link, which is DATA: others are dealt with.  1
 * if its header has come, and is still to be read; 0 if not yet; or -1 if none
 * will come. */
static int hub_look(struct hub *hub, unsigned i, struct stp_hub_header *header)
{
    int n = hub->links[i].fd >= 0 ? link_peek(&hub->links[i], header) : -1;

    if (hub->links[i].fd < 0 || n == 0)
        return n;
    if (n < 0)
        hub_fail_rank(hub, i, "died");
    else if (header->kind == STP_HUB_DATA)
        return 1;
    else if (header->kind == STP_HUB_BYE && header->size == 0)
        link_close(&hub->links[i]);
    else if (header->kind == STP_HUB_NOTICE && hub->rank != 0)
        hub_read_notice(hub, *header);
    else
        hub_fail_strange(hub, i);
    return -1;
}

/* Waits for the header of DATA of a rank that others need. */
static enum stp_status hub_receive_header(struct hub *hub, unsigned i,
                                          struct stp_hub_header *header)
{
    int n;

    while ((n = hub_look(hub, i, header)) == 0 && hub->status == STP_OK)
        hub_await(hub, i, i + 1, POLLIN, STUCK_CHECK_MS);
    if (hub->status == STP_OK && n < 0)
        return hub_fail_rank(hub, i, "has left the run");
    return hub->status == STP_OK ? hub_receive(hub, i, header, HEADER)
                                 : hub->status;
}

/* Sends DATA over the links up to 'end'. */
static void hub_send(struct hub *hub, unsigned end, uint32_t n,
                     const void *body, size_t size)
{
    struct stp_hub_header answer;
    int n_answers = 0;

    hub->out = (struct stp_hub_header){
        .kind = STP_HUB_DATA, .number = n, .size = size};
    hub->out_body = body;
    while (n_answers == 0 && hub->status == STP_OK &&
           !hub_send_some(hub, end, true, &hub->out, body)) {
        hub_await(hub, hub_first_link(hub), end,
                  hub->rank == 0 ? POLLOUT : POLLIN | POLLOUT, STUCK_CHECK_MS);
        if (hub->rank != 0 && hub->status == STP_OK)
            n_answers = hub_look(hub, 0, &answer);
    }
    for (unsigned i = hub_first_link(hub); i < end; i++)
        link_end_frame(&hub->links[i], &hub->out);
}

/* ---- exchange ---- */

/* A rank that has not introduced itself can send only its introduction. */
static enum stp_status hub_compare(struct hub *hub, unsigned rank, uint32_t n,
                                   size_t size,
                                   const struct stp_hub_header *header)
{
    struct stp_error why = {0};
    char text[NAME];

    if (header->number == n && header->size == size)
        return STP_OK;
    if (hub->processes[rank].pid == 0)
        return hub_fail_strange(hub, rank);
    hub_name_rank(hub, rank, text);
    if (header->number != n)
        stp_fail(&why, STP_ERR_RANGE,
                 "%s exchanges among %u processes, rank 0 among %u", text,
                 header->number, n);
    else
        stp_fail(&why, STP_ERR_RANGE,
                 "%s gave %llu bytes to exchange, rank 0 gave %zu", text,
                 (unsigned long long)header->size, size);
    hub_fail(hub, STP_ERR_RANGE, &why);
    return hub->status;
}

static void hub_exchange_as_first(struct hub *hub, unsigned n, const void *mine,
                                  size_t size, unsigned char *all)
{
    struct stp_hub_header header;

    if (size > 0) /* memcpy() does not take NULL, not even for no bytes */
        memcpy(all, mine, size);
    for (unsigned r = 1; r < n && hub->status == STP_OK; r++)
        if (hub_receive_header(hub, r, &header) == STP_OK &&
            hub_compare(hub, r, n, size, &header) == STP_OK)
            hub_receive(hub, r, all + r * size, size);
    if (hub->status == STP_OK)
        hub_send(hub, n, n, all, n * size);
}

static void hub_exchange_as_other(struct hub *hub, unsigned n, const void *mine,
                                  size_t size, void *all)
{
    struct stp_hub_header header;

    hub_send(hub, 1, n, mine, size);
    if (hub->status != STP_OK || hub_receive_header(hub, 0, &header) != STP_OK)
        return;
    if (header.size != n * size)
        hub_fail_strange(hub, 0);
    else
        hub_receive(hub, 0, all, n * size);
}

static enum stp_status view_exchange(void *self, const void *mine, size_t size,
                                     void *all_ret, struct stp_error *err)
{
    const struct view *view = self;
    struct hub *hub = view->hub;

    if (hub->status == STP_OK && hub->rank == 0)
        hub_exchange_as_first(hub, view->n, mine, size, all_ret);
    else if (hub->status == STP_OK)
        hub_exchange_as_other(hub, view->n, mine, size, all_ret);
    return hub_failed(hub, err);
}

static bool view_alive(void *self, struct stp_error *err)
{
    struct hub *hub = ((struct view *)self)->hub;
    struct stp_hub_header header;

    if (hub->status == STP_OK && hub->rank != 0)
        hub_look(hub, 0, &header);
    if (hub->status == STP_OK)
        hub_await(hub, NO_LINK, NO_LINK, 0, 0);
    return hub_failed(hub, err) == STP_OK;
}

/* ---- opening and closing ---- */

/* Unread bytes are discarded before the socket is closed: otherwise closing it
 * would reset the connection and the BYE would be lost. */
static void hub_close(struct hub *hub)
{
    hub_send_last(hub, STP_HUB_BYE, 0, "");
    for (unsigned i = hub_first_link(hub); i < hub_end_link(hub); i++) {
        char unread[4096];

        while (hub->links[i].fd >= 0 &&
               recv(hub->links[i].fd, unread, sizeof(unread), MSG_DONTWAIT) > 0)
            ;
        link_close(&hub->links[i]);
    }
    free(hub->polled);
    free(hub->links);
    free(hub->processes);
    free(hub);
}

static void view_close(void *self)
{
    struct view *view = self;

    if (!view->is_part)
        hub_close(view->hub);
    free(view);
}

static unsigned view_count_local(const struct view *view)
{
    const struct process *processes = view->hub->processes;
    unsigned n_local = 0;

    for (unsigned r = 0; r < view->n; r++)
        n_local += strcmp(processes[r].host, processes[view->rank].host) == 0;
    return n_local;
}

static enum stp_status view_new(const struct view *like, unsigned n,
                                struct stp_world *world_ret,
                                struct stp_error *err)
{
    bool is_in = like->rank < n;
    struct view *view = malloc(sizeof(*view));

    if (view == NULL)
        return stp_nomem(err);
    *view = *like;
    view->n = n;
    *world_ret =
        (struct stp_world){.ops = &view->ops,
                           .self = view,
                           .rank = view->rank,
                           .size = is_in ? n : 0,
                           .local_rank = view->local_rank,
                           .local_size = is_in ? view_count_local(view) : 0};
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

/* Takes the sockets over, also if there is no memory. */
static struct hub *hub_new(const struct stp_hub_options *options)
{
    const unsigned end = options->rank == 0 ? options->size : 1;
    struct hub *hub = calloc(1, sizeof(*hub));
    bool is_made = hub != NULL;

    if (is_made) {
        hub->rank = options->rank;
        hub->size = options->size;
        hub->processes = calloc(options->size, sizeof(*hub->processes));
        hub->links = calloc(end, sizeof(*hub->links));
        hub->polled = calloc(end, sizeof(*hub->polled));
        is_made =
            hub->processes != NULL && hub->links != NULL && hub->polled != NULL;
    }
    for (unsigned i = options->rank == 0; i < end; i++) {
        hub_tune_socket(options->fds[i]);
        if (is_made)
            hub->links[i].fd = options->fds[i];
        else
            close(options->fds[i]);
    }
    if (is_made || hub == NULL)
        return hub;
    free(hub->polled);
    free(hub->links);
    free(hub->processes);
    free(hub);
    return NULL;
}

/* So that a rank that dies can be named, and the ranks of a host counted. */
static enum stp_status hub_introduce(struct view *view, struct stp_error *err)
{
    struct process me = {.pid = (uint64_t)getpid()};
    struct process *all = calloc(view->n, sizeof(*all));
    enum stp_status status;

    if (all == NULL)
        return stp_nomem(err);
    gethostname(me.host, sizeof(me.host) - 1);
    status = view_exchange(view, &me, sizeof(me), all, err);
    if (status == STP_OK)
        memcpy(view->hub->processes, all, view->n * sizeof(*all));
    free(all);
    return status;
}

enum stp_status stp_hub_open(const struct stp_hub_options *options,
                             struct stp_world *world_ret, struct stp_error *err)
{
    struct view view = {.ops = {.name = options->name,
                                .exchange = view_exchange,
                                .alive = view_alive,
                                .part = view_part,
                                .close = view_close},
                        .hub = hub_new(options),
                        .rank = options->rank,
                        .local_rank = options->local_rank,
                        .n = options->size};
    enum stp_status status;

    if (view.hub == NULL)
        return stp_nomem(err);
    status = hub_introduce(&view, err);
    if (status == STP_OK)
        status = view_new(&view, options->size, world_ret, err);
    if (status != STP_OK)
        hub_close(view.hub);
    else if (options->local_size != 0)
        world_ret->local_size = options->local_size;
    return status;
}

void stp_hub_refuse(int fd, enum stp_status status, const struct stp_error *why)
{
    const struct stp_hub_header header = {
        .kind = STP_HUB_NOTICE, .number = status, .size = strlen(why->text)};
    struct link link = {.fd = fd};
    char unread[256]; /* at most: who it is */

    recv(fd, unread, sizeof(unread), MSG_DONTWAIT);
    link_send(&link, &header, why->text);
    close(fd);
}

void stp_hub_allow(unsigned size)
{
    const rlim_t needed = size + SPARE_FILES;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return;
    limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}
