/* overlay.h - NCCL's choice in several cases, size by size: of several
 * versions, or under several variables */
#pragma once

#include "analyse/explain/overrides.h"

enum { STP_MAX_CASES = 24 };

/* A case, and what became of it. */
struct stp_choice_case {
    struct stp_explain_options options; /* its collective is all cases' */
    char fault[STP_ERROR_TEXT];         /* first failure; "": none */
};

/* Sizes at which each case chooses one pair. */
struct stp_overlay_row {
    int coll;
    uint64_t min_bytes, max_bytes;
    struct stp_overlay_pick {
        struct stp_pick pick; /* algo -1: the case fails */
        int asked_channels;   /* by a plugin; 0: NCCL's own count */
    } picks[STP_MAX_CASES];
};

struct stp_overlay {
    struct stp_overlay_row *rows; /* by collective, then ascending */
    size_t n_rows, capacity;
};

/* Lays the cases' ranges of a collective over each other; a case without any
 * fails.  All have the same first and last size. */
void stp_overlay_add(struct stp_overlay *overlay, int coll,
                     const struct stp_explanation *cases, size_t n);

/* Asks in each case, as stp_explain() does.  A failure is its case's, for all
 * sizes of the collective.  Free with stp_overlay_free(). */
struct stp_overlay stp_overlay_ask(struct stp_choice_case *cases, size_t n,
                                   int coll, uint64_t max_bytes);

void stp_overlay_free(struct stp_overlay *overlay);
