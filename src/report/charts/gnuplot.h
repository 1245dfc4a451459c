/*
 * gnuplot.h - running gnuplot, 5.2 or later
 */
#ifndef STP_GNUPLOT_H
#define STP_GNUPLOT_H

#include <stdio.h>

#include "core/status.h"

enum stp_plot_format {
    STP_PLOT_PNG,
    STP_PLOT_SVG,
    STP_N_PLOT_FORMATS,
};

/* The ending of files: "png" or "svg". */
const char *stp_plot_format_name(enum stp_plot_format format);

/* An empty temporary file, which fclose() removes.
 * STP_ERR_IO if there is none. */
enum stp_status stp_gnuplot_script(FILE **script_ret, struct stp_error *err);

/*
 * Runs 'program' (NULL: gnuplot) on the script in 'script', from its beginning,
 * and writes the picture to the file 'path', whole or not at all: a picture
 * without its format's end, which a full disk cut, is thrown away.
 * STP_ERR_NOTHING if there is no such program, STP_ERR_IO if it fails, with
 * what it said, or if a file cannot be written.
 */
enum stp_status stp_gnuplot_run(const char *program, FILE *script,
                                enum stp_plot_format format, const char *path,
                                struct stp_error *err);

#endif /* STP_GNUPLOT_H */
