/* page_table.c - the tables of the page: machine, rules and all sizes */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/dtype.h"
#include "core/names.h"
#include "report/charts/labels.h"
#include "report/html.h"
#include "report/page/page_parts.h"
#include "report/words.h"

/* ---- machine ---- */

static void write_term(const char *term, const char *text, FILE *fp)
{
    if (text[0] == '\0')
        return;
    fprintf(fp, "<div><dt>%s</dt><dd>", term);
    stp_html_text(text, fp);
    fputs("</dd></div>\n", fp);
}

static void write_set(const char *what, const struct stp_page_set *set,
                      FILE *fp)
{
    char sources[STP_PAGE_NAME];

    if (set->name == NULL)
        return;
    stp_page_sources_text(&set->data, sources);
    fprintf(fp, "<div><dt>%s</dt><dd>", what);
    stp_html_printf(fp, "%s: %zu rows, %s", set->name, set->data.n_rows,
                    sources);
    fputs("</dd></div>\n", fp);
}

void stp_page_write_machine(const struct stp_page_data *data, FILE *fp)
{
    static const char *const what[STP_PAGE_N_SETS] = {
        [STP_PAGE_SWEEP] = "Every arm",
        [STP_PAGE_VERIFY] = "The policy, run",
        [STP_PAGE_ITERATIONS] = "Training iterations",
        [STP_PAGE_OVERLAP_VERIFY] = "Overlap policy, run",
    };
    const struct stp_page_set *first = data->sets;
    const struct stp_measurement *row;
    char text[64];

    while (first->name == NULL)
        first++;
    row = first->data.rows;
    fputs("<dl class=\"facts\">\n", fp);
    write_term("Machine", first->data.machine, fp);
    write_term("GPU", first->data.gpu, fp);
    snprintf(text, sizeof(text), "%u on %u node%s", row->n_ranks, row->n_nodes,
             row->n_nodes == 1 ? "" : "s");
    write_term("Ranks", text, fp);
    write_term("NCCL", first->data.nccl, fp);
    write_term("Backend", first->data.backend, fp);
    snprintf(text, sizeof(text), "%s, %s", stp_type_name(row->type),
             stp_op_name(row->op));
    write_term("Data", text, fp);
    for (int s = 0; s < STP_PAGE_N_SETS; s++)
        write_set(what[s], &data->sets[s], fp);
    fputs("</dl>\n", fp);
}

/* ---- rules ---- */

/* The rows that a rule decides. */
struct evidence {
    size_t n_same;    /* sizes where it is NCCL's own choice */
    size_t n_changed; /* other sizes that were measured */
    double low, high; /* gains there */
    char from[160];   /* NCCL's own choices, each once */
};

static void add_choice(const struct stp_point *p, char from[160])
{
    char name[STP_RAN_NAME];
    size_t len = strlen(from);

    stp_ran_name(p->auto_algo, p->auto_proto, 0, name);
    if (strstr(from, name) == NULL)
        snprintf(from + len, 160 - len, "%s%s", len > 0 ? ", " : "", name);
}

static struct evidence collect(const struct stp_page_data *data,
                               const struct stp_rule *rule)
{
    struct evidence e = {.low = INFINITY};

    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_page_row *row = &data->rows[i];

        if (row->line != rule->line)
            continue;
        add_choice(row->point, e.from);
        if (row->policy == NULL)
            continue;
        if (row->verdict == STP_VERDICT_SAME) {
            e.n_same++;
            continue;
        }
        e.n_changed++;
        e.low = fmin(e.low, row->policy->gain.gain);
        e.high = fmax(e.high, row->policy->gain.gain);
    }
    return e;
}

static void write_gain(const struct stp_gain *gain, FILE *fp)
{
    char interval[STP_INTERVAL];

    stp_interval_text(gain, interval);
    fprintf(fp, "%.3f (%s)", gain->gain, interval);
}

static void write_evidence(const struct stp_page_data *data,
                           const struct stp_rule *rule,
                           const struct evidence *e, FILE *fp)
{
    if (e->n_changed == 0) {
        fprintf(fp, "<td>%s</td>",
                e->n_same > 0 ? "NCCL&#39;s own choice wherever measured"
                              : "no size of it was measured");
        return;
    }
    fprintf(fp, "<td><details><summary>%.3f to %.3f at %zu size%s", e->low,
            e->high, e->n_changed, e->n_changed == 1 ? "" : "s");
    if (e->n_same > 0)
        fprintf(fp, ", NCCL&#39;s own at %zu", e->n_same);
    fputs("</summary><ul class=\"gains\">", fp);
    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_page_row *row = &data->rows[i];
        char size[32];

        if (row->line != rule->line || row->verdict == STP_VERDICT_SAME)
            continue;
        stp_size_name(row->point->n_bytes, size);
        fprintf(fp, "<li%s><b>%s</b> ",
                row->verdict == STP_VERDICT_SLOWER ? " class=\"bad\"" : "",
                size);
        write_gain(&row->policy->gain, fp);
        fputs("</li>", fp);
    }
    fputs("</ul></details></td>", fp);
}

static void write_range(const struct stp_range *range, FILE *fp)
{
    char from[32], to[32] = "no end";

    stp_size_name(range->min, from);
    if (range->max != UINT64_MAX)
        stp_size_name(range->max, to);
    if (range->min > 0 || range->max != UINT64_MAX)
        fprintf(fp, "%s to %s", from, to);
    else
        fputs("any", fp);
}

/* "4 ranks, ", "2 to 4 ranks, " or nothing. */
static void write_count(const struct stp_range *range, const char *of, FILE *fp)
{
    if (range->min == range->max)
        fprintf(fp, "%" PRIu64 " %s%s, ", range->min, of,
                range->min == 1 ? "" : "s");
    else if (range->max != UINT64_MAX)
        fprintf(fp, "%" PRIu64 " to %" PRIu64 " %ss, ", range->min, range->max,
                of);
    else if (range->min > 1)
        fprintf(fp, "%" PRIu64 " %ss or more, ", range->min, of);
}

/* What else must hold. */
static void write_conditions(const struct stp_rule *r, FILE *fp)
{
    fputs("<br><small>", fp);
    if (r->bytes_per_rank.min > 0 || r->bytes_per_rank.max != UINT64_MAX) {
        write_range(&r->bytes_per_rank, fp);
        fputs(" per rank, ", fp);
    }
    write_count(&r->nodes, "node", fp);
    write_count(&r->ranks, "rank", fp);
    if (r->chunk_bytes > 0)
        fprintf(fp, "chunks of %u bytes, ", r->chunk_bytes);
    stp_html_text(r->gpu != NULL ? r->gpu : "any GPU", fp);
    fputs("</small>", fp);
}

static void write_rule(const struct stp_page_data *data,
                       const struct stp_rule *rule, FILE *fp)
{
    struct evidence e = collect(data, rule);
    char name[STP_RAN_NAME];

    fprintf(fp, "<tr><td class=\"n\">%u</td><td>%s</td><td>", rule->line,
            stp_coll_name(rule->coll));
    write_range(&rule->bytes, fp);
    write_conditions(rule, fp);
    fprintf(fp, "</td><td>%s</td>", e.from[0] != '\0' ? e.from : "-");
    stp_ran_name(rule->algo, rule->proto, rule->n_channels, name);
    fprintf(fp, "<td><b>%s</b></td>", name);
    write_evidence(data, rule, &e, fp);
    fputs("</tr>\n", fp);
}

void stp_page_write_rules(const struct stp_page_data *data, FILE *fp)
{
    size_t n;

    if (data->policy.rules == NULL) {
        fputs("<p>No policy file is among what this page was made from.</p>\n",
              fp);
        return;
    }
    n = stp_policy_size(data->policy.rules);
    if (n == 0) {
        fputs("<p>The policy has no rule: NCCL&#39;s own choice stands "
              "everywhere.</p>\n",
              fp);
        return;
    }
    fputs("<div class=\"scroll\"><table class=\"rules\"><thead><tr><th "
          "class=\"n\">Line</th>"
          "<th>Collective</th><th>Sizes, bytes</th><th>NCCL&#39;s choice</th>"
          "<th>Rule&#39;s choice</th><th>Gain (95 percent interval)</th></tr>"
          "</thead><tbody>\n",
          fp);
    for (size_t i = 0; i < n; i++)
        write_rule(data, stp_policy_rule(data->policy.rules, i), fp);
    fputs("</tbody></table></div>\n", fp);
}

/* ---- all sizes ---- */

static void write_policy_cells(const struct stp_page_row *row, FILE *fp)
{
    char ran[STP_RAN_NAME];

    if (row->policy == NULL) {
        fprintf(fp, "<td colspan=\"2\" class=\"same\">%s</td><td></td>",
                row->line > 0 ? "not measured" : "NCCL&#39;s own");
        return;
    }
    stp_ran_name(row->policy->ran_algo, row->policy->ran_proto,
                 row->policy->ran_channels, ran);
    fprintf(fp, "<td%s>%s</td><td class=\"n\">%.2f</td><td>",
            row->verdict == STP_VERDICT_SAME ? " class=\"same\"" : "",
            row->verdict == STP_VERDICT_SAME ? "NCCL&#39;s own" : ran,
            row->policy->us);
    write_gain(&row->policy->gain, fp);
    fputs("</td>", fp);
}

static void write_row(const struct stp_page_row *row, FILE *fp)
{
    static const char *const styles[] = {
        [STP_VERDICT_SAME] = "",
        [STP_VERDICT_FASTER] = " class=\"good\"",
        [STP_VERDICT_UNSURE] = "",
        [STP_VERDICT_SLOWER] = " class=\"bad\"",
    };
    const struct stp_point *p = row->point;
    char text[STP_ARM_NAME];

    stp_size_name(p->n_bytes, text);
    fprintf(fp, "<tr%s><th class=\"n\">%" PRIu64 "</th><td class=\"n\">%s</td>",
            styles[row->verdict], p->n_bytes, text);
    stp_ran_name(p->auto_algo, p->auto_proto, p->auto_channels, text);
    fprintf(fp, "<td>%s</td><td class=\"n\">%.2f</td>", text, p->auto_us);
    write_policy_cells(row, fp);
    fprintf(fp, "<td>%s</td>", stp_verdict_name(row->verdict));
    if (row->best != NULL) {
        stp_arm_name(&row->best->arm, text);
        fprintf(fp, "<td>%s</td><td>", text);
        write_gain(&row->best->gain, fp);
        fputs("</td>", fp);
    } else {
        fprintf(fp, "<td class=\"same\">%s</td><td></td>",
                row->swept != NULL ? "NCCL&#39;s own" : "not swept");
    }
    fprintf(fp, "<td>%s</td></tr>\n", stp_source_name(p->source));
}

void stp_page_write_table(const struct stp_page_data *data, FILE *fp)
{
    for (size_t i = 0; i < data->n_panels; i++) {
        const struct stp_page_panel *panel = &data->panels[i];
        char name[STP_PAGE_NAME];

        stp_page_panel_name(data, panel, name);
        fprintf(fp,
                "<details class=\"all\"><summary>%s, %zu size%s</summary>\n"
                "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>"
                "<th class=\"n\">Bytes</th><th class=\"n\">Size</th>"
                "<th>NCCL&#39;s choice</th><th class=\"n\">us</th>"
                "<th>Policy&#39;s choice</th><th class=\"n\">us</th>"
                "<th>Gain (95 percent interval)</th><th>Verdict</th>"
                "<th>Fastest arm</th><th>Its gain</th><th>Source</th></tr>"
                "</thead><tbody>\n",
                name, panel->n_rows, panel->n_rows == 1 ? "" : "s");
        for (size_t k = 0; k < panel->n_rows; k++)
            write_row(&panel->rows[k], fp);
        fputs("</tbody></table></div></details>\n", fp);
    }
}
