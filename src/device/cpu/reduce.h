/* reduce.h - arithmetic on elements, for libraries that have none */
#pragma once

#include <stddef.h>

#include "core/dtype.h"

/* out[i] = a[i] OP b[i] for 'n' elements.  'out' may be 'a' or 'b', but not
 * overlap them otherwise. */
typedef void (*stp_reduce)(void *out, const void *a, const void *b, size_t n);

/* The function for a type and for STP_OP_SUM, PROD, MAX or MIN; NULL for types
 * of eight-bit floating point.  Integers wrap around.  f16 and bf16 are
 * computed in f32 and rounded to nearest, ties to even. */
stp_reduce stp_reduce_function(int type, int op);

/* Divides 'n' sums by 'ranks', for an average: integers towards zero. */
void stp_reduce_divide(int type, void *data, size_t n, unsigned ranks);
