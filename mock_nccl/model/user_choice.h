/*
 * user_choice.h - the algorithms and protocols that NCCL_ALGO and NCCL_PROTO
 * allow
 */
#ifndef MOCK_USER_CHOICE_H
#define MOCK_USER_CHOICE_H

#include <stdbool.h>

#include "base/error.h"
#include "versions/versions.h"

enum mock_use {
    MOCK_USE_NO,
    MOCK_USE_YES,     /* for LL128 also where NCCL considers it unsafe */
    MOCK_USE_IF_SAFE, /* for LL128 without a setting of the user */
};

struct mock_user_choice {
    enum mock_use algo[NCCL_NUM_TUNED_FUNCS][NCCL_NUM_ALGORITHMS];
    enum mock_use proto[NCCL_NUM_TUNED_FUNCS][NCCL_NUM_PROTOCOLS];

    /* CollNet is in use: the user has enabled it, the machine has graphs for it
     * and several nodes, and the network reduces and gathers. */
    bool collnet;
};

/*
 * Parses the values of the two variables, NULL for unset, as NCCL does from
 * 2.24 on:
 *
 *   value:      entry[;entry...]
 *   entry:      [collective:]list
 *   list:       [^]word[,word...]    '^' allows all but these
 *
 * Only the first entry can omit the collective; it then applies to all. If
 * several entries name the same collective, the last one applies. Case does not
 * matter, but spaces do; separators may be doubled. An empty value and an empty
 * list of exceptions differ: "" has no effect, "^" allows everything, LL128
 * included.
 *
 * Before 2.24 a value is one list for all collectives, in which NCCL skips
 * unknown words, PAT before 2.23 among them; an empty value is an empty list,
 * which allows nothing.
 *
 * On failure (ncclInvalidUsage) *choice_ret is untouched and the error names
 * the variable and the word.
 */
ncclResult_t mock_user_choice_parse(const struct mock_version *version,
                                    const char *algo, const char *proto,
                                    struct mock_user_choice *choice_ret);

#endif /* MOCK_USER_CHOICE_H */
