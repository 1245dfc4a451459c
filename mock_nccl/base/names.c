#include "base/names.h"

#include <string.h>

#include "nccl_tuner_abi.h"

#define N_WORDS(list) ((int)(sizeof(list) / sizeof((list)[0])))

static const char *const coll_words[] = {
    [ncclFuncBroadcast] = "broadcast",
    [ncclFuncReduce] = "reduce",
    [ncclFuncAllGather] = "allgather",
    [ncclFuncReduceScatter] = "reducescatter",
    [ncclFuncAllReduce] = "allreduce",
};

static const char *const algo_words[] = {
    [NCCL_ALGO_TREE] = "tree",
    [NCCL_ALGO_RING] = "ring",
    [NCCL_ALGO_COLLNET_DIRECT] = "collnet_direct",
    [NCCL_ALGO_COLLNET_CHAIN] = "collnet_chain",
    [NCCL_ALGO_NVLS] = "nvls",
    [NCCL_ALGO_NVLS_TREE] = "nvls_tree",
    [NCCL_ALGO_PAT] = "pat",
};

static const char *const proto_words[] = {
    [NCCL_PROTO_LL] = "ll",
    [NCCL_PROTO_LL128] = "ll128",
    [NCCL_PROTO_SIMPLE] = "simple",
};

const struct mock_words mock_colls = {coll_words, N_WORDS(coll_words)};
const struct mock_words mock_algos = {algo_words, N_WORDS(algo_words)};
const struct mock_words mock_protos = {proto_words, N_WORDS(proto_words)};

int mock_word_find(const struct mock_words *list, const char *word)
{
    for (int i = 0; i < list->n_words; i++)
        if (strcmp(list->words[i], word) == 0)
            return i;
    return -1;
}

const char *mock_word(const struct mock_words *list, int number)
{
    return number >= 0 && number < list->n_words ? list->words[number] : "?";
}

const char *mock_coll_in_messages(int coll)
{
    static const char *const names[] = {
        [ncclFuncBroadcast] = "Broadcast",
        [ncclFuncReduce] = "Reduce",
        [ncclFuncAllGather] = "AllGather",
        [ncclFuncReduceScatter] = "ReduceScatter",
        [ncclFuncAllReduce] = "AllReduce",
    };

    return coll >= 0 && coll < N_WORDS(names) ? names[coll] : "Invalid";
}

const char *mock_algo_in_messages(int algo)
{
    static const char *const names[] = {
        [NCCL_ALGO_TREE] = "TREE",
        [NCCL_ALGO_RING] = "RING",
        [NCCL_ALGO_COLLNET_DIRECT] = "COLLNET_DIRECT",
        [NCCL_ALGO_COLLNET_CHAIN] = "COLLNET_CHAIN",
        [NCCL_ALGO_NVLS] = "NVLS",
        [NCCL_ALGO_NVLS_TREE] = "NVLS_TREE",
        [NCCL_ALGO_PAT] = "PAT",
    };

    return algo >= 0 && algo < N_WORDS(names) ? names[algo] : "Unknown";
}

const char *mock_proto_in_messages(int proto)
{
    static const char *const names[] = {
        [NCCL_PROTO_LL] = "LL",
        [NCCL_PROTO_LL128] = "LL128",
        [NCCL_PROTO_SIMPLE] = "SIMPLE",
    };

    return proto >= 0 && proto < N_WORDS(names) ? names[proto] : "Unknown";
}

const char *mock_type_in_messages(int coll, size_t element_size, bool fp8)
{
    if (coll == ncclFuncAllGather || coll == ncclFuncBroadcast)
        return "ncclInt8";
    if (fp8)
        return "ncclFloat8e4m3";
    switch (element_size) {
    case 1:
        return "ncclInt8";
    case 2:
        return "ncclBfloat16";
    case 4:
        return "ncclFloat32";
    default:
        return "ncclFloat64";
    }
}
