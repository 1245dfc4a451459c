/* mock_nccl.h - NCCL's side of the tuner interface, without GPUs
 *
 * Loads a tuner plugin as NCCL loads it, passes it the cost table that NCCL
 * would compute on a given machine, applies NCCL's selection and channel rules
 * to the edited table, and returns the recorded time of the collective on that
 * machine. It shares no code with the plugins, and so none of their mistakes.
 *
 * The contract is the behaviour of NCCL's source: of the last patch release of
 * the requested version (versions.h), by default of 2.28.9. But channels of
 * 2.21 are assigned as in 2.22, and those of large groups from 2.31 on as in
 * 2.30. 2.32 has 2.31's symmetric kernels; omitted are its Rubin, rings and
 * trees among these (NCCL_SYM_GENK_ENABLE), symmetric kernels between nodes,
 * ncclCollConfig_t, and log lines with addresses, about what tuners do not see,
 * and 2.31's "Best tuning". A machine's graphs and channel counts serve all
 * versions, though older ones may have searched differently.
 *
 * A function that can fail returns an ncclResult_t; mock_last_error() of the
 * calling thread then holds the reason. Sizes are bytes, times microseconds,
 * bandwidths GB/s (1e9). */
#ifndef MOCK_NCCL_H
#define MOCK_NCCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl_tuner_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Describes the last failure in this thread; "" if there was none. */
const char *mock_last_error(void);

/* ---- machines ---- */

struct mock_machine; /* opaque */

enum { MOCK_MAX_RANKS = 1000000 };

/* The content of machine.csv, steptune-machine(5). Counts that it lacks follow
 * from the search graphs; those in it take precedence, because settings such as
 * NCCL_MIN_NCHANNELS and CollNet change them. */
struct mock_machine_info {
    char name[64];          /* the folder's name */
    char gpu[64];           /* the driver's name of it, e.g. "NVIDIA H200" */
    int compute_capability; /* 80, 90, 100; the lowest of all GPUs */
    int max_compute_capability; /* 0, or the highest of GPUs that differ */
    int n_ranks;                /* of all nodes */
    int n_gpus;                 /* that ranks share, fewer than these (MPS, or
                                   NCCL_MULTI_RANK_GPU_ENABLE=1); 0: each rank has
                                   its own */
    int n_nodes;         /* 1 or more, with the same number of ranks each */
    char cpu_vendor[16]; /* intel, amd, arm, mixed or unknown */
    int n_channels; /* comm->nChannels: "coll channels" in NCCL's log, twice the
                       search channels */
    int n_nvls_channels; /* 0 if NVLS is off */
    char nccl[16];       /* the version recorded, e.g. "2.28.9" */
    bool resized;        /* see mock_machine_resize() */
    bool assumes_tree;   /* graphs.xml has rings alone, and trees are assumed to
                            have their channels, links and bandwidth */
    char calibration[160]; /* calibration.csv's source, "" without one */
};

/* Reads the folder 'path': machine.csv and graphs.xml, and timings.csv,
 * overlap.csv and calibration.csv if they exist. Fills *machine_ret, to be
 * freed with mock_machine_free(), or leaves it untouched; the error names the
 * file and line. */
ncclResult_t mock_machine_load(const char *path,
                               struct mock_machine **machine_ret);
void mock_machine_free(struct mock_machine *machine);

/* Derives a machine with another number of GPUs, 1 to MOCK_MAX_RANKS: one node
 * as long as they fit into it, else as many full nodes as needed. One node
 * without a network cannot become several, but its NVLink can have up to 8
 * GPUs. NCCL would repeat its graph search; here the graphs stay, without NVLS
 * channels that no GPU would head, and channel counts are derived again if NCCL
 * derived them. All times are modelled, and wrong where fewer GPUs would have
 * faster links: 3 or 2 of 4 x H200 have trees of 40 or 60 GB/s, not 30. The new
 * machine does not refer to 'machine'. */
ncclResult_t mock_machine_resize(const struct mock_machine *machine,
                                 int n_ranks,
                                 struct mock_machine **resized_ret);
const struct mock_machine_info *
mock_machine_get_info(const struct mock_machine *machine);

/* True if the folder has recorded times; else all times are modelled. */
bool mock_machine_has_timings(const struct mock_machine *machine);

/* Copies at most 'max' of the sizes at which interleaved rounds of a collective
 * were recorded, launched one by one or in CUDA graphs, in ascending order.
 * Returns how many there are. */
size_t mock_machine_sizes(const struct mock_machine *machine, ncclFunc_t coll,
                          bool graph, size_t *sizes, size_t max);

/* The number of interleaved rounds that all those sizes of all collectives
 * share; 0 if there are none. */
unsigned mock_machine_rounds(const struct mock_machine *machine, bool graph);

/* ---- time ---- */

enum mock_time_source {
    MOCK_TIME_RECORDED,     /* measured at exactly this size */
    MOCK_TIME_INTERPOLATED, /* log-log between recorded sizes or channels */
    MOCK_TIME_VIRTUAL,      /* of a machine that was recorded on a machine in
                               virtual time */
    MOCK_TIME_MODELLED, /* from NCCL's cost model, or outside the recorded range
                         */
};

/* How collectives of registered or staged buffers may run, beside NCCL's
 * algorithms: numbers of mock_run.algo, with protocol and channels of 0. Their
 * times can be recorded, but are not modelled. */
enum mock_way {
    MOCK_WAY_REG = NCCL_NUM_ALGORITHMS, /* ncclCommRegister() */
    MOCK_WAY_SYM,    /* windows: symmetric kernels, where NCCL has them */
    MOCK_WAY_CE,     /* the same with CTA policy ZERO: copy engines */
    MOCK_WAY_SYM_16, /* as MOCK_WAY_SYM, in a communicator with minCTAs 16 */
    MOCK_WAY_SYM_32, /* and 32, both with maxCTAs 64 */
    MOCK_WAY_STAGE,  /* as MOCK_WAY_SYM, with a copy of plain buffers into
                        windows before, and one out of them after */
    MOCK_WAY_STAGE_16,
    MOCK_WAY_STAGE_32,
    MOCK_NUM_WAYS,
};

/* Whether times of the way were recorded for a collective, so launched. */
bool mock_machine_has_way(const struct mock_machine *machine, ncclFunc_t coll,
                          enum mock_way way, bool graph);

/* A collective as it ran. */
struct mock_run {
    ncclFunc_t coll;
    size_t n_bytes; /* as getCollInfo counts them */
    int algo;       /* NCCL_ALGO_*, or enum mock_way */
    int proto;
    int n_channels; /* a tuner's request; 0 for NCCL's own count */
    bool graph;     /* in a CUDA graph; where none was recorded of the pair at
                       such sizes, its time is that of one launched by itself,
                       MOCK_TIME_MODELLED */
};

/* Whether sums have the bits that they have under NCCL's own choice. */
enum mock_bits { MOCK_BITS_UNKNOWN, MOCK_BITS_SAME, MOCK_BITS_OTHER };

struct mock_time {
    double us;
    enum mock_time_source source; /* the worst of all it is made of */
    bool is_single_pass; /* from a run without interleaving: drift is in it */
    const char *kernel;  /* of a way, at the nearest recorded size: what was
                            recorded to have run; "" if that was an algorithm.
                            The machine's */
    enum mock_bits bits; /* as recorded of just that size and channel count */
};

/* The time of one run. 'round' and 'iteration' in [0, 1) are random numbers:
 * runs of the same collective, size and 'round' use times of the same
 * interleaved round, with the same drift; 'iteration' selects a quantile of the
 * spread within it. A modelled time has no spread. */
ncclResult_t mock_machine_time(const struct mock_machine *machine,
                               const struct mock_run *run, double round,
                               double iteration, struct mock_time *time_ret);

/* Like mock_machine_time(), but returns the mean over the recorded rounds. */
ncclResult_t mock_machine_mean_time(const struct mock_machine *machine,
                                    const struct mock_run *run,
                                    struct mock_time *time_ret);

/* ---- collectives with compute ---- */

/* How an iteration of some layers orders its compute and its collectives. */
enum mock_mode {
    MOCK_MODE_OVERLAP,    /* a layer's collective follows its compute, on a
                             stream of its own */
    MOCK_MODE_FSDP,       /* likewise a reduce-scatter; an all-gather precedes
                             the compute by one layer */
    MOCK_MODE_SEQUENTIAL, /* one stream: all compute, then all collectives */
};

/* Compute and a collective, on two streams of the same GPUs. */
struct mock_overlap {
    double compute_us; /* compute time without overlap */
    double comm_us;    /* the collective's time without overlap */
    double slowdown;   /* factor on both times while the two overlap */
    enum mock_time_source source;
    bool is_single_pass; /* as of a time; of one that is recorded as a whole
                            never */
};

/* The mutual slowdown of a collective and 'compute_us' (above 0) of compute in
 * an iteration of 'mode', MOCK_MODE_OVERLAP or MOCK_MODE_FSDP: interpolated in
 * logarithms between the sizes and ratios of compute to collective that
 * overlap.csv has. MOCK_TIME_MODELLED is the nearest slowdown outside that
 * range, that of the other mode without records, for an arm without records the
 * mean of those most like it, none for copy engines, and without overlap.csv
 * the mean of h200x4, 1.43. 'round' and 'iteration' are as for
 * mock_machine_time(), and scale both times, compute_us included. */
ncclResult_t mock_machine_overlap(const struct mock_machine *machine,
                                  const struct mock_run *run,
                                  enum mock_mode mode, double compute_us,
                                  double round, double iteration,
                                  struct mock_overlap *overlap_ret);

/* The time of a collective that follows 'compute_us' (above 0) of compute in
 * its stream: mock_machine_time(), times the factor that MOCK_MODE_SEQUENTIAL
 * has in overlap.csv, interpolated like a slowdown.  Outside the recorded sizes
 * it is 1, in a graph as modelled; an arm without records has the mean of the
 * others, as modelled. */
ncclResult_t mock_machine_time_after(const struct mock_machine *machine,
                                     const struct mock_run *run,
                                     double compute_us, double round,
                                     double iteration,
                                     struct mock_time *time_ret);

/* The duration of an iteration of 'n_layers', which ends with one join. In
 * MOCK_MODE_FSDP 'overlap' has the all-gather, 'scatter_us' is the time of a
 * reduce-scatter without overlap, and the slowdown is of both. For a recorded
 * setting with as many layers it is the recorded time. */
double mock_iteration_us(enum mock_mode mode,
                         const struct mock_overlap *overlap, double scatter_us,
                         int n_layers);

/* A setting for which iterations were recorded; in MOCK_MODE_FSDP there are two
 * for each, one of each collective. */
struct mock_overlap_setting {
    enum mock_mode mode;
    ncclFunc_t coll;
    size_t n_bytes;
    double compute_us; /* compute time of one layer */
    int n_layers;
    unsigned m, n, k; /* shape of the GEMM that was the compute: m x k times k x
                         n in bf16; 0 if it was not recorded */
    enum mock_time_source source;
};

/* Copies at most 'max' recorded settings, sorted by mode, collective, size and
 * compute. Returns how many there are; 0 without overlap.csv. */
size_t mock_machine_overlap_settings(const struct mock_machine *machine,
                                     struct mock_overlap_setting *settings,
                                     size_t max);

/* Whether collectives that follow compute were recorded in CUDA graphs, too. */
bool mock_machine_captures(const struct mock_machine *machine);

/* The interleaved rounds of each recorded setting; 0 if there are none. */
unsigned mock_machine_overlap_rounds(const struct mock_machine *machine);

/* ---- the logger ---- */

/* Sets the one receiver of this process's log: a formatted line per call, of
 * INFO and more severe levels, without a newline; calls do not overlap. NULL
 * (the default) drops the log. */
typedef void (*mock_log_sink)(void *user, ncclDebugLogLevel level,
                              unsigned long flags, const char *line);
void mock_set_log(mock_log_sink sink, void *user);

/* Limits the lines that the receiver gets, such as to NCCL_LOG_WARN: formatting
 * the others takes a third of the time of long simulations. */
void mock_set_log_level(ncclDebugLogLevel level);

/* ---- libnccl ---- */

/* The supported versions, for messages. */
#define MOCK_VERSIONS "2.21 to 2.32"

/* The names of the supported versions, oldest first: "2.21" and so on. NULL for
 * 'i' beyond the last. */
const char *mock_release_name(size_t i);

/* The number of a version that an option names, such as "2.28.9"; of the newest
 * if that is newer; -1 if there is none. */
int mock_release_find(const char *version);

/* The newest tuners that such a version knows: 2 to 7. */
int mock_release_newest_tuner(const char *version);

/* Whether a version is newer than the newest known, as which it is played. */
bool mock_release_is_newer(const char *version);

/* Checks what NCCL_ALGO and NCCL_PROTO, NULL for unset, leave on any machine.
 * Fails with ncclInvalidUsage, and names the words or collectives, where this
 * version, as of mock_nccl_options, refuses a value or leaves a collective
 * without an algorithm, which then fails when it is called; on a machine with
 * 'no_nvls' neither NVLS nor NVLSTree is one. */
ncclResult_t mock_release_check(const char *version, const char *algo,
                                const char *proto, bool no_nvls);

/* Whether they allow LL128 for a collective also where NCCL by itself would
 * not, as each list does that names it, or that excepts others. */
bool mock_release_forces_ll128(const char *version, const char *algo,
                               const char *proto);

/* The default constants of the cost model of a version, by its number. */
void mock_release_constants(int release,
                            ncclTunerConstants_v7_t *constants_ret);

struct mock_nccl; /* libnccl in one process: the state of its plugin loaders */

/* Settings of channels, 0 for unset; up to 2.24 NCCL has at most 32 of them,
 * later 64. */
struct mock_limits {
    /* minCTAs and maxCTAs of the communicators' ncclConfig_t: of channels, and
     * of the blocks of symmetric kernels. NCCL refuses a minCTAs without a
     * maxCTAs, and a larger one. */
    int min_ctas;
    int max_ctas;
    int min_channels;  /* NCCL_MIN_NCHANNELS, which NVLS ignores */
    int max_channels;  /* NCCL_MAX_NCHANNELS, likewise */
    int nvls_channels; /* NCCL_NVLS_NCHANNELS */
};

/* Variables of which mock NCCL reads a value as NCCL does. */
enum mock_variable {
    MOCK_NTHREADS,
    MOCK_LL128_NTHREADS,
    MOCK_THREAD_THRESHOLDS,
    MOCK_PAT_ENABLE,
    MOCK_LL128_C2C,
    MOCK_NET_OVERHEAD,
    MOCK_ALLGATHERV_ENABLE,
    MOCK_COMM_SPLIT_SHARE_RESOURCES,  /* not 0: a child has no more channels */
    MOCK_COMM_SHRINK_SHARE_RESOURCES, /* than its parents have */
    MOCK_WORK_ARGS_BYTES, /* in which a launch describes its collectives */
    MOCK_LL_BUFFSIZE, /* of protocols, in their order; a size below 8 Ki, which
                         NCCL does not survive, counts as 8 Ki */
    MOCK_LL128_BUFFSIZE,
    MOCK_BUFFSIZE,
    MOCK_N_VARIABLES
};

/* The number of "NCCL_NTHREADS" and so on, or -1. */
int mock_variable_find(const char *name);

struct mock_nccl_options {
    /* "2.21" to "2.32", and newer, which is played as that; text after a second
     * dot is ignored but for "2.32.3"; NULL for 2.28. See versions.h. */
    const char *version;

    /* Value of NCCL_TUNER_PLUGIN; NULL if unset. The environment itself is not
     * read. */
    const char *tuner_plugin;

    /* NULL, or a tuner struct that replaces a library; its version, 2 to 7 */
    const void *static_tuner;
    int static_tuner_version;

    /* each NCCL asks it with a table, also one of older tuners: an instrument,
     * which no NCCL has */
    bool static_always;

    /* Values of NCCL_ALGO and NCCL_PROTO; NULL if unset. The environment itself
     * is not read. For the syntax see cost_model.h. */
    const char *algo;
    const char *proto;

    /* Value of NCCL_NET_PLUGIN, a list from 2.28 on; NULL if unset:
     * libnccl-net.so. If no tuner library opens, NCCL looks for a tuner there:
     * up to 2.25 it opens it again, from 2.26 on it uses what it has loaded. */
    const char *net_plugin;

    /* NCCL_COLLNET_ENABLE=1 with a network that reduces and gathers, and an
     * NVSwitch in every node. As in NCCL it has no effect on one node, and on a
     * machine whose graphs have no channels of CollNet Chain. */
    bool collnet;

    bool no_nvls; /* NCCL_NVLS_ENABLE=0 */

    /* NCCL_CTA_POLICY=2: from 2.28 on the copy engines run allgathers whose
     * buffers are in symmetric windows, see mock_call.windows. */
    bool zero_ctas;

    struct mock_limits limits;

    const char *variables[MOCK_N_VARIABLES]; /* values; NULL for unset */

    /* NCCL_ENQUEUE_REARCH_ENABLE=1, from 2.31 on: NCCL compares symmetric and
     * general kernels of each collective alone, in the application's order,
     * broadcasts last. It asks the tuner once, and again where a symmetric
     * kernel that cannot run is the best. */
    bool rearch;

    /* NULL, or constants that replace the version's in the cost models of new
     * communicators, before a tuner edits its copy */
    const ncclTunerConstants_v7_t *constants;

    /* Value of NCCL_PROFILER_PLUGIN: "" if unset; NULL disables profilers and
     * their log lines. Supported from 2.27 on, for profilers of versions 4 to
     * 6; older profilers are not loaded. */
    const char *profiler_plugin;
};

ncclResult_t mock_nccl_create(const struct mock_nccl_options *options,
                              struct mock_nccl **nccl_ret);
/* Finds and opens the tuner as the first communicator would, without calling
 * its init. Returns its version, 2 to 7, and its name, cut to 'size'; or 0 if
 * there is no tuner. */
int mock_nccl_find_tuner(struct mock_nccl *nccl, char *name_ret, size_t size);

/* All communicators must have been destroyed before. */
void mock_nccl_destroy(struct mock_nccl *nccl);

/* ---- communicators ---- */

struct mock_comm; /* one rank of a communicator */

/* Creates a commId that is unique on this host: random like NCCL's, and not 0.
 * All ranks of a communicator use the same. */
uint64_t mock_new_comm_id(void);

/* Creates rank 0 of a communicator over all of the machine's GPUs. The first
 * communicator loads the tuner; each then calls its init. As in NCCL, a tuner
 * that does not load is no error; if the tuner's init fails, the communicator
 * fails with the same code, and an unknown word in NCCL_ALGO or NCCL_PROTO
 * fails it with ncclInvalidUsage. v5 and v6 tuners receive 'comm_id'. 'nccl'
 * and 'machine' must outlive the communicator. */
ncclResult_t mock_comm_create(struct mock_nccl *nccl,
                              const struct mock_machine *machine,
                              uint64_t comm_id, struct mock_comm **comm_ret);

/* Like mock_comm_create(), for any rank. The rank appears in the log, and the
 * profiler receives it; the profiler's init runs before the tuner's. */
ncclResult_t mock_comm_create_rank(struct mock_nccl *nccl,
                                   const struct mock_machine *machine,
                                   uint64_t comm_id, int rank,
                                   struct mock_comm **comm_ret);

/* Create a child of this rank's communicator over all GPUs of 'machine', in
 * which this rank has the number 'rank', or its own. Its commId depends on the
 * parent's, on the number of splits so far and on 'color', so shrinks of one
 * parent have the same. Return the errors of mock_comm_create(). With a color
 * below 0 (NCCL_SPLIT_NOCOLOR) this rank joins no child: the split is counted,
 * and *child_ret is set to NULL. */
ncclResult_t mock_comm_split(struct mock_comm *parent,
                             const struct mock_machine *machine, int color,
                             int rank, struct mock_comm **child_ret);
ncclResult_t mock_comm_shrink(struct mock_comm *parent,
                              const struct mock_machine *machine,
                              struct mock_comm **child_ret);

/* Calls the tuner's finalize, then the profiler's, and closes the libraries
 * when NCCL would. */
void mock_comm_destroy(struct mock_comm *comm);

/* The version of the loaded tuner, 2 to 7, or 0 without a tuner. */
int mock_comm_tuner_version(const struct mock_comm *comm);

/* The buffers of a collective that are in symmetric windows. */
enum mock_windows {
    MOCK_WINDOWS_NONE,
    MOCK_WINDOWS_BOTH,
    MOCK_WINDOWS_SEND,
    MOCK_WINDOWS_RECV,
};

/* The reduction of a collective, by type and operation, as the kernels for
 * symmetric windows tell them apart. */
enum mock_reduction {
    MOCK_REDUCTION_SUM,     /* sum of floats of up to 4 bytes */
    MOCK_REDUCTION_AVERAGE, /* average of them */
    MOCK_REDUCTION_OTHER,   /* other types, other operations */
};

/* A kernel for symmetric windows. */
struct mock_symmetric_kernel {
    const char *name; /* static, as NCCL names it */
    bool is_ll;
    int n_blocks;     /* GPU multiprocessors that it takes */
    float us;         /* predicted */
    float charged_us; /* with 2.5 percent for each block, by which NCCL
                         compares them */
};
enum { MOCK_MAX_SYMMETRIC = 6 };

/* An allgather by the GPUs' copy engines, without a kernel. */
struct mock_copy {
    const char *name; /* static, as NCCL names it */
    float us;         /* predicted, as 2.31 compares them */
};
enum { MOCK_MAX_COPIES = 2 };

/* A collective with what the application and NCCL's grouping give it. */
struct mock_call {
    ncclFunc_t coll;
    size_t n_bytes; /* as getCollInfo counts them: allgather and reducescatter
                       over all ranks */
    /* bytes, 1 to 8; 0 means 2. Log lines name the type ncclInt8, ncclBfloat16,
     * ncclFloat32 or ncclFloat64 */
    size_t element_size;
    int n_pipe_ops; /* 0 means 1 */
    /* 0, or 1 for buffers that the application has registered; 2 if it has
     * registered them together with those that follow, so that NCCL finds all
     * the bytes of a group's decision at the address of its smallest */
    int reg_buff;
    /* NVLS does not support the type and operation, such as avg */
    bool no_nvls;
    bool fp8;    /* a type of one byte (element size 0 then means 1), which NVLS
                    does not support; a reduction over more than 8 ranks has all
                    Ring entries times 1024, -1 included */
    bool no_pat; /* PAT does not support the operation of a reducescatter: avg,
                    premulsum */
    enum mock_reduction reduction;
    /* calls of a group with different kinds never share a decision: the type
     * and operation on the GPU, where min and max are one */
    unsigned kind;
    bool no_collnet; /* the network cannot reduce the type and operation; only
                        with mock_nccl_options.collnet */
    int root;        /* root of a broadcast or reduce */

    /* On one node whose GPUs are all joined by NVLink, NCCL has kernels for
     * symmetric windows below 64 GiB: allgathers, and sums of floats of up to 4
     * bytes by allreduce and reducescatter (from 2.30 on also averages, from
     * 2.32.6 on by reducescatter only). If both buffers are in windows, NCCL
     * does not call the tuner and chooses nothing: in 2.27 for a collective
     * alone, from 2.28 on for all. From 2.29 on one buffer can be enough: if
     * the fastest kernel (symmetric.h) is one with LL, NCCL asks the tuner
     * about this collective alone, and takes the kernel if the answer's
     * protocol is LL; else it asks again as usual. Collectives that could use
     * these kernels but do not are decided after the others of their group, in
     * another order.
     *
     * From 2.31 on NCCL asks the tuner about all that could use these kernels,
     * in windows or not, once for all of a kind: with the bytes of one rank, 0
     * operations, and a table in which nothing is left to choose. Unless such a
     * kernel is taken, it asks again with a whole table, then as usual.
     *
     * Copy engines run allgathers into windows (in 2.28 also from windows) with
     * mock_nccl_options.zero_ctas, and from 2.29 on those of more than 8 Mi
     * elements a rank on Blackwell (from 2.31 on 32 Mi without multicast).
     * Nobody asks the tuner what is best, but 2.31 and later, which compare
     * multicast with unicast: with the bytes of one rank, after all others of
     * the group, and a table in which nothing is left to choose; an error does
     * no harm. That NCCL has prepared symmetric kernels before is taken for
     * granted. */
    enum mock_windows windows;
};

typedef float mock_table[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];

/* NCCL's decision on a collective. */
struct mock_outcome {
    int algo;
    int proto;
    const char *kernel; /* symmetric kernel or way of copying that runs instead
                           of a pair, from 2.29 on; NULL for none */
    int n_channels;     /* channels of the collective; blocks of a symmetric
                           kernel, at the first that it runs, where NCCL
                           reports them to profilers: from 2.31 on */
    float us;           /* predicted of the decision, which a run shares */
    int asked_channels; /* the tuner's count; 0: NCCL's own count */
    int tuned_channels; /* NCCL's copy of the tuner's count; 0: its own count */
    bool asked; /* NCCL called getCollInfo of its tuner, if it has one; false if
                   there was nothing to decide, if the call shared another's
                   decision in its group, or if a graph replays it */
    size_t chunk_bytes; /* chunk size of a v6 tuner, after NCCL's clamp to its
                           buffers; 0: NCCL's own */
    int first_channel;  /* first channel of the collective */
    int launch;      /* the general kernel that runs it, from 0 in its group */
    bool is_timed;   /* the profiler requests the channels' times, see
                        mock_kernels.h */
    bool has_phases; /* and their phases */
    void *event;     /* the profiler's handle of the collective; NULL if none */
    /* cost table before the tuner edits it, us, below 0 ruled out; a tuner
     * of 2.21 receives no table, and this one is NCCL's */
    mock_table cost;
    mock_table cost_after; /* cost table after the tuner's edits */
};

/* Runs one collective: table, tuner, selection, channels. It fails if the tuner
 * returns an error, writes outside the table, leaves nothing to choose or an
 * entry without a kernel in NCCL. NCCL 2.21 asks twice: for the pair, then for
 * the number of channels. *outcome_ret holds the result so far; after a failure
 * algo and proto may be -1. With 0 bytes or on one rank NCCL calls no tuner,
 * chooses nothing and succeeds.
 *
 * As in NCCL, two threads must not use the same communicator at once. */
ncclResult_t mock_comm_collective(struct mock_comm *comm,
                                  const struct mock_call *call,
                                  struct mock_outcome *outcome_ret);

/* Decides on 'n' collectives as a group and runs none, as
 * ncclGroupSimulateEnd() does from 2.22 on. *us_ret is the time of the last
 * decision alone, -1 if there was none, as where symmetric kernels run all. */
ncclResult_t mock_comm_simulate(struct mock_comm *comm,
                                const struct mock_call *calls, size_t n,
                                float *us_ret);

/* Runs 'n' collectives of one communicator as one group (ncclGroupStart to
 * ncclGroupEnd). NCCL sorts them by size, and asks the tuner once for each run
 * of collectives of one kind within a factor of 4: with the sum of their bytes,
 * with numPipeOps = number of all in the group over the communicator's
 * channels, rounded up, and with regBuff of the smallest. 'n_pipe_ops' of the
 * calls is ignored, except for a group of one call, which may stand for a run.
 * The decision holds for all of the run, and they share the channels.
 *
 * From 2.29 on, NCCL handles collectives that could use symmetric windows
 * (mock_call) largest first, even if they do not use them, so that a run
 * contains all of a kind. Broadcasts from more than one root do not join a run:
 * one broadcast of each root at a time makes an AllGatherV, about which NCCL
 * asks the tuner as an allgather of the largest over all ranks; NCCL uses only
 * the protocol and channels of the answer.
 *
 * From 2.22 on one kernel runs 1,017 collectives at most, fewer if they take
 * more batches than fit into its arguments; each has the channels for itself.
 *
 * outcomes_ret[i] is the outcome of calls[i]; its tables are those of its run.
 * As in NCCL, the first failure ends the group. */
ncclResult_t mock_comm_group(struct mock_comm *comm,
                             const struct mock_call *calls, size_t n,
                             struct mock_outcome *outcomes_ret);

/* The run of a collective that succeeded, as mock_machine_time() takes it. Its
 * n_channels is NCCL's signed 8-bit copy of the tuner's count. */
struct mock_run mock_outcome_run(const struct mock_call *call,
                                 const struct mock_outcome *outcome);

/* NCCL's own number of channels, if the tuner asked for more and NCCL, as from
 * 2.31 on, takes no more; 0 if not. */
int mock_outcome_limit(const struct mock_outcome *outcome);

/* The kernels for symmetric windows that NCCL 2.29 and later compare for one
 * collective with both buffers in windows, in NCCL's order. Returns their
 * number. */
size_t
mock_comm_kernels(const struct mock_comm *comm, const struct mock_call *call,
                  struct mock_symmetric_kernel kernels_ret[MOCK_MAX_SYMMETRIC]);

/* Likewise the ways of copying that 2.31 and later compare for an allgather
 * into windows; none in older versions. */
size_t mock_comm_copies(const struct mock_comm *comm,
                        const struct mock_call *call,
                        struct mock_copy copies_ret[MOCK_MAX_COPIES]);

/* ---- CUDA graphs ---- */

struct mock_cuda_graph; /* opaque */

/* Captures 'n' collectives into a CUDA graph, as one group. NCCL asks its tuner
 * now, with regBuff 1: NCCL_GRAPH_REGISTER is on by default. A profiler
 * receives the calls, but not the launches. Fills *graph_ret, to be freed with
 * mock_graph_destroy(), or leaves it untouched. */
ncclResult_t mock_comm_capture(struct mock_comm *comm,
                               const struct mock_call *calls, size_t n,
                               struct mock_cuda_graph **graph_ret);

/* Launches the graph: the decisions of its capture run, no tuner is called.
 * 'outcomes_ret' has room for as many outcomes as there were captured calls. */
void mock_graph_launch(const struct mock_cuda_graph *graph,
                       struct mock_outcome *outcomes_ret);
void mock_graph_destroy(struct mock_cuda_graph *graph);

#ifdef __cplusplus
}
#endif
#endif /* MOCK_NCCL_H */
