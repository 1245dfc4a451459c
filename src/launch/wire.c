#define _GNU_SOURCE /* struct tcp_info */
#include "launch/wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEADER = sizeof(struct stp_wire_header) };

/*
 * A host that is gone while nothing is on its way is found by keepalive, after
 * IDLE + PROBES * INTERVAL seconds; with something on its way by
 * stp_wire_is_stuck().  Not by TCP_USER_TIMEOUT: that also gives up on a
 * process that is alive and does not read for a while.
 */
enum {
    KEEPALIVE_IDLE_S = 3,
    KEEPALIVE_INTERVAL_S = 2,
    KEEPALIVE_PROBES = 2,
    STUCK_MS = 8000,
};

/* Of a socket within a host all of these fail, and none is needed. */
static void set_options(int fd)
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

void stp_wire_open(struct stp_wire *wire, int fd)
{
    *wire = (struct stp_wire){.fd = fd};
    set_options(fd);
}

void stp_wire_end(struct stp_wire *wire, enum stp_wire_state state)
{
    if (wire->fd >= 0)
        close(wire->fd);
    wire->fd = -1;
    wire->state = state;
    wire->sending = false;
}

void stp_wire_close(struct stp_wire *wire)
{
    stp_wire_end(wire, wire->state);
    free(wire->body);
    wire->body = NULL;
}

/* ---- receiving ---- */

static bool make_room(struct stp_wire *wire, uint64_t size)
{
    unsigned char *body;

    if (size <= wire->capacity)
        return true;
    body = size <= SIZE_MAX / 2 ? realloc(wire->body, (size_t)size) : NULL;
    if (body == NULL)
        return false;
    wire->body = body;
    wire->capacity = (size_t)size;
    return true;
}

/* Whether a frame may begin so. */
static bool may_begin(struct stp_wire *wire)
{
    switch (wire->header.kind) {
    case STP_WIRE_DATA:
        return !wire->has_data && make_room(wire, wire->header.size);
    case STP_WIRE_NOTICE:
        return wire->header.size < sizeof(wire->notice.text);
    case STP_WIRE_BYE:
        return wire->header.size == 0;
    default:
        return false;
    }
}

static void take_frame(struct stp_wire *wire)
{
    wire->n_received = 0;
    if (wire->header.kind == STP_WIRE_DATA) {
        wire->has_data = true;
        wire->data = wire->header;
    } else if (wire->header.kind == STP_WIRE_NOTICE) {
        wire->has_notice = true;
        wire->notice_status = (enum stp_status)wire->header.number;
        wire->notice.text[wire->header.size] = '\0';
    } else {
        stp_wire_end(wire, STP_WIRE_LEFT);
    }
}

/* Where the next bytes go, and how many of them there may be. */
static unsigned char *next_bytes(struct stp_wire *wire, size_t *size_ret)
{
    unsigned char *body;

    if (wire->n_received < HEADER) {
        *size_ret = HEADER - wire->n_received;
        return (unsigned char *)&wire->header + wire->n_received;
    }
    body = wire->header.kind == STP_WIRE_NOTICE
               ? (unsigned char *)wire->notice.text
               : wire->body;
    *size_ret = (size_t)wire->header.size + HEADER - wire->n_received;
    return body + (wire->n_received - HEADER);
}

static void take_bytes(struct stp_wire *wire, size_t n)
{
    wire->n_received += n;
    if (wire->n_received == HEADER && !may_begin(wire))
        stp_wire_end(wire, STP_WIRE_BROKEN);
    else if (wire->n_received >= HEADER &&
             wire->n_received - HEADER == wire->header.size)
        take_frame(wire);
}

static bool is_for_later(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS ||
           error == ENOMEM;
}

void stp_wire_receive(struct stp_wire *wire)
{
    while (wire->state == STP_WIRE_OPEN) {
        size_t size;
        unsigned char *bytes = next_bytes(wire, &size);
        ssize_t n = recv(wire->fd, bytes, size, MSG_DONTWAIT);

        if (n > 0)
            take_bytes(wire, (size_t)n);
        else if (n < 0 && is_for_later(errno))
            return;
        else if (n == 0 || errno != EINTR)
            stp_wire_end(wire, STP_WIRE_DEAD);
    }
}

/* ---- sending ---- */

bool stp_wire_begin(struct stp_wire *wire, enum stp_wire_kind kind,
                    uint32_t number, const void *body, size_t size)
{
    if (wire->sending && wire->n_sent > 0)
        return false;
    wire->out =
        (struct stp_wire_header){.kind = kind, .number = number, .size = size};
    wire->out_body = body;
    wire->n_sent = 0;
    wire->sending = true;
    return true;
}

static ssize_t send_some(struct stp_wire *wire)
{
    size_t n_header = wire->n_sent < HEADER ? HEADER - wire->n_sent : 0;
    size_t n_body = wire->n_sent - (HEADER - n_header);
    size_t n_left = (size_t)wire->out.size - n_body;
    struct iovec parts[] = {
        {(unsigned char *)&wire->out + (HEADER - n_header), n_header},
        {n_left > 0 ? (unsigned char *)wire->out_body + n_body : NULL, n_left},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

    return sendmsg(wire->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* What the other side said before it went comes first. */
static void cannot_send(struct stp_wire *wire)
{
    wire->sending = false;
    stp_wire_receive(wire);
    if (wire->state == STP_WIRE_OPEN)
        stp_wire_end(wire, STP_WIRE_DEAD);
}

bool stp_wire_flush(struct stp_wire *wire)
{
    while (wire->sending && wire->state == STP_WIRE_OPEN) {
        ssize_t n = send_some(wire);

        if (n >= 0)
            wire->n_sent += (size_t)n;
        else if (is_for_later(errno))
            return false;
        else if (errno != EINTR)
            cannot_send(wire);
        if (wire->n_sent == HEADER + wire->out.size)
            wire->sending = false;
    }
    return true;
}

bool stp_wire_is_stuck(const struct stp_wire *wire)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);

    if (wire->state != STP_WIRE_OPEN ||
        getsockopt(wire->fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return false;
    /* A second probe of a closed window: the first may be on its way. */
    return (info.tcpi_retransmits > 0 || info.tcpi_probes > 1) &&
           info.tcpi_last_ack_recv > STUCK_MS;
}
