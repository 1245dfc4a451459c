/* source.h - where a time comes from */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The worth of a time, best first. A time made of others is worth as much as
 * the worst of them, and every file and every print of a time says its source.
 *
 * Another property says whether it was taken in interleaved rounds or in a
 * single pass (struct stp_measurement): any source may be either. */
enum stp_source {
    STP_SOURCE_MEASURED,     /* on the hardware, now */
    STP_SOURCE_RECORDED,     /* there, earlier, at this size */
    STP_SOURCE_INTERPOLATED, /* between recorded sizes */
    STP_SOURCE_VIRTUAL,      /* simulated in virtual time, out of recorded or
                                interpolated times */
    STP_SOURCE_MODELLED,     /* NCCL's cost model or a model of compute gave it,
                                or a part of it */
    STP_N_SOURCES,
};

#define STP_SOURCE_WORDS "measured, recorded, interpolated, virtual or modelled"

/* How good a model is: model_worth_test holds the figures. */
#define STP_MODEL_WORDS                                                        \
    "A modelled machine shows what NCCL would choose, not what is fast: on "   \
    "recorded machines the model is off by 9 to 33 percent (median of AUTO), " \
    "its best arm is the best in 73 of 120 to 124 of 140 cases, and modelled " \
    "overlap has the sign of a gain right in 158 of 201, but in 0 of the 43 "  \
    "that "                                                                    \
    "are faster"

/* One of STP_SOURCE_WORDS, of an enum stp_source. */
const char *stp_source_name(int source);

/* The same; of a single pass "recorded, single pass" and so on. */
const char *stp_source_words(enum stp_source source, bool single_pass);

/* The source of that name, or -1. */
int stp_source_from_name(const char *word, size_t len);

/* The source of what is made of both. */
enum stp_source stp_source_worst(enum stp_source a, enum stp_source b);

/* Whether such a time may decide which arm is used: models may not. */
bool stp_source_decides(enum stp_source source);

/* Whether the time belongs to another size or is none that anybody took. */
bool stp_source_is_estimate(enum stp_source source);
