/* choices.h - what NCCL is asked, and chooses, on a machine */
#pragma once

#include "bench/sizes.h"
#include "bench/sweep.h"
#include "device/device.h"

/* One collective that a tuner was asked about and did not touch. */
struct stp_nccl_choice {
    struct stp_collective what;
    struct stp_question question;
    int algo; /* NCCL_ALGO_* */
    int proto;
    int n_channels;
};

struct stp_choices {
    struct stp_nccl_choice *rows;
    size_t n_rows;
    size_t capacity;
    /* collectives that ran, but of which the device told no more */
    size_t n_unreported[NCCL_NUM_TUNED_FUNCS];
};

/* Sizes of one collective and type. */
struct stp_choices_part {
    int coll; /* ncclFunc_t */
    int type; /* enum stp_type; sums */
    struct stp_sizes sizes;
};

/*
 * Runs every collective of the parts once, as NCCL itself chooses, and appends
 * what came of it to '*choices'.  'progress' is called after every one; NULL
 * for nobody.  A collective that the device cannot tell the run of is counted
 * instead: NCCL 2.29 and later have no profiler event for a broadcast
 * (src/enqueue.cc makes its task anew, and leaves out the events).
 * STP_ERR_DEVICE if the device cannot tell what NCCL asks, or what it runs of
 * any, STP_ERR_STOPPED if the progress function stopped it; *choices holds
 * what was complete.
 */
enum stp_status stp_choices_record(const struct stp_device *device,
                                   const struct stp_choices_part *parts,
                                   size_t n_parts, stp_sweep_progress progress,
                                   void *user, struct stp_choices *choices,
                                   struct stp_error *err);

/* Runs what is in '*choices' once more on another device, into the empty
 * '*again': STP_ERR_DEVICE if that device cannot tell the run of a row. */
enum stp_status stp_choices_repeat(const struct stp_device *device,
                                   const struct stp_choices *choices,
                                   struct stp_choices *again,
                                   struct stp_error *err);

/* Whether tables, to the last bit, choice and channels are the same. */
bool stp_choice_equal(const struct stp_nccl_choice *a,
                      const struct stp_nccl_choice *b);

void stp_choices_free(struct stp_choices *choices);
