/* learning.h - the arms that a job learned, from its journal */
#pragma once

#include <stdio.h>

#include "report/learning/journal.h"

struct cJSON;
struct stp_table; /* report/table.h */

/* Blocks of windows in which arms were compared with what ran before. */
struct stp_learning_blocks {
    size_t n;
    double log_gain; /* their mean */
    double log_ss;   /* sum of squares about that */
};

/* Adds blocks to others of the same arm. */
void stp_learning_pool(const struct stp_learning_blocks *blocks,
                       struct stp_learning_blocks *sum);

struct stp_learning_arm {
    struct stp_bandit_arm arm;
    uint64_t n;                        /* times */
    double mean;                       /* of a window, or of a reward */
    struct stp_learning_blocks blocks; /* in which it was compared, without
                                          those that stalls have hit */
};

/* A kind of message on communicators of one shape. */
struct stp_learning_key {
    uint64_t n_nodes;
    uint64_t n_ranks;
    int coll;
    struct stp_range bytes;
    uint64_t n_times;
    uint64_t n_trials;
    bool is_settled;
    struct stp_bandit_arm with; /* if so, or what is in force until then */
    struct stp_gain gain;       /* of a step, or of rewards; 0: none */
    double busy;      /* share of the time in its collectives; -1: not known */
    size_t n_tried;   /* arms; 0: 'bound' is not known */
    size_t n_untried; /* arms that were to be tried yet */
    struct stp_gain bound; /* of the arm that may gain most; 0: none */
    struct stp_learning_arm arms[STP_BANDIT_ARMS];
    size_t n_arms;
};

/* The arms in force on one communicator, together. */
struct stp_learning_set {
    uint64_t comm;
    uint64_t n_nodes;
    uint64_t n_ranks;
    double step_us;   /* of a sequence of calls */
    double step_gain; /* without its collectives, at most; 0: not known */
    double at_once;   /* share of launches that the GPU began at once */
    bool has_plan;    /* of a schedule */
    double plan_us;   /* that it lasts, as it was said before */
    double plan_gain; /* of steps meanwhile: modelled */
    double begin_us;  /* of its first trial, and the last block; by the clock */
    double end_us;
    double lost_us;                    /* by its trials, measured */
    double base_us;                    /* of the block being read */
    double window_us;                  /* mean time of one with these arms */
    struct stp_learning_blocks blocks; /* without those that stalls have hit */
    double *log_gains;                 /* of all of them */
    size_t n_log_gains, log_gains_capacity;
    size_t n_broken; /* blocks that have other calls, as of an evaluation */
    bool is_dropped; /* they were slower, so the newest was */
    size_t n_arms;
    struct {
        int coll;
        struct stp_range bytes;
        struct stp_bandit_arm arm;
    } arms[STP_BANDIT_KEYS];    /* the newest last */
    struct stp_bandit_arm base; /* of the block being read */
};

struct stp_learning {
    struct stp_learning_key *keys; /* by shape, collective and bytes */
    size_t n;
    struct stp_learning_set *sets; /* in the order of the journal */
    size_t n_sets, sets_capacity;
    uint64_t n_blocks; /* of windows that were compared */
    double trials_us;  /* from when the first began */
    uint64_t n_alone;  /* calls that repeat no sequence, at most; 0: they do */
    bool has_graphs;   /* collectives were captured into CUDA graphs */
};

/* Sums up the lines, to be freed with stp_learning_free(). */
void stp_learning_sum(const struct stp_journal_lines *lines,
                      struct stp_learning *learning_ret);
void stp_learning_free(struct stp_learning *learning);

/* The number of the arm among the key's; n_arms if it is none of them. */
size_t stp_learning_find_arm(const struct stp_learning_key *key,
                             const struct stp_bandit_arm *arm);

/* Settings of the job that are not in its journal. */
struct stp_learning_setting {
    const char *strategy;
    const char *objective;
    const char *policy; /* the learned policy's file; NULL: not written */
    const char *base;   /* the policy that served where nothing was learned, as
                           a file; NULL: there was none */
};

/* The gain that blocks tell, with its 95 percent interval; 0 below two. */
struct stp_gain stp_learning_gain_of(const struct stp_learning_blocks *blocks);

/* Adds a gain: "-" and null for none, in text also without an interval. */
void stp_put_learning_gain(const struct stp_gain *gain, const char *key,
                           const char *heading, struct stp_table *table);

/* Prints a line on the whole, one for each set that was compared and, if there
 * is one, a row for each key. */
void stp_print_learning(const struct stp_learning *learning,
                        const struct stp_learning_setting *setting, FILE *fp);

/* Prints a sentence on what the schedule of each kind of communicator is
 * expected to cost, and, once there are blocks, what it did. */
void stp_print_plans(const struct stp_learning *learning, FILE *fp);

/* Prints the rows alone: nothing without any. */
void stp_print_learned_keys(const struct stp_learning *learning,
                            const char *base, FILE *fp);

/* Adds an array "messages" of them to 'root'. */
void stp_json_learned_keys(struct cJSON *root,
                           const struct stp_learning *learning);

/* Adds an object "learning" to 'root'. */
void stp_json_learning(struct cJSON *root, const struct stp_learning *learning,
                       const struct stp_learning_setting *setting);

/* The share of the job's time by which it could be shorter at most (95 percent)
 * by arms of all keys together, beside those that have won: 0.01 is 1 percent.
 * The time in collectives bounds it before anything is tried, and the arms'
 * intervals once they were.  NaN: not known. */
double stp_bounds_of_all(const struct stp_learning *learning);

/* Whether that is above 1 percent, and measuring on may change it: kinds of
 * message without an arm to try, such as sums that keep their bits, stay as
 * they are. */
bool stp_bounds_may_narrow(const struct stp_learning *learning);

/* Whether all that has won on a communicator was compared together, or cannot
 * be: a schedule has no trial of that, and other calls may come between. */
bool stp_bounds_are_confirmed(const struct stp_learning *learning);

/* Prints sentences: what collectives take, and whether the host bounds the
 * job. */
void stp_print_headroom(const struct stp_learning *learning, FILE *fp);
