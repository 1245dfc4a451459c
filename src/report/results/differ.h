/*
 * differ.h - the ranges in which two plugins or policies decide differently, as
 * text and as JSON
 */
#ifndef STP_REPORT_DIFFER_H
#define STP_REPORT_DIFFER_H

#include <stdio.h>

#include "analyse/explain/differ.h"

struct stp_differences_report {
    const struct stp_differences *differences;
    const char *first; /* paths of the plugins or policies */
    const char *second;
    const char *machine; /* its name */
};

/* A row a range, or one sentence if there is none.  Both return STP_ERR_NOMEM
 * with *err filled, or STP_OK. */
enum stp_status
stp_print_differences(const struct stp_differences_report *report, FILE *fp,
                      struct stp_error *err);
enum stp_status
stp_print_differences_json(const struct stp_differences_report *report,
                           FILE *fp, struct stp_error *err);

#endif /* STP_REPORT_DIFFER_H */
