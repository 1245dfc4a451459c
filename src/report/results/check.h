/*
 * check.h - the findings of `steptune check`, as text and as JSON
 */
#ifndef STP_REPORT_CHECK_H
#define STP_REPORT_CHECK_H

#include <stdbool.h>
#include <stdio.h>

#include "analyse/check/check.h"

/* How many findings are left: all, or those that have no fix if 'fixed' says
 * that these were done. */
struct stp_check_count {
    size_t n_warnings, n_notes, n_fixed;
};
struct stp_check_count stp_count_findings(const struct stp_findings *findings,
                                          bool fixed);

/* A line a finding, as compilers print them.  If 'fixed', a finding that has a
 * fix is printed with the change that the fix made. */
void stp_print_findings(const struct stp_findings *findings, const char *path,
                        bool fixed, FILE *fp);
/* STP_ERR_NOMEM, with *err filled, or STP_OK. */
enum stp_status stp_print_findings_json(const struct stp_findings *findings,
                                        const char *path, bool fixed, FILE *fp,
                                        struct stp_error *err);

#endif /* STP_REPORT_CHECK_H */
