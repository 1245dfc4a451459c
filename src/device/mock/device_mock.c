#include "device/mock/device_mock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "device/mock/engine_mock.h"
#include "device/ranks.h"

/* As NCCL does when it has searched. */
static enum stp_status
mock_write_graphs(const struct stp_device_mock_options *options,
                  struct stp_error *err)
{
    enum { MAX_GRAPHS = 64 << 20 };
    size_t size = strlen(options->machine_path) + sizeof("/graphs.xml");
    char *path = options->graphs_file != NULL ? malloc(size) : NULL;
    char *text = NULL;
    size_t len = 0;
    enum stp_status status;
    FILE *fp;

    if (options->graphs_file == NULL)
        return STP_OK;
    if (path == NULL)
        return stp_nomem(err);
    snprintf(path, size, "%s/graphs.xml", options->machine_path);
    status = stp_read_file(path, MAX_GRAPHS, &text, &len, err);
    fp = status == STP_OK ? fopen(options->graphs_file, "w") : NULL;
    if (status == STP_OK &&
        (fp == NULL || fwrite(text, 1, len, fp) != len || fclose(fp) != 0))
        status = stp_fail(err, STP_ERR_IO, "cannot write '%.200s'",
                          options->graphs_file);
    free(path);
    free(text);
    return status;
}

enum stp_status
stp_device_mock_open(const struct stp_device_mock_options *options,
                     struct stp_device *device_ret, struct stp_error *err)
{
    const struct stp_engine_mock_options machine = {.machine_path =
                                                        options->machine_path,
                                                    .plugin = options->plugin,
                                                    .seed = options->seed,
                                                    .measures = true};
    const struct stp_ranks_options ranks = {.world = &stp_world_of_one,
                                            .n_per_thread = 1};
    struct stp_engine engine;
    enum stp_status status = stp_engine_mock_open(&machine, &engine, err);

    if (status != STP_OK)
        return status;
    status = mock_write_graphs(options, err);
    if (status != STP_OK) {
        engine.ops->close(engine.self);
        return status;
    }
    return stp_ranks_open(&ranks, &engine, device_ret, err);
}
