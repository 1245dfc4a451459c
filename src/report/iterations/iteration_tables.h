/*
 * iteration_tables.h - the files of iteration_files.h that are tables
 */
#ifndef STP_ITERATION_TABLES_H
#define STP_ITERATION_TABLES_H

#include "report/iterations/iteration_files.h"

/* Each writes one file.  STP_ERR_NOMEM. */
enum stp_status
stp_iteration_write_summary_csv(const struct stp_iteration_report *report,
                                FILE *fp, struct stp_error *err);
enum stp_status
stp_iteration_write_regimes_csv(const struct stp_iteration_report *report,
                                FILE *fp, struct stp_error *err);
enum stp_status
stp_iteration_write_summary_md(const struct stp_iteration_report *report,
                               FILE *fp, struct stp_error *err);
enum stp_status
stp_iteration_write_regimes_md(const struct stp_iteration_report *report,
                               FILE *fp, struct stp_error *err);

#endif /* STP_ITERATION_TABLES_H */
