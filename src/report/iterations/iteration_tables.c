/* iteration_tables.c - tables of iterations, for terminals and as Markdown */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#include "report/charts/labels.h"
#include "report/iterations/iteration_parts.h"
#include "report/table.h"
#include "report/words.h"

enum { CELL = 48 };

/* The cells of an arm, in the order of these columns. */
static const struct {
    const char *heading; /* as in table.h; NULL: Markdown only */
    const char *markdown;
} columns[] = {
    {"<arm", "arm"},
    {"<ran as", "ran as"},
    {NULL, "rounds"},
    {NULL, "iterations"},
    {"mean us", "mean us"},
    {"p50", "p50 us"},
    {"p95", "p95 us"},
    {"p99", "p99 us"},
    {NULL, "min us"},
    {"gain", "gain"},
    {"95% interval", "95% interval"},
    {"exposed", "exposed us"},
    {"alone us", "alone us"},
    {NULL, "alone algbw GB/s"},
    {"busbw", "alone busbw GB/s"},
    {"alone gain", "alone gain"},
    {NULL, "95% interval"},
    {NULL, "times"},
};

enum { N_COLUMNS = sizeof(columns) / sizeof(columns[0]) };

struct cells {
    char cell[N_COLUMNS][CELL];
    size_t n;
};

static void add(struct cells *c, const char *fmt, ...) STP_PRINTF(2, 3);

static void add(struct cells *c, const char *fmt, ...)
{
    va_list va;

    va_start(va, fmt);
    vsnprintf(c->cell[c->n++], CELL, fmt, va);
    va_end(va);
}

/* Tenths are enough for long times. */
static void add_us(struct cells *c, const struct stp_iteration_setting *setting,
                   double us)
{
    add(c, "%.*f", setting->arms[0].us.mean >= 1000 ? 1 : 2, us);
}

/* The gain and its interval; AUTO's is 1 by definition. */
static void add_gain(struct cells *c, const struct stp_iteration_arm *arm,
                     const struct stp_gain *gain)
{
    bool is_auto = arm->arm.kind == STP_ARM_AUTO;
    char interval[STP_INTERVAL];

    stp_interval_text(gain, interval);
    if (is_auto)
        add(c, "1");
    else if (gain->n_pairs == 0)
        add(c, "-");
    else
        add(c, "%.3f", gain->gain);
    add(c, "%s", is_auto ? "" : gain->n_pairs == 0 ? "-" : interval);
}

static void add_alone(struct cells *c,
                      const struct stp_iteration_setting *setting,
                      const struct stp_iteration_arm *arm)
{
    add_us(c, setting, arm->alone_us);
    add(c, "%.2f", arm->algbw);
    add(c, "%.2f", arm->busbw);
    add_gain(c, arm, &arm->alone_gain);
}

static struct cells make_cells(const struct stp_iteration_setting *setting,
                               const struct stp_iteration_arm *arm)
{
    struct cells c = {.n = 0};
    char name[STP_ARM_NAME];
    char ran[STP_RAN_NAME];

    stp_arm_name(&arm->arm, name);
    stp_ran_name(arm->ran_algo, arm->ran_proto, arm->ran_channels, ran);
    add(&c, "%s", name);
    add(&c, "%s", ran);
    add(&c, "%u", arm->n_rounds);
    add(&c, "%zu", arm->n_iterations);
    add_us(&c, setting, arm->us.mean);
    add_us(&c, setting, arm->us.median);
    add_us(&c, setting, arm->us.p95);
    add_us(&c, setting, arm->us.p99);
    add_us(&c, setting, arm->us.min);
    add_gain(&c, arm, &arm->gain);
    add_us(&c, setting, arm->exposed_us);
    if (arm->alone_us > 0)
        add_alone(&c, setting, arm);
    while (c.n < N_COLUMNS - 1)
        add(&c, "-");
    add(&c, "%s", stp_source_name(arm->source));
    return c;
}

/* "compute alone 1180.2 us, communication alone 1230.4 us" */
static void write_alone(const struct stp_iteration_setting *setting, FILE *fp)
{
    int decimals = setting->arms[0].us.mean >= 1000 ? 1 : 2;

    fprintf(fp, "compute alone %.*f us", decimals, setting->compute_us);
    if (setting->comm_us > 0)
        fprintf(fp, ", communication alone %.*f us", decimals,
                setting->comm_us);
}

/* ---- terminals ---- */

static struct stp_table *begin_table(void)
{
    char headings[256] = "";
    size_t len = 0;

    for (size_t i = 0; i < N_COLUMNS; i++)
        if (columns[i].heading != NULL)
            len +=
                (size_t)snprintf(headings + len, sizeof(headings) - len, "%s%s",
                                 len > 0 ? "|" : "", columns[i].heading);
    return stp_table_create(headings);
}

static enum stp_status
print_setting(const struct stp_iteration_setting *setting, FILE *fp,
              struct stp_error *err)
{
    struct stp_table *t = begin_table();
    char text[STP_ITERATION_TEXT];
    char size[32];
    enum stp_source source = stp_iteration_source(setting);
    enum stp_status status;

    snprintf(size, sizeof(size), "%" PRIu64 " bytes", setting->like.n_bytes);
    stp_iteration_what(setting, size, text);
    fprintf(fp, "%s; ", text);
    write_alone(setting, fp);
    if (source != STP_SOURCE_MEASURED)
        fprintf(fp, "; %s", stp_source_name(source));
    fputc('\n', fp);
    for (size_t a = 0; t != NULL && a < setting->n_arms; a++) {
        struct cells c = make_cells(setting, &setting->arms[a]);

        for (size_t i = 0; i < N_COLUMNS; i++)
            if (columns[i].heading != NULL)
                stp_table_add(t, "%s", c.cell[i]);
    }
    status = stp_table_finish(t, fp, err);
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
        status = print_setting(&summary->settings[i], fp, err);
    }
    return status;
}

/* ---- Markdown ---- */

static void write_setting(const struct stp_iteration_setting *setting, FILE *fp)
{
    const struct stp_measurement *m = &setting->like;
    char text[STP_ITERATION_TEXT];
    char size[32];

    stp_size_text(m->n_bytes, size);
    stp_iteration_what(setting, size, text);
    fprintf(fp, "\n## %s\n\n%u rank%s; ", text, m->n_ranks,
            m->n_ranks == 1 ? "" : "s");
    write_alone(setting, fp);
    fputs(".\n\n", fp);
    for (size_t i = 0; i < N_COLUMNS; i++)
        fprintf(fp, "| %s ", columns[i].markdown);
    fputs("|\n", fp);
    for (size_t i = 0; i < N_COLUMNS; i++)
        fputs(i < 2 || i == N_COLUMNS - 1 ? "|---" : "|--:", fp);
    fputs("|\n", fp);
    for (size_t a = 0; a < setting->n_arms; a++) {
        struct cells c = make_cells(setting, &setting->arms[a]);

        for (size_t i = 0; i < N_COLUMNS; i++)
            fprintf(fp, "| %s ", c.cell[i]);
        fputs("|\n", fp);
    }
    stp_iteration_verdict(setting, " ", text);
    fprintf(fp, "\n%s\n", text);
}

static void write_head(const struct stp_iteration_report *report,
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
    (void)err;
    write_head(report, "Training iterations: each arm against AUTO", fp);
    for (size_t i = 0; i < report->summary->n_settings; i++)
        write_setting(&report->summary->settings[i], fp);
    return STP_OK;
}

/* ---- regimes ---- */

enum { N_REGIME_COLUMNS = 7 };

static void regime_cells(const struct stp_regime *r,
                         char cells[N_REGIME_COLUMNS][STP_SETTING_NAME])
{
    stp_iteration_setting_name(r->setting, cells[0]);
    stp_arm_name(&r->alone->arm, cells[1]);
    stp_arm_name(&r->best->arm, cells[2]);
    snprintf(cells[3], STP_SETTING_NAME, "%.3f", r->gain.gain);
    stp_interval_text(&r->gain, cells[4]);
    snprintf(cells[5], STP_SETTING_NAME, "%.3f", r->alone_gain.gain);
    stp_interval_text(&r->alone_gain, cells[6]);
}

enum stp_status stp_print_regimes(const struct stp_iteration_report *report,
                                  FILE *fp, struct stp_error *err)
{
    char text[STP_ITERATION_TEXT];
    struct stp_table *t;

    if (report->n_regimes == 0)
        return STP_OK;
    stp_iteration_regime_text(report, text);
    fprintf(fp, "%s\n", text);
    t = stp_table_create("<setting|<fastest alone|<best iteration|gain|"
                         "95% interval|alone gain|95% interval");
    for (size_t i = 0; t != NULL && i < report->n_regimes; i++) {
        char cells[N_REGIME_COLUMNS][STP_SETTING_NAME];

        regime_cells(&report->regimes[i], cells);
        for (size_t c = 0; c < N_REGIME_COLUMNS; c++)
            stp_table_add(t, "%s", cells[c]);
    }
    return stp_table_finish(t, fp, err);
}

enum stp_status
stp_iteration_write_regimes_md(const struct stp_iteration_report *report,
                               FILE *fp, struct stp_error *err)
{
    char text[STP_ITERATION_TEXT];

    (void)err;
    write_head(report,
               "Where the fastest collective is not the shortest iteration",
               fp);
    stp_iteration_regime_text(report, text);
    fprintf(fp, "\n%s\n", text);
    for (size_t i = 0; i < report->n_regimes; i++) {
        char cells[N_REGIME_COLUMNS][STP_SETTING_NAME];

        if (i == 0)
            fputs("\n| setting | fastest alone | best iteration | gain | 95% "
                  "interval | alone gain | 95% interval |\n"
                  "|---|---|---|--:|--:|--:|--:|\n",
                  fp);
        regime_cells(&report->regimes[i], cells);
        for (size_t c = 0; c < N_REGIME_COLUMNS; c++)
            fprintf(fp, "| %s ", cells[c]);
        fputs("|\n", fp);
    }
    return STP_OK;
}
