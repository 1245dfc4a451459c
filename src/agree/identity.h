/* identity.h - the ranks that have joined an agreement, and their fingerprints
 *
 * Each rank has a row of shared memory, which it alone writes, once. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agree/agreement.h"

enum { STP_HOST_NAME = 60 /* bytes */ };

struct stp_identity {
    struct stp_fingerprint fingerprint;
    int32_t pid;
    int32_t number;   /* struct stp_agreement_rank's */
    uint32_t is_full; /* written last */
    uint32_t unused[3];
};

static_assert(sizeof(struct stp_identity) == 64, "a cache line");

/* Ranks of a host that joined with one fingerprint. */
struct stp_host_row {
    struct stp_identity identity; /* of one of them */
    uint32_t n_ranks;
    char name[STP_HOST_NAME]; /* of the host */
};

static_assert(sizeof(struct stp_host_row) == 128, "hosts exchange it");

/* Fills this process's row for '*rank'. */
void stp_identity_write(struct stp_identity *identity,
                        const struct stp_agreement_rank *rank);

/* Whether the row was filled; then it stays as it is. */
bool stp_identity_is_full(const struct stp_identity *identity);

/* Whether all full rows of the 'n' have the same deciding parts. */
bool stp_identities_are_equal(const struct stp_identity *identities, size_t n);

/* Whether two of them have different tuners below ours. */
bool stp_identities_are_apart(const struct stp_identity *identities, size_t n);

/* Writes why not all of the 'n' ranks decide as rank 'own' does: which ranks
 * differ from it and in what, or that only so many of 'n_needed' have joined.
 * Ranks are called by their numbers if all that joined have one, else by their
 * processes. */
void stp_identities_explain(const struct stp_identity *identities, size_t n,
                            size_t n_needed, size_t own, char *text,
                            size_t size);

/* Writes why the 'n' rows, of 'n_ranks' ranks, do not decide as a rank with row
 * 'own' does: which hosts differ from it and in what, or that 'place' (words
 * such as "the store at a:1") knows of so many ranks. */
void stp_hosts_explain(const struct stp_host_row *rows, size_t n,
                       const struct stp_identity *own, size_t n_ranks,
                       const char *place, char *text, size_t size);
