/*
 * page_find.h - which files a page is made from
 */
#ifndef STP_PAGE_FIND_H
#define STP_PAGE_FIND_H

#include <stddef.h>

#include "report/page/page.h"

enum { STP_PAGE_PATH = 4096 };

/* Must not be moved. */
struct stp_page_found {
    char path[STP_PAGE_N_SOURCES][STP_PAGE_PATH]; /* "": none */
    struct stp_page_sources sources;              /* the same */
};

/*
 * Sorts the 'n' files and folders at 'paths' by content: measurements, or else
 * policies; a folder is one that `steptune tune` or `steptune iterate -o`
 * wrote.  Then adds what lies beside the policy STEM.conf and is not there yet:
 * STEM.sweep.csv, STEM.verify.csv, STEM.iterations.csv, STEM.conf.overlap,
 * STEM.conf.memory and STEM.overlap-verify.csv.
 *
 * STP_ERR_SYNTAX if a file is neither, two are of one kind, or a folder has
 * nothing or several policies; STP_ERR_IO or STP_ERR_NOMEM.  The text of *err
 * names the file.
 */
enum stp_status stp_page_find(const char *const *paths, size_t n,
                              struct stp_page_found *found_ret,
                              struct stp_error *err);

#endif /* STP_PAGE_FIND_H */
