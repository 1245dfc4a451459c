#include "base/names.h"

#include <string.h>

#include "nccl_tuner_abi.h"

#define N_WORDS(list) ((int)(sizeof(list) / sizeof((list)[0])))

/* The number of an algorithm, protocol or collective, and its spelling in
 * machine folders, in NCCL's log and in NCCL_ALGO and NCCL_PROTO. */
// clang-format off
#define COLLS(WORD) \
    WORD(ncclFuncBroadcast, "broadcast", "Broadcast", "Broadcast") \
    WORD(ncclFuncReduce, "reduce", "Reduce", "Reduce") \
    WORD(ncclFuncAllGather, "allgather", "AllGather", "AllGather") \
    WORD(ncclFuncReduceScatter, "reducescatter", "ReduceScatter", "ReduceScatter") \
    WORD(ncclFuncAllReduce, "allreduce", "AllReduce", "AllReduce")
#define ALGOS(WORD) \
    WORD(NCCL_ALGO_TREE, "tree", "TREE", "Tree") \
    WORD(NCCL_ALGO_RING, "ring", "RING", "Ring") \
    WORD(NCCL_ALGO_COLLNET_DIRECT, "collnet_direct", "COLLNET_DIRECT", "CollNetDirect") \
    WORD(NCCL_ALGO_COLLNET_CHAIN, "collnet_chain", "COLLNET_CHAIN", "CollNetChain") \
    WORD(NCCL_ALGO_NVLS, "nvls", "NVLS", "NVLS") \
    WORD(NCCL_ALGO_NVLS_TREE, "nvls_tree", "NVLS_TREE", "NVLSTree") \
    WORD(NCCL_ALGO_PAT, "pat", "PAT", "PAT")
#define PROTOS(WORD) \
    WORD(NCCL_PROTO_LL, "ll", "LL", "LL") \
    WORD(NCCL_PROTO_LL128, "ll128", "LL128", "LL128") \
    WORD(NCCL_PROTO_SIMPLE, "simple", "SIMPLE", "Simple")
#define IN_FOLDERS(number, folder, message, variable)   [number] = folder,
#define IN_MESSAGES(number, folder, message, variable)  [number] = message,
#define IN_VARIABLES(number, folder, message, variable) [number] = variable,
#define LIST(linkage, name, words, form) \
    static const char *const name##_words[] = {words(form)}; \
    linkage const struct mock_words name = {name##_words, N_WORDS(name##_words)};

LIST(, mock_colls, COLLS, IN_FOLDERS)
LIST(, mock_algos, ALGOS, IN_FOLDERS)
LIST(, mock_protos, PROTOS, IN_FOLDERS)
LIST(static, message_algos, ALGOS, IN_MESSAGES)
LIST(static, message_protos, PROTOS, IN_MESSAGES)
LIST(, mock_variable_colls, COLLS, IN_VARIABLES)
LIST(, mock_variable_algos, ALGOS, IN_VARIABLES)
LIST(, mock_variable_protos, PROTOS, IN_VARIABLES)
// clang-format on

int mock_word_find(const struct mock_words *list, const char *word)
{
    for (int i = 0; i < list->n_words; i++)
        if (strcmp(list->words[i], word) == 0)
            return i;
    return -1;
}

static const char *names_word_or(const struct mock_words *list, int number,
                                 const char *otherwise)
{
    return number >= 0 && number < list->n_words ? list->words[number]
                                                 : otherwise;
}

const char *mock_word(const struct mock_words *list, int number)
{
    return names_word_or(list, number, "?");
}

const char *mock_coll_in_messages(int coll)
{
    return names_word_or(&mock_variable_colls, coll, "Invalid");
}

const char *mock_algo_in_messages(int algo)
{
    return names_word_or(&message_algos, algo, "Unknown");
}

const char *mock_proto_in_messages(int proto)
{
    return names_word_or(&message_protos, proto, "Unknown");
}

const char *mock_type_in_messages(int coll, size_t element_size, bool fp8)
{
    static const char *const floats[] = {
        [1] = "ncclInt8", [2] = "ncclBfloat16", [4] = "ncclFloat32"};

    if (coll == ncclFuncAllGather || coll == ncclFuncBroadcast)
        return "ncclInt8";
    if (fp8)
        return "ncclFloat8e4m3";
    if (element_size != 1 && element_size != 2 && element_size != 4)
        return "ncclFloat64";
    return floats[element_size];
}
