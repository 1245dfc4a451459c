/* reading.h - what the readers of other programs' traces share: they keep what
 * they need of each event, put all in order at the end, and make rows of it */
#pragma once

#include <cjson/cJSON.h>

#include "analyse/replay/trace_build.h"

/* A process group, of which a communicator is made when a row needs it. */
struct read_group {
    char name[STP_COMM_NAME];
    unsigned size;   /* 0: not known */
    unsigned stride; /* from a rank to the next one; 0: not known */
    double rank;     /* whose events are read; below 0: any */
};

/* A collective, with the bytes that a rank has before and after it. */
struct read_coll {
    int coll; /* ncclFunc_t; -1: NCCL asks no tuner about it */
    int type; /* enum stp_type; -1: we have none */
    double n_in;
    double n_out;
    size_t group; /* place in 'groups' */
};

struct span_list {
    struct span *items;
    size_t n;
    size_t capacity;
};

struct reading {
    struct stp_trace_build *b;
    struct read_group *groups;
    size_t n_groups;
    size_t group_capacity;
    struct node *nodes; /* of an execution trace */
    size_t n_nodes;
    size_t node_capacity;
    struct span_list spans;    /* of all others: what ran */
    struct span_list launches; /* correlations, and when on the host */
    struct span_list steps;    /* on the host */
    unsigned host_line;        /* of the first collective there; 0: none */
    bool has_collectives;      /* on the GPU */
    size_t group;              /* of NCCL Inspector's next collective */
    bool is_other_rank;        /* whose events are not read */
    struct stp_error *err;
};

/* A collective by any program's name for it, as nccl:_all_gather_base; -1 if
 * NCCL asks no tuner about it. */
int stp_read_coll(const char *word);

/* The enum stp_type of PyTorch's name for it; -1 if there is none. */
int stp_read_type(const char *word, size_t len);

/* The text under 'key'; "" if there is none. */
const char *stp_read_word(const cJSON *json, const char *key);

/* The number from 0 under 'key'; -1 if there is none, or none that a time or a
 * number of bytes can be. */
double stp_read_number(const cJSON *json, const char *key);

/* The group of that name, which is added if there is none.  Its ranks may be
 * known by number, by the distance of two, or as PyTorch lists them, [0, 2,
 * ..., 30]; else 0 or less, and "". */
enum stp_status stp_read_group(struct reading *r, const char *name, double size,
                               double stride, const char *ranks,
                               size_t *place_ret);

/* Appends a row, or skips a collective of one rank or of no bytes. */
enum stp_status stp_read_row(struct reading *r, const struct read_coll *coll,
                             const struct stp_trace_place *place);

/* Counts what is not played: the name up to a blank or "(", and why not.
 * STP_OK. */
enum stp_status stp_read_skip(struct reading *r, const char *name,
                              const char *why, unsigned line);

typedef enum stp_status stp_event(struct reading *r, unsigned line,
                                  const cJSON *json);

stp_event stp_read_groups, stp_execution_node, stp_profiler_job,
    stp_profiler_event, stp_flight_entry, stp_inspector_header,
    stp_inspector_call;

enum stp_status stp_execution_finish(struct reading *r);
enum stp_status stp_spans_finish(struct reading *r);
