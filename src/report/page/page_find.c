#include "report/page/page.h"

#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/measurement.h"
#include "core/policy/memory_policy.h"
#include "core/text.h"
#include "report/file.h"
#include "report/measurements/measurements_csv.h"
#include "report/policy_file.h"

/* The contents of a file, and the end of its name: after the policy's name for
 * other policies, after its name without extension for measurements. */
static const struct {
    const char *content;
    const char *suffix;
} kinds[STP_PAGE_N_SOURCES] = {
    [STP_PAGE_POLICY] = {"policies", ".conf"},
    [STP_PAGE_OVERLAP_POLICY] = {"overlap policies", ".overlap"},
    [STP_PAGE_MEMORY_POLICY] = {"memory policies", STP_MEMORY_SUFFIX},
    [STP_PAGE_STAGE_POLICY] = {"stage policies", STP_STAGE_SUFFIX},
    [STP_PAGE_SWEEP] = {"sweeps", ".sweep.csv"},
    [STP_PAGE_VERIFY] = {"measurements of a policy", ".verify.csv"},
    [STP_PAGE_GRAPH] = {"measurements of CUDA graphs", ".graph.csv"},
    [STP_PAGE_ITERATIONS] = {"measurements of iterations", ".iterations.csv"},
    [STP_PAGE_OVERLAP_VERIFY] = {"measurements of an overlap policy",
                                 ".overlap-verify.csv"},
};

static enum stp_status page_find_add(struct stp_page_found *found,
                                     enum stp_page_source kind,
                                     const char *path, struct stp_error *err)
{
    if (found->path[kind][0] != '\0')
        return stp_fail(err, STP_ERR_SYNTAX,
                        "'%.80s' and '%.80s' are both %s, expected one: a page "
                        "is of one run (several: `steptune plot`)",
                        found->path[kind], path, kinds[kind].content);
    found->sources.is_named[kind] = true;
    return stp_path_write(found->path[kind], err, "%s", path);
}

/* How many bytes stand before that end; 0: the text has another one. */
static size_t page_find_stem(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n > m && strcmp(text + n - m, end) == 0 ? n - m : 0;
}

static enum stp_status page_find_add_file(struct stp_page_found *found,
                                          const char *path,
                                          struct stp_error *err)
{
    static const enum stp_page_source of_kind[STP_N_POLICY_KINDS] = {
        STP_PAGE_POLICY, STP_PAGE_MEMORY_POLICY, STP_PAGE_STAGE_POLICY};
    const bool overlaps =
        page_find_stem(path, kinds[STP_PAGE_OVERLAP_POLICY].suffix) > 0;
    const bool is_measured = page_find_stem(path, ".csv") ||
                             page_find_stem(path, ".json") ||
                             page_find_stem(path, ".txt");
    enum stp_page_source kind = STP_PAGE_N_SOURCES;
    struct stp_error as_named, as_other, as_measurements;
    char text[STP_ERROR_TEXT];
    struct stp_policy *policy = NULL;
    struct stp_dataset data = {0};
    struct stat info;

    if (access(path, R_OK) != 0)
        return stp_cannot(err, "read", path);
    if (stat(path, &info) == 0 && info.st_size == 0)
        return stp_fail(err, STP_ERR_SYNTAX,
                        "'%.160s' is empty, expected a policy or measurements",
                        path);
    /* The kind of the name comes first: all have a policy without rules. */
    for (int k = -1; k < STP_N_POLICY_KINDS && kind == STP_PAGE_N_SOURCES;
         k++) {
        const enum stp_policy_kind tried =
            k < 0 ? stp_policy_kind_of_file(path) : (enum stp_policy_kind)k;

        if (stp_policy_load(tried, path, &policy,
                            k < 0 ? &as_named : &as_other) != STP_OK)
            continue;
        stp_policy_free(policy);
        kind = overlaps && tried == STP_POLICY_OF_ARMS ? STP_PAGE_OVERLAP_POLICY
                                                       : of_kind[tried];
    }
    if (kind < STP_PAGE_N_SOURCES)
        return page_find_add(found, kind, path, err);
    if (stp_measurements_load_any(path, -1, 0, &data, &as_measurements) ==
        STP_OK) {
        const bool iterates = stp_dataset_n_iterations(&data) > 0;

        kind = iterates ? STP_PAGE_ITERATIONS : STP_PAGE_SWEEP;
        for (size_t i = 0; i < data.n_rows; i++)
            if (data.rows[i].arm.kind == STP_ARM_PLUGIN)
                kind = iterates ? STP_PAGE_OVERLAP_VERIFY : STP_PAGE_VERIFY;
        if (data.n_rows > 0 && data.rows[0].graph &&
            data.rows[0].work.mode == STP_MODE_ALONE)
            kind = STP_PAGE_GRAPH;
        stp_dataset_free(&data);
    } else {
        /* The error is the one of what the file's name says that it is. */
        stp_error_string(is_measured || as_named.line == 0 ? &as_measurements
                                                           : &as_named,
                         path, text, sizeof(text));
        return stp_fail(err, STP_ERR_SYNTAX, "%s%s", text,
                        is_measured || as_named.line == 0 ||
                                page_find_stem(path, ".conf") ||
                                stp_policy_kind_of_file(path) !=
                                    STP_POLICY_OF_ARMS
                            ? ""
                            : "; nor are there measurements in it");
    }
    return page_find_add(found, kind, path, err);
}

/* Adds the policy of a folder, or its sweep if there is no policy: the other
 * files lie beside it. */
static enum stp_status page_find_add_folder(struct stp_page_found *found,
                                            const char *folder,
                                            struct stp_error *err)
{
    static const enum stp_page_source first[] = {STP_PAGE_POLICY,
                                                 STP_PAGE_SWEEP};
    char path[STP_FOLDER_PATH], name[2][NAME_MAX + 1];
    size_t n[2] = {0, 0};
    DIR *dir;

    STP_TRY(stp_path_write(path, err, "%s/rounds.csv", folder));
    if (access(path, F_OK) == 0)
        return page_find_add_file(found, path, err);
    dir = opendir(folder);
    if (dir == NULL)
        return stp_cannot(err, "read", folder);
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        for (int i = 0; i < 2; i++)
            if (page_find_stem(e->d_name, kinds[first[i]].suffix)) {
                snprintf(name[i], sizeof(name[i]), "%s", e->d_name);
                n[i]++;
            }
    closedir(dir);
    for (int i = 0; i < 2; i++) {
        if (n[i] > 1)
            return stp_fail(err, STP_ERR_SYNTAX,
                            "the folder '%.120s' has several *%s, expected "
                            "one, or the name of one",
                            folder, kinds[first[i]].suffix);
        if (n[i] == 0)
            continue;
        STP_TRY(stp_path_write(path, err, "%s/%s", folder, name[i]));
        return page_find_add(found, first[i], path, err);
    }
    return stp_fail(
        err, STP_ERR_SYNTAX,
        "'%.120s' has no rounds.csv, *.conf or *.sweep.csv, expected a folder "
        "of `steptune tune` or `steptune iterate`",
        folder);
}

/* Whether the file has measurements, of iterations if it 'iterates', of a
 * policy with the hash of the one in the file 'policy'. */
static bool page_find_proves(const char *path, const char *policy,
                             bool iterates)
{
    char hash[STP_POLICY_HASH_NAME];
    struct stp_dataset data = {0};
    const bool proves =
        access(path, R_OK) == 0 &&
        stp_policy_file_hash(policy, hash, NULL) == STP_OK &&
        stp_measurements_load_any(path, -1, 0, &data, NULL) == STP_OK &&
        strcmp(data.policy_hash, hash) == 0 &&
        (stp_dataset_n_iterations(&data) > 0) == iterates;

    stp_dataset_free(&data);
    return proves;
}

enum stp_status stp_page_find(const char *const *paths, size_t n,
                              struct stp_page_found *found,
                              struct stp_error *err)
{
    static const enum stp_page_source verified[][2] = {
        {STP_PAGE_POLICY, STP_PAGE_VERIFY},
        {STP_PAGE_OVERLAP_POLICY, STP_PAGE_OVERLAP_VERIFY}};

    memset(found, 0, sizeof(*found));
    for (size_t i = 0; i < n; i++) {
        struct stat st;
        bool is_folder = stat(paths[i], &st) == 0 && S_ISDIR(st.st_mode);

        STP_TRY(is_folder ? page_find_add_folder(found, paths[i], err)
                          : page_find_add_file(found, paths[i], err));
    }

    char *policy = found->path[STP_PAGE_POLICY];
    char *sweep = found->path[STP_PAGE_SWEEP];
    char *graph = found->path[STP_PAGE_GRAPH];

    if (n == 1 && graph[0] != '\0') { /* a sweep in CUDA graphs */
        memcpy(sweep, graph, STP_FOLDER_PATH);
        graph[0] = '\0';
    }
    /* The other policies have its name, and a suffix. */
    for (int k = STP_PAGE_OVERLAP_POLICY; k < STP_PAGE_SWEEP; k++) {
        const size_t n_bytes = page_find_stem(found->path[k], kinds[k].suffix);

        if (n_bytes > 0 && policy[0] == '\0' && sweep[0] == '\0')
            STP_TRY(stp_path_write(policy, err, "%.*s", (int)n_bytes,
                                   found->path[k]));
    }
    /* Further files lie beside the policy, or else beside the sweep, under its
     * name. */
    const char *base = policy[0] != '\0' ? policy : sweep;
    const char *dot = strrchr(policy, '.');
    size_t stem = strlen(base); /* without its extension */

    if (dot != NULL && dot > stp_base_name(policy))
        stem = (size_t)(dot - policy);
    if (policy[0] == '\0')
        stem = page_find_stem(sweep, kinds[STP_PAGE_SWEEP].suffix);
    for (int k = STP_PAGE_OVERLAP_POLICY; stem > 0 && k < STP_PAGE_N_SOURCES;
         k++) {
        char path[STP_FOLDER_PATH];

        STP_TRY(stp_path_write(path, err, "%.*s%s",
                               (int)(k < STP_PAGE_SWEEP ? strlen(base) : stem),
                               base, kinds[k].suffix));
        if (found->path[k][0] == '\0' && access(path, F_OK) == 0)
            memcpy(found->path[k], path, sizeof(path));
    }
    /* `verify --proof` names its measurements after the policy. */
    for (int i = 0; i < 2; i++) {
        const char *proved = found->path[verified[i][0]];
        char *path = found->path[verified[i][1]], proof[STP_FOLDER_PATH];

        STP_TRY(stp_path_write(proof, err, "%s" STP_POLICY_PROOF_CSV, proved));
        if (!found->sources.is_named[verified[i][1]] &&
            !page_find_proves(path, proved, i > 0) &&
            page_find_proves(proof, proved, i > 0))
            memcpy(path, proof, sizeof(proof));
    }
    if (access(policy, F_OK) != 0) /* only its name was needed */
        policy[0] = '\0';
    for (int k = 0; k < STP_PAGE_N_SOURCES; k++)
        if (found->path[k][0] != '\0')
            found->sources.path[k] = found->path[k];
    return STP_OK;
}
