/*
 * store_world.h - a world whose processes meet through a key-value store
 *
 * Rank 0 has the server, the others have one connection to it.  In an exchange
 * rank r sets the key x/R, and rank 0 answers its GET of next/R with all
 * values. Each rank sends that GET one exchange ahead, so that it also learns
 * of a failure while it does not exchange.
 *
 * A process is dead when its connection closes before it set left/R, or when
 * its host no longer answers; rank 0 then tells the others which, and every
 * call in this world and in its parts fails with that one sentence from then
 * on.  A process that is stopped or busy is not dead.  Each rank gives a sign
 * of life by the key sign/R while it asks whether the others are alive, so that
 * rank 0 can name a rank that is stopped, or on a host that is too slow.
 *
 * A part uses the connections of its world.  The death of a process outside the
 * part fails the part, too, and processes outside learn of deaths in it while
 * they wait in the next exchange of the larger world.
 */
#ifndef STP_STORE_WORLD_H
#define STP_STORE_WORLD_H

#include <stdint.h>

#include "launch/world.h"

/* A rank asks to join with COMPARE_SET of STP_JOIN_KEY to this ... */
#define STP_JOIN_KEY   "join"
#define STP_JOIN_MAGIC "steptune"

enum { STP_JOIN_VERSION = 2 };

struct stp_join {
    char magic[8];
    uint32_t version;
    uint32_t size; /* of the world */
    uint32_t rank;
};

/* ... and gets this as the value. */
struct stp_join_answer {
    char magic[8];
    uint32_t is_refused;
    char why[STP_ERROR_TEXT]; /* if it is */
};

/* A value of x/R: this and the bytes of the rank.  Of next/R: this and the
 * bytes of all, or the sentence of a failure. */
struct stp_exchange {
    uint32_t n;      /* processes that take part */
    uint32_t status; /* enum stp_status, or STP_EXCHANGE_LEFT */
};

enum { STP_EXCHANGE_LEFT = 1000 /* rank 0 left regularly */ };

struct stp_store_options {
    const char *name;    /* of the world.  Static. */
    unsigned rank, size; /* 1 to STP_MAX_PROCESSES */
    unsigned local_rank;
    unsigned local_size; /* 0: as many as have the same host name */
    const char *token;   /* of the run */

    /* Connected stream sockets, or NULL.  Rank 0: 'size' of them, [r] to rank
     * r, [0] unused; the others: one, to rank 0, on which the GET of next/R
     * counts as sent. */
    const int *fds;

    /* Without 'fds' rank 0 awaits the others here. */
    int listener;
    unsigned port; /* of it, for messages */
    unsigned limit_ms;

    /* Rank 0 passes a sentence on each rank that is missed: that did not come,
     * or gave no sign of life, for so long.  NULL: nobody is told. */
    void (*warn)(const char *text);
    unsigned silent_ms; /* 0: STP_SILENT_MS */
};

enum { STP_SILENT_MS = 8000 };

/*
 * Makes the world; all of it call this, and it returns once all are there.
 * *world_ret is untouched on failure: STP_ERR_NOMEM, or STP_ERR_DEVICE if a
 * process died or did not come.  The sockets are closed with the world, or if
 * this fails.
 *
 * exchange() fails with STP_ERR_RANGE if sizes differ or processes exchange in
 * different parts, with STP_ERR_LIMIT above STP_STORE_MAX_VALUE, with
 * STP_ERR_DEVICE if a process died, or left while others wait for it.  Calls in
 * one process must not overlap.  A process that ends without close() counts as
 * dead.
 */
enum stp_status stp_store_world_open(const struct stp_store_options *options,
                                     struct stp_world *world_ret,
                                     struct stp_error *err);

/* The key next/R of a rank. */
enum { STP_KEY_TEXT = 24 };
const char *stp_next_key(unsigned rank, char text[STP_KEY_TEXT]);

/* Raises the limit of open files of this process and its children to the number
 * that rank 0 of 'size' ranks needs, as far as the system allows. */
void stp_store_allow(unsigned size);

#endif /* STP_STORE_WORLD_H */
