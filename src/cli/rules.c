/* rules.c - options that have no effect beside others, and outputs that have no
 * place */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "report/file.h"
#include "train/train.h"

enum { MAX_NAMES = 16, MAX_NAME = 24 };

/* ---- what options mean together ---- */

/* --on names a recorded machine. */
static bool rules_is_recorded(const struct stp_given *given)
{
    unsigned n;
    const char *const *on = stp_given_value(given, "on", &n);
    const char *const *backend = stp_given_value(given, "backend", &n);

    return on != NULL && *on != NULL &&
           !stp_is_live(*on, backend != NULL ? *backend : NULL);
}

static bool rules_check_nothing(const struct stp_given *given)
{
    unsigned n;
    const unsigned *check = stp_given_value(given, "check", &n);

    return *check > 0 && rules_is_recorded(given);
}

static bool rules_are_on_cpus(const struct stp_given *given)
{
    unsigned n;
    const char *const *on = stp_given_value(given, "on", &n);
    const char *const *backend = stp_given_value(given, "backend", &n);

    return stp_is_on_cpus(*on, *backend);
}

/* What a recorded machine has times of is known when it is opened. */
static bool rules_have_no_root(const struct stp_given *given)
{
    unsigned n = 0;
    const int *colls = stp_given_value(given, "collective", &n);

    for (unsigned i = 0; i < n; i++)
        if (colls[i] == ncclFuncBroadcast || colls[i] == ncclFuncReduce)
            return false;
    return n > 0 || !rules_is_recorded(given);
}

/* No arm of --arms is forced and leaves the number of channels open. */
static bool rules_have_channels(const struct stp_given *given)
{
    unsigned n;
    const char *const *list = stp_given_value(given, "arms", &n);
    struct stp_arms arms;
    struct stp_error err;

    if (list == NULL || *list == NULL ||
        stp_arms_parse(*list, &arms, &err) != STP_OK)
        return false;
    for (size_t i = 0; i < arms.n; i++)
        if (arms.arm[i].kind == STP_ARM_FORCED && arms.arm[i].n_channels == 0)
            return false;
    return true;
}

/* Whether the list 'name' is of 'word' alone. */
static bool rules_is_only(const struct stp_given *given, const char *name,
                          int word)
{
    unsigned n = 0;
    const int *words = stp_given_value(given, name, &n);

    return n == 1 && words[0] == word;
}

static bool rules_have_no_allreduce(const struct stp_given *given)
{
    return rules_is_only(given, "mode", STP_MODE_FSDP);
}

static bool rules_have_no_buckets(const struct stp_given *given)
{
    unsigned n = 0;
    const int *modes = stp_given_value(given, "modes", &n);

    for (unsigned i = 0; i < n; i++)
        if (modes[i] == STP_TRAIN_BUCKETED)
            return false;
    return true;
}

static bool rules_have_command(const struct stp_given *given)
{
    return stp_given_arguments(given) > 0;
}

static bool rules_have_no_command(const struct stp_given *given)
{
    return !rules_have_command(given);
}

/* ---- the rules ---- */

/* Names are those of the tables, without "--", separated by spaces.  The
 * options have no effect if one of 'with' is given, too; or none of 'without'
 * is; or if the predicate holds, which 'where' tells. */
struct option_rule {
    const char *command; /* NULL: every one that has the options */
    const char *options;
    const char *with;
    const char *without;
    bool (*is_idle)(const struct stp_given *given);
    const char *where;
};

static const struct option_rule rules[] = {
    {NULL, "stepbytes", .with = "stepfactor"},
    {NULL, "ratio", .with = "gemm"},
    {NULL, "procs nthreads ngpus cudagraph timeout",
     .is_idle = rules_is_recorded,
     .where = "on a recorded machine, expected --on cuda or --on cpu"},
    {NULL, "channels", .is_idle = rules_are_on_cpus,
     .where = "on CPUs, whose transports have no arms"},
    {NULL, "channels", .is_idle = rules_have_channels,
     .where = "on these --arms, expected one that leaves the channels open, "
              "such as ring/simple"},
    {"sweep", "json", .with = "format"},
    {"sweep", "check", .is_idle = rules_check_nothing,
     .where = "on a recorded machine, which computes nothing to check"},
    {"sweep", "place", .is_idle = rules_is_recorded,
     .where = "on a recorded machine, whose times are of results out of place"},
    {"sweep", "root", .is_idle = rules_have_no_root,
     .where = "without --collective broadcast or reduce"},
    {"iterate", "force format", .without = "output"},
    {"iterate", "format", .with = "no-plots"},
    {"iterate", "min-gain", .without = "find-regimes"},
    {NULL, "place", .is_idle = rules_have_no_allreduce,
     .where = "with --mode fsdp, which has no all-reduce"},
    {"verify", "mode bytes ratio gemm compute layers place",
     .without = "iterate"},
    {"verify", "collective minbytes maxbytes stepfactor stepbytes warmup_iters",
     .with = "iterate"},
    {"tune",
     "on seed ranks resolution no-iterate table fresh min-gain collective "
     "minbytes maxbytes stepfactor stepbytes iters warmup_iters rounds "
     "datatype op",
     .is_idle = rules_have_command,
     .where = "with a COMMAND, whose own collectives are measured"},
    {"tune", "for resume", .is_idle = rules_have_no_command,
     .where = "without -- COMMAND"},
    {"train", "rounds", .without = "arms policy plugin"},
    {"train", "fresh", .without = "output"},
    {"train", "bucket-mb", .is_idle = rules_have_no_buckets,
     .where = "without --modes bucketed"},
    {"train", "lr", .is_idle = rules_is_recorded,
     .where = "on a recorded machine, which computes nothing"},
    {"explain", "diff golden maxbytes", .with = "why"},
    {"explain", "golden", .with = "diff"},
    {"explain", "update", .without = "golden"},
    {"replay", "trace plugin layout jobs", .with = "contract"},
    {"replay", "time-limit", .without = "contract"},
    {"run", "strategy objective", .without = "online"},
    {"run", "json", .with = "quiet"},
    {"compare", "resume", .without = "output"},
};

enum { N_RULES = sizeof(rules) / sizeof(rules[0]) };

/* Takes the next name off the list; false at its end. */
static bool rules_next_name(const char **list, char name[MAX_NAME])
{
    size_t len = *list != NULL ? strcspn(*list, " ") : 0;

    if (len == 0)
        return false;
    snprintf(name, MAX_NAME, "%.*s", (int)len, *list);
    *list += len + ((*list)[len] == ' ');
    return true;
}

static bool rules_find_given(const struct stp_given *given, const char *list,
                             char name[MAX_NAME])
{
    while (rules_next_name(&list, name))
        if (stp_is_given(given, name))
            return true;
    return false;
}

/* "without --policy or --plugin" */
static void rules_list_names(const struct stp_given *given, const char *list,
                             char *text, size_t size)
{
    size_t len = (size_t)snprintf(text, size, "without ");
    char name[MAX_NAME];

    for (int i = 0; rules_next_name(&list, name) && len < size; i++)
        len +=
            (size_t)snprintf(text + len, size - len, "%s%s",
                             i > 0 ? " or " : "", stp_given_name(given, name));
}

/* Why the rule's options have no effect; false if they have. */
static bool rules_explain(const struct option_rule *rule,
                          const struct stp_given *given, char why[128])
{
    char name[MAX_NAME];

    if (rule->with != NULL && rules_find_given(given, rule->with, name)) {
        snprintf(why, 128, "with %s", stp_given_name(given, name));
        return true;
    }
    if (rule->without != NULL &&
        !rules_find_given(given, rule->without, name)) {
        rules_list_names(given, rule->without, why, 128);
        return true;
    }
    if (rule->is_idle == NULL || !rule->is_idle(given))
        return false;
    snprintf(why, 128, "%s", rule->where);
    return true;
}

bool stp_rules_object(const char *command, const struct stp_given *given,
                      char text[STP_RULE_TEXT])
{
    char name[MAX_NAME];
    char why[128];

    for (int i = 0; i < N_RULES; i++) {
        const struct option_rule *rule = &rules[i];

        if ((rule->command != NULL && strcmp(rule->command, command) != 0) ||
            !rules_find_given(given, rule->options, name) ||
            !rules_explain(rule, given, why))
            continue;
        snprintf(text, STP_RULE_TEXT, "%s has no effect %s",
                 stp_given_name(given, name), why);
        return true;
    }
    return false;
}

/* ---- outputs ---- */

bool stp_path_is_same(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) &&
           x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Cuts a path to the folder that it is in. */
static void path_cut_name(char *path)
{
    size_t len = strlen(path);
    char *slash;

    while (len > 1 && path[len - 1] == '/')
        path[--len] = '\0';
    slash = strrchr(path, '/');
    if (slash == NULL)
        strcpy(path, ".");
    else
        slash[slash == path] = '\0';
}

/* Whether nothing can be made in the folder of 'path', which must be there
 * unless it 'may_lack' and is made, too. */
static bool path_has_no_place(const char *path, bool may_lack,
                              char text[STP_RULE_TEXT])
{
    char folder[STP_CLI_PATH];
    struct stat st;

    snprintf(folder, sizeof(folder), "%s", path);
    do
        path_cut_name(folder);
    while (may_lack && stat(folder, &st) != 0 && errno == ENOENT);
    if (stat(folder, &st) != 0 || !S_ISDIR(st.st_mode))
        snprintf(text, STP_RULE_TEXT,
                 "has no place: there is no folder '%.120s'", folder);
    else if (access(folder, W_OK) != 0)
        snprintf(text, STP_RULE_TEXT, "cannot be made in '%.120s': %s", folder,
                 strerror(errno));
    else
        return false;
    return true;
}

bool stp_path_objects(enum stp_path kind, const char *path,
                      char text[STP_RULE_TEXT])
{
    struct stat st;
    const bool is_there = stat(path, &st) == 0;
    const bool is_folder = is_there && S_ISDIR(st.st_mode);

    if (kind == STP_PATH_READ) {
        snprintf(text, STP_RULE_TEXT,
                 "is a pipe, which can be read only once, expected a file");
        return is_there && S_ISFIFO(st.st_mode);
    }
    if (*path == '\0' || (!is_there && path[strlen(path) - 1] == '/' &&
                          kind != STP_PATH_FOLDER)) {
        snprintf(text, STP_RULE_TEXT, "names no %s",
                 kind == STP_PATH_FOLDER ? "folder" : "file");
        return true;
    }
    if (kind == STP_PATH_FOLDER && is_there && !is_folder) {
        snprintf(text, STP_RULE_TEXT, "is a file, expected a folder");
        return true;
    }
    if (kind != STP_PATH_FOLDER && is_folder) {
        snprintf(text, STP_RULE_TEXT, "is a folder, expected a file");
        return true;
    }
    if (kind == STP_PATH_WRITE_BESIDE && stp_file_is_special(path)) {
        snprintf(text, STP_RULE_TEXT,
                 "is a device or a pipe, expected a file, which others are "
                 "written beside");
        return true;
    }
    return !is_there && path_has_no_place(path, kind == STP_PATH_FOLDER, text);
}
