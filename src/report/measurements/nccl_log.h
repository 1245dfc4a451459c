/* nccl_log.h - the lines that NCCL logs between those of nccl-tests
 *
 * With NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=TUNING,ENV NCCL logs the algorithm
 * and protocol of each collective, and what NCCL_ALGO and NCCL_PROTO were set
 * to.  nccl-tests print a row in pieces, and NCCL logs in the middle of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/text.h"
#include "report/job_log.h"

/* "AllReduce: 1048576 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..23}", or
 * "1048576 Bytes -> Algo 1 proto 0 time 25.1" of older versions. */
struct stp_nccl_ran {
    int coll;         /* -1: not said */
    uint64_t n_bytes; /* of one rank's part if the collective is said */
    int algo;
    int proto;
};

/* "comm 0x1 rank 0 nRanks 72 nNodes 1 localRanks 72 localRank 0 MNNVL 1": a
 * node is not a host where NVLink connects several. */
struct stp_nccl_comm {
    unsigned n_ranks;
    unsigned n_nodes;
};

/* How a run was set up, as far as NCCL or its environment says. */
struct stp_nccl_settings {
    char nccl[16];   /* version; "": not said */
    char algo[16];   /* value of NCCL_ALGO, cut; "": not set */
    char proto[16];  /* likewise NCCL_PROTO */
    bool has_tuner;  /* a tuner plugin was loaded */
    bool names_arms; /* the text is ours, which does */
};

/* The log so far, whose lists are to be freed with free().  Begin with 0. */
struct stp_nccl_log {
    struct stp_nccl_ran *ran; /* since the caller set n_ran to 0 */
    size_t n_ran;
    size_t capacity;
    struct stp_nccl_comm *comms; /* of equal neighbours the first */
    size_t n_comms, comms_capacity;
    struct stp_nccl_settings settings;
    struct stp_field host;    /* for stp_log_find() */
    struct stp_field failure; /* the first line that says one; "": none */
};

/* Adds what NCCL says in a line that ends at 'end', or programs around it, and
 * 'message' is at its begin then. */
void stp_nccl_log_read(struct stp_nccl_log *log,
                       const struct stp_log_message *message, bool is_log,
                       const char *end);

/* The algorithm and protocol that the log has for a collective of 'n_bytes', as
 * a tuner counts them; false if it has none or several. */
bool stp_nccl_log_pair(const struct stp_nccl_log *log, int coll,
                       uint64_t n_bytes, unsigned n_ranks, int *algo_ret,
                       int *proto_ret);

/* The last communicator of 'n_ranks', 0 for any; NULL: none. */
const struct stp_nccl_comm *stp_nccl_log_comm(const struct stp_nccl_log *log,
                                              unsigned n_ranks);
