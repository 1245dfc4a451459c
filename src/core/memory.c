#include "core/memory.h"

#include <stdio.h>

#include "core/text.h"

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
