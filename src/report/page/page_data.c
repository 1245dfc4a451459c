/* page_data.c - what the page is made of: files into rows, a size each */
#include <stdlib.h>
#include <string.h>

#include "analyse/order.h"
#include "core/text.h"
#include "nccl_tuner_abi.h"
#include "report/measurements/measurements_any.h"
#include "report/page/page_parts.h"

/* ---- reading ---- */

/* An error about a file, with its name. */
static enum stp_status blame(enum stp_status status, const char *path,
                             struct stp_error *err)
{
    struct stp_error bare;

    if (status == STP_OK || err == NULL)
        return status;
    bare = *err;
    stp_error_string(&bare, stp_base_name(path), err->text, sizeof(err->text));
    err->line = err->column = 0;
    return status;
}

static enum stp_status read_policy(const char *path,
                                   struct stp_page_policy *policy,
                                   struct stp_error *err)
{
    enum stp_status status = STP_OK;

    if (path == NULL)
        return STP_OK;
    policy->name = stp_base_name(path);
    status =
        stp_read_file(path, STP_MAX_FILE, &policy->text, &policy->len, err);
    if (status == STP_OK)
        status =
            stp_policy_parse(policy->text, policy->len, &policy->rules, err);
    return blame(status, path, err);
}

/*
 * Sums up rounds whose single iterations nobody kept: a round is then one
 * iteration, of its median, which is all that gains are made of.
 */
static enum stp_status sum_up_rounds(const struct stp_dataset *data,
                                     struct stp_iteration_summary *summary,
                                     struct stp_error *err)
{
    struct stp_iterations rounds = {.data = *data, .n_samples = data->n_rows};
    enum stp_status status;
    size_t n = data->n_rows + 1;

    rounds.data.rows = calloc(n, sizeof(*rounds.data.rows));
    rounds.sample_us = calloc(n, sizeof(*rounds.sample_us));
    if (rounds.data.rows == NULL || rounds.sample_us == NULL) {
        status = stp_nomem(err);
    } else {
        for (size_t i = 0; i < data->n_rows; i++) {
            rounds.data.rows[i] = data->rows[i];
            rounds.data.rows[i].iters = 1;
            rounds.sample_us[i] = data->rows[i].us.median;
        }
        status = stp_summarise_iterations(&rounds, summary, err);
    }
    free(rounds.data.rows);
    free(rounds.sample_us);
    return status;
}

static enum stp_status sum_up_iterations(struct stp_page_set *set,
                                         struct stp_error *err)
{
    enum stp_status status = sum_up_rounds(&set->data, &set->iterations, err);

    if (status != STP_OK)
        return status;
    set->regimes = calloc(set->iterations.n_settings, sizeof(*set->regimes));
    if (set->regimes == NULL)
        return stp_nomem(err);
    set->n_regimes = stp_find_regimes(&set->iterations, 0, set->regimes);
    return STP_OK;
}

static enum stp_status sum_up_set(struct stp_page_set *set, bool iterates,
                                  struct stp_error *err)
{
    size_t n = stp_dataset_n_iterations(&set->data);

    if (set->data.n_rows == 0)
        return stp_fail(err, STP_ERR_SYNTAX, "no measurements in it");
    if (n != (iterates ? set->data.n_rows : 0))
        return stp_fail(err, STP_ERR_SYNTAX,
                        "%zu of %zu rows are of iterations, expected %s", n,
                        set->data.n_rows, iterates ? "all" : "none");
    return iterates ? sum_up_iterations(set, err)
                    : stp_compare(&set->data, &set->comparisons, err);
}

static enum stp_status read_set(const char *path, bool iterates,
                                struct stp_page_set *set, struct stp_error *err)
{
    enum stp_status status;

    if (path == NULL)
        return STP_OK;
    set->name = stp_base_name(path);
    status = stp_measurements_load_any(path, -1, &set->data, err);
    if (status == STP_OK)
        status = sum_up_set(set, iterates, err);
    return blame(status, path, err);
}

/* ---- rows ---- */

/* As stp_compare() sorts points, without the size. */
static int order_kinds(const struct stp_point *a, const struct stp_point *b)
{
    const struct stp_measurement x = {.coll = a->coll,
                                      .n_nodes = a->n_nodes,
                                      .n_ranks = a->n_ranks,
                                      .type = a->type,
                                      .op = a->op,
                                      .root = a->root,
                                      .in_place = a->in_place};
    const struct stp_measurement y = {.coll = b->coll,
                                      .n_nodes = b->n_nodes,
                                      .n_ranks = b->n_ranks,
                                      .type = b->type,
                                      .op = b->op,
                                      .root = b->root,
                                      .in_place = b->in_place};

    return stp_order_kinds(&x, &y);
}

static int order_points(const struct stp_point *a, const struct stp_point *b)
{
    int order = order_kinds(a, b);

    return order != 0 ? order : STP_ORDER(a->n_bytes, b->n_bytes);
}

/* Both in one order: a row for each size that is in either. */
static bool merge(struct stp_page_data *data)
{
    const struct stp_comparisons *s = &data->sets[STP_PAGE_SWEEP].comparisons;
    const struct stp_comparisons *t = &data->sets[STP_PAGE_VERIFY].comparisons;
    size_t i = 0, j = 0;

    data->rows = calloc(s->n_points + t->n_points + 1, sizeof(*data->rows));
    if (data->rows == NULL)
        return false;
    while (i < s->n_points || j < t->n_points) {
        struct stp_page_row *row = &data->rows[data->n_rows++];
        int order = i == s->n_points ? 1
                    : j == t->n_points
                        ? -1
                        : order_points(&s->points[i], &t->points[j]);

        if (order <= 0)
            row->swept = &s->points[i++];
        if (order >= 0)
            row->tried = &t->points[j++];
        row->point = row->tried != NULL ? row->tried : row->swept;
    }
    return true;
}

static const struct stp_comparison *fastest(const struct stp_point *p)
{
    const struct stp_comparison *best = NULL;

    for (size_t i = 0; i < p->n_arms; i++) {
        const struct stp_comparison *c = &p->arms[i];

        if (c->arm.kind == STP_ARM_FORCED && c->gain.gain > 1 &&
            (best == NULL || c->gain.gain > best->gain.gain))
            best = c;
    }
    return best;
}

/* What the rules answer, as if NCCL had ruled out no pair. */
static bool look_up(const struct stp_compiled *compiled,
                    const struct stp_point *p, struct stp_choice *choice)
{
    static const float cost[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS] = {{0}};
    const struct stp_cost_view view = {&cost[0][0], NCCL_NUM_ALGORITHMS,
                                       NCCL_NUM_PROTOCOLS};
    const struct stp_query query = {
        .coll = p->coll, .n_bytes = p->n_bytes, .n_pipe_ops = 1};

    return stp_compiled_lookup(compiled, &query, &view, choice);
}

static void fill_row(struct stp_page_row *row,
                     const struct stp_compiled *compiled)
{
    struct stp_choice choice;

    if (row->swept != NULL)
        row->best = fastest(row->swept);
    if (row->tried != NULL)
        row->policy = stp_verify_arm(row->tried);
    if (compiled != NULL && look_up(compiled, row->point, &choice)) {
        const struct stp_arm arm = {STP_ARM_FORCED, choice.algo, choice.proto,
                                    choice.n_channels};

        row->line = choice.line;
        if (row->tried == NULL)
            row->policy = stp_point_arm(row->swept, &arm);
    }
    row->verdict = row->policy != NULL
                       ? stp_verify_comparison(row->point, row->policy)
                       : STP_VERDICT_SAME;
}

/* The 'n' rows of one panel, which are of one communicator. */
static enum stp_status fill_panel(const struct stp_page_data *data,
                                  struct stp_page_row *rows, size_t n,
                                  struct stp_error *err)
{
    const struct stp_dataset *from =
        &data->sets[rows->swept != NULL ? STP_PAGE_SWEEP : STP_PAGE_VERIFY]
             .data;
    const struct stp_shape shape = {.n_ranks = rows->point->n_ranks,
                                    .n_nodes = rows->point->n_nodes,
                                    .gpu = from->gpu[0] != '\0' ? from->gpu
                                                                : NULL};
    struct stp_compiled *compiled = NULL;
    enum stp_status status = STP_OK;

    if (data->policy.rules != NULL)
        status = stp_policy_compile(data->policy.rules, &shape, &compiled, err);
    for (size_t i = 0; i < n && status == STP_OK; i++)
        fill_row(&rows[i], compiled);
    stp_compiled_free(compiled);
    return status;
}

static enum stp_status make_panels(struct stp_page_data *data,
                                   struct stp_error *err)
{
    enum stp_status status = STP_OK;

    data->panels = calloc(data->n_rows + 1, sizeof(*data->panels));
    if (data->panels == NULL)
        return stp_nomem(err);
    for (size_t i = 0; i < data->n_rows && status == STP_OK;) {
        struct stp_page_panel *panel = &data->panels[data->n_panels++];
        size_t n = 1;

        while (i + n < data->n_rows &&
               order_kinds(data->rows[i].point, data->rows[i + n].point) == 0)
            n++;
        *panel = (struct stp_page_panel){&data->rows[i], n};
        status = fill_panel(data, &data->rows[i], n, err);
        i += n;
    }
    return status;
}

bool stp_page_gain(const struct stp_page_row *row, struct stp_gain *gain_ret)
{
    static const struct stp_gain none = {.gain = 1, .low = 1, .high = 1};

    if (row->policy == NULL && row->line > 0)
        return false;
    *gain_ret = row->policy != NULL ? row->policy->gain : none;
    return true;
}

double stp_page_policy_us(const struct stp_page_row *row)
{
    return row->policy != NULL ? row->policy->us : row->point->auto_us;
}

/* ---- all of it ---- */

static enum stp_status read_all(const struct stp_page_sources *s,
                                struct stp_page_data *data,
                                struct stp_error *err)
{
    const char *const sets[STP_PAGE_N_SETS] = {
        [STP_PAGE_SWEEP] = s->sweep,
        [STP_PAGE_VERIFY] = s->verify,
        [STP_PAGE_ITERATIONS] = s->iterations,
        [STP_PAGE_OVERLAP_VERIFY] = s->overlap_verify,
    };
    enum stp_status status = read_policy(s->policy, &data->policy, err);
    bool any = false;

    if (status == STP_OK)
        status = read_policy(s->overlap_policy, &data->overlap, err);
    for (int i = 0; i < STP_PAGE_N_SETS && status == STP_OK; i++) {
        any |= sets[i] != NULL;
        status =
            read_set(sets[i], i >= STP_PAGE_ITERATIONS, &data->sets[i], err);
    }
    if (status == STP_OK && !any)
        status = stp_fail(err, STP_ERR_RANGE,
                          "no measurements, expected those that the policy was "
                          "made from, such as STEM.sweep.csv");
    return status;
}

enum stp_status stp_page_read(const struct stp_page_sources *sources,
                              struct stp_page_data *data, struct stp_error *err)
{
    enum stp_status status;

    memset(data, 0, sizeof(*data));
    data->title = sources->title;
    status = read_all(sources, data, err);
    if (status == STP_OK && !merge(data))
        status = stp_nomem(err);
    if (status == STP_OK)
        status = make_panels(data, err);
    if (status == STP_OK)
        stp_page_sum_up(data, &data->summary);
    return status;
}

static void free_policy(struct stp_page_policy *policy)
{
    free(policy->text);
    stp_policy_free(policy->rules);
}

void stp_page_free(struct stp_page_data *data)
{
    for (int i = 0; i < STP_PAGE_N_SETS; i++) {
        stp_comparisons_free(&data->sets[i].comparisons);
        stp_iteration_summary_free(&data->sets[i].iterations);
        stp_dataset_free(&data->sets[i].data);
        free(data->sets[i].regimes);
    }
    free_policy(&data->policy);
    free_policy(&data->overlap);
    free(data->rows);
    free(data->panels);
}
