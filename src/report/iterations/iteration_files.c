#include "report/iterations/iteration_files.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/room.h"
#include "core/text.h"
#include "launch/take.h"
#include "report/file.h"
#include "report/folder.h"
#include "report/measurements/measurements_csv.h"

/* The files in addition to those of times; summary.json holds all results. */
enum { ROUNDS, SUMMARY, RESULTS, REGIMES, N_TABLES };

static const char *const tables[N_TABLES] = {
    [ROUNDS] = "rounds.csv",
    [SUMMARY] = "summary.md",
    [RESULTS] = "summary.json",
    [REGIMES] = "regimes.md",
};

/* Saves a text and frees it: a file that has it already is not written
 * again. */
static enum stp_status iteration_save_text(const char *folder, const char *name,
                                           char *text, size_t len,
                                           struct stp_error *err)
{
    char path[STP_FOLDER_PATH];
    char *old = NULL;
    size_t old_len;
    enum stp_status status = stp_path_write(path, err, "%s/%s", folder, name);

    if (status == STP_OK &&
        (stp_read_file(path, len, &old, &old_len, NULL) != STP_OK ||
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
    char name[STP_SETTING_NAME + STP_ARM_NAME + 32], *text;
    size_t len, n;
    FILE *fp;

    for (size_t i = 0; i < all->n_settings && !report->tables_only; i++) {
        const struct stp_iteration_setting *setting = &all->settings[i];

        if (several)
            stp_iteration_setting_name(setting, true, setting_name);
        for (size_t a = 0; a < setting->n_arms; a++) {
            struct stp_iteration_cursor at = {0};
            const double *us;

            snprintf(name, sizeof(name), "iteration_times_%s%s%s.txt",
                     setting_name, several ? "_" : "",
                     STP_ARM_TEXT(&setting->arms[a].arm));
            for (char *s = strchr(name, '/'); s != NULL; s = strchr(s, '/'))
                *s = '-';
            fp = stp_take_text(&text, &len);
            while ((us = stp_iteration_next(report->iterations, setting,
                                            &setting->arms[a], &at, &n)) !=
                   NULL)
                for (size_t k = 0; k < n; k++)
                    fprintf(fp, "%.6f\n", us[k] / 1000);
            stp_end_text(fp);
            STP_TRY(iteration_save_text(folder, name, text, len, err));
        }
    }
    for (int i = 0; i < N_TABLES; i++) {
        if (i == REGIMES && !report->looked_for_regimes)
            continue;
        fp = stp_take_text(&text, &len);
        if (i == ROUNDS)
            stp_measurements_write(&report->iterations->data, report->made_by,
                                   fp);
        else if (i == RESULTS)
            stp_print_iterations_json(report, fp);
        else
            stp_iteration_write(report, i == REGIMES, fp);
        stp_end_text(fp);
        STP_TRY(iteration_save_text(folder, tables[i], text, len, err));
    }
    return STP_OK;
}

/* Names of the other files in the folder, as patterns of fnmatch(). */
static const char *const patterns[] = {
    "iteration_times_*.txt", "iteration_times_*.png", "iteration_times_*.svg",
    "gain_vs_size*.png",     "gain_vs_size*.svg",
};

/* Removes one of our files, or says that it is there. */
static enum stp_status iteration_clear_file(const char *folder,
                                            const char *name, bool replace,
                                            struct stp_error *err)
{
    char path[STP_FOLDER_PATH + 256];
    bool is_ours = stp_find_word(tables, N_TABLES, name, strlen(name)) >= 0;

    for (size_t i = 0; i < STP_N_OF(patterns); i++)
        is_ours |= fnmatch(patterns[i], name, 0) == 0;
    if (!is_ours)
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
    dir = opendir(path);
    if (dir == NULL)
        return stp_cannot(err, "read the folder", path);
    while (status == STP_OK && (entry = readdir(dir)) != NULL)
        status = iteration_clear_file(path, entry->d_name, replace, err);
    closedir(dir);
    return status;
}
