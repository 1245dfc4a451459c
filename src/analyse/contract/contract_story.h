/*
 * contract_story.h - how the ranks of a communicator differ, and what becomes
 * of them
 *
 * NCCL compares nothing between ranks: it hangs or corrupts data if they
 * differ.  So whatever ranks can see differently is made to differ, on purpose
 * rather than by chance: schedule, layout, regBuff, clock, environment, files,
 * and who still lives.
 */
#ifndef STP_CONTRACT_STORY_H
#define STP_CONTRACT_STORY_H

#include "analyse/contract/contract_suite.h"
#include "mock_ranks.h"

enum {
    STP_STORY_GROUPS = 10,
    STP_STORY_STEPS = STP_N_QUESTIONS + STP_STORY_GROUPS,
    STP_STORY_SEEDS = 4, /* of checks that do more than change the schedule: one
                            of each kind that mock_ranks_play() has */
};

#define STP_SECOND ((int64_t)1000000000) /* in ns */
#define STP_HOUR   (3600 * STP_SECOND)

/* How a communicator is made and played. */
struct stp_story {
    struct stp_contract_run *run;
    const char *title; /* for messages, e.g. "processes" */
    enum mock_layout layout;
    bool init_at_once;
    bool play_at_once;
    void (*before_init)(void *story, int rank);
    void (*before_step)(void *story, int rank, size_t step);
    void (*vary)(void *story, int rank, size_t step, struct mock_call *call);
    const struct mock_death *death;
    bool then_another; /* communicator, with nobody dead in it */

    const struct mock_machine *machine;
    const char *ours, *theirs; /* files */
    int odd_one;               /* the rank that finds 'theirs' */
    uint64_t seed;
};

/* The machine asked for, or if that has one rank, for which NCCL asks no tuner,
 * another. */
const struct mock_machine *
stp_story_machine(const struct stp_contract_run *run);

/* All of these return false (or NULL) after failing the check. */

/* Makes the communicator. */
struct mock_ranks *stp_story_open(struct stp_story *story,
                                  struct mock_nccl *nccl);

/* Plays a script of all questions, and of groups, on it. */
bool stp_story_play(struct stp_story *story, struct mock_ranks *ranks,
                    uint64_t seed, const struct mock_death *death);

/* The failure that is in mock_last_error(), after 'what'. */
bool stp_story_blame(struct stp_story *story, const char *what);

/* The whole life of a communicator, as often as there are seeds.  'story' needs
 * no 'run', 'machine' and 'seed'. */
bool stp_story_tell(struct stp_contract_run *run, struct stp_story story,
                    unsigned n_seeds);

/* Some, until one fails. */
bool stp_story_tell_all(struct stp_contract_run *run,
                        const struct stp_story *stories, size_t n,
                        unsigned n_seeds);
#define STP_TELL_ALL(run, stories)                                             \
    stp_story_tell_all(run, stories, sizeof(stories) / sizeof((stories)[0]),   \
                       STP_STORY_SEEDS)

void stp_story_pause(long ms);

#endif /* STP_CONTRACT_STORY_H */
