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

/* A rule is a member of a struct, and a function of the version 'v': lists of
 * RULE(type, name, value) make both. */
#define MOCK_MEMBER(type, name, value) type name;

/* How NCCL finds, opens and closes a plugin. */
// clang-format off
#define MOCK_LOADER_RULES(RULE, v) \
    RULE(int, mode, (v) < MOCK_2_26 ? RTLD_LAZY : RTLD_NOW) /* of dlopen */ \
    RULE(size_t, name_size, (v) < MOCK_2_26 ? PATH_MAX : 255) /* of NCCL's buffer, which cuts longer names */ \
    RULE(bool, has_static_plugin, (v) >= MOCK_2_22) /* STATIC_PLUGIN names the program itself */ \
    RULE(bool, has_none_keyword, (v) >= MOCK_2_28) /* "none" disables the search */ \
    RULE(bool, is_list, (v) >= MOCK_2_27) /* NCCL_NET_PLUGIN has several names */ \
    RULE(bool, reports_empty, (v) >= MOCK_2_28) /* an empty NCCL_TUNER_PLUGIN is logged */ \
    RULE(bool, extends_files, (v) <= MOCK_2_26) /* <prefix>-X.so is tried even if X is a path or a file name */ \
    RULE(bool, keeps_last_name, (v) == MOCK_2_26) /* <names> holds only the last name */ \
    RULE(bool, keeps_unsupported, (v) == MOCK_2_26) /* a library without a tuner stays open */ \
    RULE(bool, counts_all, (v) == MOCK_2_21) /* every communicator releases the tuner, the last one for good */
// clang-format on
struct mock_loader_rules {
    const char *prefix; /* libnccl-tuner */
    enum mock_release release;
    const struct mock_line *lines; /* of all versions; the last has no text */
    enum mock_net_rule net;
    MOCK_LOADER_RULES(MOCK_MEMBER, )
};

/* The effect of a profiler's failed init on the process. */
enum mock_profiler_failure {
    MOCK_PROFILER_UNLOADED, /* NCCL continues without the profiler */
    MOCK_PROFILER_KEPT, /* it receives all events, with the context that it set
                         */
    MOCK_PROFILER_RELEASED, /* NCCL releases the profiler as at the end */
};

/* Rules for profilers, from version 4 on; 'newest' is 0 where there is none. */
// clang-format off
#define MOCK_PROFILER_RULES(RULE, v) \
    RULE(int, newest, (v) < MOCK_2_27 ? 0 : (v) == MOCK_2_27 ? 4 : (v) == MOCK_2_28 ? 5 : (v) < MOCK_2_31 ? 6 : 7) \
    RULE(enum mock_profiler_failure, failure, (v) <= MOCK_2_27 ? MOCK_PROFILER_UNLOADED \
         : (v) < MOCK_2_30 ? MOCK_PROFILER_KEPT : MOCK_PROFILER_RELEASED) \
    RULE(bool, needs_group, (v) == MOCK_2_27) /* Coll events need a handle of their Group event */ \
    RULE(bool, lists_mask, (v) >= MOCK_2_29) /* NCCL logs the activation mask after each init */ \
    /* a broadcast has an event of its call, but none of what runs: ncclPrepareTasks() makes its task anew, \
     * without the activation mask */ \
    RULE(bool, omits_broadcasts, (v) >= MOCK_2_29)
// clang-format on
struct mock_profiler_rules {
    struct mock_loader_rules loader;
    MOCK_PROFILER_RULES(MOCK_MEMBER, )
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
// clang-format off
#define MOCK_CHOICE_RULES(RULE, v) \
    RULE(enum mock_selection, selection, (v) == MOCK_2_21 ? MOCK_SELECT_PAIR \
         : (v) < MOCK_2_31 ? MOCK_SELECT_FIRST : MOCK_SELECT_VALID) \
    RULE(enum mock_channel_rule, channels, (v) == MOCK_2_21 ? MOCK_CHANNELS_WHOLE \
         : (v) < MOCK_2_31 ? MOCK_CHANNELS_FIELD : MOCK_CHANNELS_LOWER) \
    RULE(enum mock_symmetric, symmetric, (v) < MOCK_2_27 ? MOCK_SYMMETRIC_NEVER \
         : (v) == MOCK_2_27 ? MOCK_SYMMETRIC_ALONE : (v) == MOCK_2_28 ? MOCK_SYMMETRIC_BOTH \
         : (v) < MOCK_2_31 ? MOCK_SYMMETRIC_ONE : MOCK_SYMMETRIC_ASKED) \
    RULE(enum mock_copies, copies, (v) < MOCK_2_28 ? MOCK_COPIES_NEVER : (v) == MOCK_2_28 ? MOCK_COPIES_BOTH \
         : (v) < MOCK_2_31 ? MOCK_COPIES_INTO : MOCK_COPIES_ASKED) \
    RULE(bool, rearch, (v) >= MOCK_2_31) /* NCCL_ENQUEUE_REARCH_ENABLE is known */ \
    RULE(bool, plain_lists, (v) < MOCK_2_24) /* NCCL_ALGO and NCCL_PROTO: see cost_model.h */ \
    RULE(bool, narrows_named, (v) >= MOCK_2_31) /* they narrow what they name: see there */ \
    RULE(bool, symmetric_avg, (v) >= MOCK_2_30) /* symmetric kernels support avg of a reducescatter */ \
    RULE(bool, symmetric_avg_everywhere, (v) < MOCK_2_32_6) /* and of an allreduce */ \
    RULE(bool, ignores_symmetric_error, (v) >= MOCK_2_30) /* a tuner's error about them is ignored */ \
    RULE(bool, gathers_broadcasts, (v) >= MOCK_2_29) /* those of several roots: one AllGatherV */ \
    /* one decision for all calls of a kind in a group, sorted by kind and count; else by traffic */ \
    RULE(bool, groups_by_count, (v) == MOCK_2_21) \
    RULE(float, ceiling, (v) < MOCK_2_29 ? NO_HOUR : FLT_MAX) /* entries from here up are not selected */ \
    RULE(bool, drops_edits, (v) == MOCK_2_31 || (v) == MOCK_2_32_3) /* a tuner's init edits zeroes, which are lost */ \
    /* without a choice, a set variable makes the error ncclInvalidUsage */ \
    RULE(bool, reports_variables, (v) >= MOCK_2_24) \
    /* warning: no entry is left to select */ \
    RULE(const char *, nothing, (v) < MOCK_2_24 ? "Error : no algorithm/protocol available" \
         : (v) < MOCK_2_30 ? "Error : no algorithm/protocol " AVAILABLE \
         : (v) < MOCK_2_31 ? "No algorithm/protocol " AVAILABLE \
         : "No algorithm/protocol nor symKernelId " AVAILABLE) \
    /* line per decision */ \
    RULE(const char *, decided, (v) < MOCK_2_23 ? "<bytes> Bytes -> Algo <algo> proto <proto> time <us>" \
         : (v) < MOCK_2_24 ? "<function>: <bytes> Bytes -> Algo <algo> proto <proto> time <us>" : NULL) \
    /* line per collective, when it has its channels */ \
    RULE(const char *, scheduled, (v) < MOCK_2_24 ? NULL \
         : "<function>: <bytes> Bytes -> Algo <algorithm> proto <protocol> " "channel{Lo..Hi}={<lo>..<hi>}")
// clang-format on
struct mock_choice_rules {
    MOCK_CHOICE_RULES(MOCK_MEMBER, )
};

/* The lack of precision of fp8 in long rings multiplies these by 1024. */
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
// clang-format off
#define MOCK_MODEL_RULES(RULE, v) \
    /* hardware and settings */ \
    RULE(enum mock_release, release, (v)) /* of which the constants are */ \
    /* NCCL_*_COMPCAP_IDX of the last row of constants */ \
    RULE(int, newest_compcap, (v) < MOCK_2_25 ? NCCL_HOPPER_COMPCAP_IDX : NCCL_BLACKWELL_COMPCAP_IDX) \
    /* compute capabilities on which LL128 is safe, 0 at the end; NULL: from 70 on */ \
    RULE(const int *, ll128_on, (v) < MOCK_2_25 ? ll128_2_21 : (v) < MOCK_2_27 ? ll128_2_25 : NULL) \
    RULE(bool, ll128_unlike, (v) >= MOCK_2_30) /* from 90 on also where compute capabilities differ */ \
    RULE(bool, ll128_c2c, (v) >= MOCK_2_27) /* NCCL_LL128_C2C is known */ \
    RULE(bool, pat, (v) >= MOCK_2_23) \
    RULE(bool, mixed_like_amd, (v) >= MOCK_2_24) /* CPUs of several vendors count as AMD's */ \
    RULE(bool, ring_backup, (v) < MOCK_2_24) /* a setting that forbids all algorithms keeps rings */ \
    RULE(bool, ring_keeps_protocols, (v) == MOCK_2_21) /* so does one that forbids all protocols */ \
    RULE(bool, needs_collnet, (v) < MOCK_2_24) /* NCCL_ALGO is ignored if it leaves CollNet alone */ \
    RULE(bool, nvls_heads, (v) >= MOCK_2_28) /* with NVLS, CollNet has the heads of NVLS */ \
    RULE(bool, heads_for_nvls, (v) >= MOCK_2_27) /* NVLS gathers between nodes if all GPUs are heads */ \
    RULE(bool, nvls_by_network, (v) >= MOCK_2_30) /* the network decides on NVLS channels, too */ \
    RULE(bool, nvls_within_channels, (v) >= MOCK_2_28) /* NVLS between nodes: as many as others, at most */ \
    /* an all-reduce by CollNet, too, needs all GPUs of a node as heads */ \
    RULE(bool, collnet_on_heads, (v) >= MOCK_2_31) \
    RULE(bool, ring_threads, (v) >= MOCK_2_31) /* slow rings have as many threads as others */ \
    RULE(bool, pat_by_nvls_channels, (v) >= MOCK_2_32_6) /* PAT by NVLS has all channels of NVLS */ \
    RULE(bool, pat_threads, (v) >= MOCK_2_32_6) /* threads of PAT justify its channels */ \
    RULE(bool, chain_on_heads, (v) >= MOCK_2_30) /* CollNet Chain needs the heads of CollNet */ \
    /* bandwidths */ \
    RULE(enum mock_nvls_model, nvls, (v) < MOCK_2_27 ? MOCK_NVLS_SLOWEST : (v) == MOCK_2_27 ? MOCK_NVLS_GATHERS \
         : MOCK_NVLS_EFFICIENCY) \
    /* share that LL128 reaches with one rank per node */ \
    RULE(double, ring_ll128_alone, (v) < MOCK_2_23 ? .7 : .92) \
    RULE(double, pat_share, (v) == MOCK_2_23 ? .85 : .75) /* share that PAT reaches */ \
    /* PAT, and on Blackwell trees, have the bandwidth of the slower links, and rings of Blackwell between two \
     * nodes that of the network */ \
    RULE(bool, slower_links, (v) >= MOCK_2_31) \
    RULE(bool, ratio_last, (v) >= MOCK_2_31) /* rings: times ranks, then over steps (the rounding) */ \
    RULE(bool, pat_by_nvls, (v) >= MOCK_2_31) /* PAT of several ranks a node, by NVLS, as the last resort */ \
    RULE(bool, pat_averages, (v) >= MOCK_2_31) /* PAT scatters averages and scaled sums */ \
    RULE(bool, scales_nvls_gathers, (v) < MOCK_2_23) /* NVLS gathers are scaled like reductions */ \
    /* gathers by CollNet Direct are slower with more ranks per node; else as fast as the network allows */ \
    RULE(bool, direct_by_ranks, (v) < MOCK_2_27) \
    /* the powers of two from 64 B up for which NVLS_TREE is corrected as Tree is, on Blackwell with an x86 CPU; \
     * and with an ARM CPU, 4 GPUs a node and a fast network between two nodes; 0: not, nor between more */ \
    RULE(int, n_nvls_tree_corrections, (v) < MOCK_2_29 ? 0 : NVLS_TREE_CORRECTIONS) \
    RULE(int, n_nvls_tree_on_arm, (v) < MOCK_2_31 ? 0 : (v) == MOCK_2_31 ? NVLS_TREE_CORRECTIONS - 1 : 20) \
    RULE(bool, corrects_tiny, (v) == MOCK_2_21) /* Tree below 64 B has the correction of 64 B */ \
    /* latencies */ \
    RULE(bool, alone_like_tree, (v) >= MOCK_2_23) /* rings with one rank per node have the tree's latency */ \
    RULE(bool, all_like_tree, (v) >= MOCK_2_23 && (v) < MOCK_2_31) /* so do all others */ \
    /* gathers by rings of Blackwell's NVLink have the plateau of all-reduces between nodes; so do its all-reduces, \
     * and the plateau there is lower with few steps and many bytes */ \
    RULE(bool, plateau_on_node, (v) >= MOCK_2_31) \
    RULE(bool, plateau_by_steps, (v) >= MOCK_2_32_3) \
    RULE(bool, pat_flushes, (v) < MOCK_2_31) /* PAT waits twice for the network */ \
    RULE(bool, crosses_twice, (v) < MOCK_2_23) /* a ring's all-reduce crosses twice a node, not twice a node but one */ \
    RULE(bool, pat_base_first, (v) < MOCK_2_28) /* the base latency is added first (the rounding) */ \
    RULE(int, batch, (v) == MOCK_2_21 ? 9 : (v) == MOCK_2_22 ? 16 : (v) < MOCK_2_30 ? 10 : 8) /* that share a latency */ \
    RULE(enum mock_fp8_penalty, fp8, (v) < MOCK_2_24 ? MOCK_FP8_FREE : (v) < MOCK_2_31 ? MOCK_FP8_ENTRIES \
         : (v) < MOCK_2_32_6 ? MOCK_FP8_TIMES : MOCK_FP8_BYTES) \
    /* entries that are ruled out for a collective; 0 ranks: no limit */ \
    RULE(bool, allgather_by_type, (v) == MOCK_2_21) /* NVLS is ruled out by the type, always int8 */ \
    RULE(bool, nvls_gathers_one_node, (v) < MOCK_2_27) \
    RULE(int, max_nvls_gather_ranks, (v) < MOCK_2_25 ? 0 : MAX_NVLS_RANKS) /* per node */ \
    RULE(int, max_collnet_ranks, (v) < MOCK_2_23 ? MAX_COLLNET_RANKS : 0) /* per node, for CollNet of any kind */ \
    RULE(int, max_direct_ranks, (v) < MOCK_2_23 ? 0 : MAX_COLLNET_RANKS) /* per node */ \
    RULE(int, max_chain_ranks, (v) < MOCK_2_28 ? 0 : MAX_COLLNET_RANKS) /* per node */ \
    /* kernels for symmetric windows */ \
    RULE(bool, symmetric_even, (v) >= MOCK_2_31) /* one block or an even number; the last of equals wins */ \
    RULE(bool, symmetric_scatters, (v) >= MOCK_2_31) /* reducescatters have times of their own on Blackwell */ \
    RULE(bool, symmetric_tma, (v) >= MOCK_2_31) /* some move data by TMA on Blackwell */ \
    /* channels */ \
    RULE(int, max_channels, (v) < MOCK_2_25 ? 32 : 64) /* of a communicator */ \
    RULE(bool, fine_cells, (v) < MOCK_2_23) /* channels receive 16 bytes at a time, not min_traffic */ \
    RULE(bool, weighs_ll, (v) >= MOCK_2_26) /* the traffic of LL is multiplied by four */ \
    RULE(bool, fills_channels, (v) >= MOCK_2_29) /* all, even if one receives less than min_traffic */ \
    RULE(bool, accepts_negative, (v) >= MOCK_2_22 && (v) < MOCK_2_29) /* counts below 0 work; others divide by 0 */ \
    /* bytes over the links that justify a channel */ \
    RULE(size_t, min_traffic, (v) < MOCK_2_23 ? 512 : (v) < MOCK_2_29 ? 16 << 10 : 32 << 10)
// clang-format on
struct mock_model_rules {
    MOCK_MODEL_RULES(MOCK_MEMBER, )
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
