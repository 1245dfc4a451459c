#define _GNU_SOURCE /* struct tcp_info */
#include "store/store.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

/* A host that is gone while nothing is on its way is found by keepalive, after
 * IDLE + PROBES * INTERVAL seconds; with something on its way by
 * stp_store_is_stuck().  Not by TCP_USER_TIMEOUT: that also gives up on a
 * process that is alive and does not read for a while. */
enum {
    KEEPALIVE_IDLE_S = 3,
    KEEPALIVE_INTERVAL_S = 2,
    KEEPALIVE_PROBES = 2,
    STUCK_MS = 8000,
};

void stp_store_prefix(const char *token, char prefix_ret[STP_STORE_PREFIX])
{
    snprintf(prefix_ret, STP_STORE_PREFIX, "/steptune/%.100s/", token);
}

void stp_store_tune(int fd)
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

bool stp_store_is_stuck(int fd)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return false;
    /* A second probe of a closed window: the first may be on its way. */
    return (info.tcpi_retransmits > 0 || info.tcpi_probes > 1) &&
           info.tcpi_last_ack_recv > STUCK_MS;
}

bool stp_store_may_retry(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS ||
           error == ENOMEM || error == EINTR;
}
