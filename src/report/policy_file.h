/* policy_file.h - derived rules as a policy file, each with its evidence */
#pragma once

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
    bool same_bits;                          /* as in struct stp_derive_terms */
    bool all_are_wrong;        /* no arm is left that has no wrong elements */
    const char *why_not;       /* nothing was measured; NULL: something was */
    struct stp_range captured; /* as in struct stp_derive_terms; rules were
                                  tried so there */
};

/* Writes "times of h200x4 (NVIDIA H200, NCCL 2.28.9): 36 of 40 interpolated, 4
 * of 40 modelled" and a newline, of workloads "times of iterations on h200x4
 * ...": their sources. */
void stp_times_write(const struct stp_dataset *data, FILE *fp);

/* A sentence on what it means that bits of these data stay those of AUTO. */
#define STP_SAME_BITS_TEXT(data)                                               \
    stp_same_bits_text(data, (char[STP_ERROR_TEXT]){0})
const char *stp_same_bits_text(const struct stp_dataset *data,
                               char text[STP_ERROR_TEXT]);

/* Writes the line that says that bits stay, and that sentence, if they do. */
void stp_same_bits_write(const struct stp_policy_origin *origin, FILE *fp);

/* Writes "4 rounds, ...", without a newline: how steady the machine was. */
void stp_steadiness_write(const struct stp_steadiness *steadiness, FILE *fp);

/* Writes why no rule was derived, without a stop and a newline. */
void stp_no_rule_write(const struct stp_policy_origin *origin, FILE *fp);

/* Writes the rules to the file 'path', whole or not at all, or if that is NULL
 * to standard output: above each the gains it rests on, and above all the run
 * of the measurements if they have one, the policy hash, and the workloads if
 * these are of iterations. */
enum stp_status stp_policy_file_save(const struct stp_derived *derived,
                                     const struct stp_policy_origin *origin,
                                     const char *path, struct stp_error *err);

/* The text of a policy while it is written. */
struct stp_policy_text {
    enum stp_policy_kind kind;
    const char *made_by; /* the first comment line */
    const char *run;     /* of its measurements; "": none */
    FILE *fp;            /* where the rules are to be written */
    char *text;
    size_t len;
};

/* Opens text->fp, on memory; the members above it are set. */
void stp_policy_text_begin(struct stp_policy_text *text);

/* Closes text->fp, and writes what was written there, which is a policy, to the
 * file 'path', whole or not at all, or if that is NULL to standard output,
 * below lines that name what made it, its run and its hash. */
enum stp_status stp_policy_text_end(struct stp_policy_text *text,
                                    const char *path, struct stp_error *err);

/* The run and the hash that a policy file names in its comments. */
struct stp_policy_mark {
    char run[STP_RUN_NAME];          /* "": nothing */
    char hash[STP_POLICY_HASH_NAME]; /* when it was written; "": nothing */
};

/* Reads the mark of the 'len' bytes of a policy file at 'text'. */
void stp_policy_mark_read(const char *text, size_t len,
                          struct stp_policy_mark *mark_ret);

/* The hash of the policy's rules, as the plugin logs it. */
void stp_policy_hash_name(const struct stp_policy *policy,
                          char name[STP_POLICY_HASH_NAME]);

/* Likewise, of the policy in the file 'path'.  As stp_policy_load(). */
enum stp_status stp_policy_file_hash(const char *path,
                                     char hash_ret[STP_POLICY_HASH_NAME],
                                     struct stp_error *err);

enum { STP_POLICY_BACKUP = 4096 + 32 };

/* Behind a policy's path: how it was verified, and what was measured for it. */
#define STP_POLICY_PROOF_TEXT ".verified.txt"
#define STP_POLICY_PROOF_CSV  ".verified.csv"

/* Tells of a path and its backup. */
#define STP_POLICY_KEPT "the policy that was in %s is kept as %s"

/* Gives the file 'path', if there is one, a second name, under which it stays
 * when another takes its place: PATH.~1~, or with the next number that is free.
 * Its proofs are renamed likewise.  'backup_ret' becomes that name, or "".
 * STP_ERR_IO, and no second name, where the folder does not let it have one. */
enum stp_status stp_policy_back_up(const char *path,
                                   char backup_ret[STP_POLICY_BACKUP],
                                   struct stp_error *err);
