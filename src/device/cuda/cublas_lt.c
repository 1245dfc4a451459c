#include "device/cuda/cublas_lt.h"

#include <dlfcn.h>

#include "device/dl_table.h"

static const struct stp_dl_symbol functions[] = {
    {"cublasLtCreate", offsetof(struct stp_cublas_lt, create)},
    {"cublasLtDestroy", offsetof(struct stp_cublas_lt, destroy)},
    {"cublasLtMatmulDescCreate", offsetof(struct stp_cublas_lt, desc_create)},
    {"cublasLtMatmulDescDestroy", offsetof(struct stp_cublas_lt, desc_destroy)},
    {"cublasLtMatmulDescSetAttribute",
     offsetof(struct stp_cublas_lt, desc_set)},
    {"cublasLtMatrixLayoutCreate",
     offsetof(struct stp_cublas_lt, layout_create)},
    {"cublasLtMatrixLayoutDestroy",
     offsetof(struct stp_cublas_lt, layout_destroy)},
    {"cublasLtMatmulPreferenceCreate",
     offsetof(struct stp_cublas_lt, preference_create)},
    {"cublasLtMatmulPreferenceDestroy",
     offsetof(struct stp_cublas_lt, preference_destroy)},
    {"cublasLtMatmulPreferenceSetAttribute",
     offsetof(struct stp_cublas_lt, preference_set)},
    {"cublasLtMatmulAlgoGetHeuristic",
     offsetof(struct stp_cublas_lt, heuristic)},
    {"cublasLtMatmul", offsetof(struct stp_cublas_lt, matmul)},
};

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

enum stp_status stp_cublas_lt_open(struct stp_cublas_lt *api_ret,
                                   struct stp_error *err)
{
    void *library = dlopen("libcublasLt.so." TEXT(CUBLAS_VER_MAJOR), RTLD_NOW);

    if (library == NULL)
        return stp_fail(err, STP_ERR_NOTHING,
                        "no cuBLASLt, which matrix products need: %s",
                        dlerror());
    return stp_dl_find(library, "cuBLASLt", functions,
                       sizeof(functions) / sizeof(functions[0]), "", api_ret,
                       err);
}
