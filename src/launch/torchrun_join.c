/* torchrun_join.c - rank 0 awaits the others, which look for it */
#define _GNU_SOURCE /* SOCK_CLOEXEC, getrandom() */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch/star.h"
#include "launch/torchrun.h"
#include "store/clock.h"
#include "store/store_client.h"

enum {
    ANSWER_MS = 5000, /* for a store to answer */
    DOUBT_MS = 1000,  /* for rank 0, where the job's store has not named it */
    PAUSE_MS = 50,    /* between attempts, at first */
    PAUSE_MAX_MS = 1000,
    BIND_TRIES = 4, /* a client that reached itself has the port briefly */
    BIND_PAUSE_MS = 50,
};

/* The key and the token that the job's store has. */
#define RANK_0_KEY "rank0"
enum { TOKEN_TEXT = 96, PLACE_TEXT = TOKEN_TEXT + 8 };

/* Where rank 0 awaits the others.  If none can come from another host, no other
 * host reaches its socket. */
static const char *join_host(const struct stp_torchrun *s)
{
    return s->local_size == s->size ? "127.0.0.1" : s->host;
}

static int64_t join_soon(const struct stp_torchrun *s, unsigned ms)
{
    return stp_now_ms() + (s->limit_ms < ms ? s->limit_ms : ms);
}

/* Connects to the job's store, if there is one that answers.  The client is to
 * be closed in any case. */
static bool join_open_job_store(const struct stp_torchrun *s,
                                struct stp_client *job, bool *has_key)
{
    const struct stp_store_address address = stp_store_at(s->host, s->job_port);

    *job = (struct stp_client){.fd = -1};
    return address.engine != STP_STORE_NOWHERE &&
           stp_client_open(job, &address, s->token, join_soon(s, ANSWER_MS)) &&
           stp_client_check(job, RANK_0_KEY, has_key);
}

/* ---- rank 0 ---- */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage room;
};

/* A listening socket, or -1 and errno. */
static int join_try_listen(union address *address, socklen_t size,
                           unsigned port)
{
    const int off = 0, on = 1;
    int fd = socket(address->any.sa_family,
                    SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error;

    if (fd < 0)
        return -1;
    address->v4.sin_port = htons((uint16_t)port); /* IPv6's is there as well */
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, &address->any, size) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* For both IPv6 and IPv4 where there is IPv6. */
static int join_listen_anywhere(unsigned port)
{
    union address address = {.v6 = {.sin6_family = AF_INET6}};
    int fd = join_try_listen(&address, sizeof(address.v6), port);

    if (fd >= 0 || errno == EADDRINUSE)
        return fd;
    address = (union address){.v4 = {.sin_family = AF_INET}};
    return join_try_listen(&address, sizeof(address.v4), port);
}

/* Listens where MASTER_ADDR says, if other hosts take part.  That may be a
 * proxy, or a name that this host alone has for its loopback address. */
static int join_listen_at(const struct stp_torchrun *s, unsigned port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    /* Whether a name that is a loopback address here is another one elsewhere,
     * for ranks that are there. */
    struct in6_addr number;
    const bool spans_hosts = s->local_size != 0 && s->local_size < s->size &&
                             strcmp(s->host, "localhost") != 0 &&
                             inet_pton(AF_INET, s->host, &number) != 1 &&
                             inet_pton(AF_INET6, s->host, &number) != 1;
    struct addrinfo *list = NULL;
    int fd = -1;

    errno = EADDRNOTAVAIL;
    if (getaddrinfo(join_host(s), NULL, &hints, &list) != 0)
        return join_listen_anywhere(port);
    for (struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next) {
        union address address = {0};
        bool is_loopback;

        memcpy(&address, a->ai_addr, a->ai_addrlen);
        is_loopback = address.any.sa_family == AF_INET
                          ? ntohl(address.v4.sin_addr.s_addr) >> 24 == 127
                          : IN6_IS_ADDR_LOOPBACK(&address.v6.sin6_addr);
        if (is_loopback && spans_hosts)
            fd = join_listen_anywhere(port);
        else
            fd = join_try_listen(&address, a->ai_addrlen, port);
        if (fd < 0 && errno == EADDRINUSE)
            break;
    }
    freeaddrinfo(list);
    return fd >= 0 || errno == EADDRINUSE || s->local_size == s->size
               ? fd
               : join_listen_anywhere(port);
}

/* *port is 0 for any, and becomes the one that is taken. */
static enum stp_status join_listen(const struct stp_torchrun *s, unsigned *port,
                                   int *fd_ret, struct stp_error *err)
{
    union address address = {0};
    socklen_t size = sizeof(address);
    int fd = join_listen_at(s, *port);

    for (int i = 1; i < BIND_TRIES && fd < 0 && errno == EADDRINUSE; i++) {
        poll(NULL, 0, BIND_PAUSE_MS);
        fd = join_listen_at(s, *port);
    }
    if (fd < 0 && errno == EADDRINUSE)
        return stp_fail(
            err, STP_ERR_LIMIT,
            "port %u, where rank 0 awaits the other ranks, is in use on its "
            "host: set STEPTUNE_PORT to a free one, the same for all ranks",
            *port);
    if (fd < 0)
        return stp_fail(err, STP_ERR_DEVICE,
                        "rank 0 cannot listen on port %u: %s", *port,
                        strerror(errno));
    if (getsockname(fd, &address.any, &size) == 0)
        *port = ntohs(address.v4.sin_port);
    *fd_ret = fd;
    return STP_OK;
}

static enum stp_status join_as_first(const struct stp_torchrun *s,
                                     struct stp_star_options o,
                                     struct stp_world *world_ret,
                                     struct stp_error *err)
{
    char token[TOKEN_TEXT], place[PLACE_TEXT];
    uint64_t bits[2]; /* random ones: the token */
    struct stp_client job;
    bool has_key = false;
    bool has_job = s->size > 1 && join_open_job_store(s, &job, &has_key) &&
                   getrandom(bits, sizeof(bits), 0) == (ssize_t)sizeof(bits);
    enum stp_status status = STP_OK;

    stp_star_allow(s->size);
    o.port = has_job ? s->fixed_port : s->port;
    if (has_job) {
        snprintf(token, sizeof(token), "%016llx%016llx",
                 (unsigned long long)bits[0], (unsigned long long)bits[1]);
        o.token = token;
    }
    if (s->size > 1)
        status = join_listen(s, &o.port, &o.listener, err);
    snprintf(place, sizeof(place), "%u %s", o.port, o.token);
    /* A CHECK shows that it has come to the job's store. */
    if (status == STP_OK && has_job &&
        !(stp_client_set(&job, RANK_0_KEY, place, strlen(place)) &&
          stp_client_check(&job, RANK_0_KEY, &has_key) && has_key))
        status =
            stp_fail(err, STP_ERR_DEVICE,
                     "rank 0 could not write to the store of this job at %.60s",
                     job.address);
    if (status == STP_OK)
        status = stp_star_open(&o, world_ret, err);
    else if (o.listener >= 0)
        close(o.listener);
    if (has_job) {
        job.deadline_ms = join_soon(s, ANSWER_MS);
        stp_client_delete(&job, RANK_0_KEY);
    }
    if (s->size > 1)
        stp_client_close(&job);
    return status;
}

/* ---- the others ---- */

/* An attempt to join. */
struct attempt {
    int fd;                           /* connected to rank 0, or -1 */
    char address[STP_SOCKET_ADDRESS]; /* that was tried last, or "" */
    char why[256];                    /* it failed */
    unsigned port;
    char token[TOKEN_TEXT];
    struct stp_star_answer answer;
};

/* Joins rank 0, whose silence ends the attempt soon: it may publish another
 * port. */
static bool attempt_join(struct attempt *a, const struct stp_torchrun *s,
                         int64_t deadline_ms)
{
    struct stp_star_hello hello = {.magic = STP_STAR_MAGIC,
                                   .version = STP_STAR_VERSION,
                                   .size = s->size,
                                   .rank = s->rank};
    struct iovec part = {&hello, sizeof(hello)};
    char place[PLACE_TEXT] = "";
    struct stp_client job;
    bool has_key = false, has_job;
    int64_t soon_ms;
    size_t size = 0;
    int n;

    /* The job's store may have said where rank 0 is. */
    if (join_open_job_store(s, &job, &has_key) && has_key)
        stp_client_get(&job, RANK_0_KEY, place, sizeof(place) - 1, &size);
    stp_client_close(&job);
    place[size] = '\0';
    has_job = sscanf(place, "%5u %95[0-9a-f]%n", &a->port, a->token, &n) == 2 &&
              place[n] == '\0' && a->port > 0 && a->port <= UINT16_MAX;
    soon_ms = join_soon(s, has_job || s->job_port == 0 ? ANSWER_MS : DOUBT_MS);
    if (soon_ms > deadline_ms)
        soon_ms = deadline_ms;
    if (!has_job) {
        a->port = s->port;
        snprintf(a->token, sizeof(a->token), "%s", s->token);
    }
    snprintf(hello.token, sizeof(hello.token), "%s", a->token);
    a->fd = stp_socket_connect(join_host(s), a->port, soon_ms, a->address,
                               a->why, sizeof(a->why));
    if (a->fd < 0)
        return false;
    if (stp_socket_send(a->fd, &part, 1, false, soon_ms) &&
        stp_socket_receive(a->fd, &a->answer, sizeof(a->answer), soon_ms) &&
        memcmp(a->answer.magic, STP_STAR_MAGIC, sizeof(a->answer.magic)) == 0) {
        stp_clean_text(a->answer.why, sizeof(a->answer.why));
        return true;
    }
    snprintf(a->why, sizeof(a->why),
             "what listens there did not answer as rank 0 of Steptune does");
    close(a->fd);
    a->fd = -1;
    return false;
}

static enum stp_status attempt_explain(const struct attempt *a,
                                       const struct stp_torchrun *s,
                                       unsigned after_ms, struct stp_error *err)
{
    char address[sizeof(a->address) + 4] = "";

    if (a->address[0] != '\0' && strcmp(a->address, join_host(s)) != 0)
        snprintf(address, sizeof(address), " (%s)", a->address);
    return stp_fail(
        err, STP_ERR_DEVICE,
        "rank %u could not reach rank 0 at %.60s%s, port %u, in %g s: %s",
        s->rank, join_host(s), address, a->port, after_ms / 1000.0, a->why);
}

/* Meanwhile one rank of each host tells that rank 0 is missed. */
static enum stp_status join_as_other(const struct stp_torchrun *s,
                                     struct stp_star_options o,
                                     struct stp_world *world_ret,
                                     struct stp_error *err)
{
    const int64_t begin_ms = stp_now_ms();
    const int64_t deadline_ms = begin_ms + s->limit_ms;
    struct attempt a = {.fd = -1};
    bool has_warned = s->warn == NULL || s->local_rank > 0;
    int pause_ms = PAUSE_MS;

    while (!attempt_join(&a, s, deadline_ms)) {
        if (stp_now_ms() + pause_ms >= deadline_ms)
            return attempt_explain(&a, s, s->limit_ms, err);
        if (!has_warned && stp_now_ms() >= begin_ms + STP_SILENT_MS) {
            has_warned = true;
            attempt_explain(&a, s, STP_SILENT_MS, err);
            s->warn(err->text);
        }
        poll(NULL, 0, pause_ms);
        pause_ms = pause_ms < PAUSE_MAX_MS / 2 ? pause_ms * 2 : PAUSE_MAX_MS;
    }
    o.fds = &a.fd;
    if (a.answer.is_refused == 0)
        return stp_star_open(&o, world_ret, err);
    close(a.fd);
    return stp_fail(err, STP_ERR_DEVICE,
                    "rank 0 at %.60s, port %u, refused rank %u: %s",
                    join_host(s), a.port, s->rank, a.answer.why);
}

enum stp_status stp_torchrun_join(const struct stp_torchrun *settings,
                                  struct stp_world *world_ret,
                                  struct stp_error *err)
{
    struct stp_star_options options = {.name = settings->launcher,
                                       .rank = settings->rank,
                                       .size = settings->size,
                                       .local_rank = settings->local_rank,
                                       .local_size = settings->local_size,
                                       .token = settings->token,
                                       .listener = -1,
                                       .limit_ms = settings->limit_ms,
                                       .warn = settings->warn};

    return settings->rank == 0
               ? join_as_first(settings, options, world_ret, err)
               : join_as_other(settings, options, world_ret, err);
}
