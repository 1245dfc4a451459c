#define _GNU_SOURCE /* dlinfo */
#include "loader.h"

#include <dlfcn.h>
#include <errno.h>
#include <float.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "log.h"

#define LOADER_FLAGS ((unsigned long)(NCCL_INIT | NCCL_TUNING))
#define DESTROY_FLAG 0x10000ul /* NCCL 2.30's own subsystem for closing */

// clang-format off
static const struct mock_version versions[] = {
    /* minor, tuner, algos, ceiling, none, closing, prefix */
    {21, 2, 6, 3.6e9f,  false, LOADER_FLAGS, "Error : "},
    {22, 3, 6, 3.6e9f,  false, LOADER_FLAGS, "Error : "},
    {23, 3, 7, 3.6e9f,  false, LOADER_FLAGS, "Error : "},
    {24, 4, 7, 3.6e9f,  false, LOADER_FLAGS, "Error : "},
    {25, 4, 7, 3.6e9f,  false, LOADER_FLAGS, "Error : "},
    {26, 4, 7, 3.6e9f,  false, LOADER_FLAGS, "Error : "},
    {27, 4, 7, 3.6e9f,  false, LOADER_FLAGS, "Error : "},
    {28, 5, 7, 3.6e9f,  true,  LOADER_FLAGS, "Error : "},
    {29, 5, 7, FLT_MAX, true,  LOADER_FLAGS, ""},
    {30, 6, 7, FLT_MAX, true,  DESTROY_FLAG | NCCL_TUNING, ""},
};
// clang-format on

enum {
    DEFAULT_MINOR = 28,
    NAME_SIZE = 255, /* NCCL's buffers, which cut what is longer */
    ERROR_SIZE = 256,
};

enum status { FAILED = -1, READY, LOADED };

struct mock_nccl {
    const struct mock_version *version;
    char *plugin; /* NCCL_TUNER_PLUGIN, or NULL */
    char *algo;   /* NCCL_ALGO, or NULL */
    char *proto;  /* NCCL_PROTO, or NULL */
    const void *static_tuner;
    int static_tuner_version;

    pthread_mutex_t lock; /* holds everything below */
    enum status status;   /* FAILED stays for the rest of the process */
    int n_refs;
    void *library;
    struct mock_tuner tuner;
    bool wrapped[MOCK_NEWEST_TUNER + 1]; /* wrappers outlive their library */
};

const struct mock_version *mock_nccl_version(const struct mock_nccl *nccl)
{
    return nccl->version;
}

const char *mock_nccl_algo(const struct mock_nccl *nccl)
{
    return nccl->algo;
}

const char *mock_nccl_proto(const struct mock_nccl *nccl)
{
    return nccl->proto;
}

/* ---- life ---- */

static const struct mock_version *find_version(const char *text)
{
    int minor = DEFAULT_MINOR;
    int len = 0;

    if (text != NULL && (sscanf(text, "2.%2d%n", &minor, &len) != 1 ||
                         (text[len] != '\0' && text[len] != '.')))
        return NULL;
    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
        if (versions[i].minor == minor)
            return &versions[i];
    return NULL;
}

static ncclResult_t check(const struct mock_nccl_options *options)
{
    if (find_version(options->version) == NULL)
        return mock_fail(ncclInvalidArgument,
                         "NCCL version '%s' is none of 2.21 to 2.30",
                         options->version);
    if (options->static_tuner != NULL &&
        (options->static_tuner_version < MOCK_OLDEST_TUNER ||
         options->static_tuner_version > MOCK_NEWEST_TUNER))
        return mock_fail(ncclInvalidArgument,
                         "tuner version %d is none of "
                         "2 to 6",
                         options->static_tuner_version);
    return ncclSuccess;
}

/* A copy, to be freed; NULL for NULL. */
static ncclResult_t copy(const char *text, char **copy_ret)
{
    if (text == NULL)
        return ncclSuccess;
    *copy_ret = strdup(text);
    return *copy_ret != NULL ? ncclSuccess : mock_fail_memory();
}

static ncclResult_t copy_variables(struct mock_nccl *nccl,
                                   const struct mock_nccl_options *options)
{
    ncclResult_t rc = copy(options->tuner_plugin, &nccl->plugin);

    if (rc == ncclSuccess)
        rc = copy(options->algo, &nccl->algo);
    if (rc == ncclSuccess)
        rc = copy(options->proto, &nccl->proto);
    return rc;
}

static void free_nccl(struct mock_nccl *nccl)
{
    free(nccl->plugin);
    free(nccl->algo);
    free(nccl->proto);
    free(nccl);
}

ncclResult_t mock_nccl_create(const struct mock_nccl_options *options,
                              struct mock_nccl **nccl_ret)
{
    struct mock_nccl *nccl;
    ncclResult_t rc = check(options);

    if (rc != ncclSuccess)
        return rc;
    nccl = calloc(1, sizeof(*nccl));
    if (nccl == NULL)
        return mock_fail_memory();
    rc = copy_variables(nccl, options);
    if (rc != ncclSuccess) {
        free_nccl(nccl);
        return rc;
    }
    nccl->version = find_version(options->version);
    nccl->static_tuner = options->static_tuner;
    nccl->static_tuner_version = options->static_tuner_version;
    pthread_mutex_init(&nccl->lock, NULL);
    *nccl_ret = nccl;
    return ncclSuccess;
}

void mock_nccl_destroy(struct mock_nccl *nccl)
{
    if (nccl == NULL)
        return;
    if (nccl->library != NULL) /* as when the process ends */
        dlclose(nccl->library);
    pthread_mutex_destroy(&nccl->lock);
    free_nccl(nccl);
}

/* ---- opening ---- */

/* Names that were not found, each after a space. */
struct missing {
    char names[2 * NAME_SIZE + 2];
};

/* Any beginning of this word, in any case, is the program itself. */
static const char *library_of(const char *name)
{
    return strncasecmp(name, "STATIC_PLUGIN", strlen(name)) == 0 ? NULL : name;
}

static void *try_open(const char *name, struct missing *missing)
{
    void *library = dlopen(library_of(name), RTLD_NOW | RTLD_LOCAL);
    char why[ERROR_SIZE];
    size_t used = strlen(missing->names);

    if (library != NULL)
        return library;
    snprintf(why, sizeof(why), "%s", dlerror());
    if (strstr(why, name) != NULL &&
        strstr(why, "No such file or directory") != NULL)
        snprintf(missing->names + used, sizeof(missing->names) - used, " %s",
                 name);
    else
        MOCK_INFO(LOADER_FLAGS, "TUNER/Plugin: %s: %s", name, why);
    return NULL;
}

/* A word such as "steptune", rather than a path or a file's name. */
static bool is_short_name(const char *value)
{
    size_t len = strlen(value);

    if (len == 0 || strchr(value, '/') != NULL)
        return false;
    return strncmp(value, "lib", 3) != 0 || strcmp(value + len - 3, ".so") != 0;
}

static void *open_library(const char *value)
{
    struct missing missing = {""};
    char name[NAME_SIZE];
    void *library;

    snprintf(name, sizeof(name), "%s",
             value != NULL && *value != '\0' ? value : "libnccl-tuner.so");
    library = try_open(name, &missing);
    if (library == NULL && value != NULL && is_short_name(value)) {
        snprintf(name, sizeof(name), "libnccl-tuner-%s.so", value);
        library = try_open(name, &missing);
    }
    if (library == NULL && missing.names[0] != '\0')
        MOCK_INFO(LOADER_FLAGS, "TUNER/Plugin: Could not find:%s",
                  missing.names);
    return library;
}

static void set_tuner(struct mock_nccl *nccl, int version, const void *symbol)
{
    nccl->tuner.version = version;
    nccl->tuner.symbol = symbol;
    atomic_store(&nccl->tuner.has_finalize,
                 version == nccl->version->newest_tuner ||
                     nccl->wrapped[version]);
    MOCK_INFO(LOADER_FLAGS, "TUNER/Plugin: Using %s (v%d)",
              mock_tuner_name(&nccl->tuner), version);
}

static bool find_tuner(struct mock_nccl *nccl)
{
    for (int v = nccl->version->newest_tuner; v >= MOCK_OLDEST_TUNER; v--) {
        char name[32];
        const void *symbol;

        snprintf(name, sizeof(name), "ncclTunerPlugin_v%d", v);
        symbol = nccl->static_tuner_version == v ? nccl->static_tuner : NULL;
        if (nccl->library != NULL)
            symbol = dlsym(nccl->library, name);
        if (symbol != NULL) {
            set_tuner(nccl, v, symbol);
            return true;
        }
    }
    return false;
}

static const char *path_of(void *library)
{
    struct link_map *map;

    if (library == NULL || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
        return "";
    return map->l_name;
}

static bool open_tuner(struct mock_nccl *nccl)
{
    if (nccl->static_tuner != NULL)
        return true;
    if (nccl->plugin != NULL) {
        MOCK_INFO(NCCL_ENV | NCCL_TUNING,
                  "NCCL_TUNER_PLUGIN set by environment to %s", nccl->plugin);
        if (nccl->version->knows_none && strcasecmp(nccl->plugin, "none") == 0)
            return false;
    }
    nccl->library = open_library(nccl->plugin);
    return nccl->library != NULL;
}

static void close_library(struct mock_nccl *nccl)
{
    if (nccl->library != NULL)
        dlclose(nccl->library);
    nccl->library = NULL;
}

static bool load(struct mock_nccl *nccl)
{
    const char *path;

    if (!open_tuner(nccl))
        return false;
    path = path_of(nccl->library);
    if (find_tuner(nccl)) {
        MOCK_INFO(LOADER_FLAGS, "Successfully loaded external tuner plugin %s",
                  path);
        return true;
    }
    MOCK_INFO(LOADER_FLAGS, "External tuner plugin %s is unsupported", path);
    close_library(nccl);
    return false;
}

/* ---- counting ---- */

/*
 * NCCL counts every communicator but lets only the one that loaded the tuner
 * subtract.  So once two have been alive together, the library stays.
 */
struct mock_tuner *mock_loader_acquire(struct mock_nccl *nccl, bool *owner_ret)
{
    struct mock_tuner *tuner = NULL;

    *owner_ret = false;
    pthread_mutex_lock(&nccl->lock);
    if (nccl->status == READY) {
        nccl->status = load(nccl) ? LOADED : FAILED;
        *owner_ret = nccl->status == LOADED;
    }
    if (nccl->status == LOADED) {
        nccl->n_refs++;
        tuner = &nccl->tuner;
    }
    pthread_mutex_unlock(&nccl->lock);
    return tuner;
}

void mock_loader_release(struct mock_nccl *nccl, bool owner)
{
    pthread_mutex_lock(&nccl->lock);
    if (owner && --nccl->n_refs == 0) {
        MOCK_INFO(nccl->version->closing_flags,
                  "TUNER/Plugin: Closing tuner: '%s'",
                  mock_tuner_name(&nccl->tuner));
        nccl->wrapped[nccl->tuner.version] =
            atomic_load(&nccl->tuner.has_finalize);
        close_library(nccl);
        nccl->status = READY;
    }
    pthread_mutex_unlock(&nccl->lock);
}
