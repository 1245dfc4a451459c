/* star.h - a world whose processes each have a connection to rank 0
 *
 * In an exchange a rank gives rank 0 its bytes, and rank 0 answers with those
 * of all.  Nothing else is asked, so that rank 0 can send the end of the run at
 * any time, and a rank learns of a failure while it does not exchange.
 *
 * A process is dead when its connection closes before it said that it leaves,
 * or when its host no longer answers; rank 0 then tells the others which, and
 * every call in this world and in its parts fails with that one sentence from
 * then on. A process that is stopped or busy is not dead.  Each rank gives a
 * sign of life while it asks whether the others are alive, so that rank 0 can
 * name a rank that is stopped, or on a host that is too slow.
 *
 * A part uses the connections of its world.  The death of a process outside the
 * part fails the part, too, and processes outside learn of deaths in it while
 * they wait in the next exchange of the larger world.
 *
 * Who connects to rank 0 is a stranger until it has named the token of the run:
 * it has a few seconds for that, and no more bytes than a hello has.  There are
 * at most 128 strangers: the oldest makes room. */
#pragma once

#include <stdint.h>

#include "launch/world.h"

#define STP_STAR_MAGIC "steptune"
enum { STP_STAR_VERSION = 3, STP_STAR_TOKEN = 96 };

/* The introduction of a process to rank 0. */
struct stp_star_hello {
    char magic[8];
    uint32_t version;
    uint32_t size; /* of the world */
    uint32_t rank;
    char token[STP_STAR_TOKEN]; /* zeros behind its end */
};

/* ... and what it is answered. */
struct stp_star_answer {
    char magic[8];
    uint32_t is_refused;
    char why[STP_ERROR_TEXT]; /* if it is */
};

/* All else are frames: this, in the host's byte order, and 'size' bytes. */
enum stp_star_kind {
    STP_STAR_GIVE = 0x57a70001, /* to rank 0: of an exchange among 'n' */
    STP_STAR_SIGN,              /* to rank 0: of life */
    STP_STAR_LEAVE,             /* to rank 0: this process ends regularly */
    STP_STAR_ALL,               /* from rank 0: what all 'n' gave */
    STP_STAR_END,               /* from rank 0: a sentence; 'n' is its enum
                                   stp_status, or STP_STAR_LEFT */
};
enum { STP_STAR_LEFT = 1000 /* rank 0 left regularly */ };
enum { STP_STAR_MAX_BYTES = 64 << 20 /* of a rank, in an exchange */ };

struct stp_star_frame {
    uint32_t kind; /* enum stp_star_kind */
    uint32_t n;
    uint64_t size;
};

struct stp_star_options {
    const char *name;    /* of the world.  Static. */
    unsigned rank, size; /* 1 to STP_MAX_PROCESSES */
    unsigned local_rank;
    unsigned local_size; /* 0: as many as have the same host name */

    /* Connected stream sockets, or NULL.  Rank 0: 'size' of them, [r] to rank
     * r, [0] unused; the others: one, to rank 0. */
    const int *fds;

    /* Without 'fds' rank 0 awaits the others at this non-blocking socket. */
    int listener;
    unsigned port;     /* of it, for messages */
    const char *token; /* of the run; outlives the call */
    unsigned limit_ms;

    /* Rank 0 passes a sentence on each rank that is missed: that did not come,
     * or gave no sign of life, for so long.  NULL: nobody is told. */
    void (*warn)(const char *text);
    unsigned silent_ms; /* 0: STP_SILENT_MS */
};

enum { STP_SILENT_MS = 8000 };

/* Makes the world; all of it call this, and it returns once all are there.
 * *world_ret is untouched on failure: STP_ERR_NOMEM, or STP_ERR_DEVICE if a
 * process died or did not come.  The sockets are closed with the world, or if
 * this fails.
 *
 * exchange() fails with STP_ERR_RANGE if sizes differ or processes exchange in
 * different parts, with STP_ERR_LIMIT above STP_STAR_MAX_BYTES, with
 * STP_ERR_DEVICE if a process died, or left while others wait for it.  Calls in
 * one process must not overlap.  A process that ends without close() counts as
 * dead. */
enum stp_status stp_star_open(const struct stp_star_options *options,
                              struct stp_world *world_ret,
                              struct stp_error *err);

/* Raises the limit of open files of this process and its children to the number
 * that rank 0 of 'size' ranks needs, as far as the system allows. */
void stp_star_allow(unsigned size);
