/* iteration_tables.c - names of settings, sentences on them, and tables of
 * settings, arms and regimes for terminals, Markdown and JSON */
#include "report/iterations/iteration_files.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "analyse/order.h"
#include "core/dtype.h"
#include "core/names.h"
#include "core/text.h"
#include "launch/take.h"
#include "nccl_tuner_abi.h"
#include "report/charts/labels.h"
#include "report/json.h"
#include "report/table.h"
#include "report/words.h"

bool stp_iteration_several(const struct stp_iteration_report *report)
{
    return report->several || report->summary->n_settings > 1;
}

void stp_iteration_setting_name(const struct stp_iteration_setting *setting,
                                bool has_size, char name[STP_SETTING_NAME])
{
    const struct stp_measurement *m = &setting->like;
    const struct stp_workload *w = &m->work;
    bool training = w->compute != STP_COMPUTE_GEMM;
    bool usual = m->coll == (w->mode == STP_MODE_FSDP ? ncclFuncAllGather
                                                      : ncclFuncAllReduce);
    char product[48], size[32] = ""; /* "8M_", or "1000_" */
    int shift = 30;                  /* of the largest unit that divides it */

    while (shift > 0 && (m->n_bytes >> shift == 0 ||
                         m->n_bytes >> shift << shift != m->n_bytes))
        shift -= 10;
    if (has_size)
        snprintf(size, sizeof(size), "%" PRIu64 "%.*s_", m->n_bytes >> shift,
                 shift > 0, &" KMG"[shift / 10]);
    if (w->mode == STP_MODE_TRACE) {
        snprintf(name, STP_SETTING_NAME, "%s_%s", stp_mode_name(w->mode),
                 stp_coll_name(m->coll));
        return;
    }
    if (w->ratio != 0)
        snprintf(product, sizeof(product), "ratio%g", w->ratio);
    else
        snprintf(product, sizeof(product), "gemm%ux%ux%u", w->gemm.m, w->gemm.n,
                 w->gemm.k);
    snprintf(name, STP_SETTING_NAME, "%s%s%s%s%s_%s%s_layers%u%s",
             stp_mode_name(w->mode), training ? "_" : "",
             training ? stp_compute_name(w->compute) : "", usual ? "" : "_",
             usual ? "" : stp_coll_name(m->coll), size, product, w->layers,
             m->graph ? "_graph" : "");
}

void stp_iteration_what(const struct stp_iteration_setting *setting,
                        const char *size, char text[STP_ITERATION_TEXT])
{
    const struct stp_measurement *m = &setting->like;
    const struct stp_workload *w = &m->work;
    const bool reduces = w->mode == STP_MODE_FSDP || stp_coll_reduces(m->coll);
    const bool op = reduces && m->op != STP_OP_SUM;
    const char *captured = m->graph ? ", in CUDA graphs" : "";
    char data[32] = ""; /* type and operation, unless they are bf16 and sum */
    char product[48];

    if (m->type != STP_TYPE_BF16 || op)
        snprintf(data, sizeof(data), ", %s%s%s", stp_type_name(m->type),
                 op ? " " : "", op ? stp_op_name(m->op) : "");
    if (w->mode == STP_MODE_TRACE) {
        snprintf(text, STP_ITERATION_TEXT,
                 "%s: a step of it, most of its bytes by %s%s%s%s%s",
                 stp_mode_name(w->mode), stp_coll_name(m->coll),
                 size != NULL ? " of " : "", size != NULL ? size : "", data,
                 captured);
        return;
    }
    if (w->ratio != 0)
        snprintf(product, sizeof(product), ", ratio %g", w->ratio);
    else
        snprintf(product, sizeof(product), " of %ux%ux%u", w->gemm.m, w->gemm.n,
                 w->gemm.k);
    snprintf(text, STP_ITERATION_TEXT, "%s: %s%s%s%s%s, %u layer%s of %s%s%s",
             stp_mode_name(w->mode), stp_coll_name(m->coll),
             w->mode == STP_MODE_FSDP ? " and reducescatter" : "",
             size != NULL ? " of " : "", size != NULL ? size : "", data,
             w->layers, STP_S(w->layers), stp_compute_name(w->compute), product,
             captured);
}

enum stp_source
stp_iteration_source(const struct stp_iteration_setting *setting)
{
    enum stp_source worst = STP_SOURCE_MEASURED;

    for (size_t a = 0; a < setting->n_arms; a++)
        worst = stp_source_worst(worst, setting->arms[a].source);
    return worst;
}

void stp_iteration_origin(const struct stp_dataset *data,
                          const struct stp_iteration_setting *settings,
                          size_t n, char text[STP_ITERATION_TEXT])
{
    struct stp_source_count count = {0};
    char sources[STP_SOURCES_TEXT];
    stp_origin_text(data, text, STP_ITERATION_TEXT);
    for (size_t i = 0; i < n; i++)
        for (size_t a = 0; a < settings[i].n_arms; a++)
            count.n[settings[i].arms[a].source]++;
    stp_sources_words(&count, sources);
    stp_append(text, STP_ITERATION_TEXT, ", %s", sources);
}

/* The arms other than NCCL's own choice, counted by their intervals. */
struct iteration_count {
    size_t n, n_slower, n_without; /* all, slower for sure, without interval */
    const struct stp_iteration_arm *best; /* that is faster for sure, or NULL */
    const struct stp_iteration_arm *next; /* of the largest gain, or NULL */
};

static struct iteration_count
iteration_count_arms(const struct stp_iteration_setting *s)
{
    struct iteration_count c = {0};

    for (size_t i = 0; i < s->n_arms; i++) {
        const struct stp_iteration_arm *arm = &s->arms[i];
        bool sure = isfinite(arm->gain.high);

        if (arm->arm.kind == STP_ARM_AUTO ||
            arm->arm.kind == STP_ARM_AUTO_AGAIN)
            continue;
        c.n++;
        c.n_without += !sure;
        c.n_slower += sure && arm->gain.high < 1;
        if (c.next == NULL || arm->gain.gain > c.next->gain.gain)
            c.next = arm;
        if (sure && arm->gain.low > 1 &&
            (c.best == NULL || arm->gain.gain > c.best->gain.gain))
            c.best = arm;
    }
    return c;
}

/* The arm of the shortest iterations, and the smallest gain that the rounds
 * resolve: up to two sentences, separated by 'between'. */
static void iteration_write_verdict(const struct stp_iteration_setting *setting,
                                    const char *between,
                                    char text[STP_ITERATION_TEXT])
{
    const struct iteration_count c = iteration_count_arms(setting);
    const struct stp_iteration_arm *arm = c.best != NULL ? c.best : c.next;
    const char *name = arm != NULL ? STP_ARM_TEXT(&arm->arm) : "";
    const char *interval = arm != NULL ? STP_INTERVAL_TEXT(&arm->gain) : "";
    double percent = setting->resolution * 100;

    if (c.n == 0)
        snprintf(text, STP_ITERATION_TEXT, "AUTO is the only arm.");
    else if (c.best != NULL)
        snprintf(text, STP_ITERATION_TEXT,
                 "%s has the shortest iterations: %.3f times as fast as AUTO "
                 "(95 percent interval %s).",
                 name, arm->gain.gain, interval);
    else if (c.n_without == c.n)
        snprintf(text, STP_ITERATION_TEXT,
                 "Neither one round nor a model tells an arm from AUTO.");
    else if (c.n_slower == c.n)
        snprintf(text, STP_ITERATION_TEXT,
                 "AUTO has the shortest iterations: %s, the next, is %.3f "
                 "times as fast (95 percent interval %s).",
                 name, arm->gain.gain, interval);
    else if (c.n_slower > 0)
        snprintf(text, STP_ITERATION_TEXT,
                 "No arm is faster than AUTO with 95 percent confidence; %zu "
                 "of %zu are slower.",
                 c.n_slower, c.n);
    else
        snprintf(text, STP_ITERATION_TEXT,
                 "No arm differs from AUTO with 95 percent confidence.");
    if (isfinite(percent))
        stp_append(text, STP_ITERATION_TEXT,
                   "%s%u rounds resolve %.3g percent.", between,
                   setting->arms[0].n_rounds, fmax(percent, 0.01));
}

static void iteration_write_regimes(const struct stp_iteration_report *report,
                                    char text[STP_ITERATION_TEXT])
{
    size_t n = report->summary->n_settings;
    const char *s = STP_S(n);
    bool has_interval = false;

    for (size_t i = 0; i < n; i++)
        for (size_t a = 1; a < report->summary->settings[i].n_arms; a++)
            has_interval |=
                isfinite(report->summary->settings[i].arms[a].gain.high);
    if (!has_interval)
        snprintf(text, STP_ITERATION_TEXT,
                 "Nothing is sure of %zu setting%s: neither one round nor a "
                 "model tells an arm from another.",
                 n, s);
    else if (report->n_regimes == 0)
        snprintf(text, STP_ITERATION_TEXT,
                 "None among %zu setting%s: nowhere is the arm that is the "
                 "fastest alone sure to be at least %g percent behind.",
                 n, s, report->min_gain * 100);
    else
        snprintf(text, STP_ITERATION_TEXT,
                 "In %zu of %zu setting%s the arm that is the fastest alone is "
                 "not the one with the shortest iteration, by at least %g "
                 "percent.",
                 report->n_regimes, n, s, report->min_gain * 100);
}

const double *stp_iteration_next(const struct stp_iterations *iterations,
                                 const struct stp_iteration_setting *setting,
                                 const struct stp_iteration_arm *arm,
                                 struct stp_iteration_cursor *at, size_t *n_ret)
{
    const struct stp_measurement *like = &setting->like;

    while (at->row < iterations->data.n_rows) {
        const struct stp_measurement *row = &iterations->data.rows[at->row++];
        const double *us = iterations->sample_us + at->sample;

        at->sample += row->iters;
        if (row->n_bytes == like->n_bytes &&
            stp_arm_equal(&row->arm, &arm->arm) &&
            stp_order_kinds(row, like) == 0) {
            *n_ret = row->iters;
            return us;
        }
    }
    return NULL;
}

/* ---- numbers of tables ---- */

/* How numbers are printed for people: digits after the point. */
enum {
    COUNT = 0, /* also AUTO's gain, which is 1 by definition */
    TIME = 2,  /* us */
    LONG_TIME = 1,
    RATE = 2, /* GB/s */
    GAIN = 3,
};

/* A ratio counts as met within this part of the ratio that was asked for. */
static const double same_ratio = 0.1;

/* A time that is 0 where it was not measured. */
static double iteration_measured(double us)
{
    return us > 0 ? us : NAN;
}

static int iteration_time_digits(const struct stp_iteration_setting *setting)
{
    return setting->arms[0].us.mean >= 1000 ? LONG_TIME : TIME;
}

/* A gain and its interval, of iterations or of collectives 'alone'; AUTO's is 1
 * by definition, and one round has no interval, which is told if 'wide'. */
static void iteration_put_gain(struct stp_table *t, bool alone, bool wide,
                               const struct stp_gain *gain, bool is_auto,
                               bool is_known)
{
    static const char *const keys[2][3] = {
        {"gain", "gain_low", "gain_high"},
        {"alone_gain", "alone_gain_low", "alone_gain_high"}};
    const char *const heading = alone ? "alone gain" : "gain";
    const bool ends = is_known && !is_auto && isfinite(gain->high);
    const char *interval = is_auto ? "" : STP_INTERVAL_TEXT(gain);

    stp_table_number(t, keys[alone][0], heading,
                     !is_known ? NAN
                     : is_auto ? 1
                               : gain->gain,
                     is_auto ? COUNT : GAIN);
    if (wide)
        stp_table_word(t, NULL, "95% interval", is_known ? interval : NULL);
    stp_table_number(t, keys[alone][1], NULL, ends ? gain->low : NAN, GAIN);
    stp_table_number(t, keys[alone][2], NULL, ends ? gain->high : NAN, GAIN);
}

static void iteration_put_setting(const struct stp_iteration_setting *setting,
                                  struct stp_table *t)
{
    const struct stp_measurement *m = &setting->like;
    const struct stp_workload *w = &m->work;
    char name[STP_SETTING_NAME];

    stp_iteration_setting_name(setting, true, name);
    stp_table_word(t, "setting", NULL, name);
    stp_table_word(t, "mode", NULL, stp_mode_name(w->mode));
    stp_table_word(t, "compute", NULL, stp_compute_name(w->compute));
    stp_table_word(t, "collective", NULL, stp_coll_name(m->coll));
    stp_table_count(t, "bytes", NULL, m->n_bytes);
    stp_table_count(t, "layers", NULL, w->layers);
    stp_table_number(t, "ratio", NULL, w->ratio, STP_TABLE_SHORT);
    stp_table_count(t, "m", NULL, w->gemm.m);
    stp_table_count(t, "n", NULL, w->gemm.n);
    stp_table_count(t, "k", NULL, w->gemm.k);
    stp_table_count(t, "nNodes", NULL, m->n_nodes);
    stp_table_count(t, "nRanks", NULL, m->n_ranks);
    stp_table_word(t, "type", NULL, stp_type_name(m->type));
    stp_table_word(t, "op", NULL, stp_op_name(m->op));
}

/* ---- arms ---- */

static void iteration_put_arm(const struct stp_iteration_setting *setting,
                              const struct stp_iteration_arm *arm,
                              struct stp_table *t)
{
    const int us = iteration_time_digits(setting);
    const char *source = stp_source_name(arm->source);
    const bool is_auto = arm->arm.kind == STP_ARM_AUTO;
    const bool has_alone = arm->alone_us > 0;
    const bool has_bandwidth = /* of one size */
        has_alone && setting->like.work.mode != STP_MODE_TRACE;

    stp_table_row(t);
    stp_table_word(t, "arm", "<arm", STP_ARM_TEXT(&arm->arm));
    stp_table_ran_kernel(t, "ran", "<ran as", arm->ran_kernel, arm->ran_algo,
                         arm->ran_proto, arm->ran_channels);
    stp_table_word(t, "source", NULL, source);
    stp_table_number(t, "rounds", NULL, arm->n_rounds, COUNT);
    stp_table_number(t, "iterations", NULL, (double)arm->n_iterations, COUNT);
    stp_table_number(t, "mean_us", "mean us", arm->us.mean, us);
    stp_table_number(t, "p50_us", "p50", arm->us.median, us);
    stp_table_number(t, "p95_us", "p95", arm->us.p95, us);
    stp_table_number(t, "p99_us", "p99", arm->us.p99, us);
    stp_table_number(t, "min_us", NULL, arm->us.min, us);
    iteration_put_gain(t, false, true, &arm->gain, is_auto,
                       is_auto || arm->gain.n_pairs > 0);
    stp_table_number(t, "exposed_us", "exposed", arm->exposed_us, us);
    stp_table_number(t, "alone_us", "alone us",
                     iteration_measured(arm->alone_us), us);
    stp_table_number(t, "alone_algbw", NULL, has_bandwidth ? arm->algbw : NAN,
                     RATE);
    stp_table_number(t, "alone_busbw", "busbw",
                     has_bandwidth ? arm->busbw : NAN, RATE);
    iteration_put_gain(t, true, false, &arm->alone_gain, is_auto,
                       has_alone && (is_auto || arm->alone_gain.n_pairs > 0));
}

static void iteration_put_arms(const struct stp_iteration_setting *setting,
                               struct stp_table *t)
{
    for (size_t a = 0; a < setting->n_arms; a++)
        iteration_put_arm(setting, &setting->arms[a], t);
}

/* Writes a setting with its arms and verdict, for terminals or in Markdown. */
static void iteration_write_setting(const struct stp_iteration_setting *s,
                                    enum stp_table_format format, FILE *fp)
{
    const bool is_text = format == STP_TABLE_TEXT;
    const enum stp_source source = stp_iteration_source(s);
    struct stp_table t = stp_table_begin(format);
    char text[STP_ITERATION_TEXT];
    char size[32];

    snprintf(size, sizeof(size), "%" PRIu64 " bytes", s->like.n_bytes);
    stp_iteration_what(s, size, text);
    fprintf(fp, is_text ? "%s; " : "\n## %s\n\n", text);

    /* "compute alone 1180.2 us, communication alone 1230.4 us: ratio 0.959",
     * and that this is not what was asked for. */
    const int digits = iteration_time_digits(s);
    const double asked = s->like.work.ratio;
    const double ratio = s->compute_us / s->comm_us;

    fprintf(fp, "compute alone %.*f us", digits, s->compute_us);
    if (!(s->comm_us <= 0)) {
        fprintf(fp, ", communication alone %.*f us: ratio %.3g", digits,
                s->comm_us, ratio);
        if (asked > 0 && fabs(ratio / asked - 1) > same_ratio)
            fprintf(fp, " and not %g, as no GEMM tried comes closer", asked);
    }

    if (source != STP_SOURCE_MEASURED)
        fprintf(fp, "; %s", stp_source_name(source));
    fputs(is_text ? "\n" : "\n\n", fp);
    iteration_put_arms(s, &t);
    stp_table_end(&t, fp);
    iteration_write_verdict(s, is_text ? "\n" : " ", text);
    fprintf(fp, "%s%s\n", is_text ? "" : "\n", text);
}

void stp_print_iterations(const struct stp_iteration_summary *summary, FILE *fp)
{
    for (size_t i = 0; i < summary->n_settings; i++) {
        if (i > 0)
            fputc('\n', fp);
        iteration_write_setting(&summary->settings[i], STP_TABLE_TEXT, fp);
    }
}

/* ---- regimes ---- */

enum { MOST_SHOWN = 8 };

/* Adds a regime, whose gains are over the other arm, perhaps AUTO. */
static void iteration_put_regime(const struct stp_regime *r,
                                 struct stp_table *t)
{
    const struct stp_iteration_setting *s = r->setting;
    const struct stp_gemm *g = &s->like.work.gemm;
    const bool is_json = t->format == STP_TABLE_JSON;
    const char *source =
        stp_source_name(stp_source_worst(r->alone->source, r->best->source));

    stp_table_row(t);
    if (is_json) {
        iteration_put_setting(s, t);
    } else {
        stp_table_text(t, "<mode", "%s", stp_mode_name(s->like.work.mode));
        stp_table_text(t, "<collective", "%s", stp_coll_name(s->like.coll));
        stp_table_word(t, NULL, "bytes", STP_SIZE_TEXT(s->like.n_bytes));
        stp_table_text(t, "<GEMM", "%ux%ux%u", g->m, g->n, g->k);
        stp_table_number(t, NULL, "ratio", s->compute_us / s->comm_us, 2);
    }
    stp_table_word(t, "fastest_alone", "<fastest alone",
                   STP_ARM_TEXT(&r->alone->arm));
    stp_table_word(t, "best_iteration", "<shortest iteration",
                   STP_ARM_TEXT(&r->best->arm));
    stp_table_number(t, "fastest_alone_mean_us", NULL, r->alone->us.mean, TIME);
    stp_table_number(t, "best_iteration_mean_us", NULL, r->best->us.mean, TIME);
    iteration_put_gain(t, false, true, &r->gain, false, true);
    stp_table_number(t, "fastest_alone_us", NULL,
                     iteration_measured(r->alone->alone_us), TIME);
    stp_table_number(t, "best_iteration_alone_us", NULL,
                     iteration_measured(r->best->alone_us), TIME);
    iteration_put_gain(t, true, true, &r->alone_gain, false, true);
    stp_table_number(t, "rounds", NULL, (double)r->gain.n_pairs, COUNT);
    stp_table_word(t, "source", "<times", source);
}

static int iteration_compare_regimes(const void *pa, const void *pb)
{
    const struct stp_regime *a = *(const struct stp_regime *const *)pa;
    const struct stp_regime *b = *(const struct stp_regime *const *)pb;

    STP_RETURN_ORDER(STP_ORDER(b->gain.gain, a->gain.gain));
    return STP_ORDER(a, b);
}

void stp_print_regimes(const struct stp_iteration_report *report, FILE *fp)
{
    const size_t n = report->n_regimes;
    const struct stp_regime **best = stp_take(n, sizeof(*best));
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);
    char text[STP_ITERATION_TEXT];

    for (size_t i = 0; i < n; i++)
        best[i] = &report->regimes[i];
    STP_SORT(best, n, iteration_compare_regimes);
    iteration_write_regimes(report, text);
    fprintf(fp, "%s\n", text);
    for (size_t i = 0; i < n && i < MOST_SHOWN; i++)
        iteration_put_regime(best[i], &t);
    free(best);
    if (n > MOST_SHOWN)
        fprintf(fp, "Those of the largest gains:\n");
    stp_table_end(&t, fp);
}

void stp_iteration_write(const struct stp_iteration_report *report,
                         bool of_regimes, FILE *fp)
{
    const struct stp_iteration_summary *all = report->summary;
    struct stp_table t = stp_table_begin(STP_TABLE_MARKDOWN);
    char text[STP_ITERATION_TEXT];

    stp_iteration_origin(&report->iterations->data, all->settings,
                         all->n_settings, text);
    fprintf(fp, "# %s\n\n%s; %s\n",
            of_regimes
                ? "Where the fastest collective is not the shortest iteration"
                : "Training iterations: each arm against AUTO",
            text, report->made_by);
    for (size_t i = 0; i < all->n_settings && !of_regimes; i++)
        iteration_write_setting(&all->settings[i], STP_TABLE_MARKDOWN, fp);
    if (!of_regimes)
        return;
    iteration_write_regimes(report, text);
    fprintf(fp, "\n%s\n%s", text, report->n_regimes > 0 ? "\n" : "");
    for (size_t i = 0; i < report->n_regimes; i++)
        iteration_put_regime(&report->regimes[i], &t);
    stp_table_end(&t, fp);
}

/* ---- JSON ---- */

void stp_put_iterations(const struct stp_iteration_summary *summary,
                        cJSON *object)
{
    struct stp_table t = stp_table_array(object, "settings");

    for (size_t i = 0; i < summary->n_settings; i++) {
        const struct stp_iteration_setting *s = &summary->settings[i];
        cJSON *row = stp_table_row(&t);
        char text[STP_ITERATION_TEXT];
        struct stp_table arms;

        iteration_put_setting(s, &t);
        stp_table_number(&t, "compute_us", NULL, s->compute_us, TIME);
        stp_table_number(&t, "comm_us", NULL, iteration_measured(s->comm_us),
                         TIME);
        stp_table_number(&t, "ratio_met", NULL,
                         s->comm_us > 0 ? s->compute_us / s->comm_us : NAN,
                         GAIN);
        stp_table_number(&t, "noise", NULL,
                         s->arms[0].n_rounds > 1 ? s->noise : NAN, GAIN);
        stp_table_number(&t, "resolution", NULL, s->resolution, GAIN);
        iteration_write_verdict(s, " ", text);
        stp_json_word(row, "verdict", text);
        arms = stp_table_array(row, "arms");
        iteration_put_arms(s, &arms);
    }
}

void stp_put_regimes(const struct stp_regime *regimes, size_t n, cJSON *object)
{
    struct stp_table t = stp_table_array(object, "regimes");

    for (size_t i = 0; i < n; i++)
        iteration_put_regime(&regimes[i], &t);
}

void stp_print_iterations_json(const struct stp_iteration_report *report,
                               FILE *fp)
{
    const struct stp_dataset *data = &report->iterations->data;
    cJSON *root = cJSON_CreateObject();

    stp_json_word(root, "made_by", report->made_by);
    stp_json_origin(root, data);
    stp_put_iterations(report->summary, root);
    if (report->looked_for_regimes) {
        stp_json_number(root, "min_gain", report->min_gain);
        stp_put_regimes(report->regimes, report->n_regimes, root);
    }
    stp_json_finish(root, fp);
}
