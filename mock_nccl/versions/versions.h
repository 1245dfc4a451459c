/* versions.h - the differences between NCCL's versions
 *
 * One row per minor version, read from the source of its last patch release:
 * 2.21.5, 2.22.3, 2.23.4, 2.24.3, 2.25.1, 2.26.6, 2.27.7, 2.28.9, 2.29.7,
 * 2.30.7 and 2.31.2.  2.32 has two rows, 2.32.3 and 2.32.6. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The supported versions, oldest first. */
enum mock_release {
    MOCK_2_21,
    MOCK_2_22,
    MOCK_2_23,
    MOCK_2_24,
    MOCK_2_25,
    MOCK_2_26,
    MOCK_2_27,
    MOCK_2_28,
    MOCK_2_29,
    MOCK_2_30,
    MOCK_2_31,
    MOCK_2_32_3,
    MOCK_2_32_6,
    MOCK_N_RELEASES
};

/* The log lines of a plugin loader, by event. */
enum mock_line_kind {
    MOCK_LINE_SET,          /* NCCL_TUNER_PLUGIN is not empty */
    MOCK_LINE_DLOPEN,       /* dlopen failed, for any reason */
    MOCK_LINE_NOT_FOUND,    /* dlopen failed: no such file */
    MOCK_LINE_NOT_LOADED,   /* dlopen failed for another reason */
    MOCK_LINE_OPENED,       /* the library of a variable is open */
    MOCK_LINE_ONE_FAILED,   /* both attempts failed */
    MOCK_LINE_ALL_FAILED,   /* all of more than two attempts failed */
    MOCK_LINE_MISSING,      /* no library opened, and some were not found */
    MOCK_LINE_NO_LIBRARY,   /* no library opened */
    MOCK_LINE_DLSYM,        /* dlsym failed */
    MOCK_LINE_NO_NEWEST,    /* nor a net plugin of the newest version */
    MOCK_LINE_NO_SYMBOL,    /* the library has no tuner of this version */
    MOCK_LINE_NO_TUNER,     /* nor one of the oldest version */
    MOCK_LINE_USING_NEWEST, /* a net plugin of the newest version */
    MOCK_LINE_USING,        /* the library has a tuner of this version */
    MOCK_LINE_LOADED,       /* the plugin is loaded; not for a net plugin */
    MOCK_LINE_UNSUPPORTED,  /* the library has no tuner; not for a net plugin */
    MOCK_LINE_CLOSING,
};

/* One line of NCCL's log, of the versions from 'first' to 'last'. Its <words>:
 * <name> of the library, tuner or symbol, <why> from dlerror(), <names> of
 * several libraries, <version> of the tuner. */
struct mock_line {
    enum mock_line_kind kind;
    enum mock_release first;
    enum mock_release last;
    unsigned long flags;
    const char *text;
};

/* The library that NCCL searches for a plugin if the plugin's own library does
 * not open; net plugins are opened before. */
enum mock_net_rule {
    MOCK_NET_BY_NAME, /* the library of NCCL_NET_PLUGIN, or libnccl-net.so */
    MOCK_NET_SHARED,  /* the open net plugin, closed together with the tuner */
    MOCK_NET_AGAIN,   /* the open net plugin, opened once more */
    MOCK_NET_NEVER,
};

/* How NCCL finds, opens and closes a plugin. */
struct mock_loader_rules {
    const char *prefix; /* libnccl-tuner */
    enum mock_release release;
    const struct mock_line *lines; /* of all versions; the last has no text */
    int mode;                      /* mode of dlopen: RTLD_LAZY or RTLD_NOW */
    size_t name_size; /* size of NCCL's buffer, which cuts longer names */
    enum mock_net_rule net;
    bool has_static_plugin; /* STATIC_PLUGIN names the program itself */
    bool has_none_keyword;  /* "none" disables the search */
    bool is_list;           /* NCCL_NET_PLUGIN has several names */
    bool reports_empty;     /* an empty NCCL_TUNER_PLUGIN is logged */
    bool extends_files; /* <prefix>-X.so is tried even if X is a path or file */
    bool keeps_last_name;   /* <names> holds only the last name */
    bool keeps_unsupported; /* a library without a tuner stays open */
    bool counts_all; /* every communicator releases the tuner, the last for good
                      */
};

/* The effect of a profiler's failed init on the process. */
enum mock_profiler_failure {
    MOCK_PROFILER_UNLOADED, /* NCCL continues without the profiler */
    MOCK_PROFILER_KEPT, /* it receives all events, with the context that it set
                         */
    MOCK_PROFILER_RELEASED, /* NCCL releases the profiler as at the end */
};

/* Rules for profilers, from version 4 on. */
struct mock_profiler_rules {
    struct mock_loader_rules loader;
    int newest; /* 0: no profiler is supported */
    enum mock_profiler_failure failure;
    bool needs_group; /* Coll events need a handle of their Group event */
    bool lists_mask;  /* NCCL logs the activation mask after each init */
    /* a broadcast has an event of its call, but none of what runs:
     * ncclPrepareTasks() makes its task anew, without the activation mask */
    bool omits_broadcasts;
};

/* How NCCL selects an entry of the cost table. */
enum mock_selection {
    MOCK_SELECT_PAIR,  /* the pair of a v2 tuner, which receives no table; else
                          as MOCK_SELECT_FIRST */
    MOCK_SELECT_FIRST, /* the first smallest entry that is not below zero */
    MOCK_SELECT_VALID, /* the last smallest entry that NCCL supports */
};

/* The effect of a tuner's channel count. */
enum mock_channel_rule {
    MOCK_CHANNELS_WHOLE, /* it replaces NCCL's */
    MOCK_CHANNELS_FIELD, /* it replaces NCCL's, cut to a signed 8-bit field */
    MOCK_CHANNELS_LOWER, /* it replaces NCCL's if it is lower, but above 0 */
};

/* The symmetric windows for which NCCL has kernels. */
enum mock_symmetric {
    MOCK_SYMMETRIC_NEVER,
    MOCK_SYMMETRIC_ALONE, /* both buffers, for a collective alone */
    MOCK_SYMMETRIC_BOTH,  /* both buffers */
    MOCK_SYMMETRIC_ONE,   /* both buffers, or one of them for some kernels;
                             collectives that qualify are handled separately */
    MOCK_SYMMETRIC_ASKED, /* likewise, and tuners are asked about each */
};

/* The allgathers that copy engines run. */
enum mock_copies {
    MOCK_COPIES_NEVER,
    MOCK_COPIES_BOTH,  /* both buffers in windows */
    MOCK_COPIES_INTO,  /* into a window; large ones unasked */
    MOCK_COPIES_ASKED, /* likewise, and tuners are asked about each */
};

/* The texts are lines of NCCL's log; NULL if the version logs nothing. Their
 * <words>: <function>, <type>, <algorithm> and <protocol> by name, <algo> and
 * <proto> by number, <bytes>, <us>, channels <lo> to <hi>, <NCCL_ALGO> and
 * <NCCL_PROTO> for a sentence on each variable that is set. */
struct mock_choice_rules {
    enum mock_selection selection;
    enum mock_channel_rule channels;
    enum mock_symmetric symmetric;
    enum mock_copies copies;
    bool rearch;        /* NCCL_ENQUEUE_REARCH_ENABLE is known */
    bool plain_lists;   /* NCCL_ALGO and NCCL_PROTO: see cost_model.h */
    bool narrows_named; /* they narrow what they name: see there */
    bool symmetric_avg; /* symmetric kernels support avg of a reducescatter */
    bool symmetric_avg_everywhere; /* and of an allreduce */
    bool ignores_symmetric_error;  /* a tuner's error about them is ignored */
    bool gathers_broadcasts;       /* those of several roots: one AllGatherV */
    bool groups_by_count;   /* one decision for all calls of a kind in a group,
                               sorted by kind and count; else by traffic */
    float ceiling;          /* entries from here up are not selected */
    bool drops_edits;       /* a tuner's init edits zeroes, which are lost */
    bool reports_variables; /* without a choice, a set variable makes the error
                               ncclInvalidUsage */
    const char *nothing;    /* warning: no entry is left to select */
    const char *decided;    /* line per decision */
    const char *scheduled;  /* line per collective, when it has its channels */
};

/* The lack of precision of fp8 in long rings is charged on these. */
enum mock_fp8_penalty {
    MOCK_FP8_FREE,
    MOCK_FP8_ENTRIES, /* all entries of rings, those ruled out too */
    MOCK_FP8_TIMES,   /* the times of rings */
    MOCK_FP8_BYTES,   /* the part of the times that grows with the bytes */
};

/* The share of the links' bandwidth that NVLS and NVLS_TREE reach. */
enum mock_nvls_model {
    MOCK_NVLS_SLOWEST,    /* the bandwidth of the slower links */
    MOCK_NVLS_GATHERS,    /* the same, but less for gathers */
    MOCK_NVLS_EFFICIENCY, /* a share by GPU, channels and collective */
};

/* The cost model and the channel assignment of a version, read from
 * src/graph/tuning.cc, and from updateCollCostTable() (2.21:
 * topoGetAlgoInfo()) and the scheduler in src/enqueue.cc. */
struct mock_model_rules {
    /* hardware and settings */
    enum mock_release release; /* of which the constants are */
    int newest_compcap;  /* NCCL_*_COMPCAP_IDX of the last row of constants */
    const int *ll128_on; /* compute capabilities on which LL128 is safe, 0 at
                            the end; NULL: from 70 on */
    bool ll128_unlike;   /* from 90 on also where compute capabilities differ */
    bool ll128_c2c;      /* NCCL_LL128_C2C is known */
    bool pat;
    bool mixed_like_amd; /* CPUs of several vendors count as AMD's */
    bool ring_backup;    /* a setting that forbids all algorithms keeps rings */
    bool ring_keeps_protocols; /* so does one that forbids all protocols */
    bool needs_collnet;   /* NCCL_ALGO is ignored if it leaves CollNet alone */
    bool nvls_heads;      /* with NVLS, CollNet has the heads of NVLS */
    bool heads_for_nvls;  /* NVLS gathers between nodes if all GPUs are heads */
    bool nvls_by_network; /* the network decides on NVLS channels, too */
    bool nvls_within_channels; /* NVLS between nodes: as many as others, at most
                                */
    /* an all-reduce by CollNet, too, needs all GPUs of a node as heads */
    bool collnet_on_heads;
    bool ring_threads;         /* slow rings have as many threads as others */
    bool pat_by_nvls_channels; /* PAT by NVLS has all channels of NVLS */
    bool pat_threads;          /* threads of PAT justify its channels */
    bool chain_on_heads;       /* CollNet Chain needs the heads of CollNet */

    /* bandwidths */
    enum mock_nvls_model nvls;
    /* share that LL128 reaches with one rank per node */
    double ring_ll128_alone;
    double pat_share; /* share that PAT reaches */
    /* PAT, and on Blackwell trees, have the bandwidth of the slower links, and
     * rings of Blackwell between two nodes that of the network */
    bool slower_links;
    bool ratio_last;   /* rings: times ranks, then over steps (the rounding) */
    bool pat_by_nvls;  /* PAT of several ranks a node, by NVLS, as the last
                          resort */
    bool pat_averages; /* PAT scatters averages and scaled sums */
    bool scales_nvls_gathers; /* NVLS gathers are scaled like reductions */
    /* gathers by CollNet Direct are slower with more ranks per node; else as
     * fast as the network allows */
    bool direct_by_ranks;
    /* the powers of two from 64 B up for which NVLS_TREE is corrected as Tree
     * is, on Blackwell with an x86 CPU; and with an ARM CPU, 4 GPUs a node and
     * a fast network between two nodes; 0: not, nor between more */
    int n_nvls_tree_corrections;
    int n_nvls_tree_on_arm;
    bool corrects_tiny; /* Tree below 64 B has the correction of 64 B */

    /* latencies */
    bool alone_like_tree; /* rings of one rank a node have the tree's */
    bool all_like_tree;   /* so do all others */
    /* gathers by rings of Blackwell's NVLink have the plateau of all-reduces
     * between nodes; so do its all-reduces, and the plateau there is lower with
     * few steps and many bytes */
    bool plateau_on_node;
    bool plateau_by_steps;
    bool pat_flushes;    /* PAT waits twice for the network */
    bool crosses_twice;  /* all-reduces cross to the last node, too, twice */
    bool pat_base_first; /* the base latency is added first (the rounding) */
    int batch; /* number of collectives that share a latency, except on rings */
    enum mock_fp8_penalty fp8; /* times 1024 */

    /* entries that are ruled out for a collective; 0 ranks: no limit */
    bool allgather_by_type; /* NVLS is ruled out by the type, always int8 */
    bool nvls_gathers_one_node;
    int max_nvls_gather_ranks; /* per node */
    int max_collnet_ranks;     /* per node, for CollNet of any kind */
    int max_direct_ranks;      /* per node */
    int max_chain_ranks;       /* per node */

    /* kernels for symmetric windows */
    bool symmetric_even; /* one block or an even number; the last of equals wins
                          */
    bool symmetric_scatters; /* reducescatters have times on Blackwell */
    bool symmetric_tma;      /* some move data by TMA on Blackwell */

    /* channels */
    int max_channels; /* of a communicator */
    bool fine_cells;  /* channels receive 16 bytes at a time, not min_traffic */
    bool weighs_ll;   /* the traffic of LL is multiplied by four */
    bool fills_channels;   /* all, even if one receives less than min_traffic */
    bool accepts_negative; /* counts below 0 work; others divide by 0 */
    size_t min_traffic;    /* bytes over the links that justify a channel */
};

struct mock_version {
    const char *name;
    struct mock_loader_rules loader;
    struct mock_choice_rules choice;
    struct mock_model_rules model;
    struct mock_profiler_rules profiler;
    struct mock_loader_rules net;
    int newest_net; /* plugin that it takes, and the oldest one */
    int oldest_net;
    int newest_tuner;
    int n_algos;
};

/* The line that the version logs; NULL for none. */
const struct mock_line *mock_line_find(const struct mock_loader_rules *rules,
                                       enum mock_line_kind kind);

/* The version of a name, "2.28" or "2.28.9"; NULL means 2.28. Versions newer
 * than the newest are the newest. Returns NULL for unknown names. */
const struct mock_version *mock_version_find(const char *name);

/* The supported versions, for error messages. */
#define MOCK_VERSIONS "2.21 to 2.32"
