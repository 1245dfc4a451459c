#include "report/results/diagnosis.h"

#include <stdarg.h>

#include "report/json.h"

static const char *const diagnosis_levels[] = {
    [STP_SYMPTOM_OK] = "ok",
    [STP_SYMPTOM_NOTE] = "note",
    [STP_SYMPTOM_PROBLEM] = "problem",
};

static struct stp_symptom *diagnosis_last(struct stp_diagnosis *diagnosis)
{
    return &diagnosis->all[diagnosis->n - 1];
}

void stp_diagnose(struct stp_diagnosis *diagnosis, enum stp_symptom_level level,
                  const char *fmt, ...)
{
    va_list va;

    if (diagnosis->n < STP_MAX_SYMPTOMS)
        diagnosis->n++;
    *diagnosis_last(diagnosis) = (struct stp_symptom){.level = level};
    va_start(va, fmt);
    vsnprintf(diagnosis_last(diagnosis)->what, STP_SYMPTOM_TEXT, fmt, va);
    va_end(va);
}

void stp_diagnose_why(struct stp_diagnosis *diagnosis, const char *fmt, ...)
{
    va_list va;

    va_start(va, fmt);
    vsnprintf(diagnosis_last(diagnosis)->why, STP_SYMPTOM_TEXT, fmt, va);
    va_end(va);
}

void stp_diagnose_todo(struct stp_diagnosis *diagnosis, const char *fmt, ...)
{
    va_list va;

    va_start(va, fmt);
    vsnprintf(diagnosis_last(diagnosis)->todo, STP_SYMPTOM_TEXT, fmt, va);
    va_end(va);
}

size_t stp_count_symptoms(const struct stp_diagnosis *diagnosis,
                          enum stp_symptom_level level)
{
    size_t n = 0;

    for (size_t i = 0; i < diagnosis->n; i++)
        n += diagnosis->all[i].level == level;
    return n;
}

void stp_print_diagnosis(const struct stp_diagnosis *diagnosis, FILE *fp)
{
    for (size_t i = 0; i < diagnosis->n; i++) {
        const struct stp_symptom *f = &diagnosis->all[i];

        fprintf(fp, "%-7s  %s\n", diagnosis_levels[f->level], f->what);
        if (f->why[0] != '\0')
            fprintf(fp, "         why: %s\n", f->why);
        if (f->todo[0] != '\0')
            fprintf(fp, "         do:  %s\n", f->todo);
    }
    fprintf(fp, "\nproblems: %zu, notes: %zu, ok: %zu\n",
            stp_count_symptoms(diagnosis, STP_SYMPTOM_PROBLEM),
            stp_count_symptoms(diagnosis, STP_SYMPTOM_NOTE),
            stp_count_symptoms(diagnosis, STP_SYMPTOM_OK));
}

enum stp_status stp_print_diagnosis_json(const struct stp_diagnosis *diagnosis,
                                         FILE *fp, struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(root, "findings");

    for (size_t i = 0; i < diagnosis->n; i++) {
        const struct stp_symptom *f = &diagnosis->all[i];
        cJSON *row = stp_json_row(list);

        cJSON_AddStringToObject(row, "level", diagnosis_levels[f->level]);
        cJSON_AddStringToObject(row, "what", f->what);
        stp_json_word(row, "why", f->why[0] != '\0' ? f->why : NULL);
        stp_json_word(row, "do", f->todo[0] != '\0' ? f->todo : NULL);
    }
    stp_json_number(root, "problems",
                    (double)stp_count_symptoms(diagnosis, STP_SYMPTOM_PROBLEM));
    return stp_json_finish(root, fp, err);
}
