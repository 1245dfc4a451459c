/* plot.c - kinds of plots, their frames, and drawing them */
#include "report/charts/plot.h"

#include <math.h>

#include "core/names.h"
#include "nccl_tuner_abi.h"
#include "report/charts/plot_parts.h"

static const struct {
    const char *name;    /* of the file; %s is the collective */
    const char *heading; /* in the title */
    bool study;
    void (*write)(const struct stp_labelled_set *set,
                  const struct stp_plot *plot, FILE *fp);
} kinds[STP_N_PLOT_KINDS] = {
    [STP_PLOT_BUSBW] = {"%s_busbw_vs_size", "bus bandwidth", false,
                        stp_plot_write_lines},
    [STP_PLOT_LATENCY] = {"%s_latency_vs_size", "latency", false,
                          stp_plot_write_lines},
    [STP_PLOT_STUDY_TIME] = {"%s_time_vs_datasize", "time", true,
                             stp_plot_write_lines},
    [STP_PLOT_STUDY_BANDWIDTH] = {"%s_bandwidth_vs_datasize", "bus bandwidth",
                                  true, stp_plot_write_lines},
    [STP_PLOT_STUDY_BARS] = {"%s_backend_comparison_100mb", "time", true,
                             stp_plot_write_bars},
};

static int coll_of(const struct stp_plot *plot)
{
    return kinds[plot->kind].study ? ncclFuncAllReduce : plot->coll;
}

void stp_plot_name(const struct stp_plot *plot, enum stp_plot_format format,
                   char name[STP_PLOT_NAME])
{
    int len = snprintf(name, STP_PLOT_NAME, kinds[plot->kind].name,
                       stp_coll_name(coll_of(plot)));

    snprintf(name + len, STP_PLOT_NAME - (size_t)len, ".%s",
             stp_plot_format_name(format));
}

const char *stp_plot_colour(size_t i)
{
    /* Okabe and Ito's, which colour-blind people tell apart, without the yellow
     * that is lost on white, and a grey. */
    static const char *const colours[] = {
        "#000000", "#d55e00", "#0072b2", "#009e73",
        "#cc79a7", "#e69f00", "#56b4e9", "#888888",
    };

    return colours[i % (sizeof(colours) / sizeof(colours[0]))];
}

/* ---- frames ---- */

void stp_plot_write_rules(const char *source, FILE *fp)
{
    fputs("set label 1 ", fp);
    stp_gnuplot_quote(source, fp);
    fputs(" at screen 0.01,0.025 left font ',9' textcolor rgb '#666666'\n"
          "set bmargin 5.5\n"
          "set border 3 linecolor rgb '#666666'\n"
          "set tics nomirror out textcolor rgb '#000000'\n"
          "set grid xtics ytics linetype 1 linewidth 1 linecolor rgb "
          "'#dddddd'\n"
          "set key outside right top vertical Left reverse samplen 4 spacing "
          "1.2\n",
          fp);
}

void stp_plot_write_frame(const struct stp_labelled_set *set,
                          const struct stp_plot *plot, const char *what,
                          FILE *fp)
{
    char common[STP_LABEL * 2];
    char title[STP_LABEL * 4];
    char source[STP_LABEL];

    stp_common_title(set, common, sizeof(common));
    snprintf(title, sizeof(title), "%s%s%s %s%s%s%s",
             plot->title != NULL ? plot->title : "",
             plot->title != NULL ? ": " : "", stp_coll_title(coll_of(plot)),
             kinds[plot->kind].heading, what, common[0] ? ", " : "", common);
    stp_source_line(set, source, sizeof(source));
    fputs("set title ", fp);
    stp_gnuplot_quote(title, fp);
    fputs(" font ',15'\n", fp);
    stp_plot_write_rules(source, fp);
}

/* 1 ... 1,000,000 or 0.01, whatever the locale. */
static void write_number(double value, FILE *fp)
{
    char digits[32];
    size_t len;

    if (value < 1000) {
        fprintf(fp, "%g", value);
        return;
    }
    len = (size_t)snprintf(digits, sizeof(digits), "%.0f", value);
    for (size_t i = 0; i < len; i++)
        fprintf(fp, "%s%c", i > 0 && (len - i) % 3 == 0 ? "," : "", digits[i]);
}

void stp_plot_write_log_y(double min, double max, FILE *fp)
{
    int first = (int)floor(log10(min));
    int last = (int)ceil(log10(max));
    bool within = log10(max / min) < 2.5; /* 2 and 5, too, have a name */
    const char *comma = "";

    fprintf(fp,
            "set logscale y 10\nset yrange [%.6g:%.6g]\nset mytics 10\nset "
            "ytics (",
            min, max);
    for (int e = first; e <= last; e++)
        for (int i = 0; i < (within ? 3 : 1); i++) {
            double value = pow(10, e) * (i == 0 ? 1 : i == 1 ? 2 : 5);

            fprintf(fp, "%s'", comma);
            write_number(value, fp);
            fprintf(fp, "' %.6g", value);
            comma = ", ";
        }
    fputs(")\n", fp);
}

/* ---- whole scripts ---- */

enum stp_status stp_plot_write(const struct stp_curves *curves,
                               const struct stp_plot *plot,
                               enum stp_plot_format format, FILE *fp,
                               struct stp_error *err)
{
    struct stp_labelled_set set;
    enum stp_status status = kinds[plot->kind].study
                                 ? stp_pick_study(curves, &set, err)
                                 : stp_pick_curves(curves, plot, &set, err);

    if (status != STP_OK)
        return status;
    stp_gnuplot_begin(format, STP_PLOT_WIDTH, STP_PLOT_HEIGHT, fp);
    kinds[plot->kind].write(&set, plot, fp);
    stp_labelled_free(&set);
    return STP_OK;
}

enum stp_status stp_plot_save(const struct stp_curves *curves,
                              const struct stp_plot *plot,
                              enum stp_plot_format format, const char *gnuplot,
                              const char *path, struct stp_error *err)
{
    FILE *script = NULL;
    enum stp_status status = stp_gnuplot_script(&script, err);

    if (status != STP_OK)
        return status;
    status = stp_plot_write(curves, plot, format, script, err);
    if (status == STP_OK)
        status = stp_gnuplot_run(gnuplot, script, path, err);
    fclose(script);
    return status;
}
