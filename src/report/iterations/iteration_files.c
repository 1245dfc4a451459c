#include "report/iterations/iteration_files.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/text.h"
#include "launch/take.h"
#include "report/file.h"
#include "report/folder.h"
#include "report/measurements/measurements_csv.h"
#include "report/table.h"

/* The files in addition to those of times; summary.json holds all results. */
struct iteration_file {
    const char *name;
    enum stp_table_format format;
    bool of_regimes, of_rounds;
};

static const struct iteration_file files[] = {
    {"rounds.csv", STP_TABLE_CSV, .of_rounds = true},
    {"summary.md", STP_TABLE_MARKDOWN, .of_regimes = false},
    {"summary.json", STP_TABLE_JSON, .of_regimes = false},
    {"regimes.md", STP_TABLE_MARKDOWN, .of_regimes = true},
};

/* Writes one of the files, or (NULL) the times of an arm.  Its text is
 * first in memory: a file that has it already is not written again. */
static enum stp_status
iteration_save_file(const struct stp_iteration_report *report,
                    const char *folder, const char *name,
                    const struct iteration_file *file,
                    const struct stp_iteration_setting *setting,
                    const struct stp_iteration_arm *arm, struct stp_error *err)
{
    char path[STP_FOLDER_PATH];
    const int path_len = snprintf(path, sizeof(path), "%s/%s", folder, name);
    struct stp_iteration_cursor at = {0};
    char *text = NULL, *old = NULL;
    size_t len, old_len, n;
    const double *us;
    FILE *fp = stp_take_text(&text, &len);
    enum stp_status status = STP_OK;

    if (file != NULL && file->of_rounds)
        stp_measurements_write(&report->iterations->data, report->made_by, fp);
    else if (file != NULL && file->format == STP_TABLE_JSON)
        stp_print_iterations_json(report, fp);
    else if (file != NULL)
        stp_iteration_write(report, file->of_regimes, fp);
    while (file == NULL && (us = stp_iteration_next(report->iterations, setting,
                                                    arm, &at, &n)) != NULL)
        for (size_t i = 0; i < n; i++)
            fprintf(fp, "%.6f\n", us[i] / 1000);
    stp_end_text(fp);
    if ((size_t)path_len >= sizeof(path))
        status =
            stp_fail(err, STP_ERR_IO, "the path '%.60s...' is too long", path);
    else if ((stp_read_file(path, len, &old, &old_len, NULL) != STP_OK ||
              old_len != len || memcmp(old, text, len) != 0))
        status = stp_file_save(path, text, len, err);
    free(old);
    free(text);
    return status;
}

enum stp_status
stp_iteration_files_write(const struct stp_iteration_report *report,
                          const char *folder, struct stp_error *err)
{
    const struct stp_iteration_summary *all = report->summary;
    const bool several = stp_iteration_several(report);
    char setting_name[STP_SETTING_NAME] = "";
    char name[STP_SETTING_NAME + STP_ARM_NAME + 32];

    for (size_t i = 0; i < all->n_settings && !report->tables_only; i++) {
        const struct stp_iteration_setting *setting = &all->settings[i];

        if (several)
            stp_iteration_setting_name(setting, true, setting_name);
        for (size_t a = 0; a < setting->n_arms; a++) {
            snprintf(name, sizeof(name), "iteration_times_%s%s%s.txt",
                     setting_name, several ? "_" : "",
                     STP_ARM_TEXT(&setting->arms[a].arm));
            for (char *s = strchr(name, '/'); s != NULL; s = strchr(s, '/'))
                *s = '-';
            STP_TRY(iteration_save_file(report, folder, name, NULL, setting,
                                        &setting->arms[a], err));
        }
    }
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (!files[i].of_regimes || report->looked_for_regimes)
            STP_TRY(iteration_save_file(report, folder, files[i].name,
                                        &files[i], NULL, NULL, err));
    return STP_OK;
}

/* Names of all files written into the folder, as patterns of fnmatch(). */
static const char *const iteration_ours[] = {
    "iteration_times_*.txt",
    "iteration_times_*.png",
    "iteration_times_*.svg",
    "gain_vs_size*.png",
    "gain_vs_size*.svg",
    "rounds.csv",
    "summary.md",
    "summary.json",
    "regimes.md",
};

/* Removes one of our files, or says that it is there. */
static enum stp_status iteration_clear_file(const char *folder,
                                            const char *name, bool replace,
                                            struct stp_error *err)
{
    char path[STP_FOLDER_PATH + 256];
    size_t i = 0;

    while (i < sizeof(iteration_ours) / sizeof(iteration_ours[0]) &&
           fnmatch(iteration_ours[i], name, 0) != 0)
        i++;
    if (i == sizeof(iteration_ours) / sizeof(iteration_ours[0]))
        return STP_OK;
    if (!replace)
        return stp_fail(err, STP_ERR_IO,
                        "'%.120s' holds %.60s of an earlier run, expected a "
                        "folder without, or --force, which replaces it",
                        folder, name);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return unlink(path) == 0 ? STP_OK : stp_cannot(err, "remove", path);
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
    STP_TRY(stp_folder_make(path, err));
    if (access(path, W_OK | X_OK) != 0)
        return stp_cannot(err, "write into the folder", path);
    dir = opendir(path);
    if (dir == NULL)
        return stp_cannot(err, "read the folder", path);
    while (status == STP_OK && (entry = readdir(dir)) != NULL)
        status = iteration_clear_file(path, entry->d_name, replace, err);
    closedir(dir);
    return status;
}
