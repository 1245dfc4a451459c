/*
 * cpu_vectors.h - elementwise kernels on CPUs, which memory bounds
 */
#ifndef STP_CPU_VECTORS_H
#define STP_CPU_VECTORS_H

#include <stdint.h>

#include "core/status.h"

/* Room for the longest vectors seen.  Begin with all zero. */
struct stp_cpu_vectors {
    float *x;
    float *y;
    uint64_t nbytes; /* of each */
};

/* Makes room for 'nbytes' each and fills it, unless it is there; free with
 * stp_cpu_vectors_free(), after a failure, too.  STP_ERR_NOMEM. */
enum stp_status stp_cpu_vectors_make(struct stp_cpu_vectors *vectors,
                                     uint64_t nbytes, struct stp_error *err);

/* x - y into y, of the first 'nbytes' rounded down to whole floats, which must
 * be there: as much work as their sum, but done twice it is undone, so that
 * data stay what they are however often it runs.  On the caller's thread. */
void stp_cpu_vectors_run(const struct stp_cpu_vectors *vectors,
                         uint64_t nbytes);

void stp_cpu_vectors_free(struct stp_cpu_vectors *vectors);

#endif /* STP_CPU_VECTORS_H */
