#include "core/looks.h"
#include "core/policy/policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/policy/baseline.h"
#include "core/policy/policy_columns.h"
#include "core/rng.h"
#include "core/room.h"
#include "core/text.h"

struct stp_policy {
    const struct stp_policy_format *format;
    struct stp_rule *rules;
    size_t n_rules;
    size_t capacity;
    bool same_bits;
    char over[STP_BASELINE_WORDS]; /* stp_policy_baseline() */
    struct stp_gpu_name *gpus;
};

static const struct stp_rule default_rule = {
    .bytes = {0, UINT64_MAX},
    .bytes_per_rank = {0, UINT64_MAX},
    .nodes = {1, UINT64_MAX},
    .ranks = {1, UINT64_MAX},
    .n_pipe_ops = -1,
    .reg_buff = -1,
    .overlap = -1,
    .graph = -1,
};

struct parser {
    struct stp_policy *policy;
    const struct stp_column *columns[STP_N_COLUMNS]; /* in the file's order */
    size_t min_fields, max_fields;
    bool has_header;
    bool past_header; /* or past where it would stand */
    unsigned line;
    struct stp_error *err;
};

/* A line split up; 'n' may be more than there is room for. */
struct fields {
    size_t n;
    struct stp_field at[STP_N_COLUMNS + 1];
};

/* ---- header ---- */

static bool policy_has_column(const struct parser *p, size_t n,
                              const struct stp_column *col)
{
    for (size_t i = 0; i < n; i++)
        if (p->columns[i] == col)
            return true;
    return false;
}

/* More fields than there are columns cannot all differ, so that this ends
 * before it runs out of room. */
static enum stp_status policy_read_header(struct parser *p,
                                          const struct fields *f)
{
    const struct stp_policy_format *format = p->policy->format;
    struct stp_column_names names;
    struct stp_shown shown;

    for (size_t i = 0; i < f->n; i++) {
        const struct stp_column *col = stp_column_find(format->kind, &f->at[i]);
        bool is_known = false; /* of some kind */

        for (int kind = 0; kind < STP_N_POLICY_KINDS; kind++)
            is_known |= stp_column_find(kind, &f->at[i]) != NULL;
        if (col == NULL && is_known)
            return stp_fail_at(p->err, STP_ERR_SYNTAX, p->line, f->at[i].column,
                               "column '%s' is of another kind of policy, "
                               "expected one %s, which has at least %s",
                               stp_show(&f->at[i], &shown), format->is_for,
                               format->least);
        if (col == NULL)
            return stp_fail_at(p->err, STP_ERR_SYNTAX, p->line, f->at[i].column,
                               "unknown column '%s', expected %s",
                               stp_show(&f->at[i], &shown),
                               stp_column_names(format->kind, &names));
        if (policy_has_column(p, i, col))
            return stp_fail_at(p->err, STP_ERR_SYNTAX, p->line, f->at[i].column,
                               "column '%s' is named twice, expected each once",
                               col->name);
        p->columns[i] = col;
    }
    for (size_t i = 0; i < STP_N_COLUMNS; i++)
        if (stp_columns[i].required &&
            stp_column_is_of(&stp_columns[i], format->kind) &&
            !policy_has_column(p, f->n, &stp_columns[i]))
            return stp_fail_at(p->err, STP_ERR_SYNTAX, p->line, f->at[0].column,
                               "the header lacks '%s', expected at least %s",
                               stp_columns[i].name, format->least);
    p->min_fields = p->max_fields = f->n;
    p->has_header = true;
    return STP_OK;
}

/* ---- rules ---- */

/* 'max' follows 'min' in stp_columns. */
static enum stp_status policy_check_order(const struct parser *p,
                                          const struct fields *f,
                                          const struct stp_range *range,
                                          const char *min)
{
    size_t i = 0;

    if (range->min <= range->max)
        return STP_OK;
    while (strcmp(p->columns[i]->name, min) != 0)
        i++;
    return stp_fail_at(p->err, STP_ERR_SYNTAX, p->line, f->at[i].column,
                       "%s %" PRIu64 " is above %s %" PRIu64, min, range->min,
                       p->columns[i][1].name, range->max);
}

static enum stp_status policy_read_fields(const struct parser *p,
                                          const struct fields *f,
                                          struct stp_rule *rule)
{
    struct stp_cell cell = {
        .line = p->line, .gpus = &p->policy->gpus, .err = p->err};
    const bool many = f->n > p->max_fields;
    /* to blame for the number: the first field too many, or the line's end */
    const struct stp_field *at = &f->at[many ? p->max_fields : f->n - 1];
    const unsigned column = at->column + (many ? 0 : (unsigned)at->len);
    enum stp_status status = STP_OK;

    if (p->has_header && f->n != p->max_fields)
        return stp_fail_at(p->err, STP_ERR_SYNTAX, p->line, column,
                           "expected %zu fields as in the header, found %zu",
                           p->max_fields, f->n);
    if (f->n < p->min_fields || many)
        return stp_fail_at(p->err, STP_ERR_SYNTAX, p->line, column,
                           "expected a rule of %zu to %zu fields%s, found %zu",
                           p->min_fields, p->max_fields,
                           many ? " (more below a header line)"
                                : " (such as allreduce,0,1M,ring,ll128,-1,1,8)",
                           f->n);
    for (size_t i = 0; i < f->n && status == STP_OK; i++) {
        cell.field = &f->at[i];
        status = stp_column_read(p->columns[i], &cell, rule);
    }
    STP_THEN(status, policy_check_order(p, f, &rule->bytes, "min_bytes"));
    STP_THEN(status, policy_check_order(p, f, &rule->bytes_per_rank,
                                        "min_bytes_per_rank"));
    return status;
}

static enum stp_status policy_read_rule(struct parser *p,
                                        const struct fields *f)
{
    struct stp_policy *policy = p->policy;
    struct stp_shown shown;
    struct stp_rule *rule;
    enum stp_status status;

    if (policy->n_rules == STP_MAX_RULES)
        return stp_fail_at(p->err, STP_ERR_LIMIT, p->line, 0,
                           "more than %d rules", STP_MAX_RULES);
    if (!STP_ROOM(policy->rules, policy->n_rules, policy->capacity))
        return stp_nomem(p->err);
    rule = &policy->rules[policy->n_rules];
    *rule = default_rule;
    rule->line = p->line;
    status = policy_read_fields(p, f, rule);
    if (status == STP_OK)
        policy->n_rules++;
    else if (status == STP_ERR_SYNTAX &&
             stp_column_find(policy->format->kind, &f->at[0]) != NULL)
        return stp_fail_at(p->err, STP_ERR_SYNTAX, p->line, f->at[0].column,
                           "header word '%s' in the wrong place, expected one "
                           "header line at most, before the first rule",
                           stp_show(&f->at[0], &shown));
    return status;
}

/* ---- lines ---- */

/* These would hide rules: an editor shows none of them. */
static enum stp_status policy_check_bytes(const struct parser *p,
                                          const char *line, size_t len)
{
    static const struct {
        char first;
        size_t len;
        const char *bytes, *text;
    } bad[] = {
        {'\0', 1, "", "NUL byte, expected text"},
        {'\r', 1, "\r", "stray carriage return, expected LF or CRLF line ends"},
        {'\xEF', 3, "\xEF\xBB\xBF",
         "byte order mark, expected only at the very start"},
    };
    const char *end = line + len;

    for (size_t i = 0; i < STP_N_OF(bad); i++) {
        const char *s = line;

        while ((s = memchr(s, bad[i].first, (size_t)(end - s))) != NULL) {
            if ((size_t)(end - s) >= bad[i].len &&
                memcmp(s, bad[i].bytes, bad[i].len) == 0)
                return stp_fail_at(p->err, STP_ERR_SYNTAX, p->line,
                                   (unsigned)(s - line) + 1, "%s", bad[i].text);
            s++;
        }
    }
    return STP_OK;
}

/* Reads a line that begins with '#': one that is about bits must be "# bits:
 * same", as a word that nobody reads would be believed.  STP_BASELINE_BEGIN is
 * followed by words and " is". */
static enum stp_status policy_read_comment(const struct parser *p,
                                           const char *line, size_t len)
{
    static const char key[] = "# bits:";
    struct stp_field value = {line + strlen(key), len - strlen(key),
                              (unsigned)strlen(key) + 1};
    const size_t n = strlen(STP_BASELINE_BEGIN);
    struct stp_shown shown;

    if (len > n && memcmp(line, STP_BASELINE_BEGIN, n) == 0) {
        const size_t plain = strlen(STP_BASELINE_PLAIN);
        const char *over = line + n, *end;

        if (len > n + plain && memcmp(over, STP_BASELINE_PLAIN, plain) == 0)
            over += plain;
        for (end = over; end < line + len - 4 && memcmp(end, " is ", 4) != 0;)
            end++;
        snprintf(p->policy->over, STP_BASELINE_WORDS, "%.*s", (int)(end - over),
                 over);
        return STP_OK;
    }
    if (len < strlen(key) || memcmp(line, key, strlen(key)) != 0)
        return STP_OK;
    if (!stp_field_is(&value, " same"))
        return stp_fail_at(p->err, STP_ERR_SYNTAX, p->line, value.column,
                           "bits '%s', expected the line '%s same', or no line "
                           "of bits",
                           stp_show(&value, &shown), key);
    p->policy->same_bits = true;
    return STP_OK;
}

static enum stp_status policy_read_line(struct parser *p, const char *line,
                                        size_t len)
{
    const struct stp_policy_format *format = p->policy->format;
    struct stp_shown shown;
    const char *comment;
    struct fields f;
    bool is_first;

    if (len > STP_MAX_LINE)
        return stp_fail_at(p->err, STP_ERR_SYNTAX, p->line, STP_MAX_LINE + 1,
                           "line of %zu bytes, expected at most %d", len,
                           STP_MAX_LINE);
    STP_TRY(policy_check_bytes(p, line, len));
    comment = memchr(line, '#', len);
    if (comment == line)
        return policy_read_comment(p, line, len);
    if (comment != NULL)
        len = (size_t)(comment - line);

    f.n = stp_split(line, len, f.at, STP_N_COLUMNS + 1);
    if (f.n == 1 && f.at[0].len == 0)
        return STP_OK;
    /* The first line that is no comment is a header, or a rule where a file
     * needs none. */
    is_first = !p->past_header;
    p->past_header = true;
    if (is_first && stp_column_find(format->kind, &f.at[0]) != NULL)
        return policy_read_header(p, &f);
    if (is_first && format->max_plain == 0)
        return stp_fail_at(p->err, STP_ERR_SYNTAX, p->line, f.at[0].column,
                           "'%s' is no column, expected a header line that "
                           "names at least %s",
                           stp_show(&f.at[0], &shown), format->least);
    return policy_read_rule(p, &f);
}

enum stp_status stp_policy_parse(enum stp_policy_kind kind, const char *csv,
                                 size_t len, struct stp_policy **policy_ret,
                                 struct stp_error *err)
{
    const struct stp_policy_format *format = &stp_policy_formats[kind];
    struct parser p = {.min_fields = format->min_plain,
                       .max_fields = format->max_plain,
                       .err = err};
    const char *line, *what, *text = csv, *end = csv + len;
    enum stp_status status = STP_OK;

    if (len > STP_MAX_FILE)
        return stp_fail(err, STP_ERR_LIMIT,
                        "is larger than %d bytes, the most that is read",
                        STP_MAX_FILE);
    p.policy = calloc(1, sizeof(*p.policy));
    if (p.policy == NULL)
        return stp_nomem(err);
    p.policy->format = format;
    for (size_t i = 0; i < format->max_plain; i++)
        p.columns[i] = &stp_columns[i];
    csv = stp_past_bom(csv, &len);
    while (status == STP_OK &&
           (line = stp_next_line(&csv, end, &len)) != NULL) {
        p.line++;
        status = policy_read_line(&p, line, len);
    }
    what = stp_looks_like(text, (size_t)(end - text));
    if (status == STP_ERR_SYNTAX && p.policy->n_rules == 0 && what != NULL &&
        strstr(what, "CSV") == NULL) /* that may be one with a fault */
        stp_refuse_kind(text, (size_t)(end - text),
                        "a policy (steptune-policy(5))", err);
    if (status == STP_OK)
        *policy_ret = p.policy;
    else
        stp_policy_free(p.policy);
    return status;
}

enum stp_status stp_policy_load(enum stp_policy_kind kind, const char *path,
                                struct stp_policy **policy_ret,
                                struct stp_error *err)
{
    enum stp_status status;
    char *text;
    size_t len;

    STP_TRY(stp_read_file(path, STP_MAX_FILE, &text, &len, err));
    status = stp_policy_parse(kind, text, len, policy_ret, err);
    free(text);
    return status;
}

void stp_policy_free(struct stp_policy *policy)
{
    if (policy == NULL)
        return;
    for (struct stp_gpu_name *gpu = policy->gpus, *next; gpu; gpu = next) {
        next = gpu->next;
        free(gpu);
    }
    free(policy->rules);
    free(policy);
}

size_t stp_policy_size(const struct stp_policy *policy)
{
    return policy->n_rules;
}

const struct stp_rule *stp_policy_rule(const struct stp_policy *policy,
                                       size_t i)
{
    return &policy->rules[i];
}

enum stp_policy_kind stp_policy_get_kind(const struct stp_policy *policy)
{
    return policy->format->kind;
}

bool stp_policy_same_bits(const struct stp_policy *policy)
{
    return policy->same_bits;
}

const char *stp_policy_baseline(const struct stp_policy *policy)
{
    return policy->over;
}

/* ---- hash ---- */

static uint64_t policy_mix_range(uint64_t hash, const struct stp_range *range)
{
    return stp_hash(stp_hash(hash, range->min), range->max);
}

uint64_t stp_policy_hash(const struct stp_policy *policy)
{
    uint64_t hash = policy->n_rules;

    for (size_t i = 0; i < policy->n_rules; i++) {
        const struct stp_rule *rule = &policy->rules[i];

        hash = stp_hash(hash, (uint64_t)rule->coll << 32 |
                                  (uint64_t)rule->algo << 24 |
                                  (uint64_t)rule->proto << 16 |
                                  (uint64_t)rule->n_channels << 8 |
                                  (uint64_t)(rule->reg_buff + 1));
        hash = policy_mix_range(hash, &rule->bytes);
        hash = policy_mix_range(hash, &rule->bytes_per_rank);
        hash = policy_mix_range(hash, &rule->nodes);
        hash = policy_mix_range(hash, &rule->ranks);
        hash = stp_hash(hash, (uint64_t)(uint32_t)rule->n_pipe_ops << 32 |
                                  rule->chunk_bytes);
        /* any GPU is told apart from every name */
        for (const char *s = rule->gpu; s != NULL && *s != '\0'; s++)
            hash = stp_hash(hash, (unsigned char)*s);
        hash = stp_hash(hash, rule->gpu != NULL ? 0 : 256);
        if (stp_policy_get_kind(policy) != STP_POLICY_OF_ARMS)
            hash = stp_hash(hash, (uint64_t)(rule->graph + 1) << 32 |
                                      (uint64_t)rule->min_ctas << 16 |
                                      (uint64_t)rule->memory << 8 |
                                      (uint64_t)(rule->overlap + 1));
    }
    if (policy->same_bits)
        hash = stp_hash(hash, STP_N_POLICY_KINDS);
    return hash != 0 ? hash : 1;
}
