/* diagnosis.h - the findings of `steptune doctor`: symptoms, each with its
 * reason and its remedy */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "core/status.h"
#include "report/table.h"

enum stp_symptom_level {
    STP_SYMPTOM_OK,
    STP_SYMPTOM_NOTE,    /* worth knowing */
    STP_SYMPTOM_PROBLEM, /* a part of Steptune does not work */
};

enum { STP_SYMPTOM_TEXT = 512, STP_MAX_SYMPTOMS = 64 };

struct stp_symptom {
    enum stp_symptom_level level;
    char what[STP_SYMPTOM_TEXT];
    char why[STP_SYMPTOM_TEXT];  /* reason; "": it is plain */
    char todo[STP_SYMPTOM_TEXT]; /* remedy; "": there is none */
};

struct stp_diagnosis {
    struct stp_symptom all[STP_MAX_SYMPTOMS];
    size_t n;
};

/* Adds a symptom with its reason and its remedy, which may be NULL.  A long
 * text is cut; a symptom beyond STP_MAX_SYMPTOMS replaces the last. */
void stp_diagnose(struct stp_diagnosis *diagnosis, enum stp_symptom_level level,
                  const char *why, const char *todo, const char *fmt, ...)
    STP_PRINTF(5, 6);

/* Set reason and remedy of the last symptom, where they are no fixed text. */
void stp_diagnose_why(struct stp_diagnosis *diagnosis, const char *fmt, ...)
    STP_PRINTF(2, 3);
void stp_diagnose_todo(struct stp_diagnosis *diagnosis, const char *fmt, ...)
    STP_PRINTF(2, 3);

size_t stp_count_symptoms(const struct stp_diagnosis *diagnosis,
                          enum stp_symptom_level level);

/* Adds it to an object of JSON; other tables have no place for it. */
void stp_put_diagnosis(struct stp_table *table,
                       const struct stp_diagnosis *diagnosis);

/* A paragraph a symptom, and a line with the count of each level; or JSON. */
void stp_print_diagnosis(const struct stp_diagnosis *diagnosis, bool is_json,
                         FILE *fp);
