#define _GNU_SOURCE /* dladdr(), RTLD_NEXT; statx(), for older glibcs */
#include "stage/real.h"

#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "plugin/old_glibc.h" /* CUDA has loaded libdl where it is apart */
#include "plugin/settings.h"
#include "stage/stage.h"

enum { N_PATH = 4096 };

#define LIBRARY "libnccl.so"

/* Where the object that a function is in is loaded. */
static void *real_base(const void *function)
{
    Dl_info info;

    return dladdr(function, &info) != 0 ? info.dli_fbase : NULL;
}

static bool real_is_own(const void *function)
{
    /* A function of ours that no other library can stand in front of. */
    return real_base(function) == real_base((const void *)(uintptr_t)real_base);
}

/* Whether the path is of another file than this library's. */
static bool real_is_other(const char *path)
{
    struct statx own, other;
    Dl_info info;

    return statx(AT_FDCWD, path, 0, STATX_INO, &other) == 0 &&
           !(dladdr((const void *)(uintptr_t)real_base, &info) != 0 &&
             statx(AT_FDCWD, info.dli_fname, 0, STATX_INO, &own) == 0 &&
             own.stx_dev_major == other.stx_dev_major &&
             own.stx_dev_minor == other.stx_dev_minor &&
             own.stx_ino == other.stx_ino);
}

/* Takes the path of the first libnccl.so that is loaded and not this one. */
static int real_look_at_loaded(struct dl_phdr_info *info, size_t size,
                               void *path)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash != NULL ? slash + 1 : info->dlpi_name;

    if (strncmp(name, LIBRARY, strlen(LIBRARY)) != 0 ||
        !real_is_other(info->dlpi_name))
        return 0;
    snprintf(path, N_PATH, "%s", info->dlpi_name);
    return 1;
}

/* Takes the path of the first libnccl.so.2 in a folder of LD_LIBRARY_PATH. */
static bool real_look_in_folders(char *path)
{
    const char *folder = getenv("LD_LIBRARY_PATH");

    while (folder != NULL && folder[0] != '\0') {
        const size_t len = strcspn(folder, ":;");

        snprintf(path, N_PATH, "%.*s/" LIBRARY ".2", (int)len, folder);
        if (len > 0 && real_is_other(path))
            return true;
        folder += len + (folder[len] != '\0');
    }
    return false;
}

/* ---- NCCL ---- */

struct caller {
    const void *code;
    const void *next;    /* the linker's next ncclGetVersion() */
    bool is_behind_next; /* it was loaded later */
    struct stp_real_object *object;
    char path[N_PATH]; /* "": the program's, or no object's */
};

static int real_look_at_caller(struct dl_phdr_info *info, size_t size,
                               void *user)
{
    struct caller *caller = user;
    struct stp_real_object object = {UINTPTR_MAX, 0};

    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + part->p_vaddr;

        if (part->p_type != PT_LOAD)
            continue;
        if (begin < object.begin)
            object.begin = begin;
        if (begin + part->p_memsz > object.end)
            object.end = begin + part->p_memsz;
    }
    caller->is_behind_next |= stp_real_has(&object, caller->next);
    if (!stp_real_has(&object, caller->code))
        return 0;
    *caller->object = object;
    snprintf(caller->path, N_PATH, "%s", info->dlpi_name);
    return 1;
}

/* The NCCL of objects that show none. */
static void *real_open_first(void)
{
    const char *named = stp_setting("STEPTUNE_NCCL");
    char path[N_PATH] = LIBRARY ".2";

    if (dl_iterate_phdr(real_look_at_loaded, path) != 0) {
        if (named != NULL && strcmp(named, path) != 0)
            stp_say(false,
                    "calls go to %s, which is loaded, and not to %s "
                    "(STEPTUNE_NCCL)",
                    path, named);
    } else if (named != NULL) {
        return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    } else if (!real_look_in_folders(path)) {
        strcpy(path, LIBRARY ".2");
    }
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

void stp_real_find_nccl(const void *code, bool is_first,
                        struct stp_real_object *object,
                        struct stp_real_nccl *nccl)
{
    struct caller caller = {.code = code,
                            .next = dlsym(RTLD_NEXT, "ncclGetVersion"),
                            .object = object};
    void *own = NULL, *library = NULL;
    const void *shown = NULL;

    memset(object, 0, sizeof(*object));
    memset(nccl, 0, sizeof(*nccl));
    if (dl_iterate_phdr(real_look_at_caller, &caller) != 0 &&
        caller.path[0] != '\0')
        own = dlopen(caller.path, RTLD_LAZY | RTLD_NOLOAD);
    if (own != NULL)
        shown = dlsym(own, "ncclGetVersion");
    if (shown != NULL && real_is_own(shown))
        shown = NULL;
    /* An object keeps what was shown when it was loaded. */
    if (shown != NULL &&
        (!caller.is_behind_next || stp_real_has(object, shown)))
        library = own;
    else if (caller.next != NULL)
        library = RTLD_NEXT;
    else if (is_first)
        library = real_open_first();
    if (library == NULL)
        return;
#define REAL_FIND(result, name, parameters, arguments)                         \
    *(void **)&nccl->name = dlsym(library, #name);                             \
    *(void **)&nccl->p##name = dlsym(library, "p" #name);
    NCCL_ALL_CALLS(REAL_FIND)
#undef REAL_FIND
    if (nccl->ncclGetVersion != NULL &&
        real_is_own((const void *)(uintptr_t)nccl->ncclGetVersion))
        memset(nccl, 0, sizeof(*nccl));
}

bool stp_real_find_cuda(struct stp_real_cuda *cuda)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    bool is_whole = library != NULL;

#define REAL_FIND(member, name, parameters)                                    \
    is_whole =                                                                 \
        is_whole && (*(void **)&cuda->member = dlsym(library, name)) != NULL;
    STP_STAGE_CUDA_CALLS(REAL_FIND)
#undef REAL_FIND
    return is_whole;
}

bool stp_real_is_second(const struct stp_real_nccl *nccl)
{
    const void *first = dlsym(RTLD_DEFAULT, "ncclGroupStart");

    /* Opened by name, this library stands in no scope but its user's. */
    return first != NULL && !real_is_own(first) &&
           first != (const void *)(uintptr_t)nccl->ncclGroupStart;
}
