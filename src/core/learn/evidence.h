/* evidence.h - what earlier runs of a job found out about its arms
 *
 * A CSV file, a row an arm of a kind of message on communicators of one shape:
 *
 *   collective, min_bytes, max_bytes, nNodes, nRanks
 *   algorithm, protocol, channels (0: NCCL's own count)
 *   blocks     of windows, in which it took turns with NCCL's own choice
 *   log_gain   mean logarithm of its gain over that
 *   log_ss     sum of squares about the mean
 *
 * Pure: no clock, no environment, no file. */
#pragma once

#include "core/learn/bandit.h"

struct stp_evidence {
    int coll; /* ncclFunc_t */
    struct stp_range bytes;
    uint64_t n_nodes;
    uint64_t n_ranks;
    struct stp_bandit_arm arm;
    uint32_t n_blocks;
    double log_gain;
    double log_ss;
};

struct stp_evidence_list {
    struct stp_evidence *all;
    size_t n;
};

enum { STP_MAX_EVIDENCE = 16 << 20 }; /* bytes of a file */

/* Reads the text of a file into a list, to be freed with stp_evidence_free().
 * STP_ERR_SYNTAX with line and column, or STP_ERR_NOMEM; *list_ret is untouched
 * then. */
enum stp_status stp_evidence_parse(const char *csv, size_t len,
                                   struct stp_evidence_list *list_ret,
                                   struct stp_error *err);
void stp_evidence_free(struct stp_evidence_list *list);
