#include "names.h"

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
