/* module.h - transports in libraries of their own, opened at run time
 *
 * So that the command runs on machines without CUDA and NCCL, or Gloo.  A
 * module exports one data object, named by STP_MODULE_SYMBOL. */
#pragma once

#include <stdint.h>

#include "device/engine.h"
#include "launch/world.h"

enum { STP_MODULE_ABI = 7, STP_MAX_HOST_GPUS = 16 };

/* A driver's list of the GPUs of this host. */
struct stp_survey {
    unsigned n_gpus; /* visible; the first STP_MAX_HOST_GPUS are told */
    struct {
        char name[64];
        uint64_t memory; /* bytes */
        int compute_capability;
    } gpus[STP_MAX_HOST_GPUS];
    unsigned n_nvlink; /* pairs of them that NVLink connects */
    unsigned n_pcie;   /* pairs that reach each other otherwise */
    unsigned n_none;   /* pairs that do not: over the CPUs' memory */
    int driver_cuda;   /* CUDA that the driver runs, 12080 for 12.8 */
    int built_cuda;    /* CUDA that the module was built with */
};

struct stp_module {
    int abi; /* STP_MODULE_ABI when it was compiled */

    /* Opens the ranks of this process into *engines_ret, or says in *err why
     * not; those are untouched then.  STP_ERR_NOTHING: there is no hardware to
     * run on.  All processes of options->world call it. */
    enum stp_status (*open)(const struct stp_device_options *options,
                            struct stp_engines *engines_ret,
                            struct stp_error *err);

    /* Asks the driver; a module without GPUs has NULL. STP_ERR_NOTHING without
     * a driver, STP_ERR_DEVICE if it does not answer. */
    enum stp_status (*survey)(struct stp_survey *survey_ret,
                              struct stp_error *err);
};

#define STP_MODULE_SYMBOL "stp_steptune_module"

/* Opens the module at 'path' for the rest of the process.  STP_ERR_IO if there
 * is no such file, STP_ERR_DEVICE if it, or a library it needs, does not load:
 * then *err says which. */
enum stp_status stp_module_open(const char *path,
                                const struct stp_module **module_ret,
                                struct stp_error *err);
