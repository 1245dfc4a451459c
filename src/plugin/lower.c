#define _GNU_SOURCE /* dladdr() */
#include "plugin/lower.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/rng.h"
#include "nccl_tuner_abi.h"
#include "plugin/conf.h"
#include "plugin/old_glibc.h"

/* Where these are not in libc, NCCL has loaded libdl for all; if not, they are
 * NULL, and no tuner is below ours. */
#pragma weak dladdr
#pragma weak dlclose
#pragma weak dlerror
#pragma weak dlopen
#pragma weak dlsym

enum {
    OLDEST = 2,            /* version of the interface */
    NEWEST_OPENED_NET = 3, /* NCCL up to 2.23, which opens the net plugin */
    NEWEST_WORD_NET = 4, /* up to 2.26 "" is as if it were unset; 2.28: none */
    FIRST_NONE = 5,      /* 2.28, to which NCCL_TUNER_PLUGIN=none is a word */
    NAME_SIZE = 255,     /* NCCL's, from 2.26 on */
    OLDEST_NET = 4,      /* version of a net plugin */
    NEWEST_NET = 16,
};

#define NET   "libnccl-net"
#define TUNER "libnccl-tuner"

/* ---- libraries ---- */

static bool lower_is_word(const char *name)
{
    const size_t len = strlen(name);

    return strchr(name, '/') == NULL &&
           (strncmp(name, "lib", 3) != 0 || len < 3 ||
            strcmp(name + len - 3, ".so") != 0);
}

/* Opens a NAME as NCCL does. */
static void *lower_open(const char *prefix, const char *name, int mode)
{
    void *library = dlopen(
        strncasecmp(name, "STATIC_PLUGIN", strlen(name)) == 0 ? NULL : name,
        mode | RTLD_LOCAL);
    char file[NAME_SIZE];

    if (library != NULL || !lower_is_word(name))
        return library;
    snprintf(file, sizeof(file), "%s-%s.so", prefix, name);
    return dlopen(file, mode | RTLD_LOCAL);
}

/* The newest version of 'prefix' that the library has, or 0. */
static int lower_find_symbol(void *library, const char *prefix, int newest,
                             int oldest, const void **symbol_ret)
{
    for (int v = newest; v >= oldest; v--) {
        char name[32];

        snprintf(name, sizeof(name), "%s_v%d", prefix, v);
        *symbol_ret = dlsym(library, name);
        if (*symbol_ret != NULL)
            return v;
    }
    return 0;
}

/* The last of the listed net plugins that is loaded, which NCCL's search asks;
 * outside of a job the first that is one. */
static void *lower_open_net(const struct stp_lower_question *q,
                            const char *value)
{
    const bool is_unset =
        value == NULL || (value[0] == '\0' && q->newest <= NEWEST_WORD_NET);
    const char *names = is_unset ? NET ".so" : value;
    const bool opens = !q->is_job || q->newest <= NEWEST_OPENED_NET;
    void *found = NULL;

    while (*names != '\0') {
        const size_t len =
            q->newest > NEWEST_OPENED_NET ? strcspn(names, ",") : strlen(names);
        char name[NAME_SIZE];
        const void *net;
        void *library = NULL;

        snprintf(name, sizeof(name), "%.*s", (int)len, names);
        names += len + (names[len] == ',');
        if (len == 0 || len >= sizeof(name) || strcasecmp(name, "none") == 0)
            continue;
        library = lower_open(NET, name, RTLD_NOW | (opens ? 0 : RTLD_NOLOAD));
        if (library == NULL)
            continue;
        if (q->newest > NEWEST_OPENED_NET &&
            lower_find_symbol(library, "ncclNetPlugin", NEWEST_NET, OLDEST_NET,
                              &net) == 0) {
            dlclose(library);
            continue;
        }
        if (opens)
            return library;
        if (found != NULL)
            dlclose(found);
        found = library;
    }
    return found;
}

/* ---- identity ---- */

/* The segments of a symbol's object, and its notes, which have its build id. */
struct lower_build {
    uintptr_t symbol;
    uint64_t hash;
};

static bool lower_covers(const struct dl_phdr_info *info, uintptr_t from,
                         size_t size)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t at = info->dlpi_addr + p->p_vaddr;

        if (p->p_type == PT_LOAD && (p->p_flags & PF_R) != 0 && from >= at &&
            from - at <= p->p_memsz && size <= p->p_memsz - (from - at))
            return true;
    }
    return false;
}

static int lower_hash_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct lower_build *build = data;

    (void)size;
    if (!lower_covers(info, build->symbol, 1))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t at = info->dlpi_addr + p->p_vaddr;

        build->hash = stp_hash(build->hash, p->p_type);
        build->hash = stp_hash(build->hash, p->p_filesz);
        if (p->p_type != PT_NOTE || !lower_covers(info, at, p->p_memsz))
            continue;
        for (size_t k = 0; k < p->p_memsz; k++)
            build->hash = stp_hash(build->hash, ((const unsigned char *)at)[k]);
    }
    return 1;
}

/* Folders differ between hosts that hold the same. */
static uint64_t lower_identity(const struct stp_lower *lower)
{
    const char *file = strrchr(lower->path, '/');
    struct lower_build build = {(uintptr_t)lower->symbol,
                                (uint64_t)lower->version};

    for (file = file != NULL ? file + 1 : lower->path; *file != '\0'; file++)
        build.hash = stp_hash(build.hash, (unsigned char)*file);
    dl_iterate_phdr(lower_hash_object, &build);
    return build.hash != 0 ? build.hash : 1;
}

/* ---- the search ---- */

const char *stp_lower_name(const struct stp_lower *lower)
{
    /* tuners of all versions begin as that of v2 does */
    const char *name = ((const ncclTuner_v2_t *)lower->symbol)->name;

    return name != NULL && name[0] != '\0' ? name : "(unnamed)";
}

enum lower_kind { LOWER_ABSENT, LOWER_NONE, LOWER_OURS, LOWER_TAKEN };

/* Takes a library's tuner; else the library is closed. */
static enum lower_kind lower_take(struct stp_lower *lower, void *library,
                                  int newest, const char *found_by)
{
    Dl_info info;

    lower->version = lower_find_symbol(library, "ncclTunerPlugin", newest,
                                       OLDEST, &lower->symbol);
    if (lower->version == 0 ||
        strncmp(stp_lower_name(lower), "steptune", 8) == 0) {
        lower->symbol = NULL;
        dlclose(library);
        return lower->version == 0 ? LOWER_NONE : LOWER_OURS;
    }
    snprintf(lower->found_by, sizeof(lower->found_by), "%s", found_by);
    if (dladdr(lower->symbol, &info) != 0)
        snprintf(lower->path, sizeof(lower->path), "%s", info.dli_fname);
    lower->identity = lower_identity(lower);
    return LOWER_TAKEN;
}

/* Looks in nccl.conf for a variable that the environment lacks or ours hides;
 * NULL: nothing. */
static const char *lower_conf(const struct stp_lower_question *q,
                              const char *name, struct stp_conf_value *conf)
{
    return stp_conf_find(q->root != NULL ? q->root : "", q->newest, name, conf)
               ? conf->value
               : NULL;
}

enum stp_status stp_lower_find(const struct stp_lower_question *q,
                               struct stp_lower *lower_ret,
                               struct stp_error *err)
{
    /* what NCCL up to 2.25 does; 2.26 and 2.27 have the version of 2.24 */
    const int mode = q->newest <= NEWEST_OPENED_NET ? RTLD_LAZY : RTLD_NOW;
    enum lower_kind kind = LOWER_ABSENT;
    struct stp_conf_value chain, tuner, net;
    char by[STP_LOWER_BY] = TUNER ".so";
    const char *name = q->chain;
    bool is_named;
    void *library;

    *lower_ret = (struct stp_lower){.symbol = NULL};
    if (name == NULL || name[0] == '\0')
        name = lower_conf(q, "STEPTUNE_CHAIN", &chain);
    is_named = name != NULL && strcasecmp(name, "auto") != 0;
    if (is_named)
        snprintf(by, sizeof(by), "STEPTUNE_CHAIN");
    else {
        name =
            stp_lower_setting(NULL, lower_conf(q, "NCCL_TUNER_PLUGIN", &tuner));
        if (name != NULL)
            snprintf(by, sizeof(by), "NCCL_TUNER_PLUGIN in %.160s",
                     tuner.where);
    }
    if (dlopen == NULL || (name != NULL && strcasecmp(name, "none") == 0 &&
                           (is_named || q->newest >= FIRST_NONE)))
        return STP_OK;
    library = lower_open(TUNER, name != NULL ? name : TUNER ".so", mode);
    if (library != NULL)
        kind = lower_take(lower_ret, library, q->newest, by);
    if (kind == LOWER_ABSENT || kind == LOWER_OURS) {
        library = lower_open_net(
            q,
            q->net != NULL ? q->net : lower_conf(q, "NCCL_NET_PLUGIN", &net));
        if (library != NULL)
            lower_take(lower_ret, library, q->newest, "the net plugin");
    }
    if (!is_named || lower_ret->symbol != NULL)
        return STP_OK;
    if (kind == LOWER_ABSENT)
        dlopen(name, mode | RTLD_LOCAL); /* says why, of this very name */
    return stp_fail(err, STP_ERR_IO,
                    "STEPTUNE_CHAIN is '%.200s', expected auto, none or the "
                    "library of another tuner: %.200s",
                    name,
                    kind == LOWER_OURS   ? "it is Steptune's"
                    : kind == LOWER_NONE ? "it has no tuner for this NCCL"
                                         : dlerror());
}

const char *stp_lower_setting(const char *chain, const char *displaced)
{
    const char *file;

    if (chain != NULL && chain[0] != '\0')
        return chain;
    if (displaced == NULL || displaced[0] == '\0')
        return NULL;
    file = strrchr(displaced, '/');
    return strstr(file != NULL ? file + 1 : displaced, "steptune") != NULL
               ? NULL
               : displaced;
}
