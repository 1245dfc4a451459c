#include "report/page/page_data.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/objective.h"
#include "analyse/order.h"
#include "core/policy/memory_policy.h"
#include "core/text.h"
#include "nccl_tuner_abi.h"
#include "report/measurements/measurements_csv.h"

/* ---- reading ---- */

/* Puts the file's name in front of the error's text. */
static enum stp_status page_name_file(enum stp_status status, const char *path,
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

static enum stp_status page_read_policy(const char *path, int source,
                                        struct stp_page_policy *policy,
                                        struct stp_error *err)
{
    enum stp_status status;
    size_t len;

    policy->name = stp_base_name(path);
    status = stp_read_file(path, STP_MAX_FILE, &policy->text, &len, err);
    if (status == STP_OK && source == STP_PAGE_MEMORY_POLICY)
        status =
            stp_memory_policy_parse(policy->text, len, &policy->rules, err);
    else if (status == STP_OK)
        status = stp_policy_parse(policy->text, len, &policy->rules, err);
    if (status != STP_OK)
        return status;
    stp_policy_hash_name(policy->rules, policy->hash);
    stp_policy_mark_read(policy->text, len, &policy->mark);
    return STP_OK;
}

/*
 * The file holds no single iterations, only rounds: each round is summed up as
 * one iteration of the round's median, which is all that gains need.
 */
static enum stp_status page_sum_rounds(const struct stp_dataset *data,
                                       struct stp_iteration_summary *summary,
                                       struct stp_error *err)
{
    struct stp_iterations rounds = {.data = *data, .n_samples = data->n_rows};
    enum stp_status status;

    rounds.data.rows = calloc(data->n_rows, sizeof(*rounds.data.rows));
    rounds.sample_us = calloc(data->n_rows, sizeof(*rounds.sample_us));
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

static enum stp_status page_sum_iterations(struct stp_page_set *set,
                                           struct stp_error *err)
{
    enum stp_status status = page_sum_rounds(&set->data, &set->iterations, err);

    if (status != STP_OK)
        return status;
    set->regimes = calloc(set->iterations.n_settings, sizeof(*set->regimes));
    if (set->regimes == NULL)
        return stp_nomem(err);
    set->n_regimes = stp_find_regimes(&set->iterations, 0, set->regimes);
    return STP_OK;
}

static enum stp_status page_sum_set(struct stp_page_set *set, bool iterates,
                                    struct stp_error *err)
{
    size_t n = stp_dataset_n_iterations(&set->data);

    if (set->data.n_rows == 0)
        return stp_fail(err, STP_ERR_SYNTAX, "no measurements in it");
    if (n != (iterates ? set->data.n_rows : 0))
        return stp_fail(err, STP_ERR_SYNTAX,
                        "%zu of %zu rows are of iterations, expected %s", n,
                        set->data.n_rows, iterates ? "all" : "none");
    return iterates ? page_sum_iterations(set, err)
                    : stp_compare(&set->data, &set->comparisons, err);
}

static enum stp_status page_read_set(const char *path, bool iterates,
                                     struct stp_page_set *set,
                                     struct stp_error *err)
{
    enum stp_status status;

    set->name = stp_base_name(path);
    status = stp_measurements_load_any(path, -1, &set->data, err);
    STP_THEN(status, page_sum_set(set, iterates, err));
    return status;
}

/* ---- rows ---- */

/* The panel that a point belongs to, as stp_order_kinds() takes it. */
static struct stp_measurement page_kind(const struct stp_point *p)
{
    return (struct stp_measurement){.coll = p->coll,
                                    .n_nodes = p->n_nodes,
                                    .n_ranks = p->n_ranks,
                                    .type = p->type,
                                    .op = p->op,
                                    .root = p->root,
                                    .in_place = p->in_place};
}

/* By panel, then size: the order of stp_compare(). */
static int page_order_points(const struct stp_point *a,
                             const struct stp_point *b)
{
    const struct stp_measurement x = page_kind(a), y = page_kind(b);
    int order = stp_order_kinds(&x, &y);

    return order != 0 ? order : STP_ORDER(a->n_bytes, b->n_bytes);
}

/* Makes a row of each size that the sweep or the verification has. */
static bool page_merge_sets(struct stp_page_data *data)
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
                        : page_order_points(&s->points[i], &t->points[j]);

        if (order <= 0)
            row->swept = &s->points[i++];
        if (order >= 0)
            row->tried = &t->points[j++];
        row->point = row->tried != NULL ? row->tried : row->swept;
    }
    return true;
}

/* NULL if none is faster than AUTO; what NCCL chose by itself is none. */
static const struct stp_comparison *page_fastest_arm(const struct stp_point *p)
{
    const struct stp_comparison *best = NULL;

    for (size_t i = 0; i < p->n_arms; i++) {
        const struct stp_comparison *c = &p->arms[i];

        if (c->arm.kind == STP_ARM_FORCED && !stp_ran_as_auto(p, c) &&
            c->gain.gain > 1 &&
            (best == NULL || c->gain.gain > best->gain.gain))
            best = c;
    }
    return best;
}

/* NULL if the point has none. */
static const struct stp_comparison *
page_fastest_setup(const struct stp_point *p)
{
    const struct stp_comparison *best = NULL;

    for (size_t i = 0; i < p->n_arms; i++)
        if (p->arms[i].arm.kind == STP_ARM_SETUP &&
            (best == NULL || p->arms[i].gain.gain > best->gain.gain))
            best = &p->arms[i];
    return best;
}

/* Looks a point up as if NCCL had ruled out no algorithm or protocol. */
static bool page_look_up(const struct stp_compiled *compiled,
                         const struct stp_point *p, struct stp_choice *choice)
{
    static const float cost[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS] = {{0}};
    const struct stp_cost_view view = {&cost[0][0], NCCL_NUM_ALGORITHMS,
                                       NCCL_NUM_PROTOCOLS};
    const struct stp_query query = {
        .coll = p->coll, .n_bytes = p->n_bytes, .n_pipe_ops = 1};

    return stp_compiled_lookup(compiled, &query, &view, choice);
}

static void page_fill_row(struct stp_page_row *row,
                          const struct stp_compiled *compiled)
{
    struct stp_choice choice;

    if (row->swept != NULL) {
        row->best = page_fastest_arm(row->swept);
        row->setup = page_fastest_setup(row->swept);
    }
    if (row->tried != NULL)
        row->policy = stp_verify_arm(row->tried);
    if (compiled != NULL && page_look_up(compiled, row->point, &choice)) {
        const struct stp_arm arm = {.kind = STP_ARM_FORCED,
                                    .algo = choice.algo,
                                    .proto = choice.proto,
                                    .n_channels = choice.n_channels};

        row->line = choice.line;
        if (row->tried == NULL)
            row->policy = stp_point_arm(row->swept, &arm);
    }
    row->verdict = row->policy != NULL
                       ? stp_verify_comparison(row->point, row->policy)
                       : STP_VERDICT_SAME;
}

/* The 'n' rows of a panel are of one communicator. */
static enum stp_status page_fill_panel(const struct stp_page_data *data,
                                       struct stp_page_row *rows, size_t n,
                                       struct stp_error *err)
{
    const struct stp_policy *rules = data->policies[STP_PAGE_POLICY].rules;
    const struct stp_dataset *from =
        &data->sets[rows->swept != NULL ? STP_PAGE_SWEEP : STP_PAGE_VERIFY]
             .data;
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
    const struct stp_shape shape = {.n_ranks = rows->point->n_ranks,
                                    .n_nodes = rows->point->n_nodes,
                                    .gpu = from->gpu[0] != '\0' ? from->gpu
                                                                : NULL};
    struct stp_compiled *compiled = NULL;
    enum stp_status status = STP_OK;

    if (rules != NULL)
        status = stp_policy_compile(rules, &shape, &compiled, err);
    for (size_t i = 0; i < n && status == STP_OK; i++)
        page_fill_row(&rows[i], compiled);
    stp_compiled_free(compiled);
    return status;
}

static enum stp_status page_make_panels(struct stp_page_data *data,
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
               stp_point_alike(data->rows[i].point, data->rows[i + n].point))
            n++;
        *panel = (struct stp_page_panel){&data->rows[i], n};
        status = page_fill_panel(data, &data->rows[i], n, err);
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

const struct stp_page_set *stp_page_first_set(const struct stp_page_data *data)
{
    const struct stp_page_set *set = &data->sets[STP_PAGE_SWEEP];

    while (set->name == NULL)
        set++;
    return set;
}

struct stp_range stp_page_ranks(const struct stp_page_data *data)
{
    struct stp_range ranks = {.min = UINT64_MAX};

    for (int s = STP_PAGE_SWEEP; s < STP_PAGE_N_SOURCES; s++)
        for (size_t i = 0; i < data->sets[s].data.n_rows; i++) {
            const unsigned n = data->sets[s].data.rows[i].n_ranks;

            ranks.min = n < ranks.min ? n : ranks.min;
            ranks.max = n > ranks.max ? n : ranks.max;
        }
    return ranks;
}

/* ---- what to register ---- */

static enum stp_status page_measure_memory(struct stp_page_data *data,
                                           struct stp_error *err)
{
    const struct stp_policy *policy =
        data->policies[STP_PAGE_MEMORY_POLICY].rules;
    const struct stp_derive_terms terms = {.min_gain = STP_DERIVE_MIN_GAIN};
    struct stp_comparisons compared[2] = {0};
    const struct stp_memory_situation situations[] = {
        {false, &compared[0], terms}, {true, &compared[1], terms}};
    enum stp_status status = STP_OK;

    if (policy == NULL)
        return STP_OK;
    for (int i = 0; i < 2 && status == STP_OK; i++)
        status =
            stp_compare_registered(&data->sets[STP_PAGE_SWEEP].data,
                                   &data->sets[STP_PAGE_ITERATIONS].data,
                                   situations[i].overlaps, &compared[i], err);
    STP_THEN(status,
             stp_memory_rules_measure(policy, situations, 2,
                                      stp_page_first_set(data)->data.gpu,
                                      &data->memory, err));
    for (int i = 0; i < 2; i++)
        stp_comparisons_free(&compared[i]);
    return status;
}

/* ---- all of it ---- */

static enum stp_status page_read_files(const struct stp_page_sources *sources,
                                       struct stp_page_data *data,
                                       struct stp_error *err)
{
    enum stp_status status = STP_OK;

    for (int s = 0; s < STP_PAGE_N_SOURCES && status == STP_OK; s++) {
        const char *path = sources->path[s];

        if (path == NULL)
            continue;
        if (s < STP_PAGE_SWEEP)
            status = page_read_policy(path, s, &data->policies[s], err);
        else
            status = page_read_set(path, s >= STP_PAGE_ITERATIONS,
                                   &data->sets[s], err);
        status = page_name_file(status, path, err);
    }
    return status;
}

static enum stp_status page_require_sets(const struct stp_page_data *data,
                                         struct stp_error *err)
{
    for (int s = STP_PAGE_SWEEP; s < STP_PAGE_N_SOURCES; s++)
        if (data->sets[s].name != NULL)
            return STP_OK;
    if (data->n_warnings > 0)
        return stp_fail(err, STP_ERR_RANGE, "no measurements: %s",
                        data->warnings[0]);
    return stp_fail(err, STP_ERR_RANGE,
                    "no measurements, expected those that the policy was made "
                    "from, such as STEM.sweep.csv");
}

enum stp_status stp_page_read(const struct stp_page_sources *sources,
                              struct stp_page_data *data, struct stp_error *err)
{
    enum stp_status status;

    memset(data, 0, sizeof(*data));
    data->title = sources->title;
    status = page_read_files(sources, data, err);
    STP_THEN(status, stp_page_keep_own(sources, data, err));
    STP_THEN(status, page_require_sets(data, err));
    if (status == STP_OK && !page_merge_sets(data))
        status = stp_nomem(err);
    STP_THEN(status, page_make_panels(data, err));
    STP_THEN(status, page_measure_memory(data, err));
    return status;
}

void stp_page_drop_policy(struct stp_page_policy *policy)
{
    free(policy->text);
    stp_policy_free(policy->rules);
    *policy = (struct stp_page_policy){0};
}

void stp_page_drop_set(struct stp_page_set *set)
{
    stp_comparisons_free(&set->comparisons);
    stp_iteration_summary_free(&set->iterations);
    stp_dataset_free(&set->data);
    free(set->regimes);
    *set = (struct stp_page_set){0};
}

void stp_page_free(struct stp_page_data *data)
{
    for (int i = 0; i < STP_PAGE_N_SOURCES; i++)
        stp_page_drop_set(&data->sets[i]);
    for (int i = 0; i < STP_PAGE_SWEEP; i++)
        stp_page_drop_policy(&data->policies[i]);
    stp_memory_rules_free(&data->memory);
    free(data->rows);
    free(data->panels);
}
