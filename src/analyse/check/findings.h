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

    /* Earlier rules that match calls of the checked rule, then those of them
     * that may shadow it. */
    size_t *met, *counted;
    const struct stp_box **by;
    bool *used;

    struct stp_findings out;
    struct stp_finding lost; /* the one that there was no memory for */
    enum stp_status status;  /* of the first failure */
    struct stp_error *err;
};

/*
 * A new finding about rule 'i', in whose text one sentence is formatted unless
 * 'fmt' is NULL.  Valid until the next; never NULL: without memory, which
 * c->status says, it is not in the list.
 */
struct stp_finding *stp_check_add(struct stp_check_state *c, size_t i,
                                  enum stp_check_kind kind, const char *field,
                                  const char *fmt, ...) STP_PRINTF(5, 6);

/* Takes 'n' comparisons off those left; fails the check if there are not as
 * many. */
void stp_check_spend(struct stp_check_state *c, uint64_t n);

/* Adds a line that the finding has to do with. */
void stp_finding_other(struct stp_finding *finding, unsigned line);

#endif /* STP_FINDINGS_H */
