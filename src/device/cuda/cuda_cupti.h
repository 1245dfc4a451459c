/*
 * cuda_cupti.h - CUPTI's activity records of this process
 *
 * CUPTI hands no pointer of the application to its callbacks, so there is one
 * recorder a process.  Any thread may call these.
 */
#ifndef STP_CUDA_CUPTI_H
#define STP_CUDA_CUPTI_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "device/span.h"

/* Something that ran on a GPU. */
struct stp_cupti_record {
    uint32_t gpu;
    uint32_t stream; /* stp_cupti_stream() */
    uint32_t correlation;
    enum stp_span_kind kind;
    char name[STP_SPAN_NAME];
    uint64_t begin_ns; /* of stp_cupti_now() */
    uint64_t end_ns;
};

/* Opens libcupti if it is not open, and records from now on, until as many
 * stp_cupti_end() as there were successful stp_cupti_begin(). */
enum stp_status stp_cupti_begin(struct stp_error *err);
void stp_cupti_end(void);

/* CUPTI's number of a stream; STP_ERR_DEVICE. */
enum stp_status stp_cupti_stream(cudaStream_t stream, uint32_t *id_ret,
                                 struct stp_error *err);

uint64_t stp_cupti_now(void);

/* Launches of this thread from now on are in this range, until the pop. */
void stp_cupti_push(struct stp_part range);
void stp_cupti_pop(void);

/*
 * Takes the finished records of a GPU's stream: each is handed to 'take' with
 * the range it was launched in, and forgotten.  Stops at a failure, which it
 * returns.
 */
enum stp_status stp_cupti_take(
    uint32_t gpu, uint32_t stream,
    enum stp_status (*take)(void *user, const struct stp_cupti_record *record,
                            struct stp_part range, struct stp_error *err),
    void *user, struct stp_error *err);

#endif /* STP_CUDA_CUPTI_H */
