/*
 * records.h - the rows of timings.csv or overlap.csv, sorted, with automatic
 * choices pooled
 */
#ifndef MOCK_RECORDS_H
#define MOCK_RECORDS_H

#include "model/cost_model.h"

/* One row.  A key is everything above 'is_auto'. */
struct mock_record {
    int coll;
    int algo;
    int proto;
    int n_channels;
    size_t n_bytes;
    double compute_us; /* overlap.csv: of one layer, alone; else 0 */
    int n_layers;      /* likewise */
    char run[24];
    int round;
    bool is_auto; /* NCCL chose it, or a part of it: a pair of its own may be
                     there as well */
    int line;
    unsigned m, n, k; /* of the product that was the compute; 0: not said */
    double mean;
    double median;
    double p95;
    double min;
};

struct mock_records {
    struct mock_record *list; /* by key; no key twice */
    int n;
    int capacity;
};

/* Reads 'path'.  *records_ret is to be freed also after a failure. */
ncclResult_t mock_records_load(const char *path, const struct mock_model *model,
                               struct mock_records *records_ret);
ncclResult_t mock_records_load_overlap(const char *path,
                                       const struct mock_model *model,
                                       struct mock_records *records_ret);
void mock_records_free(struct mock_records *records);

/* The record with this key, or NULL. */
const struct mock_record *mock_records_find(const struct mock_records *records,
                                            const struct mock_record *key);

#endif /* MOCK_RECORDS_H */
