/*
 * recorded.h - what became of a recording: whether mock NCCL is that machine
 */
#ifndef STP_RECORDED_H
#define STP_RECORDED_H

#include <stdio.h>

#include "report/measurements/machine_folder.h"

struct stp_recorded {
    const struct stp_machine_record *record;
    const char *path;               /* of the folder */
    const struct stp_choices *mock; /* the recorded choices, one for one, as
                                       mock NCCL makes them from the folder */
};

/* Choices that are alike. */
size_t stp_recorded_alike(const struct stp_recorded *recorded);

/* A few lines, with the first choices that differ, or all as JSON.
 * STP_ERR_NOMEM with *err filled, or STP_OK. */
enum stp_status stp_print_recorded(const struct stp_recorded *recorded,
                                   bool is_json, FILE *fp,
                                   struct stp_error *err);

#endif /* STP_RECORDED_H */
