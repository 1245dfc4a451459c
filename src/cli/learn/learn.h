/*
 * learn.h - what `steptune learn` is asked for
 */
#ifndef STP_CLI_LEARN_H
#define STP_CLI_LEARN_H

#include "analyse/simulate/simulate.h"
#include "cli/cli.h"

enum { STP_LEARN_CALLS = 32, STP_LEARN_STRATEGIES = 8, STP_LEARN_WORD = 32 };

/* A job in words: "allgather:4M,allreduce:64M", each with the compute before it
 * as ":US" or 'compute_us'.  Returns how many calls there are; 0 with a
 * sentence in 'why' if the words mean nothing. */
size_t stp_parse_job(const char *text, double compute_us,
                     struct mock_job_call calls_ret[STP_LEARN_CALLS],
                     char why[160]);

/* Words of lower-case letters, '-' and '_', comma-separated.  Returns how many
 * there are; 0 if the list is none. */
size_t
stp_parse_strategies(const char *text,
                     char words_ret[STP_LEARN_STRATEGIES][STP_LEARN_WORD]);

#endif /* STP_CLI_LEARN_H */
