/* baseline.h - what a policy's rules gain over: NCCL alone, or with a tuner
 *
 * A derived policy says so in a comment, for people; other files do not. */
#pragma once

#include <stdbool.h>

#include "core/policy/policy.h"

/* How that comment begins, also of policies for buffers; what follows are the
 * next two, with a name of at most STP_BASELINE_NAME bytes, and " is". */
#define STP_BASELINE_BEGIN "# A rule stands where its gain over "
#define STP_BASELINE_PLAIN "plain buffers with "
#define STP_BASELINE_NCCL  "NCCL's own choice"
#define STP_BASELINE_TUNER "AUTO with %s's tuner"

enum {
    STP_BASELINE_NAME = 48,
    STP_BASELINE_WORDS = 72,
    STP_BASELINE_TEXT = 320
};

/* The words in that comment; "" if there is none. */
const char *stp_policy_baseline(const struct stp_policy *policy);

/* Whether that is another tuner than the one of a job without ours, "" if none
 * is; 'text' then says what to think of it. */
bool stp_baseline_differs(const struct stp_policy *policy, const char *tuner,
                          char text[STP_BASELINE_TEXT]);
