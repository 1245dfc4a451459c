/* simai.c - SimAI's workloads: workload/simAI of aliyun/aicb */
#include <stdlib.h>
#include <string.h>

#include "analyse/traces/formats.h"
#include "nccl_tuner_abi.h"

enum { N_FIELDS = 12, MAX_FIELDS = 64 };

/* A pass of a layer: compute, and then a collective. */
struct simai_pass {
    double us;
    struct stp_field word; /* NONE, or a collective, with a group */
    uint64_t n_bytes;
};

enum { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, N_PASSES };

struct simai_layer {
    struct simai_pass pass[N_PASSES];
    unsigned line;
};

struct simai {
    struct stp_trace_build *b;
    uint64_t tp, ep, pp;
    uint64_t world; /* 0: not known */
    uint64_t n_layers;
    uint64_t max_layers; /* that the text has room for */
    struct simai_layer *layers;
    size_t n_read;
    unsigned line;
    struct stp_error *err;
};

static const struct stp_trace_word words[] = {
    {"ALLREDUCE", ncclFuncAllReduce},
    {"ALLGATHER", ncclFuncAllGather},
    {"REDUCESCATTER", ncclFuncReduceScatter},
    {"BROADCAST", ncclFuncBroadcast},
    {"REDUCE", ncclFuncReduce},
    {NULL, 0},
};

/* Splits at blanks. */
static size_t simai_split(const char *line, size_t len,
                          struct stp_field f[MAX_FIELDS])
{
    size_t n = 0, at = 0;

    while (true) {
        size_t begin;

        while (at < len && (line[at] == ' ' || line[at] == '\t'))
            at++;
        if (at == len || n == MAX_FIELDS)
            return n;
        begin = at;
        while (at < len && line[at] != ' ' && line[at] != '\t')
            at++;
        f[n++] =
            (struct stp_field){line + begin, at - begin, (unsigned)begin + 1};
    }
}

static enum stp_status simai_refuse(const struct simai *w,
                                    const struct stp_field *f,
                                    const char *expected)
{
    return stp_fail_at(w->err, STP_ERR_SYNTAX, w->line, f->column,
                       "'%.*s', expected %s", STP_SHOWN(f), expected);
}

/* ---- the first two lines ---- */

/* "KEY: NUMBER" in the line of the parallelism. */
static enum stp_status simai_read_head(struct simai *w, const char *line,
                                       size_t len)
{
    const struct {
        const char *key;
        uint64_t *value;
    } keys[] = {{"model_parallel_NPU_group:", &w->tp},
                {"ep:", &w->ep},
                {"pp:", &w->pp},
                {"all_gpus:", &w->world}};
    struct stp_field f[MAX_FIELDS];
    const size_t n = simai_split(line, len, f);

    for (size_t i = 1; i < n; i++)
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
            if (stp_field_is(&f[i], keys[k].key) &&
                (i + 1 == n ||
                 !stp_parse_u64(f[i + 1].s, f[i + 1].len, keys[k].value) ||
                 *keys[k].value < 1 || *keys[k].value > MOCK_MAX_RANKS))
                return simai_refuse(w, &f[i + 1 < n ? i + 1 : i],
                                    "a number of ranks from 1");
    return STP_OK;
}

static enum stp_status simai_read_count(struct simai *w, const char *line,
                                        size_t len)
{
    struct stp_field f[MAX_FIELDS] = {{line, len, 1}};
    const size_t n = simai_split(line, len, f);

    if (n != 1 || !stp_parse_u64(f[0].s, f[0].len, &w->n_layers) ||
        w->n_layers < 1)
        return simai_refuse(w, &f[0], "the number of layers, from 1");
    w->layers =
        calloc(w->n_layers < w->max_layers ? w->n_layers : w->max_layers,
               sizeof(*w->layers));
    return w->layers != NULL ? STP_OK : stp_nomem(w->err);
}

/* ---- layers ---- */

static enum stp_status simai_read_pass(const struct simai *w,
                                       const struct stp_field f[3],
                                       struct simai_pass *pass)
{
    double ns;

    if (!stp_parse_double(f[0].s, f[0].len, &ns) || ns < 0)
        return simai_refuse(w, &f[0], "a time in ns");
    if (!stp_parse_u64(f[2].s, f[2].len, &pass->n_bytes))
        return simai_refuse(w, &f[2], "a number of bytes");
    pass->us = ns / 1e3;
    pass->word = f[1];
    return STP_OK;
}

/* "NAME DEPENDENCY", of each pass "TIME COLLECTIVE BYTES", "UPDATE". */
static enum stp_status simai_read_layer(struct simai *w, const char *line,
                                        size_t len)
{
    struct stp_field f[MAX_FIELDS];
    const size_t n = simai_split(line, len, f);
    enum stp_status status = STP_OK;
    struct simai_layer *layer;

    if (n == 0)
        return STP_OK;
    if (n != N_FIELDS)
        return stp_fail_at(w->err, STP_ERR_SYNTAX, w->line, 1,
                           "%zu fields, expected the %d of a layer", n,
                           N_FIELDS);
    if (w->n_read == w->n_layers)
        return stp_fail_at(w->err, STP_ERR_SYNTAX, w->line, 1,
                           "a further layer, expected the %ju of line 2",
                           (uintmax_t)w->n_layers);
    layer = &w->layers[w->n_read++];
    layer->line = w->line;
    for (int p = 0; p < N_PASSES && status == STP_OK; p++)
        status = simai_read_pass(w, &f[2 + 3 * p], &layer->pass[p]);
    return status;
}

/* ---- the step ---- */

/* The group of a word with its suffix, or of the pass: tensor-parallel, but
 * data-parallel for gradients of weights and where nothing is tensor-parallel.
 * 'len' becomes that of the word without the suffix. */
static struct stp_rank_groups simai_find_groups(const struct simai *w, int pass,
                                                const struct stp_field *word,
                                                size_t *len,
                                                const char **name_ret)
{
    const bool is_dp_ep =
        word->len > 6 && memcmp(word->s + word->len - 6, "_DP_EP", 6) == 0;
    const bool is_ep =
        word->len > 3 && memcmp(word->s + word->len - 3, "_EP", 3) == 0;
    const uint64_t stage = w->world / w->pp;

    *len = word->len - (is_dp_ep ? 6 : is_ep ? 3 : 0);
    *name_ret = is_dp_ep ? "dp_ep" : is_ep ? "ep" : "dp";
    if (is_dp_ep)
        return (struct stp_rank_groups){(unsigned)(stage / (w->tp * w->ep)),
                                        (unsigned)(w->tp * w->ep)};
    if (is_ep)
        return (struct stp_rank_groups){(unsigned)w->ep, (unsigned)w->tp};
    if (pass == WEIGHT_GRADIENT || w->tp == 1)
        return (struct stp_rank_groups){(unsigned)(stage / w->tp),
                                        (unsigned)w->tp};
    *name_ret = "tp";
    return (struct stp_rank_groups){(unsigned)w->tp, 1};
}

static enum stp_status simai_add_collective(const struct simai *w, int pass,
                                            const struct simai_pass *p,
                                            const struct stp_trace_place *place)
{
    const char *name;
    size_t len;
    const struct stp_rank_groups groups =
        simai_find_groups(w, pass, &p->word, &len, &name);
    struct stp_trace_message m = {.coll = stp_trace_word(words, p->word.s, len),
                                  .type = STP_TYPE_BF16,
                                  .op = STP_OP_SUM,
                                  .n_bytes = p->n_bytes,
                                  .place = *place};
    enum stp_status status;

    if (stp_field_is(&p->word, "NONE"))
        return STP_OK;
    if (m.coll < 0 || p->n_bytes == 0)
        return stp_trace_add_skip(w->b, p->word.s, p->word.len, place->line,
                                  w->err);
    status = stp_trace_need_groups(w->b, name, &groups, (int)w->world,
                                   place->line, &m.comm, w->err);
    return status == STP_ERR_NOTHING
               ? stp_trace_add_skip(w->b, p->word.s, p->word.len, place->line,
                                    w->err)
           : status == STP_OK ? stp_trace_add_message(w->b, &m, w->err)
                              : status;
}

/* Compute, then the collective: that of weights overlaps what follows. */
static enum stp_status simai_add_pass(const struct simai *w,
                                      const struct simai_layer *layer, int pass)
{
    struct stp_trace_place place = {.step = 1, .line = layer->line};
    enum stp_status status =
        stp_trace_add_time(w->b, layer->pass[pass].us, &place, w->err);

    if (pass == WEIGHT_GRADIENT)
        place.stream = STP_STREAM_COMM;
    return status == STP_OK
               ? simai_add_collective(w, pass, &layer->pass[pass], &place)
               : status;
}

/* Forward through all layers, and backward through them. */
static enum stp_status simai_add_step(const struct simai *w)
{
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < w->n_read && status == STP_OK; i++)
        status = simai_add_pass(w, &w->layers[i], FORWARD);
    for (size_t i = w->n_read; i-- > 0 && status == STP_OK;) {
        status = simai_add_pass(w, &w->layers[i], INPUT_GRADIENT);
        STP_THEN(status, simai_add_pass(w, &w->layers[i], WEIGHT_GRADIENT));
    }
    return status;
}

enum stp_status stp_read_simai(struct stp_trace_build *b, const char *text,
                               size_t len, struct stp_error *err)
{
    struct simai w = {.b = b,
                      .tp = 1,
                      .ep = 1,
                      .pp = 1,
                      .max_layers = len / (2 * N_FIELDS - 1) + 1,
                      .err = err};
    const char *s = text;
    const char *line;
    size_t n;
    enum stp_status status = STP_OK;

    b->trace.has_steps = true;
    while (status == STP_OK &&
           (line = stp_next_line(&s, text + len, &n)) != NULL) {
        w.line++;
        status = w.line == 1   ? simai_read_head(&w, line, n)
                 : w.line == 2 ? simai_read_count(&w, line, n)
                               : simai_read_layer(&w, line, n);
    }
    if (status == STP_OK && w.n_read != w.n_layers)
        status = stp_fail_at(err, STP_ERR_SYNTAX, w.line, 0,
                             "%zu layers, expected the %ju of line 2", w.n_read,
                             (uintmax_t)w.n_layers);
    STP_THEN(status, simai_add_step(&w));
    free(w.layers);
    return status;
}
