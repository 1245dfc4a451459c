/* names.h - the words used in files and options, and the NCCL numbers they mean
 *
 * Each list is the only place where a word and its number meet; the order is
 * the order in which messages list the words. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define STP_COLL_LIST(X)                                                       \
    X("broadcast", ncclFuncBroadcast)                                          \
    X("reduce", ncclFuncReduce)                                                \
    X("allgather", ncclFuncAllGather)                                          \
    X("reducescatter", ncclFuncReduceScatter)                                  \
    X("allreduce", ncclFuncAllReduce)

#define STP_ALGO_LIST(X)                                                       \
    X("tree", NCCL_ALGO_TREE)                                                  \
    X("ring", NCCL_ALGO_RING)                                                  \
    X("collnet_direct", NCCL_ALGO_COLLNET_DIRECT)                              \
    X("collnet_chain", NCCL_ALGO_COLLNET_CHAIN)                                \
    X("nvls", NCCL_ALGO_NVLS)                                                  \
    X("nvls_tree", NCCL_ALGO_NVLS_TREE)                                        \
    X("pat", NCCL_ALGO_PAT)

#define STP_PROTO_LIST(X)                                                      \
    X("ll", NCCL_PROTO_LL)                                                     \
    X("ll128", NCCL_PROTO_LL128)                                               \
    X("simple", NCCL_PROTO_SIMPLE)

/* The number that the 'len' bytes at 'word' stand for, or -1. */
int stp_coll_from_name(const char *word, size_t len);
int stp_algo_from_name(const char *word, size_t len);
int stp_proto_from_name(const char *word, size_t len);

/* The same for a word as NCCL spells it, in whatever case ("AllReduce",
 * "RING"): 'from_name' is one of those above. */
int stp_from_any_case(const char *word, size_t len,
                      int (*from_name)(const char *word, size_t len));

/* The word for a number, or "?" if the list does not have it.  Static. */
const char *stp_coll_name(int coll);
const char *stp_algo_name(int algo);
const char *stp_proto_name(int proto);

/* All words of a list, joined by ", ", for messages.  Static. */
const char *stp_coll_names(void);
const char *stp_algo_names(void);
const char *stp_proto_names(void);

/* Whether NCCL has a kernel for this collective with this algorithm and
 * protocol at all, on whatever machine: broadcast and reduce only as rings, LL
 * and LL128 only with ring and tree, and so on. */
bool stp_pair_exists(int coll, int algo, int proto);
