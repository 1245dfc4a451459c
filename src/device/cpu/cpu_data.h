/*
 * cpu_data.h - a collective on a rank: its data, and whether they are right
 */
#ifndef STP_CPU_DATA_H
#define STP_CPU_DATA_H

#include "device/device.h"
#include "device/transport.h"

/* A rank of many, and room for the largest collective.  Begin with all zero. */
struct stp_cpu_buffers {
    unsigned rank;
    unsigned n_ranks;
    void *in;
    void *out;
};

/* Makes room for 'nbytes' unless it is there; free with
 * stp_cpu_buffers_free(), after a failure, too. */
enum stp_status stp_cpu_buffers_make(struct stp_cpu_buffers *buffers,
                                     unsigned rank, unsigned n_ranks,
                                     uint64_t nbytes, struct stp_error *err);
void stp_cpu_buffers_free(struct stp_cpu_buffers *buffers);

/* '*what' as this rank's transport is to run it; an average as a sum. */
struct stp_transfer stp_cpu_transfer(const struct stp_collective *what,
                                     const struct stp_cpu_buffers *buffers);

/* The elements of this rank's result: 0 if it gets none. */
uint64_t stp_cpu_result_size(const struct stp_collective *what,
                             const struct stp_cpu_buffers *buffers);

/*
 * STP_ERR_RANGE, and why, for what cannot run: what is no collective, type or
 * operation, sizes that are no multiple of an element or above 'max_bytes',
 * and more elements than 'transport' counts.
 */
enum stp_status stp_cpu_check_collective(
    const struct stp_collective *what, const struct stp_cpu_buffers *buffers,
    uint64_t max_bytes, const struct stp_transport_ops *transport,
    struct stp_error *err);

/* Runs what was checked, and returns when this rank's part is done. */
enum stp_status stp_cpu_collective(const struct stp_transport_ops *transport,
                                   void *link, unsigned stream,
                                   const struct stp_collective *what,
                                   const struct stp_cpu_buffers *buffers,
                                   struct stp_error *err);

/* Fills the buffers for '*what': poisoned output, and input of 'seed'. */
void stp_cpu_data_fill(const struct stp_collective *what,
                       const struct stp_cpu_buffers *buffers, uint64_t seed);

/* How many elements of this rank's result are wrong. */
uint64_t stp_cpu_data_count_wrong(const struct stp_collective *what,
                                  const struct stp_cpu_buffers *buffers,
                                  uint64_t seed);

#endif /* STP_CPU_DATA_H */
