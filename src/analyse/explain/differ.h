/* differ.h - where two tuner plugins, or two policies, decide differently */
#pragma once

#include "analyse/explain/explain.h"
#include "bench/measurement.h"

/* The decision of one of the two in a range. */
struct stp_differing {
    struct stp_pick pick;
    int asked_channels; /* 0: NCCL's own count */
    int tuned_channels; /* of that, as struct mock_run has them */
    double us;          /* recorded at at_bytes; NAN if nobody has */
};

/* Sizes at all of which, as far as they were asked, the two do two different
 * things. */
struct stp_difference {
    int coll;
    uint64_t min_bytes;
    uint64_t max_bytes;
    struct stp_differing first;
    struct stp_differing second;
    uint64_t at_bytes;      /* a recorded size in the range, or its middle */
    bool single_pass;       /* of some of the two times */
    enum stp_source source; /* the worse of the two times'; MODELLED if one of
                               them is not recorded */
};

struct stp_differences {
    struct stp_difference *ranges; /* by collective, then ascending */
    size_t n_ranges;
    size_t n_sizes; /* asked of each collective, of the first of the two */
};

/* Compares two explanations of the same collectives and sizes on the machine at
 * 'machine_path', which has the times.  Two decisions are the same if
 * algorithm, protocol and the channels asked for are, whichever line or plugin
 * they come from.
 *
 * STP_ERR_DEVICE if the machine cannot be read; *out_ret is untouched then.
 * Free with stp_differences_free(). */
enum stp_status stp_differ(const struct stp_explanation *first,
                           const struct stp_explanation *second,
                           const char *machine_path,
                           struct stp_differences *out_ret,
                           struct stp_error *err);

void stp_differences_free(struct stp_differences *differences);
