/*
 * why.h - the reasons for the choice at one message size, as text and as JSON
 */
#ifndef STP_REPORT_WHY_H
#define STP_REPORT_WHY_H

#include <stdio.h>

#include "analyse/explain/why.h"

struct stp_why_report {
    const struct stp_why *why;
    const char *machine; /* its name */
    const char *plugin;
    const char *policy; /* its path, or NULL without one */
    const char *rule;   /* the text of the line that decided, or NULL */
};

/* Both return STP_ERR_NOMEM with *err filled, or STP_OK. */
enum stp_status stp_print_why(const struct stp_why_report *report, FILE *fp,
                              struct stp_error *err);
enum stp_status stp_print_why_json(const struct stp_why_report *report,
                                   FILE *fp, struct stp_error *err);

#endif /* STP_REPORT_WHY_H */
