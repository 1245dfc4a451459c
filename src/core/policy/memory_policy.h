/* memory_policy.h - memory policies and stage policies: rules that say what the
 * buffers of a message should be registered as, by the application or by a
 * library that stages them
 *
 * steptune-policy(5) defines the format.  Like a policy of arms they are
 * refused as a whole for a line that does not parse: stp_policy_load().
 * The first rule that matches wins; where none does, buffers stay plain. */
#pragma once

#include "core/memory.h"
#include "core/policy/policy.h"

/* Behind the path of a policy of arms. */
#define STP_MEMORY_SUFFIX ".memory"
#define STP_STAGE_SUFFIX  ".stage"

/* The kind of the policy in a file of that name, by its suffix. */
enum stp_policy_kind stp_policy_kind_of_file(const char *path);

/* Loads a policy of the kind that the name of its file says. */
enum stp_status stp_policy_load_any(const char *path,
                                    struct stp_policy **policy_ret,
                                    struct stp_error *err);

struct stp_memory_query {
    int coll;         /* ncclFunc_t */
    uint64_t n_bytes; /* as NCCL counts them for a tuner */
    size_t n_ranks;   /* 0: no rule matches */
    size_t n_nodes;   /* >= 1 */
    bool overlaps;    /* with compute; of a stage policy, unless the job says
                         that nothing runs beside its collectives */
    const char *gpu;  /* model; NULL or "": not known, and rules that name one
                         do not match */
    bool captured;    /* into a CUDA graph, which NCCL requires of all ranks or
                         of none; no memory policy asks */
};

/* Whether the rule decides only messages that fill whole rounds of its CTAs
 * (stp_memory_round()): it is of symmetric memory, registered or staged, and of
 * more than one size.  Others may take longer than any that was measured.  A
 * rule of one size decides that one, as it was measured. */
bool stp_memory_rule_takes_rounds(const struct stp_rule *rule);

/* Whether a message of its collective, among so many ranks, is one of those
 * that the rule decides. */
bool stp_memory_rule_decides(const struct stp_rule *rule, uint64_t n_ranks,
                             uint64_t n_bytes);

/* Whether the rule is for the ranks, nodes and GPU of the query. */
bool stp_memory_rule_is_for(const struct stp_rule *rule,
                            const struct stp_memory_query *query);

/* Why a rule stages nothing at all; NULL: it may, or is for no staging. */
const char *stp_memory_rule_is_idle(const struct stp_rule *rule);

/* A rule to stage matches only messages that the library stages. */
bool stp_memory_rule_matches(const struct stp_rule *rule,
                             const struct stp_memory_query *query);

/* The first rule that matches, or NULL; takes time with the number of rules.
 * Any number of threads may ask at once. */
const struct stp_rule *
stp_memory_policy_match(const struct stp_policy *policy,
                        const struct stp_memory_query *query);
