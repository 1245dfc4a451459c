/*
 * record.h - the two halves of `steptune record`
 */
#ifndef STP_CLI_RECORD_H
#define STP_CLI_RECORD_H

#include "cli/cli.h"
#include "report/measurements/machine_folder.h"

/* What was asked for, and the arms in it. */
struct stp_record_options {
    struct stp_machine_options machine;
    struct stp_measure_options measure; /* its colls are all that are meant */
    struct stp_run_options run;
    struct stp_arguments arguments;
    const char *name;
    const char *output; /* NULL: the default folder */
    const char *channels;
    bool no_overlap;
    bool force;
};

/* Of what record does and does not measure. */
struct stp_record_arms {
    struct stp_arms window;
    struct stp_arms sweep;
    struct stp_arms overlap;
};

/* *err says what is wrong with --channels. */
enum stp_status stp_record_make_arms(const struct stp_record_options *o,
                                     struct stp_record_arms *arms_ret,
                                     struct stp_error *err);

/* Records all but the search graphs into '*record', in all processes of the
 * world, with a progress bar.  STP_ERR_STOPPED by SIGINT or SIGTERM of any.
 * '*record' is to be freed also after a failure. */
enum stp_status stp_record_device(const struct stp_record_options *o,
                                  const struct stp_record_arms *arms,
                                  const struct stp_world *world,
                                  const struct stp_device *device,
                                  struct stp_machine_record *record,
                                  struct stp_error *err);

#endif /* STP_CLI_RECORD_H */
