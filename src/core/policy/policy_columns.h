/*
 * policy_columns.h - the columns of a policy file and how a field of each is
 * read; only for policy_parse.c and analyse/check/check_text.c
 */
#ifndef STP_POLICY_COLUMNS_H
#define STP_POLICY_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/policy/policy.h"
#include "core/status.h"
#include "core/text.h"

enum {
    STP_N_COLUMNS = 14,
    STP_N_PLAIN_COLUMNS = 10,  /* of a file without a header: the first ones */
    STP_MIN_PLAIN_COLUMNS = 8, /* the last two may be left out */
};

/* A GPU's name, kept once however many rules name it. */
struct stp_gpu_name {
    struct stp_gpu_name *next;
    size_t len;
    char text[];
};

/* One field of one rule. */
struct stp_cell {
    const struct stp_field *field;
    unsigned line;
    struct stp_gpu_name **gpus; /* the policy's names, grown as needed */
    struct stp_error *err;
};

struct stp_column {
    const char *name;
    const char *alias; /* NVIDIA's other spelling; NULL: none */

    /* Puts the field into 'out', the rule's member at 'offset', which holds the
     * default; or refuses it.  The field is not empty. */
    enum stp_status (*read)(const struct stp_column *col,
                            const struct stp_cell *cell, void *out);
    size_t offset;

    const char *expected; /* NULL: the words of names() */
    int (*from_name)(const char *word, size_t len);
    const char *(*names)(void);
    int any, min, max; /* whole numbers: what -1 becomes; the other values */
    bool required;     /* in a header */
};

extern const struct stp_column stp_columns[STP_N_COLUMNS];

/* The column that the field names, or NULL. */
const struct stp_column *stp_column_find(const struct stp_field *field);

/* All names, joined by ", ". */
struct stp_column_names {
    char text[200];
};
const char *stp_column_names(struct stp_column_names *names);

/* Reads the cell into the rule, or refuses it. */
enum stp_status stp_column_read(const struct stp_column *col,
                                const struct stp_cell *cell,
                                struct stp_rule *rule);

/* A field as messages repeat it: short, and in printable ASCII. */
struct stp_shown {
    char text[44];
};
const char *stp_show(const struct stp_field *field, struct stp_shown *shown);

#endif /* STP_POLICY_COLUMNS_H */
