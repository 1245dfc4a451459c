/*
 * derive_load.h - what `steptune derive` reads
 */
#ifndef STP_DERIVE_LOAD_H
#define STP_DERIVE_LOAD_H

#include "analyse/best.h"
#include "bench/measurement.h"

struct stp_derive_input {
    const char *path;
    bool has_arm; /* it was given by name */
    struct stp_arm arm;
};

/* Who made a file. */
enum stp_derive_kind {
    STP_DERIVE_OURS,   /* `steptune sweep` or `steptune iterate`, CSV */
    STP_DERIVE_TEXT,   /* nccl-tests, or our text: a pass of one arm after the
                          other */
    STP_DERIVE_NVIDIA, /* what optimize_config.py takes: no AUTO */
};

/* All files, which are of one kind.  Begin with 0. */
struct stp_derive_data {
    enum stp_derive_kind kind;
    struct stp_dataset data;
    struct stp_best_rows rows; /* instead, if NVIDIA's */
};

/* Reads the files; 'coll' is the collective of text that does not say, or -1.
 * Complains and returns the exit status. */
int stp_derive_load(const char *command, const struct stp_derive_input *inputs,
                    size_t n_inputs, int coll,
                    struct stp_derive_data *data_ret);

void stp_derive_data_free(struct stp_derive_data *data);

#endif /* STP_DERIVE_LOAD_H */
