#include "device/source.h"

#include <string.h>

#define WORDS(word)                                                            \
    {                                                                          \
        word, word ", single pass"                                             \
    }

/* In rounds, and of a single pass. */
static const char *const source_words[STP_N_SOURCES][2] = {
    [STP_SOURCE_MEASURED] = WORDS("measured"),
    [STP_SOURCE_RECORDED] = WORDS("recorded"),
    [STP_SOURCE_INTERPOLATED] = WORDS("interpolated"),
    [STP_SOURCE_VIRTUAL] = WORDS("virtual"),
    [STP_SOURCE_MODELLED] = WORDS("modelled"),
};

const char *stp_source_name(int source)
{
    return source_words[source][false];
}

const char *stp_source_words(enum stp_source source, bool single_pass)
{
    return source_words[source][single_pass];
}

int stp_source_from_name(const char *word, size_t len)
{
    for (int i = 0; i < STP_N_SOURCES; i++)
        if (strlen(source_words[i][false]) == len &&
            memcmp(source_words[i][false], word, len) == 0)
            return i;
    return -1;
}

enum stp_source stp_source_worst(enum stp_source a, enum stp_source b)
{
    return a > b ? a : b;
}

bool stp_source_decides(enum stp_source source)
{
    return source != STP_SOURCE_MODELLED;
}

bool stp_source_is_estimate(enum stp_source source)
{
    return source == STP_SOURCE_INTERPOLATED || source == STP_SOURCE_MODELLED;
}
