/* store_engine.c - what engines share, and the library that has one */
#define _GNU_SOURCE /* dladdr() */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/clock.h"
#include "store/old_dl.h"
#include "store/store_client.h"

enum { NAP_MAX_MS = 50 };

bool stp_client_fail(struct stp_client *client)
{
    snprintf(client->why, sizeof(client->why), "the store does not answer: %s",
             strerror(errno));
    return false;
}

bool stp_client_nap(struct stp_client *client, unsigned *ms)
{
    const int64_t left_ms = client->deadline_ms - stp_now_ms();
    struct timespec nap = {.tv_nsec = *ms * 1000000L};

    errno = ETIMEDOUT;
    if (left_ms <= 0)
        return stp_client_fail(client);
    if (left_ms < *ms)
        nap.tv_nsec = (long)left_ms * 1000000L;
    nanosleep(&nap, NULL);
    *ms = *ms < NAP_MAX_MS / 2 ? *ms * 2 : NAP_MAX_MS;
    return true;
}

/* The library's path beside this code, which may be linked to from elsewhere,
 * if there is a file; to be freed. */
static char *engine_find_beside(void)
{
    char path[PATH_MAX + sizeof(STP_STORE_REDIS_LIBRARY)];
    Dl_info self;
    char *slash;

    if (dladdr(&stp_store_tcp, &self) == 0 ||
        realpath(self.dli_fname, path) == NULL)
        return NULL;
    slash = strrchr(path, '/');
    strcpy(slash + 1, STP_STORE_REDIS_LIBRARY);
    return access(path, F_OK) == 0 ? strdup(path) : NULL;
}

const struct stp_store_ops *stp_store_load_redis(char *why, size_t size)
{
    char *path = engine_find_beside();
    const char *name = path != NULL ? path : STP_STORE_REDIS_LIBRARY;
    const struct stp_store_library *library = NULL;
    void *handle;

    /* It stays: OpenSSL leaves handlers for the end of the process. */
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == NULL) {
        snprintf(why, size, "redis:// needs " STP_STORE_REDIS_LIBRARY ": %s",
                 dlerror());
        free(path);
        return NULL;
    }
    library = dlsym(handle, STP_STORE_REDIS_SYMBOL);
    if (library == NULL || strcmp(library->version, STP_STORE_VERSION) != 0) {
        snprintf(why, size, "%s is of another release of Steptune, expected %s",
                 name, STP_STORE_VERSION);
        library = NULL;
    }
    dlclose(handle);
    free(path);
    return library != NULL ? library->ops : NULL;
}
