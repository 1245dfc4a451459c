#include "core/memory.h"

#include <stdio.h>

#include "core/text.h"
#include "nccl_tuner_abi.h"

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

uint64_t stp_memory_padded(int coll, unsigned n_ranks, int min_ctas,
                           uint64_t n_bytes)
{
    const uint64_t round =
        8192 * (uint64_t)min_ctas * (coll == ncclFuncAllGather ? 1 : n_ranks);
    uint64_t unit = 16;

    if (round > 0 && n_bytes >= round / 4)
        unit = n_bytes % round > round / 2 ? round : round / 4;
    return (n_bytes + unit - 1) / unit * unit;
}
