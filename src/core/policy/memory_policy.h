/*
 * memory_policy.h - a memory policy: rules that say what the buffers of a
 * message should be registered as, read from CSV
 *
 * steptune-policy(5) defines the format.  Like a policy of arms it is refused
 * as a whole for a line that does not parse.  The first rule that matches wins;
 * where none does, buffers stay plain.
 */
#ifndef STP_MEMORY_POLICY_H
#define STP_MEMORY_POLICY_H

#include "core/memory.h"
#include "core/policy/policy.h"

/* Behind the path of a policy of arms. */
#define STP_MEMORY_SUFFIX ".memory"

/* Like stp_policy_parse(), stp_policy_load(): free with stp_policy_free(). */
enum stp_status stp_memory_policy_parse(const char *csv, size_t len,
                                        struct stp_policy **policy_ret,
                                        struct stp_error *err);
enum stp_status stp_memory_policy_load(const char *path,
                                       struct stp_policy **policy_ret,
                                       struct stp_error *err);

/* The kind of the policy in a file of that name: of memory if it ends with
 * STP_MEMORY_SUFFIX. */
enum stp_policy_kind stp_policy_kind_of_file(const char *path);

/* Like stp_policy_load(), of that kind. */
enum stp_status stp_policy_load_any(const char *path,
                                    struct stp_policy **policy_ret,
                                    struct stp_error *err);

struct stp_memory_query {
    int coll;         /* ncclFunc_t */
    uint64_t n_bytes; /* as NCCL counts them for a tuner */
    size_t n_ranks;   /* >= 1 */
    size_t n_nodes;   /* >= 1 */
    bool overlaps;    /* with compute */
    const char *gpu;  /* model; NULL or "": not known, and rules that name one
                         do not match */
};

/* The first rule that matches, or NULL; takes time with the number of rules.
 * Any number of threads may ask at once. */
const struct stp_rule *
stp_memory_policy_match(const struct stp_policy *policy,
                        const struct stp_memory_query *query);

#endif /* STP_MEMORY_POLICY_H */
