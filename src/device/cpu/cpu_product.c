/* cpu_product.c - GEMMs of cpu_math.h, by the BLAS of this build */
#include <stdlib.h>
#include <string.h>

#include "device/cpu/cpu_math.h"

void stp_cpu_scratch_free(struct stp_cpu_scratch *scratch)
{
    for (int i = 0; i < 3; i++)
        free(scratch->matrix[i]);
    memset(scratch, 0, sizeof(*scratch));
}

#ifdef STP_HAVE_OPENBLAS
#include <cblas.h>

static bool product_is_half(int type)
{
    return type == STP_TYPE_F16 || type == STP_TYPE_BF16;
}

enum stp_status stp_cpu_product_check(const struct stp_product *p,
                                      struct stp_error *err)
{
    return stp_product_check(p, err);
}

void stp_cpu_product_threads(unsigned n)
{
    openblas_set_num_threads((int)n);
}

static enum stp_status product_reserve(struct stp_cpu_scratch *s, int matrix,
                                       uint64_t n, struct stp_error *err)
{
    float *room;

    if (n <= s->n[matrix])
        return STP_OK;
    room = malloc(n * sizeof(float));
    if (room == NULL)
        return stp_fail(err, STP_ERR_NOMEM, "no memory for a matrix of %.2f GB",
                        (double)n * sizeof(float) / 1e9);
    free(s->matrix[matrix]);
    s->matrix[matrix] = room;
    s->n[matrix] = n;
    return STP_OK;
}

/* A matrix as BLAS takes it: widened into the scratch if it must be. */
static enum stp_status product_widen(struct stp_cpu_scratch *s, int matrix,
                                     int type, const void *from, uint64_t n,
                                     const void **to, struct stp_error *err)
{
    *to = from;
    if (!product_is_half(type))
        return STP_OK;
    STP_TRY(product_reserve(s, matrix, n, err));
    stp_cpu_cast(n, type, from, STP_TYPE_F32, s->matrix[matrix]);
    *to = s->matrix[matrix];
    return STP_OK;
}

/* Row by row, in the type that BLAS has left. */
#define EPILOGUE(name, type)                                                   \
    static void name(const struct stp_product *p, const type *bias, type *c)   \
    {                                                                          \
        const bool relu = p->epilogue == STP_EPILOGUE_BIAS_RELU;               \
                                                                               \
        for (unsigned i = 0; i < p->gemm.m; i++, c += p->gemm.n)               \
            for (unsigned j = 0; j < p->gemm.n; j++) {                         \
                const type y = c[j] + bias[j];                                 \
                                                                               \
                c[j] = relu && y < 0 ? 0 : y;                                  \
            }                                                                  \
    }

EPILOGUE(finish_f32, float)
EPILOGUE(finish_f64, double)

static enum stp_status product_finish(const struct stp_product *p, void *c,
                                      struct stp_error *err)
{
    struct stp_cpu_scratch wide = {0}; /* of the bias alone: a row is short */
    const void *bias;
    enum stp_status status;

    if (p->epilogue == STP_EPILOGUE_NONE)
        return STP_OK;
    status =
        product_widen(&wide, 0, p->gemm.type, p->bias, p->gemm.n, &bias, err);
    if (status == STP_OK && p->gemm.type == STP_TYPE_F64)
        finish_f64(p, bias, c);
    else if (status == STP_OK)
        finish_f32(p, bias, c);
    stp_cpu_scratch_free(&wide);
    return status;
}

enum stp_status stp_cpu_product(const struct stp_product *p,
                                struct stp_cpu_scratch *scratch,
                                struct stp_error *err)
{
    const uint64_t n_c = (uint64_t)p->gemm.m * p->gemm.n;
    const void *a;
    const void *b;
    void *c = p->c;

    STP_TRY(product_widen(scratch, 0, p->gemm.type, p->a,
                          (uint64_t)p->gemm.m * p->gemm.k, &a, err));
    STP_TRY(product_widen(scratch, 1, p->gemm.type, p->b,
                          (uint64_t)p->gemm.k * p->gemm.n, &b, err));
    if (product_is_half(p->type_c)) {
        STP_TRY(product_reserve(scratch, 2, n_c, err));
        c = scratch->matrix[2];
        if (p->beta != 0)
            stp_cpu_cast(n_c, p->type_c, p->c, STP_TYPE_F32, c);
    }

    const enum CBLAS_TRANSPOSE ta = p->a_transposed ? CblasTrans : CblasNoTrans;
    const enum CBLAS_TRANSPOSE tb = p->b_transposed ? CblasTrans : CblasNoTrans;
    const int m = (int)p->gemm.m;
    const int n = (int)p->gemm.n;
    const int k = (int)p->gemm.k;
    const int lda = p->a_transposed ? m : k;
    const int ldb = p->b_transposed ? k : n;

    if (p->gemm.type == STP_TYPE_F64)
        cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1, a, lda, b, ldb, p->beta,
                    c, n);
    else
        cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1, a, lda, b, ldb,
                    (float)p->beta, c, n);

    STP_TRY(product_finish(p, c, err));
    if (product_is_half(p->type_c))
        stp_cpu_cast(n_c, STP_TYPE_F32, c, p->type_c, p->c);
    return STP_OK;
}

#else

enum stp_status stp_cpu_product_check(const struct stp_product *p,
                                      struct stp_error *err)
{
    if (stp_product_check(p, err) != STP_OK)
        return STP_ERR_RANGE;
    return STP_REFUSE(
        err, "no GEMMs: Steptune was built without OpenBLAS, expected it to be "
             "installed (Debian: libopenblas-dev) and Steptune built again");
}

void stp_cpu_product_threads(unsigned n)
{
}

enum stp_status stp_cpu_product(const struct stp_product *p,
                                struct stp_cpu_scratch *scratch,
                                struct stp_error *err)
{
    return stp_cpu_product_check(p, err);
}

#endif
