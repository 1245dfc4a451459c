/* staged.h - which collectives of a job were staged, by the reports of its
 * processes' staging library, and the gains by which the rules stand */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/status.h"

/* The collectives of one kind in all processes, each counted by each rank. */
struct stp_staged_calls {
    char key[128]; /* the same in no other row */
    char collective[24], type[24];
    char why[24];                  /* plain ones are; "": none is */
    uint64_t min_bytes, max_bytes; /* as NCCL counts them for a tuner */
    uint64_t n_ctas;               /* minCTAs of the rule; 0: NCCL's own */
    uint64_t n_staged, n_plain;
    uint64_t n_captured; /* of both, into CUDA graphs */
    double gain[2];      /* the least and the greatest of rules; NaN: unknown */
    char source[32];     /* of these gains: "measured" */
};

struct stp_staged {
    struct stp_staged_calls *calls; /* by kind; free() */
    size_t n, capacity;
    size_t n_processes;       /* that wrote a report */
    uint64_t n_staged, n_all; /* collectives of all kinds */
    bool waits;               /* nothing runs beside collectives */
    char aside[400];          /* why a library stepped aside; "": none did */
};

/* Reads the reports PID.csv of the folder 'dir', and the gains that stand as
 * evidence in the stage policy at 'rules'.  STP_ERR_IO, STP_ERR_LIMIT or
 * STP_ERR_NOMEM; *staged_ret is untouched then. */
enum stp_status stp_staged_load(const char *dir, const char *rules,
                                struct stp_staged *staged_ret,
                                struct stp_error *err);

/* A sentence: how many collectives were staged, or why none could be. */
enum { STP_STAGED_TEXT = 512 };
void stp_staged_text(const struct stp_staged *staged,
                     char text[STP_STAGED_TEXT]);

/* Prints that and a row a kind; or adds both to 'root', unless it is NULL, as
 * its member "staged". */
void stp_print_staged(const struct stp_staged *staged, cJSON *root, FILE *fp);
