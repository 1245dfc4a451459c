/*
 * constants.h - constants with which NCCL's own model chooses right
 *
 * Out of comparisons of one machine: the constants that NCCL's model of it
 * depends on (mock NCCL's, with all of its corrections) are searched, from
 * NCCL's own on, for those whose choices take the shortest times.  What they
 * can choose is an algorithm and a protocol; channels stay NCCL's.
 *
 * A choice is worth the mean over sizes of the logarithm of its time over that
 * of the fastest pair measured there.  One that is slower than NCCL's own
 * beyond its interval is all but forbidden, and one that nobody measured counts
 * for more than the slowest.  Between two neighbouring sizes a third is looked
 * at, half as important, with times that grow by the byte from one to the
 * other.  Of equally good constants
 * those nearest to NCCL's are taken, so that one that decides nothing stays.
 */
#ifndef STP_ANALYSE_CONSTANTS_H
#define STP_ANALYSE_CONSTANTS_H

#include "analyse/compare.h"
#include "core/policy/constants.h"

struct stp_constants_terms {
    const char *machine_path; /* of the recorded machine whose model it is */
    const char *nccl;         /* its version, "2.28" to "2.30" and patches; "":
                                 that which the machine was recorded with */
    bool trust_passes;        /* as in struct stp_derive_terms */
    uint64_t seed;            /* of the starts of the search */

    /* NULL, or: told how many searches of how many are done.  False stops with
     * STP_ERR_STOPPED. */
    bool (*progress)(void *user, size_t done, size_t total);
    void *user;
};

/* Times of what is chosen over the fastest measured, of all sizes. */
struct stp_residual {
    double mean;     /* geometric, >= 1 */
    double worst;    /* >= 1 */
    size_t n;        /* sizes */
    size_t n_slower; /* than NCCL's own choice, beyond the interval */
    size_t n_faster; /* likewise */
};

/* A size at which the choice is not the fastest by STP_DERIVE_SAME or more. */
struct stp_misfit {
    int coll;
    uint64_t n_bytes;
    int algo, proto;           /* chosen */
    int best_algo, best_proto; /* fastest measured */
    double ratio;              /* of their times; infinite if nobody measured
                                  what is chosen */
    bool is_slower;            /* than NCCL's own, beyond the interval */
};

struct stp_constants_fit {
    struct stp_constants constants;    /* those that are not NCCL's own */
    ncclTunerConstants_v7_t defaults;  /* NCCL's own */
    struct stp_residual before, after; /* with NCCL's own, and with these */
    /* At each size but the smallest and largest of a collective: with NCCL's
     * own, and with constants fitted without that size.  What is to be expected
     * between sizes; n is 0 if there is none. */
    struct stp_residual left_before, left_out;
    struct stp_misfit *misfits; /* in the order of the comparisons */
    size_t n_misfits;
};

/*
 * Fits.  The same input gives the same constants.  STP_ERR_RANGE if the
 * comparisons have no interleaved evidence of two pairs at any size, are of
 * other ranks or nodes than the machine, or of iterations of a workload;
 * STP_ERR_DEVICE if the machine or version is unknown; STP_ERR_NOMEM;
 * STP_ERR_STOPPED.
 * *fit_ret is to be freed with stp_constants_fit_free(), else untouched.
 */
enum stp_status stp_fit_constants(const struct stp_comparisons *comparisons,
                                  const struct stp_constants_terms *terms,
                                  struct stp_constants_fit *fit_ret,
                                  struct stp_error *err);

/* Whether the constants are better than NCCL's own: faster at some size beyond
 * noise, slower at none, and no worse at sizes they were fitted without. */
bool stp_constants_fit_helps(const struct stp_constants_fit *fit);

void stp_constants_fit_free(struct stp_constants_fit *fit);

#endif /* STP_ANALYSE_CONSTANTS_H */
