/*
 * diagnosis.h - what an examination found: symptoms, each with its reason and
 * its remedy
 */
#ifndef STP_DIAGNOSIS_H
#define STP_DIAGNOSIS_H

#include <stdio.h>

#include "core/status.h"

enum stp_symptom_level {
    STP_SYMPTOM_OK,
    STP_SYMPTOM_NOTE,    /* worth knowing */
    STP_SYMPTOM_PROBLEM, /* something will not do what it is there for */
};

enum { STP_SYMPTOM_TEXT = 512, STP_MAX_SYMPTOMS = 64 };

struct stp_symptom {
    enum stp_symptom_level level;
    char what[STP_SYMPTOM_TEXT];
    char why[STP_SYMPTOM_TEXT];  /* it matters; "" if that is plain */
    char todo[STP_SYMPTOM_TEXT]; /* "" if there is nothing to do */
};

struct stp_diagnosis {
    struct stp_symptom all[STP_MAX_SYMPTOMS];
    size_t n;
};

/* Adds a symptom; what is too long is cut, and the last one takes the place of
 * what there is no room for. */
void stp_diagnose(struct stp_diagnosis *diagnosis, enum stp_symptom_level level,
                  const char *what, ...) STP_PRINTF(3, 4);

/* Say why the last one matters, and what to do. */
void stp_diagnose_why(struct stp_diagnosis *diagnosis, const char *fmt, ...)
    STP_PRINTF(2, 3);
void stp_diagnose_todo(struct stp_diagnosis *diagnosis, const char *fmt, ...)
    STP_PRINTF(2, 3);

size_t stp_count_symptoms(const struct stp_diagnosis *diagnosis,
                          enum stp_symptom_level level);

/* One paragraph each, and a last line that counts them. */
void stp_print_diagnosis(const struct stp_diagnosis *diagnosis, FILE *fp);
/* STP_ERR_NOMEM with *err filled, or STP_OK. */
enum stp_status stp_print_diagnosis_json(const struct stp_diagnosis *diagnosis,
                                         FILE *fp, struct stp_error *err);

#endif /* STP_DIAGNOSIS_H */
