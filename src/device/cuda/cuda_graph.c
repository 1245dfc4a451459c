/* cuda_graph.c - what NCCL runs, read from a graph of it */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_name.h"
#include "device/dl_table.h"

/* libcuda's functions: the runtime knows no kernels that others launched. */
struct driver {
    CUresult (*nodes)(CUgraph graph, CUgraphNode *nodes, size_t *n);
    CUresult (*type)(CUgraphNode node, CUgraphNodeType *type);
    CUresult (*kernel)(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params);
    CUresult (*function_name)(const char **name, CUfunction function);
    CUresult (*kernel_name)(const char **name, CUkernel kernel);
};

static const struct stp_dl_symbol functions[] = {
    {"cuGraphGetNodes", offsetof(struct driver, nodes)},
    {"cuGraphNodeGetType", offsetof(struct driver, type)},
    {"cuGraphKernelNodeGetParams_v2", offsetof(struct driver, kernel)},
    {"cuFuncGetName", offsetof(struct driver, function_name)},
    {"cuKernelGetName", offsetof(struct driver, kernel_name)},
};

/* NULL if nobody knows. */
static const char *graph_kernel_name(const struct driver *driver,
                                     CUgraphNode node)
{
    CUDA_KERNEL_NODE_PARAMS params = {0};
    const char *name = NULL;

    if (driver->kernel(node, &params) != CUDA_SUCCESS)
        return NULL;
    if (params.func != NULL)
        return driver->function_name(&name, params.func) == CUDA_SUCCESS ? name
                                                                         : NULL;
    return driver->kernel_name(&name, params.kern) == CUDA_SUCCESS ? name
                                                                   : NULL;
}

/* NCCL's part of a graph. */
struct contents {
    bool has_copies;
    bool has_kernels;                /* but for symmetric ones */
    char symmetric[STP_KERNEL_NAME]; /* "": there is none */
};

static void graph_read_node(const struct driver *driver, CUgraphNode node,
                            struct contents *contents)
{
    /* Symmetric kernels have the first prefix, and the second in NCCL 2.27. */
    static const char *const symmetric[] = {"ncclSymkDevKernel_",
                                            "ncclSymDevKernel_"};
    CUgraphNodeType type;
    const char *symbol;
    char name[128];

    if (driver->type(node, &type) != CUDA_SUCCESS)
        return;
    contents->has_copies |= type == CU_GRAPH_NODE_TYPE_MEMCPY;
    symbol = type == CU_GRAPH_NODE_TYPE_KERNEL ? graph_kernel_name(driver, node)
                                               : NULL;
    if (symbol == NULL)
        return;
    stp_cuda_kernel_name(symbol, name, sizeof(name));
    for (size_t i = 0; i < sizeof(symmetric) / sizeof(symmetric[0]); i++)
        if (strncmp(name, symmetric[i], strlen(symmetric[i])) == 0) {
            snprintf(contents->symmetric, sizeof(contents->symmetric), "%.*s",
                     (int)sizeof(contents->symmetric) - 1,
                     name + strlen(symmetric[i]));
            return;
        }
    contents->has_kernels |= strncmp(name, "ncclDevKernel", 13) == 0;
}

void stp_cuda_graph_kernel(cudaGraph_t graph, char kernel[STP_KERNEL_NAME])
{
    enum { MAX_NODES = 256 };
    CUgraphNode nodes[MAX_NODES];
    struct contents contents = {0};
    struct driver driver;
    size_t n = MAX_NODES;
    /* The runtime has opened the library already. */
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    kernel[0] = '\0';
    if (library == NULL ||
        stp_dl_find(library, "libcuda", functions,
                    sizeof(functions) / sizeof(functions[0]), "", &driver,
                    NULL) != STP_OK ||
        driver.nodes(graph, nodes, &n) != CUDA_SUCCESS)
        return;
    for (size_t i = 0; i < n && i < MAX_NODES; i++)
        graph_read_node(&driver, nodes[i], &contents);
    if (contents.symmetric[0] != '\0')
        snprintf(kernel, STP_KERNEL_NAME, "%s", contents.symmetric);
    else if (contents.has_copies && !contents.has_kernels)
        snprintf(kernel, STP_KERNEL_NAME, STP_COPY_ENGINES);
}
