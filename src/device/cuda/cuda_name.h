/* cuda_name.h - names of kernels, for people */
#pragma once

#include <stddef.h>

/* Writes the name of a symbol of CUPTI's: demangled, without its arguments, cut
 * to 'size'. NULL becomes "kernel". */
void stp_cuda_kernel_name(const char *symbol, char *name, size_t size);
