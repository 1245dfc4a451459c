/*
 * cuda_name.h - names of kernels, for people
 */
#ifndef STP_CUDA_NAME_H
#define STP_CUDA_NAME_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of a symbol as CUPTI has it: demangled, without its arguments, cut to 'size'.
 * NULL is "kernel". */
void stp_cuda_kernel_name(const char *symbol, char *name, size_t size);

#ifdef __cplusplus
}
#endif
#endif /* STP_CUDA_NAME_H */
