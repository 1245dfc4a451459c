#include "plugins/loader.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/cost_model.h"
#include "plugins/plugin_open.h"

enum { ERROR_SIZE = 256 }; /* NCCL's buffer, which cuts longer texts */

/* ---- life ---- */

enum { N_TEXTS = 5 };

/* The i-th of the texts that are copied. */
static const char **loader_text(struct mock_nccl_options *o, int i)
{
    const char **const texts[N_TEXTS] = {&o->tuner_plugin, &o->profiler_plugin,
                                         &o->net_plugin, &o->algo, &o->proto};

    return texts[i];
}

static void loader_free_nccl(struct mock_nccl *nccl)
{
    mock_profiler_destroy(nccl->profiler);
    for (int i = 0; i < N_TEXTS; i++)
        free((char *)*loader_text(&nccl->options, i));
    free(nccl);
}

static void loader_close_library(struct mock_nccl *nccl)
{
    if (nccl->library != NULL)
        dlclose(nccl->library);
    nccl->library = NULL;
}

ncclResult_t mock_nccl_create(const struct mock_nccl_options *options,
                              struct mock_nccl **nccl_ret)
{
    struct mock_nccl *nccl;
    ncclResult_t rc = ncclSuccess;

    if (mock_version_find(options->version) == NULL)
        return mock_refuse("NCCL version '%s' is none of " MOCK_VERSIONS,
                           options->version);
    if (options->static_tuner != NULL &&
        (options->static_tuner_version < MOCK_OLDEST_TUNER ||
         options->static_tuner_version > MOCK_NEWEST_TUNER))
        return mock_refuse("tuner version %d is none of 2 to 7",
                           options->static_tuner_version);
    nccl = calloc(1, sizeof(*nccl));
    if (nccl == NULL)
        return mock_fail_memory();
    nccl->options = *options;
    nccl->version = mock_version_find(options->version);
    for (int i = 0; i < N_TEXTS; i++) {
        char *text = NULL;

        MOCK_THEN(rc, mock_copy_text(*loader_text(&nccl->options, i), &text));
        *loader_text(&nccl->options, i) = text;
    }
    MOCK_THEN(rc,
              mock_profiler_create(nccl->version, nccl->options.profiler_plugin,
                                   nccl->options.net_plugin, &nccl->profiler));
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
    loader_close_library(nccl); /* as at the end of the process */
    if (nccl->net_library != NULL)
        dlclose(nccl->net_library);
    pthread_mutex_destroy(&nccl->lock);
    loader_free_nccl(nccl);
}

/* ---- opening ---- */

/* Opens the tuner's library, or the net plugin, which NCCL has opened already;
 * false if there is none. */
static bool loader_open_library(struct mock_nccl *nccl, bool *is_net_ret)
{
    const struct mock_loader_rules *rules = &nccl->version->loader;
    const char *path;
    bool searches;

    /* NCCL does so in any case; nobody looks for the default one before. */
    if (nccl->net_library == NULL && nccl->options.net_plugin != NULL)
        nccl->net_library =
            mock_plugin_load_net(nccl->version, nccl->options.net_plugin);
    *is_net_ret = false;
    if (nccl->options.static_tuner != NULL)
        return true;
    searches = mock_plugin_open(rules, nccl->options.tuner_plugin,
                                nccl->options.net_plugin, &nccl->library);
    if (!searches || nccl->library != NULL)
        return nccl->library != NULL;
    *is_net_ret = true;
    if (rules->net == MOCK_NET_BY_NAME)
        return false;
    if (nccl->net_library == NULL)
        nccl->net_library = mock_plugin_load_net(nccl->version, NULL);
    if (nccl->net_library == NULL)
        return false;
    path = mock_plugin_path(nccl->net_library);
    if (rules->net == MOCK_NET_AGAIN) {
        nccl->library =
            dlopen(*path != '\0' ? path : NULL, RTLD_NOW | RTLD_LOCAL);
    } else {
        nccl->library = nccl->net_library;
        nccl->net_library = NULL;
    }
    return nccl->library != NULL;
}

static bool loader_find_tuner(struct mock_nccl *nccl)
{
    const struct mock_loader_rules *rules = &nccl->version->loader;
    const int newest = nccl->options.static_always
                           ? nccl->options.static_tuner_version
                           : nccl->version->newest_tuner;

    for (int v = newest; v >= MOCK_OLDEST_TUNER; v--) {
        char symbol[32];
        char why[ERROR_SIZE];
        struct mock_line_words words = {
            .name = symbol, .why = why, .version = v};
        const void *found = NULL;

        snprintf(symbol, sizeof(symbol), "ncclTunerPlugin_v%d", v);
        if (nccl->library != NULL)
            found = dlsym(nccl->library, symbol);
        else if (nccl->options.static_tuner_version == v)
            found = nccl->options.static_tuner;
        /* NCCL's wrapper of dlsym logs failures; its newest shim uses none */
        if (nccl->library != NULL && found == NULL &&
            v != nccl->version->newest_tuner) {
            snprintf(why, sizeof(why), "%s", dlerror());
            mock_log_line(rules, MOCK_LINE_DLSYM, &words);
        }
        if (found != NULL) {
            nccl->tuner.version = v;
            nccl->tuner.symbol = found;
            mock_tuner_set_finalize(&nccl->tuner,
                                    v == nccl->version->newest_tuner ||
                                        nccl->wrapped[v]);
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
    bool is_net;
    bool found;

    if (!loader_open_library(nccl, &is_net))
        return false;
    found = loader_find_tuner(nccl);
    if (!is_net)
        MOCK_LOG_LINE(rules, found ? MOCK_LINE_LOADED : MOCK_LINE_UNSUPPORTED,
                      .name = mock_plugin_path(nccl->library));
    if (!found && !rules->keeps_unsupported)
        loader_close_library(nccl);
    return found;
}

/* ---- counting ---- */

/* NCCL counts every communicator, but from 2.22 on only the communicator that
 * loaded the tuner decrements the count. So the library stays loaded once two
 * communicators have existed at the same time. 2.21 counts correctly, but does
 * not reload a tuner that it has closed. */
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

void mock_loader_release(struct mock_nccl *nccl, bool owner)
{
    const struct mock_loader_rules *rules = &nccl->version->loader;
    struct mock_tuner *tuner = &nccl->tuner;

    pthread_mutex_lock(&nccl->lock);
    if (owner && --nccl->n_refs == 0) {
        MOCK_LOG_LINE(rules, MOCK_LINE_CLOSING, .name = mock_tuner_name(tuner));
        nccl->wrapped[tuner->version] = mock_tuner_has_finalize(tuner);
        loader_close_library(nccl);
        tuner->symbol = NULL;
        if (!rules->counts_all)
            nccl->status = MOCK_TUNER_READY;
    }
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
