/* contract_world.c - the files and machines that the contract suite plays on */
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

/* A rule for each collective. */
#define RULES(allreduce, others)                                               \
    "allreduce,0," MOST allreduce "broadcast,0," MOST others                   \
    "reduce,0," MOST others "allgather,0," MOST others                         \
    "reducescatter,0," MOST others

static const struct {
    const char *name;
    const char *text; /* NULL: not written */
} files[STP_N_FILES] = {
    [STP_FILE_BASE] = {"base.conf", base_policy},
    [STP_FILE_TREE] = {"tree.conf", RULES(",tree,simple,4,-1,-1\n",
                                          ",ring,simple,4,-1,-1\n")},
    [STP_FILE_RING] = {"ring.conf",
                       RULES(",ring,ll,8,-1,-1\n", ",ring,ll,8,-1,-1\n")},
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
    [STP_SHAPE_COLLNET] = {"2 nodes with CollNet", 16, 2, 8},
    [STP_SHAPE_OTHERS] = {"3 ranks", 3, 1, 0},
    {"5 ranks", 5, 1, 0},
    {"6 ranks", 6, 1, 0},
    {"7 ranks", 7, 1, 0},
    {"16 nodes of 1 rank", 16, 16, 0},
    {"3 nodes of 4 ranks", 12, 3, 0},
    {"3 nodes of 8 ranks", 24, 3, 16},
    {"8 nodes of 8 ranks", 64, 8, 16},
    {"32 nodes of 8 ranks", 256, 32, 16},
    {"256 nodes of 8 ranks", 2048, 256, 16},
};

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

enum { N_CHANNELS = 8 }; /* that a search found; NCCL doubles them */

static void world_write_graph(FILE *fp, int id, int pattern, int n_gpus)
{
    fprintf(fp,
            "<graph id=\"%d\" pattern=\"%d\" nchannels=\"%d\" "
            "speedintra=\"40\" speedinter=\"40\" typeintra=\"NVL\" "
            "typeinter=\"PIX\" samechannels=\"1\">\n",
            id, pattern, N_CHANNELS);
    for (int c = 0; c < N_CHANNELS; c++) {
        fputs("<channel>", fp);
        for (int g = 0; g < n_gpus; g++)
            fprintf(fp, "<gpu dev=\"%d\"/>", g);
        fputs("</channel>\n", fp);
    }
    fputs("</graph>\n", fp);
}

/* Makes machine 'i' of those that are made up, in a folder of its own. */
static enum stp_status world_make_shape(struct stp_world *world, int i,
                                        struct stp_error *err)
{
    char folder[STP_PATH + 64], path[STP_PATH + 96], text[256];
    const int per_node = shapes[i].n_ranks / shapes[i].n_nodes;
    bool whole;
    FILE *fp;

    snprintf(folder, sizeof(folder), "%s/%s", world->folder, shapes[i].name);
    snprintf(path, sizeof(path), "%s/machine.csv", folder);
    snprintf(text, sizeof(text),
             "gpu,compute_capability,ranks,nodes,cpu_vendor,channels,"
             "nvls_channels,nccl\n"
             "NVIDIA H100 80GB HBM3,90,%d,%d,intel,%d,%d,2.28.9\n",
             shapes[i].n_ranks, shapes[i].n_nodes, 2 * N_CHANNELS,
             shapes[i].n_nvls_channels);
    whole = mkdir(folder, 0700) == 0 && stp_write_text(path, text);
    snprintf(path, sizeof(path), "%s/graphs.xml", folder);
    fp = whole ? fopen(path, "w") : NULL;
    if (fp != NULL) {
        fputs("<graphs version=\"1\">\n", fp);
        world_write_graph(fp, 0, 4, per_node); /* ring */
        world_write_graph(fp, 1, 1, per_node); /* balanced tree */
        if (shapes[i].n_nvls_channels > 0)
            world_write_graph(fp, 3, 5, 1);
        if (i == STP_SHAPE_COLLNET) {
            world_write_graph(fp, 2, 3, per_node);
            world_write_graph(fp, 4, 6, per_node);
        }
        fputs("</graphs>\n", fp);
        whole = ferror(fp) == 0;
        whole &= fclose(fp) == 0;
    }
    if (fp == NULL || !whole)
        return stp_fail(err, STP_ERR_IO, "cannot write %.150s: %s", folder,
                        strerror(errno));
    if (mock_machine_load(folder, &world->shapes[i]) != ncclSuccess)
        return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    return STP_OK;
}

enum stp_status stp_world_open(struct stp_world *world,
                               const char *machine_path, unsigned n_ranks,
                               struct stp_error *err)
{
    const char *tmp = getenv("TMPDIR");
    struct mock_machine *resized = NULL;
    enum stp_status status = STP_OK;

    memset(world, 0, sizeof(*world));
    if (mock_machine_load(machine_path, &world->machine) != ncclSuccess ||
        (n_ranks != 0 && mock_machine_resize(world->machine, (int)n_ranks,
                                             &resized) != ncclSuccess))
        status = stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
    if (resized != NULL) {
        mock_machine_free(world->machine);
        world->machine = resized;
    }
    snprintf(world->folder, sizeof(world->folder),
             "%.4000s/steptune-contract-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (status == STP_OK && mkdtemp(world->folder) == NULL)
        status = stp_fail(err, STP_ERR_IO, "cannot make %.150s: %s",
                          world->folder, strerror(errno));
    if (status != STP_OK)
        world->folder[0] = '\0'; /* nothing to remove */
    for (int i = 0; i < STP_N_FILES && status == STP_OK; i++) {
        snprintf(world->files[i], sizeof(world->files[i]), "%.4080s/%s",
                 world->folder, files[i].name);
        if (files[i].text != NULL &&
            !stp_write_text(world->files[i], files[i].text))
            status = stp_fail(err, STP_ERR_IO, "cannot write into %.150s: %s",
                              world->folder, strerror(errno));
    }
    for (int i = 0; i < STP_N_SHAPES && status == STP_OK; i++)
        status = world_make_shape(world, i, err);
    if (status != STP_OK)
        stp_world_close(world);
    return status;
}

static int world_remove_entry(const char *path, const struct stat *st, int type,
                              struct FTW *ftw)
{
    return remove(path), 0;
}

void stp_world_close(struct stp_world *world)
{
    mock_machine_free(world->machine);
    for (int i = 0; i < STP_N_SHAPES; i++)
        mock_machine_free(world->shapes[i]);
    if (world->folder[0] != '\0')
        nftw(world->folder, world_remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    memset(world, 0, sizeof(*world));
}
