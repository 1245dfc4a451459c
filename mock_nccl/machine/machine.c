#include "machine/machine.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/csv.h"
#include "machine/recorded.h"

enum { MAX_PER_NODE = 72 }; /* ranks: an NVLink domain can span many hosts */

enum { NOT_GIVEN = -1 };

static const char *const vendor_words[] = {"intel", "amd", "arm", "mixed",
                                           "unknown"};
static const struct mock_words vendors = {vendor_words, 5};

/* Words in the names of GPUs that NCCL does not run on. */
static const char *const other_gpus[] = {
    "AMD",   "Instinct", "Radeon", "MI2",      "MI3", "MI4", "gfx",
    "Intel", "Gaudi",    "Ascend", "Trainium", "TPU", NULL};
static const int capabilities[] = {60, 61, 62, 70,  72,  75,  80,  86,  87,
                                   88, 89, 90, 100, 101, 103, 110, 120, 121};

/* machine.csv; what is optional is in the graphs, or derived from them. */
#define AT(member)     offsetof(struct mock_machine_info, member)
#define LENGTH(member) sizeof(((struct mock_machine_info *)0)->member)
// clang-format off
static const struct mock_field machine_fields[] = {
    {"gpu", MOCK_FIELD_TEXT, AT(gpu), .min = 1, .max = LENGTH(gpu)},
    {"compute_capability", MOCK_FIELD_INT, AT(compute_capability), .min = 60, .max = 129},
    {"max_compute_capability", MOCK_FIELD_INT, AT(max_compute_capability), .min = 60, .max = 129, .optional = true},
    {"ranks", MOCK_FIELD_INT, AT(n_ranks), .min = 1, .max = MOCK_MAX_RANKS, .optional = true},
    {"gpus", MOCK_FIELD_INT, AT(n_gpus), .min = 1, .max = MOCK_MAX_RANKS, .optional = true},
    {"nodes", MOCK_FIELD_INT, AT(n_nodes), .min = 1, .max = MOCK_MAX_RANKS, .optional = true},
    {"cpu_vendor", MOCK_FIELD_TEXT, AT(cpu_vendor), .min = 1, .max = LENGTH(cpu_vendor), .words = &vendors},
    {"channels", MOCK_FIELD_INT, AT(n_channels), .min = 1, .max = 64, .optional = true},
    {"nvls_channels", MOCK_FIELD_INT, AT(n_nvls_channels), .min = 0, .max = 64, .optional = true},
    {"nccl", MOCK_FIELD_TEXT, AT(nccl), .min = 1, .max = LENGTH(nccl)},
};
// clang-format on
enum { N_FIELDS = MOCK_N_OF(machine_fields) };

enum {
    MAX_CHANNELS = 64,
    FEW_CHANNELS = 16, /* too few channels for a fast ring between nodes */
    NVSWITCH_GPUS = 8, /* GPUs of an HGX board */
    NVLS_CHANNELS_HOPPER = 16,
    NVLS_CHANNELS_BLACKWELL = 24, /* within one node */
    NVLS_CHANNELS_BLACKWELL_NODES = 32,
    NVLS_FEW_RANKS = 8, /* GPUs per node */
};
static const float nvls_network = 48.0f; /* GB/s of a NIC */
static const float nvls_fast_network = 96.0f;

static const float fast_ring = 45.0f; /* GB/s per channel */

static int machine_min(int a, int b)
{
    return a < b ? a : b;
}

/* ---- counts that NCCL derives from the graphs ---- */

/* Doubles the search channels; quadruples few fast ones of a network. */
static int machine_count_channels(const struct mock_machine_info *info,
                                  const struct mock_graphs *graphs,
                                  bool collnet)
{
    const struct mock_graph *chain = &graphs->graph[MOCK_GRAPH_COLLNET_CHAIN];
    const struct mock_graph *ring = &graphs->graph[MOCK_GRAPH_RING];
    const struct mock_graph *tree = &graphs->graph[MOCK_GRAPH_TREE];
    int n = machine_min(MAX_CHANNELS,
                        2 * machine_min(ring->n_channels, tree->n_channels));

    /* half as many more, to match the bandwidth within a node */
    if (collnet && chain->bw_intra > chain->bw_inter &&
        info->n_ranks > info->n_nodes)
        n = machine_min(MAX_CHANNELS, n + n / 2);
    if (info->compute_capability >= 90 && info->n_nodes > 1 &&
        ring->bw_intra > fast_ring && n < FEW_CHANNELS)
        n *= 2;
    return n;
}

int mock_channel_count(const struct mock_machine_info *info,
                       const struct mock_graphs *graphs)
{
    return machine_count_channels(info, graphs, false);
}

bool mock_machine_collnet(const struct mock_machine *machine,
                          struct mock_machine_info *info)
{
    const struct mock_graphs *graphs = &machine->graphs;

    if (info->n_nodes == 1 ||
        graphs->graph[MOCK_GRAPH_COLLNET_CHAIN].n_channels == 0)
        return false;
    if (info->n_channels == mock_channel_count(info, graphs))
        info->n_channels = machine_count_channels(info, graphs, true);
    return true;
}

int mock_nvls_channel_count(const struct mock_machine_info *info,
                            const struct mock_graphs *graphs,
                            const struct mock_model_rules *rules)
{
    const struct mock_graph *nvls = &graphs->graph[MOCK_GRAPH_NVLS];
    /* the bandwidth of the slowest NIC counts, for which the graph's stands */
    float network = rules->nvls_by_network ? nvls->bw_inter : 0;

    if (nvls->n_channels == 0 || info->n_ranks / info->n_nodes < 2)
        return 0;
    if (info->compute_capability < 100)
        return NVLS_CHANNELS_HOPPER;
    if (info->n_nodes == 1 ||
        (info->n_nodes > 2 && network >= nvls_network &&
         (network < nvls_fast_network ||
          info->n_ranks / info->n_nodes <= NVLS_FEW_RANKS)))
        return NVLS_CHANNELS_BLACKWELL;
    return NVLS_CHANNELS_BLACKWELL_NODES;
}

/* The count of the version that made the machine. */
static int machine_count_nvls(const struct mock_machine_info *info,
                              const struct mock_graphs *graphs)
{
    return mock_nvls_channel_count(info, graphs,
                                   &mock_version_find(NULL)->model);
}

void mock_machine_fit_nvls(const struct mock_machine *machine,
                           const struct mock_model_rules *rules,
                           struct mock_machine_info *info)
{
    if (info->n_nvls_channels == machine_count_nvls(info, &machine->graphs))
        info->n_nvls_channels =
            mock_nvls_channel_count(info, &machine->graphs, rules);
}

/* Times are by the constants of 2.28, but its machine's NCCL says whether GPUs
 * that differ have LL128. */
static ncclResult_t machine_build_model(struct mock_machine *machine)
{
    const struct mock_version *version = mock_version_find(NULL);
    struct mock_machine_info info = machine->info;
    struct mock_user_choice choice;

    MOCK_TRY(mock_user_choice_parse(version, NULL, NULL, &choice));
    if (mock_version_find(info.nccl)->model.ll128_unlike &&
        info.compute_capability >= 90)
        info.max_compute_capability = 0;
    mock_model_build(&machine->model, &info, &machine->graphs, &version->model,
                     &mock_default_constants, &choice);
    return ncclSuccess;
}

/* ---- machine.csv ---- */

/* Reads a row. All nodes have the same number of ranks, and ranks that share
 * GPUs have fewer of them. */
static ncclResult_t machine_read_row(const struct mock_csv *csv,
                                     struct mock_machine_info *info)
{
    size_t i = 0;

    info->n_ranks = info->n_nodes = NOT_GIVEN;
    info->n_gpus = info->max_compute_capability = 0;
    info->n_channels = info->n_nvls_channels = NOT_GIVEN;
    MOCK_TRY(mock_csv_read(csv, info));
    if (mock_version_find(info->nccl) == NULL ||
        mock_release_is_newer(info->nccl))
        return mock_csv_fail(csv,
                             "column 'nccl': '%s', expected a version whose "
                             "choices and times are known, " MOCK_VERSIONS,
                             info->nccl);
    for (const char *const *other = other_gpus; *other != NULL; other++)
        if (strstr(info->gpu, *other) != NULL)
            return mock_csv_fail(csv,
                                 "column 'gpu': '%s', expected a GPU of "
                                 "NVIDIA: nothing is known of other libraries "
                                 "than NCCL",
                                 info->gpu);
    for (i = 0; capabilities[i] != info->compute_capability; i++)
        if (i + 1 == MOCK_N_OF(capabilities))
            return mock_csv_fail(csv,
                                 "column 'compute_capability': %d, which no "
                                 "GPU of NVIDIA has, expected one such as 90",
                                 info->compute_capability);
    if (info->max_compute_capability != 0 &&
        info->max_compute_capability < info->compute_capability)
        return mock_csv_fail(csv,
                             "column 'max_compute_capability': %d, expected "
                             "no less than column 'compute_capability' says",
                             info->max_compute_capability);
    if (info->n_gpus > 0 && info->n_gpus >= info->n_ranks)
        return mock_csv_fail(csv,
                             "column 'gpus': %d, expected fewer than column "
                             "'ranks' says",
                             info->n_gpus);
    if (info->n_ranks == NOT_GIVEN || info->n_nodes == NOT_GIVEN)
        return ncclSuccess;
    if (info->n_ranks % info->n_nodes != 0)
        return mock_csv_fail(csv,
                             "%d ranks are not the same number on each of %d "
                             "nodes: " MOCK_UNEVEN,
                             info->n_ranks, info->n_nodes);
    if (info->n_ranks / info->n_nodes > MAX_PER_NODE)
        return mock_csv_fail(csv, "%d ranks on a node, but %d is the most",
                             info->n_ranks / info->n_nodes, MAX_PER_NODE);
    return ncclSuccess;
}

static ncclResult_t machine_read_info(const char *path,
                                      struct mock_machine_info *info)
{
    struct mock_csv *csv;
    bool row = false;
    ncclResult_t rc = ncclSuccess;

    MOCK_TRY(mock_csv_open(path, machine_fields, N_FIELDS, &csv));
    rc = mock_csv_next(csv, &row);
    if (rc == ncclSuccess && !row)
        rc = mock_refuse("%s: no row below the header", path);
    MOCK_THEN(rc, machine_read_row(csv, info));
    MOCK_THEN(rc, mock_csv_next(csv, &row));
    if (rc == ncclSuccess && row)
        rc = mock_csv_fail(csv, "a second row, but a folder is one machine");
    mock_csv_close(csv);
    return rc;
}

/* ---- the folder ---- */

/* Derives ranks or nodes from the graphs if machine.csv lacks them. */
static ncclResult_t machine_fill_nodes(const char *path,
                                       struct mock_machine *machine)
{
    struct mock_machine_info *info = &machine->info;
    int per_node = machine->graphs.per_node;

    if (per_node > MAX_PER_NODE)
        return mock_refuse("%s: %d GPUs on a node, but %d is the most", path,
                           per_node, MAX_PER_NODE);
    if (info->n_ranks == NOT_GIVEN && info->n_nodes == NOT_GIVEN &&
        machine->graphs.on_network)
        return mock_refuse("%s: channels that leave the node, but machine.csv "
                           "says neither 'ranks' nor 'nodes'",
                           path);
    if (info->n_nodes == NOT_GIVEN)
        info->n_nodes =
            info->n_ranks == NOT_GIVEN ? 1 : info->n_ranks / per_node;
    if (info->n_ranks == NOT_GIVEN &&
        info->n_nodes <= MOCK_MAX_RANKS / per_node)
        info->n_ranks = info->n_nodes * per_node;
    if (info->n_ranks != info->n_nodes * per_node)
        return mock_refuse(
            "%s: %d GPUs on a node, which does not fit what machine.csv says",
            path, per_node);
    return ncclSuccess;
}

static ncclResult_t machine_load_graphs(const char *path,
                                        struct mock_machine *machine)
{
    struct mock_machine_info *info = &machine->info;
    const struct mock_graph *graph = machine->graphs.graph;
    bool said = info->n_ranks != NOT_GIVEN && info->n_nodes != NOT_GIVEN;

    MOCK_TRY(mock_graphs_load(path, said ? info->n_ranks / info->n_nodes : 0,
                              &machine->graphs));
    MOCK_TRY(machine_fill_nodes(path, machine));
    if (info->n_channels == NOT_GIVEN)
        info->n_channels = mock_channel_count(info, &machine->graphs);
    if (info->n_nvls_channels == NOT_GIVEN)
        info->n_nvls_channels = machine_count_nvls(info, &machine->graphs);
    if (info->n_nvls_channels > 0 && graph[MOCK_GRAPH_NVLS].n_channels == 0)
        return mock_refuse("%s: no NVLS channels, but machine.csv says %d",
                           path, info->n_nvls_channels);
    info->assumes_tree = machine->graphs.assumes_tree;
    return ncclSuccess;
}

/* The path of a file in the folder, and whether it exists. */
static bool machine_find_file(const char *folder, const char *name,
                              char path_ret[PATH_MAX])
{
    struct stat st;

    snprintf(path_ret, PATH_MAX, "%s/%s", folder, name);
    return stat(path_ret, &st) == 0;
}

/* Reads an overlap.csv or a timings.csv; for the former the machine must have
 * its times. */
static ncclResult_t machine_load_recorded(const char *path, bool is_overlap,
                                          const struct mock_machine *machine,
                                          struct mock_recorded **recorded_ret)
{
    struct mock_recorded *recorded = calloc(1, sizeof(*recorded));
    struct mock_records records = {NULL, 0, 0};
    ncclResult_t rc;
    size_t n;

    if (recorded == NULL)
        return mock_fail_memory();
    rc = mock_records_load(path, is_overlap, &machine->model, &records);
    /* a record of fsdp becomes two */
    n = (size_t)records.n * (is_overlap ? 2 : 1) + 1;
    recorded->arms = calloc(n, sizeof(*recorded->arms));
    recorded->points = calloc(n, sizeof(*recorded->points));
    recorded->others = calloc(n, sizeof(*recorded->others));
    recorded->rows = calloc(n, sizeof(*recorded->rows));
    recorded->settings = calloc(n, sizeof(*recorded->settings));
    if (rc == ncclSuccess &&
        (recorded->arms == NULL || recorded->points == NULL ||
         recorded->others == NULL || recorded->rows == NULL ||
         recorded->settings == NULL))
        rc = mock_fail_memory();
    MOCK_THEN(rc, is_overlap
                      ? mock_overlaps_build(path, machine, &records, recorded)
                      : mock_timings_build(path, &records, recorded));
    free(records.list);
    if (rc != ncclSuccess) {
        mock_recorded_free(recorded);
        return rc;
    }
    *recorded_ret = recorded;
    return ncclSuccess;
}

#define AT_ROW(member) offsetof(struct mock_calibration, member)
// clang-format off
static const struct mock_field calibration_fields[] = {
    {"collective", MOCK_FIELD_WORD, AT_ROW(coll), .words = &mock_colls},
    {"algorithm", MOCK_FIELD_WORD, AT_ROW(algo), .words = &mock_algos},
    {"protocol", MOCK_FIELD_WORD, AT_ROW(proto), .words = &mock_protos},
    {"launch_us", MOCK_FIELD_TIME, AT_ROW(launch_us), .optional = true},
    {"latency", MOCK_FIELD_TIME, AT_ROW(latency), .optional = true},
    {"bandwidth", MOCK_FIELD_TIME, AT_ROW(bandwidth), .optional = true},
    {"copy", MOCK_FIELD_TIME, AT_ROW(copy), .optional = true},
    {"source", MOCK_FIELD_TEXT, AT_ROW(source), .min = 1, .max = sizeof(((struct mock_calibration *)0)->source)},
};
// clang-format on

/* Reads calibration.csv, all rows of which are from one source. */
static ncclResult_t machine_load_calibration(const char *path,
                                             struct mock_machine *machine)
{
    char *source = machine->info.calibration;
    struct mock_csv *csv;
    bool row = false;
    ncclResult_t rc = ncclSuccess;

    MOCK_TRY(mock_csv_open(path, calibration_fields,
                           MOCK_N_OF(calibration_fields), &csv));
    if (machine->info.n_nodes > 1 || machine->timings != NULL)
        rc = mock_refuse("%s: a calibration of %s, expected a machine of one "
                         "node without timings.csv",
                         path,
                         machine->timings != NULL ? "recorded times" : "nodes");
    MOCK_THEN(rc, mock_csv_next(csv, &row));
    while (rc == ncclSuccess && row) {
        struct mock_calibration c = {0}, *to;

        rc = mock_csv_read(csv, &c);
        if (rc != ncclSuccess)
            break;
        to = &machine->calibration[c.coll][c.algo][c.proto];
        if (source[0] == '\0')
            memcpy(source, c.source, sizeof(c.source));
        if (strcmp(source, c.source) != 0)
            rc = mock_csv_fail(csv, "column 'source': '%s', but '%s' above",
                               c.source, source);
        else if (c.bandwidth + c.copy <= 0)
            rc = mock_csv_fail(csv, "neither 'bandwidth' nor 'copy'");
        else if (to->source[0] != '\0')
            rc = mock_csv_fail(csv, "a second row of %s with %s/%s",
                               mock_word(&mock_colls, c.coll),
                               mock_word(&mock_algos, c.algo),
                               mock_word(&mock_protos, c.proto));
        *to = c;
        MOCK_THEN(rc, mock_csv_next(csv, &row));
    }
    mock_csv_close(csv);
    return rc;
}

ncclResult_t mock_machine_load(const char *path,
                               struct mock_machine **machine_ret)
{
    struct mock_machine *machine;
    char file[PATH_MAX];
    size_t len = strlen(path);
    size_t start;
    struct stat st;
    ncclResult_t rc;

    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return mock_fail(ncclSystemError, "%s: no such machine folder", path);
    machine = calloc(1, sizeof(*machine));
    if (machine == NULL)
        return mock_fail_memory();
    while (len > 1 && path[len - 1] == '/')
        len--;
    for (start = len; start > 0 && path[start - 1] != '/'; start--)
        ;
    snprintf(machine->info.name, sizeof(machine->info.name), "%.*s",
             (int)(len - start), path + start);
    machine_find_file(path, "machine.csv", file);
    rc = machine_read_info(file, &machine->info);
    machine_find_file(path, "graphs.xml", file);
    MOCK_THEN(rc, machine_load_graphs(file, machine));
    MOCK_THEN(rc, machine_build_model(machine));
    if (rc == ncclSuccess && machine_find_file(path, "timings.csv", file))
        rc = machine_load_recorded(file, false, machine, &machine->timings);
    if (rc == ncclSuccess && machine_find_file(path, "overlap.csv", file))
        rc = machine_load_recorded(file, true, machine, &machine->overlaps);
    if (rc == ncclSuccess && machine_find_file(path, "calibration.csv", file))
        rc = machine_load_calibration(file, machine);
    if (rc == ncclSuccess)
        *machine_ret = machine;
    else
        mock_machine_free(machine);
    return rc;
}

void mock_machine_free(struct mock_machine *machine)
{
    if (machine == NULL)
        return;
    mock_recorded_free(machine->timings);
    mock_recorded_free(machine->overlaps);
    free(machine);
}

const struct mock_machine_info *
mock_machine_get_info(const struct mock_machine *machine)
{
    return &machine->info;
}

bool mock_machine_has_timings(const struct mock_machine *machine)
{
    return machine->timings != NULL;
}

/* ---- other numbers of GPUs ---- */

/* Whether the node has fewer GPUs than its NVSwitch can have. */
static bool machine_has_room(const struct mock_machine *machine, int n_ranks)
{
    const struct mock_graphs *graphs = &machine->graphs;

    return machine->info.n_nodes == 1 && machine->info.n_gpus == 0 &&
           !graphs->on_network && n_ranks <= NVSWITCH_GPUS &&
           graphs->graph[MOCK_GRAPH_RING].type_intra <= MOCK_PATH_NVL;
}

static void machine_resize(const struct mock_machine *machine, int n_ranks,
                           struct mock_machine *resized)
{
    const struct mock_machine_info *from = &machine->info;
    struct mock_machine_info *to = &resized->info;
    struct mock_graph *nvls = &resized->graphs.graph[MOCK_GRAPH_NVLS];
    int per_node = machine_has_room(machine, n_ranks)
                       ? n_ranks
                       : machine_min(machine->graphs.per_node, n_ranks);

    *to = *from;
    to->n_ranks = n_ranks;
    if (n_ranks <= from->n_gpus)
        to->n_gpus = 0;
    to->n_nodes = n_ranks / per_node;
    to->resized = true;
    resized->graphs = machine->graphs;
    resized->graphs.per_node = per_node;
    memcpy(resized->calibration, machine->calibration,
           sizeof(machine->calibration));
    nvls->n_channels = machine_min(
        nvls->n_channels, per_node); /* each channel has a GPU as its head */
    /* a count that NCCL did not derive is the user's, for any number of GPUs */
    if (from->n_channels == mock_channel_count(from, &machine->graphs))
        to->n_channels = mock_channel_count(to, &resized->graphs);
    if (from->n_nvls_channels == machine_count_nvls(from, &machine->graphs) ||
        to->n_ranks / to->n_nodes < 2)
        to->n_nvls_channels = machine_count_nvls(to, &resized->graphs);
}

static ncclResult_t machine_check_size(const struct mock_machine *machine,
                                       int n_ranks)
{
    const char *name = machine->info.name;
    int per_node = machine->graphs.per_node;

    if (n_ranks < 1 || n_ranks > MOCK_MAX_RANKS)
        return mock_refuse("%s with %d GPUs, expected 1 to %d", name, n_ranks,
                           MOCK_MAX_RANKS);
    if (n_ranks <= per_node || machine_has_room(machine, n_ranks))
        return ncclSuccess;
    if (machine->info.n_gpus > 0)
        return mock_refuse("%s with %d ranks, expected at most %d: its ranks "
                           "share GPUs, and no machine of more is known",
                           name, n_ranks, per_node);
    if (n_ranks % per_node != 0)
        return mock_refuse("%s with %d GPUs, expected at most the %d of a "
                           "node, or a multiple of them",
                           name, n_ranks, per_node);
    if (machine->info.n_nodes == 1 && !machine->graphs.on_network)
        return mock_refuse("%s with %d GPUs, but it is one node of %d and its "
                           "search graphs have no network: take a machine of "
                           "several nodes, such as h100n2x8 or a100n2x8",
                           name, n_ranks, per_node);
    return ncclSuccess;
}

ncclResult_t mock_machine_resize(const struct mock_machine *machine,
                                 int n_ranks, struct mock_machine **resized_ret)
{
    struct mock_machine *resized;
    ncclResult_t rc;

    MOCK_TRY(machine_check_size(machine, n_ranks));
    resized = calloc(1, sizeof(*resized));
    if (resized == NULL)
        return mock_fail_memory();
    machine_resize(machine, n_ranks, resized);
    rc = machine_build_model(resized);
    if (rc != ncclSuccess) {
        mock_machine_free(resized);
        return rc;
    }
    *resized_ret = resized;
    return ncclSuccess;
}

/* ---- which sizes a machine's recording knows well ---- */

size_t mock_machine_sizes(const struct mock_machine *machine, ncclFunc_t coll,
                          bool graph, size_t *sizes, size_t max)
{
    const struct mock_curve *all;
    size_t n = 0;

    if (machine->timings == NULL || (unsigned)coll >= NCCL_NUM_TUNED_FUNCS)
        return 0;
    all = &machine->timings->sizes[graph][coll];
    for (int i = 0; i < all->n_points; i++) {
        if (all->points[i].is_single_pass)
            continue;
        if (n < max)
            sizes[n] = all->points[i].n_bytes;
        n++;
    }
    return n;
}

unsigned mock_machine_rounds(const struct mock_machine *machine, bool graph)
{
    const struct mock_recorded *timings = machine->timings;
    int least = 0;

    for (int c = 0; timings != NULL && c < NCCL_NUM_TUNED_FUNCS; c++) {
        const struct mock_curve *all = &timings->sizes[graph][c];

        for (int i = 0; i < all->n_points; i++) {
            const struct mock_point *size = &all->points[i];

            if (!size->is_single_pass && (least == 0 || size->n_rounds < least))
                least = size->n_rounds;
        }
    }
    return (unsigned)least;
}
