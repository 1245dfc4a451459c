/* cpu_math.h - the arithmetic of device/engine.h on CPUs
 *
 * Each computes the operation of its name there, on addresses of
 * this process.  Sixteen-bit types are really stored in sixteen bits. */
#pragma once

#include "device/engine.h"

/* Room for sixteen-bit matrices, widened.  Begin with all zero. */
struct stp_cpu_scratch {
    float *matrix[3];
    uint64_t n[3]; /* elements there is room for */
};

void stp_cpu_scratch_free(struct stp_cpu_scratch *scratch);

/* STP_ERR_RANGE for types that do not go together, for an empty product, and
 * for any if there was no BLAS to build with. */
enum stp_status stp_cpu_product_check(const struct stp_product *p,
                                      struct stp_error *err);

/* Products use 'n' threads from now on. */
void stp_cpu_product_threads(unsigned n);

/* Computes a product that was checked; grows 'scratch', or STP_ERR_NOMEM. */
enum stp_status stp_cpu_product(const struct stp_product *p,
                                struct stp_cpu_scratch *scratch,
                                struct stp_error *err);

void stp_cpu_cross_entropy(const struct stp_cross_entropy *c);
void stp_cpu_update(const struct stp_update *u);
void stp_cpu_kernel(const struct stp_kernel *k);
void stp_cpu_cast(uint64_t n, int from_type, const void *from, int to_type,
                  void *to);
