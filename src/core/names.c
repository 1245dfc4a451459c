#include "core/names.h"

#include <string.h>

#include "core/room.h"
#include "nccl_tuner_abi.h"

struct entry {
    const char *word;
    int value;
};

#define ENTRY(word, value) {word, value},
static const struct entry colls[] = {STP_COLL_LIST(ENTRY)};
static const struct entry algos[] = {STP_ALGO_LIST(ENTRY)};
static const struct entry protos[] = {STP_PROTO_LIST(ENTRY)};
#undef ENTRY

/* ", " before every word; the functions that return these skip the first. */
#define JOIN(word, value) ", " word
static const char coll_words[] = STP_COLL_LIST(JOIN);
static const char algo_words[] = STP_ALGO_LIST(JOIN);
static const char proto_words[] = STP_PROTO_LIST(JOIN);
#undef JOIN

static int names_find(const struct entry *list, size_t n, const char *word,
                      size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i].word) == len && memcmp(list[i].word, word, len) == 0)
            return list[i].value;
    return -1;
}

static const char *names_word_of(const struct entry *list, size_t n, int value)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].value == value)
            return list[i].word;
    return "?";
}

int stp_coll_from_name(const char *word, size_t len)
{
    return names_find(colls, STP_N_OF(colls), word, len);
}

int stp_algo_from_name(const char *word, size_t len)
{
    return names_find(algos, STP_N_OF(algos), word, len);
}

int stp_proto_from_name(const char *word, size_t len)
{
    return names_find(protos, STP_N_OF(protos), word, len);
}

int stp_from_any_case(const char *word, size_t len,
                      int (*from_name)(const char *word, size_t len))
{
    char small[32];

    if (len > sizeof(small))
        return -1;                   /* no word is so long */
    for (size_t i = 0; i < len; i++) /* tolower() would ask the locale */
        small[i] = 'A' <= word[i] && word[i] <= 'Z'
                       ? (char)(word[i] - 'A' + 'a')
                       : word[i];
    return from_name(small, len);
}

const char *stp_coll_name(int coll)
{
    return names_word_of(colls, STP_N_OF(colls), coll);
}

const char *stp_algo_name(int algo)
{
    return names_word_of(algos, STP_N_OF(algos), algo);
}

const char *stp_proto_name(int proto)
{
    return names_word_of(protos, STP_N_OF(protos), proto);
}

const char *stp_coll_names(void)
{
    return coll_words + 2;
}

const char *stp_algo_names(void)
{
    return algo_words + 2;
}

const char *stp_proto_names(void)
{
    return proto_words + 2;
}

/* Bit a is set if NCCL generates kernels of algorithm a for the collective
 * (2.21 to 2.30 alike). */
static const unsigned coll_algos[NCCL_NUM_TUNED_FUNCS] = {
    [ncclFuncBroadcast] = 1u << NCCL_ALGO_RING,
    [ncclFuncReduce] = 1u << NCCL_ALGO_RING,
    [ncclFuncAllGather] = 1u << NCCL_ALGO_RING | 1u << NCCL_ALGO_PAT |
                          1u << NCCL_ALGO_NVLS | 1u << NCCL_ALGO_COLLNET_DIRECT,
    [ncclFuncReduceScatter] = 1u << NCCL_ALGO_RING | 1u << NCCL_ALGO_PAT |
                              1u << NCCL_ALGO_NVLS |
                              1u << NCCL_ALGO_COLLNET_DIRECT,
    [ncclFuncAllReduce] =
        (1u << NCCL_NUM_ALGORITHMS) - 1 - (1u << NCCL_ALGO_PAT),
};

bool stp_pair_exists(int coll, int algo, int proto)
{
    if (coll < 0 || coll >= NCCL_NUM_TUNED_FUNCS || algo < 0 ||
        algo >= NCCL_NUM_ALGORITHMS || proto < 0 || proto >= NCCL_NUM_PROTOCOLS)
        return false;
    if (!(coll_algos[coll] >> algo & 1))
        return false;
    return proto == NCCL_PROTO_SIMPLE || algo == NCCL_ALGO_TREE ||
           algo == NCCL_ALGO_RING;
}
