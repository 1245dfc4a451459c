#include "report/page/page_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/order.h"
#include "analyse/wrong.h"
#include "core/names.h"
#include "launch/take.h"
#include "nccl_tuner_abi.h"
#include "report/measurements/measurements_csv.h"
#include "report/words.h"

#define WARN(data, ...)                                                        \
    STP_PAGE_ADD((data)->warnings[(data)->n_warnings++], __VA_ARGS__)

/* ---- reading ---- */

/* The file holds no single iterations, only rounds: each round is summed up as
 * one iteration of the round's median, which is all that gains need. */
static enum stp_status page_sum_iterations(struct stp_page_file *set,
                                           const struct stp_dataset *sweep,
                                           struct stp_error *err)
{
    const size_t n = set->data.n_rows;
    struct stp_iterations rounds = {.data = set->data};
    const struct stp_measurement **rows = stp_take(n, sizeof(*rows));
    enum stp_status status;

    STP_TAKE(rounds.data.rows, n);
    STP_TAKE(rounds.sample_us, n);
    for (size_t i = 0; i < n; i++)
        stp_take_wrong(sweep, &set->data.rows[i]);
    rounds.data.n_rows = rounds.n_samples =
        stp_right_rows(&set->data, true, rows);
    for (size_t i = 0; i < rounds.n_samples; i++) {
        rounds.data.rows[i] = *rows[i];
        rounds.data.rows[i].iters = 1;
        rounds.sample_us[i] = rows[i]->us.median;
    }
    status = stp_summarise_iterations(&rounds, &set->iterations, err);
    free(rows);
    free(rounds.data.rows);
    free(rounds.sample_us);
    if (status != STP_OK)
        return status;
    STP_TAKE(set->regimes, set->iterations.n_settings);
    set->n_regimes = stp_find_regimes(&set->iterations, 0, set->regimes);
    return STP_OK;
}

static enum stp_status page_read_file(const char *path, int source,
                                      const struct stp_dataset *sweep,
                                      struct stp_page_file *file,
                                      struct stp_error *err)
{
    const bool iterates = source >= STP_PAGE_ITERATIONS;
    size_t len, n;

    file->name = stp_base_name(path);
    if (source < STP_PAGE_SWEEP) {
        STP_TRY(stp_read_file(path, STP_MAX_FILE, &file->text, &len, err));
        STP_TRY(stp_policy_parse(
            source == STP_PAGE_MEMORY_POLICY  ? STP_POLICY_OF_MEMORY
            : source == STP_PAGE_STAGE_POLICY ? STP_POLICY_OF_STAGE
                                              : STP_POLICY_OF_ARMS,
            file->text, len, &file->rules, err));
        stp_policy_hash_name(file->rules, file->hash);
        stp_policy_mark_read(file->text, len, &file->mark);
        memcpy(file->run, file->mark.run, sizeof(file->run));
        return STP_OK;
    }
    STP_TRY(stp_measurements_load_any(path, -1, 0, &file->data, err));
    memcpy(file->run, file->data.run, sizeof(file->run));
    if (file->data.n_rows == 0)
        return stp_fail(err, STP_ERR_SYNTAX, "no measurements in it");
    n = stp_dataset_n_iterations(&file->data);
    if (n != (iterates ? file->data.n_rows : 0) && source != STP_PAGE_GRAPH)
        return stp_fail(err, STP_ERR_SYNTAX,
                        "%zu of %zu rows are of iterations, expected %s", n,
                        file->data.n_rows, iterates ? "all" : "none");
    return iterates ? page_sum_iterations(file, sweep, err)
                    : stp_compare(&file->data, &file->comparisons, err);
}

/* ---- rows ---- */

/* By panel, then size: the order of stp_compare(). */
static int page_order_points(const struct stp_point *a,
                             const struct stp_point *b)
{
    STP_RETURN_KIND_ORDER(a, b);
    return STP_ORDER(a->n_bytes, b->n_bytes);
}

/* Makes a row of each size that the sweep or the verification has. */
static void page_merge_sets(struct stp_page_data *data)
{
    const struct stp_comparisons *s = &data->files[STP_PAGE_SWEEP].comparisons;
    const struct stp_comparisons *t = &data->files[STP_PAGE_VERIFY].comparisons;
    size_t i = 0, j = 0;

    STP_TAKE(data->rows, s->n_points + t->n_points);
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
}

/* Looks the rule up as if NCCL had ruled out no algorithm or protocol. */
static void page_fill_row(struct stp_page_row *row,
                          const struct stp_compiled *compiled)
{
    static const float cost[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS] = {{0}};
    const struct stp_cost_view view = {&cost[0][0], NCCL_NUM_ALGORITHMS,
                                       NCCL_NUM_PROTOCOLS};
    const struct stp_query query = {.coll = row->point->coll,
                                    .n_bytes = row->point->n_bytes,
                                    .n_pipe_ops = 1};
    struct stp_choice choice;

    if (row->swept != NULL) {
        /* Finds the fastest arm that a tuner can choose, if it is faster than
         * AUTO and not NCCL's own choice, and the fastest setup. */
        for (size_t i = 0; i < row->swept->n_arms; i++) {
            const struct stp_comparison *c = &row->swept->arms[i];
            const bool is_setup = c->arm.kind == STP_ARM_SETUP;
            const struct stp_comparison **best =
                is_setup ? &row->setup : &row->best;

            row->is_compared |= c->arm.kind == STP_ARM_FORCED;
            row->is_told |=
                c->arm.kind == STP_ARM_FORCED && isfinite(c->gain.high);
            if (!is_setup &&
                (c->arm.kind != STP_ARM_FORCED ||
                 stp_ran_as_auto(row->swept, c) || !(c->gain.gain > 1)))
                continue;
            if (*best == NULL || c->gain.gain > (*best)->gain.gain)
                *best = c;
        }
    }
    if (row->tried != NULL)
        row->policy = stp_verify_arm(row->tried);
    if (compiled != NULL &&
        stp_compiled_lookup(compiled, &query, &view, &choice)) {
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

/* The rows of a panel are of one communicator. */
static enum stp_status page_make_panels(struct stp_page_data *data,
                                        struct stp_error *err)
{
    const struct stp_policy *rules = data->files[STP_PAGE_POLICY].rules;

    for (size_t i = 0; i < data->n_rows;) {
        struct stp_page_row *rows = &data->rows[i];
        const int from = rows->swept != NULL ? STP_PAGE_SWEEP : STP_PAGE_VERIFY;
        const char *gpu = data->files[from].data.gpu;
        const struct stp_shape shape = {.n_ranks = rows->point->n_ranks,
                                        .n_nodes = rows->point->n_nodes,
                                        .gpu = gpu[0] != '\0' ? gpu : NULL};
        struct stp_compiled *compiled = NULL;
        size_t n = 1;

        if (rules != NULL)
            STP_TRY(stp_policy_compile(rules, &shape, &compiled, err));
        while (i + n < data->n_rows &&
               stp_point_alike(rows->point, rows[n].point))
            n++;
        for (size_t k = 0; k < n; k++)
            page_fill_row(&rows[k], compiled);
        stp_compiled_free(compiled);
        rows->n_panel = n;
        i += n;
    }
    return STP_OK;
}

const struct stp_page_file *stp_page_first_set(const struct stp_page_data *data)
{
    const struct stp_page_file *set = &data->files[STP_PAGE_SWEEP];

    while (set->name == NULL)
        set++;
    return set;
}

struct stp_range stp_page_ranks(const struct stp_page_data *data)
{
    struct stp_range ranks = {.min = UINT64_MAX};

    for (int s = STP_PAGE_SWEEP; s < STP_PAGE_N_SOURCES; s++)
        for (size_t i = 0; i < data->files[s].data.n_rows; i++) {
            const unsigned n = data->files[s].data.rows[i].n_ranks;

            ranks.min = n < ranks.min ? n : ranks.min;
            ranks.max = n > ranks.max ? n : ranks.max;
        }
    return ranks;
}

/* ---- what to register, what to stage ---- */

static enum stp_status page_measure_memory(const struct stp_page_data *data,
                                           int source,
                                           struct stp_memory_rules *rules,
                                           struct stp_error *err)
{
    const struct stp_policy *policy = data->files[source].rules;
    const struct stp_page_file *graph = &data->files[STP_PAGE_GRAPH];
    struct stp_derive_terms terms = {.min_gain = STP_DERIVE_MIN_GAIN};
    struct stp_dataset alone = {0};
    const struct stp_memory_data from = {
        .alone = &alone, .iterations = &data->files[STP_PAGE_ITERATIONS].data};
    struct stp_memory_situations situations = {0};
    enum stp_status status;

    if (policy == NULL)
        return STP_OK;
    terms.kind = stp_policy_get_kind(policy);
    status = stp_measurements_pool(&alone, &data->files[STP_PAGE_SWEEP].data,
                                   false, err);
    if (terms.kind == STP_POLICY_OF_STAGE && graph->name != NULL)
        STP_THEN(status,
                 stp_measurements_pool(&alone, &graph->data, false, err));
    STP_THEN(status,
             stp_memory_situations_compare(&from, &terms, &situations, err));
    if (status == STP_OK)
        *rules = stp_memory_rules_measure(policy, &situations,
                                          stp_page_first_set(data)->data.gpu);
    stp_memory_situations_free(&situations);
    stp_dataset_free(&alone);
    return status;
}

/* ---- which files are of one run ---- */

/* The policy that a file verifies; NULL: it is no verification. */
static const struct stp_page_file *
page_verified(const struct stp_page_data *data, int source)
{
    return source == STP_PAGE_VERIFY ? &data->files[STP_PAGE_POLICY]
           : source == STP_PAGE_OVERLAP_VERIFY
               ? &data->files[STP_PAGE_OVERLAP_POLICY]
               : NULL;
}

/* Says why a file does not belong to the others, of which 'anchor' was the
 * first to name a run (NULL: none does); "" if it does belong. */
static void page_find_stranger(const struct stp_page_data *data, int source,
                               const char *anchor, bool is_named,
                               char why[STP_PAGE_TEXT])
{
    const struct stp_page_file *policy = page_verified(data, source);
    const struct stp_page_file *file = &data->files[source];
    const struct stp_page_file *first;
    const char *hash = file->data.policy_hash;

    if (anchor != NULL && file->run[0] != '\0' &&
        strcmp(file->run, data->run) != 0) {
        STP_PAGE_ADD(why, "it is of run %s, expected run %s as %s", file->run,
                     data->run, anchor);
    } else if (anchor != NULL && file->run[0] == '\0' && hash[0] == '\0' &&
               source != STP_PAGE_POLICY && !is_named) {
        /* a verification by hand names no run: its policy's hash will do */
        STP_PAGE_ADD(why, "it names no run, expected run %s as %s", data->run,
                     anchor);
    } else if (policy != NULL && policy->name == NULL && !is_named) {
        STP_PAGE_ADD(why, "the policy that it verifies is not here");
    } else if (policy != NULL && policy->name != NULL && hash[0] != '\0' &&
               strcmp(hash, policy->hash) != 0) {
        STP_PAGE_ADD(why, "it verifies a policy of hash %s, and %s has %s",
                     hash, policy->name, policy->hash);
    } else if (source >= STP_PAGE_SWEEP) {
        first = stp_page_first_set(data);
        if (strcmp(file->data.gpu, first->data.gpu) != 0 ||
            strcmp(file->data.nccl, first->data.nccl) != 0)
            STP_PAGE_ADD(why,
                         "it was measured on '%s' with NCCL %s, expected '%s' "
                         "with NCCL %s as %s",
                         file->data.gpu, file->data.nccl, first->data.gpu,
                         first->data.nccl, first->name);
        else if (strcmp(file->data.tuner, first->data.tuner) != 0)
            STP_PAGE_ADD(why, "its AUTO is %s, expected %s as in %s",
                         STP_AUTO_WORDS(file->data.tuner),
                         STP_AUTO_WORDS(first->data.tuner), first->name);
    }
}

static void page_drop_file(struct stp_page_file *file)
{
    free(file->text);
    stp_policy_free(file->rules);
    stp_comparisons_free(&file->comparisons);
    stp_iteration_summary_free(&file->iterations);
    stp_dataset_free(&file->data);
    free(file->regimes);
    *file = (struct stp_page_file){0};
}

/* Leaves out files that do not belong to the others, and says so in a warning,
 * or refuses one that the user named. */
static enum stp_status page_keep_own(const struct stp_page_sources *sources,
                                     struct stp_page_data *data,
                                     struct stp_error *err)
{
    const char *anchor = NULL;

    for (int s = 0; s < STP_PAGE_N_SOURCES && anchor == NULL; s++)
        if (data->files[s].run[0] != '\0') {
            anchor = data->files[s].name;
            memcpy(data->run, data->files[s].run, sizeof(data->run));
        }
    for (int s = 0; s < STP_PAGE_N_SOURCES; s++) {
        struct stp_page_file *file = &data->files[s];
        const struct stp_page_file *policy = page_verified(data, s);
        const struct stp_page_file *first;
        char why[STP_PAGE_TEXT] = "";

        if (file->name == NULL)
            continue;
        page_find_stranger(data, s, anchor, sources->is_named[s], why);
        if (why[0] != '\0' && sources->is_named[s])
            return stp_fail(
                err, STP_ERR_RANGE,
                "'%.120s' does not belong to the others, expected a "
                "page of its own: %s",
                file->name, why);
        if (why[0] != '\0') {
            WARN(data, "%s is left out: %s.", file->name, why);
            page_drop_file(file);
            continue;
        }
        first = s >= STP_PAGE_SWEEP ? stp_page_first_set(data) : file;
        if (file->data.machine[0] != '\0' && first->data.machine[0] != '\0' &&
            strcmp(file->data.machine, first->data.machine) != 0 &&
            strcmp(file->run, first->run) != 0)
            WARN(data, "%s was measured on %s, and %s on %s.", file->name,
                 file->data.machine, first->name, first->data.machine);
        /* iterations take the wrong elements of a sweep, which names them */
        if (s != STP_PAGE_ITERATIONS ||
            data->files[STP_PAGE_SWEEP].name == NULL) {
            /* Leaves room for what else a file may have a warning about. */
            struct stp_wrong wrong = {0};
            char text[STP_ERROR_TEXT];

            data->auto_is_wrong |= stp_kind_is_wrong(&file->data, STP_ARM_AUTO);
            if (file->data.doubt[0] != '\0')
                WARN(data, "%s: %s.", file->name, file->data.doubt);
            while (data->n_warnings + 2 * STP_PAGE_N_SOURCES <
                       STP_PAGE_WARNINGS &&
                   stp_next_wrong(&file->data, &wrong)) {
                stp_wrong_text(&wrong, text);
                WARN(data, "%s.", text);
            }
            if (stp_next_wrong(&file->data, &wrong))
                WARN(data, "%s has further arms with wrong elements.",
                     file->name);
        }
        if (policy != NULL && policy->name != NULL &&
            file->data.policy_hash[0] == '\0')
            WARN(data,
                 "%s does not say which policy it verifies, as an "
                 "earlier release wrote it: it is taken to be %s.",
                 file->name, policy->name);
        if (file->mark.hash[0] != '\0' &&
            strcmp(file->mark.hash, file->hash) != 0)
            WARN(data,
                 "%s was changed since it was written: its policy hash "
                 "was %s and is %s.",
                 file->name, file->mark.hash, file->hash);
    }
    return STP_OK;
}

/* ---- all of it ---- */

enum stp_status stp_page_read(const struct stp_page_sources *sources,
                              struct stp_page_data *data, struct stp_error *err)
{
    bool has_sets = false;

    memset(data, 0, sizeof(*data));
    data->title = sources->title;
    for (int s = 0; s < STP_PAGE_N_SOURCES; s++) {
        const char *path = sources->path[s];
        enum stp_status status;

        if (path == NULL)
            continue;
        status = page_read_file(path, s, &data->files[STP_PAGE_SWEEP].data,
                                &data->files[s], err);
        if (status != STP_OK)
            return stp_fail_in(err, status, stp_base_name(path));
    }
    STP_TRY(page_keep_own(sources, data, err));
    for (int s = STP_PAGE_SWEEP; s < STP_PAGE_N_SOURCES; s++)
        has_sets |= data->files[s].name != NULL;
    if (!has_sets && data->n_warnings > 0)
        return stp_fail(err, STP_ERR_RANGE, "no measurements: %s",
                        data->warnings[0]);
    if (!has_sets)
        return stp_fail(err, STP_ERR_RANGE,
                        "no measurements, expected those that the policy was "
                        "made from, such as STEM.sweep.csv; gains of `steptune "
                        "tune -- COMMAND` are in its policy's comments");
    page_merge_sets(data);
    STP_TRY(page_make_panels(data, err));
    STP_TRY(
        page_measure_memory(data, STP_PAGE_MEMORY_POLICY, &data->memory, err));
    return page_measure_memory(data, STP_PAGE_STAGE_POLICY, &data->stage, err);
}

void stp_page_free(struct stp_page_data *data)
{
    for (int i = 0; i < STP_PAGE_N_SOURCES; i++)
        page_drop_file(&data->files[i]);
    stp_memory_rules_free(&data->memory);
    stp_memory_rules_free(&data->stage);
    free(data->rows);
}

/* ---- sentences ---- */

enum { PAGE_PLACE = 64 };

/* "4 MiB", or "4 MiB on 2 ranks". */
static void page_name_place(const struct stp_page_summary *s,
                            const struct stp_page_extreme *at,
                            char place[PAGE_PLACE])
{
    snprintf(place, PAGE_PLACE, s->has_ranks ? "%s on %u ranks" : "%s",
             STP_SIZE_TEXT(at->n_bytes), at->n_ranks);
}

static void page_say_losses(const struct stp_page_summary *s, char *text)
{
    size_t n = s->n_slower > 0 ? s->n_slower : s->n_below;
    char place[PAGE_PLACE];

    page_name_place(s, &s->worst, place);
    if (n > 0)
        STP_PAGE_ADD(
            text,
            ", and is slower at %zu%s: at worst %s takes %.*fx as long (at %s)",
            n, s->n_slower > 0 ? "" : ", but within the noise",
            stp_coll_name(s->worst.coll), s->n_slower > 0 ? 2 : 3,
            1 / s->worst.gain.gain, place);
    else if (s->no_interval)
        STP_PAGE_ADD(text, "; one round and modelled times have no confidence "
                           "interval, so not all of this is certain");
    else if (s->n_changed > 0)
        STP_PAGE_ADD(text, ", and is nowhere measurably slower");
    if (s->n_unknown > 0)
        STP_PAGE_ADD(text,
                     "; what it chooses at %zu further sizes was not measured",
                     s->n_unknown);
}

void stp_page_sentence(const struct stp_page_summary *s,
                       char text[STP_PAGE_TEXT])
{
    const char *coll = stp_coll_name(s->best.coll);
    const double gain = s->best.gain.gain;
    char place[PAGE_PLACE];

    page_name_place(s, &s->best, place);
    text[0] = '\0';
    STP_PAGE_ADD(text, "On %s%s", s->machine,
                 s->is_captured && s->n_sizes > 0 ? ", in CUDA graphs," : "");
    if (s->n_sizes == 0) {
        STP_PAGE_ADD(
            text, ": %s.",
            s->is_captured ? "only collectives in CUDA graphs were measured"
            : s->has_policy
                ? "training iterations; collectives alone were not measured"
                : "training iterations, without a policy");
    } else if (!s->has_policy && gain > 1) {
        STP_PAGE_ADD(
            text,
            " some arm is faster than %s at %zu of %zu sizes, by up to %.2fx "
            "(%s at %s); there is no policy here.",
            s->own, s->n_faster, s->n_told, gain, coll, place);
    } else if (!s->has_policy) {
        STP_PAGE_ADD(
            text, " %s %s at any of %zu sizes; there is no policy here.",
            s->n_compared == 0
                ? "no arm that a tuner can choose was compared with"
            : s->n_told == 0
                ? "neither one round nor a model tells an arm from"
                : "no arm that a tuner can choose is significantly faster than",
            s->own,
            s->n_compared == 0 ? s->n_sizes
            : s->n_told == 0   ? s->n_compared
                               : s->n_told);
    } else if (s->n_rules == 0 && !s->tried) {
        STP_PAGE_ADD(text,
                     " this policy has no rule: %s stands at all %zu sizes.",
                     s->own, s->n_sizes);
    } else {
        STP_PAGE_ADD(text, " this policy ");
        if (gain > 1)
            STP_PAGE_ADD(text,
                         "makes %s up to %.2fx as fast (at %s), changes %zu "
                         "of %zu sizes",
                         coll, gain, place, s->n_changed, s->n_sizes);
        else if (s->n_changed > 0)
            STP_PAGE_ADD(text, "changes %zu of %zu sizes, is %s", s->n_changed,
                         s->n_sizes,
                         s->n_faster > 0
                             ? "faster only at sizes that were not measured"
                             : "significantly faster at none");
        else
            STP_PAGE_ADD(text, "changes none of %zu sizes", s->n_sizes);
        page_say_losses(s, text);
        STP_PAGE_ADD(text, s->tried ? "."
                                    : "; it was not verified: these are "
                                      "gains of its arms in the sweep.");
    }
    for (int i = 0; i < 2; i++) {
        page_name_place(s, &s->setups[i], place);
        if (s->setups[i].gain.gain > 0)
            STP_PAGE_ADD(text, " With %s %s is up to %.2fx as fast (at %s).",
                         i == 0 ? "registered buffers" : "staged collectives",
                         stp_coll_name(s->setups[i].coll),
                         s->setups[i].gain.gain, place);
    }
}

bool stp_page_overlap_sentence(const struct stp_page_overlap *o,
                               char text[STP_PAGE_TEXT])
{
    size_t n = o->n_slower > 0 ? o->n_slower : o->n_below;

    text[0] = '\0';
    if (o->n == 0)
        return false;
    STP_PAGE_ADD(text, "With the overlap policy training steps are ");
    if (o->n_faster > 0)
        STP_PAGE_ADD(text,
                     "up to %.2fx as fast: %zu of %zu workloads are faster, ",
                     o->best, o->n_faster, o->n);
    else
        STP_PAGE_ADD(text, "significantly faster in none of %zu workloads, ",
                     o->n);
    STP_PAGE_ADD(
        text,
        n == 0 ? "and none is measurably slower."
               : "and %zu %s slower%s: at worst a step takes %.3fx as long.",
        n, n == 1 ? "is" : "are",
        o->n_slower > 0 ? "" : ", but within the noise", 1 / o->worst);
    return true;
}
