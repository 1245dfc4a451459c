/*
 * module.h - devices and engines in libraries of their own, opened at run time
 *
 * So that the command runs on machines that lack what a device needs: CUDA and
 * NCCL, Gloo, or MPI.  A module exports one data object, named by
 * STP_MODULE_SYMBOL.
 */
#ifndef STP_MODULE_H
#define STP_MODULE_H

#include <stdint.h>

#include "device/device.h"
#include "device/engine.h"
#include "launch/world.h"

/* How a device of a module is to be opened. */
struct stp_device_options {
    const struct stp_world *world; /* outlives the device */
    unsigned n_threads; /* of this process, each with its own ranks */
    unsigned n_gpus;    /* ranks of a thread; 0 for both: threads for all GPUs
                           that are this process's */
    uint64_t max_bytes; /* of the largest collective that will run */
    unsigned graph;     /* not 0: run what is noted as CUDA graphs */
    const char *plugin; /* of the plugin arm, as NCCL_TUNER_PLUGIN; or NULL */
    const char *graphs_file; /* where NCCL is to write its search graphs, or
                                NULL */
    unsigned time_limit_s;   /* for one synchronise(); 0: none */
};

enum { STP_MODULE_ABI = 3 };

struct stp_module {
    int abi;          /* STP_MODULE_ABI of those who compiled it */
    const char *name; /* "nccl", "gloo" or "mpi" */

    /* Opens the device into *device_ret, or says in *err why not; *device_ret
     * is untouched then.  STP_ERR_NOTHING: there is nothing to run on.  All
     * processes of options->world call it. */
    enum stp_status (*open)(const struct stp_device_options *options,
                            struct stp_device *device_ret,
                            struct stp_error *err);

    /* The world of the launcher that started this process, or NULL if this
     * module has none: MPI's.  Once in a process; what it needs from
     * 'argv' it may take. */
    enum stp_status (*world)(int *argc, char ***argv,
                             struct stp_world *world_ret,
                             struct stp_error *err);

    /* Opens the engines of this process's ranks, options->n_local or 1 of them,
     * into engines_ret[], or says in *err why not; those are untouched then.
     * All processes of options->world call it.  NULL: it has none. */
    enum stp_status (*open_engines)(const struct stp_engine_options *options,
                                    struct stp_engine *engines_ret,
                                    struct stp_error *err);
};

#define STP_MODULE_SYMBOL "stp_steptune_module"

/*
 * Opens the module at 'path' for the rest of the process.  STP_ERR_IO if there
 * is no such file, STP_ERR_DEVICE if it, or what it needs, does not load: then
 * *err says what is missing.
 */
enum stp_status stp_module_open(const char *path,
                                const struct stp_module **module_ret,
                                struct stp_error *err);

#endif /* STP_MODULE_H */
