#include "analyse/check/check.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/check/check_lines.h"
#include "analyse/check/check_parts.h"

/* Comparisons of two rules: some seconds. */
#define MAX_COMPARISONS (UINT64_C(1) << 30)

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

/* ---- findings ---- */

struct stp_finding *stp_check_add(struct stp_check_state *c, size_t i,
                                  enum stp_check_kind kind, const char *field)
{
    struct stp_findings *out = &c->out;
    struct stp_finding *finding;

    if (out->n == out->capacity) {
        size_t capacity = out->capacity > 0 ? 2 * out->capacity : 64;
        struct stp_finding *at = realloc(out->at, capacity * sizeof(*at));

        if (at == NULL) {
            stp_nomem(c->err);
            return NULL;
        }
        out->at = at;
        out->capacity = capacity;
    }
    finding = &out->at[out->n++];
    *finding = (struct stp_finding){
        .kind = kind,
        .line = stp_policy_rule(c->policy, i)->line,
        .field = field,
    };
    return finding;
}

enum stp_status stp_check_spend(struct stp_check_state *c, uint64_t n)
{
    if (n > c->budget)
        return stp_fail(c->err, STP_ERR_LIMIT,
                        "has so many rules, or such that overlap so much, that "
                        "it would take too long to check them");
    c->budget -= n;
    return STP_OK;
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

/* No two findings of one kind and column are about one rule. */
static int by_place(const void *a, const void *b)
{
    const struct stp_finding *x = a, *y = b;

    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    if (x->column != y->column)
        return x->column < y->column ? -1 : 1;
    return (int)x->kind - (int)y->kind;
}

static unsigned column_of(const struct stp_policy_lines *lines,
                          const char *name)
{
    const struct stp_field *field = NULL;

    if (name != NULL)
        field = stp_policy_lines_field(lines, name);
    return field != NULL ? field->column : lines->fields[0].column;
}

/* Where in their lines the findings are, which the policy does not know. */
static void place(struct stp_findings *findings, const char *csv, size_t len)
{
    struct stp_policy_lines lines;
    size_t i = 0;

    if (findings->n == 0)
        return;
    qsort(findings->at, findings->n, sizeof(*findings->at), by_place);
    stp_policy_lines_begin(&lines, csv, len);
    while (i < findings->n && stp_policy_lines_next(&lines))
        for (; i < findings->n && findings->at[i].line == lines.number; i++)
            findings->at[i].column = column_of(&lines, findings->at[i].field);
    qsort(findings->at, findings->n, sizeof(*findings->at), by_place);
}

/* ---- the check ---- */

static enum stp_status allocate(struct stp_check_state *c)
{
    size_t n = c->n + 1; /* none may be legal, and is no failure */

    c->boxes = malloc(n * sizeof(*c->boxes));
    c->idle = calloc(n, sizeof(*c->idle));
    c->met = malloc(n * sizeof(*c->met));
    c->counted = malloc(n * sizeof(*c->counted));
    c->by = malloc(n * sizeof(*c->by));
    c->used = malloc(n * sizeof(*c->used));
    if (c->boxes == NULL || c->idle == NULL || c->met == NULL ||
        c->counted == NULL || c->by == NULL || c->used == NULL)
        return stp_nomem(c->err);
    for (size_t i = 0; i < c->n; i++)
        c->boxes[i] = stp_box_of(stp_policy_rule(c->policy, i));
    return STP_OK;
}

static void release(struct stp_check_state *c)
{
    free(c->boxes);
    free(c->idle);
    free(c->met);
    free(c->counted);
    free(c->by);
    free(c->used);
}

static enum stp_status check_rules(struct stp_check_state *c)
{
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < c->n && status == STP_OK; i++)
        status = stp_check_shadows(c, i);
    for (size_t i = 0; i < c->n && status == STP_OK; i++)
        status = stp_check_gap(c, i);
    return status;
}

enum stp_status stp_check(const struct stp_check_options *options,
                          struct stp_findings *findings_ret,
                          struct stp_error *err)
{
    struct stp_check_state c = {.budget = MAX_COMPARISONS, .err = err};
    struct stp_policy *policy;
    enum stp_status status =
        stp_policy_parse(options->csv, options->len, &policy, err);

    if (status != STP_OK)
        return status;
    c.policy = policy;
    c.n = stp_policy_size(policy);
    status = allocate(&c);
    if (status == STP_OK)
        status = check_rules(&c);
    if (status == STP_OK && options->machine_path != NULL)
        status = stp_check_machine(&c, options->machine_path);
    release(&c);
    stp_policy_free(policy);
    if (status != STP_OK) {
        stp_findings_free(&c.out);
        return status;
    }
    place(&c.out, options->csv, options->len);
    *findings_ret = c.out;
    return STP_OK;
}
