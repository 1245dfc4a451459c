/*
 * versions.h - what differs between NCCL's versions
 *
 * One row a minor version, read from the source of its last patch release:
 * 2.21.5, 2.22.3, 2.23.4, 2.24.3, 2.25.1, 2.26.6, 2.27.7, 2.28.9, 2.29.7,
 * 2.30.7, and of the development branch after it (commit 1fc949c5).
 */
#ifndef MOCK_VERSIONS_H
#define MOCK_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "versions/model_rules.h"

/* What a loader has to say, and when. */
enum mock_line_kind {
    MOCK_LINE_SET,        /* NCCL_TUNER_PLUGIN holds something */
    MOCK_LINE_DLOPEN,     /* dlopen failed */
    MOCK_LINE_NOT_FOUND,  /* ... because there is no such file */
    MOCK_LINE_NOT_LOADED, /* ... for another reason */
    MOCK_LINE_OPENED,     /* a library that a variable names is open */
    MOCK_LINE_ONE_FAILED, /* the end of all attempts, of which there were two */
    MOCK_LINE_ALL_FAILED, /* the end of more attempts */
    MOCK_LINE_MISSING,    /* no library, and some were not found */
    MOCK_LINE_NO_LIBRARY, /* no library */
    MOCK_LINE_DLSYM,      /* dlsym failed */
    MOCK_LINE_NO_SYMBOL,  /* the library is not of this tuner version */
    MOCK_LINE_NO_TUNER,   /* nor of the oldest */
    MOCK_LINE_USING,      /* the library is of this tuner version */
    MOCK_LINE_LOADED,     /* and that is all; not of a net plugin */
    MOCK_LINE_UNSUPPORTED, /* no tuner in it; not of a net plugin */
    MOCK_LINE_CLOSING,
    MOCK_N_LINES
};

/*
 * One line of NCCL's log, with <words> to fill in: <name> of the library, tuner
 * or symbol, <why> as dlerror() has it, <names> of
 * several libraries, <version> of the tuner.  NULL where nothing is said.
 */
struct mock_line {
    unsigned long flags;
    const char *text;
};

/* Where a plugin is looked for if its own library does not open. */
enum mock_net_rule {
    MOCK_NET_BY_NAME, /* as NCCL_NET_PLUGIN names it, or libnccl-net.so */
    MOCK_NET_SHARED,  /* the net plugin that is open, which is closed, too,
                         when the tuner is */
    MOCK_NET_AGAIN,   /* the net plugin that is open, opened once more */
    MOCK_NET_NEVER,
};

/* How a plugin is found, opened and closed. */
struct mock_loader_rules {
    const char *prefix; /* libnccl-tuner */
    struct mock_line lines[MOCK_N_LINES];
    int mode;         /* of dlopen: RTLD_LAZY or RTLD_NOW */
    size_t name_size; /* NCCL's buffer, which cuts longer names */
    enum mock_net_rule net;
    bool has_static_plugin; /* STATIC_PLUGIN is the program itself */
    bool has_none_keyword;  /* "none" is no library */
    bool reports_empty;     /* an empty NCCL_TUNER_PLUGIN is reported */
    bool extends_files;     /* <prefix>-X.so is tried even if X is a path
                               or a file's name */
    bool keeps_last_name;   /* <names> is only the last one */
    bool keeps_unsupported; /* a library without a tuner stays open */
    bool counts_all;        /* every communicator's end counts, and the end of
                               the last is the end of tuners in the process */
};

/* What becomes of a process whose profiler's init has failed. */
enum mock_profiler_failure {
    MOCK_PROFILER_UNLOADED, /* the job continues without it */
    MOCK_PROFILER_KEPT,     /* it is told all, with the context that it left */
    MOCK_PROFILER_RELEASED, /* NCCL counts it as done with, as at the end */
};

/* How profilers are treated; the versions of theirs before 4 are not known. */
struct mock_profiler_rules {
    struct mock_loader_rules loader;
    int newest;
    enum mock_profiler_failure failure;
    bool needs_group; /* no Coll without a handle for its Group */
    bool lists_mask;  /* a line on the activation mask after each init */
};

/* How NCCL chooses from the cost table. */
enum mock_selection {
    MOCK_SELECT_PAIR,  /* no table: what a v2 tuner names; else as the next */
    MOCK_SELECT_FIRST, /* the first smallest that is not below zero */
    MOCK_SELECT_VALID, /* the last smallest of what NCCL could do itself */
};

/* What a tuner's channel count does. */
enum mock_channel_rule {
    MOCK_CHANNELS_WHOLE, /* replaces NCCL's */
    MOCK_CHANNELS_FIELD, /* replaces it, cut to a signed 8-bit field */
    MOCK_CHANNELS_LOWER, /* replaces it if it is lower and not negative */
};

/* Which buffers in symmetric windows NCCL has kernels for. */
enum mock_symmetric {
    MOCK_SYMMETRIC_NEVER,
    MOCK_SYMMETRIC_ALONE, /* both, of a collective alone */
    MOCK_SYMMETRIC_BOTH,  /* both */
    MOCK_SYMMETRIC_ONE,   /* both, or one of them for some kernels; what could
                             have such kernels is handled apart */
};

/*
 * The texts are the lines of NCCL's log; NULL where nothing is said.  Their
 * <words>: <function>, <type>, <algorithm> and <protocol> by name, <algo> and
 * <proto> by number, <bytes>, <us>, channels <lo> to <hi>, <NCCL_ALGO> and
 * <NCCL_PROTO> for a sentence on each variable that is set.
 */
struct mock_choice_rules {
    enum mock_selection selection;
    enum mock_channel_rule channels;
    enum mock_symmetric symmetric;
    bool plain_lists;   /* NCCL_ALGO and NCCL_PROTO: see user_choice.h */
    bool symmetric_avg; /* and avg, too */
    bool ignores_symmetric_error; /* failure to ask about such a kernel */
    bool gathers_broadcasts;      /* of several roots, in one AllGatherV */
    bool simulates;               /* ncclGroupSimulateEnd */
    bool groups_by_count;   /* one decision for all of a kind in a group, sorted
                               by kind and count; else by traffic */
    float ceiling;          /* nothing from here up is taken */
    bool drops_edits;       /* init gets zeroes, and its edits are lost */
    bool reports_variables; /* if a variable is set: ncclInvalidUsage */
    bool all_ranks_log;     /* of decisions; else rank 0 */
    const char *nothing;    /* a warning: nothing is left to choose */
    const char *decided;    /* of each decision */
    const char *scheduled;  /* of each collective, when it has its channels */
};

struct mock_version {
    const char *name;
    const struct mock_loader_rules *loader;
    const struct mock_choice_rules *choice;
    const struct mock_model_rules *model;
    const struct mock_profiler_rules *profiler; /* NULL: none of ours */
    int newest_tuner;
    int n_algos;
};

/* By name, "2.28" or "2.28.9"; NULL means 2.28.  Returns NULL for others. */
const struct mock_version *mock_version_find(const char *name);

/* What find knows, for messages. */
#define MOCK_VERSIONS "2.21 to 2.30 and 2.31dev"

#endif /* MOCK_VERSIONS_H */
