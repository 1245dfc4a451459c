/*
 * cublas_lt.h - libcublasLt, opened at run time
 */
#ifndef STP_CUBLAS_LT_H
#define STP_CUBLAS_LT_H

#include <cuda_runtime_api.h>

#include <cublasLt.h>

#include "core/status.h"

struct stp_cublas_lt {
    cublasStatus_t (*create)(cublasLtHandle_t *handle);
    cublasStatus_t (*destroy)(cublasLtHandle_t handle);
    cublasStatus_t (*desc_create)(cublasLtMatmulDesc_t *desc,
                                  cublasComputeType_t compute,
                                  cudaDataType_t scale_type);
    cublasStatus_t (*desc_destroy)(cublasLtMatmulDesc_t desc);
    cublasStatus_t (*desc_set)(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t what,
                               const void *value, size_t size);
    cublasStatus_t (*layout_create)(cublasLtMatrixLayout_t *layout,
                                    cudaDataType type, uint64_t rows,
                                    uint64_t columns, int64_t ld);
    cublasStatus_t (*layout_destroy)(cublasLtMatrixLayout_t layout);
    cublasStatus_t (*preference_create)(cublasLtMatmulPreference_t *preference);
    cublasStatus_t (*preference_destroy)(cublasLtMatmulPreference_t preference);
    cublasStatus_t (*preference_set)(cublasLtMatmulPreference_t preference,
                                     cublasLtMatmulPreferenceAttributes_t what,
                                     const void *value, size_t size);
    cublasStatus_t (*heuristic)(
        cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
        cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
        cublasLtMatmulPreference_t preference, int n_asked,
        cublasLtMatmulHeuristicResult_t results[], int *n_ret);
    cublasStatus_t (*matmul)(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                             const void *alpha, const void *a,
                             cublasLtMatrixLayout_t a_layout, const void *b,
                             cublasLtMatrixLayout_t b_layout, const void *beta,
                             const void *c, cublasLtMatrixLayout_t c_layout,
                             void *d, cublasLtMatrixLayout_t d_layout,
                             const cublasLtMatmulAlgo_t *algorithm,
                             void *workspace, size_t workspace_size,
                             cudaStream_t stream);
};

/* Opens it for the rest of the process.  STP_ERR_NOTHING says what is
 * missing. */
enum stp_status stp_cublas_lt_open(struct stp_cublas_lt *api_ret,
                                   struct stp_error *err);

#endif /* STP_CUBLAS_LT_H */
