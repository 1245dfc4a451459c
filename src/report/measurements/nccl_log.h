/*
 * nccl_log.h - what NCCL logs between the lines of nccl-tests
 *
 * With NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=TUNING,ENV it says which pair each
 * collective ran with, and what was forced.  nccl-tests print a row in pieces,
 * and NCCL logs in the middle of it.
 */
#ifndef STP_NCCL_LOG_H
#define STP_NCCL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"
#include "device/arm.h"

/* "AllReduce: 1048576 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..23}", or
 * "1048576 Bytes -> Algo 1 proto 0 time 25.1" of older versions. */
struct stp_nccl_ran {
    unsigned line;
    int coll;         /* -1: not said */
    uint64_t n_bytes; /* of one rank's part if the collective is said */
    int algo;
    int proto;
};

struct stp_nccl_log {
    struct stp_nccl_ran *ran;
    size_t n_ran;
    size_t capacity;
    char algo[16];  /* that NCCL_ALGO was set to, cut; "": not said */
    char proto[16]; /* likewise NCCL_PROTO */
    bool has_tuner; /* a tuner plugin was in it */
};

/*
 * Takes what NCCL logged out of the 'len' bytes at 'text': *rest_ret, to be
 * freed, is the same lines without, a row that was interrupted standing in the
 * line where it ends.  STP_ERR_NOMEM leaves both outputs untouched.  Free with
 * stp_nccl_log_free().
 */
enum stp_status stp_nccl_log_take(const char *text, size_t len, char **rest_ret,
                                  size_t *rest_len_ret,
                                  struct stp_nccl_log *log_ret,
                                  struct stp_error *err);

void stp_nccl_log_free(struct stp_nccl_log *log);

/* The pair that the lines behind 'after' and up to 'line' say of a collective
 * of 'n_bytes', as a tuner counts them; false if they say none or several. */
bool stp_nccl_log_pair(const struct stp_nccl_log *log, unsigned after,
                       unsigned line, int coll, uint64_t n_bytes,
                       unsigned n_ranks, int *algo_ret, int *proto_ret);

#endif /* STP_NCCL_LOG_H */
