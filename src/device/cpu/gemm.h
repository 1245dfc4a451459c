/*
 * gemm.h - matrix products on CPUs, by the BLAS this was built with
 */
#ifndef STP_GEMM_H
#define STP_GEMM_H

#include "device/device.h"

/* Room for the matrices of the largest product seen.  Begin with all zero. */
struct stp_gemm_room {
    void *matrix[3];
    size_t nbytes[3];
    int type; /* of what they are filled with */
};

/*
 * Makes room for '*gemm' and fills it, unless that is done.  STP_ERR_RANGE for
 * types that BLAS lacks, for an empty product, and for any if there was no BLAS
 * to build with. 'n_threads' are for the products of this process.
 */
enum stp_status stp_gemm_prepare(struct stp_gemm_room *room,
                                 const struct stp_gemm *gemm,
                                 unsigned n_threads, struct stp_error *err);

/* Computes it, after stp_gemm_prepare().  Not two at a time in one room. */
void stp_gemm_run(const struct stp_gemm_room *room,
                  const struct stp_gemm *gemm);

void stp_gemm_room_free(struct stp_gemm_room *room);

#endif /* STP_GEMM_H */
