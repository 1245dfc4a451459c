/* cpu_host.h - the hosts of all ranks: their CPUs and memory */
#pragma once

#include <stdint.h>

#include "core/status.h"
#include "device/device.h"
#include "launch/world.h"

/* Bytes alike on all hosts, so that ranks can exchange them. */
struct stp_cpu_host {
    char name[64];
    char model[96];  /* of the CPU; "unknown CPU" if Linux does not say */
    char vendor[16]; /* as stp_host_cpu_vendor() */
    uint32_t n_cpus;
    uint32_t most_threads; /* that OPENBLAS_NUM_THREADS, else OMP_NUM_THREADS
                              allows a process; UINT32_MAX without */
    uint32_t pid;          /* of this process */
    uint64_t available_nbytes; /* memory to be had without swapping */
};

/* Cannot fail. */
void stp_cpu_host_get(struct stp_cpu_host *host_ret);

/* Exchanges the hosts of all ranks, by rank, for the caller to free(); all
 * ranks call it. */
enum stp_status stp_cpu_hosts_exchange(const struct stp_world *world,
                                       struct stp_cpu_host **hosts_ret,
                                       struct stp_error *err);

/* The info of a device on the hosts of 'n' ranks, but for the transport's name,
 * which the caller fills in; 'how' describes the transport. */
void stp_cpu_hosts_info(const struct stp_cpu_host *hosts, unsigned n,
                        const char *how, struct stp_device_info *info_ret);

/* Count the hosts of 'n' ranks, and the ranks on the host of 'rank'. */
unsigned stp_cpu_hosts_count(const struct stp_cpu_host *hosts, unsigned n);
unsigned stp_cpu_hosts_like(const struct stp_cpu_host *hosts, unsigned n,
                            unsigned rank);

/* Threads for the products of 'rank', at least 1: its part of the host's CPUs,
 * or the number that is allowed if that is less. */
unsigned stp_cpu_hosts_threads(const struct stp_cpu_host *hosts, unsigned n,
                               unsigned rank);

/* STP_ERR_NOMEM, and *err says where, if some host has less memory than
 * 'nbytes' for each of its ranks. */
enum stp_status stp_cpu_hosts_fit(const struct stp_cpu_host *hosts, unsigned n,
                                  uint64_t nbytes, struct stp_error *err);
