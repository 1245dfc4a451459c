/* trust.h - whether a file may be used, by its type, its owner and its folder
 *
 * One rule for all that a job opens; SECURITY.md tells why it is what it is.  A
 * folder that all users may write is one in which another user may have made
 * what is there, or, without the sticky bit, may have replaced it. */
#pragma once

#include <stdint.h>

/* From the least that is asked of a file to the most. */
enum stp_use {
    STP_USE_NAMED,   /* is read, and the user named it */
    STP_USE_FOUND,   /* is written, or has a name that the user did not give */
    STP_USE_OWN,     /* carries words between processes of one user */
    STP_USE_PRIVATE, /* is memory that processes of one user share */
};

enum stp_trust {
    STP_TRUSTED,
    STP_TRUST_ASK_FOLDER, /* it depends on the folder, which was not given */
    STP_TRUST_IRREGULAR,
    STP_TRUST_IS_FOLDER,
    STP_TRUST_IS_LINK,
    STP_TRUST_STRANGERS_LINK,
    STP_TRUST_ALL_WRITE,
    STP_TRUST_STRANGERS,
    STP_TRUST_NOT_OWN,
    STP_TRUST_NOT_PRIVATE,
    STP_N_TRUSTS,
};

struct stp_file_facts {
    uint32_t mode; /* type and permissions, as stat(2) has them */
    uint32_t uid;
};

/* 'euid' is the user that asks.  'folder' is the one in which the file, or the
 * link to it, is found; NULL: not looked at, which most files do without. */
enum stp_trust stp_trust_file(const struct stp_file_facts *file,
                              const struct stp_file_facts *folder,
                              enum stp_use use, uint32_t euid);

/* Why a file is not used, and what was expected: "it is a FIFO, ..." */
const char *stp_trust_text(enum stp_trust trust);
