#include "stage/stage.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/rng.h"
#include "core/utf8.h"
#include "plugin/file.h"
#include "plugin/settings.h"

enum {
    PATIENCE_MS = 3000,
    MEMORY_MB = 1024,
    MOST_TOLD = 20, /* communicators that step aside, in the log */
    MAX_MB = 1 << 20,
};

/* The layout of what ranks share, and how calls are staged: ranks of different
 * builds do not stage. */
#define BUILD UINT64_C(4)

/* The library's one global.  Its calls are NCCL's, and have no place to keep
 * anything in. */
static struct stp_stage process = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                   .report_lock = PTHREAD_MUTEX_INITIALIZER};

void stp_say(bool is_warning, const char *fmt, ...)
{
    static const char *const shown[] = {"WARN", "INFO", "TRACE"};
    const char *level = stp_setting("NCCL_DEBUG");
    char text[1024], printable[2048];
    bool is_shown = false;
    va_list va;

    for (size_t i = is_warning ? 0 : 1; level != NULL && i < 3; i++)
        is_shown |= strcasecmp(level, shown[i]) == 0;
    if (!is_shown)
        return;
    va_start(va, fmt);
    vsnprintf(text, sizeof(text), fmt, va);
    va_end(va);
    stp_printable(text, strlen(text), printable, sizeof(printable));
    fprintf(stderr, "steptune-stage: pid %d: %s%s\n", (int)getpid(),
            is_warning ? "warning: " : "", printable);
}

void stp_step_aside(bool is_warning, const char *text)
{
    bool is_silent;

    pthread_mutex_lock(&process.lock);
    is_warning = is_warning && !process.has_warned;
    process.has_warned |= is_warning;
    is_silent = !is_warning && process.n_told++ >= MOST_TOLD;
    if (process.aside_text[0] == '\0' || is_warning)
        snprintf(process.aside_text, sizeof(process.aside_text), "%s", text);
    pthread_mutex_unlock(&process.lock);
    if (!is_silent)
        stp_say(is_warning, "no call of a communicator is staged: %s", text);
}

/* The number in a variable, 1 to 'max', or 'by_default'. */
static unsigned long process_number(const char *name, unsigned long by_default,
                                    unsigned long max)
{
    const char *text = stp_setting(name);
    char *end = NULL;
    unsigned long n;

    if (text == NULL)
        return by_default;
    n = strtoul(text, &end, 10);
    if (*end == '\0' && '0' <= text[0] && text[0] <= '9' && n >= 1 && n <= max)
        return n;
    stp_say(true, "%s is '%s', expected a number from 1 to %lu; it is %lu",
            name, text, max, by_default);
    return by_default;
}

static uint64_t process_hash(uint64_t hash, const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        hash = stp_hash(hash, (unsigned char)*text);
    return stp_hash(hash, UINT64_C(0x100));
}

static bool process_is_off(const char *name)
{
    const char *value = stp_setting(name);

    return value != NULL && strcmp(value, "0") == 0;
}

static void process_read(void)
{
    const char *path = stp_setting("STEPTUNE_STAGE_FILE");
    char text[STP_PATH_SIZE + STP_ERROR_TEXT];
    struct stp_error err;
    const char *report, *overlaps = stp_setting("NCCL_WORKLOAD_OVERLAP");

    if (process.nccl.ncclGetVersion == NULL)
        fputs("steptune-stage: there is no libnccl.so.2 behind this library: "
              "name it in STEPTUNE_NCCL\n",
              stderr);
    if (path == NULL || process.nccl.ncclGetVersion == NULL)
        return;
    process.is_on = true;
    report = stp_setting("STEPTUNE_STAGE_REPORT");
    snprintf(process.report, sizeof(process.report), "%s",
             report != NULL ? report : "");
    process.nccl.ncclGetVersion(&process.version);
    if (process.version < NCCL_WITH_WINDOWS)
        process.aside = "NCCL is older than 2.27 and has no windows";
    else if (stp_real_is_second(&process.nccl))
        process.aside =
            "another library in LD_PRELOAD takes NCCL's calls first";
    else if (process_is_off("NCCL_WIN_ENABLE") ||
             process_is_off("NCCL_CUMEM_ENABLE"))
        process.aside =
            "NCCL_WIN_ENABLE=0 or NCCL_CUMEM_ENABLE=0 switches windows off";
    else if (process_is_off("NCCL_GRAPH_MIXING_SUPPORT"))
        process.aside = "NCCL_GRAPH_MIXING_SUPPORT=0 switches off the order "
                        "that staged calls of graphs need";
    else if (!stp_real_find_cuda(&process.cuda))
        process.aside = "libcuda.so.1 is missing, or older than CUDA 12.3";
    else if (stp_file_load_policy(STP_POLICY_OF_STAGE, path, &process.rules,
                                  &err) != STP_OK) {
        process.aside = "the file of rules (STEPTUNE_STAGE_FILE) is refused";
        stp_error_string(&err, path, text, sizeof(text));
        stp_say(true, "no call is staged: %s", text);
    }
    stp_settings_gpu(process.gpu);
    process.overlaps = !process_is_off("NCCL_WORKLOAD_OVERLAP");
    if (process.overlaps && overlaps != NULL && strcmp(overlaps, "1") != 0)
        stp_say(true, "NCCL_WORKLOAD_OVERLAP is '%s', expected 0 or 1; it is 1",
                overlaps);
    process.max_bytes =
        process_number("STEPTUNE_STAGE_MEMORY", MEMORY_MB, MAX_MB) << 20;
    process.patience_ms =
        (unsigned)process_number("STEPTUNE_STAGE_WAIT", PATIENCE_MS, 600000);
    process.part[STP_PART_BUILD] = stp_hash(BUILD, (uint64_t)process.version);
    process.part[STP_PART_RULES] =
        process.rules != NULL ? stp_policy_hash(process.rules) : 0;
    process.part[STP_PART_SETTINGS] =
        process_hash(process_hash(process.max_bytes, process.gpu),
                     stp_setting("NCCL_HOSTID")) +
        process.overlaps;
}

/* Objects that have called. */
enum { N_CALLERS = 256 };
static struct caller {
    struct stp_real_object object;
    struct stp_real_nccl nccl; /* its own, if it is another than process.nccl */
} callers[N_CALLERS];
static _Atomic size_t n_callers;

static const struct caller *caller_find(const void *code)
{
    for (size_t i = 0, n = n_callers; i < n; i++)
        if (stp_real_has(&callers[i].object, code))
            return &callers[i];
    return NULL;
}

static const struct caller *caller_add(const void *code)
{
    struct caller added;
    const struct caller *caller;

    stp_real_find_nccl(code, !process.is_open, &added.object, &added.nccl);
    pthread_mutex_lock(&process.lock);
    if (!process.is_open) {
        process.nccl = added.nccl;
        process_read();
        process.is_open = true;
    }
    caller = caller_find(code);
    if (caller == NULL && added.object.end > 0 && n_callers < N_CALLERS) {
        if (added.nccl.ncclGetVersion == process.nccl.ncclGetVersion)
            added.nccl.ncclGetVersion = NULL;
        else if (added.nccl.ncclGetVersion != NULL)
            stp_say(false, "a library has another NCCL than the process's "
                           "first call: its calls go there, and none is "
                           "staged");
        callers[n_callers] = added;
        caller = &callers[n_callers++];
    }
    pthread_mutex_unlock(&process.lock);
    return caller;
}

const struct stp_real_nccl *stp_stage_enter(const void *code)
{
    const struct caller *caller = caller_find(code);

    if (caller == NULL)
        caller = caller_add(code);
    return caller != NULL && caller->nccl.ncclGetVersion != NULL ? &caller->nccl
                                                                 : NULL;
}

struct stp_stage *stp_stage(void)
{
    return &process;
}

/* A process may never have called NCCL: LD_PRELOAD loads the library into all
 * that a job starts. */
__attribute__((destructor)) static void stage_end(void)
{
    if (process.is_open)
        stp_tally_end();
}
