/* chart.h - one chart: gnuplot's templates, the settings for them, and its data
 *
 * A chart is put together as text.  Its settings are assignments of gnuplot,
 * which stand above the templates (templates/NAME.gp); its data is
 * tab-separated text in blocks, which the templates read as `data`. */
#pragma once

#include <stdio.h>

#include "core/status.h"

enum stp_plot_format {
    STP_PLOT_PNG,
    STP_PLOT_SVG,
    STP_N_PLOT_FORMATS,
};

/* The ending of files: "png" or "svg". */
const char *stp_plot_format_name(enum stp_plot_format format);

enum { STP_CHART_TEMPLATES = 2 };

struct stp_chart {
    const char *templates[STP_CHART_TEMPLATES]; /* after the frame; or NULL */
    FILE *settings;
    FILE *data; /* rows are printed here */
    char *settings_text;
    char *data_text;
    size_t settings_len, data_len;
    size_t n_blocks;
};

/* An empty chart, which must not be moved, to be freed with stp_chart_free(),
 * of a template and, unless NULL, another.  'columns' are the names of the
 * data's columns, with tabs between. */
void stp_chart_begin(const char *first, const char *second, const char *columns,
                     struct stp_chart *chart_ret);

void stp_chart_free(struct stp_chart *chart);

/* Adds settings of numbers, as printf() does: "n = %d\nwidths[%zu] = %g". */
void stp_chart_set(struct stp_chart *chart, const char *fmt, ...)
    STP_PRINTF(2, 3);

/* Adds arrays of 'n' elements, which gnuplot counts from 1; spaces are between
 * the names. */
void stp_chart_arrays(struct stp_chart *chart, size_t n, const char *names);

/* Adds the setting of a text, and of element 'i', from 0, of an array. */
void stp_chart_text(struct stp_chart *chart, const char *name,
                    const char *text);
void stp_chart_text_at(struct stp_chart *chart, const char *name, size_t i,
                       const char *text);

/* Begins a block of rows, which must not stay empty: gnuplot would count the
 * blocks after it differently. */
void stp_chart_block(struct stp_chart *chart);

/* A text as a field of the data, with the tab behind it. */
void stp_chart_field(struct stp_chart *chart, const char *text);

/* Writes gnuplot's script, the data included. */
void stp_chart_write(struct stp_chart *chart, enum stp_plot_format format,
                     FILE *fp);

/* Draws the chart into the file 'path' with the program 'gnuplot' (NULL: as it
 * is found), 5.2 or later.  The picture appears whole or not at all: one
 * without its format's end, which a full disk cut, is thrown away.
 * STP_ERR_NOTHING if there is no such program, STP_ERR_IO if it fails, with
 * what it said, or if a file cannot be written. */
enum stp_status stp_chart_save(struct stp_chart *chart,
                               enum stp_plot_format format, const char *gnuplot,
                               const char *path, struct stp_error *err);
