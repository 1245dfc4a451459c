/*
 * constants_file.h - fitted constants: as a file for the plugin, as tables and
 * as JSON
 */
#ifndef STP_CONSTANTS_FILE_H
#define STP_CONSTANTS_FILE_H

#include <stdio.h>

#include "analyse/constants/constants.h"

struct stp_constants_origin {
    const struct stp_dataset *data; /* what they were fitted to */
    const char *made_by;            /* the first comment line */
    const char *machine;            /* whose model it was */
    bool trusts_passes;             /* as in struct stp_constants_terms */
};

/* Writes the file 'path' that STEPTUNE_CONSTANTS_FILE names, whole or not at
 * all, or if that is NULL to standard output, with its measurements and the
 * sizes at which its choice is still wrong as comments. */
enum stp_status
stp_constants_file_save(const struct stp_constants_fit *fit,
                        const struct stp_constants_origin *origin,
                        const char *path, struct stp_error *err);

/* A row a constant, the residuals, and a row a size with a wrong choice. */
enum stp_status
stp_print_constants_fit(const struct stp_constants_fit *fit,
                        const struct stp_constants_origin *origin, bool is_json,
                        FILE *fp, struct stp_error *err);

#endif /* STP_CONSTANTS_FILE_H */
