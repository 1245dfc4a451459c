/* store_engine.c - what engines share, and the library that has one */
#define _GNU_SOURCE /* dladdr() */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/clock.h"
#include "store/old_dl.h"
#include "store/store_client.h"

enum {
    NAP_MAX_MS = 50,
    NAP_LONG_MS = 250, /* where it may take long */
    LONG_MS = 3600000,
};

bool stp_client_fail(struct stp_client *client)
{
    snprintf(client->why, sizeof(client->why), "the store does not answer: %s",
             strerror(errno));
    return false;
}

bool stp_client_nap(struct stp_client *client, unsigned *ms)
{
    const int64_t left_ms = client->deadline_ms - stp_now_ms();
    const unsigned max_ms = left_ms > LONG_MS ? NAP_LONG_MS : NAP_MAX_MS;
    struct pollfd polled = {.fd = client->wake_fd, .events = POLLIN};

    errno = ETIMEDOUT;
    if (left_ms <= 0)
        return stp_client_fail(client);
    if (poll(&polled, 1, left_ms < *ms ? (int)left_ms : (int)*ms) > 0) {
        errno = ECANCELED;
        return stp_client_fail(client);
    }
    *ms = *ms < max_ms / 2 ? *ms * 2 : max_ms;
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
    memcpy(slash + 1, STP_STORE_REDIS_LIBRARY, sizeof(STP_STORE_REDIS_LIBRARY));
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
