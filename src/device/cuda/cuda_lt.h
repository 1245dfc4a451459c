/* cuda_lt.h - GEMMs with their epilogues, by cuBLASLt
 *
 * Opened at run time.  The plan of a shape is made once, and kept.
 * One instance a GPU, used by one thread. */
#pragma once

#include <cuda_runtime_api.h>

#include "device/cuda/cuda.h"

struct stp_cuda_lt;      /* opaque */
struct stp_cuda_lt_plan; /* opaque */

/* 'rank' outlives it.  STP_ERR_NOTHING if there is no cuBLASLt. */
enum stp_status stp_cuda_lt_open(const struct stp_cuda_rank *rank,
                                 struct stp_cuda_lt **lt_ret,
                                 struct stp_error *err);

/* The plan for a product, or NULL: then make it first. */
const struct stp_cuda_lt_plan *stp_cuda_lt_find(const struct stp_cuda_lt *lt,
                                                const struct stp_product *p);

/* Makes the plan of a product that was checked, while nothing runs on the GPU;
 * writes to the product's C if that is not read. */
enum stp_status stp_cuda_lt_make(struct stp_cuda_lt *lt,
                                 const struct stp_product *product,
                                 struct stp_error *err);

enum stp_status stp_cuda_lt_run(struct stp_cuda_lt *lt,
                                const struct stp_cuda_lt_plan *plan,
                                unsigned stream,
                                const struct stp_product *product,
                                struct stp_error *err);

void stp_cuda_lt_close(struct stp_cuda_lt *lt);
