/* iteration_tables.c - settings, arms and regimes as tables for terminals,
 * Markdown, CSV and JSON */
#include "report/iterations/iteration_tables.h"

#include <inttypes.h>
#include <math.h>

#include "core/dtype.h"
#include "core/names.h"
#include "report/charts/labels.h"
#include "report/iterations/iteration_words.h"
#include "report/json.h"
#include "report/table.h"
#include "report/words.h"

/* ---- numbers of CSV and JSON ---- */

enum { US = 3, GAIN = 6, WHOLE = 0, SHORT = STP_TABLE_SHORT }; /* digits */

/* A number by its key; NAN is unknown. */
struct iteration_number {
    const char *key;
    double value;
    int digits;
    bool of_setting; /* not of an arm; CSV has both in a row */
};

static void iteration_put_numbers(const struct iteration_number *numbers,
                                  size_t n, bool of_setting,
                                  struct stp_table *t)
{
    for (size_t i = 0; i < n; i++)
        if (t->format == STP_TABLE_CSV || numbers[i].of_setting == of_setting)
            stp_table_number(t, numbers[i].key, NULL, numbers[i].value,
                             numbers[i].digits);
}

/* A time that is 0 where it was not measured. */
static double iteration_measured(double us)
{
    return us > 0 ? us : NAN;
}

/* AUTO's gain is 1 by definition. */
static double iteration_gain(const struct stp_iteration_arm *arm,
                             const struct stp_gain *gain)
{
    if (arm->arm.kind == STP_ARM_AUTO)
        return 1;
    return gain->n_pairs > 0 ? gain->gain : NAN;
}

static double iteration_end(const struct stp_iteration_arm *arm,
                            const struct stp_gain *gain, double end)
{
    return stp_iteration_interval(arm, gain) ? end : NAN;
}

/* The numbers of an arm, or of its setting. */
static void iteration_put_results(const struct stp_iteration_setting *setting,
                                  const struct stp_iteration_arm *arm,
                                  bool of_setting, struct stp_table *t)
{
    const struct stp_gain *gain = &arm->gain;
    const struct stp_gain *alone = &arm->alone_gain;
    bool has_alone = arm->alone_us > 0;
    bool several = setting->arms[0].n_rounds > 1;
    const struct iteration_number numbers[] = {
        {"rounds", arm->n_rounds, WHOLE, false},
        {"iterations", (double)arm->n_iterations, WHOLE, false},
        {"mean_us", arm->us.mean, US, false},
        {"p50_us", arm->us.median, US, false},
        {"p95_us", arm->us.p95, US, false},
        {"p99_us", arm->us.p99, US, false},
        {"min_us", arm->us.min, US, false},
        {"gain", iteration_gain(arm, gain), GAIN, false},
        {"gain_low", iteration_end(arm, gain, gain->low), GAIN, false},
        {"gain_high", iteration_end(arm, gain, gain->high), GAIN, false},
        {"exposed_us", arm->exposed_us, US, false},
        {"compute_us", setting->compute_us, US, true},
        {"comm_us", iteration_measured(setting->comm_us), US, true},
        {"alone_us", iteration_measured(arm->alone_us), US, false},
        {"alone_algbw", has_alone ? arm->algbw : NAN, SHORT, false},
        {"alone_busbw", has_alone ? arm->busbw : NAN, SHORT, false},
        {"alone_gain", has_alone ? iteration_gain(arm, alone) : NAN, GAIN,
         false},
        {"alone_gain_low",
         has_alone ? iteration_end(arm, alone, alone->low) : NAN, GAIN, false},
        {"alone_gain_high",
         has_alone ? iteration_end(arm, alone, alone->high) : NAN, GAIN, false},
        {"noise", several ? setting->noise : NAN, GAIN, true},
        {"resolution", setting->resolution, GAIN, true},
    };

    iteration_put_numbers(numbers, sizeof(numbers) / sizeof(numbers[0]),
                          of_setting, t);
}

static void iteration_put_setting(const struct stp_iteration_setting *setting,
                                  struct stp_table *t)
{
    const struct stp_measurement *m = &setting->like;
    const struct stp_workload *w = &m->work;
    char name[STP_SETTING_NAME];

    stp_iteration_setting_name(setting, name);
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

/* ---- cells of terminals and Markdown ---- */

/* Tenths are enough for long times; NAN: not measured. */
static void iteration_put_us(const struct stp_iteration_setting *setting,
                             const char *heading, double us,
                             struct stp_table *t)
{
    stp_table_number(t, NULL, heading, us,
                     setting->arms[0].us.mean >= 1000 ? 1 : 2);
}

/* The gain and its interval; without rounds, or if not measured, "-". */
static void iteration_put_gain(const struct stp_iteration_arm *arm,
                               const struct stp_gain *gain, bool has_gain,
                               const char *heading, const char *interval,
                               struct stp_table *t)
{
    bool is_auto = arm->arm.kind == STP_ARM_AUTO;
    char text[STP_INTERVAL];

    has_gain &= is_auto || gain->n_pairs > 0;
    stp_interval_text(gain, text);
    stp_table_number(t, NULL, heading,
                     has_gain ? iteration_gain(arm, gain) : NAN,
                     is_auto ? 0 : 3);
    stp_table_word(t, NULL, interval, !has_gain ? NULL : is_auto ? "" : text);
}

static void iteration_put_cells(const struct stp_iteration_setting *setting,
                                const struct stp_iteration_arm *arm,
                                struct stp_table *t)
{
    bool md = t->format == STP_TABLE_MARKDOWN;
    bool has_alone = arm->alone_us > 0;

    stp_table_count(t, NULL, md ? "rounds" : NULL, arm->n_rounds);
    stp_table_count(t, NULL, md ? "iterations" : NULL, arm->n_iterations);
    iteration_put_us(setting, "mean us", arm->us.mean, t);
    iteration_put_us(setting, md ? "p50 us" : "p50", arm->us.median, t);
    iteration_put_us(setting, md ? "p95 us" : "p95", arm->us.p95, t);
    iteration_put_us(setting, md ? "p99 us" : "p99", arm->us.p99, t);
    iteration_put_us(setting, md ? "min us" : NULL, arm->us.min, t);
    iteration_put_gain(arm, &arm->gain, true, "gain", "95% interval", t);
    iteration_put_us(setting, md ? "exposed us" : "exposed", arm->exposed_us,
                     t);
    iteration_put_us(setting, "alone us", has_alone ? arm->alone_us : NAN, t);
    stp_table_number(t, NULL, md ? "alone algbw GB/s" : NULL,
                     has_alone ? arm->algbw : NAN, 2);
    stp_table_number(t, NULL, md ? "alone busbw GB/s" : "busbw",
                     has_alone ? arm->busbw : NAN, 2);
    iteration_put_gain(arm, &arm->alone_gain, has_alone, "alone gain",
                       md ? "95% interval" : NULL, t);
    stp_table_word(t, NULL, md ? "<times" : NULL, stp_source_name(arm->source));
}

/* ---- arms ---- */

static void iteration_put_arm_name(const struct stp_iteration_arm *arm,
                                   const char *key, const char *heading,
                                   struct stp_table *t)
{
    char name[STP_ARM_NAME];

    stp_arm_name(&arm->arm, name);
    stp_table_word(t, key, heading, name);
}

static void iteration_put_arm(const struct stp_iteration_setting *setting,
                              const struct stp_iteration_arm *arm,
                              struct stp_table *t)
{
    const char *source = stp_source_name(arm->source);

    stp_table_row(t);
    if (t->format == STP_TABLE_CSV)
        iteration_put_setting(setting, t);
    iteration_put_arm_name(arm, "arm", "<arm", t);
    stp_table_ran(t, "ran", "<ran as", arm->ran_algo, arm->ran_proto,
                  arm->ran_channels);
    if (t->format == STP_TABLE_JSON)
        stp_table_word(t, "source", NULL, source);
    iteration_put_results(setting, arm, false, t);
    iteration_put_cells(setting, arm, t);
    if (t->format == STP_TABLE_CSV)
        stp_table_word(t, "source", NULL, source);
}

static void iteration_put_arms(const struct stp_iteration_setting *setting,
                               struct stp_table *t)
{
    for (size_t a = 0; a < setting->n_arms; a++)
        iteration_put_arm(setting, &setting->arms[a], t);
}

/* "compute alone 1180.2 us, communication alone 1230.4 us" */
static void iteration_write_alone(const struct stp_iteration_setting *setting,
                                  FILE *fp)
{
    int digits = setting->arms[0].us.mean >= 1000 ? 1 : 2;

    fprintf(fp, "compute alone %.*f us", digits, setting->compute_us);
    if (setting->comm_us > 0)
        fprintf(fp, ", communication alone %.*f us", digits, setting->comm_us);
}

static enum stp_status
iteration_print_setting(const struct stp_iteration_setting *setting, FILE *fp,
                        struct stp_error *err)
{
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);
    enum stp_source source = stp_iteration_source(setting);
    char text[STP_ITERATION_TEXT];
    char size[32];
    enum stp_status status;

    snprintf(size, sizeof(size), "%" PRIu64 " bytes", setting->like.n_bytes);
    stp_iteration_what(setting, size, text);
    fprintf(fp, "%s; ", text);
    iteration_write_alone(setting, fp);
    if (source != STP_SOURCE_MEASURED)
        fprintf(fp, "; %s", stp_source_name(source));
    fputc('\n', fp);
    iteration_put_arms(setting, &t);
    status = stp_table_end(&t, fp, err);
    stp_iteration_verdict(setting, "\n", text);
    fprintf(fp, "%s\n", text);
    return status;
}

enum stp_status
stp_print_iterations(const struct stp_iteration_summary *summary, FILE *fp,
                     struct stp_error *err)
{
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < summary->n_settings && status == STP_OK; i++) {
        if (i > 0)
            fputc('\n', fp);
        status = iteration_print_setting(&summary->settings[i], fp, err);
    }
    return status;
}

static void iteration_write_md_head(const struct stp_iteration_report *report,
                                    const char *title, FILE *fp)
{
    char origin[STP_ITERATION_TEXT];

    stp_iteration_origin(&report->iterations->data, report->summary->settings,
                         report->summary->n_settings, origin);
    fprintf(fp, "# %s\n\n%s; %s\n", title, origin, report->made_by);
}

enum stp_status
stp_iteration_write_summary_md(const struct stp_iteration_report *report,
                               FILE *fp, struct stp_error *err)
{
    enum stp_status status = STP_OK;

    iteration_write_md_head(report,
                            "Training iterations: each arm against AUTO", fp);
    for (size_t i = 0; i < report->summary->n_settings && status == STP_OK;
         i++) {
        const struct stp_iteration_setting *s = &report->summary->settings[i];
        struct stp_table t = stp_table_begin(STP_TABLE_MARKDOWN);
        char text[STP_ITERATION_TEXT];
        char size[32];

        stp_size_text(s->like.n_bytes, size);
        stp_iteration_what(s, size, text);
        fprintf(fp, "\n## %s\n\n%u rank%s; ", text, s->like.n_ranks,
                s->like.n_ranks == 1 ? "" : "s");
        iteration_write_alone(s, fp);
        fputs(".\n\n", fp);
        iteration_put_arms(s, &t);
        status = stp_table_end(&t, fp, err);
        stp_iteration_verdict(s, " ", text);
        fprintf(fp, "\n%s\n", text);
    }
    return status;
}

static void iteration_write_csv_head(const struct stp_iteration_report *report,
                                     FILE *fp)
{
    const struct stp_dataset *d = &report->iterations->data;

    fprintf(fp, "# %s\n# machine: %s\n# gpu: %s\n# nccl: %s\n# backend: %s\n",
            report->made_by, d->machine, d->gpu, d->nccl, d->backend);
}

enum stp_status
stp_iteration_write_summary_csv(const struct stp_iteration_report *report,
                                FILE *fp, struct stp_error *err)
{
    static const struct stp_iteration_arm no_arm;
    static const struct stp_iteration_setting no_setting = {.arms = &no_arm};
    struct stp_table t = stp_table_begin(STP_TABLE_CSV);

    iteration_write_csv_head(report, fp);
    if (stp_table_headings(&t))
        iteration_put_arm(&no_setting, &no_arm, &t);
    for (size_t i = 0; i < report->summary->n_settings; i++)
        iteration_put_arms(&report->summary->settings[i], &t);
    return stp_table_end(&t, fp, err);
}

/* ---- regimes ---- */

/* Both arms of a regime may be AUTO: its gains are over the other arm. */
static double iteration_regime_end(const struct stp_gain *gain, double end)
{
    return gain->n_pairs > 1 && isfinite(gain->high) ? end : NAN;
}

static void iteration_put_regime_gain(const struct stp_gain *gain,
                                      const char *heading, struct stp_table *t)
{
    char interval[STP_INTERVAL];

    stp_interval_text(gain, interval);
    stp_table_number(t, NULL, heading, gain->gain, 3);
    stp_table_word(t, NULL, "95% interval", interval);
}

static void iteration_put_regime(const struct stp_regime *r,
                                 struct stp_table *t)
{
    const struct stp_gain *gain = &r->gain;
    const struct stp_gain *alone = &r->alone_gain;
    const struct iteration_number numbers[] = {
        {"fastest_alone_mean_us", r->alone->us.mean, US, false},
        {"best_iteration_mean_us", r->best->us.mean, US, false},
        {"gain", gain->gain, GAIN, false},
        {"gain_low", iteration_regime_end(gain, gain->low), GAIN, false},
        {"gain_high", iteration_regime_end(gain, gain->high), GAIN, false},
        {"fastest_alone_us", iteration_measured(r->alone->alone_us), US, false},
        {"best_iteration_alone_us", iteration_measured(r->best->alone_us), US,
         false},
        {"alone_gain", alone->gain, GAIN, false},
        {"alone_gain_low", iteration_regime_end(alone, alone->low), GAIN,
         false},
        {"alone_gain_high", iteration_regime_end(alone, alone->high), GAIN,
         false},
        {"rounds", (double)gain->n_pairs, WHOLE, false},
    };
    enum stp_source source =
        r->alone->source > r->best->source ? r->alone->source : r->best->source;
    char name[STP_SETTING_NAME];

    stp_iteration_setting_name(r->setting, name);
    stp_table_row(t);
    iteration_put_setting(r->setting, t);
    stp_table_word(t, NULL, "<setting", name);
    iteration_put_arm_name(r->alone, "fastest_alone", "<fastest alone", t);
    iteration_put_arm_name(r->best, "best_iteration", "<best iteration", t);
    iteration_put_numbers(numbers, sizeof(numbers) / sizeof(numbers[0]), false,
                          t);
    iteration_put_regime_gain(gain, "gain", t);
    iteration_put_regime_gain(alone, "alone gain", t);
    if (t->format == STP_TABLE_CSV)
        stp_table_word(t, "source", NULL, stp_source_name(source));
}

static void iteration_put_regimes(const struct stp_iteration_report *report,
                                  struct stp_table *t)
{
    static const struct stp_iteration_setting no_setting;
    static const struct stp_iteration_arm no_arm;
    const struct stp_regime none = {
        .setting = &no_setting, .alone = &no_arm, .best = &no_arm};

    if (t->format == STP_TABLE_CSV && stp_table_headings(t))
        iteration_put_regime(&none, t);
    for (size_t i = 0; i < report->n_regimes; i++)
        iteration_put_regime(&report->regimes[i], t);
}

enum stp_status stp_print_regimes(const struct stp_iteration_report *report,
                                  FILE *fp, struct stp_error *err)
{
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);
    char text[STP_ITERATION_TEXT];

    if (report->n_regimes == 0)
        return STP_OK;
    stp_iteration_regime_text(report, text);
    fprintf(fp, "%s\n", text);
    iteration_put_regimes(report, &t);
    return stp_table_end(&t, fp, err);
}

enum stp_status
stp_iteration_write_regimes_md(const struct stp_iteration_report *report,
                               FILE *fp, struct stp_error *err)
{
    struct stp_table t = stp_table_begin(STP_TABLE_MARKDOWN);
    char text[STP_ITERATION_TEXT];

    iteration_write_md_head(
        report, "Where the fastest collective is not the shortest iteration",
        fp);
    stp_iteration_regime_text(report, text);
    fprintf(fp, "\n%s\n%s", text, report->n_regimes > 0 ? "\n" : "");
    iteration_put_regimes(report, &t);
    return stp_table_end(&t, fp, err);
}

enum stp_status
stp_iteration_write_regimes_csv(const struct stp_iteration_report *report,
                                FILE *fp, struct stp_error *err)
{
    struct stp_table t = stp_table_begin(STP_TABLE_CSV);

    iteration_write_csv_head(report, fp);
    iteration_put_regimes(report, &t);
    return stp_table_end(&t, fp, err);
}

/* ---- JSON ---- */

enum stp_status
stp_print_iterations_json(const struct stp_iteration_report *report, FILE *fp,
                          struct stp_error *err)
{
    const struct stp_dataset *data = &report->iterations->data;
    cJSON *root = cJSON_CreateObject();
    struct stp_table t;

    stp_json_word(root, "made_by", report->made_by);
    stp_json_word(root, "machine", data->machine);
    stp_json_word(root, "gpu", data->gpu);
    stp_json_word(root, "nccl", data->nccl);
    stp_json_word(root, "backend", data->backend);
    t = stp_table_array(root, "settings");
    for (size_t i = 0; i < report->summary->n_settings; i++) {
        const struct stp_iteration_setting *s = &report->summary->settings[i];
        cJSON *row = stp_table_row(&t);
        char text[STP_ITERATION_TEXT];
        struct stp_table arms;

        iteration_put_setting(s, &t);
        iteration_put_results(s, s->arms, true, &t);
        stp_iteration_verdict(s, " ", text);
        stp_json_word(row, "verdict", text);
        arms = stp_table_array(row, "arms");
        iteration_put_arms(s, &arms);
    }
    if (report->looked_for_regimes) {
        stp_json_number(root, "min_gain", report->min_gain);
        t = stp_table_array(root, "regimes");
        iteration_put_regimes(report, &t);
    }
    return stp_json_finish(root, fp, err);
}
