/*
 * simulate_story.h - the arms that the calls of one kind of message ran in
 * turn: how long a learner searched, and the arm it settled on
 */
#ifndef STP_SIMULATE_STORY_H
#define STP_SIMULATE_STORY_H

#include <stdbool.h>
#include <stddef.h>

#include "mock_job.h"

enum {
    STP_STORY_QUIET = 50, /* calls without a change, between two searches */
};

/* Begins with zeros. */
struct stp_learn_story {
    size_t n_calls;
    size_t n_trials;       /* changes of the arm, but for those back */
    size_t searched_from;  /* calls at the first change; 0: there was none */
    struct mock_run final; /* of most of those at the end */

    struct mock_run last;
    struct mock_run before; /* the arm before the last change */
    size_t changed;         /* calls at the last change */
    bool is_away;           /* it may go back */
    size_t votes;

    /* Changes without STP_STORY_QUIET calls between them. */
    struct mock_run base; /* the arm before them */
    struct mock_run other;
    bool is_single;        /* no third arm ran */
    bool is_first;         /* there were none before them */
    size_t settled_before; /* the last change before them that counts */
    bool was_single;       /* those before them, which went back, */
    struct mock_run tried; /* of this arm */
};

/* A call ran 'run'.  'is_end' says that it counts for the final arm. */
void stp_learn_story_call(struct stp_learn_story *story,
                          const struct mock_run *run, bool is_end);

/* Calls at the last change, but for re-tests: after STP_STORY_QUIET calls one
 * other arm takes turns with the one that ran, which then goes on.  Who
 * then tries a third arm so, searches.  0: it never changed. */
size_t stp_learn_story_settled(const struct stp_learn_story *story);

/* Whether the arm still changed in the last fifth of the calls, other than by
 * re-tests. */
bool stp_learn_story_is_trying(const struct stp_learn_story *story);

#endif /* STP_SIMULATE_STORY_H */
