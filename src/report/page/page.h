/*
 * page.h - one HTML page that says what a policy is worth
 *
 * All it shows is in the files it is made from, so that anybody can make it
 * again: the same files give the same bytes.  It is one file that asks nothing
 * of a network, and holds no path and no date.
 */
#ifndef STP_PAGE_H
#define STP_PAGE_H

#include <stdio.h>

#include "core/status.h"

/* Paths of files; each may be NULL, but not all measurements. */
struct stp_page_sources {
    const char *policy;
    const char *overlap_policy; /* for steps that overlap compute */
    const char *sweep;          /* measurements: collectives alone, all arms */
    const char *verify;         /* AUTO and the policy in the plugin */
    const char *iterations;     /* training iterations: rounds.csv */
    const char *overlap_verify; /* iterations of AUTO and the overlap policy */
    const char *title;          /* of the page; NULL: a usual one */
};

/*
 * Writes the page to the file 'path', whole or not at all, and its one-sentence
 * summary and a newline to 'said' unless that is NULL.  STP_ERR_RANGE without
 * measurements; what reading or comparing fails with, and the text of *err
 * names the file then; STP_ERR_IO or STP_ERR_NOMEM.
 */
enum stp_status stp_page_save_and_say(const struct stp_page_sources *sources,
                                      const char *path, FILE *said,
                                      struct stp_error *err);

/* The same, and says nothing. */
enum stp_status stp_page_save(const struct stp_page_sources *sources,
                              const char *path, struct stp_error *err);

/* Like stp_page_save_and_say(), but says the figures of the summary, as one
 * JSON object. */
enum stp_status
stp_page_save_and_say_json(const struct stp_page_sources *sources,
                           const char *path, FILE *said, struct stp_error *err);

#endif /* STP_PAGE_H */
