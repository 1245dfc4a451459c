#include "core/trust.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

enum { ROOT = 0, OTHERS_ACCESS = S_IRWXG | S_IRWXO };

/* Whether another user may have put there what is in the folder. */
static bool trust_is_open(const struct stp_file_facts *folder)
{
    return (folder->mode & S_IWOTH) != 0;
}

static bool trust_is_sticky(const struct stp_file_facts *folder)
{
    return (folder->mode & S_ISVTX) != 0;
}

enum stp_trust stp_trust_file(const struct stp_file_facts *file,
                              const struct stp_file_facts *folder,
                              enum stp_use use, uint32_t euid)
{
    if (S_ISLNK(file->mode)) {
        /* Without the sticky bit anybody may replace a link between two looks
         * at it. */
        if (use >= STP_USE_OWN)
            return STP_TRUST_IS_LINK;
        if (folder == NULL)
            return STP_TRUST_ASK_FOLDER;
        if (trust_is_open(folder) &&
            (!trust_is_sticky(folder) ||
             !(file->uid == euid || file->uid == ROOT)))
            return STP_TRUST_STRANGERS_LINK;
        return STP_TRUSTED;
    }
    if (S_ISDIR(file->mode))
        return STP_TRUST_IS_FOLDER;
    if (!S_ISREG(file->mode))
        return STP_TRUST_IRREGULAR;
    if ((file->mode & S_IWOTH) != 0)
        return STP_TRUST_ALL_WRITE;
    if (use == STP_USE_PRIVATE && (file->mode & OTHERS_ACCESS) != 0)
        return STP_TRUST_NOT_PRIVATE;
    if (file->uid == euid)
        return STP_TRUSTED;
    if (use >= STP_USE_OWN)
        return STP_TRUST_NOT_OWN;
    if (file->uid == ROOT)
        return STP_TRUSTED;
    if (folder == NULL)
        return STP_TRUST_ASK_FOLDER;
    if (trust_is_open(folder) &&
        (use != STP_USE_NAMED || !trust_is_sticky(folder)))
        return STP_TRUST_STRANGERS;
    return STP_TRUSTED;
}

const char *stp_trust_text(enum stp_trust trust)
{
    static const char *const texts[STP_N_TRUSTS] = {
        [STP_TRUSTED] = "it may be used",
        [STP_TRUST_ASK_FOLDER] = "its folder is not known",
        [STP_TRUST_IRREGULAR] =
            "it is a FIFO, a socket or a device, expected a regular file",
        [STP_TRUST_IS_FOLDER] = "it is a directory, expected a regular file",
        [STP_TRUST_IS_LINK] = "it is a symbolic link, expected a regular file",
        [STP_TRUST_STRANGERS_LINK] =
            "it is a symbolic link that another user may have made in a folder "
            "that all users may write, expected a regular file",
        [STP_TRUST_ALL_WRITE] = "all users may write it, expected a file that "
                                "they may not (chmod o-w)",
        [STP_TRUST_STRANGERS] =
            "another user owns it, in a folder that all users may write, "
            "expected a file of this user or of root",
        [STP_TRUST_NOT_OWN] =
            "another user owns it, expected a file of this user",
        [STP_TRUST_NOT_PRIVATE] =
            "other users may open it, expected a file of mode 0600",
    };

    return texts[trust];
}
