/* nccl_api.h - libnccl, opened at run time
 *
 * So that one build measures whatever NCCL is there: the system's, PyTorch's,
 * or the one that $STEPTUNE_NCCL names. */
#pragma once

#include "core/status.h"
#include "nccl_comm_abi.h"

enum { STP_NCCL_WITH_COPY_ENGINES = 22800 }; /* and later */

/* NCCL's functions; NULL where this NCCL lacks one. */
struct stp_nccl_api {
#define STP_NCCL_MEMBER(result, name, parameters, arguments)                   \
    result(*name) parameters;
    NCCL_ALL_CALLS(STP_NCCL_MEMBER)
#undef STP_NCCL_MEMBER
    int version; /* 22809 for 2.28.9 */
};

/* Opens it for the rest of the process.  STP_ERR_NOTHING says that it is
 * missing, no NCCL or too old. */
enum stp_status stp_nccl_open(struct stp_nccl_api *api_ret,
                              struct stp_error *err);

/* "2.28.9" */
void stp_nccl_version_name(int version, char name[16]);
