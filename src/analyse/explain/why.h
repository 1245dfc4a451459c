/* why.h - why one message runs as it does, with a tuner plugin and without */
#pragma once

#include "analyse/explain/overrides.h"
#include "bench/measurement.h"

/* The pair that runs, and its time. */
struct stp_why_run {
    struct stp_pick pick;
    int asked_channels; /* by the plugin; 0: NCCL's own count */
    int limit; /* NCCL's own count, if it takes no more from the plugin, which
                  asks for more; 0 if not */
    int n_channels;      /* that it runs on */
    double predicted_us; /* by NCCL's model, which knows no channel counts; NAN
                            for what NCCL rules out */
    double us;           /* recorded; NAN if nobody has */
    enum stp_source source; /* of 'us', MODELLED if nobody has */
    bool single_pass;       /* likewise */
};

/* A variable that is set here; the first may be all together. */
struct stp_override {
    char name[64];     /* "": all together */
    const char *value; /* as it was given */
    enum stp_override_kind kind;
    struct stp_pick pick; /* what runs; of RUNS */
    int n_channels;
    char text[STP_ERROR_TEXT]; /* FAILS: why. UNPLAYED: what NCCL does */
};

enum { STP_MAX_OVERRIDES = 32 };

/* A run with buffers or variables other than the message's. */
struct stp_why_case {
    const char *where;    /* static, e.g. "in windows" */
    const char *kernel;   /* static; NULL: the pair below */
    struct stp_pick pick; /* -1: nothing, NCCL fails */
};

enum { STP_MAX_WHY_CASES = 4 };

struct stp_why {
    struct mock_machine_info machine;
    char nccl[16]; /* version that chooses */
    int coll;
    uint64_t n_bytes;
    mock_table cost;       /* NCCL's model, us; below 0 ruled out */
    mock_table cost_after; /* as the plugin leaves it */
    struct stp_why_run alone;
    struct stp_why_run tuned;
    struct stp_why_run set; /* under all variables that are set */
    bool has_set;           /* which run something else than 'tuned' */
    /* what NCCL compares if both buffers are in symmetric windows, and what
     * runs; all empty where nothing can run but pairs */
    struct mock_symmetric_kernel kernels[MOCK_MAX_SYMMETRIC];
    size_t n_kernels;
    struct mock_copy copies[MOCK_MAX_COPIES];
    size_t n_copies;
    struct stp_why_case cases[STP_MAX_WHY_CASES];
    size_t n_cases;
    enum stp_decider decider;
    unsigned line; /* of the rule */
    struct stp_override overrides[STP_MAX_OVERRIDES];
    size_t n_overrides;
};

/* Asks the plugin, or NCCL alone, about one collective (options->coll) of
 * 'n_bytes', as a tuner counts them.  The variables that are set are played all
 * together and each alone; their values stay the caller's.
 *
 * STP_ERR_DEVICE if the plugin cannot be loaded or fails the collective;
 * *why_ret is untouched then. */
enum stp_status stp_ask_why(const struct stp_explain_options *options,
                            uint64_t n_bytes, struct stp_why *why_ret,
                            struct stp_error *err);
