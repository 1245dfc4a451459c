/* page_iterations.c - training iterations on the page: plots and tables */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/charts/labels.h"
#include "report/html.h"
#include "report/iterations/iteration_files.h"
#include "report/iterations/iteration_parts.h"
#include "report/page/page_parts.h"
#include "report/words.h"

enum { ROW = 24, ARM_NAMES = 140, WORK_NAMES = 270, RIGHT = 640 };

_Static_assert((int)STP_PAGE_NAME >= (int)STP_SETTING_NAME &&
                   (int)STP_PAGE_NAME >= (int)STP_ARM_NAME,
               "names fit");

static const struct stp_page_legend no_legend[] = {{NULL, NULL}};

static const char key[] =
    "<p class=\"legend\"><span class=\"key\"><i class=\"dot\"></i>step time "
    "and its 95 percent interval</span> <span class=\"key\"><i class=\"dot "
    "shorter\"></i>whole interval shorter</span> <span class=\"key\"><i "
    "class=\"dot longer\"></i>whole interval longer</span></p>\n";

/* Of the step time: what a gain is the inverse of. */
struct share {
    double us, low, high;
};

static struct share share_of(const struct stp_iteration_arm *arm)
{
    return (struct share){1 / arm->gain.gain, 1 / arm->gain.high,
                          1 / arm->gain.low};
}

static bool is_certain(const struct stp_iteration_arm *arm)
{
    return arm->gain.n_pairs > 1 && (arm->gain.low > 1 || arm->gain.high < 1);
}

/* ---- figures ---- */

/* One line of a figure. */
struct line {
    char name[STP_PAGE_NAME];
    const struct stp_iteration_arm *arm;
};

struct figure {
    const struct line *lines;
    size_t n_lines;
    int names; /* what they take at the left */
};

/* In percent of AUTO's, around 100. */
static struct stp_page_axis fit(const struct figure *figure)
{
    double min = 99.5, max = 100.5;

    for (size_t i = 0; i < figure->n_lines; i++) {
        const struct stp_iteration_arm *arm = figure->lines[i].arm;
        struct share s = share_of(arm);
        bool whole = arm->gain.n_pairs != 1;

        min = fmin(min, 100 * (whole ? s.low : s.us));
        max = fmax(max, 100 * (whole ? s.high : s.us));
    }
    return (struct stp_page_axis){min - 0.05 * (max - min),
                                  max + 0.05 * (max - min), figure->names,
                                  RIGHT, false};
}

static void write_axis(const struct stp_page_axis *x, double bottom, FILE *fp)
{
    double ticks[STP_PAGE_TICKS];
    size_t n = stp_page_ticks(x->min, x->max, ticks);

    fputs("<g class=\"axis x\">", fp);
    for (size_t i = 0; i < n; i++) {
        double at = stp_page_at(x, ticks[i]);

        fprintf(fp,
                "<path d=\"M%.1f %dV%.1f\"/><text x=\"%.1f\" "
                "y=\"%.1f\">%g%%</text>",
                at, STP_PAGE_TOP, bottom, at, bottom + 21, ticks[i]);
    }
    fprintf(fp, "</g><path class=\"one\" d=\"M%.1f %dV%.1f\"/>\n",
            stp_page_at(x, 100), STP_PAGE_TOP, bottom);
}

static void write_line(const struct line *line, const struct stp_page_axis *x,
                       double y, FILE *fp)
{
    const struct stp_iteration_arm *arm = line->arm;
    struct share s = share_of(arm);
    const char *style = !is_certain(arm)    ? "dot"
                        : arm->gain.low > 1 ? "dot shorter"
                                            : "dot longer";
    char interval[STP_INTERVAL];

    stp_interval_text(&arm->gain, interval);
    fprintf(fp, "<g class=\"%s\"><title>", style);
    stp_html_printf(fp, "%s: %.1f us a step, gain %.3f (%s)", line->name,
                    arm->us.mean, arm->gain.gain, interval);
    fprintf(fp, "</title><text x=\"%.1f\" y=\"%.1f\">", x->from - 10, y + 5);
    stp_html_text(line->name, fp);
    fputs("</text>", fp);
    if (arm->gain.n_pairs > 1)
        fprintf(fp, "<path d=\"M%.1f %.1fH%.1f\"/>",
                stp_page_at(x, 100 * s.low), y, stp_page_at(x, 100 * s.high));
    fprintf(fp, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"/></g>\n",
            stp_page_at(x, 100 * s.us), y);
}

static void write_figure(const char *caption, const struct figure *figure,
                         FILE *fp)
{
    struct stp_page_axis x = fit(figure);
    double bottom = STP_PAGE_TOP + (double)figure->n_lines * ROW;
    char label[STP_PAGE_TEXT];

    snprintf(label, sizeof(label),
             "%s: time of a step in percent of that as "
             "NCCL chooses",
             caption);
    stp_page_begin_plot(caption, label, no_legend, (int)bottom + 28, fp);
    write_axis(&x, bottom, fp);
    for (size_t i = 0; i < figure->n_lines; i++)
        write_line(&figure->lines[i], &x,
                   STP_PAGE_TOP + ((double)i + 0.5) * ROW, fp);
    fputs("</svg></figure>\n", fp);
}

/* A line an arm. */
static void write_setting(const struct stp_iteration_setting *setting,
                          struct line *lines, FILE *fp)
{
    const struct figure figure = {lines, setting->n_arms, ARM_NAMES};
    char size[32], what[STP_ITERATION_TEXT];

    stp_size_text(setting->like.n_bytes, size);
    stp_iteration_what(setting, size, what);
    for (size_t a = 0; a < setting->n_arms; a++) {
        lines[a].arm = &setting->arms[a];
        stp_arm_name(&setting->arms[a].arm, lines[a].name);
    }
    write_figure(what, &figure, fp);
}

/* A line a workload, of the policy. */
static void write_policy(const struct stp_iteration_summary *summary,
                         struct line *lines, FILE *fp)
{
    struct figure figure = {lines, 0, WORK_NAMES};

    for (size_t i = 0; i < summary->n_settings; i++) {
        const struct stp_iteration_setting *setting = &summary->settings[i];

        for (size_t a = 0; a < setting->n_arms; a++) {
            char name[STP_SETTING_NAME];

            if (setting->arms[a].arm.kind != STP_ARM_PLUGIN)
                continue;
            stp_iteration_setting_name(setting, name);
            for (char *s = name; *s != '\0'; s++)
                *s = *s == '_' ? ' ' : *s;
            lines[figure.n_lines].arm = &setting->arms[a];
            memcpy(lines[figure.n_lines++].name, name, sizeof(name));
        }
    }
    write_figure("Step time with the policy, a line a workload", &figure, fp);
}

/* ---- tables ---- */

static void write_times(const struct stp_iteration_setting *setting, FILE *fp)
{
    char size[32], what[STP_ITERATION_TEXT];

    stp_size_text(setting->like.n_bytes, size);
    stp_iteration_what(setting, size, what);
    fputs("<tbody><tr><th colspan=\"6\" scope=\"rowgroup\">", fp);
    stp_html_text(what, fp);
    fputs("</th></tr>\n", fp);
    for (size_t a = 0; a < setting->n_arms; a++) {
        const struct stp_iteration_arm *arm = &setting->arms[a];
        char name[STP_ARM_NAME], ran[STP_RAN_NAME], interval[STP_INTERVAL];

        stp_arm_name(&arm->arm, name);
        stp_ran_name(arm->ran_algo, arm->ran_proto, arm->ran_channels, ran);
        stp_interval_text(&arm->gain, interval);
        fprintf(fp,
                "<tr><td>%s</td><td>%s</td><td class=\"n\">%.1f</td><td>%.3f",
                name, ran, arm->us.mean, arm->gain.gain);
        if (a > 0)
            fprintf(fp, " (%s)", interval);
        if (arm->alone_us > 0)
            fprintf(fp, "</td><td class=\"n\">%.1f</td><td class=\"n\">%.3f",
                    arm->alone_us, arm->alone_gain.gain);
        else
            fputs("</td><td></td><td>", fp);
        fputs("</td></tr>\n", fp);
    }
    fputs("</tbody>", fp);
}

static void write_table(const struct stp_iteration_summary *summary, FILE *fp)
{
    fputs("<details class=\"all\"><summary>All step times</summary><div "
          "class=\"scroll\" tabindex=\"0\"><table><thead><tr><th>Arm</th>"
          "<th>NCCL ran</th><th class=\"n\">Step, us</th><th>Gain (95 percent "
          "interval)</th><th class=\"n\">Alone, us</th><th class=\"n\">Gain "
          "alone</th></tr></thead>\n",
          fp);
    for (size_t i = 0; i < summary->n_settings; i++)
        write_times(&summary->settings[i], fp);
    fputs("</table></div></details>\n", fp);
}

static void write_regime(const struct stp_regime *r, FILE *fp)
{
    char size[32], what[STP_ITERATION_TEXT], interval[STP_INTERVAL];
    char alone[STP_ARM_NAME], best[STP_ARM_NAME];

    stp_size_text(r->setting->like.n_bytes, size);
    stp_iteration_what(r->setting, size, what);
    stp_arm_name(&r->alone->arm, alone);
    stp_arm_name(&r->best->arm, best);
    stp_interval_text(&r->gain, interval);
    fputs("<tr><td>", fp);
    stp_html_text(what, fp);
    fprintf(fp, "</td><td>%s</td><td><b>%s</b></td><td>%.3f (%s)</td></tr>\n",
            alone, best, r->gain.gain, interval);
}

/* Where to go by the collective alone would be wrong. */
static void write_regimes(const struct stp_page_set *set, FILE *fp)
{
    if (set->n_regimes == 0) {
        fputs("<p>At none of these workloads is the arm that is fastest alone "
              "beaten, beyond doubt, by another one&#39;s step.</p>\n",
              fp);
        return;
    }
    fputs("<h3>Where the fastest alone is not the shortest step</h3>\n<div "
          "class=\"scroll\"><table><thead><tr><th>Workload</th><th>Fastest "
          "alone</th><th>Shortest step</th><th>Gain of the step</th></tr>"
          "</thead><tbody>\n",
          fp);
    for (size_t i = 0; i < set->n_regimes; i++)
        write_regime(&set->regimes[i], fp);
    fputs("</tbody></table></div>\n", fp);
}

static enum stp_status write_set(const struct stp_page_set *set,
                                 const char *heading, bool by_policy, FILE *fp,
                                 struct stp_error *err)
{
    const struct stp_iteration_summary *summary = &set->iterations;
    struct line *lines;

    if (set->name == NULL)
        return STP_OK;
    lines = calloc(set->data.n_rows, sizeof(*lines));
    if (lines == NULL)
        return stp_nomem(err);
    fprintf(fp,
            "<section><h2>%s</h2>\n<p>Time of a whole training step, compute "
            "and collectives together, in percent of the step as NCCL chooses: "
            "left of 100%% is shorter.</p>\n%s",
            heading, key);
    fprintf(fp, "<div class=\"%s\">\n", by_policy ? "step" : "steps");
    if (by_policy)
        write_policy(summary, lines, fp);
    for (size_t i = 0; !by_policy && i < summary->n_settings; i++)
        write_setting(&summary->settings[i], lines, fp);
    fputs("</div>\n", fp);
    if (!by_policy)
        write_regimes(set, fp);
    write_table(summary, fp);
    fputs("</section>\n", fp);
    free(lines);
    return STP_OK;
}

enum stp_status stp_page_write_iterations(const struct stp_page_data *data,
                                          FILE *fp, struct stp_error *err)
{
    enum stp_status status =
        write_set(&data->sets[STP_PAGE_ITERATIONS],
                  "Training steps, arm by arm", false, fp, err);

    if (status != STP_OK)
        return status;
    return write_set(&data->sets[STP_PAGE_OVERLAP_VERIFY],
                     "Training steps with the overlap policy", true, fp, err);
}
