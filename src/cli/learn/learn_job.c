/* learn_job.c - jobs and strategies in words */
#include <stdio.h>
#include <string.h>

#include "cli/learn/learn.h"
#include "core/names.h"
#include "core/text.h"

static size_t job_measure_part(const char *text, const char *separators)
{
    return strcspn(text, separators);
}

static bool job_explain(char why[160], const char *word, const char *expected)
{
    snprintf(why, 160, "'%.*s', expected %s", (int)job_measure_part(word, ","),
             word, expected);
    return false;
}

/* One "collective:size[:us]", up to a comma or the end. */
static bool job_parse_call(const char *word, double compute_us,
                           struct mock_job_call *call, char why[160])
{
    size_t len = job_measure_part(word, ":,");
    const char *size = word + len + 1;
    int coll = stp_coll_from_name(word, len);
    uint64_t n_bytes;

    if (coll < 0)
        return job_explain(why, word, stp_coll_names());
    if (word[len] != ':' ||
        !stp_parse_size(size, job_measure_part(size, ":,"), &n_bytes) ||
        n_bytes < 1 || n_bytes > (uint64_t)1 << 40)
        return job_explain(why, word, "a size such as 4M after the collective");
    size += job_measure_part(size, ":,");
    if (*size == ':' &&
        (!stp_parse_double(size + 1, job_measure_part(size + 1, ","),
                           &compute_us) ||
         !(compute_us >= 0 && compute_us <= 1e9)))
        return job_explain(why, word, "microseconds of compute after the size");
    *call = (struct mock_job_call){
        .compute_us = compute_us,
        .call = {.coll = (ncclFunc_t)coll, .n_bytes = n_bytes}};
    return true;
}

size_t stp_parse_job(const char *text, double compute_us,
                     struct mock_job_call calls[STP_LEARN_CALLS], char why[160])
{
    size_t n = 0;

    for (;;) {
        if (n == STP_LEARN_CALLS) {
            snprintf(why, 160, "more than %d collectives", STP_LEARN_CALLS);
            return 0;
        }
        if (!job_parse_call(text, compute_us, &calls[n++], why))
            return 0;
        text += job_measure_part(text, ",");
        if (*text == '\0')
            return n;
        text++;
    }
}

size_t stp_parse_strategies(const char *text,
                            char words[STP_LEARN_STRATEGIES][STP_LEARN_WORD])
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz-_";

    for (size_t n = 0; n < STP_LEARN_STRATEGIES;) {
        size_t len = strspn(text, letters);

        if (len == 0 || len >= STP_LEARN_WORD)
            return 0;
        snprintf(words[n++], STP_LEARN_WORD, "%.*s", (int)len, text);
        if (text[len] == '\0')
            return n;
        if (text[len] != ',')
            return 0;
        text += len + 1;
    }
    return 0;
}
