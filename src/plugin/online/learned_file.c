#include "plugin/online/learned_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/names.h"
#include "plugin/file.h"
#include "plugin/settings.h"

enum { MAX_ENTRY = 640 }; /* bytes of a rule and the comment above it */

#define COLUMNS                                                                \
    "collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,"       \
    "nRanks,gpu"

static const char head[] = STP_LEARNED_MAGIC
    "\n"
    "# Each rule was settled by what was measured in a job; the comment above\n"
    "# it has its gain over what ran before, and the 95 percent "
    "interval.\n" COLUMNS "\n";

static const char bits[] = "# bits: same"; /* not above a rule, as of one */

static bool is_lock_kept; /* of a folder, by another process */

struct job {
    const char *path;
    const struct stp_learned_rules *learned;
    const struct stp_shape *shape;
    struct stp_error *err;
};

static enum stp_status learned_fail(const struct job *job, const char *action)
{
    return stp_fail(job->err, STP_ERR_IO, "cannot %s '%.140s': %s", action,
                    job->path, stp_file_strerror(errno));
}

/* ---- the rules ---- */

/* A learned rule up to its maximum of bytes: as the old file has it. */
static void learned_begin_rule(const struct stp_learned *rule, char text[128])
{
    snprintf(text, 128, "%s,%" PRIu64 ",%" PRIu64 ",",
             stp_coll_name(rule->coll), rule->bytes.min, rule->bytes.max);
}

static void learned_end_rule(const struct job *job, char text[256])
{
    const char *gpu = job->shape->gpu;

    snprintf(text, 256, ",%zu,%zu,%s", job->shape->n_nodes, job->shape->n_ranks,
             gpu != NULL && stp_gpu_is_plain(gpu, strlen(gpu)) ? gpu : "*");
}

/* ---- the old file ---- */

/* Whether a learned rule replaces the rule in 'line'. */
static bool learned_is_replaced(const struct job *job, const char *line)
{
    char begin[128];
    char end[256];
    size_t len = strlen(line);

    learned_end_rule(job, end);
    if (len < strlen(end) || strcmp(line + len - strlen(end), end) != 0)
        return false;
    for (size_t i = 0; i < job->learned->n; i++) {
        learned_begin_rule(&job->learned->rules[i], begin);
        if (strncmp(line, begin, strlen(begin)) == 0)
            return true;
    }
    return false;
}

/* Copies the rules of 'old' that stay, each with the comment above it: as many
 * as the file has room for beside what was learned now. */
static void learned_keep_rules(const struct job *job, char *old, FILE *fp)
{
    size_t room = STP_MAX_LEARNED - sizeof(head) - job->learned->n * MAX_ENTRY;
    const char *comment = "";
    char *rest = old;
    char *line;

    while ((line = strsep(&rest, "\n")) != NULL) {
        bool is_rule = *line != '#' && *line != '\0' &&
                       strncmp(line, "collective,", 11) != 0;

        size_t n = strlen(comment) + strlen(line) + 2;

        if (is_rule && n <= room && !learned_is_replaced(job, line)) {
            fprintf(fp, "%s%s%s\n", comment, *comment != '\0' ? "\n" : "",
                    line);
            room -= n;
        }
        comment = *line == '#' && strcmp(line, bits) != 0 ? line : "";
    }
}

/* The whole lines of the file's first STP_MAX_LEARNED bytes.  A file that
 * cannot be read, or is none of ours, stays: nothing replaces it. */
static enum stp_status learned_read_old(const struct job *job, FILE *fp,
                                        char **text_ret)
{
    static const char magic[] = STP_LEARNED_MAGIC;
    char *text = malloc(STP_MAX_LEARNED + 1);
    struct stp_policy *rules = NULL;
    struct stp_error why;
    enum stp_status status = STP_OK;
    const char *at;
    size_t n;

    if (text == NULL)
        return stp_nomem(job->err);
    n = fread(text, 1, STP_MAX_LEARNED, fp);
    if (ferror(fp))
        status = learned_fail(job, "read");
    else if (n > 0 &&
             (n < strlen(magic) || memcmp(text, magic, strlen(magic)) != 0))
        status = stp_fail(
            job->err, STP_ERR_IO,
            "'%.200s' is no file of what was learned, and is left as it is",
            job->path); /* an empty file is nobody's */
    if (n == STP_MAX_LEARNED)
        while (n > 0 && text[n - 1] != '\n')
            n--;
    text[n] = '\0';

    /* Rules under another header, or none, would mean something else under
     * ours. */
    for (at = text; *at == '#' || *at == '\n';)
        at += strcspn(at, "\n") + (strchr(at, '\n') != NULL);
    if (status == STP_OK && *at != '\0' &&
        (strncmp(at, COLUMNS, strlen(COLUMNS)) != 0 ||
         (at[strlen(COLUMNS)] != '\n' && at[strlen(COLUMNS)] != '\0')))
        status = stp_fail(job->err, STP_ERR_IO,
                          "'%.140s' is left as it is: its rules do not stand "
                          "under the header " COLUMNS,
                          job->path);

    /* One that does not parse would refuse all others. */
    if (status == STP_OK &&
        stp_policy_parse(STP_POLICY_OF_ARMS, text, strlen(text), &rules,
                         &why) != STP_OK)
        status = stp_fail(job->err, STP_ERR_IO,
                          "'%.140s' is left as it is: line %u: %s", job->path,
                          why.line, why.text);
    stp_policy_free(rules);
    if (status == STP_OK)
        *text_ret = text;
    else
        free(text);
    return status;
}

/* *same_bits_ret: whether all old rules, if any, keep the bits of sums. */
static enum stp_status learned_keep_old(const struct job *job, FILE *to,
                                        bool *same_bits_ret)
{
    int fd = stp_file_open(job->path, O_RDONLY);
    FILE *from = fd >= 0 ? fdopen(fd, "r") : NULL;
    enum stp_status status;
    char *old = NULL;

    if (fd < 0)
        return errno == ENOENT ? STP_OK : learned_fail(job, "read");
    if (from == NULL) {
        close(fd);
        return stp_nomem(job->err);
    }
    status = learned_read_old(job, from, &old);
    if (status == STP_OK) {
        *same_bits_ret = *old == '\0' || strstr(old, bits) != NULL;
        learned_keep_rules(job, old, to);
    }
    free(old);
    fclose(from);
    return status;
}

/* ---- the file ---- */

/* Opens a new file beside the job's, whose name is put into 'temporary'. */
static enum stp_status learned_begin(const struct job *job,
                                     char temporary[STP_PATH_SIZE + 8],
                                     FILE **fp_ret)
{
    int fd;

    snprintf(temporary, STP_PATH_SIZE + 8, "%s.XXXXXX", job->path);
    fd = stp_file_create(temporary);
    if (fd < 0)
        return learned_fail(job, "write beside");
    *fp_ret = fdopen(fd, "w");
    if (*fp_ret == NULL) {
        close(fd);
        unlink(temporary);
        return stp_nomem(job->err);
    }
    fchmod(fd, 0644);
    return STP_OK;
}

/* Puts it in the place of the job's file, unless what wrote it failed. */
static enum stp_status learned_commit(const struct job *job,
                                      const char *temporary, FILE *fp,
                                      enum stp_status status)
{
    bool ok = fflush(fp) == 0 && ferror(fp) == 0;

    if (status == STP_OK && (!ok || rename(temporary, job->path) != 0))
        status = learned_fail(job, "write");
    fclose(fp);
    if (status != STP_OK)
        unlink(temporary);
    return status;
}

static enum stp_status learned_write(const struct job *job)
{
    char temporary[STP_PATH_SIZE + 8], begin[128], end[256];
    enum stp_status status;
    bool same_bits = true;
    FILE *fp;

    STP_TRY(learned_begin(job, temporary, &fp));
    fputs(head, fp);
    status = learned_keep_old(job, fp, &same_bits);
    if (job->learned->same_bits && same_bits)
        fprintf(fp, "%s\n", bits);
    learned_end_rule(job, end);
    for (size_t i = 0; i < job->learned->n; i++) {
        const struct stp_learned *rule = &job->learned->rules[i];

        if (rule->arm.algo < 0)
            continue;
        learned_begin_rule(rule, begin);
        fprintf(fp, "# %.4gx (%.4g to %.4g), %" PRIu64 " calls\n", rule->gain,
                rule->gain_low, rule->gain_high, rule->n_calls);
        fprintf(fp, "%s%s,%s,%d%s\n", begin, stp_algo_name(rule->arm.algo),
                stp_proto_name(rule->arm.proto),
                rule->arm.n_channels == 0 ? -1 : rule->arm.n_channels, end);
    }
    return learned_commit(job, temporary, fp, status);
}

/* Other processes that write here wait.  *fd_ret is -1 for a folder that cannot
 * be opened, which may be written all the same. */
static enum stp_status learned_lock_folder(const struct job *job, int *fd_ret)
{
    char folder[STP_PATH_SIZE];
    const char *slash = strrchr(job->path, '/');
    const long n = slash != NULL ? slash + 1 - job->path : 0;
    int fd;

    snprintf(folder, sizeof(folder), "%.*s.", (int)n, job->path);
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && !stp_file_lock(fd, &is_lock_kept)) {
        close(fd);
        return stp_fail(job->err, STP_ERR_IO,
                        "another process keeps the lock of the folder of "
                        "'%.140s'",
                        job->path);
    }
    *fd_ret = fd;
    return STP_OK;
}

/* A device, such as /dev/null, must not be replaced by a file. */
static bool learned_is_device(const char *path)
{
    struct statx st;

    return statx(AT_FDCWD, path, 0, STATX_TYPE, &st) == 0 &&
           S_ISCHR(st.stx_mode);
}

enum stp_status stp_learned_check(const char *path, struct stp_error *err)
{
    const struct stp_learned_rules none = {NULL, 0, false};
    const struct stp_shape shape = {1, 1, NULL};
    const struct job job = {path, &none, &shape, err};
    char temporary[STP_PATH_SIZE + 8];
    enum stp_status status;
    bool same_bits;
    FILE *fp;

    if (learned_is_device(path))
        return STP_OK;
    STP_TRY(learned_begin(&job, temporary, &fp));
    status = learned_keep_old(&job, fp, &same_bits);
    fclose(fp);
    unlink(temporary);
    return status;
}

enum stp_status stp_learned_save(const char *path,
                                 const struct stp_learned_rules *learned,
                                 const struct stp_shape *shape,
                                 struct stp_error *err)
{
    const struct job job = {path, learned, shape, err};
    enum stp_status status;
    int lock;

    if (learned_is_device(path))
        return STP_OK;
    STP_TRY(learned_lock_folder(&job, &lock));
    status = learned_write(&job);
    if (lock >= 0)
        close(lock);
    return status;
}

/* ---- for Prometheus ---- */

/* Prints a sample of a rule, or of all communicators of the shape (NULL). */
static void learned_put_metric(const struct job *job,
                               const struct stp_learned *rule, const char *name,
                               const char *more, double value, FILE *fp)
{
    fprintf(fp, "steptune_%s{nRanks=\"%zu\",nNodes=\"%zu\"", name,
            job->shape->n_ranks, job->shape->n_nodes);
    if (rule != NULL)
        fprintf(fp, ",collective=\"%s\",min_bytes=\"%ju\",max_bytes=\"%ju\"",
                stp_coll_name(rule->coll), (uintmax_t)rule->bytes.min,
                (uintmax_t)rule->bytes.max);
    if (rule != NULL && rule->arm.algo >= 0)
        fprintf(fp, ",algorithm=\"%s\",protocol=\"%s\",channels=\"%u\"",
                stp_algo_name(rule->arm.algo), stp_proto_name(rule->arm.proto),
                rule->arm.n_channels);
    fprintf(fp, "%s} %.10g\n", more, value);
}

enum stp_status stp_learned_save_metrics(
    const char *folder, const struct stp_learned_rules *learned,
    const struct stp_shape *shape, bool has_stopped, struct stp_error *err)
{
    char path[STP_PATH_SIZE], temporary[STP_PATH_SIZE + 8];
    const struct job job = {path, learned, shape, err};
    const struct stp_learned *rule = learned->rules;
    FILE *fp;

    snprintf(path, sizeof(path), "%s/steptune_%zu_ranks_%zu_nodes.prom", folder,
             shape->n_ranks, shape->n_nodes); /* cut, it cannot be written */
    STP_TRY(learned_begin(&job, temporary, &fp));
    fputs("# TYPE steptune_learned_gain gauge\n", fp);
    for (; rule < learned->rules + learned->n; rule++) {
        const char name[] = "learned_gain";

        learned_put_metric(&job, rule, name, ",value=\"mean\"", rule->gain, fp);
        learned_put_metric(&job, rule, name, ",value=\"low\"", rule->gain_low,
                           fp);
        learned_put_metric(&job, rule, name, ",value=\"high\"", rule->gain_high,
                           fp);
    }
    fputs("# TYPE steptune_learning_stopped gauge\n", fp);
    learned_put_metric(&job, NULL, "learning_stopped", "", has_stopped, fp);
    return learned_commit(&job, temporary, fp, STP_OK);
}
