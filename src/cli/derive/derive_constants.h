/*
 * derive_constants.h - `steptune derive --as constants`
 */
#ifndef STP_DERIVE_CONSTANTS_H
#define STP_DERIVE_CONSTANTS_H

#include <stdbool.h>

#include "bench/measurement.h"

struct stp_derive_constants {
    const struct stp_dataset *data;
    const char *on;     /* NULL: the machine that the data name */
    const char *output; /* NULL: standard output */
    bool trust_passes;
    bool json;
};

/* Complains and returns the exit status. */
int stp_derive_constants(const char *command,
                         const struct stp_derive_constants *o);

#endif /* STP_DERIVE_CONSTANTS_H */
