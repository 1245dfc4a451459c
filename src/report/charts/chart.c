#include "report/charts/chart.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "report/file.h"

extern const char stp_frame_gp[];

static const char data_ending[] = "tsv";
static const char script_ending[] = "gp";

enum stp_status stp_chart_begin(const char *const templates[], size_t n,
                                const char *columns,
                                struct stp_chart *chart_ret,
                                struct stp_error *err)
{
    struct stp_chart *chart = chart_ret;

    *chart = (struct stp_chart){.n_blocks = 0};
    memcpy(chart->templates, templates, n * sizeof(*templates));
    chart->settings =
        open_memstream(&chart->settings_text, &chart->settings_len);
    chart->data = open_memstream(&chart->data_text, &chart->data_len);
    if (chart->settings == NULL || chart->data == NULL) {
        stp_chart_free(chart);
        return stp_nomem(err);
    }
    fprintf(chart->data, "#%s\n", columns);
    return STP_OK;
}

void stp_chart_free(struct stp_chart *chart)
{
    if (chart->settings != NULL)
        fclose(chart->settings);
    if (chart->data != NULL)
        fclose(chart->data);
    free(chart->settings_text);
    free(chart->data_text);
    *chart = (struct stp_chart){.n_blocks = 0};
}

/* ---- settings ---- */

/* A string of gnuplot, without characters that would end or break it. */
static void chart_quote(const char *text, FILE *fp)
{
    fputc('\'', fp);
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputc('\'', fp);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, fp);
    }
    fputs("'\n", fp);
}

void stp_chart_text(struct stp_chart *chart, const char *name, const char *text)
{
    fprintf(chart->settings, "%s = ", name);
    chart_quote(text, chart->settings);
}

void stp_chart_set(struct stp_chart *chart, const char *fmt, ...)
{
    va_list va;

    va_start(va, fmt);
    vfprintf(chart->settings, fmt, va);
    va_end(va);
    fputc('\n', chart->settings);
}

void stp_chart_arrays(struct stp_chart *chart, size_t n, const char *names)
{
    while (*names != '\0') {
        const int len = (int)strcspn(names, " ");

        fprintf(chart->settings, "array %.*s[%zu]\n", len, names, n);
        names += len + (names[len] == ' ');
    }
}

void stp_chart_text_at(struct stp_chart *chart, const char *name, size_t i,
                       const char *text)
{
    fprintf(chart->settings, "%s[%zu] = ", name, i + 1);
    chart_quote(text, chart->settings);
}

/* ---- data ---- */

void stp_chart_block(struct stp_chart *chart)
{
    if (chart->n_blocks++ > 0)
        fputs("\n\n", chart->data);
}

void stp_chart_field(struct stp_chart *chart, const char *text)
{
    for (; *text != '\0'; text++) /* a row may begin with it: no comment */
        fputc((unsigned char)*text < ' ' || strchr("\"#", *text) != NULL
                  ? ' '
                  : *text,
              chart->data);
    fputc('\t', chart->data);
}

/* ---- files ---- */

/* Writes the script; the data is read from the file 'data', or is part of the
 * script (NULL). */
static void chart_write_script(const struct stp_chart *chart,
                               enum stp_plot_format format, const char *data,
                               FILE *fp)
{
    const char *ending = stp_plot_format_name(format);
    const int stem = data != NULL ? (int)(strrchr(data, '.') - data) : 0;

    if (data != NULL)
        fprintf(fp, "# Draws the picture again: gnuplot %.*s.%s >%.*s.%s\n",
                stem, data, script_ending, stem, data, ending);
    fprintf(fp, "format = '%s'\n", ending);
    if (data == NULL)
        fprintf(fp, "$data << EOD\n%sEOD\n", chart->data_text);
    fputs("data = ", fp);
    chart_quote(data != NULL ? data : "$data", fp);
    fprintf(fp, "%s\n%s", chart->settings_text, stp_frame_gp);
    for (size_t i = 0; i < STP_CHART_TEMPLATES; i++)
        if (chart->templates[i] != NULL)
            fputs(chart->templates[i], fp);
}

/* Brings the texts of settings and data up to date. */
static enum stp_status chart_flush(struct stp_chart *chart,
                                   struct stp_error *err)
{
    if (fflush(chart->settings) != 0 || fflush(chart->data) != 0 ||
        ferror(chart->settings) || ferror(chart->data))
        return stp_nomem(err);
    return STP_OK;
}

enum stp_status stp_chart_write(struct stp_chart *chart,
                                enum stp_plot_format format, FILE *fp,
                                struct stp_error *err)
{
    enum stp_status status = chart_flush(chart, err);

    if (status == STP_OK)
        chart_write_script(chart, format, NULL, fp);
    return status;
}

/* Writes the data (a NULL 'data') or the script that reads the file 'data' to
 * the file STEM.ENDING. */
static enum stp_status chart_save_text(const struct stp_chart *chart,
                                       enum stp_plot_format format,
                                       const char *path, const char *data,
                                       struct stp_error *err)
{
    struct stp_file file;
    enum stp_status status = stp_file_begin(path, &file, err);

    if (status != STP_OK)
        return status;
    if (data == NULL)
        fputs(chart->data_text, file.fp);
    else
        chart_write_script(chart, format, data, file.fp);
    return stp_file_commit(&file, err);
}

/* Writes script and data under the picture's name with other endings. */
static enum stp_status chart_save_sources(const struct stp_chart *chart,
                                          enum stp_plot_format format,
                                          const char *path,
                                          struct stp_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    const int stem = (int)((dot != NULL ? dot : name + strlen(name)) - path);
    const size_t size = (size_t)stem + sizeof(data_ending) + 1;
    char *data = malloc(size);
    char *script = malloc(size);
    enum stp_status status = STP_OK;

    if (data == NULL || script == NULL) {
        status = stp_nomem(err);
    } else {
        snprintf(data, size, "%.*s.%s", stem, path, data_ending);
        snprintf(script, size, "%.*s.%s", stem, path, script_ending);
        status = chart_save_text(chart, format, data, NULL, err);
        if (status == STP_OK)
            status = chart_save_text(chart, format, script,
                                     data + (name - path), err);
    }
    free(data);
    free(script);
    return status;
}

enum stp_status stp_chart_save(struct stp_chart *chart,
                               enum stp_plot_format format, const char *gnuplot,
                               const char *path, struct stp_error *err)
{
    FILE *script = NULL;
    enum stp_status status = stp_gnuplot_script(&script, err);

    if (status != STP_OK)
        return status;
    status = stp_chart_write(chart, format, script, err);
    if (status == STP_OK)
        status = stp_gnuplot_run(gnuplot, script, format, path, err);
    fclose(script);
    if (status != STP_OK)
        return status;
    return chart_save_sources(chart, format, path, err);
}
