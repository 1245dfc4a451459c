/*
 * device.h - what a benchmark needs from the machine it runs on
 *
 * The measuring loops, the statistics and the reports see a machine only
 * through this table, so that the same loops run on GPUs, on CPUs and on a
 * recorded machine in virtual time, where tests know the exact numbers.
 *
 * A device stands for all ranks: whoever implements it starts a collective on
 * every one of them and reports the slowest.  One thread uses a device.
 */
#ifndef STP_DEVICE_H
#define STP_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "bench/arm.h"
#include "bench/measurement.h"
#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct stp_device_info {
    char machine[64]; /* its name */
    char gpu[64];     /* model, as the driver spells it */
    char nccl[16];    /* version */
    char what[320];   /* one line for the top of every output: which machine,
                         and whether its times are measured or recorded */
    unsigned n_ranks;
    unsigned n_nodes;
    unsigned max_rounds; /* interleaved rounds that a recorded machine holds: a
                            further round would count one twice.  0: no limit */
};

/* One collective on every rank. */
struct stp_collective {
    int coll;              /* ncclFunc_t */
    uint64_t n_bytes;      /* as a tuner counts them */
    unsigned element_size; /* bytes; 'n_bytes' is a multiple of it, and of it
                              times the ranks for allgather, reducescatter */
};

/* How the last collective ran. */
struct stp_device_run {
    int algo;
    int proto;
    int n_channels;
    enum stp_source source;
};

struct stp_device_ops {
    /* "mock", "cuda" or "cpu".  Static storage. */
    const char *name;

    void (*info)(const void *self, struct stp_device_info *info_ret);

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

    /* Makes the collectives that follow use this arm, without a new
     * communicator.  STP_ERR_RANGE for the plugin arm if the device was opened
     * without a plugin. */
    enum stp_status (*select_arm)(void *self, const struct stp_arm *arm,
                                  struct stp_error *err);

    /* Starts a collective and returns at once.  A forced arm that NCCL rules
     * out for it runs as NCCL's own choice. */
    enum stp_status (*collective)(void *self, const struct stp_collective *what,
                                  struct stp_error *err);

    /* How the last collective ran. */
    void (*last_run)(const void *self, struct stp_device_run *run_ret);

    /* Notes the time at which all started so far is done, as event 'event',
     * from 0; any number of them. */
    enum stp_status (*record)(void *self, unsigned event,
                              struct stp_error *err);

    /* Waits for everything started. */
    enum stp_status (*synchronise)(void *self, struct stp_error *err);

    /* Microseconds between two recorded events, on the slowest rank; after
     * synchronise(). */
    double (*elapsed_us)(const void *self, unsigned from, unsigned to);

    void (*close)(void *self);
};

/* An open device; close with device.ops->close(device.self). */
struct stp_device {
    const struct stp_device_ops *ops;
    void *self;
};

#ifdef __cplusplus
}
#endif
#endif /* STP_DEVICE_H */
