/*
 * source.h - where a time comes from
 */
#ifndef STP_SOURCE_H
#define STP_SOURCE_H

#include <stddef.h>

/* How much a time is worth, best first. */
enum stp_source {
    STP_SOURCE_MEASURED,     /* here and now */
    STP_SOURCE_RECORDED,     /* on the recorded machine, at this size */
    STP_SOURCE_INTERPOLATED, /* between sizes of the recorded machine */
    STP_SOURCE_SINGLE_PASS,  /* recorded, but arms one after the other and not
                                in interleaved rounds: drift between them is in
                                the numbers, so nothing may be decided by it */
    STP_SOURCE_MODELLED,     /* by NCCL's cost model, not measured */
    STP_N_SOURCES,
};

/* "measured", "recorded", "interpolated", "single_pass" or "modelled". */
const char *stp_source_name(enum stp_source source);

/* The source of that name, or -1. */
int stp_source_from_name(const char *word, size_t len);

#endif /* STP_SOURCE_H */
