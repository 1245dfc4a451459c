/*
 * findings.h - the state of a check, and the findings that it collects
 */
#ifndef STP_FINDINGS_H
#define STP_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/check/check.h"
#include "analyse/check/check_cover.h"
#include "core/policy/policy.h"

struct stp_check_state {
    const struct stp_policy *policy;
    size_t n; /* rules */
    struct stp_box *boxes;
    bool *idle;      /* by rule: it never decides, and hides none */
    uint64_t budget; /* comparisons left */

    /* Earlier rules that meet the one being checked, then those that count. */
    size_t *met, *counted;
    const struct stp_box **by;
    bool *used;

    struct stp_findings out;
    struct stp_error *err;
};

/*
 * A new finding about rule 'i', whose text is still to be written; NULL without
 * memory, with c->err filled.
 */
struct stp_finding *stp_check_add(struct stp_check_state *c, size_t i,
                                  enum stp_check_kind kind, const char *field);

/* STP_ERR_LIMIT if there are not as many comparisons left. */
enum stp_status stp_check_spend(struct stp_check_state *c, uint64_t n);

/* Adds a line that the finding has to do with. */
void stp_finding_other(struct stp_finding *finding, unsigned line);

#endif /* STP_FINDINGS_H */
