/* variables.h - the variables that NCCL reads, and what a value is to it
 *
 * The table is variables.txt, which says where it comes from. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { STP_VARIABLE_TEXT = 256, STP_OLDEST_MINOR = 21 };

/* A row; texts are "" where the table has none. */
struct stp_variable {
    char name[64];
    int first, last; /* minor versions of NCCL 2; last 0: the newest reads it */
    char kind[STP_VARIABLE_TEXT];
    char plays[16];
    char does[128];
    char off[8];
    char path[STP_VARIABLE_TEXT];
    char arms[32];
};

/* The i-th row; false from the last one on. */
bool stp_variable_at(size_t i, struct stp_variable *row_ret);

/* The word before the first blank of 'kind', and what follows it, "" if
 * nothing does. */
bool stp_variable_is(const struct stp_variable *v, const char *kind);
const char *stp_variable_words(const struct stp_variable *v);

/* Whether the 'len' bytes at 'word' are one of the words between commas, with
 * letters' case or without. */
bool stp_words_have(const char *words, const char *word, size_t len,
                    bool exactly);

/* The number that NCCL reads: what strtoll() makes of the value's beginning. */
long long stp_variable_number(const char *value);

/* Whether the value switches the variable's fast path off. */
bool stp_variable_is_off(const struct stp_variable *v, const char *value);

/* Whether NCCL reads the value otherwise than it was meant, or not at all; then
 * the text says how.  Files are not looked at. */
bool stp_variable_is_misread(const struct stp_variable *v, const char *value,
                             char text[STP_VARIABLE_TEXT]);
