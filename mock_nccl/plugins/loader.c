#include "plugins/loader.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/cost_model.h"
#include "plugins/plugin_open.h"

enum { ERROR_SIZE = 256 }; /* NCCL's buffer, which cuts longer texts */

/* ---- life ---- */

static ncclResult_t loader_check(const struct mock_nccl_options *options)
{
    if (mock_version_find(options->version) == NULL)
        return mock_fail(ncclInvalidArgument,
                         "NCCL version '%s' is none of " MOCK_VERSIONS,
                         options->version);
    if (options->static_tuner != NULL &&
        (options->static_tuner_version < MOCK_OLDEST_TUNER ||
         options->static_tuner_version > MOCK_NEWEST_TUNER))
        return mock_fail(ncclInvalidArgument,
                         "tuner version %d is none of "
                         "2 to 7",
                         options->static_tuner_version);
    return ncclSuccess;
}

/* Replaces the texts of the options by copies. */
static ncclResult_t loader_copy_texts(struct mock_nccl_options *o)
{
    const char **texts[] = {&o->tuner_plugin, &o->net_plugin, &o->algo,
                            &o->proto};
    ncclResult_t rc = ncclSuccess;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char *copy = NULL;

        if (rc == ncclSuccess)
            rc = mock_copy_text(*texts[i], &copy);
        *texts[i] = copy;
    }
    return rc;
}

static void loader_free_nccl(struct mock_nccl *nccl)
{
    mock_profiler_destroy(nccl->profiler);
    free((char *)nccl->options.tuner_plugin);
    free((char *)nccl->options.net_plugin);
    free((char *)nccl->options.algo);
    free((char *)nccl->options.proto);
    free(nccl);
}

ncclResult_t mock_nccl_create(const struct mock_nccl_options *options,
                              struct mock_nccl **nccl_ret)
{
    struct mock_nccl *nccl;
    ncclResult_t rc = loader_check(options);

    if (rc != ncclSuccess)
        return rc;
    nccl = calloc(1, sizeof(*nccl));
    if (nccl == NULL)
        return mock_fail_memory();
    nccl->options = *options;
    nccl->version = mock_version_find(options->version);
    rc = loader_copy_texts(&nccl->options);
    if (rc == ncclSuccess)
        rc = mock_profiler_create(nccl->version, options->profiler_plugin,
                                  options->net_plugin, &nccl->profiler);
    if (rc != ncclSuccess) {
        loader_free_nccl(nccl);
        return rc;
    }
    pthread_mutex_init(&nccl->lock, NULL);
    *nccl_ret = nccl;
    return ncclSuccess;
}

void mock_nccl_destroy(struct mock_nccl *nccl)
{
    if (nccl == NULL)
        return;
    if (nccl->library != NULL) /* as at the end of the process */
        dlclose(nccl->library);
    if (nccl->net_library != NULL)
        dlclose(nccl->net_library);
    pthread_mutex_destroy(&nccl->lock);
    loader_free_nccl(nccl);
}

/* ---- opening ---- */

/* The net plugin, which NCCL has opened already. */
static void *loader_open_net(struct mock_nccl *nccl)
{
    const struct mock_loader_rules *rules = &nccl->version->loader;

    if (rules->net == MOCK_NET_BY_NAME || nccl->options.net_plugin == NULL ||
        *nccl->options.net_plugin == '\0')
        return NULL;
    if (rules->net == MOCK_NET_AGAIN && nccl->net_library == NULL)
        nccl->net_library =
            mock_plugin_open_net(rules, nccl->options.net_plugin);
    return mock_plugin_open_net(rules, nccl->options.net_plugin);
}

/* False if no library opens. */
static bool loader_open_library(struct mock_nccl *nccl, bool *is_net_ret)
{
    *is_net_ret = false;
    if (nccl->options.static_tuner != NULL)
        return true;
    if (mock_plugin_open(&nccl->version->loader, nccl->options.tuner_plugin,
                         nccl->options.net_plugin, &nccl->library) &&
        nccl->library == NULL) {
        nccl->library = loader_open_net(nccl);
        *is_net_ret = true;
    }
    return nccl->library != NULL;
}

static void loader_close_library(struct mock_nccl *nccl)
{
    if (nccl->library != NULL)
        dlclose(nccl->library);
    nccl->library = NULL;
}

static void loader_set_tuner(struct mock_nccl *nccl, int version,
                             const void *symbol)
{
    nccl->tuner.version = version;
    nccl->tuner.symbol = symbol;
    atomic_store(&nccl->tuner.has_finalize,
                 version == nccl->version->newest_tuner ||
                     nccl->wrapped[version]);
}

/* NCCL's wrapper of dlsym logs failures, but its newest shim does not use it.
 */
static const void *loader_look_up(const struct mock_nccl *nccl, int version,
                                  const char *symbol)
{
    const void *found;
    char why[ERROR_SIZE];
    struct mock_line_words words = {.name = symbol, .why = why};

    if (nccl->library == NULL)
        return nccl->options.static_tuner_version == version
                   ? nccl->options.static_tuner
                   : NULL;
    found = dlsym(nccl->library, symbol);
    if (found == NULL && version != nccl->version->newest_tuner) {
        snprintf(why, sizeof(why), "%s", dlerror());
        mock_log_line(&nccl->version->loader, MOCK_LINE_DLSYM, &words);
    }
    return found;
}

static bool loader_find_tuner(struct mock_nccl *nccl)
{
    const struct mock_loader_rules *rules = &nccl->version->loader;

    for (int v = nccl->version->newest_tuner; v >= MOCK_OLDEST_TUNER; v--) {
        char symbol[32];
        struct mock_line_words words = {.name = symbol, .version = v};
        const void *found;

        snprintf(symbol, sizeof(symbol), "ncclTunerPlugin_v%d", v);
        found = loader_look_up(nccl, v, symbol);
        if (found != NULL) {
            loader_set_tuner(nccl, v, found);
            words.name = mock_tuner_name(&nccl->tuner);
            mock_log_line(rules, MOCK_LINE_USING, &words);
            return true;
        }
        mock_log_line(rules,
                      v > MOCK_OLDEST_TUNER ? MOCK_LINE_NO_SYMBOL
                                            : MOCK_LINE_NO_TUNER,
                      &words);
    }
    return false;
}

static bool loader_load(struct mock_nccl *nccl)
{
    const struct mock_loader_rules *rules = &nccl->version->loader;
    struct mock_line_words words = {0};
    bool is_net;
    bool found;

    if (!loader_open_library(nccl, &is_net))
        return false;
    words.name = mock_plugin_path(nccl->library);
    found = loader_find_tuner(nccl);
    if (!is_net)
        mock_log_line(rules, found ? MOCK_LINE_LOADED : MOCK_LINE_UNSUPPORTED,
                      &words);
    if (!found && !rules->keeps_unsupported)
        loader_close_library(nccl);
    return found;
}

/* ---- counting ---- */

/*
 * NCCL counts every communicator, but from 2.22 on only the communicator that
 * loaded the tuner decrements the count. So the library stays loaded once two
 * communicators have existed at the same time. 2.21 counts correctly, but does
 * not reload a tuner that it has closed.
 */
struct mock_tuner *mock_loader_acquire(struct mock_nccl *nccl, bool *owner_ret)
{
    struct mock_tuner *tuner = NULL;

    *owner_ret = false;
    pthread_mutex_lock(&nccl->lock);
    if (nccl->status == MOCK_TUNER_READY) {
        nccl->status =
            loader_load(nccl) ? MOCK_TUNER_LOADED : MOCK_TUNER_FAILED;
        *owner_ret = nccl->status == MOCK_TUNER_LOADED;
    }
    if (nccl->status == MOCK_TUNER_LOADED && nccl->tuner.symbol != NULL) {
        *owner_ret = *owner_ret || nccl->version->loader.counts_all;
        nccl->n_refs++;
        tuner = &nccl->tuner;
    }
    pthread_mutex_unlock(&nccl->lock);
    return tuner;
}

static void loader_close_tuner(struct mock_nccl *nccl)
{
    const struct mock_loader_rules *rules = &nccl->version->loader;
    struct mock_line_words words = {.name = mock_tuner_name(&nccl->tuner)};

    mock_log_line(rules, MOCK_LINE_CLOSING, &words);
    nccl->wrapped[nccl->tuner.version] = atomic_load(&nccl->tuner.has_finalize);
    loader_close_library(nccl);
    nccl->tuner.symbol = NULL;
    if (!rules->counts_all)
        nccl->status = MOCK_TUNER_READY;
}

void mock_loader_release(struct mock_nccl *nccl, bool owner)
{
    pthread_mutex_lock(&nccl->lock);
    if (owner && --nccl->n_refs == 0)
        loader_close_tuner(nccl);
    pthread_mutex_unlock(&nccl->lock);
}

int mock_nccl_find_tuner(struct mock_nccl *nccl, char *name_ret, size_t size)
{
    bool owner;
    const struct mock_tuner *tuner = mock_loader_acquire(nccl, &owner);
    int version = tuner != NULL ? tuner->version : 0;

    if (tuner != NULL) {
        snprintf(name_ret, size, "%s", mock_tuner_name(tuner));
        mock_loader_release(nccl, owner);
    }
    return version;
}
