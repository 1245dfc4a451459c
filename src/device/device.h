/*
 * device.h - what a benchmark needs from the machine it runs on
 *
 * The measuring loops, the statistics and the reports see a machine only
 * through this table, so that the same loops run on GPUs, on CPUs and on a
 * recorded machine in virtual time, where tests know the exact numbers.
 *
 * A device stands for all ranks: device/ranks.c makes it of the engines of each
 * platform (device/engine.h).  What is to be run is noted first: collective,
 * compute, record and wait return at once.  Then synchronise() has every rank
 * run all of it from a common start, and waits; events hold the times.
 *
 * With several processes each opens the device with its part of the ranks, and
 * all of them make the same calls in the same order; times are then those of
 * all ranks, in every process.  One thread of a process uses a device.
 */
#ifndef STP_DEVICE_H
#define STP_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "device/source.h"
#include "core/dtype.h"
#include "core/status.h"
#include "device/arm.h"
#include "device/call.h"
#include "nccl_tuner_abi.h"

struct stp_device_info {
    char machine[64]; /* its name */
    char gpu[64];     /* model, as the driver spells it; "" if it has none */
    char nccl[16];    /* version; "" without NCCL */
    char backend[16]; /* what moves the data: "nccl", "gloo", "mpi" */
    char what[320];   /* one line for the top of every output: which machine,
                         and whether its times are measured or recorded */
    unsigned n_ranks;
    unsigned n_nodes;
    unsigned max_rounds; /* interleaved rounds that a recorded machine holds: a
                            further round would count one twice.  0: no limit */
    int compute_capability; /* 80, 90, 100; 0 without a GPU */
    char cpu_vendor[16];    /* intel, amd, arm, mixed or unknown */
    bool is_live;           /* times drift: measured here and now */
    bool has_arms;          /* something can be forced */
    bool has_data;          /* there are bytes to check */
    bool models_overlap;    /* nobody measured how long compute takes, and what
                               it and collectives do to each other */
    double event_us; /* about what an event between two collectives adds to
                        them; 0: nothing */
};

/* Streams: what is in one runs in order, the two run side by side. */
enum {
    STP_STREAM_MAIN,
    STP_STREAM_COMM, /* of high priority, as frameworks have it */
    STP_N_STREAMS,
};

/* How a collective ran. */
struct stp_device_run {
    int algo;       /* NCCL_ALGO_*, or -1 if the device cannot tell */
    int proto;      /* NCCL_PROTO_*, or -1 */
    int n_channels; /* 0 if the device cannot tell */
    enum stp_source source;
    double us; /* this one time, begin to end */
};

/* What NCCL asked its tuner about a collective. */
struct stp_question {
    uint64_t n_bytes;
    int n_pipe_ops;
    int reg_buff;
    float cost[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS]; /* us; < 0 ruled out */
};

struct stp_device_ops {
    void (*info)(const void *self, struct stp_device_info *info_ret);

    /* What rank 'rank' runs on, as nccl-tests lists it behind "# ", without a
     * newline.  Cut to 'size'. */
    void (*rank_line)(const void *self, unsigned rank, char *line, size_t size);

    /*
     * The sizes at which this device knows interleaved times of a collective,
     * ascending: at most 'max' of them into 'sizes'.  Returns how many there
     * are; 0 if any size is as good as any other.
     */
    size_t (*sizes)(const void *self, int coll, uint64_t *sizes, size_t max);

    /* Begins round 'round' of 'n_rounds': all ranks meet, and what is measured
     * until the next call is compared with each other. */
    enum stp_status (*begin_round)(void *self, unsigned round,
                                   unsigned n_rounds, struct stp_error *err);

    /* Makes the collectives that are noted from now on use this arm, without a
     * new communicator; nothing noted may be waiting for synchronise().
     * STP_ERR_RANGE for the plugin arm if the device was opened without a
     * plugin, and for a forced one if nothing can be forced. */
    enum stp_status (*select_arm)(void *self, const struct stp_arm *arm,
                                  struct stp_error *err);

    /*
     * Runs the collective once on every rank, untimed by events, and says how.
     * A forced arm that NCCL rules out for it runs as NCCL's own choice.
     * 'question_ret' may be NULL; its n_bytes is 0 if nobody was asked.
     */
    enum stp_status (*probe)(void *self, const struct stp_collective *what,
                             struct stp_device_run *run_ret,
                             struct stp_question *question_ret,
                             struct stp_error *err);

    /*
     * Runs the collective once, on fresh random data of 'seed' and into
     * poisoned output, and compares every element on every rank that gets a
     * result with what it must be (device/pattern.h).  *n_wrong_ret is the
     * number of wrong ones on all ranks.  A device without data says 0.
     */
    enum stp_status (*check)(void *self, const struct stp_collective *what,
                             uint64_t seed, uint64_t *n_wrong_ret,
                             struct stp_error *err);

    /* ---- noting what to run ---- */

    /* A collective.  Within group(begin) and group(end) they are one NCCL
     * group; a device without groups runs them one by one. */
    enum stp_status (*collective)(void *self, unsigned stream,
                                  const struct stp_collective *what,
                                  struct stp_error *err);
    enum stp_status (*group)(void *self, bool begin, struct stp_error *err);

    /* A GEMM, on every rank. */
    enum stp_status (*compute)(void *self, unsigned stream,
                               const struct stp_gemm *gemm,
                               struct stp_error *err);

    /* The sum of two vectors into one of them, each of 'n_bytes' rounded down
     * to whole floats: 3 times n_bytes through memory, and next to nothing to
     * compute.  On every rank.  STP_ERR_RANGE for more than memory holds. */
    enum stp_status (*elementwise)(void *self, unsigned stream,
                                   uint64_t n_bytes, struct stp_error *err);

    /* Event 'event', from 0, is when all that was noted before in this stream
     * is done; each once between two synchronise(). */
    enum stp_status (*record)(void *self, unsigned stream, unsigned event,
                              struct stp_error *err);

    /* What is noted later in this stream waits for an event noted earlier in
     * another. */
    enum stp_status (*wait)(void *self, unsigned stream, unsigned event,
                            struct stp_error *err);

    /* ---- running it ---- */

    /*
     * Runs what was noted since the last time, on all ranks, and waits.  A
     * device opened with graphs runs it as one CUDA graph, after once without.
     * After a failure the device can only be closed.
     */
    enum stp_status (*synchronise)(void *self, struct stp_error *err);

    /* Runs once more what the last synchronise() ran, from its graph if there
     * is one. */
    enum stp_status (*replay)(void *self, struct stp_error *err);

    /* Microseconds between two recorded events of the last run, on the slowest
     * rank. */
    double (*elapsed_us)(const void *self, unsigned from, unsigned to);

    /* Microseconds of the host's clock that the last run took, from the common
     * start until all of it was done, on the slowest rank: with the first
     * launch and the last wait, as nccl-tests counts. */
    double (*wall_us)(const void *self);

    /* How much the times of the last run are worth: the worst of all that was
     * in it. */
    enum stp_source (*source)(const void *self);

    void (*close)(void *self);
};

/* An open device; close with device.ops->close(device.self). */
struct stp_device {
    const struct stp_device_ops *ops;
    void *self;
};

#endif /* STP_DEVICE_H */
