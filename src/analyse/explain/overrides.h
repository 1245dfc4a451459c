/* overrides.h - what the variables that are set do to a choice */
#pragma once

#include "analyse/explain/explain.h"
#include "analyse/explain/variables.h"

/* The effect of a variable. */
enum stp_override_kind {
    STP_OVERRIDE_NOTHING,  /* the same runs as without it */
    STP_OVERRIDE_RUNS,     /* something else runs */
    STP_OVERRIDE_FAILS,    /* NCCL fails */
    STP_OVERRIDE_UNPLAYED, /* mock NCCL does not play it */
    STP_OVERRIDE_MACHINE,  /* NCCL searches other graphs, as of another machine
                            */
};

/* Sets in *options what this 'value' does in NCCL 'nccl'; RUNS if mock NCCL is
 * to be asked, and UNPLAYED or MACHINE where it cannot tell. */
enum stp_override_kind stp_override_play(const struct stp_variable *v,
                                         const char *value, const char *nccl,
                                         struct mock_nccl_options *options);

/* Sets all that options->variable has, or the only one; returns how many mock
 * NCCL is asked about. */
size_t stp_overrides_play(const struct stp_explain_options *options,
                          const char *nccl,
                          struct mock_nccl_options *options_ret);
