/* machine_folder.h - a recorded machine, as mock NCCL reads it
 *
 * machine.csv, graphs.xml, choices.csv, and timings.csv and overlap.csv if
 * there are times.  steptune-machine(5) has the formats.  Times that are
 * modelled are left out, and so are single passes from what is said to be
 * interleaved. */
#pragma once

#include <stdio.h>

#include "bench/choices.h"
#include "bench/iterate.h"
#include "report/folder.h"

struct stp_machine_record {
    struct stp_device_info info;
    const char *made_by; /* "steptune 0.1.0 record" */
    int n_channels; /* of the communicator; 0: as NCCL derives them from the
                       graphs */
    int n_nvls_channels; /* if the other is not 0 */
    struct stp_choices choices;
    struct stp_dataset window; /* interleaved rounds */
    struct stp_dataset sweep;  /* every channel count, once */
    struct stp_iterations overlap;
};

/* Writes all files into the temporary folder, where NCCL has written
 * graphs.xml; STP_ERR_IO with a sentence if it has not. */
enum stp_status stp_machine_write(const struct stp_machine_record *record,
                                  const struct stp_folder *folder,
                                  struct stp_error *err);

/* Sets the counts of channels to the most that any choice has. */
void stp_machine_count_channels(struct stp_machine_record *record);

/* Writes machine.csv anew. */
enum stp_status stp_machine_write_info(const struct stp_machine_record *record,
                                       const struct stp_folder *folder,
                                       struct stp_error *err);

/* The names of these files, NULL behind the last. */
extern const char *const stp_machine_files[];

void stp_machine_record_free(struct stp_machine_record *record);

struct stp_recorded {
    const struct stp_machine_record *record;
    const char *path;               /* of the folder */
    const struct stp_choices *mock; /* the recorded choices, one for one, as
                                       mock NCCL makes them from the folder */
};

/* Choices that are alike. */
size_t stp_recorded_alike(const struct stp_recorded *recorded);

/* A few lines, with the first choices that differ, or all as JSON. */
void stp_print_recorded(const struct stp_recorded *recorded, bool is_json,
                        FILE *fp);
