#include "report/page/page_find.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/measurement.h"
#include "core/policy/policy.h"
#include "report/measurements/measurements_any.h"

enum kind {
    POLICY,
    OVERLAP_POLICY,
    SWEEP,
    VERIFY,
    ITERATIONS,
    OVERLAP_VERIFY,
};

/* What a file is, and how its name ends behind that of the policy without its
 * extension; the overlap policy's behind the whole. */
static const struct {
    const char *what;
    const char *suffix;
} kinds[STP_PAGE_N_SOURCES] = {
    [POLICY] = {"policies", NULL},
    [OVERLAP_POLICY] = {"overlap policies", ".overlap"},
    [SWEEP] = {"sweeps", ".sweep.csv"},
    [VERIFY] = {"measurements of a policy", ".verify.csv"},
    [ITERATIONS] = {"measurements of iterations", ".iterations.csv"},
    [OVERLAP_VERIFY] = {"measurements of an overlap policy",
                        ".overlap-verify.csv"},
};

static enum stp_status too_long(const char *path, struct stp_error *err)
{
    return stp_fail(err, STP_ERR_IO, "the path '%.60s...' is too long", path);
}

static enum stp_status take(struct stp_page_found *found, enum kind kind,
                            const char *path, struct stp_error *err)
{
    if (found->path[kind][0] != '\0')
        return stp_fail(err, STP_ERR_SYNTAX,
                        "'%.80s' and '%.80s' are both %s, expected one",
                        found->path[kind], path, kinds[kind].what);
    if (strlen(path) >= STP_PAGE_PATH)
        return too_long(path, err);
    memcpy(found->path[kind], path, strlen(path) + 1);
    return STP_OK;
}

/* ---- a file ---- */

static enum kind kind_of(const struct stp_dataset *data)
{
    bool iterates = stp_dataset_n_iterations(data) > 0;

    for (size_t i = 0; i < data->n_rows; i++)
        if (data->rows[i].arm.kind == STP_ARM_PLUGIN)
            return iterates ? OVERLAP_VERIFY : VERIFY;
    return iterates ? ITERATIONS : SWEEP;
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n > m && strcmp(text + n - m, end) == 0;
}

/* What is wrong with a file that is neither: as measurements if that is what
 * its name says. */
static enum stp_status refuse(const char *path, const struct stp_error *policy,
                              const struct stp_error *measurements,
                              struct stp_error *err)
{
    char text[STP_ERROR_TEXT];

    stp_error_string(ends_in(path, ".csv") || ends_in(path, ".json") ||
                             ends_in(path, ".txt")
                         ? measurements
                         : policy,
                     path, text, sizeof(text));
    return stp_fail(err, STP_ERR_SYNTAX, "%s", text);
}

static enum stp_status add_file(struct stp_page_found *found, const char *path,
                                struct stp_error *err)
{
    struct stp_error as_policy, as_measurements;
    struct stp_dataset data = {0};
    struct stp_policy *policy;
    enum stp_status status;

    if (access(path, R_OK) != 0)
        return stp_fail(err, STP_ERR_IO, "cannot read '%.160s': %s", path,
                        strerror(errno));
    if (stp_policy_load(path, &policy, &as_policy) == STP_OK) {
        stp_policy_free(policy);
        return take(found,
                    ends_in(path, kinds[OVERLAP_POLICY].suffix) ? OVERLAP_POLICY
                                                                : POLICY,
                    path, err);
    }
    status = stp_measurements_load_any(path, -1, &data, &as_measurements);
    status = status == STP_OK ? take(found, kind_of(&data), path, err)
                              : refuse(path, &as_policy, &as_measurements, err);
    stp_dataset_free(&data);
    return status;
}

/* ---- a folder ---- */

/* The policy, or the sweep of one that was not kept; then the rest is found
 * beside it. */
static enum stp_status search(const char *folder, DIR *dir, const char *suffix,
                              char path[STP_PAGE_PATH], struct stp_error *err)
{
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char next[STP_PAGE_PATH];

        if (!ends_in(e->d_name, suffix))
            continue;
        if ((size_t)snprintf(next, sizeof(next), "%s/%s", folder, e->d_name) >=
            sizeof(next))
            return too_long(folder, err);
        if (path[0] != '\0')
            return stp_fail(err, STP_ERR_SYNTAX,
                            "the folder '%.120s' has several *%s, expected "
                            "one, or the name of one",
                            folder, suffix);
        memcpy(path, next, sizeof(next));
    }
    return STP_OK;
}

static enum stp_status add_folder(struct stp_page_found *found,
                                  const char *folder, struct stp_error *err)
{
    static const struct {
        const char *suffix;
        enum kind kind;
    } files[] = {{".conf", POLICY}, {".sweep.csv", SWEEP}};
    char path[STP_PAGE_PATH];
    enum stp_status status = STP_OK;

    if ((size_t)snprintf(path, sizeof(path), "%s/rounds.csv", folder) >=
        sizeof(path))
        return too_long(folder, err);
    if (access(path, F_OK) == 0)
        return add_file(found, path, err);
    for (size_t i = 0; i < 2 && status == STP_OK; i++) {
        DIR *dir = opendir(folder);

        if (dir == NULL)
            return stp_fail(err, STP_ERR_IO, "cannot read '%.160s': %s", folder,
                            strerror(errno));
        path[0] = '\0';
        status = search(folder, dir, files[i].suffix, path, err);
        closedir(dir);
        if (status == STP_OK && path[0] != '\0')
            return take(found, files[i].kind, path, err);
    }
    if (status != STP_OK)
        return status;
    return stp_fail(
        err, STP_ERR_SYNTAX,
        "'%.120s' has no rounds.csv, *.conf or *.sweep.csv, expected a folder "
        "of `steptune tune` or `steptune iterate`",
        folder);
}

/* ---- beside the policy ---- */

/* The length of the name without ".conf" or ".sweep.csv". */
static size_t stem_of(const struct stp_page_found *found, const char **path_ret)
{
    const char *policy = found->path[POLICY];
    const char *slash, *dot;

    if (policy[0] == '\0') {
        *path_ret = found->path[SWEEP];
        return ends_in(found->path[SWEEP], kinds[SWEEP].suffix)
                   ? strlen(found->path[SWEEP]) - strlen(kinds[SWEEP].suffix)
                   : 0;
    }
    *path_ret = policy;
    slash = strrchr(policy, '/');
    dot = strrchr(policy, '.');
    return dot != NULL && dot > (slash != NULL ? slash + 1 : policy)
               ? (size_t)(dot - policy)
               : strlen(policy);
}

static enum stp_status add_beside(struct stp_page_found *found,
                                  struct stp_error *err)
{
    const char *base;
    size_t stem = stem_of(found, &base);

    for (int k = OVERLAP_POLICY; stem > 0 && k < STP_PAGE_N_SOURCES; k++) {
        char path[STP_PAGE_PATH];
        size_t len = k == OVERLAP_POLICY ? strlen(base) : stem;

        if ((size_t)snprintf(path, sizeof(path), "%.*s%s", (int)len, base,
                             kinds[k].suffix) >= sizeof(path))
            return too_long(base, err);
        if (found->path[k][0] == '\0' && access(path, F_OK) == 0)
            memcpy(found->path[k], path, sizeof(path));
    }
    return STP_OK;
}

enum stp_status stp_page_find(const char *const *paths, size_t n,
                              struct stp_page_found *found,
                              struct stp_error *err)
{
    enum stp_status status = STP_OK;

    memset(found, 0, sizeof(*found));
    for (size_t i = 0; i < n && status == STP_OK; i++) {
        struct stat st;
        bool is_folder = stat(paths[i], &st) == 0 && S_ISDIR(st.st_mode);

        status = is_folder ? add_folder(found, paths[i], err)
                           : add_file(found, paths[i], err);
    }
    return status == STP_OK ? add_beside(found, err) : status;
}

void stp_page_found_sources(const struct stp_page_found *found,
                            struct stp_page_sources *s)
{
    const char **const members[STP_PAGE_N_SOURCES] = {
        [POLICY] = &s->policy,         [OVERLAP_POLICY] = &s->overlap_policy,
        [SWEEP] = &s->sweep,           [VERIFY] = &s->verify,
        [ITERATIONS] = &s->iterations, [OVERLAP_VERIFY] = &s->overlap_verify,
    };

    memset(s, 0, sizeof(*s));
    for (int k = 0; k < STP_PAGE_N_SOURCES; k++)
        if (found->path[k][0] != '\0')
            *members[k] = found->path[k];
}
