#include "report/iterations/iteration_files.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/text.h"
#include "report/file.h"
#include "report/folder.h"
#include "report/iterations/iteration_words.h"
#include "report/measurements/measurements_csv.h"

/* ---- one file ---- */

/* The text of a file, first in memory: a file that has it already is not
 * written again. */
struct iteration_text {
    FILE *fp;
    char *s;
    size_t len;
};

static enum stp_status iteration_begin_file(struct iteration_text *text,
                                            struct stp_error *err)
{
    text->s = NULL;
    text->fp = open_memstream(&text->s, &text->len);
    return text->fp != NULL ? STP_OK : stp_nomem(err);
}

static bool iteration_is_file(const char *path,
                              const struct iteration_text *text)
{
    char *old;
    size_t len;
    bool same;

    if (stp_read_file(path, text->len, &old, &len, NULL) != STP_OK)
        return false;
    same = len == text->len && memcmp(old, text->s, len) == 0;
    free(old);
    return same;
}

/* Unless 'status' says that it failed already, the text becomes a file. */
static enum stp_status iteration_end_file(struct iteration_text *text,
                                          const char *folder, const char *name,
                                          enum stp_status status,
                                          struct stp_error *err)
{
    char path[STP_FOLDER_PATH];
    int len = snprintf(path, sizeof(path), "%s/%s", folder, name);
    bool bad = ferror(text->fp) != 0;

    bad |= fclose(text->fp) != 0;
    if (status == STP_OK && bad)
        status = stp_nomem(err);
    if (status == STP_OK && (size_t)len >= sizeof(path))
        status =
            stp_fail(err, STP_ERR_IO, "the path '%.60s...' is too long", path);
    if (status == STP_OK && !iteration_is_file(path, text))
        status = stp_file_save(path, text->s, text->len, err);
    free(text->s);
    return status;
}

/* ---- times ---- */

static void iteration_times_name(const struct stp_iteration_report *report,
                                 const struct stp_iteration_setting *setting,
                                 const struct stp_iteration_arm *arm,
                                 char *name, size_t size)
{
    bool several = stp_iteration_several(report);
    char setting_name[STP_SETTING_NAME] = "";
    char arm_name[STP_ARM_NAME];

    if (several)
        stp_iteration_setting_name(setting, setting_name);
    stp_arm_name(&arm->arm, arm_name);
    for (char *s = strchr(arm_name, '/'); s != NULL; s = strchr(s, '/'))
        *s = '-';
    snprintf(name, size, "iteration_times_%s%s%s.txt", setting_name,
             several ? "_" : "", arm_name);
}

static enum stp_status
iteration_save_times(const struct stp_iteration_report *report,
                     const struct stp_iteration_setting *setting,
                     const struct stp_iteration_arm *arm, const char *folder,
                     struct stp_error *err)
{
    struct stp_iteration_cursor at = {0};
    char name[STP_SETTING_NAME + STP_ARM_NAME + 32];
    struct iteration_text text;
    const double *us;
    size_t n;
    enum stp_status status = iteration_begin_file(&text, err);

    if (status != STP_OK)
        return status;
    iteration_times_name(report, setting, arm, name, sizeof(name));
    while ((us = stp_iteration_next(report->iterations, setting, arm, &at,
                                    &n)) != NULL)
        for (size_t i = 0; i < n; i++)
            fprintf(text.fp, "%.6f\n", us[i] / 1000);
    return iteration_end_file(&text, folder, name, STP_OK, err);
}

static enum stp_status
iteration_save_all_times(const struct stp_iteration_report *report,
                         const char *folder, struct stp_error *err)
{
    const struct stp_iteration_summary *all = report->summary;
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < all->n_settings; i++) {
        const struct stp_iteration_setting *s = &all->settings[i];

        for (size_t a = 0; a < s->n_arms && status == STP_OK; a++)
            status = iteration_save_times(report, s, &s->arms[a], folder, err);
    }
    return status;
}

/* ---- the other files ---- */

static enum stp_status
iteration_write_rounds(const struct stp_iteration_report *report, FILE *fp,
                       struct stp_error *err)
{
    (void)err;
    stp_measurements_write(&report->iterations->data, report->made_by, fp);
    return STP_OK;
}

static const struct {
    const char *name;
    enum stp_status (*write)(const struct stp_iteration_report *report,
                             FILE *fp, struct stp_error *err);
    bool of_regimes;
} files[] = {
    {"rounds.csv", iteration_write_rounds, false},
    {"summary.csv", stp_iteration_write_summary_csv, false},
    {"summary.md", stp_iteration_write_summary_md, false},
    {"summary.json", stp_print_iterations_json, false},
    {"regimes.csv", stp_iteration_write_regimes_csv, true},
    {"regimes.md", stp_iteration_write_regimes_md, true},
};

enum stp_status
stp_iteration_files_write(const struct stp_iteration_report *report,
                          const char *folder, struct stp_error *err)
{
    enum stp_status status =
        report->tables_only ? STP_OK
                            : iteration_save_all_times(report, folder, err);

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && status == STP_OK;
         i++) {
        struct iteration_text text;

        if (files[i].of_regimes && !report->looked_for_regimes)
            continue;
        status = iteration_begin_file(&text, err);
        STP_THEN(status,
                 iteration_end_file(&text, folder, files[i].name,
                                    files[i].write(report, text.fp, err), err));
    }
    return status;
}

/* ---- the folder ---- */

/* All that is ever written into it, as fnmatch() has it. */
static const char *const iteration_ours[] = {
    "iteration_times_*.txt",
    "iteration_times_*.png",
    "iteration_times_*.svg",
    "iteration_times_*.gp",
    "iteration_times_*.tsv",
    "gain_vs_size*.png",
    "gain_vs_size*.svg",
    "gain_vs_size*.gp",
    "gain_vs_size*.tsv",
    "rounds.csv",
    "summary.csv",
    "summary.md",
    "summary.json",
    "regimes.csv",
    "regimes.md",
};

static enum stp_status iteration_cannot(struct stp_error *err,
                                        const char *action, const char *path)
{
    return stp_fail(err, STP_ERR_IO, "cannot %s '%.160s': %s", action, path,
                    strerror(errno));
}

/* Makes it with those above it.  Fails as mkdir() does. */
static bool iteration_make_folders(const char *path)
{
    char part[STP_FOLDER_PATH];
    struct stat st;

    snprintf(part, sizeof(part), "%s", path);
    for (char *s = strchr(part + 1, '/'); s != NULL; s = strchr(s + 1, '/')) {
        *s = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return false;
        *s = '/';
    }
    if (mkdir(path, 0777) == 0)
        return true;
    if (errno != EEXIST || stat(path, &st) != 0)
        return false;
    errno = ENOTDIR;
    return S_ISDIR(st.st_mode);
}

static bool iteration_is_ours(const char *name)
{
    for (size_t i = 0; i < sizeof(iteration_ours) / sizeof(iteration_ours[0]);
         i++)
        if (fnmatch(iteration_ours[i], name, 0) == 0)
            return true;
    return false;
}

/* Removes one of our files, or says that it is there. */
static enum stp_status iteration_meet(const char *folder, const char *name,
                                      bool replace, struct stp_error *err)
{
    char path[STP_FOLDER_PATH + 256];

    if (!replace)
        return stp_fail(err, STP_ERR_IO,
                        "'%.120s' holds %.60s of an earlier run, expected a "
                        "folder without, or --force, which replaces it",
                        folder, name);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return unlink(path) == 0 ? STP_OK : iteration_cannot(err, "remove", path);
}

enum stp_status stp_iteration_folder(const char *path, bool replace,
                                     struct stp_error *err)
{
    enum stp_status status = STP_OK;
    const struct dirent *entry;
    DIR *dir;

    if (strlen(path) >= STP_FOLDER_PATH)
        return stp_fail(err, STP_ERR_IO, "the path '%.60s...' is too long",
                        path);
    if (!iteration_make_folders(path))
        return iteration_cannot(err, "make the folder", path);
    if (access(path, W_OK | X_OK) != 0)
        return iteration_cannot(err, "write into the folder", path);
    dir = opendir(path);
    if (dir == NULL)
        return iteration_cannot(err, "read the folder", path);
    while (status == STP_OK && (entry = readdir(dir)) != NULL)
        if (iteration_is_ours(entry->d_name))
            status = iteration_meet(path, entry->d_name, replace, err);
    closedir(dir);
    return status;
}
