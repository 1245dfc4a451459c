/* cuda_gemm.c - matrix products by cuBLAS, which is opened when one is asked
 * for: collectives do without */
#include <cublas_v2.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "device/cuda/kernels.h"

struct cublas {
    cublasStatus_t (*create)(cublasHandle_t *handle);
    cublasStatus_t (*destroy)(cublasHandle_t handle);
    cublasStatus_t (*set_stream)(cublasHandle_t handle, cudaStream_t stream);
    cublasStatus_t (*gemm)(cublasHandle_t handle, cublasOperation_t a_op,
                           cublasOperation_t b_op, int m, int n, int k,
                           const void *alpha, const void *a,
                           cudaDataType a_type, int lda, const void *b,
                           cudaDataType b_type, int ldb, const void *beta,
                           void *c, cudaDataType c_type, int ldc,
                           cublasComputeType_t compute, cublasGemmAlgo_t algo);
};

struct stp_cuda_gemm {
    struct cublas blas;
    cublasHandle_t handle;
    void *matrix[3]; /* A, B and C */
    size_t n_bytes;  /* of each */
    int type;        /* enum stp_type */
};

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
    {"cublasCreate_v2", offsetof(struct cublas, create)},
    {"cublasDestroy_v2", offsetof(struct cublas, destroy)},
    {"cublasSetStream_v2", offsetof(struct cublas, set_stream)},
    {"cublasGemmEx", offsetof(struct cublas, gemm)},
};

static const struct {
    int type; /* enum stp_type */
    cudaDataType data;
    cublasComputeType_t compute;
} types[] = {
    {STP_TYPE_F32, CUDA_R_32F, CUBLAS_COMPUTE_32F},
    {STP_TYPE_F64, CUDA_R_64F, CUBLAS_COMPUTE_64F},
    {STP_TYPE_F16, CUDA_R_16F, CUBLAS_COMPUTE_32F},
    {STP_TYPE_BF16, CUDA_R_16BF, CUBLAS_COMPUTE_32F},
};

static int find_type(int type)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (types[i].type == type)
            return (int)i;
    return -1;
}

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

static enum stp_status open_cublas(struct cublas *blas, struct stp_error *err)
{
    void *library = dlopen("libcublas.so." TEXT(CUBLAS_VER_MAJOR), RTLD_NOW);

    if (library == NULL)
        return stp_fail(err, STP_ERR_NOTHING,
                        "no cuBLAS, which compute needs: %s", dlerror());
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *function = dlsym(library, functions[i].name);

        if (function == NULL)
            return stp_fail(err, STP_ERR_NOTHING, "cuBLAS has no %s",
                            functions[i].name);
        memcpy((char *)blas + functions[i].offset, &function, sizeof(function));
    }
    return STP_OK;
}

static enum stp_status make(struct stp_cuda_rank *rank, struct stp_error *err)
{
    struct stp_cuda_gemm *g = calloc(1, sizeof(*g));
    enum stp_status status;

    if (g == NULL)
        return stp_nomem(err);
    status = open_cublas(&g->blas, err);
    cudaSetDevice(rank->gpu);
    if (status == STP_OK && g->blas.create(&g->handle) != CUBLAS_STATUS_SUCCESS)
        status = stp_fail(err, STP_ERR_DEVICE,
                          "rank %u, GPU %d: cublasCreate failed", rank->rank,
                          rank->gpu);
    if (status == STP_OK)
        rank->gemm = g;
    else
        free(g);
    return status;
}

/* Random data: on zeros GPUs draw less power and run faster. */
static cudaError_t make_matrices(struct stp_cuda_gemm *g, int type,
                                 size_t n_bytes)
{
    const struct stp_pattern pattern = {
        .coll = ncclFuncAllReduce, .type = type, .ranks = 64, .block = 1};
    cudaError_t result = cudaSuccess;

    for (unsigned i = 0; i < 3 && result == cudaSuccess; i++) {
        cudaFree(g->matrix[i]);
        g->matrix[i] = NULL;
        result = cudaMalloc(&g->matrix[i], n_bytes);
        if (result == cudaSuccess)
            result = stp_kernel_fill(&pattern, i, g->matrix[i],
                                     n_bytes / stp_type_size(type), 0);
    }
    if (result == cudaSuccess)
        result = cudaDeviceSynchronize();
    g->n_bytes = result == cudaSuccess ? n_bytes : 0;
    g->type = type;
    return result;
}

static size_t largest(const struct stp_gemm *gemm)
{
    size_t a = (size_t)gemm->m * gemm->k;
    size_t b = (size_t)gemm->k * gemm->n;
    size_t c = (size_t)gemm->m * gemm->n;
    size_t most = a > b ? a : b;

    return (most > c ? most : c) * stp_type_size(gemm->type);
}

enum stp_status stp_cuda_gemm_check(const struct stp_gemm *gemm,
                                    struct stp_error *err)
{
    if (find_type(gemm->type) >= 0)
        return STP_OK;
    return stp_fail(err, STP_ERR_RANGE,
                    "no matrix product in %s, expected f32, f64, f16 or bf16",
                    stp_type_name(gemm->type));
}

enum stp_status stp_cuda_gemm_prepare(struct stp_cuda_rank *rank,
                                      const struct stp_gemm *gemm,
                                      struct stp_error *err)
{
    if (rank->gemm == NULL) {
        enum stp_status status = make(rank, err);

        if (status != STP_OK)
            return status;
    }
    if (rank->gemm->n_bytes >= largest(gemm) && rank->gemm->type == gemm->type)
        return STP_OK;
    cudaSetDevice(rank->gpu);
    return stp_cuda_result(rank,
                           make_matrices(rank->gemm, gemm->type, largest(gemm)),
                           "room for matrices", err);
}

/* cuBLAS has columns first: the product of rows is that of columns with both
 * the other way round. */
enum stp_status stp_cuda_gemm_run(const struct stp_cuda_rank *rank,
                                  unsigned stream, const struct stp_gemm *gemm,
                                  struct stp_error *err)
{
    static const double one64 = 1, zero64 = 0;
    static const float one32 = 1, zero32 = 0;
    const struct stp_cuda_gemm *g = rank->gemm;
    int type = find_type(gemm->type);
    bool is_64 = gemm->type == STP_TYPE_F64;
    cudaDataType data = types[type].data;
    int m = (int)gemm->m, n = (int)gemm->n, k = (int)gemm->k;
    cublasStatus_t result = g->blas.set_stream(g->handle, rank->stream[stream]);

    if (result == CUBLAS_STATUS_SUCCESS)
        result = g->blas.gemm(
            g->handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k,
            is_64 ? (const void *)&one64 : &one32, g->matrix[1], data, n,
            g->matrix[0], data, k, is_64 ? (const void *)&zero64 : &zero32,
            g->matrix[2], data, n, types[type].compute, CUBLAS_GEMM_DEFAULT);
    if (result == CUBLAS_STATUS_SUCCESS)
        return STP_OK;
    return stp_fail(err, STP_ERR_DEVICE,
                    "rank %u, GPU %d: cublasGemmEx failed with status %d",
                    rank->rank, rank->gpu, (int)result);
}

void stp_cuda_gemm_free(struct stp_cuda_gemm *g)
{
    if (g == NULL)
        return;
    for (int i = 0; i < 3; i++)
        cudaFree(g->matrix[i]);
    g->blas.destroy(g->handle);
    free(g);
}
