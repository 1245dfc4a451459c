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
    STP_STORY_QUIET = 50,  /* calls without a change, before a re-test */
    STP_STORY_RETEST = 16, /* calls of a re-test at most */
};

/* Begins with zeros. */
struct stp_learn_story {
    size_t n_calls;
    size_t n_trials; /* changes of the arm, but for those back */
    /* How many calls there had been at the first change; at the last one, but
     * for re-tests: what was quiet for STP_STORY_QUIET calls runs something
     * else for STP_STORY_RETEST at most, and then the same again.  Who then
     * tries a third arm so, searches.  0: never. */
    size_t searched_from;
    size_t settled;
    struct mock_run final; /* of most of those at the end */

    struct mock_run last;
    struct mock_run before;   /* the arm before the last change */
    size_t changed;           /* at the last change */
    bool is_away;             /* it may go back */
    size_t settled_before;    /* 'settled', should it be a re-test */
    bool was_quiet;           /* before it */
    struct mock_run retested; /* the arm of the last re-test */
    size_t retest_end;        /* 0: there was none */
    size_t votes;
};

/* A call ran 'run'.  'is_end' says that it counts for the final arm. */
void stp_learn_story_call(struct stp_learn_story *story,
                          const struct mock_run *run, bool is_end);

/* Whether the arm still changed in the last fifth of the calls, other than by
 * re-tests. */
bool stp_learn_story_is_trying(const struct stp_learn_story *story);

#endif /* STP_SIMULATE_STORY_H */
