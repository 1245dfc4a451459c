/*
 * records.h - the rows of timings.csv or overlap.csv, sorted, with NCCL's own
 * choices averaged
 */
#ifndef MOCK_RECORDS_H
#define MOCK_RECORDS_H

#include "mock_nccl.h"
#include "model/cost_model.h"

/* One row. The key is all members above 'is_auto'. */
struct mock_record {
    enum mock_mode mode; /* overlap.csv: as the row says; else 0 */
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
    double mean;
    double median;
    double p95;
    double min;
    double log_slowdown; /* for overlap.c */
};

struct mock_records {
    struct mock_record *list; /* sorted by key; each key once */
    int n;
    int capacity;
};

/* Reads 'path', an overlap.csv or a timings.csv. The list of
 * *records_ret is to be freed after a failure, too. */
ncclResult_t mock_records_load(const char *path, bool is_overlap,
                               const struct mock_model *model,
                               struct mock_records *records_ret);

/* Sorts the records, and makes those with the same key one, their mean. */
void mock_records_pool(struct mock_records *records);

/* The record with this key, or NULL. */
const struct mock_record *mock_records_find(const struct mock_records *records,
                                            const struct mock_record *key);

#endif /* MOCK_RECORDS_H */
