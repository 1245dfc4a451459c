/* explain.h - what a tuner decides, size by size, beside NCCL's choice */
#pragma once

#include "core/policy/policy.h"
#include "core/status.h"
#include "mock_nccl.h"

enum stp_decider {
    STP_DECIDER_NCCL,   /* table and channels were left as NCCL made them */
    STP_DECIDER_RULE,   /* the plugin did what a line of the policy says */
    STP_DECIDER_BELOW,  /* the tuner below the plugin did, by no known line */
    STP_DECIDER_PLUGIN, /* the plugin changed something, by no known line */
};

struct stp_pick {
    int algo;
    int proto;
};

bool stp_pick_equal(struct stp_pick a, struct stp_pick b);

/* Sizes from 'min_bytes' to 'max_bytes', at all of which the same happened that
 * were asked. */
struct stp_explained {
    int coll;
    uint64_t min_bytes;
    uint64_t max_bytes;
    struct stp_pick auto_pick; /* NCCL alone */
    struct stp_pick pick;      /* NCCL with the plugin, under the variables */
    int asked_channels;        /* by the plugin; 0: NCCL's own count */
    int min_channels;          /* the fewest that run at a size asked */
    int max_channels;
    enum stp_decider decider;
    unsigned line; /* of the rule */
};

struct stp_explanation {
    struct stp_explained *ranges; /* by collective, then ascending */
    size_t n_ranges;
    size_t capacity;
    size_t n_sizes; /* that were asked of the last collective, and of others but
                       for range ends of the policy; not those of bisection */
};

struct stp_explain_options {
    const char *machine_path; /* as mock_machine_load() takes it */
    const char *plugin;       /* as NCCL_TUNER_PLUGIN; NULL: none */
    bool is_over;             /* it asks another tuner first (STEPTUNE_CHAIN) */
    const char *nccl; /* version that chooses; NULL: the machine's own */
    /* Reads the variables under which it chooses, as getenv() does, also where
     * there is no plugin; NULL: none is set. */
    char *(*variable)(const char *name);
    const char *only; /* "NAME=", of the variable that counts; NULL: of all */
    const struct stp_policy
        *policy;        /* that the plugin reads; NULL if unknown */
    int coll;           /* ncclFunc_t, or -1 for every one */
    uint64_t max_bytes; /* how far to look */
    bool is_one;        /* at max_bytes alone */
};

/* Asks the plugin through mock NCCL, about every collective from one element a
 * rank (bf16) up to max_bytes, at the sizes of probes.h, their neighbours and
 * the range ends of the policy, and finds the switch points between two of them
 * by bisection.  What it does between two that agree is not known.
 *
 * STP_ERR_DEVICE if the plugin cannot be loaded or fails a collective; *out_ret
 * is untouched then.  Free with stp_explanation_free(). */
enum stp_status stp_explain(const struct stp_explain_options *options,
                            struct stp_explanation *out_ret,
                            struct stp_error *err);

void stp_explanation_free(struct stp_explanation *explanation);
