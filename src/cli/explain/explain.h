/*
 * explain.h - what the parts of `steptune explain` share
 */
#ifndef STP_CLI_EXPLAIN_H
#define STP_CLI_EXPLAIN_H

#include "analyse/explain/explain.h"
#include "cli/cli.h"

struct stp_explain_command {
    const char *command; /* for messages */
    struct stp_machine_options machine;
    const char *plugin;
    bool ours; /* the plugin is */
    const char *policy;
    int coll; /* ncclFunc_t; -1: not given */
    uint64_t max_bytes;
    uint64_t why;       /* bytes; 0: not given */
    const char *diff;   /* likewise NULL */
    const char *golden; /* likewise NULL */
    bool update;
};

/* Each does one option, with the plugin's environment set, and returns the exit
 * status; *err has a text if it failed otherwise than by a difference. */
int stp_explain_why(const struct stp_explain_command *o,
                    const struct stp_explain_options *options,
                    struct stp_error *err);
int stp_explain_diff(const struct stp_explain_command *o,
                     const struct stp_explain_options *options,
                     struct stp_error *err);
int stp_explain_golden(const struct stp_explain_command *o,
                       const struct stp_explain_options *options,
                       struct stp_error *err);

/* Whether the file is a library, and so no policy. */
bool stp_is_plugin(const char *path);

#endif /* STP_CLI_EXPLAIN_H */
