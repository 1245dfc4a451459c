#include "report/results/why.h"

#include <inttypes.h>
#include <math.h>

#include "core/names.h"
#include "report/json.h"
#include "report/table.h"
#include "report/words.h"

/* ---- the cost table ---- */

struct entry {
    int algo;
    int proto;
    double us;    /* NAN: ruled out */
    double after; /* as the plugin leaves it; likewise */
    bool changed;
};

static double cost(float us)
{
    return us >= 0 ? (double)us : NAN;
}

/* The entry, if either table has it; NCCL has others of 21 than it can run. */
static bool has_entry(const struct stp_why *why, int algo, int proto,
                      struct entry *entry_ret)
{
    float before = why->cost[algo][proto];
    float after = why->cost_after[algo][proto];

    *entry_ret =
        (struct entry){algo, proto, cost(before), cost(after), before != after};
    return before >= 0 || after >= 0;
}

static bool is_pick(const struct entry *entry, struct stp_pick pick)
{
    return entry->algo == pick.algo && entry->proto == pick.proto;
}

static const char *chooser(const struct stp_why *why, const struct entry *entry)
{
    static const char *const choosers[] = {"-", "NCCL", "plugin", "both"};

    return choosers[is_pick(entry, why->alone.pick) +
                    2 * is_pick(entry, why->tuned.pick)];
}

/* "-" for NAN. */
static void add_us(struct stp_table *t, double us)
{
    if (isnan(us))
        stp_table_add(t, "-");
    else
        stp_table_add(t, "%.3f", us);
}

static enum stp_status print_costs(const struct stp_why *why, FILE *fp,
                                   struct stp_error *err)
{
    struct stp_table *t =
        stp_table_create("<entry|NCCL's us|plugin's us|<changed|<chosen by");
    struct entry entry;

    for (int a = 0; t != NULL && a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            if (!has_entry(why, a, p, &entry))
                continue;
            stp_table_add(t, "%s/%s", stp_algo_name(a), stp_proto_name(p));
            add_us(t, entry.us);
            add_us(t, entry.after);
            stp_table_add(t, entry.changed ? "yes" : "");
            stp_table_add(t, "%s", chooser(why, &entry));
        }
    return stp_table_finish(t, fp, err);
}

/* ---- what runs ---- */

static void add_run(struct stp_table *t, const char *who,
                    const struct stp_why_run *run)
{
    char name[STP_RAN_NAME];

    stp_ran_name(run->pick.algo, run->pick.proto, 0, name);
    stp_table_add(t, "%s", who);
    stp_table_add(t, "%s", name);
    stp_table_add(t, "%d", run->n_channels);
    if (run->asked_channels != 0)
        stp_table_add(t, "%d", run->asked_channels);
    else
        stp_table_add(t, "-");
    add_us(t, run->predicted_us);
    add_us(t, run->us);
    stp_table_add(t, isnan(run->us) ? "-" : "%s", stp_source_name(run->source));
}

static enum stp_status print_runs(const struct stp_why *why, FILE *fp,
                                  struct stp_error *err)
{
    struct stp_table *t = stp_table_create(
        "<|<runs|channels|asked for|predicted us|recorded us|<source");

    if (t != NULL) {
        add_run(t, "NCCL alone", &why->alone);
        add_run(t, "with the plugin", &why->tuned);
    }
    return stp_table_finish(t, fp, err);
}

/* ---- who decided ---- */

static void print_decider(const struct stp_why_report *r, FILE *fp)
{
    switch (r->why->decider) {
    case STP_DECIDER_RULE:
        fprintf(fp, "Decided by %s:%u: %s\n", r->policy, r->why->line,
                r->rule != NULL ? r->rule : "");
        break;
    case STP_DECIDER_PLUGIN:
        fprintf(fp, "Decided by the plugin, by no line of a policy that is "
                    "known.\n");
        break;
    case STP_DECIDER_NCCL:
        if (r->policy != NULL)
            fprintf(fp, "Decided by NCCL: no line of %s applies.\n", r->policy);
        else
            fprintf(fp, "Decided by NCCL: the plugin changed nothing.\n");
        break;
    }
}

static void print_override(const struct stp_override *o, FILE *fp)
{
    char name[STP_RAN_NAME];

    fprintf(fp, "%s=%s is set here: ", o->name, o->value);
    switch (o->kind) {
    case STP_OVERRIDE_NOTHING:
        fprintf(fp, "the same runs.\n");
        break;
    case STP_OVERRIDE_RUNS:
        stp_ran_name(o->pick.algo, o->pick.proto, 0, name);
        fprintf(fp, "it overrides that, and %s runs on %d channels.\n", name,
                o->n_channels);
        break;
    case STP_OVERRIDE_FAILS:
        fprintf(fp, "NCCL fails: %s\n", o->text);
        break;
    case STP_OVERRIDE_UNPLAYED:
        fprintf(fp, "%s; mock NCCL does not play that.\n", o->text);
        break;
    }
}

static void print_overrides(const struct stp_why *why, FILE *fp)
{
    for (size_t i = 0; i < why->n_overrides; i++)
        print_override(&why->overrides[i], fp);
    if (why->n_overrides != 0)
        return;
    fprintf(fp, "Nothing that is set here overrides it: ");
    for (size_t i = 0; stp_override_name(i) != NULL; i++)
        fprintf(fp, "%s%s", i == 0 ? "" : ", ", stp_override_name(i));
    fprintf(fp, " are unset.\n");
}

enum stp_status stp_print_why(const struct stp_why_report *report, FILE *fp,
                              struct stp_error *err)
{
    const struct stp_why *why = report->why;
    enum stp_status status;

    fprintf(fp, "%s of %" PRIu64 " bytes with %s on %s\n\n",
            stp_coll_name(why->coll), why->n_bytes, report->plugin,
            report->machine);
    status = print_costs(why, fp, err);
    fputc('\n', fp);
    if (status == STP_OK)
        status = print_runs(why, fp, err);
    fputc('\n', fp);
    print_decider(report, fp);
    print_overrides(why, fp);
    return status;
}

/* ---- JSON ---- */

static void add_costs_json(cJSON *root, const struct stp_why *why)
{
    cJSON *list = cJSON_AddArrayToObject(root, "costs");
    struct entry entry;

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            cJSON *row;

            if (!has_entry(why, a, p, &entry))
                continue;
            row = stp_json_row(list);
            cJSON_AddStringToObject(row, "algorithm", stp_algo_name(a));
            cJSON_AddStringToObject(row, "protocol", stp_proto_name(p));
            stp_json_number(row, "us", entry.us);
            stp_json_number(row, "plugin_us", entry.after);
            cJSON_AddBoolToObject(row, "changed", entry.changed);
        }
}

static void add_run_json(cJSON *root, const char *key,
                         const struct stp_why_run *run)
{
    cJSON *o = cJSON_AddObjectToObject(root, key);

    stp_json_word(o, "algorithm", stp_algo_name(run->pick.algo));
    stp_json_word(o, "protocol", stp_proto_name(run->pick.proto));
    stp_json_number(o, "channels", run->n_channels);
    stp_json_number(o, "asked_channels", run->asked_channels);
    stp_json_number(o, "predicted_us", run->predicted_us);
    stp_json_number(o, "recorded_us", run->us);
    stp_json_word(o, "source",
                  isnan(run->us) ? NULL : stp_source_name(run->source));
}

static void add_override_json(cJSON *row, const struct stp_override *o)
{
    static const char *const kinds[] = {
        [STP_OVERRIDE_NOTHING] = "nothing",
        [STP_OVERRIDE_RUNS] = "runs",
        [STP_OVERRIDE_FAILS] = "fails",
        [STP_OVERRIDE_UNPLAYED] = "not_played",
    };

    cJSON_AddStringToObject(row, "variable", o->name);
    cJSON_AddStringToObject(row, "value", o->value);
    cJSON_AddStringToObject(row, "effect", kinds[o->kind]);
    if (o->kind == STP_OVERRIDE_RUNS)
        stp_json_pair(row, "choice", o->pick.algo, o->pick.proto,
                      o->n_channels);
    else if (o->text[0] != '\0')
        cJSON_AddStringToObject(row, "text", o->text);
}

enum stp_status stp_print_why_json(const struct stp_why_report *report,
                                   FILE *fp, struct stp_error *err)
{
    const struct stp_why *why = report->why;
    cJSON *root = cJSON_CreateObject();
    bool is_rule = why->decider == STP_DECIDER_RULE;
    cJSON *list;

    cJSON_AddStringToObject(root, "machine", report->machine);
    cJSON_AddStringToObject(root, "plugin", report->plugin);
    cJSON_AddStringToObject(root, "collective", stp_coll_name(why->coll));
    stp_json_number(root, "bytes", (double)why->n_bytes);
    add_costs_json(root, why);
    add_run_json(root, "auto", &why->alone);
    add_run_json(root, "choice", &why->tuned);
    cJSON_AddStringToObject(root, "decided_by", stp_decider_name(why->decider));
    if (is_rule) {
        stp_json_word(root, "policy", report->policy);
        stp_json_number(root, "line", why->line);
        stp_json_word(root, "rule", report->rule);
    }
    list = cJSON_AddArrayToObject(root, "overrides");
    for (size_t i = 0; i < why->n_overrides; i++)
        add_override_json(stp_json_row(list), &why->overrides[i]);
    return stp_json_finish(root, fp, err);
}
