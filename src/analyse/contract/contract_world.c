/* contract_world.c - the files and machines that the contract suite plays on */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analyse/contract/contract_suite.h"

/* Above any message: NVIDIA's example tuner knows no "inf". */
#define MOST "1099511627776"

static const char base_policy[] =
    "allreduce,0,65536,tree,ll,4,-1,-1\n"
    "allreduce,65537,4194304,ring,ll128,8,-1,-1\n"
    "allreduce,4194305," MOST ",tree,simple,-1,-1,-1\n"
    "broadcast,0," MOST ",ring,ll,2,-1,-1\n"
    "reduce,0," MOST ",ring,ll128,-1,-1,-1\n"
    "allgather,0," MOST ",ring,simple,16,-1,-1\n"
    "reducescatter,0," MOST ",ring,ll128,-1,-1,-1\n"
    /* where LL and LL128 are ruled out */
    "allreduce,0," MOST ",ring,simple,-1,-1,-1\n"
    "broadcast,0," MOST ",ring,simple,-1,-1,-1\n"
    "reduce,0," MOST ",ring,simple,-1,-1,-1\n"
    "reducescatter,0," MOST ",ring,simple,-1,-1,-1\n";

static const char tree_policy[] =
    "allreduce,0," MOST ",tree,simple,4,-1,-1\n"
    "broadcast,0," MOST ",ring,simple,4,-1,-1\n"
    "reduce,0," MOST ",ring,simple,4,-1,-1\n"
    "allgather,0," MOST ",ring,simple,4,-1,-1\n"
    "reducescatter,0," MOST ",ring,simple,4,-1,-1\n";

static const char ring_policy[] = "allreduce,0," MOST ",ring,ll,8,-1,-1\n"
                                  "broadcast,0," MOST ",ring,ll,8,-1,-1\n"
                                  "reduce,0," MOST ",ring,ll,8,-1,-1\n"
                                  "allgather,0," MOST ",ring,ll,8,-1,-1\n"
                                  "reducescatter,0," MOST ",ring,ll,8,-1,-1\n";

static const struct {
    const char *name;
    const char *text; /* NULL: not written */
} files[STP_N_FILES] = {
    [STP_FILE_BASE] = {"base.conf", base_policy},
    [STP_FILE_TREE] = {"tree.conf", tree_policy},
    [STP_FILE_RING] = {"ring.conf", ring_policy},
    [STP_FILE_EMPTY] = {"empty.conf", "# decides nothing\n"},
    [STP_FILE_MOVING] = {"moving.conf", NULL},
    [STP_FILE_BAD] = {"bad.conf", NULL},
};

static const struct {
    const char *name;
    int n_ranks, n_nodes, n_nvls_channels;
} shapes[STP_N_SHAPES] = {
    [STP_SHAPE_1] = {"1 rank", 1, 1, 0},
    [STP_SHAPE_2] = {"2 ranks", 2, 1, 0},
    [STP_SHAPE_4] = {"4 ranks", 4, 1, 0},
    [STP_SHAPE_NVLS] = {"8 ranks with NVLS", 8, 1, 16},
    [STP_SHAPE_2X8] = {"2 nodes of 8 ranks", 16, 2, 0},
    [STP_SHAPE_4X8] = {"4 nodes of 8 ranks", 32, 4, 0},
};

/* ---- files ---- */

bool stp_write_text(const char *path, const char *text)
{
    FILE *fp = fopen(path, "w");
    bool whole;

    if (fp == NULL)
        return false;
    whole = fputs(text, fp) >= 0;
    return fclose(fp) == 0 && whole;
}

bool stp_write_policy(const char *path, bool tree, long now)
{
    static const char *const texts[] = {
        "allreduce,0," MOST ",ring,simple,-1,-1,-1\n",
        "allreduce,0," MOST ",tree,simple,-1,-1,-1\n",
    };
    const struct timespec moment = {1000000000 + now, 0};
    const struct timespec times[2] = {moment, moment};
    size_t len = strlen(texts[tree]);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    bool whole;

    if (fd < 0)
        return false;
    /* Both are as long.  Some file systems wait for the disk when a file is
     * truncated and written anew. */
    whole = pwrite(fd, texts[tree], len, 0) == (ssize_t)len;
    whole &= futimens(fd, times) == 0;
    return close(fd) == 0 && whole;
}

static bool world_write_files(struct stp_world *world)
{
    const size_t len = strlen(world->folder);
    bool written = true;

    for (int i = 0; i < STP_N_FILES; i++) {
        memcpy(world->files[i], world->folder, len);
        snprintf(world->files[i] + len, sizeof(world->files[i]) - len, "/%s",
                 files[i].name);
        if (files[i].text != NULL)
            written &= stp_write_text(world->files[i], files[i].text);
    }
    return written;
}

/* ---- machines that are made up ---- */

enum { N_CHANNELS = 8 }; /* that a search found; NCCL doubles them */

static void world_write_graph(FILE *fp, int id, int pattern, int n_channels,
                              int n_gpus)
{
    fprintf(fp,
            "<graph id=\"%d\" pattern=\"%d\" nchannels=\"%d\" "
            "speedintra=\"40\" speedinter=\"40\" typeintra=\"NVL\" "
            "typeinter=\"PIX\" samechannels=\"1\">\n",
            id, pattern, n_channels);
    for (int c = 0; c < n_channels; c++) {
        fputs("<channel>", fp);
        for (int g = 0; g < n_gpus; g++)
            fprintf(fp, "<gpu dev=\"%d\"/>", g);
        fputs("</channel>\n", fp);
    }
    fputs("</graph>\n", fp);
}

static bool world_write_graphs(const char *path, int per_node, bool nvls)
{
    FILE *fp = fopen(path, "w");
    bool whole;

    if (fp == NULL)
        return false;
    fputs("<graphs version=\"1\">\n", fp);
    world_write_graph(fp, 0, 4, N_CHANNELS, per_node); /* ring */
    world_write_graph(fp, 1, 1, N_CHANNELS, per_node); /* balanced tree */
    if (nvls)
        world_write_graph(fp, 3, 5, N_CHANNELS, 1);
    fputs("</graphs>\n", fp);
    whole = ferror(fp) == 0;
    return fclose(fp) == 0 && whole;
}

static bool world_write_machine(const char *path, int n_ranks, int n_nodes,
                                int n_nvls_channels)
{
    char text[256];

    snprintf(text, sizeof(text),
             "gpu,compute_capability,ranks,nodes,cpu_vendor,channels,"
             "nvls_channels,nccl\n"
             "NVIDIA H100 80GB HBM3,90,%d,%d,intel,%d,%d,2.28.9\n",
             n_ranks, n_nodes, 2 * N_CHANNELS, n_nvls_channels);
    return stp_write_text(path, text);
}

static enum stp_status world_make_shape(struct stp_world *world, int i,
                                        struct stp_error *err)
{
    char folder[STP_PATH + 64], info[STP_PATH + 96], graphs[STP_PATH + 96];
    int per_node = shapes[i].n_ranks / shapes[i].n_nodes;

    snprintf(folder, sizeof(folder), "%s/%s", world->folder, shapes[i].name);
    snprintf(info, sizeof(info), "%s/machine.csv", folder);
    snprintf(graphs, sizeof(graphs), "%s/graphs.xml", folder);
    if (mkdir(folder, 0700) != 0 ||
        !world_write_machine(info, shapes[i].n_ranks, shapes[i].n_nodes,
                             shapes[i].n_nvls_channels) ||
        !world_write_graphs(graphs, per_node, shapes[i].n_nvls_channels > 0))
        return stp_fail(err, STP_ERR_IO, "cannot write %.150s: %s", folder,
                        strerror(errno));
    if (mock_machine_load(folder, &world->shapes[i]) != ncclSuccess)
        return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    return STP_OK;
}

/* ---- machines in the folder of the one asked for ---- */

static bool world_load_beside(struct stp_world *world, const char *parent,
                              const char *name)
{
    char path[2 * STP_PATH];
    char info[2 * STP_PATH + 16];
    struct stat st;

    snprintf(path, sizeof(path), "%s/%s", parent, name);
    snprintf(info, sizeof(info), "%s/machine.csv", path);
    return name[0] != '.' && stat(info, &st) == 0 &&
           mock_machine_load(path, &world->beside[world->n_beside]) ==
               ncclSuccess;
}

/* A folder that cannot be read is no machine. */
static void world_load_all_beside(struct stp_world *world,
                                  const char *machine_path)
{
    char parent[STP_PATH];
    struct dirent *entry;
    DIR *dir;

    snprintf(parent, sizeof(parent), "%s/..", machine_path);
    dir = opendir(parent);
    while (dir != NULL && world->n_beside < STP_MAX_BESIDE &&
           (entry = readdir(dir)) != NULL)
        world->n_beside += world_load_beside(world, parent, entry->d_name);
    if (dir != NULL)
        closedir(dir);
}

/* ---- life ---- */

static enum stp_status world_make_folder(struct stp_world *world,
                                         struct stp_error *err)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(world->folder, sizeof(world->folder),
             "%.4000s/steptune-contract-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(world->folder) != NULL)
        return STP_OK;
    stp_fail(err, STP_ERR_IO, "cannot make %.150s: %s", world->folder,
             strerror(errno));
    world->folder[0] = '\0';
    return STP_ERR_IO;
}

static enum stp_status world_load_machine(struct stp_world *world,
                                          const char *path, unsigned n_ranks,
                                          struct stp_error *err)
{
    struct mock_machine *resized = NULL;
    ncclResult_t rc = mock_machine_load(path, &world->machine);

    if (rc == ncclSuccess && n_ranks != 0)
        rc = mock_machine_resize(world->machine, (int)n_ranks, &resized);
    if (rc != ncclSuccess)
        return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    if (resized != NULL) {
        mock_machine_free(world->machine);
        world->machine = resized;
    }
    return STP_OK;
}

enum stp_status stp_world_open(struct stp_world *world,
                               const char *machine_path, unsigned n_ranks,
                               struct stp_error *err)
{
    enum stp_status status;

    memset(world, 0, sizeof(*world));
    status = world_load_machine(world, machine_path, n_ranks, err);
    if (status == STP_OK)
        world_load_all_beside(world, machine_path);
    STP_THEN(status, world_make_folder(world, err));
    if (status == STP_OK && !world_write_files(world))
        status = stp_fail(err, STP_ERR_IO, "cannot write into %.150s: %s",
                          world->folder, strerror(errno));
    for (int i = 0; i < STP_N_SHAPES && status == STP_OK; i++)
        status = world_make_shape(world, i, err);
    if (status != STP_OK)
        stp_world_close(world);
    return status;
}

static int world_remove_entry(const char *path, const struct stat *st, int type,
                              struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path), 0;
}

void stp_world_close(struct stp_world *world)
{
    mock_machine_free(world->machine);
    for (int i = 0; i < STP_N_SHAPES; i++)
        mock_machine_free(world->shapes[i]);
    for (size_t i = 0; i < world->n_beside; i++)
        mock_machine_free(world->beside[i]);
    if (world->folder[0] != '\0')
        nftw(world->folder, world_remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    memset(world, 0, sizeof(*world));
}
