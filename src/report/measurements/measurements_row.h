/* measurements_row.h - the columns of measurements_csv.h */
#pragma once

#include "bench/measurement.h"
#include "core/csv.h"

/* A row while it is read.  Members hold what no column could say until one of
 * them does. */
struct stp_measurement_row {
    struct stp_measurement m;
    unsigned line;
    struct stp_arm algo_arm; /* of the two columns: what they force, or an */
    struct stp_arm
        proto_arm;   /* arm that stands in both; FORCED for auto, too */
    const char *run; /* of a recorded machine, as it is written */
};

enum { STP_N_MEASUREMENT_COLUMNS = 38 };
extern const struct stp_csv_column
    stp_measurement_columns[STP_N_MEASUREMENT_COLUMNS];

/* A row of which nothing is read yet. */
void stp_measurement_row_begin(struct stp_measurement_row *row, unsigned line);

/* Completes the measurement: its arm, and the defaults of columns that are
 * missing.  STP_ERR_SYNTAX if columns contradict each other. */
enum stp_status stp_measurement_row_finish(struct stp_measurement_row *row,
                                           struct stp_error *err);

/* Takes what is not above 0, as nobody said it, for not known (NaN). */
void stp_measurement_row_forget(struct stp_measurement *m);

/* The columns of a file to be written, in their order. */
struct stp_measurement_header {
    const struct stp_csv_column *columns[STP_N_MEASUREMENT_COLUMNS];
    size_t n;
};

/* Finds the columns of the table that 'names' lists, separated by commas. */
void stp_measurement_header_read(const char *names,
                                 struct stp_measurement_header *header_ret);

/* Writes the fields of the row that the header has, and ends the line. */
void stp_measurement_row_write(const struct stp_measurement_row *row,
                               const struct stp_measurement_header *header,
                               FILE *fp);
