/*
 * sweep.h - the options of `steptune sweep`
 */
#ifndef STP_CLI_SWEEP_H
#define STP_CLI_SWEEP_H

#include "cli/cli.h"
#include "core/dtype.h"

enum stp_sweep_format {
    STP_FORMAT_DEFAULT,
    STP_FORMAT_NCCL,
    STP_FORMAT_TABLE,
    STP_FORMAT_CSV
};

struct stp_sweep_options {
    struct stp_machine_options machine;
    struct stp_measure_options measure;
    struct stp_run_options run;
    const char *arms; /* NULL: not given */
    const char *channels;
    const char *output;
    int ops[STP_N_OPS]; /* enum stp_op, one after the other */
    size_t n_ops;
    unsigned arm_places;
    unsigned check;
    enum stp_sweep_format format;
};

extern const struct argp stp_sweep_argp;

#endif /* STP_CLI_SWEEP_H */
