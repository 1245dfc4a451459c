/*
 * planted_policy.h - for tuners that read a policy, or rather its first word on
 * all-reduce
 */
#ifndef TEST_PLANTED_POLICY_H
#define TEST_PLANTED_POLICY_H

#include <stdio.h>
#include <string.h>

#include "planted.h"

enum { POLICY_NOTHING, POLICY_TREE, POLICY_RING };

static inline const char *planted_policy_path(void)
{
    const char *path = getenv("NCCL_TUNER_CONFIG_FILE");

    return path != NULL ? path : "nccl_tuner.conf";
}

static inline int planted_policy(const char *path)
{
    FILE *fp = fopen(path, "r");
    int policy = POLICY_NOTHING;
    char line[256];

    while (fp != NULL && fgets(line, sizeof(line), fp) != NULL) {
        if (strncmp(line, "allreduce,", 10) != 0)
            continue;
        policy = strstr(line, ",tree,") != NULL ? POLICY_TREE : POLICY_RING;
        break;
    }
    if (fp != NULL)
        fclose(fp);
    return policy;
}

static inline void planted_follow(const struct planted_call *call, int policy)
{
    if (policy == POLICY_TREE && call->coll == ncclFuncAllReduce)
        planted_take(call, NCCL_ALGO_TREE, NCCL_PROTO_LL, 4);
    else if (policy == POLICY_RING)
        planted_take(call, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 8);
}

#endif /* TEST_PLANTED_POLICY_H */
