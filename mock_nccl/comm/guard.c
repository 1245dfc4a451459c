#include "comm/guard.h"

#include <string.h>

static const unsigned char pattern[sizeof(float)] = {0xc0, 0xff, 0xee, 0xc0};

void mock_guard(struct mock_guarded *guarded, const mock_table table,
                int n_algos)
{
    for (int i = 0; i < MOCK_GUARD + MOCK_TABLE + MOCK_GUARD; i++)
        memcpy(&guarded->cells[i], pattern, sizeof(pattern));
    guarded->n = n_algos * NCCL_NUM_PROTOCOLS;
    memcpy(guarded->cells + MOCK_GUARD, table,
           (size_t)guarded->n * sizeof(float));
}

float *mock_guarded_table(struct mock_guarded *guarded)
{
    return guarded->cells + MOCK_GUARD;
}

static int guard_count_broken(const float *cells)
{
    int n = 0;

    for (int i = 0; i < MOCK_GUARD; i++)
        n += memcmp(&cells[i], pattern, sizeof(pattern)) != 0;
    return n;
}

bool mock_guard_holds(const struct mock_guarded *guarded, int *before_ret,
                      int *after_ret)
{
    *before_ret = guard_count_broken(guarded->cells);
    *after_ret = guard_count_broken(guarded->cells + MOCK_GUARD + guarded->n);
    return *before_ret + *after_ret == 0;
}
