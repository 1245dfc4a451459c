#include "plugin/ledger_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plugin/file.h"
#include "plugin/settings.h"

static enum stp_status ledger_fail(const char *action, const char *dir,
                                   struct stp_error *err)
{
    return stp_fail(err, STP_ERR_IO, "cannot %s a file in '%.100s': %s", action,
                    dir, strerror(errno));
}

enum stp_status stp_ledger_open(const char *dir, struct stp_ledger **ledger_ret,
                                struct stp_error *err)
{
    char path[STP_PATH_SIZE];
    const size_t n =
        (size_t)snprintf(path, sizeof(path), "%s/ledger.XXXXXX", dir);
    enum stp_status status = STP_OK;
    void *memory;
    int fd;

    if (n >= sizeof(path))
        return stp_fail(err, STP_ERR_IO, "the path '%.60s...' is too long",
                        dir);
    fd = stp_file_create(path);
    if (fd < 0)
        return ledger_fail("make", dir, err);
    /* Allocates the whole file before it is mapped, so that a full disk fails
     * here, and not with a signal later. */
    errno = posix_fallocate(fd, 0, sizeof(struct stp_ledger));
    if (errno != 0)
        status = ledger_fail("make room for", dir, err);
    else {
        memory = mmap(NULL, sizeof(struct stp_ledger), PROT_READ | PROT_WRITE,
                      MAP_SHARED, fd, 0);
        if (memory == MAP_FAILED)
            status = ledger_fail("map", dir, err);
        else
            *ledger_ret = memory;
    }
    if (status != STP_OK)
        unlink(path);
    close(fd);
    return status;
}

void stp_ledger_close(struct stp_ledger *ledger)
{
    if (ledger != NULL)
        munmap(ledger, sizeof(*ledger));
}
