#define _GNU_SOURCE /* strcasestr() */
#include "report/logs/job_log_machine.h"

#include <string.h>

#include "core/room.h"
#include "report/file.h"

enum { MAX_PER_NODE = 72 }; /* ranks, as far as NVLink spans hosts */

/* Compute capabilities by words in the names of GPUs; the first counts. */
static const struct {
    const char *word;
    int capability;
} gpus[] = {
    {"GB300", 103},   {"B300", 103},     {"GB200", 100},  {"B200", 100},
    {"H100", 90},     {"H200", 90},      {"H800", 90},    {"H20", 90},
    {"GH200", 90},    {"A100", 80},      {"A800", 80},    {"A30", 80},
    {"V100", 70},     {"T4", 75},        {"L40", 89},     {"L4", 89},
    {"L20", 89},      {"A10", 86},       {"A40", 86},     {"A6000", 86},
    {"6000 Ada", 89}, {"PRO 6000", 120}, {"RTX 50", 120}, {"RTX 40", 89},
    {"RTX 30", 86},
};

/* Graphs by their number in the file. */
static const enum stp_log_key graph_keys[] = {
    STP_LOG_RING_GRAPH, STP_LOG_TREE_GRAPH, STP_LOG_SAID, STP_LOG_NVLS_GRAPH};
static const int graph_patterns[] = {4, 0, 0, 5};

static int machine_count(const struct stp_log_fact *fact, int i)
{
    const double n = stp_log_number(fact, i);

    return n >= 0 && n <= 1000 ? (int)n : 0;
}

int stp_log_capability(const char *gpu)
{
    for (size_t i = 0; i < STP_N_OF(gpus); i++)
        if (strcasestr(gpu, gpus[i].word) != NULL)
            return gpus[i].capability;
    return 0;
}

static const char *machine_find_vendor(const struct stp_job_log *log)
{
    static const char *const vendors[] = {"unknown", "intel", "amd"};
    const char *found = "unknown";
    const struct stp_log_fact *f = NULL;

    while ((f = stp_log_next(log, STP_LOG_CPU, STP_LOG_ANY, f)) != NULL) {
        const int arch = machine_count(f, 0), v = machine_count(f, 1);
        const char *vendor = arch == 3             ? "arm"
                             : arch == 1 && v <= 2 ? vendors[v]
                                                   : "unknown";

        if (strcmp(found, "unknown") != 0 && strcmp(found, vendor) != 0)
            return "mixed";
        found = vendor;
    }
    return found;
}

enum stp_status stp_log_machine(const struct stp_job_log *log, const char *gpu,
                                struct stp_machine_record *record,
                                unsigned *shape_ret, struct stp_error *err)
{
    struct stp_device_info *info = &record->info;
    const struct stp_log_fact *named =
        stp_log_next(log, STP_LOG_GPU, STP_LOG_ANY, NULL);
    const struct stp_log_fact *version =
        stp_log_next(log, STP_LOG_VERSION, STP_LOG_ANY, NULL);
    const struct stp_log_fact *channels;
    unsigned shape = 0;

    for (unsigned i = 1; i <= log->n_shapes; i++)
        if (log->shapes[i - 1].per_node > 0 &&
            log->shapes[i - 1].per_node <= MAX_PER_NODE &&
            stp_log_next(log, STP_LOG_RING_GRAPH, i, NULL) != NULL &&
            (shape == 0 ||
             log->shapes[i - 1].n_ranks > log->shapes[shape - 1].n_ranks))
            shape = i;
    if (shape == 0)
        return stp_fail(err, STP_ERR_NOTHING,
                        "the log has no search graphs, expected that of a job "
                        "with NCCL_DEBUG=INFO "
                        "NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH,TUNING");
    if (version == NULL)
        return stp_fail(err, STP_ERR_NOTHING,
                        "the log does not tell NCCL's version");
    if (gpu == NULL && named == NULL)
        return stp_fail(err, STP_ERR_NOTHING,
                        "the log does not name the GPU, expected --gpu and "
                        "the name that `nvidia-smi -L` prints");
    if (gpu != NULL)
        snprintf(info->gpu, sizeof(info->gpu), "%s", gpu);
    else
        snprintf(info->gpu, sizeof(info->gpu), "%.*s",
                 STP_SHOWN(&named->value[3]));
    info->compute_capability = stp_log_capability(info->gpu);
    if (info->compute_capability == 0)
        return stp_fail(err, STP_ERR_RANGE,
                        "the compute capability of a GPU '%s' is not known, "
                        "expected a name such as 'NVIDIA H100 80GB HBM3'",
                        info->gpu);
    snprintf(info->nccl, sizeof(info->nccl), "2.%.*s",
             STP_SHOWN(&version->value[0]));
    snprintf(info->cpu_vendor, sizeof(info->cpu_vendor), "%s",
             machine_find_vendor(log));
    info->n_ranks = log->shapes[shape - 1].n_ranks;
    info->n_nodes = log->shapes[shape - 1].n_nodes;
    info->is_live = true;
    channels = stp_log_next(log, STP_LOG_CHANNELS, shape, NULL);
    if (channels != NULL) {
        record->n_channels = machine_count(channels, 0);
        if (stp_log_next(log, STP_LOG_NVLS_GRAPH, shape, NULL) != NULL)
            record->n_nvls_channels = machine_count(channels, 2);
    }
    *shape_ret = shape;
    return STP_OK;
}

static void machine_put_graph(const struct stp_log_fact *f, int id,
                              unsigned per_node, bool leaves, FILE *fp)
{
    const struct stp_field *v = f->value;
    const int pattern =
        graph_patterns[id] > 0 ? graph_patterns[id] : machine_count(f, 0);
    const unsigned n = (unsigned)machine_count(f, 2);

    fprintf(fp,
            "  <graph id=\"%d\" pattern=\"%d\" crossnic=\"%.*s\" "
            "nchannels=\"%u\" speedintra=\"%.9g\" speedinter=\"%.9g\" "
            "latencyinter=\"0\" typeintra=\"%.*s\" typeinter=\"%.*s\" "
            "samechannels=\"%.*s\">\n",
            id, pattern, STP_SHOWN(&v[1]), n, stp_log_number(f, 3),
            stp_log_number(f, 4), STP_SHOWN(&v[5]), STP_SHOWN(&v[6]),
            STP_SHOWN(&v[7]));
    for (unsigned c = 0; c < n && n <= 64; c++) {
        fputs("    <channel>\n", fp);
        if (leaves)
            fprintf(fp, "      <net dev=\"%u\"/>\n", c);
        for (unsigned g = 0; g < (id == 3 ? 1 : per_node); g++)
            fprintf(fp, "      <gpu dev=\"%#x\"/>\n", (c + g) % per_node);
        fputs("    </channel>\n", fp);
    }
    fputs("  </graph>\n", fp);
}

enum stp_status stp_log_write_graphs(const struct stp_job_log *log,
                                     unsigned shape, const char *path,
                                     struct stp_error *err)
{
    const struct stp_log_shape *s = &log->shapes[shape - 1];
    struct stp_file file;

    STP_TRY(stp_file_begin(path, &file, err));
    fputs(
        "<!-- Made of the lines \"Pattern\" of an NCCL log. The order of GPUs "
        "in channels and the network's latency are assumed. -->\n"
        "<graphs version=\"1\">\n",
        file.fp);
    for (int id = 0; id < (int)STP_N_OF(graph_keys); id++) {
        const struct stp_log_fact *f = NULL, *least = NULL;

        /* each rank logs its own, and NCCL takes the worst */
        while (graph_keys[id] != STP_LOG_SAID &&
               (f = stp_log_next(log, graph_keys[id], shape, f)) != NULL)
            if (least == NULL ||
                stp_log_number(f, 2) < stp_log_number(least, 2))
                least = f;
        if (least != NULL)
            machine_put_graph(least, id, s->per_node, s->n_nodes > 1 && id < 2,
                              file.fp);
    }
    fputs("</graphs>\n", file.fp);
    return stp_file_commit(&file, err);
}
