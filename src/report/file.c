#include "report/file.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char suffix[] = ".XXXXXX";

/* ---- signals ---- */

enum { FILE_MOST = 8 /* at once */ };

static const int file_signals[] = {SIGHUP, SIGINT, SIGTERM};
static char *_Atomic file_temporaries[FILE_MOST]; /* that exist now */

static void file_replace_temporary(char *old, char *path)
{
    for (size_t i = 0; i < FILE_MOST; i++) {
        char *expected = old;

        if (atomic_compare_exchange_strong(&file_temporaries[i], &expected,
                                           path))
            return;
    }
}

static void file_clean_on_signal(int number)
{
    for (size_t i = 0; i < FILE_MOST; i++) {
        const char *path = atomic_load(&file_temporaries[i]);

        if (path != NULL)
            unlink(path);
    }
    signal(number, SIG_DFL);
    raise(number);
}

void stp_file_clean_on_signals(void)
{
    struct sigaction action = {.sa_handler = file_clean_on_signal};
    struct sigaction before;

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(file_signals) / sizeof(file_signals[0]); i++)
        if (sigaction(file_signals[i], NULL, &before) == 0 &&
            before.sa_handler == SIG_DFL)
            sigaction(file_signals[i], &action, NULL);
}

/* ---- names ---- */

static void release(struct stp_file *file)
{
    if (file->temporary != NULL)
        file_replace_temporary(file->temporary, NULL);
    free(file->path);
    free(file->temporary);
    memset(file, 0, sizeof(*file));
}

static enum stp_status file_cannot(struct stp_error *err, const char *what,
                                   const char *path, int error)
{
    return stp_fail(err, STP_ERR_IO, "cannot %s '%.160s': %s", what, path,
                    strerror(error));
}

/* mkstemp() makes files that only their owner may read. */
static void give_usual_mode(int fd)
{
    mode_t mask = umask(0);

    umask(mask);
    fchmod(fd, 0666 & ~mask);
}

/* A device or a pipe, which must stay what it is: what has another name and
 * takes its place would be a file. */
static bool is_special(const char *path)
{
    struct stat st;

    return strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0 ||
           (stat(path, &st) == 0 && !S_ISREG(st.st_mode) &&
            !S_ISDIR(st.st_mode));
}

/* No signal finds the file without its name. */
static FILE *open_beside(const char *path, char *temporary)
{
    sigset_t all, before;
    int fd;

    strcpy(temporary, path);
    strcat(temporary, suffix);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    fd = mkstemp(temporary);
    if (fd >= 0)
        file_replace_temporary(NULL, temporary);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (fd >= 0)
        give_usual_mode(fd);
    return fd >= 0 ? fdopen(fd, "w") : NULL;
}

enum stp_status stp_file_begin(const char *path, struct stp_file *file_ret,
                               struct stp_error *err)
{
    size_t len = strlen(path);
    struct stp_file f = {.path = malloc(len + 1),
                         .temporary = malloc(len + sizeof(suffix))};

    if (f.path == NULL || f.temporary == NULL) {
        release(&f);
        return stp_nomem(err);
    }
    memcpy(f.path, path, len + 1);
    if (is_special(path)) {
        free(f.temporary);
        f.temporary = NULL;
        f.fp = fopen(path, "w");
    } else {
        f.fp = open_beside(path, f.temporary);
    }
    if (f.fp == NULL) {
        int error = errno;

        release(&f);
        return file_cannot(err, "write", path, error);
    }
    *file_ret = f;
    return STP_OK;
}

enum stp_status stp_file_commit(struct stp_file *file, struct stp_error *err)
{
    enum stp_status status = STP_OK;
    int bad = ferror(file->fp);
    int error;

    errno = 0;
    bad |= fflush(file->fp) != 0;
    error = errno != 0 ? errno : EIO;
    if (bad || (file->temporary != NULL && fsync(fileno(file->fp)) != 0 &&
                errno != EINVAL))
        status = file_cannot(err, "write", file->path, error);
    fclose(file->fp);
    if (status == STP_OK && file->temporary != NULL &&
        rename(file->temporary, file->path) != 0)
        status = file_cannot(err, "write", file->path, errno);
    if (status != STP_OK && file->temporary != NULL)
        unlink(file->temporary);
    release(file);
    return status;
}

void stp_file_abandon(struct stp_file *file)
{
    if (file->fp == NULL)
        return;
    fclose(file->fp);
    if (file->temporary != NULL)
        unlink(file->temporary);
    release(file);
}

enum stp_status stp_file_end(struct stp_file *file, enum stp_status status,
                             struct stp_error *err)
{
    if (status == STP_OK)
        return stp_file_commit(file, err);
    stp_file_abandon(file);
    return status;
}
