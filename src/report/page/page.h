/* page.h - one HTML page that says what a policy is worth
 *
 * The page depends on its files alone: the same files give the same bytes.  It
 * is one file that needs no network, and names no path and no date. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "core/status.h"
#include "report/folder.h"

enum stp_page_source {
    STP_PAGE_POLICY,
    STP_PAGE_OVERLAP_POLICY, /* for steps that overlap compute */
    STP_PAGE_MEMORY_POLICY,  /* what to register */
    STP_PAGE_STAGE_POLICY,   /* what to stage */
    STP_PAGE_SWEEP,          /* collectives alone, all arms */
    STP_PAGE_VERIFY,         /* collectives alone, AUTO and the policy */
    STP_PAGE_GRAPH,          /* likewise in CUDA graphs, and staged buffers */
    STP_PAGE_ITERATIONS,     /* training steps, all arms: rounds.csv */
    STP_PAGE_OVERLAP_VERIFY, /* training steps, AUTO and the overlap policy */
    STP_PAGE_N_SOURCES,
};

/* Files by enum stp_page_source: each may be NULL, but not all measurements. */
struct stp_page_sources {
    const char *path[STP_PAGE_N_SOURCES];
    const char *title;                 /* of the page; NULL: the usual one */
    bool is_named[STP_PAGE_N_SOURCES]; /* by the user: refused if it does not
                                          belong to the others, else left out */
};

/* Writes the page to the file 'path', whole or not at all; then its summary to
 * 'said' (NULL: nowhere), as one sentence and a newline, or its figures as one
 * JSON object.
 *
 * The files must be of one run, and verdicts of the policy as it is now.  A
 * file that does not belong, and each arm with wrong elements, is left out, and
 * a sentence on the page and in 'said' says so.  *auto_is_wrong_ret (NULL is
 * allowed) is whether AUTO is such an arm.
 *
 * STP_ERR_RANGE without measurements, or if a file that the user named does not
 * belong; the error of reading or comparing a file, whose name is in the text
 * of *err then; STP_ERR_IO or STP_ERR_NOMEM. */
enum stp_status stp_page_save(const struct stp_page_sources *sources,
                              const char *path, bool as_json, FILE *said,
                              bool *auto_is_wrong_ret, struct stp_error *err);

/* ---- which files a page is made from ---- */

/* Must not be moved. */
struct stp_page_found {
    char path[STP_PAGE_N_SOURCES][STP_FOLDER_PATH]; /* "": none */
    struct stp_page_sources sources;                /* the same */
};

/* Sorts the 'n' files and folders at 'paths' by content: measurements, or else
 * policies; a folder is one that `steptune tune` or `steptune iterate -o`
 * wrote.  Then adds what is not there yet and lies beside the policy STEM.conf,
 * which STEM.conf.stage and the like name, too: STEM.sweep.csv,
 * STEM.verify.csv, STEM.graph.csv, STEM.iterations.csv, STEM.conf.overlap,
 * STEM.conf.memory, STEM.conf.stage and STEM.overlap-verify.csv; or, of a hash
 * that those of the policy lack, STEM.conf.verified.csv.
 *
 * STP_ERR_SYNTAX if a file is neither, two are of one kind, or a folder has
 * nothing or several policies; STP_ERR_IO or STP_ERR_NOMEM.  The text of *err
 * names the file. */
enum stp_status stp_page_find(const char *const *paths, size_t n,
                              struct stp_page_found *found_ret,
                              struct stp_error *err);
