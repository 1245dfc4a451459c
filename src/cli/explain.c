/* explain.c - `steptune explain` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "analyse/explain/explain.h"
#include "analyse/explain/why.h"
#include "cli/doctor/doctor.h"
#include "core/names.h"
#include "core/policy/memory_policy.h"
#include "core/text.h"
#include "plugin/lower.h"
#include "plugin/settings.h"
#include "report/results/results.h"
#include "report/table.h"

#define MAX_SIZE 0x1p44

struct explain_options {
    struct stp_machine_options machine;
    const char *plugin;
    const char *over; /* NULL: not given */
    const char *policy;
    int coll; /* ncclFunc_t; -1: not given */
    uint64_t max_bytes;
    uint64_t why;     /* bytes; 0: not given */
    const char *diff; /* likewise NULL */
    const char *nccl; /* likewise */
    bool csv;
    bool table;
    struct stp_arguments file; /* an NCCL log, instead of all but json */
};

#define AT(member) offsetof(struct explain_options, member)

static const struct stp_option explain_table[] = {
    {"plugin", 0, "SO", stp_option_text, .at = AT(plugin)},
    {"over", 0, "SO", stp_option_text, .at = AT(over)},
    {"policy", 0, "FILE", stp_option_text, AT(policy), .path = STP_PATH_READ},
    {"maxbytes", 'e', "SIZE", stp_option_size, AT(max_bytes), .min = 1024,
     .max = MAX_SIZE, .expected = "a size from 1K to 16384G", .value = "16G",
     .needs.without = {"why"}},
    {"collective", 0, "WORD", stp_option_coll, AT(coll), .absent = -1},
    {"why", 0, "BYTES", stp_option_size, AT(why), .max = MAX_SIZE,
     .expected = "a size from 1 to 16384G"},
    {"nccl", 0, "VERSIONS", stp_option_text, AT(nccl),
     .needs.without = {"diff"}},
    {"table", 0, NULL, stp_option_flag, AT(table),
     .needs.without = {"why", "diff"}},
    {"diff", 0, "OTHER", stp_option_text, AT(diff), .needs.without = {"why"}},
    {"csv", 0, NULL, stp_option_flag, AT(csv),
     .needs.without = {"why", "diff"}},
    {0},
};

static bool explain_plugin_is_ours(const struct explain_options *o)
{
    return o->plugin == NULL || stp_lower_setting(NULL, o->plugin) == NULL;
}

static void explain_check_options(void *options, struct argp_state *state)
{
    const struct explain_options *o = options;

    if (o->csv && o->machine.json)
        stp_usage_error(state, "--csv has no effect with --json");
    if (o->over != NULL &&
        (!explain_plugin_is_ours(o) ||
         ((o->plugin != NULL || !stp_has_policy()) && o->policy == NULL)))
        stp_usage_error(state, "--over needs our plugin and a policy, expected "
                               "--policy, and no other --plugin");
    if (o->diff != NULL && o->plugin == NULL && o->policy == NULL &&
        !stp_has_policy())
        stp_usage_error(state,
                        "nothing to compare, expected --plugin or --policy");
}

static const char *explain_find_log(const struct stp_given *given)
{
    return stp_given_arguments(given) > 0 ? "with a log" : NULL;
}

static const struct stp_command_line explain_line = {
    .groups =
        (const struct stp_option_group[]){
            {.options = explain_table, .needs.find_idle = explain_find_log},
            {.options = stp_recorded_table,
             .at = AT(machine),
             .needs.find_idle = explain_find_log,
             .of = "on"},
            {0}},
    .args_doc = "[FILE]",
    .arguments = AT(file),
    .one = "file, or a folder of files",
    .check = explain_check_options,
};

/* A run: one of --why, --diff and --csv, or all ranges. */
struct explain {
    const struct explain_options *o;
    struct stp_explain_options options;
    char nccl[16];             /* the version: the machine's, or --nccl's one */
    int first, last;           /* releases to compare; last -1: none */
    bool is_alone;             /* no plugin */
    char plugin[STP_CLI_PATH]; /* ours */
    char machine[STP_CLI_PATH];
    char path[STP_CLI_PATH]; /* of the policy; "" for none */
    struct stp_policy *policy;
    const char *set_policy; /* NULL: another vendor's plugin reads the
                               environment as it is */
    bool differs;           /* what was compared, for the exit status */
    unsigned n_idle;        /* policies of which no rule applies, as is said */
    struct stp_error *err;
};

static bool explain_is_ours(const struct explain *e)
{
    return e->o->plugin == NULL && !e->is_alone;
}

/* Says so if our plugin's policy has rules, and none applies to the machine. */
static void explain_check_rules(struct explain *e, const char *path)
{
    struct stp_error err;

    if (stp_require_rules(path, e->machine, 0, &err) != STP_ERR_RANGE)
        return;
    stp_complain_error(NULL, &err);
    e->n_idle++;
}

/* ---- versions and variables ---- */

/* Reads "2.24", "2.21-2.32" or "2.21 to 2.32". */
static enum stp_status explain_read_versions(struct explain *e)
{
    static const char digits[] = "0123456789.";
    const char *text = e->o->nccl, *rest;
    struct mock_machine *machine;
    char first[sizeof(e->nccl)];
    size_t len;

    if (mock_machine_load(e->machine, &machine) != ncclSuccess)
        return stp_fail(e->err, STP_ERR_DEVICE, "%s", mock_last_error());
    snprintf(e->nccl, sizeof(e->nccl), "%s",
             mock_machine_get_info(machine)->nccl);
    mock_machine_free(machine);
    e->options.nccl = e->nccl;
    e->first = 0;
    e->last = e->is_alone ? mock_release_find("2.999") : -1;
    if (text == NULL)
        return STP_OK;
    len = strspn(text, digits);
    rest = text + len + strspn(text + len, " -to");
    snprintf(first, sizeof(first), "%.*s", (int)len, text);
    e->first = mock_release_find(first);
    e->last = text[len] != '\0' ? mock_release_find(rest) : -1;
    if (e->first < 0 || mock_release_is_newer(first) ||
        mock_release_is_newer(rest) ||
        (text[len] != '\0' && e->last <= e->first) ||
        rest[strspn(rest, digits)] != '\0')
        return STP_REFUSE(
            e->err,
            "--nccl '%.80s', expected a version from " MOCK_VERSIONS
            " or a range of them, such as 2.24 or 2.21-2.32",
            text);
    if (e->last >= 0 && e->o->csv)
        return STP_REFUSE(
            e->err, "--nccl '%.80s', expected one version with --csv", text);
    if (e->last < 0)
        memcpy(e->nccl, first, sizeof(first));
    return STP_OK;
}

static struct stp_choice_case *explain_add_case(const struct explain *e,
                                                struct stp_choice_cases *c,
                                                const char *label)
{
    struct stp_choice_case *next = &c->cases[c->n];

    next->options = e->options;
    snprintf(c->labels[c->n++], sizeof(c->labels[0]), "%s", label);
    return next;
}

/* Asks each version to compare, about 'one' size or up to it. */
static void explain_versions(const struct explain *e, int coll,
                             uint64_t n_bytes, bool one,
                             struct stp_choice_cases *c)
{
    c->are_versions = true;
    c->has_all = e->o->nccl != NULL;
    for (int i = e->first; i <= e->last; i++) {
        const char *name = mock_release_name((size_t)i);
        struct stp_choice_case *next = explain_add_case(e, c, name);

        next->options.nccl = name;
        next->options.is_one = one;
    }
    c->overlay = stp_overlay_ask(c->cases, c->n, coll, n_bytes);
}

/* Asks without the variables that are set, under all of them, and under each;
 * no case if none is played. */
static void explain_variables(const struct explain *e,
                              struct stp_choice_cases *c)
{
    struct mock_nccl_options played = {.version = NULL};
    const size_t n = stp_overrides_play(&e->options, e->nccl, &played);
    struct stp_variable v;

    if (n == 0)
        return;
    c->has_all = true;
    c->key = "variables";
    explain_add_case(e, c, "unset")->options.variable = NULL;
    if (n > 1)
        explain_add_case(e, c, "all set");
    for (size_t i = 0; stp_variable_at(i, &v) && c->n < STP_MAX_CASES; i++) {
        const char *value = getenv(v.name);
        char label[sizeof(c->labels[0])];
        struct stp_choice_case *next;

        if (value == NULL ||
            stp_override_play(&v, value, e->nccl, &played) != STP_OVERRIDE_RUNS)
            continue;
        snprintf(label, sizeof(label), "%.40s=%.20s", v.name, value);
        next = explain_add_case(e, c, label);
        next->options.only = c->labels[c->n - 1];
    }
    c->overlay = stp_overlay_ask(c->cases, c->n, e->o->coll, e->o->max_bytes);
}

/* Asks the memory and stage policies beside the policy, in both situations. */
static void explain_ask_buffers(const struct stp_why *why,
                                struct stp_why_report *report)
{
    static const struct {
        enum stp_policy_kind kind;
        const char *suffix, *when[4];
    } kinds[] = {
        {STP_POLICY_OF_MEMORY, STP_MEMORY_SUFFIX, {"alone", "overlapped"}},
        {STP_POLICY_OF_STAGE,
         STP_STAGE_SUFFIX,
         {"launched", "captured", "launched with NCCL_WORKLOAD_OVERLAP=0",
          "captured with NCCL_WORKLOAD_OVERLAP=0"}},
    };

    for (size_t i = 0; i < 2 && report->policy != NULL; i++) {
        struct stp_policy *policy;
        struct stp_error err;
        char path[STP_CLI_PATH];

        if (snprintf(path, sizeof(path), "%s%s", report->policy,
                     kinds[i].suffix) >= STP_CLI_PATH ||
            access(path, F_OK) != 0)
            continue;
        if (stp_policy_load(kinds[i].kind, path, &policy, &err) != STP_OK) {
            stp_complain_error(path, &err);
            continue;
        }
        const struct stp_why_buffers *first =
            &report->buffers[report->n_buffers];

        for (int k = 0; k < 4 && kinds[i].when[k] != NULL; k++) {
            struct stp_why_buffers *b = &report->buffers[report->n_buffers];
            const struct stp_memory_query query = {
                .coll = why->coll,
                .n_bytes = why->n_bytes,
                .n_ranks = (size_t)why->machine.n_ranks,
                .n_nodes = (size_t)why->machine.n_nodes,
                .overlaps = i == 0 ? k == 1 : k < 2,
                .gpu = why->machine.gpu,
                .captured = k % 2 == 1};
            const struct stp_rule *rule =
                stp_memory_policy_match(policy, &query);

            *b = (struct stp_why_buffers){.when = kinds[i].when[k]};
            memcpy(b->path, path, sizeof(path));
            if (rule != NULL) {
                b->memory = rule->memory;
                b->min_ctas = rule->min_ctas;
                b->line = rule->line;
            }
            report->n_buffers += k < 2 || b->line != first[k - 2].line;
        }
        stp_policy_free(policy);
    }
}

static enum stp_status explain_why(struct explain *e)
{
    struct stp_explain_options one = e->options;
    struct stp_why why;
    struct stp_choice_cases versions = {.n = 0};
    struct stp_why_report report = {.why = &why,
                                    .machine = stp_base_name(e->machine),
                                    .plugin = e->options.plugin,
                                    .policy = e->o->policy};
    char *text = NULL, *rule = NULL;
    const char *found = NULL, *next;
    size_t size, len = 0;

    if (one.coll < 0)
        one.coll = ncclFuncAllReduce;
    STP_TRY(stp_ask_why(&one, e->o->why, &why, e->err));
    if (e->last >= 0) {
        explain_versions(e, one.coll, e->o->why, true, &versions);
        report.versions = &versions;
    }
    /* the rule's line in the policy; none if the file has changed */
    if (why.decider == STP_DECIDER_RULE &&
        stp_read_file(e->o->policy, STP_MAX_FILE, &text, &size, NULL) ==
            STP_OK) {
        next = text;
        for (unsigned i = 0; i < why.line; i++)
            found = stp_next_line(&next, text + size, &len);
        if (found != NULL)
            rule = strndup(found, len);
    }
    report.rule = rule;
    explain_ask_buffers(&why, &report);
    stp_print_why(&report, e->o->machine.json, stdout);
    stp_overlay_free(&versions.overlay);
    free(rule);
    free(text);
    return STP_OK;
}

/* Explains OTHER: a plugin with the same policy, or ours with another. */
static enum stp_status explain_other(struct explain *e,
                                     struct stp_explanation *out_ret)
{
    const bool is_plugin = stp_is_library(e->o->diff);
    struct stp_explain_options other = e->options;
    struct stp_policy *policy = NULL;
    char plugin[STP_CLI_PATH];
    enum stp_status status = STP_OK;

    if (is_plugin && !stp_absolute_path(e->o->diff, plugin))
        return stp_fail(e->err, STP_ERR_LIMIT,
                        "the path of '%.80s' is too long", e->o->diff);
    if (!is_plugin) {
        status =
            stp_policy_load(STP_POLICY_OF_ARMS, e->o->diff, &policy, e->err);
        if (status != STP_OK)
            return stp_fail_in(e->err, status, e->o->diff);
        other.policy = policy;
        explain_check_rules(e, e->o->diff);
        status = stp_find_plugin("steptune", plugin, e->err);
    }
    other.plugin = plugin;
    STP_THEN(status,
             stp_set_plugin_environment(
                 e->machine, is_plugin ? e->set_policy : e->o->diff, e->err));
    STP_THEN(status, stp_explain(&other, out_ret, e->err));
    stp_policy_free(policy);
    return status;
}

/* Lays what both decide over each other. */
static enum stp_status explain_diff(struct explain *e)
{
    struct stp_choice_cases both = {.n = 2, .key = "differences"};
    struct stp_explanation explained[2] = {{0}, {0}};
    struct stp_table t;
    enum stp_status status;

    if (access(e->o->diff, R_OK) != 0)
        return stp_fail(e->err, STP_ERR_IO,
                        "cannot read '%.160s', expected a policy or a plugin",
                        e->o->diff);
    t = stp_table_result(e->o->machine.json);
    snprintf(both.labels[0], sizeof(both.labels[0]), "%s",
             explain_is_ours(e) ? e->o->policy : e->o->plugin);
    snprintf(both.labels[1], sizeof(both.labels[1]), "%s", e->o->diff);
    status = stp_explain(&e->options, &explained[0], e->err);
    STP_THEN(status, explain_other(e, &explained[1]));
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        if ((e->o->coll < 0 || e->o->coll == c) && status == STP_OK)
            stp_overlay_add(&both.overlay, c, explained, 2);
    if (status == STP_OK && !e->o->machine.json)
        printf("On %s, at %zu sizes of %s:\n\n", stp_base_name(e->machine),
               explained[0].n_sizes,
               e->o->coll < 0 ? "each collective" : stp_coll_name(e->o->coll));
    stp_table_word(&t, "machine", NULL, stp_base_name(e->machine));
    stp_table_count(&t, "sizes_asked", NULL, explained[0].n_sizes);
    for (size_t i = 0; i < both.overlay.n_rows; i++) {
        const struct stp_overlay_pick *p = both.overlay.rows[i].picks;

        e->differs |= memcmp(&p[0], &p[1], sizeof(*p)) != 0;
    }
    if (status == STP_OK && e->n_idle == 2 && !e->o->machine.json)
        puts("No rule of either policy applies, so that none was compared.");
    else if (status == STP_OK)
        stp_put_choices(&both, e->o->machine.json ? &t : NULL, stdout);
    if (status == STP_OK && e->o->machine.json)
        stp_table_end(&t, stdout);
    else
        stp_table_free(&t);
    stp_overlay_free(&both.overlay);
    stp_explanation_free(&explained[1]);
    stp_explanation_free(&explained[0]);
    return status;
}

static void explain_print_title(const struct explain *e)
{
    const bool same = e->policy != NULL && stp_policy_same_bits(e->policy);

    if (!e->is_alone)
        printf("%s%s", e->options.plugin, e->o->nccl != NULL ? " with " : "");
    if (e->o->nccl != NULL && e->last >= 0)
        printf("NCCL %s to %s", mock_release_name((size_t)e->first),
               mock_release_name((size_t)e->last));
    else if (e->is_alone || e->o->nccl != NULL)
        printf("NCCL %s", e->nccl);
    printf(" on %s, one collective at a time, of plain buffers%s%s\n\n",
           stp_base_name(e->machine),
           same ? "; the policy keeps the bits of AUTO" : "",
           e->options.is_over ? "; AUTO is NCCL alone, without the tuner below"
                              : "");
}

/* Says which variables that are set mock NCCL does not play. */
static void explain_print_unplayed(const struct explain *e)
{
    struct mock_nccl_options played = {.version = NULL};
    struct stp_variable v;
    size_t n = 0;

    for (size_t i = 0; stp_variable_at(i, &v); i++) {
        struct stp_override o = {.value = getenv(v.name)};

        if (o.value == NULL)
            continue;
        o.kind = stp_override_play(&v, o.value, e->nccl, &played);
        snprintf(o.name, sizeof(o.name), "%s", v.name);
        snprintf(o.text, sizeof(o.text), "%s", v.does);
        if (o.kind != STP_OVERRIDE_UNPLAYED && o.kind != STP_OVERRIDE_MACHINE)
            continue;
        if (n++ == 0)
            putchar('\n');
        stp_print_override(&o, stdout);
    }
}

/* Explains all ranges: of the plugin, or of NCCL alone. */
static enum stp_status explain_all(struct explain *e)
{
    const bool is_text = !e->o->machine.json && !e->o->csv;
    const bool has_range = e->o->nccl != NULL && e->last >= 0;
    struct stp_explanation explanation = {.ranges = NULL};
    struct stp_choice_cases set = {.n = 0}, versions = {.n = 0};
    struct stp_table all =
        e->o->csv ? stp_table_begin(STP_TABLE_CSV) : stp_table_result(!is_text);
    struct stp_table *t = is_text ? NULL : &all;
    enum stp_status status = STP_OK;

    if (e->is_alone && !has_range)
        explain_variables(e, &set);
    if (e->last >= 0 && !e->o->csv)
        explain_versions(e, e->o->coll, e->o->max_bytes, false, &versions);
    if (set.n == 0 && !has_range)
        STP_THEN(status, stp_explain(&e->options, &explanation, e->err));
    if (status == STP_OK && is_text)
        explain_print_title(e);
    if (status == STP_OK && explanation.n_ranges > 0)
        stp_put_explanation(&explanation, e->o->policy, e->o->table,
                            e->is_alone, t, stdout);
    if (status == STP_OK && set.n > 0)
        stp_put_choices(&set, t, stdout);
    if (status == STP_OK && is_text)
        explain_print_unplayed(e);
    if (status == STP_OK && versions.n > 0 && is_text && e->o->nccl == NULL)
        printf("\nBy version, on the search graphs of NCCL %s%s:\n\n", e->nccl,
               set.n > 0 ? ", under all that is set" : "");
    if (status == STP_OK && versions.n > 0)
        stp_put_choices(&versions, t, stdout);
    if (status == STP_OK && !is_text)
        stp_table_end(&all, stdout);
    else
        stp_table_free(&all);
    stp_overlay_free(&versions.overlay);
    stp_overlay_free(&set.overlay);
    stp_explanation_free(&explanation);
    return status;
}

static int explain_run(void *user)
{
    struct explain_options *o = user;
    struct stp_error err;
    struct explain e = {.o = o, .err = &err};
    const bool is_named = o->policy != NULL;
    bool is_ours;
    enum stp_status status;
    int exit_status;
    const char *chain;

    if (stp_choose_machine(o->machine.on, e.machine) != STP_EXIT_OK)
        return STP_EXIT_NOTHING;
    if (o->over != NULL && stp_set_over(o->over) != STP_EXIT_OK)
        return STP_EXIT_FAILED;
    e.is_alone = o->plugin != NULL ? strcmp(o->plugin, "none") == 0
                                   : !is_named && !stp_has_policy();
    is_ours = explain_is_ours(&e);
    if (is_ours && stp_find_plugin("steptune", e.plugin, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    exit_status = e.is_alone ? STP_EXIT_OK
                             : stp_choose_policy(o->policy, is_ours,
                                                 o->machine.json, e.path);
    if (!e.is_alone && exit_status == STP_EXIT_OK) {
        if (!is_named && e.path[0] != '\0')
            o->policy = e.path;
        e.set_policy = is_ours || is_named ? o->policy : NULL;
        exit_status = stp_load_plugin_policy(o->policy, is_ours, &e.policy);
    }
    if (exit_status != STP_EXIT_OK)
        return exit_status;
    e.options = (struct stp_explain_options){.machine_path = e.machine,
                                             .plugin = e.is_alone ? NULL
                                                       : is_ours  ? e.plugin
                                                                  : o->plugin,
                                             .policy = e.policy,
                                             .coll = o->coll,
                                             .max_bytes = o->max_bytes};
    if (o->diff == NULL && !o->csv)
        e.options.variable = getenv;
    status = explain_read_versions(&e);
    if (!e.is_alone)
        STP_THEN(status,
                 stp_set_plugin_environment(e.machine, e.set_policy, &err));
    if (is_ours && status == STP_OK)
        explain_check_rules(&e, o->policy);
    chain = stp_setting("STEPTUNE_CHAIN");
    e.options.is_over = !e.is_alone && explain_plugin_is_ours(o) &&
                        chain != NULL && strcasecmp(chain, "none") != 0;
    STP_THEN(status, o->why != 0       ? explain_why(&e)
                     : o->diff != NULL ? explain_diff(&e)
                                       : explain_all(&e));
    if (status != STP_OK)
        stp_complain_error(NULL, &err);
    stp_policy_free(e.policy);
    return status == STP_OK && !e.differs ? STP_EXIT_OK : STP_EXIT_FAILED;
}

int stp_cmd_explain(int argc, char **argv)
{
    static struct stp_doctor doctor;
    struct explain_options o = {0};
    bool is_none;

    stp_options_read(&explain_line, argc, argv, &o);
    if (o.file.n > 0)
        return stp_doctor_log(&doctor, o.file.v[0], true, o.machine.json);
    /* another vendor's plugin may run, too, as the OTHER of --diff */
    is_none = o.plugin == NULL || strcmp(o.plugin, "none") == 0;
    return stp_run_plugin(is_none && o.diff != NULL && stp_is_library(o.diff)
                              ? o.diff
                          : is_none ? NULL
                                    : o.plugin,
                          explain_run, &o);
}
