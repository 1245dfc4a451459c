#include "report/results/diagnosis.h"

#include <stdarg.h>

static const char *const diagnosis_levels[] = {
    [STP_SYMPTOM_OK] = "ok",
    [STP_SYMPTOM_NOTE] = "note",
    [STP_SYMPTOM_PROBLEM] = "problem",
};

void stp_diagnose(struct stp_diagnosis *diagnosis, enum stp_symptom_level level,
                  const char *why, const char *todo, const char *fmt, ...)
{
    struct stp_symptom *last;
    va_list va;

    if (diagnosis->n < STP_MAX_SYMPTOMS)
        diagnosis->n++;
    last = &diagnosis->all[diagnosis->n - 1];
    last->level = level;
    va_start(va, fmt);
    vsnprintf(last->what, STP_SYMPTOM_TEXT, fmt, va);
    va_end(va);
    snprintf(last->why, STP_SYMPTOM_TEXT, "%s", why != NULL ? why : "");
    snprintf(last->todo, STP_SYMPTOM_TEXT, "%s", todo != NULL ? todo : "");
}

void stp_diagnose_why(struct stp_diagnosis *diagnosis, const char *fmt, ...)
{
    va_list va;

    va_start(va, fmt);
    vsnprintf(diagnosis->all[diagnosis->n - 1].why, STP_SYMPTOM_TEXT, fmt, va);
    va_end(va);
}

void stp_diagnose_todo(struct stp_diagnosis *diagnosis, const char *fmt, ...)
{
    va_list va;

    va_start(va, fmt);
    vsnprintf(diagnosis->all[diagnosis->n - 1].todo, STP_SYMPTOM_TEXT, fmt, va);
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

void stp_put_diagnosis(struct stp_table *t,
                       const struct stp_diagnosis *diagnosis)
{
    stp_table_rows(t, "findings");
    for (size_t i = 0; i < diagnosis->n; i++) {
        const struct stp_symptom *f = &diagnosis->all[i];

        stp_table_row(t);
        stp_table_word(t, "level", NULL, diagnosis_levels[f->level]);
        stp_table_word(t, "what", NULL, f->what);
        stp_table_word(t, "why", NULL, f->why[0] != '\0' ? f->why : NULL);
        stp_table_word(t, "do", NULL, f->todo[0] != '\0' ? f->todo : NULL);
    }
    t->row = t->root;
    stp_table_count(t, "problems", NULL,
                    stp_count_symptoms(diagnosis, STP_SYMPTOM_PROBLEM));
}

void stp_print_diagnosis(const struct stp_diagnosis *diagnosis, bool is_json,
                         FILE *fp)
{
    struct stp_table t = stp_table_result(is_json);

    if (!is_json) {
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
    stp_put_diagnosis(&t, diagnosis);
    stp_table_end(&t, fp);
}
