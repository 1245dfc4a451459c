#include "versions/versions.h"

#include <dlfcn.h>
#include <float.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "mock_nccl.h"

/* ---- lines of the plugin loaders ---- */

#define INIT_TUNING ((unsigned long)(NCCL_INIT | NCCL_TUNING))
#define ENV_TUNING  ((unsigned long)(NCCL_ENV | NCCL_TUNING))
#define INIT_ENV    ((unsigned long)(NCCL_INIT | NCCL_ENV))
#define DESTROY     0x10000ul /* 2.30's own subsystem for closing */
#define NEWEST      MOCK_2_32_6

#define TUNER    "TUNER/Plugin: "
#define PROFILER "PROFILER/Plugin: "
#define NET      "NET/Plugin: "
#define INIT_NET ((unsigned long)(NCCL_INIT | NCCL_NET))
#define DLOPEN   "ncclOsDlopen(<name>) failed: <why>"
#define DLSYM    "ncclOsDlsym(<name>) failed: <why>"

// clang-format off
/* The lines on the library belong to other subsystems from 2.26 on, where one
 * function opens plugins of all kinds. */
static const struct mock_line tuner_lines[] = {
    {MOCK_LINE_SET, MOCK_2_21, MOCK_2_25, ENV_TUNING, TUNER "NCCL_TUNER_PLUGIN set to <name>"},
    {MOCK_LINE_SET, MOCK_2_28, NEWEST, ENV_TUNING, "NCCL_TUNER_PLUGIN set by environment to <name>"},
    {MOCK_LINE_DLOPEN, MOCK_2_30, NEWEST, NCCL_INIT, DLOPEN},
    {MOCK_LINE_NOT_FOUND, MOCK_2_21, MOCK_2_21, ENV_TUNING, TUNER "No plugin found (<name>)"},
    {MOCK_LINE_NOT_LOADED, MOCK_2_22, MOCK_2_25, ENV_TUNING, TUNER "<why>"},
    {MOCK_LINE_NOT_LOADED, MOCK_2_26, MOCK_2_27, INIT_TUNING, TUNER "<why>"},
    {MOCK_LINE_NOT_LOADED, MOCK_2_28, NEWEST, INIT_TUNING, TUNER "<name>: <why>"},
    {MOCK_LINE_OPENED, MOCK_2_21, MOCK_2_25, ENV_TUNING, TUNER "Plugin name set by env to <name>"},
    {MOCK_LINE_OPENED, MOCK_2_26, MOCK_2_27, INIT_TUNING, TUNER "Plugin name set by env to <name>"},
    {MOCK_LINE_ONE_FAILED, MOCK_2_21, MOCK_2_21, ENV_TUNING,
     TUNER "Plugin load returned 2 : <why> : when loading <names>"},
    {MOCK_LINE_ALL_FAILED, MOCK_2_21, MOCK_2_21, ENV_TUNING,
     TUNER "Most recent plugin load returned 2 : <why>. All attempts to load '<names>' also failed."},
    {MOCK_LINE_MISSING, MOCK_2_22, MOCK_2_25, ENV_TUNING,
     TUNER "Could not find:<names>. Using internal tuner plugin."},
    {MOCK_LINE_MISSING, MOCK_2_26, MOCK_2_27, INIT_TUNING,
     TUNER "Could not find:<names>. Using internal tuner plugin."},
    {MOCK_LINE_MISSING, MOCK_2_28, NEWEST, INIT_TUNING, TUNER "Could not find:<names>"},
    {MOCK_LINE_NO_LIBRARY, MOCK_2_21, MOCK_2_25, ENV_TUNING, TUNER "Using internal tuner plugin."},
    {MOCK_LINE_NO_LIBRARY, MOCK_2_26, MOCK_2_27, INIT_TUNING, TUNER "Using internal tuner plugin."},
    {MOCK_LINE_DLSYM, MOCK_2_30, NEWEST, NCCL_INIT, DLSYM},
    {MOCK_LINE_NO_SYMBOL, MOCK_2_22, MOCK_2_27, ENV_TUNING, TUNER "Failed to find <name> symbol."},
    {MOCK_LINE_NO_TUNER, MOCK_2_21, MOCK_2_21, ENV_TUNING,
     TUNER "Failed to find <name>, using internal tuner instead."},
    {MOCK_LINE_NO_TUNER, MOCK_2_22, MOCK_2_27, ENV_TUNING,
     TUNER "Failed to find <name> symbol, using internal tuner instead."},
    {MOCK_LINE_USING, MOCK_2_21, MOCK_2_27, ENV_TUNING, TUNER "Using tuner plugin <name>"},
    {MOCK_LINE_USING, MOCK_2_28, NEWEST, INIT_TUNING, TUNER "Using <name> (v<version>)"},
    {MOCK_LINE_LOADED, MOCK_2_28, NEWEST, INIT_TUNING, "Successfully loaded external tuner plugin <name>"},
    {MOCK_LINE_UNSUPPORTED, MOCK_2_28, NEWEST, INIT_TUNING, "External tuner plugin <name> is unsupported"},
    {MOCK_LINE_CLOSING, MOCK_2_21, MOCK_2_27, NCCL_TUNING, TUNER "Closing tuner: '<name>'"},
    {MOCK_LINE_CLOSING, MOCK_2_28, MOCK_2_29, INIT_TUNING, TUNER "Closing tuner: '<name>'"},
    {MOCK_LINE_CLOSING, MOCK_2_30, NEWEST, DESTROY | NCCL_TUNING, TUNER "Closing tuner: '<name>'"},
    {.text = NULL},
};

static const struct mock_line profiler_lines[] = {
    {MOCK_LINE_SET, MOCK_2_28, NEWEST, NCCL_ENV, "NCCL_PROFILER_PLUGIN set by environment to <name>"},
    {MOCK_LINE_DLOPEN, MOCK_2_30, NEWEST, NCCL_INIT, DLOPEN},
    {MOCK_LINE_NOT_LOADED, MOCK_2_27, MOCK_2_27, NCCL_INIT, PROFILER "<why>"},
    {MOCK_LINE_NOT_LOADED, MOCK_2_28, NEWEST, NCCL_INIT, PROFILER "<name>: <why>"},
    {MOCK_LINE_OPENED, MOCK_2_27, MOCK_2_27, NCCL_INIT, PROFILER "Plugin name set by env to <name>"},
    {MOCK_LINE_MISSING, MOCK_2_27, MOCK_2_27, NCCL_INIT, PROFILER "Could not find:<names>. "},
    {MOCK_LINE_MISSING, MOCK_2_28, NEWEST, NCCL_INIT, PROFILER "Could not find:<names>"},
    {MOCK_LINE_DLSYM, MOCK_2_30, NEWEST, NCCL_INIT, DLSYM},
    {MOCK_LINE_NO_SYMBOL, MOCK_2_27, MOCK_2_27, INIT_ENV, PROFILER "failed to find <name>."},
    {MOCK_LINE_USING, MOCK_2_27, MOCK_2_27, INIT_ENV, PROFILER "loaded <name>"},
    {MOCK_LINE_USING, MOCK_2_28, NEWEST, NCCL_INIT, PROFILER "Loaded <name> (v<version>)"},
    {MOCK_LINE_LOADED, MOCK_2_28, NEWEST, NCCL_INIT, "Successfully loaded external profiler plugin <name>"},
    {MOCK_LINE_UNSUPPORTED, MOCK_2_28, NEWEST, NCCL_INIT, "External profiler plugin <name> is unsupported"},
    {MOCK_LINE_CLOSING, MOCK_2_27, MOCK_2_27, NCCL_ENV, PROFILER "Closing profiler plugin <name>"},
    {MOCK_LINE_CLOSING, MOCK_2_28, MOCK_2_29, NCCL_INIT, PROFILER "Closing profiler plugin <name>"},
    {MOCK_LINE_CLOSING, MOCK_2_30, NEWEST, DESTROY, PROFILER "Closing profiler plugin <name>"},
    {.text = NULL},
};

/* Lines on devices, which the mock has not, are not here.  <why> is net or
 * collnet where a plugin is used, and <names> the symbols' without version. */
static const struct mock_line net_lines[] = {
    {MOCK_LINE_SET, MOCK_2_28, NEWEST, NCCL_ENV | NCCL_NET, "NCCL_NET_PLUGIN set by environment to <name>"},
    {MOCK_LINE_DLOPEN, MOCK_2_30, NEWEST, NCCL_INIT, DLOPEN},
    {MOCK_LINE_NOT_FOUND, MOCK_2_21, MOCK_2_21, INIT_NET, NET "No plugin found (<name>)"},
    {MOCK_LINE_NOT_LOADED, MOCK_2_22, MOCK_2_27, INIT_NET, NET "<why>"},
    {MOCK_LINE_NOT_LOADED, MOCK_2_28, NEWEST, INIT_NET, NET "<name>: <why>"},
    {MOCK_LINE_OPENED, MOCK_2_21, MOCK_2_27, INIT_NET, NET "Plugin name set by env to <name>"},
    {MOCK_LINE_ONE_FAILED, MOCK_2_21, MOCK_2_21, ENV_TUNING, NET "Plugin load returned 2 : <why> : when loading <names>"},
    {MOCK_LINE_ALL_FAILED, MOCK_2_21, MOCK_2_21, ENV_TUNING,
     NET "Most recent plugin load returned 2 : <why>. All attempts to load '<names>' also failed."},
    {MOCK_LINE_MISSING, MOCK_2_22, MOCK_2_25, INIT_NET, NET "Could not find:<names>. Using internal network plugin."},
    {MOCK_LINE_MISSING, MOCK_2_26, MOCK_2_27, INIT_NET, NET "Could not find:<names>. Using internal net plugin."},
    {MOCK_LINE_MISSING, MOCK_2_28, NEWEST, INIT_NET, NET "Could not find:<names>"},
    {MOCK_LINE_NO_LIBRARY, MOCK_2_21, MOCK_2_25, INIT_NET, NET "Using internal network plugin."},
    {MOCK_LINE_NO_LIBRARY, MOCK_2_26, MOCK_2_27, INIT_NET, NET "Using internal net plugin."},
    {MOCK_LINE_DLSYM, MOCK_2_30, NEWEST, NCCL_INIT, DLSYM},
    {MOCK_LINE_NO_NEWEST, MOCK_2_21, MOCK_2_27, INIT_NET, NET "Failed to find <name> symbol."},
    {MOCK_LINE_NO_SYMBOL, MOCK_2_26, MOCK_2_27, INIT_NET, NET "Failed to find <name> symbol."},
    {MOCK_LINE_NO_TUNER, MOCK_2_21, MOCK_2_25, INIT_NET,
     NET "Failed to find <names> symbol (>= v5). <names> symbols v4 and lower are not supported."},
    {MOCK_LINE_NO_TUNER, MOCK_2_26, MOCK_2_27, INIT_NET, NET "Failed to find <name> symbol."},
    {MOCK_LINE_USING_NEWEST, MOCK_2_24, NEWEST, INIT_NET, NET "Loaded <why> plugin <name> (v<version>)"},
    {MOCK_LINE_USING, MOCK_2_21, NEWEST, INIT_NET, NET "Loaded <why> plugin <name> (v<version>)"},
    {MOCK_LINE_LOADED, MOCK_2_27, MOCK_2_27, INIT_NET, "Successfully loaded external plugin <names>"},
    {MOCK_LINE_LOADED, MOCK_2_28, NEWEST, INIT_NET, "Successfully loaded external network plugin <name>"},
    {MOCK_LINE_UNSUPPORTED, MOCK_2_28, NEWEST, INIT_NET, "External network plugin <name> is unsupported"},
    {.text = NULL},
};

/* ---- rules, as functions of the version 'v' ---- */

#define RULE(type, name, value) .name = (value),
#define LOADER(v, prefix_, lines_, net_) { \
    .prefix = (prefix_), \
    .release = (v), \
    .lines = (lines_), \
    .net = (net_), \
    MOCK_LOADER_RULES(RULE, v) \
}
#define TUNER_NET(v) ((v) < MOCK_2_26 ? MOCK_NET_BY_NAME : (v) == MOCK_2_26 ? MOCK_NET_SHARED : MOCK_NET_AGAIN)
#define PROFILER_NET(v) ((v) <= MOCK_2_27 ? MOCK_NET_NEVER : MOCK_NET_AGAIN)

#define NO_HOUR 3.6e9f /* "no operation will take an hour" */
#define AVAILABLE "available for function <function> with datatype <type>.<NCCL_ALGO><NCCL_PROTO>"

static const int ll128_2_21[] = {70, 80, 90, 0};
static const int ll128_2_25[] = {70, 80, 90, 100, 120, 0};

/* Ranks of a node. */
enum { MAX_NVLS_RANKS = 32, MAX_COLLNET_RANKS = 8 };

enum { NVLS_TREE_CORRECTIONS = 24 };

/* ---- versions ---- */

#define VERSION(v, name_, newest_tuner_, n_algos_) [v] = { \
    .name = (name_), \
    .loader = LOADER(v, "libnccl-tuner", tuner_lines, TUNER_NET(v)), \
    .choice = {MOCK_CHOICE_RULES(RULE, v)}, \
    .model = {MOCK_MODEL_RULES(RULE, v)}, \
    .profiler = {.loader = LOADER(v, "libnccl-profiler", profiler_lines, PROFILER_NET(v)), \
                 MOCK_PROFILER_RULES(RULE, v)}, \
    .net = LOADER(v, "libnccl-net", net_lines, MOCK_NET_NEVER), \
    .newest_net = (v) < MOCK_2_24 ? 8 : (v) < MOCK_2_26 ? 9 : (v) < MOCK_2_28 ? 10 : (v) < MOCK_2_30 ? 11 : 12, \
    .oldest_net = (v) < MOCK_2_26 ? 5 : 6, \
    .newest_tuner = (newest_tuner_), \
    .n_algos = (n_algos_), \
}

static const struct mock_version versions[MOCK_N_RELEASES] = {
    VERSION(MOCK_2_21, "2.21", 2, 6),
    VERSION(MOCK_2_22, "2.22", 3, 6),
    VERSION(MOCK_2_23, "2.23", 3, 7),
    VERSION(MOCK_2_24, "2.24", 4, 7),
    VERSION(MOCK_2_25, "2.25", 4, 7),
    VERSION(MOCK_2_26, "2.26", 4, 7),
    VERSION(MOCK_2_27, "2.27", 4, 7),
    VERSION(MOCK_2_28, "2.28", 5, 7),
    VERSION(MOCK_2_29, "2.29", 5, 7),
    VERSION(MOCK_2_30, "2.30", 6, 7),
    VERSION(MOCK_2_31, "2.31", 6, 7),
    VERSION(MOCK_2_32_3, "2.32.3", 6, 7),
    VERSION(MOCK_2_32_6, "2.32", 7, 7),
};
// clang-format on

static const char default_name[] = "2.28";

enum { MAX_NUMBER = 999 }; /* of a version */

const struct mock_line *mock_line_find(const struct mock_loader_rules *rules,
                                       enum mock_line_kind kind)
{
    for (const struct mock_line *line = rules->lines; line->text != NULL;
         line++)
        if (line->kind == kind && line->first <= rules->release &&
            rules->release <= line->last)
            return line;
    return NULL;
}

const char *mock_release_name(size_t i)
{
    return i < MOCK_N_RELEASES ? versions[i].name : NULL;
}

/* "2.32.6" as 2032; -1 if it is no version. */
static long versions_number(const char *version)
{
    char *dot;
    char *end;
    long major = strtol(version, &dot, 10);
    long minor;

    if (dot == version || dot[0] != '.' || dot[1] < '0' || dot[1] > '9' ||
        major < 0 || major > MAX_NUMBER)
        return -1;
    minor = strtol(dot + 1, &end, 10);
    if ((*end != '\0' && *end != '.') || minor > MAX_NUMBER)
        return -1;
    return major * (MAX_NUMBER + 1) + minor;
}

bool mock_release_is_newer(const char *version)
{
    return versions_number(version) >
           versions_number(versions[MOCK_N_RELEASES - 1].name);
}

int mock_release_find(const char *version)
{
    for (int i = 0; i < MOCK_N_RELEASES; i++) {
        size_t len = strlen(versions[i].name);

        if (strncmp(version, versions[i].name, len) == 0 &&
            (version[len] == '\0' || version[len] == '.'))
            return i;
    }
    return mock_release_is_newer(version) ? MOCK_N_RELEASES - 1 : -1;
}

int mock_release_newest_tuner(const char *version)
{
    return versions[mock_release_find(version)].newest_tuner;
}

const struct mock_version *mock_version_find(const char *name)
{
    int i = mock_release_find(name != NULL ? name : default_name);

    return i >= 0 ? &versions[i] : NULL;
}
