#include "core/policy/baseline.h"

#include <stdio.h>
#include <string.h>

#include "core/utf8.h"

bool stp_baseline_differs(const struct stp_policy *policy, const char *tuner,
                          char text[STP_BASELINE_TEXT])
{
    const char *over = stp_policy_baseline(policy);
    char name[STP_BASELINE_NAME], words[STP_BASELINE_WORDS];

    stp_printable(tuner, strlen(tuner), name, sizeof(name));
    snprintf(words, sizeof(words),
             name[0] != '\0' ? STP_BASELINE_TUNER : STP_BASELINE_NCCL, name);
    if (over[0] == '\0' || strcmp(over, words) == 0)
        return false;
    snprintf(text, STP_BASELINE_TEXT,
             "its rules stand by gains over %s, and what they gain over %s, "
             "which a job here has without them, is not known; they apply all "
             "the same",
             over, words);
    return true;
}
