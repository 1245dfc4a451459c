#include "report/page/page_find.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/measurement.h"
#include "core/policy/memory_policy.h"
#include "report/measurements/measurements_csv.h"

/* The contents of a file, and the end of its name: after the policy's name for
 * other policies, after the policy's name without its extension for
 * measurements. */
static const struct {
    const char *content;
    const char *suffix;
} kinds[STP_PAGE_N_SOURCES] = {
    [STP_PAGE_POLICY] = {"policies", ".conf"},
    [STP_PAGE_OVERLAP_POLICY] = {"overlap policies", ".overlap"},
    [STP_PAGE_MEMORY_POLICY] = {"memory policies", STP_MEMORY_SUFFIX},
    [STP_PAGE_SWEEP] = {"sweeps", ".sweep.csv"},
    [STP_PAGE_VERIFY] = {"measurements of a policy", ".verify.csv"},
    [STP_PAGE_ITERATIONS] = {"measurements of iterations", ".iterations.csv"},
    [STP_PAGE_OVERLAP_VERIFY] = {"measurements of an overlap policy",
                                 ".overlap-verify.csv"},
};

static enum stp_status page_find_format(char path[STP_PAGE_PATH],
                                        struct stp_error *err, const char *fmt,
                                        ...) STP_PRINTF(3, 4);

static enum stp_status page_find_format(char path[STP_PAGE_PATH],
                                        struct stp_error *err, const char *fmt,
                                        ...)
{
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(path, STP_PAGE_PATH, fmt, args);
    va_end(args);
    if (len >= STP_PAGE_PATH)
        return stp_fail(err, STP_ERR_IO, "the path '%.60s...' is too long",
                        path);
    return STP_OK;
}

static enum stp_status page_find_add(struct stp_page_found *found,
                                     enum stp_page_source kind,
                                     const char *path, struct stp_error *err)
{
    if (found->path[kind][0] != '\0')
        return stp_fail(err, STP_ERR_SYNTAX,
                        "'%.80s' and '%.80s' are both %s, expected one",
                        found->path[kind], path, kinds[kind].content);
    found->sources.is_named[kind] = true;
    return page_find_format(found->path[kind], err, "%s", path);
}

/* ---- a file ---- */

static enum stp_page_source page_find_kind(const struct stp_dataset *data)
{
    bool iterates = stp_dataset_n_iterations(data) > 0;

    for (size_t i = 0; i < data->n_rows; i++)
        if (data->rows[i].arm.kind == STP_ARM_PLUGIN)
            return iterates ? STP_PAGE_OVERLAP_VERIFY : STP_PAGE_VERIFY;
    return iterates ? STP_PAGE_ITERATIONS : STP_PAGE_SWEEP;
}

static bool page_find_ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n > m && strcmp(text + n - m, end) == 0;
}

/* Why a file is nothing of a kind. */
struct page_errors {
    struct stp_error policy, memory, measurements;
};

/* The kind of policy that the file is, or STP_PAGE_N_SOURCES. */
static enum stp_page_source page_find_policy(const char *path,
                                             struct page_errors *as)
{
    struct stp_policy *policy;
    enum stp_page_source kind = STP_PAGE_POLICY;

    if (page_find_ends_in(path, kinds[STP_PAGE_OVERLAP_POLICY].suffix))
        kind = STP_PAGE_OVERLAP_POLICY;
    if (stp_policy_load(path, &policy, &as->policy) != STP_OK) {
        kind = STP_PAGE_MEMORY_POLICY;
        if (stp_memory_policy_load(path, &policy, &as->memory) != STP_OK)
            return STP_PAGE_N_SOURCES;
    }
    stp_policy_free(policy);
    return kind;
}

static enum stp_status page_find_add_file(struct stp_page_found *found,
                                          const char *path,
                                          struct stp_error *err)
{
    struct stp_dataset data = {0};
    struct page_errors as;
    enum stp_page_source kind;
    enum stp_status status;

    if (access(path, R_OK) != 0)
        return stp_fail(err, STP_ERR_IO, "cannot read '%.160s': %s", path,
                        strerror(errno));
    kind = page_find_policy(path, &as);
    if (kind != STP_PAGE_N_SOURCES)
        return page_find_add(found, kind, path, err);
    status = stp_measurements_load_any(path, -1, &data, &as.measurements);
    if (status == STP_OK)
        status = page_find_add(found, page_find_kind(&data), path, err);
    else {
        /* Refuses a file that is neither a policy nor measurements, with the
         * error of what its name says that it is. */
        bool measured = page_find_ends_in(path, ".csv") ||
                        page_find_ends_in(path, ".json") ||
                        page_find_ends_in(path, ".txt");
        const struct stp_error *why = measured ? &as.measurements : &as.policy;
        char text[STP_ERROR_TEXT];

        if (page_find_ends_in(path, kinds[STP_PAGE_MEMORY_POLICY].suffix))
            why = &as.memory;
        stp_error_string(why, path, text, sizeof(text));
        status = stp_fail(err, STP_ERR_SYNTAX, "%s", text);
    }
    stp_dataset_free(&data);
    return status;
}

/* ---- a folder ---- */

/* The only file of the folder whose name ends in 'suffix'; "" for none. */
static enum stp_status page_find_in_folder(const char *folder,
                                           const char *suffix,
                                           char path[STP_PAGE_PATH],
                                           struct stp_error *err)
{
    DIR *dir = opendir(folder);
    enum stp_status status = STP_OK;

    if (dir == NULL)
        return stp_fail(err, STP_ERR_IO, "cannot read '%.160s': %s", folder,
                        strerror(errno));
    path[0] = '\0';
    for (struct dirent *e; status == STP_OK && (e = readdir(dir)) != NULL;) {
        if (!page_find_ends_in(e->d_name, suffix))
            continue;
        if (path[0] == '\0')
            status = page_find_format(path, err, "%s/%s", folder, e->d_name);
        else
            status = stp_fail(err, STP_ERR_SYNTAX,
                              "the folder '%.120s' has several *%s, expected "
                              "one, or the name of one",
                              folder, suffix);
    }
    closedir(dir);
    return status;
}

/* Adds the policy of a folder, or its sweep if there is no policy: the other
 * files lie beside it. */
static enum stp_status page_find_add_folder(struct stp_page_found *found,
                                            const char *folder,
                                            struct stp_error *err)
{
    static const enum stp_page_source first[] = {STP_PAGE_POLICY,
                                                 STP_PAGE_SWEEP};
    char path[STP_PAGE_PATH];
    enum stp_status status =
        page_find_format(path, err, "%s/rounds.csv", folder);

    if (status == STP_OK && access(path, F_OK) == 0)
        return page_find_add_file(found, path, err);
    for (size_t i = 0; i < 2 && status == STP_OK; i++) {
        status = page_find_in_folder(folder, kinds[first[i]].suffix, path, err);
        if (status == STP_OK && path[0] != '\0')
            return page_find_add(found, first[i], path, err);
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

/* The length of the policy's name without its extension, or else of the
 * sweep's; 0 if neither has a stem. */
static size_t page_find_stem(const char *policy, const char *sweep)
{
    const char *suffix = kinds[STP_PAGE_SWEEP].suffix;
    const char *slash = strrchr(policy, '/');
    const char *dot = strrchr(policy, '.');

    if (policy[0] == '\0')
        return page_find_ends_in(sweep, suffix) ? strlen(sweep) - strlen(suffix)
                                                : 0;
    return dot != NULL && dot > (slash != NULL ? slash + 1 : policy)
               ? (size_t)(dot - policy)
               : strlen(policy);
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

        status = is_folder ? page_find_add_folder(found, paths[i], err)
                           : page_find_add_file(found, paths[i], err);
    }

    if (status == STP_OK) {
        const char *policy = found->path[STP_PAGE_POLICY];
        const char *sweep = found->path[STP_PAGE_SWEEP];
        const char *base = policy[0] != '\0' ? policy : sweep;
        size_t stem = page_find_stem(policy, sweep);
        status = STP_OK;

        for (int k = STP_PAGE_OVERLAP_POLICY;
             stem > 0 && k < STP_PAGE_N_SOURCES && status == STP_OK; k++) {
            size_t len = k < STP_PAGE_SWEEP ? strlen(base) : stem;
            char path[STP_PAGE_PATH];

            status = page_find_format(path, err, "%.*s%s", (int)len, base,
                                      kinds[k].suffix);
            if (status == STP_OK && found->path[k][0] == '\0' &&
                access(path, F_OK) == 0)
                memcpy(found->path[k], path, sizeof(path));
        }
    }

    for (int k = 0; k < STP_PAGE_N_SOURCES; k++)
        if (found->path[k][0] != '\0')
            found->sources.path[k] = found->path[k];
    return status;
}
