#include "core/memory.h"

#include <stdbool.h>
#include <stdio.h>

#include "core/dtype.h"
#include "core/text.h"
#include "nccl_tuner_abi.h"

enum {
    ROUND = 8192,         /* bytes of a CTA */
    MOST_CTAS = 64,       /* of a kernel, as STP_MAX_CHANNELS */
    MOST_RANKS = 1 << 20, /* of which a round is a number of 64 bits */
};

static const char *const words[STP_N_MEMORIES] = {
    [STP_MEMORY_PLAIN] = "plain", [STP_MEMORY_REG] = "reg",
    [STP_MEMORY_SYM] = "sym",     [STP_MEMORY_CE] = "ce",
    [STP_MEMORY_STAGE] = "stage",
};

int stp_memory_from_name(const char *word, size_t len)
{
    return stp_find_word(words, STP_N_MEMORIES, word, len);
}

const char *stp_memory_name(int memory)
{
    return memory >= 0 && memory < STP_N_MEMORIES ? words[memory] : "?";
}

const char *stp_memory_names(void)
{
    return "plain, reg, sym, ce, stage";
}

const char *stp_memory_text(int memory, int min_ctas,
                            char text[STP_MEMORY_TEXT])
{
    const char *name = stp_memory_name(memory);

    if (min_ctas == 0)
        snprintf(text, STP_MEMORY_TEXT, "%s", name);
    else
        snprintf(text, STP_MEMORY_TEXT, "%s, minCTAs %d", name, min_ctas);
    return text;
}

bool stp_memory_is_symmetric(int memory)
{
    return memory == STP_MEMORY_SYM || memory == STP_MEMORY_STAGE;
}

uint64_t stp_memory_round(int coll, uint64_t n_ranks, int min_ctas)
{
    const bool is_of_parts =
        coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;

    if (n_ranks > MOST_RANKS)
        return UINT64_MAX;
    return ROUND * (uint64_t)(min_ctas > 0 ? min_ctas : MOST_CTAS) *
           (is_of_parts ? n_ranks : 1) * (stp_coll_reduces(coll) ? n_ranks : 1);
}
