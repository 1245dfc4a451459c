/* run_online.c - `steptune run --online`: what the learning plugin is told, and
 * what it tells */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/run/run.h"
#include "report/learning/journal.h"

int stp_run_set(const char *command, const char *name, const char *value)
{
    return setenv(name, value, 1) == 0 ? STP_EXIT_OK
                                       : stp_complain(command, "out of memory");
}

int stp_run_set_plugin(const char *command, const char *name,
                       const char *plugin)
{
    const char *other = getenv(name);

    if (other != NULL && other[0] != '\0' && strcmp(other, plugin) != 0)
        fprintf(stderr, "%s: %s=%s is replaced for this job\n", command, name,
                other);
    return stp_run_set(command, name, plugin);
}

static bool online_is_set(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0';
}

/* In this folder, wherever the job goes. */
static int online_set_learned(const char *command)
{
    static const char name[] = "/steptune.learned.conf";
    char path[STP_CLI_PATH];

    if (online_is_set("STEPTUNE_LEARNED"))
        return STP_EXIT_OK;
    if (getcwd(path, sizeof(path) - sizeof(name)) == NULL)
        return stp_complain(command, "no path of the working directory");
    strcat(path, name);
    return stp_run_set(command, "STEPTUNE_LEARNED", path);
}

static int online_set_journal(const char *command, const char *folder)
{
    char path[STP_CLI_PATH + 16];

    if (folder[0] == '\0' || online_is_set("STEPTUNE_JOURNAL"))
        return STP_EXIT_OK;
    snprintf(path, sizeof(path), "%s/journal.csv", folder);
    return stp_run_set(command, "STEPTUNE_JOURNAL", path);
}

static int online_set_words(const char *command,
                            const struct stp_online_run *run,
                            const char *policy)
{
    const struct {
        const char *name;
        const char *value;
    } words[] = {
        {"STEPTUNE_STRATEGY", run->strategy},
        {"STEPTUNE_OBJECTIVE", run->objective},
        {"STEPTUNE_WARM_START", policy[0] != '\0' ? policy : NULL},
    };
    int status = STP_EXIT_OK;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (status == STP_EXIT_OK && words[i].value != NULL)
            status = stp_run_set(command, words[i].name, words[i].value);
    return status;
}

/* What earlier jobs left. */
static void online_note_files(struct stp_online_run *run)
{
    struct stat st;

    run->journal_from = stat(run->settings.journal, &st) == 0 ? st.st_size : 0;
    if (stat(run->settings.learned, &run->before) != 0)
        run->before.st_ino = 0;
}

static enum stp_status online_find_base(struct stp_online_run *run,
                                        struct stp_error *err)
{
    struct stp_plugin_settings settings;
    enum stp_status status = stp_settings_read(&settings, err);
    const char *base;

    if (status != STP_OK)
        return status;
    base = stp_online_base(&run->settings, &settings);
    snprintf(run->base, sizeof(run->base), "%s", base != NULL ? base : "");
    return STP_OK;
}

int stp_run_online_begin(const char *command, struct stp_online_run *run,
                         const char *policy, const char *folder)
{
    struct stp_error err;
    int status = online_set_words(command, run, policy);

    if (status == STP_EXIT_OK)
        status = online_set_learned(command);
    if (status == STP_EXIT_OK)
        status = online_set_journal(command, folder);
    if (status != STP_EXIT_OK)
        return status;
    if (stp_online_settings_read(0, &run->settings, &err) != STP_OK ||
        online_find_base(run, &err) != STP_OK)
        return stp_complain_error(command, NULL, &err);
    online_note_files(run);
    return STP_EXIT_OK;
}

/* The plugin writes it anew, under its name in one step. */
static bool online_has_learned(const struct stp_online_run *run)
{
    struct stat now;

    return stat(run->settings.learned, &now) == 0 &&
           (now.st_ino != run->before.st_ino ||
            now.st_mtim.tv_sec != run->before.st_mtim.tv_sec ||
            now.st_mtim.tv_nsec != run->before.st_mtim.tv_nsec);
}

enum stp_status stp_run_online_end(const struct stp_online_run *run,
                                   struct stp_learning *learning_ret,
                                   struct stp_learning_setting *setting_ret,
                                   struct stp_error *err)
{
    const struct stp_learner_rules *rules = &run->settings.rules;
    struct stp_journal_lines lines;
    enum stp_status status = stp_journal_load(
        run->settings.journal, (size_t)run->journal_from, &lines, err);

    if (status != STP_OK)
        return status;
    status = stp_learning_sum(&lines, learning_ret, err);
    stp_journal_free(&lines);
    *setting_ret = (struct stp_learning_setting){
        .strategy = stp_strategy_name(rules->bandit.strategy),
        .objective = stp_learn_objective_name(rules->objective),
        .policy = online_has_learned(run) ? run->settings.learned : NULL,
        .base = run->base[0] != '\0' ? run->base : NULL,
    };
    return status;
}
