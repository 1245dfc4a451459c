/*
 * measurements_row.h - a row of measurements_csv.h, as its columns are read
 */
#ifndef STP_MEASUREMENTS_ROW_H
#define STP_MEASUREMENTS_ROW_H

#include "bench/measurement.h"
#include "core/csv.h"

/* What the row being read lacks until its line is whole. */
struct stp_parsed {
    struct stp_measurement m;
    unsigned line;
    enum stp_arm_kind algo_kind; /* FORCED for auto, too */
    enum stp_arm_kind proto_kind;
    bool has_nodes, has_mean, has_p95, has_p99, has_min, has_ran, has_source;
    bool has_mode, has_layers, has_compute_us;
};

/* All columns; what they read into is a struct stp_parsed. */
enum { STP_N_MEASUREMENT_COLUMNS = 33 };
extern const struct stp_csv_column
    stp_measurement_columns[STP_N_MEASUREMENT_COLUMNS];

/* A row of which nothing is read yet. */
void stp_parsed_begin(struct stp_parsed *row, unsigned line);

/* Makes the measurement whole: with the arm, and with what the columns that are
 * missing would have said.  STP_ERR_SYNTAX if columns contradict each other. */
enum stp_status stp_parsed_finish(struct stp_parsed *row,
                                  struct stp_error *err);

#endif /* STP_MEASUREMENTS_ROW_H */
