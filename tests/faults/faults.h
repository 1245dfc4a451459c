/* faults.h - makes the n-th call of a kind that Steptune's own code does fail
 *
 * A shared library that stands in front of libc: linked into a test, or named
 * by LD_PRELOAD.  A call counts if it returns into a file whose name begins
 * with "steptune" or "libnccl-tuner-steptune", or is plugin.so, or into cJSON:
 * not the test's own, mock NCCL's in it, nor those that libc does for itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The error is what the system would give when it is out of something. */
enum fault_kind {
    FAULT_NONE,
    FAULT_MEMORY,  /* malloc(), calloc(), strdup(), open_memstream(), ... */
    FAULT_OPEN,    /* files, folders, libraries, pipes, sockets */
    FAULT_MAP,     /* mmap() */
    FAULT_THREAD,  /* pthread_create() */
    FAULT_PROCESS, /* fork() */
    FAULT_CLOCK,   /* clock_gettime(), anybody's */
    FAULT_READ,    /* read() and stdio's, and readdir() */
    FAULT_WRITE,   /* write() and stdio's but for standard error */
    FAULT_FILE,    /* rename(), fsync(), ftruncate(), fclose(), locks, ... */
    FAULT_KINDS,
};

/* In the environment of a program that starts: the file of a struct fault_plan,
 * which it shares with the processes that it starts. */
#define FAULT_PLAN_VARIABLE "STP_FAULT_PLAN"

struct fault_plan {
    uint32_t kind;     /* FAULT_NONE: nothing is counted */
    uint32_t n;        /* the call that fails; 0: none */
    uint32_t for_good; /* and all of the kind that follow */
    uint32_t n_failed;
    uint32_t n_calls[FAULT_KINDS];
};

/* From now on this process and its children do as 'plan' says. */
void fault_follow(struct fault_plan *plan);
