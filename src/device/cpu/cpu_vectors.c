#include "device/cpu/cpu_vectors.h"

#include <stdlib.h>

enum stp_status stp_cpu_vectors_make(struct stp_cpu_vectors *v, uint64_t nbytes,
                                     struct stp_error *err)
{
    if (nbytes <= v->nbytes)
        return STP_OK;
    stp_cpu_vectors_free(v);
    v->x = malloc(nbytes);
    v->y = malloc(nbytes);
    if (v->x == NULL || v->y == NULL)
        return stp_fail(err, STP_ERR_NOMEM,
                        "no memory for two vectors of %llu bytes",
                        (unsigned long long)nbytes);
    for (uint64_t i = 0; i < nbytes / sizeof(float); i++) {
        v->x[i] = 1 + (float)(i % 7);
        v->y[i] = 1 + (float)(i % 5);
    }
    v->nbytes = nbytes;
    return STP_OK;
}

void stp_cpu_vectors_run(const struct stp_cpu_vectors *v, uint64_t nbytes)
{
    const float *restrict x = v->x;
    float *restrict y = v->y;
    const uint64_t n = nbytes / sizeof(float);

    for (uint64_t i = 0; i < n; i++)
        y[i] = x[i] - y[i];
}

void stp_cpu_vectors_free(struct stp_cpu_vectors *v)
{
    free(v->x);
    free(v->y);
    *v = (struct stp_cpu_vectors){0};
}
