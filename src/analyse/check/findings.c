#include "analyse/check/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    bool is_warning;
} kinds[STP_N_CHECK_KINDS] = {
    [STP_CHECK_DEAD] = {"dead", true},
    [STP_CHECK_SHADOWED] = {"shadowed", true},
    [STP_CHECK_NO_KERNEL] = {"no_kernel", true},
    [STP_CHECK_FALLBACK] = {"fallback", false},
    [STP_CHECK_OVERLAP] = {"overlap", false},
    [STP_CHECK_GAP] = {"gap", false},
    [STP_CHECK_NOT_THERE] = {"not_there", true},
    [STP_CHECK_CHANNELS] = {"channels", true},
    [STP_CHECK_ELSEWHERE] = {"elsewhere", false},
    [STP_CHECK_AS_NCCL] = {"as_nccl", false},
};

const char *stp_check_kind_name(enum stp_check_kind kind)
{
    return kinds[kind].name;
}

bool stp_check_is_warning(enum stp_check_kind kind)
{
    return kinds[kind].is_warning;
}

/* Room for another finding. */
static struct stp_finding *findings_grow(struct stp_check_state *c)
{
    struct stp_findings *out = &c->out;

    if (out->n == out->capacity) {
        size_t capacity = out->capacity > 0 ? 2 * out->capacity : 64;
        struct stp_finding *at = realloc(out->at, capacity * sizeof(*at));

        if (at == NULL) {
            c->status = stp_nomem(c->err);
            return &c->lost;
        }
        out->at = at;
        out->capacity = capacity;
    }
    return &out->at[out->n++];
}

struct stp_finding *stp_check_add(struct stp_check_state *c, size_t i,
                                  enum stp_check_kind kind, const char *field,
                                  const char *fmt, ...)
{
    struct stp_finding *finding = findings_grow(c);
    va_list args;

    *finding = (struct stp_finding){
        .kind = kind,
        .line = stp_policy_rule(c->policy, i)->line,
        .field = field,
    };
    va_start(args, fmt);
    if (fmt != NULL)
        vsnprintf(finding->text, sizeof(finding->text), fmt, args);
    va_end(args);
    return finding;
}

void stp_check_spend(struct stp_check_state *c, uint64_t n)
{
    if (n > c->budget && c->status == STP_OK)
        c->status =
            stp_fail(c->err, STP_ERR_LIMIT,
                     "has so many rules, or such that overlap so much, that "
                     "it would take too long to check them");
    else if (n <= c->budget)
        c->budget -= n;
}

void stp_finding_other(struct stp_finding *finding, unsigned line)
{
    if (finding->n_others < STP_FINDING_LINES)
        finding->others[finding->n_others] = line;
    finding->n_others++;
}

void stp_findings_free(struct stp_findings *findings)
{
    free(findings->at);
    memset(findings, 0, sizeof(*findings));
}
