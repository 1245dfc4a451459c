/* options.h - the options of a command as a table, and the parser on top of
 * argp that reads it
 *
 * A row says all there is to know of an option: names, kind, where its value
 * goes, range and default.  Errors are made of it; --help of help.txt, too. */
#pragma once

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"
#include "tune/plan.h"

struct stp_option;
struct stp_given; /* a command line that was read; opaque */

/* A kind: reads 'text' into '*at'.  Returns NULL, or the expectation, in
 * static storage. */
typedef const char *stp_option_kind(const struct stp_option *option,
                                    const char *text, void *at);

stp_option_kind stp_option_flag;    /* bool: takes no argument */
stp_option_kind stp_option_text;    /* const char *: of 'words', if given */
stp_option_kind stp_option_backend; /* the same, of --backend */
stp_option_kind stp_option_count;   /* unsigned; 'max' 0: 1000000 */
stp_option_kind stp_option_number;  /* uint64_t; 'max' 0: any */
stp_option_kind stp_option_size;    /* uint64_t: bytes with K, M or G, from 1 */
stp_option_kind stp_option_double;  /* double; 'max' 0: any */
stp_option_kind stp_option_share;   /* double: "2%" or "0.02", below 10 */
stp_option_kind stp_option_duration; /* unsigned, seconds: 90, 90s, 5m, 2h */
stp_option_kind stp_option_word; /* int: by 'from_name', 'min' to 'max'; else
                                    'min' for the first of 'words' and so on */
stp_option_kind stp_option_coll; /* int: ncclFunc_t */

/* The kind of file or folder at the path that a text option names. */
enum stp_path {
    STP_PATH_NONE,
    STP_PATH_READ,         /* a file, read more than once, that no output may
                              replace; NULL and missing files are legal */
    STP_PATH_WRITE,        /* a file, or a device such as /dev/stdout */
    STP_PATH_WRITE_BESIDE, /* a file that others are written beside */
    STP_PATH_FOLDER,       /* a folder that is made if need be */
};

enum { STP_MAX_WITHOUT = 2 };

/* Conditions under which an option has an effect; names are of options, without
 * "--". An option that is given without effect is refused. */
struct stp_needs {
    const char *with;                     /* is given, too; or NULL */
    const char *without[STP_MAX_WITHOUT]; /* are not; or NULL */
    const char *recorded; /* NULL, or why it has none on a recorded machine */
    /* Where it has none, as "on CPUs"; NULL if it has. */
    const char *(*find_idle)(const struct stp_given *given);
};

struct stp_option {
    const char *name; /* --NAME; NULL ends a table */
    char key;         /* -KEY; 0: none */
    const char *arg;  /* its argument, for --help; NULL: none */
    stp_option_kind *kind;
    size_t at;                /* offset in the struct of the table */
    const char *alias;        /* another --NAME, or NULL */
    const char *value;        /* the default, as a user would give it */
    const char *bare;         /* the value of --NAME alone, for which =ARG may
                                 lack; NULL: it may not */
    int absent;               /* an int that is not given; if 'value' is NULL */
    double min;               /* least value */
    double max;               /* greatest value */
    bool above;               /* 'min' itself is too little */
    const char *const *words; /* NULL behind the last */
    int (*from_name)(const char *word, size_t len); /* -1: no such word */
    const char *expected; /* in an error; NULL: made of the rest */
    enum stp_path path;   /* of a text: checked before the command begins */
    const char *over; /* of STP_PATH_WRITE: what a file that is there, and not
                         empty, must look like (core/looks.h); NULL: anything */
    /* a list of different values, comma-separated: */
    size_t n;          /* offset of its length, an unsigned; 0: no list */
    size_t size;       /* of an entry */
    unsigned least;    /* entries */
    unsigned most;     /* entries */
    bool has_all;      /* "all" is every int from 'min' to 'max' */
    bool repeats;      /* entries may be alike */
    bool is_ascending; /* unsigned numbers, each greater than the one before */
    struct stp_needs needs;
};

/* A table, whose struct is at an offset in that of a command's options. */
struct stp_option_group {
    const struct stp_option *options; /* NULL ends the groups */
    size_t at;
    const char *heading;    /* of --help, or NULL */
    struct stp_needs needs; /* beside those of the options themselves ... */
    const char *of;         /* of these, between spaces; NULL: of all */
};

/* The arguments that are not options. */
struct stp_arguments {
    char **v;
    int n;
};

struct stp_command_line {
    const struct stp_option_group *groups;
    const char *args_doc; /* NULL: no arguments, and the next three unused */
    size_t arguments;     /* offset of a struct stp_arguments */
    const char *one;      /* noun of the only argument; NULL: several */
    const char *none;     /* the error without any; NULL: they may lack */
    bool is_in_order;     /* options end at the first argument */
    bool reads;           /* arguments are STP_PATH_READ */
    /* what the tables do not say: calls stp_usage_error(); or NULL */
    void (*check)(void *options, struct argp_state *state);
};

/* Sets the defaults, then reads options and arguments into '*options', or ends
 * the program as argp does: also if an option has no effect beside the others,
 * or an output has no place or would replace an input. */
void stp_options_read(const struct stp_command_line *line, int argc,
                      char **argv, void *options);

/* Says what is wrong with the command line, and ends the program. */
void stp_usage_error(const struct argp_state *state, const char *fmt, ...)
    STP_PRINTF(2, 3) __attribute__((noreturn));

/* ---- which options were given, for find_idle() ---- */

/* Finds the value of the option 'name' and the number of its entries: 1 unless
 * it is a list, 0 if it was not given and has no default. NULL if the command
 * has no such option. */
const void *stp_given_value(const struct stp_given *given, const char *name,
                            unsigned *n_ret);

/* How many arguments there are that are no options. */
int stp_given_arguments(const struct stp_given *given);

/* Whether --on names a recorded machine. */
bool stp_given_is_recorded(const struct stp_given *given);

/* find_idle() of --channels, beside --arms. */
const char *stp_find_idle_channels(const struct stp_given *given);

/* ---- paths ---- */

enum { STP_PATH_WHY = 256 };

/* Whether 'path' cannot be read or written as its kind says; 'why' then has the
 * reason, to be printed behind the path. */
bool stp_path_is_refused(enum stp_path kind, const char *path,
                         char why[STP_PATH_WHY]);

/* Whether a file is there that is not empty and does not look like 'kind', as
 * core/looks.h has it. */
bool stp_path_is_other(const char *path, const char *kind);

/* Whether both are one file. */
bool stp_path_is_same(const char *a, const char *b);

/* ---- tables that several commands have ---- */

/* --on, --json, --seed, --stalls: where to measure */
struct stp_machine_options {
    const char *on; /* NULL: GPUs */
    bool json;
    uint64_t seed;
    double stalls; /* share of rounds that are disturbed */
};
extern const struct stp_option stp_machine_table[];

/* --on, --json: which recorded machine to play; NULL: the default one. */
extern const struct stp_option stp_recorded_table[];

/* How a real machine runs collectives. */
struct stp_run_options {
    const char *backend;            /* "nccl" or "gloo"; NULL: that of --on */
    unsigned procs[STP_MAX_PASSES]; /* processes of each pass */
    unsigned n_procs;               /* passes; 0: not given */
    unsigned n_threads;             /* of a process; 0: not given */
    unsigned n_gpus;                /* of a thread; 0: not given */
    unsigned graph;                 /* launches of a CUDA graph; 0: none */
    unsigned time_limit_s;          /* of a measurement; 0: none */
};
extern const struct stp_option stp_run_table[];
extern const char *const stp_backends[]; /* the words of its --backend */
#define STP_RUN_HEADING "On a real machine:"

/* Tables that fill struct stp_measure_options and struct
 * stp_workload_options. */
extern const struct stp_option stp_measure_table[];
extern const struct stp_option stp_workload_table[];

/* Which gains become rules, and in which form. */
struct stp_derive_options {
    double min_gain; /* 0.02 is 2 percent */
    bool portable;   /* only the columns of NVIDIA's example tuner */
    int bits;        /* enum stp_bits: SAME, or UNKNOWN for any */
};
extern const struct stp_option stp_derive_table[];
