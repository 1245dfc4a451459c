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
    /* How many there had been at the first change; at the last one, but for
     * re-tests: what was quiet for STP_STORY_QUIET calls runs something else
     * for STP_STORY_RETEST at most, and then the same again.  0: never. */
    size_t searched_from;
    size_t settled;
    struct mock_run final; /* of most of those at the end */

    struct mock_run last;
    struct mock_run before; /* the arm before the last change */
    size_t changed;         /* at the last change */
    size_t settled_before;  /* 'settled', should it be a re-test */
    bool was_quiet;         /* before it */
    size_t votes;
};

/* A call ran 'run'.  'has_time' says that a change now would still count (that
 * a re-test ends always does), and 'is_end' that the call counts for the final
 * arm. */
void stp_learn_story_call(struct stp_learn_story *story,
                          const struct mock_run *run, bool has_time,
                          bool is_end);

#endif /* STP_SIMULATE_STORY_H */
