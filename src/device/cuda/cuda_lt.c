#include "device/cuda/cuda_lt.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/train_kernels.h"
#include "device/dl_table.h"

enum {
    WORKSPACE = 32 << 20, /* bytes, as cuBLAS takes on Hopper by itself */
    MOST_ALIGNED = 256,
    N_ALGORITHMS = 4, /* that are asked for; the first that runs is taken */
    N_KEYS = 14,
    NANS = 1 << 20, /* bytes */
};

/* All that a plan depends on. */
struct key {
    uint32_t of[N_KEYS];
};

struct stp_cuda_lt_plan {
    struct key key;
    enum stp_epilogue fused; /* the library's part of the epilogue */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c; /* in the library's order */
    cublasLtMatmulAlgo_t algorithm;
};

/* libcublasLt's functions, by the names they have here. */
#define FUNCTIONS(X)                                                           \
    X(create, cublasLtCreate)                                                  \
    X(destroy, cublasLtDestroy)                                                \
    X(desc_create, cublasLtMatmulDescCreate)                                   \
    X(desc_destroy, cublasLtMatmulDescDestroy)                                 \
    X(desc_set, cublasLtMatmulDescSetAttribute)                                \
    X(layout_create, cublasLtMatrixLayoutCreate)                               \
    X(layout_destroy, cublasLtMatrixLayoutDestroy)                             \
    X(preference_create, cublasLtMatmulPreferenceCreate)                       \
    X(preference_destroy, cublasLtMatmulPreferenceDestroy)                     \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute)                    \
    X(heuristic, cublasLtMatmulAlgoGetHeuristic)                               \
    X(matmul, cublasLtMatmul)

struct cublas_lt {
#define MEMBER(member, function) __typeof__(&(function)) member;
    FUNCTIONS(MEMBER)
};

static const struct stp_dl_symbol functions[] = {
#define SYMBOL(member, function)                                               \
    {#function, offsetof(struct cublas_lt, member)},
    FUNCTIONS(SYMBOL)};

struct stp_cuda_lt {
    const struct stp_cuda_rank *rank;
    struct cublas_lt api;
    cublasLtHandle_t handle;
    void *workspace[STP_N_STREAMS];
    void *nans; /* in all types: all bits are set */
    struct stp_cuda_lt_plan *plans;
    size_t n_plans;
};

/* ---- opening ---- */

static enum stp_status lt_result(const struct stp_cuda_lt *lt,
                                 cublasStatus_t result, const char *call,
                                 struct stp_error *err)
{
    if (result == CUBLAS_STATUS_SUCCESS)
        return STP_OK;
    return stp_fail(err, STP_ERR_DEVICE,
                    "rank %u, GPU %d: %s failed with status %d", lt->rank->rank,
                    lt->rank->gpu, call, (int)result);
}

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

enum stp_status stp_cuda_lt_open(const struct stp_cuda_rank *rank,
                                 struct stp_cuda_lt **lt_ret,
                                 struct stp_error *err)
{
    void *library = dlopen("libcublasLt.so." TEXT(CUBLAS_VER_MAJOR), RTLD_NOW);
    struct stp_cuda_lt *lt;
    enum stp_status status;
    cudaError_t result;

    if (library == NULL)
        return stp_fail(err, STP_ERR_NOTHING,
                        "no cuBLASLt, which GEMMs need: %s", dlerror());
    lt = calloc(1, sizeof(*lt));
    if (lt == NULL)
        return stp_nomem(err);
    lt->rank = rank;
    status =
        stp_dl_find(library, "cuBLASLt", functions,
                    sizeof(functions) / sizeof(functions[0]), &lt->api, err);
    STP_THEN(status,
             lt_result(lt, lt->api.create(&lt->handle), "cublasLtCreate", err));
    result = cudaMalloc(&lt->nans, NANS);
    for (unsigned s = 0; s < STP_N_STREAMS; s++)
        STP_CUDA_THEN(result, cudaMalloc(&lt->workspace[s], WORKSPACE));
    STP_CUDA_THEN(result, cudaMemset(lt->nans, 0xff, NANS));
    STP_CUDA_THEN(result, cudaDeviceSynchronize());
    STP_THEN(status, stp_cuda_result(rank, result, "room for GEMMs", err));
    if (status == STP_OK)
        *lt_ret = lt;
    else
        stp_cuda_lt_close(lt);
    return status;
}

/* ---- types and plans ---- */

static const struct {
    int type; /* enum stp_type */
    cudaDataType data;
    cudaDataType scale;
    cublasComputeType_t compute;
} types[] = {
    {STP_TYPE_F32, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
    {STP_TYPE_F64, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F},
    {STP_TYPE_F16, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
    {STP_TYPE_BF16, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F},
};

static int lt_find_type(int type)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (types[i].type == type)
            return (int)i;
    return -1;
}

static uint32_t lt_alignment(const void *address)
{
    const uintptr_t bit = (uintptr_t)address & -(uintptr_t)address;

    return bit == 0 || bit > MOST_ALIGNED ? MOST_ALIGNED : (uint32_t)bit;
}

static struct key lt_key(const struct stp_product *p)
{
    return (struct key){
        {p->gemm.m, p->gemm.n, p->gemm.k, p->a_transposed, p->b_transposed,
         p->tf32, (uint32_t)p->gemm.type, (uint32_t)p->type_c, p->beta != 0,
         (uint32_t)p->epilogue, lt_alignment(p->a), lt_alignment(p->b),
         lt_alignment(p->c), lt_alignment(p->bias)}};
}

const struct stp_cuda_lt_plan *stp_cuda_lt_find(const struct stp_cuda_lt *lt,
                                                const struct stp_product *p)
{
    const struct key key = lt_key(p);

    for (size_t i = 0; i < lt->n_plans; i++)
        if (memcmp(&lt->plans[i].key, &key, sizeof(key)) == 0)
            return &lt->plans[i];
    return NULL;
}

/* ---- running ---- */

static cublasStatus_t lt_multiply(const struct stp_cuda_lt *lt,
                                  const struct stp_cuda_lt_plan *plan,
                                  unsigned stream, const struct stp_product *p,
                                  const void *bias)
{
    static const double one64 = 1, zero64 = 0;
    static const float one32 = 1, zero32 = 0;
    const bool is_64 = p->gemm.type == STP_TYPE_F64;
    const void *one = is_64 ? (const void *)&one64 : &one32;
    const void *zero = is_64 ? (const void *)&zero64 : &zero32;
    cublasStatus_t result = CUBLAS_STATUS_SUCCESS;

    if (plan->fused != STP_EPILOGUE_NONE)
        result = lt->api.desc_set(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                  &bias, sizeof(bias));
    STP_CUDA_THEN(result,
                  lt->api.matmul(lt->handle, plan->desc, one, p->b, plan->a,
                                 p->a, plan->b, p->beta != 0 ? one : zero, p->c,
                                 plan->c, p->c, plan->c, &plan->algorithm,
                                 lt->workspace[stream], WORKSPACE,
                                 lt->rank->stream[stream]));
    return result;
}

enum stp_status stp_cuda_lt_run(struct stp_cuda_lt *lt,
                                const struct stp_cuda_lt_plan *plan,
                                unsigned stream, const struct stp_product *p,
                                struct stp_error *err)
{
    const struct stp_train_epilogue rest = {
        .m = p->gemm.m,
        .n = p->gemm.n,
        .type = p->gemm.type,
        .type_c = p->type_c,
        .relu = p->epilogue == STP_EPILOGUE_BIAS_RELU,
        .c = p->c,
        .bias = plan->fused == STP_EPILOGUE_NONE ? p->bias : NULL};
    const cublasStatus_t result = lt_multiply(lt, plan, stream, p, p->bias);

    if (result != CUBLAS_STATUS_SUCCESS)
        return lt_result(lt, result, "cublasLtMatmul", err);
    if (plan->fused == p->epilogue)
        return STP_OK;
    return stp_cuda_result(lt->rank,
                           stp_train_epilogue(&rest, lt->rank->stream[stream]),
                           "the epilogue of a GEMM", err);
}

/* ---- making plans ---- */

static void lt_free_plan(const struct stp_cuda_lt *lt,
                         struct stp_cuda_lt_plan *plan)
{
    if (plan->desc != NULL)
        lt->api.desc_destroy(plan->desc);
    if (plan->a != NULL)
        lt->api.layout_destroy(plan->a);
    if (plan->b != NULL)
        lt->api.layout_destroy(plan->b);
    if (plan->c != NULL)
        lt->api.layout_destroy(plan->c);
    plan->desc = NULL;
    plan->a = plan->b = plan->c = NULL;
}

static cublasStatus_t lt_set_int(const struct stp_cuda_lt *lt,
                                 const struct stp_cuda_lt_plan *plan,
                                 cublasLtMatmulDescAttributes_t attribute,
                                 int32_t value)
{
    return lt->api.desc_set(plan->desc, attribute, &value, sizeof(value));
}

static cublasStatus_t lt_describe(const struct stp_cuda_lt *lt,
                                  struct stp_cuda_lt_plan *plan,
                                  const struct stp_product *p)
{
    static const int32_t epilogues[STP_N_EPILOGUES] = {
        [STP_EPILOGUE_NONE] = CUBLASLT_EPILOGUE_DEFAULT,
        [STP_EPILOGUE_BIAS] = CUBLASLT_EPILOGUE_BIAS,
        [STP_EPILOGUE_BIAS_RELU] = CUBLASLT_EPILOGUE_RELU_BIAS,
    };
    const int type = lt_find_type(p->gemm.type);
    const bool tf32 = p->tf32 && p->gemm.type == STP_TYPE_F32;
    cublasStatus_t result = lt->api.desc_create(
        &plan->desc, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : types[type].compute,
        types[type].scale);

    STP_CUDA_THEN(result,
                  lt_set_int(lt, plan, CUBLASLT_MATMUL_DESC_TRANSA,
                             p->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
    STP_CUDA_THEN(result,
                  lt_set_int(lt, plan, CUBLASLT_MATMUL_DESC_TRANSB,
                             p->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
    STP_CUDA_THEN(result, lt_set_int(lt, plan, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                     epilogues[plan->fused]));
    if (result == CUBLAS_STATUS_SUCCESS && plan->fused != STP_EPILOGUE_NONE)
        result = lt->api.desc_set(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                  &p->bias, sizeof(p->bias));
    return result;
}

/* The library has columns first.  To it our C = op(A) op(B) is transposed, and
 * so are A and B as they lie: C' = op(B)' op(A)', with B for the first.  A bias
 * that is one a column here is one a row there, as the library adds it. */
static cublasStatus_t lt_lay_out(const struct stp_cuda_lt *lt,
                                 struct stp_cuda_lt_plan *plan,
                                 const struct stp_product *p)
{
    const cudaDataType type = types[lt_find_type(p->gemm.type)].data;
    const cudaDataType type_c = types[lt_find_type(p->type_c)].data;
    const unsigned b_rows = p->b_transposed ? p->gemm.k : p->gemm.n;
    const unsigned b_columns = p->b_transposed ? p->gemm.n : p->gemm.k;
    const unsigned a_rows = p->a_transposed ? p->gemm.m : p->gemm.k;
    const unsigned a_columns = p->a_transposed ? p->gemm.k : p->gemm.m;
    cublasStatus_t result =
        lt->api.layout_create(&plan->a, type, b_rows, b_columns, b_rows);

    STP_CUDA_THEN(result, lt->api.layout_create(&plan->b, type, a_rows,
                                                a_columns, a_rows));
    STP_CUDA_THEN(result, lt->api.layout_create(&plan->c, type_c, p->gemm.n,
                                                p->gemm.m, p->gemm.n));
    return result;
}

/* Takes the first algorithm that runs, of those that the library proposes for
 * operands so aligned. */
static cublasStatus_t lt_choose(const struct stp_cuda_lt *lt,
                                struct stp_cuda_lt_plan *plan,
                                const struct stp_product *p)
{
    const size_t workspace = WORKSPACE;
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        uint32_t value;
    } alignments[] = {
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, lt_alignment(p->b)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, lt_alignment(p->a)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, lt_alignment(p->c)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, lt_alignment(p->c)},
    };
    cublasLtMatmulHeuristicResult_t found[N_ALGORITHMS];
    cublasLtMatmulPreference_t preference;
    cublasStatus_t result = lt->api.preference_create(&preference);
    int n = 0;

    if (result != CUBLAS_STATUS_SUCCESS)
        return result;
    result = lt->api.preference_set(preference,
                                    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                    &workspace, sizeof(workspace));
    for (int i = 0; i < 4; i++)
        STP_CUDA_THEN(result, lt->api.preference_set(
                                  preference, alignments[i].attribute,
                                  &alignments[i].value, sizeof(uint32_t)));
    STP_CUDA_THEN(result, lt->api.heuristic(
                              lt->handle, plan->desc, plan->a, plan->b, plan->c,
                              plan->c, preference, N_ALGORITHMS, found, &n));
    lt->api.preference_destroy(preference);
    if (result != CUBLAS_STATUS_SUCCESS)
        return result;
    for (int i = 0; i < n; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS) {
            plan->algorithm = found[i].algo;
            return CUBLAS_STATUS_SUCCESS;
        }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

/* Tries the plan with a bias of NaN.  A plan that does not run keeps none. */
static enum stp_status lt_keeps_nan(const struct stp_cuda_lt *lt,
                                    const struct stp_cuda_lt_plan *plan,
                                    const struct stp_product *p,
                                    bool *keeps_ret, struct stp_error *err)
{
    cudaStream_t stream = lt->rank->stream[STP_STREAM_MAIN];
    uint32_t bits = 0;
    cudaError_t result;

    *keeps_ret = false;
    if ((uint64_t)p->gemm.n * stp_type_size(p->gemm.type) > NANS ||
        lt_multiply(lt, plan, STP_STREAM_MAIN, p, lt->nans) !=
            CUBLAS_STATUS_SUCCESS)
        return STP_OK;
    result = cudaMemcpyAsync(&bits, p->c, stp_type_size(p->type_c),
                             cudaMemcpyDeviceToHost, stream);
    STP_CUDA_THEN(result, cudaStreamSynchronize(stream));
    *keeps_ret = p->type_c == STP_TYPE_F32   ? (bits & 0x7fffffff) > 0x7f800000
                 : p->type_c == STP_TYPE_F16 ? (bits & 0x7fff) > 0x7c00
                                             : (bits & 0x7fff) > 0x7f80;
    return stp_cuda_result(lt->rank, result, "a first GEMM", err);
}

/* As much of the epilogue in the library's kernel as it has, and does right. */
static enum stp_status lt_make_plan(const struct stp_cuda_lt *lt,
                                    struct stp_cuda_lt_plan *plan,
                                    const struct stp_product *p,
                                    struct stp_error *err)
{
    const bool may_fuse =
        p->type_c == p->gemm.type && p->gemm.type != STP_TYPE_F64;
    int fused = may_fuse ? (int)p->epilogue : (int)STP_EPILOGUE_NONE;
    cublasStatus_t result;

    if (fused == STP_EPILOGUE_BIAS_RELU && p->beta != 0)
        fused = STP_EPILOGUE_BIAS; /* it cannot be tried: C would change */
    for (;; fused--) {
        bool keeps = true;
        enum stp_status status = STP_OK;

        plan->fused = (enum stp_epilogue)fused;
        result = lt_describe(lt, plan, p);
        STP_CUDA_THEN(result, lt_lay_out(lt, plan, p));
        STP_CUDA_THEN(result, lt_choose(lt, plan, p));
        if (result == CUBLAS_STATUS_SUCCESS && fused == STP_EPILOGUE_BIAS_RELU)
            status = lt_keeps_nan(lt, plan, p, &keeps, err);
        if (result == CUBLAS_STATUS_SUCCESS && (keeps || status != STP_OK))
            return status;
        lt_free_plan(lt, plan);
        if (fused == STP_EPILOGUE_NONE)
            return lt_result(lt, result, "cublasLtMatmulAlgoGetHeuristic", err);
    }
}

enum stp_status stp_cuda_lt_make(struct stp_cuda_lt *lt,
                                 const struct stp_product *p,
                                 struct stp_error *err)
{
    struct stp_cuda_lt_plan *more =
        realloc(lt->plans, (lt->n_plans + 1) * sizeof(*more));
    struct stp_cuda_lt_plan plan = {.key = lt_key(p)};
    enum stp_status status;

    if (more == NULL)
        return stp_nomem(err);
    lt->plans = more;
    status = lt_make_plan(lt, &plan, p, err);
    if (status == STP_OK)
        lt->plans[lt->n_plans++] = plan;
    else
        lt_free_plan(lt, &plan);
    return status;
}

void stp_cuda_lt_close(struct stp_cuda_lt *lt)
{
    if (lt == NULL)
        return;
    for (size_t i = 0; i < lt->n_plans; i++)
        lt_free_plan(lt, &lt->plans[i]);
    free(lt->plans);
    for (unsigned s = 0; s < STP_N_STREAMS; s++)
        cudaFree(lt->workspace[s]);
    cudaFree(lt->nans);
    if (lt->handle != NULL)
        lt->api.destroy(lt->handle);
    free(lt);
}
