/* policy_sweep.h - rules that overlap, made into disjoint ranges of sizes; only
 * for policy_compile.c */
#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "core/policy/policy.h"
#include "core/status.h"
#include "nccl_tuner_abi.h"

/* The part of a rule that a lookup needs. */
struct stp_candidate {
    uint32_t line;
    uint32_t chunk_bytes;
    int32_t n_pipe_ops; /* -1: any */
    uint8_t algo, proto, n_channels;
    int8_t reg_buff; /* -1: any */
};

static_assert(sizeof(struct stp_candidate) == 16, "compared as bytes");

/* The sizes from 'start' to the next segment's, and the rules that may win
 * there, in file order: 'n' of the candidates, from number 'from'. */
struct stp_segment {
    uint64_t start;
    uint32_t n;
    uint32_t from;
};

/* The segments of collective c are those from begin[c] to begin[c + 1]: at
 * least one, and the first starts at 0. */
struct stp_segments {
    struct stp_segment *at;
    uint32_t begin[NCCL_NUM_TUNED_FUNCS + 1];
    struct stp_candidate *candidates;
    size_t n_candidates;
    size_t n_rules; /* that can match */
};

/* Like stp_policy_compile(), but without the tables that make lookups fast.
 * *segments_ret is to be freed with stp_segments_free(). */
enum stp_status stp_sweep(const struct stp_policy *policy,
                          const struct stp_shape *shape,
                          struct stp_segments *segments_ret,
                          struct stp_error *err);

/* Frees the memory that the segments point to. */
void stp_segments_free(struct stp_segments *segments);
