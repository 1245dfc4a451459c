/* recorded.h - what was recorded on a machine, and interpolation between it
 *
 * steptune-machine(5) has the columns of timings.csv and overlap.csv; a round
 * of 0 is a single pass. Use of the rows of timings.csv:
 * - auto is averaged with the forced pair that NCCL chooses at this size, of
 *   the same run and round, because both measure the same;
 * - for a pair and channel count, interleaved rows are used between the
 *   smallest and the largest of them, single passes only outside: machines
 *   drift;
 * - rows of graphs are apart, and replace the others in a graph up to their
 *   largest size;
 * - another channel count is stored as its ratio to NCCL's own count in the
 *   same run and round, which removes the drift between runs.
 *
 * Between recorded sizes times of a pair lie on straight lines over the bytes,
 * and NCCL's own choice at the size says which pair's line it is. With every
 * second size taken out (mock_between_test), NCCL's choice is predicted to .7
 * to 2 percent in the median and 4 to 15 at p95, most of it up to 64 KiB: a
 * host takes 7 or 9 us to launch for seconds, and so all rounds of a size
 * (h200x2's allgather). Where rounds are spread and sizes lie between powers of
 * two, it is 1.3 and 4.8, and in CUDA graphs 1.2 and 5.7 (h200x2_graphs, whose
 * odd and even rounds differ by 1.1 and 11.8, and h200x4_graphs).
 *
 * A row of overlap.csv is stored as one number, the slowdown: the factor on the
 * time of compute and collective while they overlap, for which
 * mock_iteration_us() of the times without overlap is the recorded mean. A row
 * of fsdp stands for both of its collectives; of sequential iterations it is
 * the factor on the collective's time alone. The collective's time without
 * overlap is the mean of timings.csv. Rows of traces, of other computes and
 * types, and of a tuner are skipped.
 *
 * Another run on h200x4's GPUs, minutes later, had the iterations of recorded
 * arms within .5 percent (median; the worst .9), of other arms and channel
 * counts 2.5 (12.6), of half the smallest size 3 (20), sequential ones 3 (10).
 */
#pragma once

#include "machine/machine.h"

/* ---- rows of the files ---- */

/* One row. The key is all members above 'is_auto'. */
struct mock_record {
    enum mock_mode mode; /* overlap.csv: as the row says; else 0 */
    int graph;           /* 1: captured into a CUDA graph */
    int coll;
    int algo; /* NCCL_ALGO_*, or enum mock_way with a protocol of 0 */
    int proto;
    int n_channels;
    size_t n_bytes;
    double compute_us; /* overlap.csv: compute time of one layer without
                          overlap; else 0 */
    int n_layers;      /* overlap.csv: layers; else 0 */
    int scatter_algo;  /* of MOCK_MODE_FSDP: the pair of the reduce-scatter; */
    int scatter_proto; /* else 0 */
    char run[24];
    int round;
    bool is_auto; /* NCCL chose the pair or the channels; the file can have a
                     forced row of the pair as well */
    int line;
    unsigned m, n,
        k; /* shape of the GEMM that was the compute; 0: not recorded */
    int n_ranks;
    enum mock_time_source source; /* of a recording on GPUs RECORDED */
    size_t n_iterations;
    char kernel[40]; /* of a way: what ran */
    enum mock_bits bits;
    double mean;
    double median;
    double p95;
    double min;
    double comm_us; /* for overlap.c: the collective's time without overlap */
    double log_slowdown; /* for overlap.c */
};

struct mock_records {
    struct mock_record *list; /* sorted by key; each key once */
    int n;
    int capacity;
};

/* Reads 'path', an overlap.csv or a timings.csv, and averages NCCL's own
 * choices with the same pair. The list of *records_ret is to be freed after a
 * failure, too. */
ncclResult_t mock_records_load(const char *path, bool is_overlap,
                               const struct mock_model *model,
                               struct mock_records *records_ret);

/* Sorts the records, and makes those with the same key one, their mean. Finds
 * the one with a key, or NULL. */
void mock_records_pool(struct mock_records *records);
const struct mock_record *mock_records_find(const struct mock_records *records,
                                            const struct mock_record *key);

/* ---- curves ---- */

/* One row, or the mean of the rows of a channel count below NCCL's own. Its
 * spread is piecewise linear through four quantiles, the largest of which
 * follows from the mean: no less than p95, else all four are scaled. */
struct mock_row {
    double value;       /* time in us, relative to that with NCCL's own channels
                           for other counts */
    double log_value;   /* of such a ratio, and of an iteration's slowdown */
    double quantile[4]; /* at 0, .5, .95 and 1, relative to the mean */
};

struct mock_point;

/* Points, sorted by position. */
struct mock_curve {
    struct mock_point *points;
    int n_points;
};

/* One size, or ratio of compute to collective, with a row for each round. */
struct mock_point {
    double at; /* log of the bytes, or of the ratio */
    size_t n_bytes;
    const struct mock_row *rows;
    int n_rounds;
    bool is_single_pass;          /* not interleaved, or a single round */
    enum mock_time_source source; /* the worst of its rows */
    char kernel[40];              /* as of a record, of its last row */
    enum mock_bits bits;          /* OTHER if any row is, then SAME */
    struct mock_curve ratios;     /* of iterations, at this size */
};

struct mock_arm {
    enum mock_mode mode;
    int graph;
    int coll;
    int algo;
    int proto;
    int n_channels; /* 0: NCCL's own */
    struct mock_curve sizes;
};

/* The arms of a file, sorted like its records, with their points and rows. */
struct mock_recorded {
    struct mock_arm *arms;
    struct mock_point *points;
    struct mock_point *others; /* iterations: all ratios; else 'sizes' */
    struct mock_row *rows;
    int n_arms;
    int n_points;
    int n_others;
    int n_rows;

    /* timings.csv, launched one by one and in graphs: the arms of a pair,
     * NCCL's own channels first, and each size of a collective with the fewest
     * interleaved rounds of its pairs, interleaved if any pair's are */
    struct mock_pair {
        const struct mock_arm *arms;
        int n_arms;
    } pairs[2][NCCL_NUM_TUNED_FUNCS][MOCK_NUM_WAYS][NCCL_NUM_PROTOCOLS];
    struct mock_curve sizes[2][NCCL_NUM_TUNED_FUNCS];

    /* overlap.csv: sorted, without duplicates, and the rounds of each */
    struct mock_overlap_setting *settings;
    int n_settings;
    int n_rounds;
};

void mock_recorded_free(struct mock_recorded *recorded);

/* Makes *recorded, which has room for them, of the records. */
ncclResult_t mock_timings_build(const char *path,
                                const struct mock_records *records,
                                struct mock_recorded *recorded);
ncclResult_t mock_overlaps_build(const char *path,
                                 const struct mock_machine *machine,
                                 struct mock_records *records,
                                 struct mock_recorded *recorded);

/* The point of a record's arm and size, which is the last one, or a new one
 * without rows. */
struct mock_point *mock_recorded_add(struct mock_recorded *recorded,
                                     const struct mock_record *record);

/* Fills a row's quantiles, and returns the value at quantile 'at' in [0, 1). */
void mock_set_quantiles(const struct mock_record *record, struct mock_row *row);
double mock_quantile(const struct mock_row *row, double at);

/* A position on a curve: at 'lo', or at 'weight' between 'lo' and 'hi'; above 1
 * beyond the last point. Before the first, or with a single point, 'lo' is
 * 'hi', and 'weight' 1. */
struct mock_span {
    const struct mock_point *lo;
    const struct mock_point *hi;
    double weight;
};

static inline struct mock_span mock_curve_find(const struct mock_curve *curve,
                                               double at)
{
    const struct mock_point *hi = curve->points;
    const struct mock_point *end = hi + curve->n_points;

    /* the first point that is not before the position, by halving */
    for (int n = curve->n_points; n > 0;) {
        const int half = n / 2;
        const bool is_before = hi[half].at < at;

        hi += is_before ? half + 1 : 0;
        n = is_before ? n - half - 1 : half;
    }
    if (hi < end && hi->at == at)
        return (struct mock_span){hi, hi, 0};
    if (hi == end)
        hi--;
    if (hi == curve->points)
        return (struct mock_span){hi, hi, 1};
    return (struct mock_span){hi - 1, hi,
                              (at - hi[-1].at) / (hi->at - hi[-1].at)};
}

/* Sources are ordered from the most to the least reliable. */
static inline enum mock_time_source mock_worse_source(enum mock_time_source a,
                                                      enum mock_time_source b)
{
    return a > b ? a : b;
}
