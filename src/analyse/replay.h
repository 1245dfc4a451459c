/*
 * replay.h - a trace through a tuner plugin, on all ranks, in mock NCCL
 */
#ifndef STP_REPLAY_H
#define STP_REPLAY_H

#include "analyse/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct stp_replay_options {
    const char *machine_path; /* as mock_machine_load() takes it */
    const char *plugin;       /* as NCCL_TUNER_PLUGIN */
    const char *nccl;         /* version, or NULL for the machine's */
    unsigned n_seeds;         /* random schedules, each on a communicator of its
                                 own; >= 1 */
};

/* What became of a row. */
struct stp_replayed {
    int algo;
    int proto;
    int n_channels;
    int auto_algo; /* NCCL alone */
    int auto_proto;
};

struct stp_replay {
    struct stp_replayed *rows; /* as many as the trace has */
    unsigned n_ranks;
    size_t n_steps; /* groups, and collectives by themselves */
};

/*
 * Replays '*trace' and fills *replay_ret, to be freed with stp_replay_free().
 * STP_ERR_DEVICE, *replay_ret untouched, if a rank disagrees with another, if a
 * collective fails, if the plugin does not load, or if a row does not come out
 * as it expects; the error's line is that of the row, where there is one.
 */
enum stp_status stp_replay(const struct stp_replay_options *options,
                           const struct stp_trace *trace,
                           struct stp_replay *replay_ret,
                           struct stp_error *err);

void stp_replay_free(struct stp_replay *replay);

#ifdef __cplusplus
}
#endif
#endif /* STP_REPLAY_H */
