/* iteration_words.c - names of settings, and sentences on them */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyse/order.h"
#include "core/dtype.h"
#include "core/names.h"
#include "core/text.h"
#include "nccl_tuner_abi.h"
#include "report/charts/labels.h"
#include "report/iterations/iteration_words.h"
#include "report/words.h"

bool stp_iteration_several(const struct stp_iteration_report *report)
{
    return report->several || report->summary->n_settings > 1;
}

/* Names a setting; 'size' is "" or ends in "_". */
static void iteration_name_setting(const struct stp_iteration_setting *setting,
                                   const char *size,
                                   char name[STP_SETTING_NAME])
{
    const struct stp_measurement *m = &setting->like;
    const struct stp_workload *w = &m->work;
    bool training = w->compute != STP_COMPUTE_GEMM;
    bool usual = m->coll == (w->mode == STP_MODE_FSDP ? ncclFuncAllGather
                                                      : ncclFuncAllReduce);
    char product[48];

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

void stp_iteration_setting_name(const struct stp_iteration_setting *setting,
                                char name[STP_SETTING_NAME])
{
    static const char units[] = {'G', 'M', 'K', '_'};
    const uint64_t n_bytes = setting->like.n_bytes;
    unsigned i = 0; /* the largest unit that divides it: "8M_", "1000_" */
    char size[32];

    while (i < 3 && (n_bytes < (uint64_t)1 << (30 - 10 * i) ||
                     n_bytes % ((uint64_t)1 << (30 - 10 * i)) != 0))
        i++;
    snprintf(size, sizeof(size), "%" PRIu64 "%c%s", n_bytes >> (30 - 10 * i),
             units[i], i < 3 ? "_" : "");
    iteration_name_setting(setting, size, name);
}

void stp_iteration_group_name(const struct stp_iteration_setting *setting,
                              char name[STP_SETTING_NAME])
{
    iteration_name_setting(setting, "", name);
}

void stp_iteration_what(const struct stp_iteration_setting *setting,
                        const char *size, char text[STP_ITERATION_TEXT])
{
    const struct stp_measurement *m = &setting->like;
    const struct stp_workload *w = &m->work;
    const bool reduces = w->mode == STP_MODE_FSDP || stp_coll_reduces(m->coll);
    const bool op = reduces && m->op != STP_OP_SUM;
    char data[32] = ""; /* type and operation, unless they are bf16 and sum */
    char product[48];

    if (m->type != STP_TYPE_BF16 || op)
        snprintf(data, sizeof(data), ", %s%s%s", stp_type_name(m->type),
                 op ? " " : "", op ? stp_op_name(m->op) : "");
    if (w->mode == STP_MODE_TRACE) {
        snprintf(text, STP_ITERATION_TEXT,
                 "%s: a step of it, most of its bytes by %s%s%s%s",
                 stp_mode_name(w->mode), stp_coll_name(m->coll),
                 size != NULL ? " of " : "", size != NULL ? size : "", data);
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
             w->layers, w->layers == 1 ? "" : "s", stp_compute_name(w->compute),
             product, m->graph ? ", captured" : "");
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

void stp_iteration_verdict(const struct stp_iteration_setting *setting,
                           const char *between, char text[STP_ITERATION_TEXT])
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

void stp_iteration_regime_text(const struct stp_iteration_report *report,
                               char text[STP_ITERATION_TEXT])
{
    size_t n = report->summary->n_settings;
    const char *s = n == 1 ? "" : "s";
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
            stp_order_kinds(row, like) == 0 &&
            stp_workload_order(&row->work, &like->work) == 0) {
            *n_ret = row->iters;
            return us;
        }
    }
    return NULL;
}
