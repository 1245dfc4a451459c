/*
 * mock_nccl.h - NCCL's side of the tuner interface, without GPUs
 *
 * Loads a tuner plugin as NCCL loads it, hands it the cost table that NCCL
 * would compute on a given machine, applies NCCL's selection and channel rules
 * to what the plugin leaves there, and says how long the collective took when
 * that machine was recorded.
 *
 * The contract is the behaviour of NCCL's source: by default of 2.28.9, else of
 * the version that is asked for (versions.h).  Nothing here shares code with
 * the plugins, so that it does not share their mistakes either.
 *
 * Of all versions: tuners are found, told, asked and obeyed, groups formed, and
 * lines logged as there, but the channels of 2.21 are given out as in 2.22.
 * The cost models of 2.21 to 2.30 are exact, each that of its last patch
 * release, NCCL_ALGO and NCCL_PROTO included; 2.31dev has that of 2.30 without
 * the penalty for fp8.  The search graphs and the numbers of channels that a
 * machine was recorded with hold for all versions, though older ones may have
 * searched and counted otherwise.  Left out are lines on what tuners do not
 * see, and those with addresses in them.
 *
 * A function that can fail returns an ncclResult_t; the reason is then in
 * mock_last_error() of the calling thread.  Sizes are bytes, times
 * microseconds, bandwidths GB/s (1e9).
 */
#ifndef MOCK_NCCL_H
#define MOCK_NCCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl_tuner_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One sentence on the last failure in this thread; "" if there was none. */
const char *mock_last_error(void);

/* ---- machines ---- */

struct mock_machine; /* opaque */

enum { MOCK_MAX_RANKS = 1000000 };

/*
 * What machine.csv says.  Its columns 'ranks', 'nodes', 'channels' and
 * 'nvls_channels' may be missing: the search graphs say how many GPUs a node
 * has, and NCCL derives its channels from them.  Counts that are there hold,
 * other ones than NCCL's included: NCCL_MIN_NCHANNELS, CollNet and others
 * change them.  Of 'ranks' and 'nodes' a machine whose graphs leave the node
 * needs one.
 */
struct mock_machine_info {
    char name[64];          /* the folder's name */
    char gpu[64];           /* as the driver spells it, e.g. "NVIDIA H200" */
    int compute_capability; /* 80, 90, 100 */
    int n_ranks;            /* GPUs of all nodes, one rank each */
    int n_nodes;            /* 1 or more, with as many ranks each */
    char cpu_vendor[16];    /* intel, amd, arm, mixed or unknown */
    int n_channels;         /* comm->nChannels: what NCCL prints as "coll
                               channels", twice the search channels */
    int n_nvls_channels;    /* 0 if NVLS is off */
    char nccl[16];          /* the version recorded, e.g. "2.28.9" */
    bool resized;           /* see mock_machine_resize() */
};

/*
 * Reads the folder 'path': machine.csv and graphs.xml, and timings.csv and
 * overlap.csv if they are there.  Fills *machine_ret, to be freed with
 * mock_machine_free(), or leaves it untouched; the error names the file and
 * line.
 */
ncclResult_t mock_machine_load(const char *path,
                               struct mock_machine **machine_ret);
void mock_machine_free(struct mock_machine *machine);

/*
 * The same machine with another number of GPUs, 1 to MOCK_MAX_RANKS: up to
 * those of a node one node, else as many nodes as it takes, all full.  One node
 * whose graphs have no network cannot become several, but up to 8 GPUs on its
 * NVLink.  NCCL
 * would search its graphs again; here they are kept, but for NVLS channels that
 * no GPU would head, and channel counts are derived again where NCCL derived
 * them.  So all of it is modelled, and has no recorded times.  Where fewer GPUs
 * of a node would get faster links it is wrong: of 4 x H200's 30 GB/s for a
 * tree's channel NCCL makes 40 on 3 and 60 on 2.
 *
 * *resized_ret is to be freed with mock_machine_free(), and needs 'machine' no
 * more.
 */
ncclResult_t mock_machine_resize(const struct mock_machine *machine,
                                 int n_ranks,
                                 struct mock_machine **resized_ret);
const struct mock_machine_info *
mock_machine_get_info(const struct mock_machine *machine);

/* True if the folder has recorded times; else all times are modelled. */
bool mock_machine_has_timings(const struct mock_machine *machine);

/*
 * The sizes at which interleaved rounds of a collective were recorded,
 * ascending: at most 'max' of them into 'sizes'.  Returns how many there are.
 */
size_t mock_machine_sizes(const struct mock_machine *machine, ncclFunc_t coll,
                          size_t *sizes, size_t max);

/* The number of interleaved rounds that every one of those sizes has, of
 * whatever collective; 0 if there are none. */
unsigned mock_machine_rounds(const struct mock_machine *machine);

/* ---- time ---- */

enum mock_time_source {
    MOCK_TIME_RECORDED,     /* measured at this very size */
    MOCK_TIME_INTERPOLATED, /* log-log between recorded sizes or channels */
    MOCK_TIME_SINGLE_PASS,  /* recorded or interpolated, but from a run that
                               was not interleaved: drift is in the numbers */
    MOCK_TIME_MODELLED,     /* NCCL's cost model, or beyond what was recorded */
};

/* What ran. */
struct mock_run {
    ncclFunc_t coll;
    size_t n_bytes; /* as a tuner counts them */
    int algo;
    int proto;
    int n_channels; /* asked for by a tuner; 0 for NCCL's own count */
};

struct mock_time {
    double us;
    enum mock_time_source source;
};

/*
 * The time of one run.  'round' and 'iteration' in [0, 1) are random numbers
 * that pick from the recorded spread: the same 'round' for two runs of one
 * collective and size picks times recorded in the same interleaved round, so
 * that what drifted for one drifted for the other; 'iteration' picks a quantile
 * of the spread within a round: over all of them the mean is the recorded one.
 * A time from the cost model has no spread.
 */
ncclResult_t mock_machine_time(const struct mock_machine *machine,
                               const struct mock_run *run, double round,
                               double iteration, struct mock_time *time_ret);

/* Like mock_machine_time(), but the mean over the recorded rounds. */
ncclResult_t mock_machine_mean_time(const struct mock_machine *machine,
                                    const struct mock_run *run,
                                    struct mock_time *time_ret);

/* ---- collectives overlapped with compute ---- */

/* Compute and a collective, on two streams of the same GPUs. */
struct mock_overlap {
    double compute_us; /* the compute alone */
    double comm_us;    /* the collective alone */
    double slowdown;   /* while both run, each takes this many times as long */
    enum mock_time_source source;
};

/*
 * What a collective and 'compute_us' (above 0) of compute do to each other.
 * The slowdown of overlap.csv, in logarithms between recorded sizes, and
 * between recorded ratios of compute to collective, each alone; beyond those it
 * is held, and another algorithm, protocol or channel count than was recorded
 * has the mean of the recorded ones (of the same algorithm and protocol, if
 * there are any, and of the same size): both are MOCK_TIME_MODELLED.  So is any
 * machine without overlap.csv, with the mean slowdown of h200x4, 1.43.
 *
 * 'round' and 'iteration' in [0, 1) are random numbers as for
 * mock_machine_time(): the same 'round' is the same recorded round for all, and
 * 'iteration' a quantile of an iteration's spread within it, by which both
 * times, compute_us included, are longer or shorter.
 */
ncclResult_t mock_machine_overlap(const struct mock_machine *machine,
                                  const struct mock_run *run, double compute_us,
                                  double round, double iteration,
                                  struct mock_overlap *overlap_ret);

/*
 * An iteration of 'n_layers' times compute and collective: one after the other,
 * and with each layer's collective beside the compute of the next ones, in its
 * order, and one join at the end.  For what was recorded, with as many layers,
 * the second is the recorded time.
 */
double mock_sequential_us(const struct mock_overlap *overlap, int n_layers);
double mock_overlapped_us(const struct mock_overlap *overlap, int n_layers);

/* How long each of the two takes if both start at once. */
void mock_side_by_side(const struct mock_overlap *overlap,
                       double *compute_us_ret, double *comm_us_ret);

/* Iterations that were recorded. */
struct mock_overlap_setting {
    ncclFunc_t coll;
    size_t n_bytes;
    double compute_us; /* of one layer */
    int n_layers;
    unsigned m, n, k; /* of the product that was the compute: m x k times k x n
                         in bf16; 0 if nobody said */
};

/* At most 'max' of them into 'settings', by collective, size and compute.
 * Returns how many there are; 0 without overlap.csv. */
size_t mock_machine_overlap_settings(const struct mock_machine *machine,
                                     struct mock_overlap_setting *settings,
                                     size_t max);

/* The number of interleaved rounds that each of them has; 0 without any. */
unsigned mock_machine_overlap_rounds(const struct mock_machine *machine);

/* ---- the logger ---- */

/*
 * Where the log of this process goes: one formatted line a call, without a
 * newline.  NULL (the default) drops it.  NCCL's logger takes no user pointer,
 * so there is one for the process; calls of 'sink' do not overlap.  INFO and
 * worse arrives, TRACE does not.
 */
typedef void (*mock_log_sink)(void *user, ncclDebugLogLevel level,
                              unsigned long flags, const char *line);
void mock_set_log(mock_log_sink sink, void *user);

/* ---- libnccl ---- */

/* The versions that can be played, oldest first: "2.21" and so on.  NULL from
 * the last one on. */
const char *mock_release_name(size_t i);

/* The number of a version as options name it, such as "2.28.9"; -1 for none. */
int mock_release_find(const char *version);

/* The constants that the model of such a number starts from. */
void mock_release_constants(int release,
                            ncclTunerConstants_v5_t *constants_ret);

struct mock_nccl; /* libnccl as one process has it: the loader's state */

struct mock_nccl_options {
    /* "2.21" to "2.30" or "2.31dev", what follows a second dot is ignored;
     * NULL for 2.28.  See versions.h. */
    const char *version;

    /* What NCCL_TUNER_PLUGIN holds; NULL if it is unset.  The environment
     * itself is not read. */
    const char *tuner_plugin;

    /* Instead of a library: the tuner struct itself and its version, 2 to
     * 6.  NULL for none. */
    const void *static_tuner;
    int static_tuner_version;

    /* What NCCL_ALGO and NCCL_PROTO hold; NULL if they are unset.  The
     * environment itself is not read.  The syntax is that of 2.28, see
     * user_choice.h. */
    const char *algo;
    const char *proto;

    /* What NCCL_NET_PLUGIN holds; NULL if it is unset.  Where no tuner's
     * library opens, NCCL looks for a tuner in this one: up to 2.25 it goes by
     * the name, and from 2.26 on it takes the net plugin that it has open,
     * which is taken to be this one if it can be opened. */
    const char *net_plugin;

    /* NCCL_COLLNET_ENABLE=1 with a network that reduces and gathers, and an
     * NVSwitch in every node.  As in NCCL it comes to nothing on one node, and
     * on a machine whose graphs have no channels of CollNet Chain. */
    bool collnet;

    /* Instead of the version's own constants of its model; NULL for those. Read
     * whenever a communicator is made, before a tuner may edit its copy. */
    const ncclTunerConstants_v5_t *constants;

    /* What NCCL_PROFILER_PLUGIN holds; NULL for no profiler, nor a word on it,
     * and "" if it is unset.  From 2.27 on, of versions 4 to 6: older ones are
     * none. */
    const char *profiler_plugin;
};

ncclResult_t mock_nccl_create(const struct mock_nccl_options *options,
                              struct mock_nccl **nccl_ret);
/* Finds and opens the tuner as the first communicator would, without its init.
 * Returns its version, 2 to 6, and its name, cut to 'size'; or 0 if there is
 * none. */
int mock_nccl_find_tuner(struct mock_nccl *nccl, char *name_ret, size_t size);

/* All its communicators must be gone. */
void mock_nccl_destroy(struct mock_nccl *nccl);

/* ---- communicators ---- */

struct mock_comm; /* one rank of a communicator */

/* A commId that no other communicator on this host has: like NCCL's, random and
 * the same for the ranks that are given it.  Not 0. */
uint64_t mock_new_comm_id(void);

/*
 * One rank of a communicator over all of the machine's GPUs.  Loads the tuner
 * if this is the first, then calls its init.  A tuner that does not load is no
 * error, as in NCCL; one whose init fails fails the communicator with the same
 * code, and a word in NCCL_ALGO or NCCL_PROTO that NCCL does not know fails it
 * with ncclInvalidUsage.  'comm_id' is what v5 and v6 are told.  'nccl' and
 * 'machine' must outlive the communicator.
 */
ncclResult_t mock_comm_create(struct mock_nccl *nccl,
                              const struct mock_machine *machine,
                              uint64_t comm_id, struct mock_comm **comm_ret);

/* Like mock_comm_create(), of a rank that is not 0: which one it is appears in
 * the log and is told to the profiler, whose init comes before the tuner's. */
ncclResult_t mock_comm_create_rank(struct mock_nccl *nccl,
                                   const struct mock_machine *machine,
                                   uint64_t comm_id, int rank,
                                   struct mock_comm **comm_ret);

/*
 * A child, as ncclCommSplit() and ncclCommShrink() make it of this rank: over
 * all GPUs of 'machine', which is that of the child.  Its commId is made of the
 * parent's, of how many splits the parent has seen and of 'color', so two
 * shrinks of one parent have the same.  Errors as mock_comm_create().  With a
 * color below 0 (NCCL_SPLIT_NOCOLOR) this rank is in no child: the split
 * counts, and *child_ret is set to NULL.
 */
ncclResult_t mock_comm_split(struct mock_comm *parent,
                             const struct mock_machine *machine, int color,
                             struct mock_comm **child_ret);
ncclResult_t mock_comm_shrink(struct mock_comm *parent,
                              const struct mock_machine *machine,
                              struct mock_comm **child_ret);

/* What v5 and v6 tuners were told. */
uint64_t mock_comm_id(const struct mock_comm *comm);

/* Calls the tuner's finalize, then the profiler's, and closes the libraries as
 * NCCL would. */
void mock_comm_destroy(struct mock_comm *comm);

/* The version of the tuner that was loaded, 2 to 6, or 0 if none is. */
int mock_comm_tuner_version(const struct mock_comm *comm);

/* Which of a collective's buffers are in symmetric windows. */
enum mock_windows {
    MOCK_WINDOWS_NONE,
    MOCK_WINDOWS_BOTH,
    MOCK_WINDOWS_SEND,
    MOCK_WINDOWS_RECV,
};

/* A collective as the application and NCCL's grouping present it. */
struct mock_call {
    ncclFunc_t coll;
    size_t n_bytes;      /* as a tuner counts them: allgather and reducescatter
                            over all ranks */
    size_t element_size; /* bytes, 1 to 8; 0 means 2.  Messages call it
                            ncclInt8, ncclBfloat16, ncclFloat32, ncclFloat64 */
    int n_pipe_ops;      /* 0 means 1 */
    int reg_buff;        /* 0 or 1 */
    bool no_nvls;        /* a type and operation that NVLS cannot do, such as
                            avg */
    bool fp8;            /* a type of one byte (0 above means 1), which NVLS
                            cannot do; a reduction over more than 8 ranks has
                            all Ring entries times 1024, -1 included */
    bool no_pat;         /* an operation that PAT cannot do for a
                            reducescatter: avg, premulsum */
    unsigned kind;       /* 0, or a number for what NCCL never decides at once
                            with others in a group: the type and operation on
                            the GPU, where min and max are one */
    bool no_collnet;     /* a type and operation that the network cannot
                            reduce; only with mock_nccl_options.collnet */
    int root;            /* of a broadcast or reduce */

    /*
     * On one node whose GPUs are all joined by NVLink, NCCL has kernels for
     * them: allgathers, and sums of floats of up to 4 bytes by allreduce and
     * reducescatter (from 2.30 also avg; flags above that say that it is
     * something else count).  With both buffers there the tuner is not asked
     * and nothing is chosen: in 2.27 of a collective alone, from 2.28 on of
     * all.  From 2.29 on one buffer can be enough: where only a kernel with LL
     * will do, NCCL asks the tuner about it alone, and takes that kernel if
     * the answer's protocol is LL; else it asks once more as always.  Left out
     * are that it may prefer LL for small messages where it has other kernels,
     * and what 2.31dev asks tuners about these kernels.
     */
    enum mock_windows windows;
};

typedef float mock_table[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];

/* What NCCL did. */
struct mock_outcome {
    int algo;
    int proto;
    int n_channels;        /* that the collective runs on */
    int asked_channels;    /* what the tuner wrote; 0: NCCL's own count */
    int tuned_channels;    /* what NCCL kept of that; 0: its own count */
    bool asked;            /* NCCL asked its tuner, if it has one; else there
                              was nothing to decide, it was decided with another
                              of its group, or it is a graph's replay */
    size_t chunk_bytes;    /* what a v6 tuner wrote, after NCCL's clamp to its
                              buffers; 0: NCCL's own */
    int first_channel;     /* of those that it runs on */
    bool is_timed;         /* the profiler wants its channels' times, see
                              mock_kernels.h */
    void *event;           /* the profiler's handle of it; NULL if none */
    mock_table cost;       /* what the tuner was handed, us, below 0 ruled
                              out; in 2.21 it is handed none, and this is what
                              NCCL has */
    mock_table cost_after; /* what it left */
};

/*
 * Runs one collective: table, tuner, selection, channels.  A tuner that returns
 * an error, that writes outside the table, or that leaves nothing to choose or
 * something that NCCL has no kernel for, makes the collective fail, and the
 * error says so.  NCCL 2.21 asks twice: what to run, then on how many channels.
 * *outcome_ret holds what was reached; after a failure algo and
 * proto may be -1.  With 0 bytes or on one rank NCCL asks no tuner: nothing is
 * chosen, and that is a success.
 *
 * Not for two threads at once on the same communicator, as in NCCL.
 */
ncclResult_t mock_comm_collective(struct mock_comm *comm,
                                  const struct mock_call *call,
                                  struct mock_outcome *outcome_ret);

/*
 * Runs 'n' collectives as one group (ncclGroupStart to ncclGroupEnd) of one
 * communicator.  NCCL sorts them by size, and asks the tuner once for each run
 * of collectives of one kind within a factor of 4: with the sum of their bytes,
 * and numPipeOps = number of all in the group over the communicator's channels,
 * rounded up; 'n_pipe_ops' of the calls is not used, except of a lone one,
 * which may stand for a run; and regBuff is that of the smallest.  What is
 * decided holds for all of the run; they share the channels.
 *
 * From 2.29 on, those that could use symmetric windows (mock_call) are handled
 * largest first, whether they use them or not, so that a run has all of a kind.
 * Broadcasts from more than one root are not in any run: one of each root at a
 * time make an AllGatherV, about which the tuner is asked as an allgather of
 * the largest over all ranks; only the protocol and channels of its answer
 * count.
 *
 * outcomes_ret[i] is that of calls[i]; the tables in it are those of its run.
 * The first failure ends the group, as in NCCL.
 */
ncclResult_t mock_comm_group(struct mock_comm *comm,
                             const struct mock_call *calls, size_t n,
                             struct mock_outcome *outcomes_ret);

/*
 * Simulates the group (ncclGroupSimulateEnd, from 2.22 on): the tuner is asked
 * as for a real one, except about chunk sizes and AllGatherV, and nothing runs.
 * *us_ret is the time that NCCL estimates: of what it decided last, not of all;
 * -1 if it decided nothing.  In 2.21 ncclInvalidUsage.
 */
ncclResult_t mock_comm_simulate(struct mock_comm *comm,
                                const struct mock_call *calls, size_t n,
                                float *us_ret);

/* What mock_machine_time() wants to know of a collective that succeeded.  Its
 * n_channels is what NCCL's signed 8-bit field kept of the tuner's count. */
struct mock_run mock_outcome_run(const struct mock_call *call,
                                 const struct mock_outcome *outcome);

/* ---- CUDA graphs ---- */

struct mock_cuda_graph; /* opaque */

/*
 * Captures 'n' collectives into a CUDA graph, as one group.  NCCL asks its
 * tuner now, as mock_comm_group() does, but with regBuff 1: NCCL_GRAPH_REGISTER
 * is on unless the user turns it off.  A profiler is told of the calls, but not
 * of the launches, which NCCL does if it wants channels' times.  Fills
 * *graph_ret, to be freed with mock_graph_destroy(), or leaves it untouched.
 */
ncclResult_t mock_comm_capture(struct mock_comm *comm,
                               const struct mock_call *calls, size_t n,
                               struct mock_cuda_graph **graph_ret);

/* Launches the graph: what was decided at its capture runs, and nobody is
 * asked.  'outcomes_ret' has room for as many as were captured. */
void mock_graph_launch(const struct mock_cuda_graph *graph,
                       struct mock_outcome *outcomes_ret);
void mock_graph_destroy(struct mock_cuda_graph *graph);

#ifdef __cplusplus
}
#endif
#endif /* MOCK_NCCL_H */
