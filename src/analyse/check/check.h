/* check.h - lints a policy: rules that never decide, or hide others */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/policy/policy.h"
#include "core/status.h"

enum stp_check_kind {
    STP_CHECK_DEAD, /* an earlier rule of its pair matches all that it does */
    STP_CHECK_SHADOWED,  /* so does one of a pair that NCCL always has */
    STP_CHECK_NO_KERNEL, /* no NCCL has the pair for the collective */
    STP_CHECK_FALLBACK,  /* so does one of a pair that NCCL may lack */
    STP_CHECK_OVERLAP,   /* an earlier rule decides a part of it */
    STP_CHECK_GAP,       /* sizes above it that no rule decides */
    STP_CHECK_BITS,      /* decides about sums that may get other bits, in a
                            policy that promises the same */
    STP_N_CHECK_KINDS,
};

/* A word for programs, such as "dead".  Static. */
const char *stp_check_kind_name(enum stp_check_kind kind);

/* Whether the finding is a warning, or else a note. */
bool stp_check_is_warning(enum stp_check_kind kind);

/* The change by which stp_check_fix() mends a finding. */
enum stp_fix {
    STP_FIX_NONE,
    STP_FIX_DROP, /* removes the rule */
    STP_FIX_END,  /* makes the end inf */
};

enum { STP_FINDING_LINES = 4 };

struct stp_finding {
    enum stp_check_kind kind;
    unsigned line;     /* of the rule, from 1 */
    unsigned column;   /* from 1, in bytes */
    const char *field; /* the column's name; NULL: the rule.  Static. */
    unsigned others[STP_FINDING_LINES]; /* lines that have to do with it */
    size_t n_others;                    /* may be more than there is room for */
    enum stp_fix fix;
    char text[STP_ERROR_TEXT]; /* one sentence: the finding and its consequence
                                */
};

/* By line, then column. */
struct stp_findings {
    struct stp_finding *at;
    size_t n;
    size_t capacity;
    enum stp_policy_kind policy_kind;
    bool has_rules;
};

struct stp_check_options {
    const char *csv; /* the policy's text */
    size_t len;
    enum stp_policy_kind kind;
};

/* Checks a policy.  Returns STP_OK, and findings to be freed with
 * stp_findings_free(); or a status of stp_policy_parse(); STP_ERR_LIMIT for
 * more rules than can be compared in some seconds.  *findings_ret is untouched
 * then. */
enum stp_status stp_check(const struct stp_check_options *options,
                          struct stp_findings *findings_ret,
                          struct stp_error *err);

/* Applies the fixes of the findings to the policy's text, and changes no other
 * byte. Comments of removed rules stay as lines of their own. The result
 * decides as the old policy, but for sizes above 4294967295 that no rule
 * decided.
 *
 * Returns a text of *len_ret bytes, to be freed with free(). */
char *stp_check_fix(const char *csv, size_t len,
                    const struct stp_findings *findings, size_t *len_ret);

void stp_findings_free(struct stp_findings *findings);

/* For check.c: sets the columns of findings in the 'len' bytes at 'csv', which
 * the parsed policy does not know, and sorts them by line and column. */
void stp_findings_place(struct stp_findings *findings, const char *csv,
                        size_t len);
