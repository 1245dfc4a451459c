/* gpu.h - which GPU model this host has, by the driver's files */
#pragma once

/* Where NVIDIA's driver keeps a folder for each GPU. */
#define STP_DRIVER_GPUS "/proc/driver/nvidia/gpus"

enum { STP_GPU_SIZE = 96 };

/* The model that every GPU under 'folder' has ("Model:" in its file
 * "information"), or "" if they differ, if one has none, or if there are none.
 * Every rank of a host comes to the same answer, whichever of its GPUs it can
 * use. */
void stp_read_gpu(const char *folder, char gpu[STP_GPU_SIZE]);
