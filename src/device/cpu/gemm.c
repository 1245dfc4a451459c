#include "device/cpu/gemm.h"

#include <stdlib.h>

#ifdef STP_HAVE_OPENBLAS
#include <cblas.h>

/* Small numbers of the type, so that a product is neither zero nor infinite. */
static void fill(void *matrix, size_t n, int type)
{
    float *f32 = matrix;
    double *f64 = matrix;

    for (size_t i = 0; i < n; i++)
        if (type == STP_TYPE_F64)
            f64[i] = 1 + (double)(i % 7);
        else
            f32[i] = 1 + (float)(i % 7);
}

static enum stp_status make_room(struct stp_gemm_room *room, int matrix,
                                 size_t n, int type, struct stp_error *err)
{
    const size_t nbytes = n * stp_type_size(type);

    if (nbytes > room->nbytes[matrix]) {
        void *more = realloc(room->matrix[matrix], nbytes);

        if (more == NULL)
            return stp_fail(err, STP_ERR_NOMEM,
                            "no memory for a matrix of %zu bytes", nbytes);
        room->matrix[matrix] = more;
        room->nbytes[matrix] = nbytes;
    } else if (room->type == type)
        return STP_OK;
    fill(room->matrix[matrix], room->nbytes[matrix] / stp_type_size(type),
         type);
    return STP_OK;
}

enum stp_status stp_gemm_prepare(struct stp_gemm_room *room,
                                 const struct stp_gemm *gemm,
                                 unsigned n_threads, struct stp_error *err)
{
    const size_t n[3] = {(size_t)gemm->m * gemm->k, (size_t)gemm->k * gemm->n,
                         (size_t)gemm->m * gemm->n};
    enum stp_status status = STP_OK;

    if (gemm->type != STP_TYPE_F32 && gemm->type != STP_TYPE_F64)
        return stp_fail(err, STP_ERR_RANGE,
                        "no %s matrix products on CPUs, only f32 and f64",
                        stp_type_name(gemm->type));
    if (gemm->m == 0 || gemm->n == 0 || gemm->k == 0)
        return stp_fail(err, STP_ERR_RANGE, "a matrix product of %u x %u x %u",
                        gemm->m, gemm->n, gemm->k);
    for (int i = 0; i < 3 && status == STP_OK; i++)
        status = make_room(room, i, n[i], gemm->type, err);
    if (status == STP_OK)
        room->type = gemm->type;
    openblas_set_num_threads((int)n_threads);
    return status;
}

void stp_gemm_run(const struct stp_gemm_room *room, const struct stp_gemm *gemm)
{
    const int m = (int)gemm->m;
    const int n = (int)gemm->n;
    const int k = (int)gemm->k;

    if (gemm->type == STP_TYPE_F64)
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1,
                    room->matrix[0], k, room->matrix[1], n, 0, room->matrix[2],
                    n);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1,
                    room->matrix[0], k, room->matrix[1], n, 0, room->matrix[2],
                    n);
}

#else

enum stp_status stp_gemm_prepare(struct stp_gemm_room *room,
                                 const struct stp_gemm *gemm,
                                 unsigned n_threads, struct stp_error *err)
{
    (void)room;
    (void)gemm;
    (void)n_threads;
    return stp_fail(err, STP_ERR_RANGE,
                    "no matrix products: Steptune was built without OpenBLAS");
}

void stp_gemm_run(const struct stp_gemm_room *room, const struct stp_gemm *gemm)
{
    (void)room;
    (void)gemm;
}

#endif

void stp_gemm_room_free(struct stp_gemm_room *room)
{
    for (int i = 0; i < 3; i++)
        free(room->matrix[i]);
}
