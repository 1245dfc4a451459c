/*
 * wire.h - frames over a connected stream socket, without ever blocking
 *
 * A frame is a header and a body.  Numbers are as this host has them: whoever
 * connects hosts makes sure that they agree.  A side sends its next DATA frame
 * only after the answer to its last one, so that one is all that has to be
 * kept.
 */
#ifndef STP_WIRE_H
#define STP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum stp_wire_kind {
    STP_WIRE_DATA = 1, /* 'number': processes that take part */
    STP_WIRE_NOTICE,   /* the run failed; the body says why, 'number' is the
                          enum stp_status */
    STP_WIRE_BYE,      /* this side leaves regularly */
};

struct stp_wire_header {
    uint32_t kind; /* enum stp_wire_kind */
    uint32_t number;
    uint64_t size; /* bytes of the body */
};

enum stp_wire_state {
    STP_WIRE_OPEN,
    STP_WIRE_LEFT,   /* the other side said goodbye */
    STP_WIRE_DEAD,   /* it closed without, or its host does not answer */
    STP_WIRE_BROKEN, /* it sent what is no frame, or more than memory holds */
};

/* One end.  Others read what is above the line. */
struct stp_wire {
    int fd; /* -1 unless open */
    enum stp_wire_state state;
    bool has_data;               /* a whole DATA frame is waiting */
    struct stp_wire_header data; /* its header */
    unsigned char *body;
    bool has_notice;
    struct stp_error notice;
    enum stp_status notice_status;
    /* ---- */
    size_t capacity;               /* bytes at 'body' */
    struct stp_wire_header header; /* of the frame that is coming */
    size_t n_received;             /* bytes of it, header included */
    struct stp_wire_header out;    /* of the frame that is being sent */
    const void *out_body;
    size_t n_sent;
    bool sending;
};

/* Takes over the connected socket 'fd', and has TCP find out within 10 seconds
 * when the host at the other end is gone. */
void stp_wire_open(struct stp_wire *wire, int fd);

/* Reads what there is.  Changes the state, 'has_data' and 'has_notice'. */
void stp_wire_receive(struct stp_wire *wire);

/*
 * Begins a frame; one before it that is not on its way yet is dropped.  False,
 * and nothing changed, while one is.  'body' must stay until it is sent.
 */
bool stp_wire_begin(struct stp_wire *wire, enum stp_wire_kind kind,
                    uint32_t number, const void *body, size_t size);

/* Sends what goes.  True when nothing is left to send; so it is if the other
 * side is gone, which then is its state. */
bool stp_wire_flush(struct stp_wire *wire);

/* Whether the other host has not confirmed for 8 seconds what was sent to it.
 * Never of sockets within a host. */
bool stp_wire_is_stuck(const struct stp_wire *wire);

/* Closes the socket; the state is 'state' from now on, and a DATA frame that is
 * waiting stays. */
void stp_wire_end(struct stp_wire *wire, enum stp_wire_state state);

/* Closes it and frees what it holds. */
void stp_wire_close(struct stp_wire *wire);

#endif /* STP_WIRE_H */
