/* replay.h - a trace through a tuner plugin, on all ranks, in mock NCCL */
#pragma once

#include "analyse/replay/trace.h"
#include "mock_ranks.h"

struct stp_replay_options {
    const char *machine_path; /* as mock_machine_load() takes it */
    const char *plugin;       /* as NCCL_TUNER_PLUGIN */
    const char *nccl;         /* version, or NULL for the machine's */
    unsigned n_seeds;         /* random schedules, each on communicators of its
                                 own; >= 1 */

    /* Ranks of the communicators that are the largest of the trace, instead of
     * the trace's nRanks; 0: the trace's, else the machine's. */
    unsigned n_ranks;
    enum mock_layout layout;

    /* Processes that share the schedules; 0: one a CPU. */
    unsigned n_jobs;

    /* NULL, or: told now and then how many schedules are done.  False stops the
     * replay with STP_ERR_LIMIT. */
    bool (*progress)(void *user, size_t done, size_t total);
    void *user;
};

/* The choice of a row. */
struct stp_replayed {
    int algo; /* -1, with proto, where there was nothing to choose */
    int proto;
    int n_channels;
    int auto_algo; /* NCCL alone */
    int auto_proto;
    int n_ranks;       /* of its communicator */
    unsigned n_colors; /* communicators that ran it in schedule 0: those of a
                          split with colors; of them the choice of one that is
                          not as the row expects, else of the last */
};

struct stp_replay {
    struct stp_replayed *rows; /* as many as the trace has */
    unsigned n_ranks;          /* of the largest communicator */
    unsigned machine_ranks;    /* that the machine was recorded with */
    bool resized;              /* a communicator has another number */
    bool mixed;                /* they do not all have the same */
    size_t n_steps;            /* groups, and collectives by themselves */
    uint64_t n_asked;          /* times that NCCL asks rank 0's tuner */
    uint64_t n_run;            /* collectives that it runs, of graphs, too */
};

/* Replays '*trace' and fills *replay_ret, to be freed with stp_replay_free().
 * STP_ERR_DEVICE, *replay_ret untouched, if a rank disagrees with another, if a
 * collective fails, if the plugin does not load or crashes, or if a row does
 * not come out as it expects; the error's line is that of the row, where there
 * is one. The first of several failed schedules is reported, whatever the
 * number of processes. The caller has no other threads. */
enum stp_status stp_replay(const struct stp_replay_options *options,
                           const struct stp_trace *trace,
                           struct stp_replay *replay_ret,
                           struct stp_error *err);

void stp_replay_free(struct stp_replay *replay);
