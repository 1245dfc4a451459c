/*
 * host.h - the machine that a process runs on
 */
#ifndef STP_HOST_H
#define STP_HOST_H

#include <stddef.h>

/* Its name up to the first dot; "?" if it has none.  Cut to 'size'. */
void stp_host_name(char *name, size_t size);

/*
 * "2 x NVIDIA H200", or "1 x NVIDIA H200 shared by 2 ranks": 'n_gpus' of 0 says
 * that each of the ranks has a GPU of its own.  Returns 'text'.
 */
enum { STP_GPUS_TEXT = 112 };
const char *stp_gpus_text(unsigned n_ranks, unsigned n_gpus, const char *gpu,
                          char text[STP_GPUS_TEXT]);

/* "intel", "amd", "arm" or "unknown".  Static storage. */
const char *stp_host_cpu_vendor(void);

#endif /* STP_HOST_H */
