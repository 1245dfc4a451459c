/* policy_columns.h - the columns of policy files and how a field of each is
 * read; only for policy_parse.c and analyse/check */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/policy/policy.h"
#include "core/status.h"
#include "core/text.h"

enum { STP_N_COLUMNS = 19 };

/* Differences between the kinds of policy, beside their columns. */
struct stp_policy_format {
    enum stp_policy_kind kind;
    const char *is_for; /* and the columns that a header needs, for messages */
    const char *least;
    size_t max_plain; /* fields of a file without a header: the first columns;
                         0: there must be a header */
    size_t min_plain; /* the last ones may be left out */
};

extern const struct stp_policy_format stp_policy_formats[STP_N_POLICY_KINDS];

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
    unsigned kinds;    /* of policies that have it: 1 << enum stp_policy_kind */
};

extern const struct stp_column stp_columns[STP_N_COLUMNS];

/* Whether such policies have the column. */
bool stp_column_is_of(const struct stp_column *col, enum stp_policy_kind kind);

/* The column that the field names, or NULL. */
const struct stp_column *stp_column_find(enum stp_policy_kind kind,
                                         const struct stp_field *field);

/* All names, joined by ", ". */
struct stp_column_names {
    char text[200];
};
const char *stp_column_names(enum stp_policy_kind kind,
                             struct stp_column_names *names);

/* Reads the cell into the rule, or refuses it. */
enum stp_status stp_column_read(const struct stp_column *col,
                                const struct stp_cell *cell,
                                struct stp_rule *rule);

/* A field as messages repeat it: short, and in printable ASCII. */
struct stp_shown {
    char text[44];
};
const char *stp_show(const struct stp_field *field, struct stp_shown *shown);
