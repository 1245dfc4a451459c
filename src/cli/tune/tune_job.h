/* tune_job.h - `steptune tune -- COMMAND`: the user's job is the benchmark */
#pragma once

#include <stdbool.h>

struct stp_tune_job {
    char **argv;        /* the command; NULL behind the last */
    const char *output; /* the policy's file */
    unsigned limit_s;   /* after which the job is stopped; 0: never */
    double until;   /* stops it, too, once arms can gain no more; 0: never */
    unsigned runs;  /* further ones, that are compared; 0: none */
    bool resume;    /* adds to the journal of earlier runs */
    bool portable;  /* a policy with NVIDIA's columns only */
    bool same_bits; /* sums keep the bits of NCCL's own choice */
    bool json;
};

/* Runs the job and writes the policy; returns the exit status. */
int stp_tune_job(const struct stp_tune_job *job);
