/*
 * nccl_api.h - libnccl, opened at run time
 *
 * So that one build measures whatever NCCL is there: the system's, PyTorch's,
 * or the one that $STEPTUNE_NCCL names.  Our own declarations: these functions'
 * ABI has not changed since NCCL 2.10, and nccl.h does not go with our
 * nccl_tuner_abi.h in one file.  Results are ncclResult_t.
 */
#ifndef STP_NCCL_API_H
#define STP_NCCL_API_H

#include "core/status.h"

struct stp_nccl_id {
    char bytes[128];
};

typedef void *stp_nccl_comm;
typedef void *stp_nccl_stream; /* cudaStream_t */

struct stp_nccl_api {
    int (*get_version)(int *version);
    int (*get_unique_id)(struct stp_nccl_id *id);
    int (*comm_init_rank)(stp_nccl_comm *comm, int n_ranks,
                          struct stp_nccl_id id, int rank);
    int (*comm_split)(stp_nccl_comm comm, int color, int key,
                      stp_nccl_comm *child, void *config);
    int (*comm_destroy)(stp_nccl_comm comm);
    int (*comm_abort)(stp_nccl_comm comm);
    int (*comm_get_async_error)(stp_nccl_comm comm, int *error);
    const char *(*get_error_string)(int result);
    const char *(*get_last_error)(stp_nccl_comm comm);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*all_reduce)(const void *send, void *recv, size_t count, int type,
                      int op, stp_nccl_comm comm, stp_nccl_stream stream);
    int (*reduce_scatter)(const void *send, void *recv, size_t count, int type,
                          int op, stp_nccl_comm comm, stp_nccl_stream stream);
    int (*all_gather)(const void *send, void *recv, size_t count, int type,
                      stp_nccl_comm comm, stp_nccl_stream stream);
    int (*broadcast)(const void *send, void *recv, size_t count, int type,
                     int root, stp_nccl_comm comm, stp_nccl_stream stream);
    int (*reduce)(const void *send, void *recv, size_t count, int type, int op,
                  int root, stp_nccl_comm comm, stp_nccl_stream stream);
    int version; /* 22809 for 2.28.9 */
};

/* Opens it for the rest of the process.  STP_ERR_NOTHING says which is missing,
 * or that it is too old. */
enum stp_status stp_nccl_open(struct stp_nccl_api *api_ret,
                              struct stp_error *err);

/* "2.28.9" */
void stp_nccl_version_name(int version, char name[16]);

#endif /* STP_NCCL_API_H */
