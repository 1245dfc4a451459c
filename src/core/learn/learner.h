/* learner.h - from the calls and times of a running job to the arm to try next
 *
 * The objective is the source of times:
 *
 *   gpu    when calls began on the GPU, by the profiler: the time of windows of
 *          equal work, which is that of the training step (windows.h)
 *   file   of the application's file, which belong to the arm in force
 *
 * By GPU times, the learner first finds the sequence that the job's calls
 * repeat (history.h), then times all calls for a while to choose the length of
 * windows, then tries arms.  It returns to the first when the job's calls
 * change.
 *
 * All ranks must agree to what the learner proposes; a note says when it is in
 * force, and others bring times (ring.h).  The host may be far ahead of the
 * GPU: notes of times arrive late, but in the order of calls.
 *
 * By a schedule (schedule.h) the learner proposes nothing: notes say which
 * sequence was found and which trials begin.  It times some calls, takes the
 * blocks, and decides in the end what is in force from the next run on.
 *
 * Pure: no clock, no environment, no I/O.  One thread at a time. */
#pragma once

#include "core/learn/bandit.h"
#include "core/learn/evidence.h"
#include "core/learn/history.h"
#include "core/learn/proposal.h"
#include "core/learn/ring.h"

/* The values of STEPTUNE_OBJECTIVE. */
enum stp_learn_objective {
    STP_LEARN_AUTO, /* gpu, to a learner */
    STP_LEARN_GPU,
    STP_LEARN_FILE,
    STP_N_LEARN_OBJECTIVES,
};
const char *stp_learn_objective_name(enum stp_learn_objective objective);
int stp_learn_objective_from_name(const char *word, size_t len); /* -1 */

struct stp_learner_rules {
    struct stp_bandit_rules bandit; /* HALVING with gpu, EPSILON with file */
    enum stp_learn_objective objective;
    bool same_bits; /* nothing is tried for collectives that reduce */
};

/* Events, for logs and journals. */
enum stp_learn_kind {
    STP_LEARN_MESSAGE,   /* the first call of the key */
    STP_LEARN_WINDOW,    /* windows have 'value' calls */
    STP_LEARN_TRIAL,     /* an arm is tried, for 'value' calls */
    STP_LEARN_BLOCK,     /* a window with the arm took 'value' us; its gain */
    STP_LEARN_INCUMBENT, /* the arm is in force */
    STP_LEARN_REWARD,    /* 'value', the file's ms */
    STP_LEARN_SETTLED,   /* with the arm; gain over NCCL's own choice */
    STP_LEARN_ALONE,     /* 'value' calls, and no sequence in them */
    STP_LEARN_SET,       /* a window with all incumbents took 'value' us; their
                            gain over NCCL's own choice, in one block; 0: the
                            block has other calls */
    STP_LEARN_CONFIRMED, /* that gain, in 'value' blocks */
    STP_LEARN_DROPPED,   /* likewise; the newest of them is out for good */
    STP_LEARN_STEP,      /* a sequence of calls takes 'value' us, and without
                            its collectives at most 'gain' times as fast */
    STP_LEARN_BUSY,      /* those of the key take 'value' us of it */
    STP_LEARN_HOST,      /* the GPU began this share of them, 'value', as soon
                            as the host had launched them */
    STP_LEARN_BOUND,     /* of the arms tried, 'value' in number, this one may
                            gain most: not more than gain_high (95 percent) */
    STP_LEARN_UNTRIED,   /* 'value' arms of the key are to be tried yet */
    STP_LEARN_PLAN,      /* a schedule lasts 'value' us at the pace that was
                            measured; while it tries arms, steps are expected
                            to be 'gain' times as fast, by NCCL's cost table */
    STP_LEARN_GRAPHS,    /* collectives are captured into CUDA graphs; of the
                            plugin */
    STP_N_LEARN_KINDS,
};
const char *stp_learn_kind_name(enum stp_learn_kind kind);

struct stp_learn_event {
    enum stp_learn_kind kind;
    uint64_t call; /* number of calls before */
    int key;       /* -1: of no key */
    unsigned arm;
    double value;
    double gain; /* 0 for events without */
    double gain_low;
    double gain_high;
};

typedef void (*stp_learn_sink)(void *user, const struct stp_learn_event *event);

struct stp_learner; /* opaque */

/* 'history' holds the calls, and lives as long; NULL: no call is counted,
 * EPSILON draws once. 'sink' receives events within the functions below; NULL:
 * events are dropped. */
enum stp_status stp_learner_open(const struct stp_learner_rules *rules,
                                 const struct stp_history *history,
                                 stp_learn_sink sink, void *user,
                                 struct stp_learner **learner_ret,
                                 struct stp_error *err);
void stp_learner_close(struct stp_learner *learner); /* NULL is allowed */

/* A new key, before its first note; as stp_bandit_add_key(). */
void stp_learner_add_key(struct stp_learner *learner, unsigned key,
                         const struct stp_cost_view *view,
                         unsigned max_channels);

/* Takes a note.  One of a key that was not added only counts as a time. */
void stp_learner_note(struct stp_learner *learner, const struct stp_note *note);

/* Takes a time for the key that the application wrote. */
void stp_learner_reward(struct stp_learner *learner, unsigned key, double ms);

/* Digests what was noted, and returns what to propose next, if it may: nothing
 * until the last proposal was taken.  A trial may follow another one whose
 * times have not arrived. */
bool stp_learner_wants(struct stp_learner *learner, bool may_propose,
                       struct stp_proposal *proposal_ret);

/* Tells the learner that its last proposal was refused for good. */
void stp_learner_refuse(struct stp_learner *learner);

/* Whether all calls are to be timed, or only those that begin windows. The
 * first calls are timed, too, which tells whether the profiler works. */
bool stp_learner_is_sampling(const struct stp_learner *learner);

/* Takes what is measured so far for all that there will be of a schedule, and
 * reports its verdicts. */
void stp_learner_conclude(struct stp_learner *learner);

/* The bandit, for results; and before a key's first note for what earlier runs
 * know of its arms, or for those that a schedule does not try. */
struct stp_bandit *stp_learner_bandit(const struct stp_learner *learner);
