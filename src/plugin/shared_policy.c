#include "plugin/shared_policy.h"

#include <stdlib.h>
#include <string.h>

#include "agree/process_lock.h"
#include "plugin/file.h"

/* A file, read once. */
struct file {
    struct file *next;
    struct stp_policy *policy;
    size_t n_users; /* of struct stp_shared_policy */
    char path[];
};

/* That file for communicators of one shape. */
struct stp_shared_policy {
    struct stp_shared_policy *next;
    struct file *file;
    struct stp_compiled *compiled;
    size_t n_users; /* communicators */
    size_t n_ranks;
    size_t n_nodes;
    char gpu[]; /* "" if unknown */
};

static struct {
    struct stp_process_lock lock;
    struct file *files;
    struct stp_shared_policy *shared;
} process;

static void policy_lock(void)
{
    if (stp_process_lock(&process.lock)) {
        process.files = NULL;
        process.shared = NULL;
    }
}

/* Reads the file unless a communicator that lives has read it. */
static enum stp_status policy_get_file(const char *path, struct file **file_ret,
                                       struct stp_error *err)
{
    const size_t size = strlen(path) + 1;
    struct file *f = process.files;
    enum stp_status status;

    while (f != NULL && strcmp(f->path, path) != 0)
        f = f->next;
    if (f == NULL) {
        f = calloc(1, sizeof(*f) + size);
        if (f == NULL)
            return stp_nomem(err);
        memcpy(f->path, path, size);
        status =
            stp_file_load_policy(STP_POLICY_OF_ARMS, path, &f->policy, err);
        if (status != STP_OK) {
            free(f);
            return status;
        }
        f->next = process.files;
        process.files = f;
    }
    *file_ret = f;
    return STP_OK;
}

static void policy_drop_unused_file(struct file *file)
{
    struct file **p = &process.files;

    if (file->n_users > 0)
        return;
    while (*p != file)
        p = &(*p)->next;
    *p = file->next;
    stp_policy_free(file->policy);
    free(file);
}

static enum stp_status
policy_share(struct file *file, const struct stp_shape *shape, const char *gpu,
             struct stp_shared_policy **shared_ret, struct stp_error *err)
{
    const size_t size = strlen(gpu) + 1;
    struct stp_shared_policy *s = calloc(1, sizeof(*s) + size);
    enum stp_status status;

    if (s == NULL)
        return stp_nomem(err);
    status = stp_policy_compile(file->policy, shape, &s->compiled, err);
    if (status != STP_OK) {
        free(s);
        return status;
    }
    memcpy(s->gpu, gpu, size);
    s->n_ranks = shape->n_ranks;
    s->n_nodes = shape->n_nodes;
    s->file = file;
    file->n_users++;
    s->next = process.shared;
    process.shared = s;
    *shared_ret = s;
    return STP_OK;
}

enum stp_status stp_shared_policy_acquire(const char *path,
                                          const struct stp_shape *shape,
                                          struct stp_shared_policy **shared_ret,
                                          struct stp_error *err)
{
    const char *gpu = shape->gpu != NULL ? shape->gpu : "";
    struct stp_shared_policy *s;
    struct file *file = NULL;
    enum stp_status status = STP_OK;

    policy_lock();
    s = process.shared;
    while (s != NULL &&
           (s->n_ranks != shape->n_ranks || s->n_nodes != shape->n_nodes ||
            strcmp(s->gpu, gpu) != 0 || strcmp(s->file->path, path) != 0))
        s = s->next;
    if (s == NULL) {
        status = policy_get_file(path, &file, err);
        STP_THEN(status, policy_share(file, shape, gpu, &s, err));
        if (file != NULL)
            policy_drop_unused_file(file);
    }
    if (status == STP_OK) {
        s->n_users++;
        *shared_ret = s;
    }
    pthread_mutex_unlock(&process.lock.mutex);
    return status;
}

void stp_shared_policy_release(struct stp_shared_policy *shared)
{
    struct stp_shared_policy **p = &process.shared;

    policy_lock();
    if (--shared->n_users == 0) {
        while (*p != shared)
            p = &(*p)->next;
        *p = shared->next;
        shared->file->n_users--;
        policy_drop_unused_file(shared->file);
        stp_compiled_free(shared->compiled);
        free(shared);
    }
    pthread_mutex_unlock(&process.lock.mutex);
}

const struct stp_compiled *
stp_shared_policy_compiled(const struct stp_shared_policy *shared)
{
    return shared->compiled;
}

const char *stp_shared_policy_path(const struct stp_shared_policy *shared)
{
    return shared->file->path;
}

const struct stp_policy *
stp_shared_policy_rules(const struct stp_shared_policy *shared)
{
    return shared->file->policy;
}
