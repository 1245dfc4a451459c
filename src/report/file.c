#include "report/file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/text.h"
#include "launch/stop.h"

static const char temporary_suffix[] = ".XXXXXX";

static void file_release(struct stp_file *file)
{
    free(file->path);
    free(file->temporary);
    memset(file, 0, sizeof(*file));
}

enum stp_status stp_cannot(struct stp_error *err, const char *verb,
                           const char *path)
{
    return stp_fail(err, STP_ERR_IO, "cannot %s '%.160s': %s", verb, path,
                    strerror(errno));
}

enum stp_status stp_file_flush(FILE *fp, const char *name,
                               struct stp_error *err)
{
    const bool is_lost = ferror(fp) != 0; /* for a reason that is forgotten */

    errno = 0;
    if (fflush(fp) == 0 && !is_lost)
        return STP_OK;
    return stp_fail(err, STP_ERR_IO, "cannot write %.160s: %s", name,
                    errno != 0 ? strerror(errno)
                               : "a part of the output is lost");
}

static void file_close(struct stp_file *file, bool is_renamed)
{
    if (file->path != NULL)
        fclose(file->fp);
    if (file->temporary != NULL) {
        if (!is_renamed)
            unlink(file->temporary);
        stp_stop_forget_file(file->temporary);
    }
    file_release(file);
}

bool stp_file_is_special(const char *path)
{
    struct stat st;

    return strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0 ||
           (stat(path, &st) == 0 && !S_ISREG(st.st_mode) &&
            !S_ISDIR(st.st_mode));
}

static FILE *file_open_beside(const char *path, char *temporary)
{
    FILE *fp;
    int fd;

    strcpy(temporary, path);
    strcat(temporary, temporary_suffix);
    fd = mkstemp(temporary);
    if (fd < 0)
        return NULL;
    stp_stop_remember_file(temporary);

    /* mkstemp() makes files that only their owner may read. */
    mode_t mask = umask(0);

    umask(mask);
    fchmod(fd, 0666 & ~mask);

    fp = fdopen(fd, "w");
    if (fp == NULL) {
        close(fd);
        unlink(temporary);
        stp_stop_forget_file(temporary);
        errno = ENOMEM;
    }
    return fp;
}

enum stp_status stp_file_begin(const char *path, struct stp_file *file_ret,
                               struct stp_error *err)
{
    size_t len = path != NULL ? strlen(path) : 0;
    struct stp_file f = {.fp = stdout};

    if (path == NULL) {
        *file_ret = f;
        return STP_OK;
    }
    f.path = malloc(len + 1);
    f.temporary = malloc(len + sizeof(temporary_suffix));
    if (f.path == NULL || f.temporary == NULL) {
        file_release(&f);
        return stp_nomem(err);
    }
    memcpy(f.path, path, len + 1);
    if (stp_file_is_special(path)) {
        free(f.temporary);
        f.temporary = NULL;
        f.fp = fopen(path, "w");
    } else {
        f.fp = file_open_beside(path, f.temporary);
    }
    if (f.fp == NULL) {
        stp_cannot(err, "write", path);
        file_release(&f);
        return STP_ERR_IO;
    }
    *file_ret = f;
    return STP_OK;
}

enum stp_status stp_file_commit(struct stp_file *file, struct stp_error *err)
{
    char name[192];
    enum stp_status status;

    if (file->path != NULL)
        snprintf(name, sizeof(name), "'%.160s'", file->path);
    else
        snprintf(name, sizeof(name), "to standard output");
    status = stp_file_flush(file->fp, name, err);
    if (status == STP_OK && file->temporary != NULL &&
        ((fsync(fileno(file->fp)) != 0 && errno != EINVAL) ||
         rename(file->temporary, file->path) != 0))
        status = stp_cannot(err, "write", file->path);
    file_close(file, status == STP_OK);
    return status;
}

enum stp_status stp_file_end(struct stp_file *file, enum stp_status status,
                             struct stp_error *err)
{
    if (status == STP_OK)
        return stp_file_commit(file, err);
    file_close(file, false);
    return status;
}

enum stp_status stp_file_save(const char *path, const char *text, size_t len,
                              struct stp_error *err)
{
    struct stp_file file;
    enum stp_status status = STP_OK;

    STP_TRY(stp_file_begin(path, &file, err));
    if (fwrite(text, 1, len, file.fp) != len)
        status = stp_cannot(err, "write", path);
    return stp_file_end(&file, status, err);
}

int stp_file_keep(const char *path, const char *kept)
{
    struct stp_error unsaid;
    char *text;
    size_t len;
    int result = link(path, kept);

    if (result == 0 || (errno != EPERM && errno != EOPNOTSUPP))
        return result;
    if (stp_read_file(path, SIZE_MAX - 1, &text, &len, &unsaid) != STP_OK)
        return -1;
    if (stp_file_save(kept, text, len, &unsaid) == STP_OK)
        result = 0;
    free(text);
    return result;
}
