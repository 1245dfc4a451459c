/* replay_plan.h - the part of a replay that is the same for every schedule:
 * communicators, their machines, and the steps of the trace */
#pragma once

#include "analyse/replay/replay.h"

/* Communicators of one size. */
struct stp_replay_size {
    int n_ranks;
    const struct mock_machine *machine;
    struct mock_machine *owned; /* NULL: it is the recorded one */
};

/* Steps that follow each other on one communicator. */
struct stp_replay_segment {
    size_t comm;
    size_t first; /* step */
    size_t n_steps;
};

struct stp_replay_plan {
    const struct stp_trace *trace;
    struct mock_machine *machine;
    const char *nccl;
    struct stp_replay_size *sizes;
    size_t n_sizes;
    size_t *size_of; /* each communicator */
    int **colors;    /* of each communicator, of its parent's ranks, below 0 for
                        none; NULL: it has no colors */

    size_t *order;           /* rows as they are played */
    struct mock_call *calls; /* likewise */
    struct mock_step *steps; /* of consecutive calls */
    size_t n_steps;
    size_t *first; /* call of each step */
    struct stp_replay_segment *segments;
    size_t n_segments;
};

enum stp_status stp_replay_plan_make(struct stp_replay_plan *plan,
                                     const struct stp_replay_options *options,
                                     const struct stp_trace *trace,
                                     struct stp_error *err);
void stp_replay_plan_free(struct stp_replay_plan *plan);

/* The machine that a row's communicator spans. */
const struct mock_machine *
stp_replay_machine(const struct stp_replay_plan *plan, size_t comm);

/* Opens NCCL with this plugin, in the plan's version. */
enum stp_status stp_replay_open(const struct stp_replay_plan *plan,
                                const char *plugin, struct mock_nccl **nccl,
                                struct stp_error *err);
