/* cuda_survey.c - what the driver tells of the GPUs of this host */
#include <cuda_runtime.h>
#include <stdio.h>

#include "device/cuda/cuda.h"
#include "device/module.h"

static enum stp_status survey_fail(cudaError_t rc, struct stp_error *err)
{
    return stp_fail(err,
                    rc == cudaErrorNoDevice || rc == cudaErrorInsufficientDriver
                        ? STP_ERR_NOTHING
                        : STP_ERR_DEVICE,
                    "the driver says: %s", cudaGetErrorString(rc));
}

enum stp_status stp_cuda_survey(struct stp_survey *survey_ret,
                                struct stp_error *err)
{
    struct stp_survey s = {.built_cuda = CUDART_VERSION};
    int n = 0;
    int n_told;
    cudaError_t rc = cudaDriverGetVersion(&s.driver_cuda);

    if (rc == cudaSuccess)
        rc = cudaGetDeviceCount(&n);
    s.n_gpus = (unsigned)n;
    n_told = n < STP_MAX_HOST_GPUS ? n : STP_MAX_HOST_GPUS;
    for (int a = 0; a < n_told && rc == cudaSuccess; a++) {
        struct cudaDeviceProp is;

        rc = cudaGetDeviceProperties(&is, a);
        if (rc != cudaSuccess)
            break;
        snprintf(s.gpus[a].name, sizeof(s.gpus[a].name), "%.63s", is.name);
        s.gpus[a].memory = is.totalGlobalMem;
        s.gpus[a].compute_capability = 10 * is.major + is.minor;
        /* Atomic operations on the memory of another GPU are NVLink's alone. */
        for (int b = 0; b < a; b++) {
            int access = 0, atomics = 0;

            if (cudaDeviceGetP2PAttribute(&access,
                                          cudaDevP2PAttrAccessSupported, a,
                                          b) != cudaSuccess ||
                cudaDeviceGetP2PAttribute(&atomics,
                                          cudaDevP2PAttrNativeAtomicSupported,
                                          a, b) != cudaSuccess)
                access = 0;
            s.n_none += !access;
            s.n_nvlink += access && atomics;
            s.n_pcie += access && !atomics;
        }
    }
    if (rc != cudaSuccess)
        return survey_fail(rc, err);
    if (n == 0)
        return survey_fail(cudaErrorNoDevice, err);
    *survey_ret = s;
    return STP_OK;
}
