#include "versions/versions.h"

#include <dlfcn.h>
#include <float.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "mock_nccl.h"

#define INIT_TUNING ((unsigned long)(NCCL_INIT | NCCL_TUNING))
#define ENV_TUNING  ((unsigned long)(NCCL_ENV | NCCL_TUNING))
#define DESTROY     0x10000ul /* 2.30's own subsystem for closing */

#define TUNER        "TUNER/Plugin: "
#define TUNER_PREFIX "libnccl-tuner"

enum { LIBRARY_NAME_SIZE = 255 }; /* from 2.26 on */

/* ---- loaders ---- */

static const struct mock_loader_rules loader_2_21 = {
    .prefix = TUNER_PREFIX,
    .lines =
        {
            [MOCK_LINE_SET] = {ENV_TUNING,
                               TUNER "NCCL_TUNER_PLUGIN set to <name>"},
            [MOCK_LINE_NOT_FOUND] = {ENV_TUNING,
                                     TUNER "No plugin found (<name>)"},
            [MOCK_LINE_OPENED] = {ENV_TUNING,
                                  TUNER "Plugin name set by env to <name>"},
            [MOCK_LINE_ONE_FAILED] = {ENV_TUNING,
                                      TUNER "Plugin load returned 2 : "
                                            "<why> : when loading <names>"},
            [MOCK_LINE_ALL_FAILED] =
                {ENV_TUNING,
                 TUNER "Most recent plugin load returned 2 : <why>. All "
                       "attempts to load '<names>' also failed."},
            [MOCK_LINE_NO_LIBRARY] = {ENV_TUNING,
                                      TUNER "Using internal tuner plugin."},
            [MOCK_LINE_NO_TUNER] =
                {ENV_TUNING,
                 TUNER "Failed to find <name>, using internal tuner instead."},
            [MOCK_LINE_USING] = {ENV_TUNING, TUNER "Using tuner plugin <name>"},
            [MOCK_LINE_CLOSING] = {NCCL_TUNING,
                                   TUNER "Closing tuner: '<name>'"},
        },
    .mode = RTLD_LAZY,
    .name_size = PATH_MAX,
    .net = MOCK_NET_BY_NAME,
    .extends_files = true,
    .counts_all = true,
};

// clang-format off
/* 2.22 to 2.27: the lines on the library belong to other subsystems from 2.26
 * on, where one function opens plugins of all kinds. */
#define LINES_2_22(opening)                                                    \
    [MOCK_LINE_NOT_LOADED] = {opening, TUNER "<why>"},                         \
    [MOCK_LINE_OPENED] = {opening, TUNER "Plugin name set by env to <name>"},  \
    [MOCK_LINE_MISSING] = {opening, TUNER "Could not find:<names>. Using "     \
                                          "internal tuner plugin."},           \
    [MOCK_LINE_NO_LIBRARY] = {opening, TUNER "Using internal tuner plugin."},  \
    [MOCK_LINE_NO_SYMBOL] = {ENV_TUNING,                                       \
                             TUNER "Failed to find <name> symbol."},           \
    [MOCK_LINE_NO_TUNER] = {ENV_TUNING, TUNER "Failed to find <name> symbol, " \
                                              "using internal tuner instead."},\
    [MOCK_LINE_USING] = {ENV_TUNING, TUNER "Using tuner plugin <name>"},       \
    [MOCK_LINE_CLOSING] = {NCCL_TUNING, TUNER "Closing tuner: '<name>'"}

/* From 2.26 on. */
#define OPENING_2_26                                                           \
    .mode = RTLD_NOW, .name_size = LIBRARY_NAME_SIZE, .has_static_plugin = true
#define OPENING_2_28                                                           \
    OPENING_2_26, .net = MOCK_NET_AGAIN, .has_none_keyword = true,             \
    .reports_empty = true
// clang-format on

static const struct mock_loader_rules loader_2_22 = {
    .prefix = TUNER_PREFIX,
    .lines = {LINES_2_22(ENV_TUNING), [MOCK_LINE_SET] =
                                          {ENV_TUNING, TUNER
                                           "NCCL_TUNER_PLUGIN set to <name>"}},
    .mode = RTLD_LAZY,
    .name_size = PATH_MAX,
    .net = MOCK_NET_BY_NAME,
    .has_static_plugin = true,
    .extends_files = true,
};

static const struct mock_loader_rules loader_2_26 = {
    .prefix = TUNER_PREFIX,
    .lines = {LINES_2_22(INIT_TUNING)},
    OPENING_2_26,
    .net = MOCK_NET_SHARED,
    .extends_files = true,
    .keeps_last_name = true,
    .keeps_unsupported = true,
};

static const struct mock_loader_rules loader_2_27 = {
    .prefix = TUNER_PREFIX,
    .lines = {LINES_2_22(INIT_TUNING)},
    OPENING_2_26,
    .net = MOCK_NET_AGAIN,
};

// clang-format off
#define LINES_2_28                                                             \
    [MOCK_LINE_SET] = {ENV_TUNING,                                              \
                      "NCCL_TUNER_PLUGIN set by environment to <name>"},       \
    [MOCK_LINE_NOT_LOADED] = {INIT_TUNING, TUNER "<name>: <why>"},              \
    [MOCK_LINE_MISSING] = {INIT_TUNING, TUNER "Could not find:<names>"},        \
    [MOCK_LINE_USING] = {INIT_TUNING, TUNER "Using <name> (v<version>)"},       \
    [MOCK_LINE_LOADED] = {INIT_TUNING,                                          \
                         "Successfully loaded external tuner plugin <name>"},  \
    [MOCK_LINE_UNSUPPORTED] = {INIT_TUNING,                                     \
                              "External tuner plugin <name> is unsupported"}
// clang-format on

static const struct mock_loader_rules loader_2_28 = {
    .prefix = TUNER_PREFIX,
    .lines = {LINES_2_28, [MOCK_LINE_CLOSING] = {INIT_TUNING, TUNER
                                                 "Closing tuner: '<name>'"}},
    OPENING_2_28,
};

static const struct mock_loader_rules loader_2_30 = {
    .prefix = TUNER_PREFIX,
    .lines = {LINES_2_28,
              [MOCK_LINE_DLOPEN] = {NCCL_INIT,
                                    "ncclOsDlopen(<name>) failed: <why>"},
              [MOCK_LINE_DLSYM] = {NCCL_INIT,
                                   "ncclOsDlsym(<name>) failed: <why>"},
              [MOCK_LINE_CLOSING] = {DESTROY | NCCL_TUNING,
                                     TUNER "Closing tuner: '<name>'"}},
    OPENING_2_28,
};

/* ---- profilers ---- */

#define PROFILER        "PROFILER/Plugin: "
#define PROFILER_PREFIX "libnccl-profiler"
#define INIT_ENV        ((unsigned long)(NCCL_INIT | NCCL_ENV))

static const struct mock_profiler_rules profiler_2_27 = {
    .loader =
        {
            .prefix = PROFILER_PREFIX,
            .lines =
                {
                    [MOCK_LINE_NOT_LOADED] = {NCCL_INIT, PROFILER "<why>"},
                    [MOCK_LINE_OPENED] = {NCCL_INIT, PROFILER
                                          "Plugin name set by env to <name>"},
                    [MOCK_LINE_MISSING] = {NCCL_INIT,
                                           PROFILER "Could not find:<names>. "},
                    [MOCK_LINE_NO_SYMBOL] = {INIT_ENV,
                                             PROFILER "failed to find <name>."},
                    [MOCK_LINE_USING] = {INIT_ENV, PROFILER "loaded <name>"},
                    [MOCK_LINE_CLOSING] = {NCCL_ENV, PROFILER
                                           "Closing profiler plugin <name>"},
                },
            OPENING_2_26,
            .net = MOCK_NET_NEVER,
        },
    .newest = 4,
    .failure = MOCK_PROFILER_UNLOADED,
    .needs_group = true,
};

// clang-format off
#define PROFILER_LINES                                                         \
    [MOCK_LINE_SET] = {NCCL_ENV,                                                \
                      "NCCL_PROFILER_PLUGIN set by environment to <name>"},    \
    [MOCK_LINE_NOT_LOADED] = {NCCL_INIT, PROFILER "<name>: <why>"},             \
    [MOCK_LINE_MISSING] = {NCCL_INIT, PROFILER "Could not find:<names>"},       \
    [MOCK_LINE_USING] = {NCCL_INIT, PROFILER "Loaded <name> (v<version>)"},     \
    [MOCK_LINE_LOADED] = {NCCL_INIT,                                            \
                       "Successfully loaded external profiler plugin <name>"}, \
    [MOCK_LINE_UNSUPPORTED] = {NCCL_INIT,                                       \
                           "External profiler plugin <name> is unsupported"}
#define PROFILER_CLOSING PROFILER "Closing profiler plugin <name>"
// clang-format on

// clang-format off
#define PROFILER_LOADER_2_28                                                   \
    {.prefix = PROFILER_PREFIX, OPENING_2_28,                                  \
     .lines = {PROFILER_LINES,                                                 \
               [MOCK_LINE_CLOSING] = {NCCL_INIT, PROFILER_CLOSING}}}
// clang-format on

static const struct mock_profiler_rules profiler_2_28 = {
    .loader = PROFILER_LOADER_2_28,
    .newest = 5,
    .failure = MOCK_PROFILER_KEPT,
};

static const struct mock_profiler_rules profiler_2_29 = {
    .loader = PROFILER_LOADER_2_28,
    .newest = 6,
    .failure = MOCK_PROFILER_KEPT,
    .lists_mask = true,
};

static const struct mock_profiler_rules profiler_2_30 = {
    .loader = {.prefix = PROFILER_PREFIX,
               OPENING_2_28,
               .lines = {PROFILER_LINES,
                         [MOCK_LINE_DLOPEN] =
                             {NCCL_INIT, "ncclOsDlopen(<name>) failed: <why>"},
                         [MOCK_LINE_DLSYM] = {NCCL_INIT,
                                              "ncclOsDlsym(<name>) failed: "
                                              "<why>"},
                         [MOCK_LINE_CLOSING] = {DESTROY, PROFILER_CLOSING}}},
    .newest = 6,
    .failure = MOCK_PROFILER_RELEASED,
    .lists_mask = true,
};

/* ---- choosing ---- */

#define NO_HOUR 3.6e9f /* "no operation will take an hour" */

static const struct mock_choice_rules choice_2_21 = {
    .selection = MOCK_SELECT_PAIR,
    .channels = MOCK_CHANNELS_WHOLE,
    .groups_by_count = true,
    .plain_lists = true,
    .ceiling = NO_HOUR,
    .nothing = "Error : no algorithm/protocol available",
    .decided = "<bytes> Bytes -> Algo <algo> proto <proto> time <us>",
};

#define CHOICE_2_22                                                            \
    .selection = MOCK_SELECT_FIRST, .channels = MOCK_CHANNELS_FIELD,           \
    .simulates = true, .plain_lists = true, .ceiling = NO_HOUR,                \
    .nothing = "Error : no algorithm/protocol available"

static const struct mock_choice_rules choice_2_22 = {
    CHOICE_2_22,
    .decided = "<bytes> Bytes -> Algo <algo> proto <proto> time <us>",
};

static const struct mock_choice_rules choice_2_23 = {
    CHOICE_2_22,
    .decided =
        "<function>: <bytes> Bytes -> Algo <algo> proto <proto> time <us>",
};

#define NOTHING                                                                \
    "lgorithm/protocol available for function <function> with datatype "       \
    "<type>.<NCCL_ALGO><NCCL_PROTO>"
#define SCHEDULED                                                              \
    "<function>: <bytes> Bytes -> Algo <algorithm> proto <protocol> "          \
    "channel{Lo..Hi}={<lo>..<hi>}"
#define CHOICE_2_24                                                            \
    .simulates = true, .reports_variables = true, .scheduled = SCHEDULED
#define CHOICE_2_24_TO_2_28                                                    \
    CHOICE_2_24, .selection = MOCK_SELECT_FIRST,                               \
                 .channels = MOCK_CHANNELS_FIELD, .ceiling = NO_HOUR,          \
                 .nothing = "Error : no a" NOTHING
#define CHOICE_2_29                                                            \
    CHOICE_2_24, .symmetric = MOCK_SYMMETRIC_ONE, .gathers_broadcasts = true,  \
                 .ceiling = FLT_MAX
#define CHOICE_2_30                                                            \
    CHOICE_2_29, .symmetric_avg = true, .ignores_symmetric_error = true

static const struct mock_choice_rules choice_2_24 = {
    CHOICE_2_24_TO_2_28,
};

static const struct mock_choice_rules choice_2_27 = {
    CHOICE_2_24_TO_2_28,
    .symmetric = MOCK_SYMMETRIC_ALONE,
};

static const struct mock_choice_rules choice_2_28 = {
    CHOICE_2_24_TO_2_28,
    .symmetric = MOCK_SYMMETRIC_BOTH,
};

static const struct mock_choice_rules choice_2_29 = {
    CHOICE_2_29,
    .selection = MOCK_SELECT_FIRST,
    .channels = MOCK_CHANNELS_FIELD,
    .nothing = "Error : no a" NOTHING,
};

static const struct mock_choice_rules choice_2_30 = {
    CHOICE_2_30,
    .selection = MOCK_SELECT_FIRST,
    .channels = MOCK_CHANNELS_FIELD,
    .nothing = "No a" NOTHING,
};

/* Log lines of 2.31 that contain addresses are omitted. */
static const struct mock_choice_rules choice_2_31 = {
    CHOICE_2_30,
    .selection = MOCK_SELECT_VALID,
    .channels = MOCK_CHANNELS_LOWER,
    .drops_edits = true,
    .all_ranks_log = true,
    .nothing = "No algorithm/protocol nor symKernelId available for function "
               "<function> with datatype <type>.<NCCL_ALGO><NCCL_PROTO>",
    .decided = "Best tuning, algorithm, <algorithm>, protocol, <protocol>",
};

/* ---- versions ---- */

// clang-format off
static const struct mock_version versions[] = {
    /* name, loader, choice, model, profiler, tuner, algorithms */
    {"2.21",    &loader_2_21, &choice_2_21, &mock_model_2_21, NULL,           2, 6},
    {"2.22",    &loader_2_22, &choice_2_22, &mock_model_2_22, NULL,           3, 6},
    {"2.23",    &loader_2_22, &choice_2_23, &mock_model_2_23, NULL,           3, 7},
    {"2.24",    &loader_2_22, &choice_2_24, &mock_model_2_24, NULL,           4, 7},
    {"2.25",    &loader_2_22, &choice_2_24, &mock_model_2_25, NULL,           4, 7},
    {"2.26",    &loader_2_26, &choice_2_24, &mock_model_2_26, NULL,           4, 7},
    {"2.27",    &loader_2_27, &choice_2_27, &mock_model_2_27, &profiler_2_27, 4, 7},
    {"2.28",    &loader_2_28, &choice_2_28, &mock_model_2_28, &profiler_2_28, 5, 7},
    {"2.29",    &loader_2_28, &choice_2_29, &mock_model_2_29, &profiler_2_29, 5, 7},
    {"2.30",    &loader_2_30, &choice_2_30, &mock_model_2_30, &profiler_2_30, 6, 7},
    {"2.31dev", &loader_2_30, &choice_2_31, &mock_model_2_31, &profiler_2_30, 6, 7},
};
// clang-format on

static const char default_name[] = "2.28";

enum { N_VERSIONS = sizeof(versions) / sizeof(versions[0]) };

const char *mock_release_name(size_t i)
{
    return i < N_VERSIONS ? versions[i].name : NULL;
}

int mock_release_find(const char *version)
{
    for (int i = 0; i < N_VERSIONS; i++) {
        size_t len = strlen(versions[i].name);

        if (strncmp(version, versions[i].name, len) == 0 &&
            (version[len] == '\0' || version[len] == '.'))
            return i;
    }
    return -1;
}

const struct mock_version *mock_version_find(const char *name)
{
    int i = mock_release_find(name != NULL ? name : default_name);

    return i >= 0 ? &versions[i] : NULL;
}
