/* why.c - the reasons for the choice at one message size */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/names.h"
#include "core/utf8.h"
#include "report/json.h"
#include "report/results/results.h"
#include "report/table.h"
#include "report/terminal.h"
#include "report/words.h"

/* NCCL cannot run all of its 21 pairs; those have no cost in either table. */
static void why_put_costs(const struct stp_why *why, bool has_plugin,
                          struct stp_table *t)
{
    static const char *const choosers[] = {"-", "NCCL", "plugin", "both"};
    const struct stp_pick *alone = &why->alone.pick;
    const struct stp_pick *tuned = &why->tuned.pick;

    for (int i = 0; i < NCCL_NUM_ALGORITHMS * NCCL_NUM_PROTOCOLS; i++) {
        const int a = i / NCCL_NUM_PROTOCOLS, p = i % NCCL_NUM_PROTOCOLS;
        float before = why->cost[a][p];
        float after = why->cost_after[a][p];
        bool is_alone = alone->algo == a && alone->proto == p;
        bool is_tuned = tuned->algo == a && tuned->proto == p;
        const bool is_set =
            why->has_set && why->set.pick.algo == a && why->set.pick.proto == p;

        if (before < 0 && after < 0)
            continue;
        stp_table_row(t);
        stp_table_word(t, "algorithm", NULL, stp_algo_name(a));
        stp_table_word(t, "protocol", NULL, stp_proto_name(p));
        stp_table_ran(t, NULL, "<entry", a, p, 0);
        stp_table_number(t, "us", "NCCL's us",
                         before >= 0 ? (double)before : NAN, 3);
        stp_table_number(t, has_plugin ? "plugin_us" : NULL,
                         has_plugin ? "plugin's us" : NULL,
                         after >= 0 ? (double)after : NAN, 3);
        if (has_plugin)
            stp_table_flag(t, "changed", "<changed", before != after);
        stp_table_word(t, NULL, "<chosen by",
                       is_set && !is_alone && !is_tuned
                           ? "what is set here"
                           : choosers[is_alone + 2 * (is_tuned && has_plugin)]);
    }
}

static void why_put_run(const char *by, const struct stp_why_run *run,
                        struct stp_table *t)
{
    const bool asks = run->asked_channels != 0;

    stp_table_row(t);
    stp_table_word(t, "algorithm", NULL, stp_algo_name(run->pick.algo));
    stp_table_word(t, "protocol", NULL, stp_proto_name(run->pick.proto));
    stp_table_word(t, NULL, by == NULL ? NULL : "<", by);
    stp_table_ran(t, NULL, "<runs", run->pick.algo, run->pick.proto, 0);
    stp_table_number(t, "channels", "channels", run->n_channels, 0);
    stp_table_number(t, "asked_channels", NULL, run->asked_channels, 0);
    stp_table_number(t, NULL, by == NULL ? NULL : "asked for",
                     asks ? run->asked_channels : NAN, 0);
    stp_table_number(t, "predicted_us", "?predicted us", run->predicted_us, 3);
    stp_table_number(t, "us", "time us", run->us, 3);
    stp_table_word(t, "source", "<source",
                   isnan(run->us)
                       ? NULL
                       : stp_source_words(run->source, run->single_pass));
}

static void why_put_kernels(const struct stp_why *why, struct stp_table *t)
{
    for (size_t i = 0; i < why->n_kernels + why->n_copies; i++) {
        const bool is_copy = i >= why->n_kernels;
        const struct mock_symmetric_kernel *k = &why->kernels[is_copy ? 0 : i];
        const struct mock_copy *c =
            &why->copies[is_copy ? i - why->n_kernels : 0];
        const float us = is_copy ? c->us : k->us;

        stp_table_row(t);
        stp_table_word(t, "kind", "<kind", is_copy ? "copy engines" : "kernel");
        stp_table_word(t, "name", "<name", is_copy ? c->name : k->name);
        stp_table_count(t, "blocks", "blocks",
                        is_copy ? 0 : (size_t)k->n_blocks);
        stp_table_number(t, "us", "NCCL's us", (double)us, 3);
        stp_table_number(t, "charged_us", "with blocks' charge",
                         (double)(is_copy ? us : k->charged_us), 3);
    }
}

static void why_put_cases(const struct stp_why *why, struct stp_table *t)
{
    for (size_t i = 0; i < why->n_cases; i++) {
        const struct stp_why_case *c = &why->cases[i];

        stp_table_row(t);
        stp_table_word(t, "where", "<where", c->where);
        stp_table_word(t, "algorithm", NULL, stp_algo_name(c->pick.algo));
        stp_table_word(t, "protocol", NULL, stp_proto_name(c->pick.proto));
        stp_table_word(t, "kernel", NULL, c->kernel);
        if (c->kernel != NULL)
            stp_table_word(t, NULL, "<runs", c->kernel);
        else
            stp_table_ran(t, NULL, "<runs", c->pick.algo, c->pick.proto, 0);
    }
}

static void why_print_json(const struct stp_why_report *report, FILE *fp)
{
    const struct stp_why *why = report->why;
    const bool is_rule = why->decider == STP_DECIDER_RULE;
    const bool alone = report->plugin == NULL;
    cJSON *root = cJSON_CreateObject();
    struct stp_table t;
    cJSON *list;

    stp_json_word(root, "machine", report->machine);
    stp_json_word(root, "plugin", report->plugin);
    stp_json_word(root, "collective", stp_coll_name(why->coll));
    stp_json_number(root, "bytes", (double)why->n_bytes);
    t = stp_table_array(root, "costs");
    why_put_costs(why, !alone, &t);
    t = stp_table_member(root, "auto");
    why_put_run(NULL, &why->alone, &t);
    t = stp_table_member(root, "choice");
    why_put_run(NULL, &why->tuned, &t);
    if (why->has_set) {
        t = stp_table_member(root, "as_set");
        why_put_run(NULL, &why->set, &t);
    }
    stp_json_word(root, "decided_by", stp_decider_name(why->decider));
    if (is_rule) {
        stp_json_word(root, "policy", report->policy);
        stp_json_number(root, "line", why->line);
        stp_json_word(root, "rule", report->rule);
    }
    t = stp_table_array(root, "in_windows");
    why_put_kernels(why, &t);
    t = stp_table_array(root, "cases");
    why_put_cases(why, &t);
    if (report->n_buffers > 0)
        t = stp_table_array(root, "buffers");
    for (size_t i = 0; i < report->n_buffers; i++) {
        const struct stp_why_buffers *b = &report->buffers[i];

        stp_table_row(&t);
        stp_table_word(&t, "policy", NULL, b->path);
        stp_table_word(&t, "when", NULL, b->when);
        stp_table_word(&t, "memory", NULL, stp_memory_name(b->memory));
        stp_table_count(&t, "min_ctas", NULL, (uint64_t)b->min_ctas);
        stp_table_count(&t, "line", NULL, b->line);
    }
    if (why->tuned.limit != 0)
        stp_json_number(root, "channel_limit", why->tuned.limit);
    list = cJSON_AddArrayToObject(root, "overrides");
    for (size_t i = 0; i < why->n_overrides; i++) {
        cJSON *row = stp_json_row(list);
        const struct stp_override *o = &why->overrides[i];
        static const char *const kinds[] = {
            [STP_OVERRIDE_NOTHING] = "nothing",
            [STP_OVERRIDE_RUNS] = "runs",
            [STP_OVERRIDE_FAILS] = "fails",
            [STP_OVERRIDE_UNPLAYED] = "not_played",
            [STP_OVERRIDE_MACHINE] = "another_machine",
        };

        stp_json_word(row, "variable", o->name[0] != '\0' ? o->name : "all");
        stp_json_word(row, "value", o->value);
        stp_json_word(row, "effect", kinds[o->kind]);
        if (o->kind == STP_OVERRIDE_RUNS)
            stp_json_pair(row, "choice", o->pick.algo, o->pick.proto,
                          o->n_channels);
        else if (o->text[0] != '\0')
            stp_json_word(row, "text", o->text);
    }
    if (report->versions != NULL) {
        t = (struct stp_table){.root = root};
        stp_put_choices(report->versions, &t, fp);
    }
    stp_json_finish(root, fp);
}

static void why_print_decider(const struct stp_why_report *report, FILE *fp)
{
    const enum stp_decider decider = report->why->decider;
    char rule[4096] = "";

    if (report->rule != NULL)
        stp_printable(report->rule, strlen(report->rule), rule, sizeof(rule));
    if (decider == STP_DECIDER_RULE)
        fprintf(fp, "Decided by %s:%u: %s\n", report->policy, report->why->line,
                rule);
    else if (decider == STP_DECIDER_NCCL && report->policy != NULL)
        fprintf(fp, "Decided by NCCL: no line of %s applies.\n",
                report->policy);
    else
        fprintf(fp, "Decided by %s.\n",
                decider == STP_DECIDER_NCCL ? "NCCL: the plugin changed nothing"
                : decider == STP_DECIDER_BELOW
                    ? "the tuner below the plugin: no line of a policy applies"
                    : "the plugin, by no line of a policy that is known");
}

void stp_print_override(const struct stp_override *o, FILE *fp)
{
    if (o->name[0] == '\0')
        fprintf(fp, "All that is set here together: ");
    else
        fprintf(fp, "%s=%s is set here: ", o->name, o->value);
    switch (o->kind) {
    case STP_OVERRIDE_NOTHING:
        fprintf(fp, "the same runs.\n");
        break;
    case STP_OVERRIDE_RUNS:
        fprintf(fp, "it overrides that, and %s runs on %d channels.\n",
                STP_RAN_TEXT(o->pick.algo, o->pick.proto, 0), o->n_channels);
        break;
    case STP_OVERRIDE_FAILS:
        fprintf(fp, "NCCL fails: %s\n", o->text);
        break;
    case STP_OVERRIDE_UNPLAYED:
        fprintf(fp, "%s; mock NCCL does not play that.\n", o->text);
        break;
    case STP_OVERRIDE_MACHINE:
        fprintf(fp, "NCCL searches its graphs by it, so that the machine would "
                    "be another: `steptune record` with it set tells.\n");
        break;
    }
}

void stp_print_why(const struct stp_why_report *report, bool is_json, FILE *fp)
{
    const struct stp_why *why = report->why;
    const bool alone = report->plugin == NULL;
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);
    char text[STP_MEMORY_TEXT];

    if (is_json) {
        why_print_json(report, fp);
        return;
    }
    fprintf(fp, "%s of %" PRIu64 " bytes with %s%s on %s\n\n",
            stp_coll_name(why->coll), why->n_bytes,
            alone ? "NCCL " : report->plugin, alone ? why->nccl : "",
            report->machine);
    why_put_costs(why, !alone, &t);
    stp_table_end(&t, fp);
    fputc('\n', fp);
    why_put_run(alone && !why->has_set ? NULL : "NCCL alone", &why->alone, &t);
    if (!alone)
        why_put_run("with the plugin", &why->tuned, &t);
    if (why->has_set)
        why_put_run("as it is set here", &why->set, &t);
    stp_table_end(&t, fp);
    if (isnan(why->alone.us)) {
        fputc('\n', fp);
        stp_print_paragraph(STP_MODEL_WORDS ".", fp);
    }
    fputc('\n', fp);

    if (!alone)
        why_print_decider(report, fp);
    if (why->tuned.limit != 0)
        fprintf(fp,
                "The plugin asks for %d channels, and NCCL takes no more than "
                "its own %d, as from 2.31 on.\n",
                why->tuned.asked_channels, why->tuned.limit);
    for (size_t i = 0; i < report->n_buffers; i++) {
        const struct stp_why_buffers *b = &report->buffers[i];

        fprintf(fp, "Buffers when %s: %s, by ", b->when,
                stp_memory_text(b->memory, b->min_ctas, text));
        if (b->line > 0)
            fprintf(fp, "%s:%u.\n", b->path, b->line);
        else
            fprintf(fp, "no line of %s.\n", b->path);
    }
    if (report->versions != NULL) {
        fprintf(fp, "By version, on the same graphs%s: ",
                why->has_set ? ", as it is set here" : "");
        stp_print_versions(report->versions, fp);
    }
    for (size_t i = 0; i < why->n_overrides; i++)
        stp_print_override(&why->overrides[i], fp);
    if (why->n_overrides == 0)
        fprintf(fp, "No variable that is set here overrides it.\n");
    if (why->n_kernels == 0)
        return;
    fprintf(fp, "\nIn symmetric windows NCCL compares these, too:\n\n");
    why_put_kernels(why, &t);
    stp_table_end(&t, fp);
    fprintf(fp, "\n%soth buffers in windows where it says so:\n\n",
            alone ? "B" : "With the plugin, b");
    why_put_cases(why, &t);
    stp_table_end(&t, fp);
}
