/*
 * policy_file.h - derived rules as a policy file, each with its evidence
 */
#ifndef STP_POLICY_FILE_H
#define STP_POLICY_FILE_H

#include "analyse/derive.h"
#include "analyse/steadiness.h"

struct stp_policy_origin {
    const struct stp_dataset *data; /* the measurements, of one
                                       objective (analyse/objective.h) */
    const char *made_by;            /* the first comment line */
    double min_gain;
    bool portable; /* NVIDIA's eight columns only: no header, no gpu column, and
                      numbers alone */
    bool trusts_passes;                      /* as in struct stp_derive_terms */
    const struct stp_steadiness *steadiness; /* NULL: left out */
};

/* Writes "times of h200x4 (NVIDIA H200, NCCL 2.28.9): 36 of 40 interpolated, 4
 * of 40 modelled" and a newline, of workloads "times of iterations on h200x4
 * ...": their sources. */
void stp_times_write(const struct stp_dataset *data, FILE *fp);

/* Writes "4 rounds, ..." and a newline: how steady the machine was. */
void stp_steadiness_write(const struct stp_steadiness *steadiness, FILE *fp);

/* Writes the rules to the file 'path', whole or not at all, or if that is NULL
 * to standard output: above each the gains it rests on, and above all the
 * workloads if these are of iterations. */
enum stp_status stp_policy_file_save(const struct stp_derived *derived,
                                     const struct stp_policy_origin *origin,
                                     const char *path, struct stp_error *err);

enum { STP_POLICY_BACKUP = 4096 + 16 };

/*
 * Gives the file 'path', if there is one, a second name, under which it stays
 * when another takes its place: PATH.~1~, or with the next number that is free.
 * 'backup_ret' becomes that name, or "".  STP_ERR_IO, and no second name, where
 * the folder does not let it have one.
 */
enum stp_status stp_policy_back_up(const char *path,
                                   char backup_ret[STP_POLICY_BACKUP],
                                   struct stp_error *err);

#endif /* STP_POLICY_FILE_H */
