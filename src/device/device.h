/* device.h - all ranks of a run, as the measuring loops use them
 *
 * The measuring loops, the statistics and the reports see a machine only
 * through these functions, so that the same loops run on GPUs, on CPUs and on a
 * recorded machine in virtual time, where tests know the exact numbers.  Below
 * them lies the one seam to a platform, a rank (device/engine.h): this is the
 * loop over the ranks of a process, written once.
 *
 * Work is noted first: note() returns at once.  Then synchronise() has every
 * rank run all of it from a common start, and waits; events hold the times.
 *
 * With several processes each opens the device with its part of the ranks, and
 * all of them make the same calls in the same order; times are then those of
 * all ranks, in every process.  One thread of a process uses a device. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "device/source.h"
#include "core/dtype.h"
#include "core/status.h"
#include "device/arm.h"
#include "device/call.h"
#include "device/pattern.h"
#include "nccl_tuner_abi.h"

/* The machine of a run, or of one rank of it. */
struct stp_device_info {
    char machine[64];   /* its name */
    char gpu[64];       /* model, as the driver spells it; "" if it has none */
    char processor[96]; /* the GPU, or where there is none the CPU's model */
    char nccl[16];      /* version; "" without NCCL */
    char backend[16];   /* the transport: "nccl" or "gloo" */
    char tuner[48];     /* that jobs have, which AUTO asks; "": none */
    char what[640];     /* one line for the top of every output: which machine,
                           and whether its times are measured or recorded */
    unsigned rank;      /* of all; here the first of this process */
    unsigned n_ranks;
    unsigned n_gpus; /* that ranks share; 0: each rank has its own */
    unsigned n_nodes;
    unsigned max_rounds; /* interleaved rounds that a recorded machine holds of
                            collectives, as they are launched now: a further
                            round would count one twice.  0: no limit */
    unsigned max_iteration_rounds; /* likewise, of iterations */
    bool repeats_rounds;    /* one that was disturbed can be measured again */
    int compute_capability; /* 80, 90, 100; 0 without a GPU */
    char cpu_vendor[16];    /* intel, amd, arm, mixed or unknown */
    bool is_live;           /* times drift: measured here and now */
    bool has_arms;          /* an arm can be forced */
    unsigned setups;        /* a bit for each of stp_setups of which there are
                               arms */
    bool has_data;          /* false in virtual time: nothing is computed, there
                               are no bytes to check, and downloads are zeros */
    bool models_overlap;    /* the times of compute, and how it and
                               collectives slow each other down, were not
                               measured */
    bool is_late;           /* ranks compute in synchronise(), all from a common
                               start: it may take long, and cannot be stopped */
    bool rotates;           /* a collective's data should lie elsewhere than the
                               data of the collective before, out of the caches */
    bool has_tf32;          /* whether stp_product.tf32 means anything */
    bool captures;          /* noted work can run as CUDA graphs */
    double event_us; /* about the time that an event between two collectives
                        adds to them; 0: none */
};

enum { STP_GPUS_TEXT = 112 }; /* bytes of such a text */

/* "2 x NVIDIA H200", or "1 x NVIDIA H200 shared by 2 ranks": 'n_gpus' of 0 says
 * that each of the ranks has a GPU of its own.  Returns 'text'. */
const char *stp_gpus_text(unsigned n_ranks, unsigned n_gpus, const char *gpu,
                          char text[STP_GPUS_TEXT]);

/* Work in one stream runs in order; the two streams run side by side. */
enum {
    STP_STREAM_MAIN,
    STP_STREAM_COMM, /* of high priority, as frameworks have it */
    STP_N_STREAMS,
};

/* "AllReduce_RSxLDMC_AGxSTMC_sum_f8e4m3" is the longest. */
enum { STP_KERNEL_NAME = 40 };
#define STP_COPY_ENGINES "copy engines"

/* Whether results of an arm are those of NCCL's own choice to the bit. */
enum stp_bits {
    STP_BITS_UNKNOWN, /* nobody compared them */
    STP_BITS_SAME,
    STP_BITS_OTHER,
};

/* How a collective ran. */
struct stp_device_run {
    int algo;       /* NCCL_ALGO_*, or -1 if the device cannot tell, or NCCL ran
                       something else */
    int proto;      /* NCCL_PROTO_*, or -1 */
    int n_channels; /* 0 if the device cannot tell */
    enum stp_source source;
    double us;                    /* this one time, begin to end */
    bool single_pass;             /* as stp_device_source() */
    char kernel[STP_KERNEL_NAME]; /* what ran where it is neither: a symmetric
                                     kernel, as NCCL names it, or
                                     STP_COPY_ENGINES; else "" */
    bool is_unknown; /* no time of the arm is recorded for this collective, so
                        that it cannot run; other members mean nothing */
    enum stp_bits bits; /* as a recorded machine has it; UNKNOWN on a device
                           with data, which can be checked */
};

/* The question that NCCL asked its tuner about a collective. */
struct stp_question {
    uint64_t n_bytes;
    int n_pipe_ops;
    int reg_buff;
    float cost[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS]; /* us; < 0 ruled out */
};

struct stp_ranks; /* opaque */
struct stp_work;  /* device/program.h */

/* An open device; stp_device_open() of device/engine.h makes one. */
struct stp_device {
    struct stp_ranks *ranks;
};

/* Closes the ranks; of a device that is not open, or closed, nothing. */
void stp_device_close(struct stp_device *device);

void stp_device_get_info(const struct stp_device *device,
                         struct stp_device_info *info_ret);

/* The line on rank 'rank' that nccl-tests lists behind "# ", without a newline.
 * Cut to 'size'. */
void stp_device_rank_line(const struct stp_device *device, unsigned rank,
                          char *line, size_t size);

/* The sizes at which this device knows interleaved times of a collective,
 * ascending: at most 'max' of them into 'sizes'.  Returns how many there are; 0
 * if any size is as good as any other. */
size_t stp_device_sizes(const struct stp_device *device, int coll,
                        uint64_t *sizes, size_t max);

/* A collective, and the product that is in an iteration with it. */
struct stp_device_overlap {
    int mode; /* STP_MODE_OVERLAP, or also _FSDP or _SEQUENTIAL */
    uint64_t n_bytes;
    struct stp_gemm gemm;
};

/* Lists the overlaps of which this device knows interleaved times, in ascending
 * order of modes and sizes: at most 'max' of them into 'overlaps'. Returns how
 * many there are; 0 if any product is as good as any other. */
size_t stp_device_overlaps(const struct stp_device *device, int coll,
                           struct stp_device_overlap *overlaps, size_t max);

/* Whether iterations of a mode can be measured here, or were where the device
 * is a recording. */
bool stp_device_knows_mode(const struct stp_device *device, int mode, int coll);

/* Begins round 'round' of 'n_rounds': all ranks meet, and times until the next
 * call are compared with each other.  A device that repeats rounds takes higher
 * numbers, too: round + n_rounds is that round again. */
enum stp_status stp_device_begin_round(const struct stp_device *device,
                                       unsigned round, unsigned n_rounds,
                                       struct stp_error *err);

/* Makes the collectives that are noted from now on use this arm, without a new
 * communicator; no work may be waiting for synchronise().  STP_ERR_RANGE for
 * the plugin arm if the device was opened without a plugin, and for a forced
 * one if no arm can be forced. */
enum stp_status stp_device_select_arm(const struct stp_device *device,
                                      const struct stp_arm *arm,
                                      struct stp_error *err);

/* Has the tuner plugin that the device was opened with start over in its
 * communicators, as in new ones: it reads its environment again.  No work may
 * be waiting. */
enum stp_status stp_device_reload_plugin(const struct stp_device *device,
                                         struct stp_error *err);

/* Has noted work run as CUDA graphs from now on, or no longer; nothing on a
 * device that does not capture. */
void stp_device_use_graphs(const struct stp_device *device, bool uses);

/* Runs the collective once on every rank, untimed by events, and says how.  A
 * forced arm that NCCL rules out for it runs as NCCL's own choice.
 * 'question_ret' may be NULL; its n_bytes is 0 if no tuner was asked. */
enum stp_status stp_device_probe(const struct stp_device *device,
                                 const struct stp_collective *collective,
                                 struct stp_device_run *run_ret,
                                 struct stp_question *question_ret,
                                 struct stp_error *err);

/* Runs the collective once, on fresh random data of 'seed' and into poisoned
 * output, and compares every element on every rank that gets a result with its
 * expected value (device/pattern.h); 'rounds': of data that show the order of
 * operations, and to within their rounding.  *found_ret is what is found on all
 * ranks: its bits are equal for equal seeds and results.  A device without data
 * says 0. */
enum stp_status stp_device_check(const struct stp_device *device,
                                 const struct stp_collective *collective,
                                 uint64_t seed, bool rounds,
                                 struct stp_found *found_ret,
                                 struct stp_error *err);

/* ---- noting work ---- */

/* Notes work on every rank: a collective, the beginning or end of one NCCL
 * group of collectives, a GEMM, an event or a wait for one, or an elementwise
 * kernel, the sum of two vectors into one of them, which moves three times its
 * bytes, rounded down to whole floats, and computes next to nothing.  Each
 * event is recorded once between two synchronise().
 *
 * STP_ERR_RANGE for groups of ranks where a transport has none, for more than
 * STP_MAX_SPLITS ways to divide the ranks, for vectors that memory does not
 * hold, and as stp_program_add(). */
enum stp_status stp_device_note(const struct stp_device *device,
                                const struct stp_work *work,
                                struct stp_error *err);

/* ---- running it ---- */

/* Runs the work noted since the last time, on all ranks, and waits.  A device
 * opened with graphs runs it as one CUDA graph, after once without.  After a
 * failure the device can only be closed. */
enum stp_status stp_device_synchronise(const struct stp_device *device,
                                       struct stp_error *err);

/* Runs the work of the last synchronise() once more, from its graph if there is
 * one. */
enum stp_status stp_device_replay(const struct stp_device *device,
                                  struct stp_error *err);

/* Microseconds between two events of the last run, on the slowest rank. */
double stp_device_elapsed_us(const struct stp_device *device, unsigned from,
                             unsigned to);

/* Microseconds of the host's clock that the last run took, from the common
 * start until all of it was done, on the slowest rank: with the first launch
 * and the last wait, as nccl-tests counts. */
double stp_device_wall_us(const struct stp_device *device);

/* Returns the worst source of the times of the last run. *single_pass_ret:
 * whether some are of a recording that ran the arms one after the other and not
 * in interleaved rounds, so that drift is in the numbers. */
enum stp_source stp_device_source(const struct stp_device *device,
                                  bool *single_pass_ret);
