/* host.h - the machine that a process runs on */
#pragma once

#include <stddef.h>

/* Its name up to the first dot; "?" if it has none.  Cut to 'size'. */
void stp_host_name(char *name, size_t size);

/* Microseconds of CLOCK_MONOTONIC: stp_engine_ops.now_us of an engine, whose
 * self may be NULL. */
double stp_host_now_us(const void *self);

/* "intel", "amd", "arm" or "unknown".  Static storage. */
const char *stp_host_cpu_vendor(void);
