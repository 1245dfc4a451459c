/* doctor_paths.c - variables that switch fast paths of NCCL off, each with what
 * that costs by measurements */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyse/compare.h"
#include "cli/doctor/doctor.h"
#include "core/names.h"
#include "plugin/settings.h"
#include "report/measurements/measurements_csv.h"
#include "tune/tune.h"

/* Gains below are noise. */
#define LEAST_COST 1.02

/* Whether the first word of an arm's name is in the list. */
static bool paths_names(const char *arms, const char *name)
{
    return stp_words_have(arms, name, strcspn(name, "/"), true);
}

bool stp_doctor_off_for(const char *arm, struct stp_variable *v_ret)
{
    for (size_t i = 0; stp_variable_at(i, v_ret); i++)
        if (paths_names(v_ret->arms, arm) &&
            stp_variable_is_off(v_ret, stp_doctor_setting(v_ret->name)))
            return true;
    return false;
}

/* ---- what it costs ---- */

/* Times of a message with the path and without it, in us; INFINITY where
 * nothing was measured. */
struct path_times {
    double with, without;
    enum stp_source source;
};

struct path_cost {
    size_t n_points;  /* messages measured with the path and without it */
    size_t n_costing; /* where LEAST_COST or more */
    double most;      /* without over with */
    const struct stp_point *at;
    struct path_times times; /* there */
};

/* Notes a time; what a model says is no price. */
static void paths_add_time(struct path_times *times, bool needs, double us,
                           enum stp_source source)
{
    double *best = needs ? &times->with : &times->without;

    if (!stp_source_decides(source))
        return;
    *best = fmin(*best, us);
    times->source = stp_source_worst(times->source, source);
}

static struct path_cost paths_find_cost(const struct stp_comparisons *all,
                                        const char *arms)
{
    struct path_cost cost = {.most = 0};

    for (const struct stp_point *p = all->points;
         p < all->points + all->n_points; p++) {
        struct path_times times = {INFINITY, INFINITY, STP_SOURCE_MEASURED};
        double ratio;

        if (p->auto_algo >= 0)
            paths_add_time(&times,
                           paths_names(arms, stp_algo_name(p->auto_algo)),
                           p->auto_us, p->source);
        for (size_t i = 0; i < p->n_arms; i++) {
            const struct stp_comparison *arm = &p->arms[i];
            char name[STP_ARM_NAME];

            if (arm->arm.kind == STP_ARM_AUTO_AGAIN ||
                arm->arm.kind == STP_ARM_PLUGIN ||
                !stp_arm_ran(&arm->arm, arm->ran_algo, arm->ran_proto))
                continue;
            stp_arm_name(&arm->arm, name);
            paths_add_time(&times, paths_names(arms, name), arm->us,
                           arm->source);
        }
        if (isinf(times.with) || isinf(times.without))
            continue;
        ratio = times.without / times.with;
        cost.n_points++;
        cost.n_costing += ratio >= LEAST_COST;
        if (ratio > cost.most) {
            cost.most = ratio;
            cost.at = p;
            cost.times = times;
        }
    }
    return cost;
}

/* ---- findings ---- */

/* The measurements of a fast path: no points and no path if there are none. */
struct path_measurements {
    char path[STP_CLI_PATH];
    struct stp_dataset data;
    struct stp_comparisons all;
};

static void paths_price(struct stp_doctor *d, const struct stp_variable *v,
                        const struct path_measurements *m)
{
    const bool has_arms = v->arms[0] != '\0';
    const struct path_cost cost = has_arms ? paths_find_cost(&m->all, v->arms)
                                           : (struct path_cost){.n_points = 0};

    if (cost.n_points == 0) {
        stp_diagnose_why(&d->diagnosis, "what that costs was not measured%s%s",
                         m->path[0] != '\0' ? " in " : " here", m->path);
        stp_diagnose_todo(
            &d->diagnosis,
            has_arms
                ? "unset it, or measure without it by `steptune sweep --arms "
                  "all,memory`, and name the file by --measurements"
                : "unset it, or measure a job with it and without it by "
                  "`steptune compare --env`");
        return;
    }
    stp_diagnose_todo(&d->diagnosis, "unset it, or keep it where it costs "
                                     "nothing");
    if (cost.n_costing == 0)
        stp_diagnose_why(&d->diagnosis,
                         "by %s that costs less than 2 percent at each "
                         "message measured with it and without it (%zu)",
                         m->path, cost.n_points);
    else
        stp_diagnose_why(
            &d->diagnosis,
            "by %s that costs 2 percent or more at %zu of %zu messages, most "
            "at %s of %" PRIu64
            " bytes: %.1f us instead of %.1f us (%.2fx; %s)",
            m->path, cost.n_costing, cost.n_points,
            // NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
            stp_coll_name(cost.at->coll), cost.at->n_bytes, cost.times.without,
            cost.times.with, cost.most, stp_source_name(cost.times.source));
}

/* Loads the file that is named, or that `tune` left beside the policy. */
static void paths_load(struct stp_doctor *d, struct path_measurements *m)
{
    static struct stp_tune_files files;
    struct stp_plugin_settings settings;
    const char *path = d->measurements;
    char text[STP_CLI_PATH + STP_ERROR_TEXT];
    struct stp_error err;

    if (path == NULL && stp_settings_read(&settings, NULL) == STP_OK &&
        stp_tune_name_files(settings.policy_path, &files) &&
        access(files.sweep, R_OK) == 0)
        path = files.sweep;
    if (path == NULL)
        return;
    if (stp_measurements_load_any(path, -1, 0, &m->data, &err) == STP_OK &&
        stp_compare(&m->data, &m->all, &err) == STP_OK) {
        snprintf(m->path, sizeof(m->path), "%s", path);
        return;
    }
    stp_error_string(&err, path, text, sizeof(text));
    STP_PROBLEM(d, "what is switched off has no price without them",
                "name others by --measurements", "measurements %s", text);
}

void stp_doctor_paths(struct stp_doctor *d)
{
    struct path_measurements m = {.path = ""};
    struct stp_variable v;
    bool any = false;

    paths_load(d, &m);
    for (size_t i = 0; stp_variable_at(i, &v); i++) {
        const char *value = stp_doctor_setting(v.name);

        if (!stp_variable_is_off(&v, value))
            continue;
        any = true;
        STP_REMARK(d, NULL, NULL, "%s=%s (%s) switches off %s", v.name, value,
                   stp_doctor_where(d, v.name), v.path);
        paths_price(d, &v, &m);
    }
    if (!any)
        STP_FINE(d, "no variable switches off a fast path of NCCL");
    stp_comparisons_free(&m.all);
    stp_dataset_free(&m.data);
}
