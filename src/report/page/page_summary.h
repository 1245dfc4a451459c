/*
 * page_summary.h - the figures of a page, the sentences that state them, and
 * the values of its template
 */
#ifndef STP_PAGE_SUMMARY_H
#define STP_PAGE_SUMMARY_H

#include <cjson/cJSON.h>

#include "report/page/page_data.h"

/* A gain and the collective it was measured at; no pairs: there is none. */
struct stp_page_extreme {
    struct stp_gain gain;
    int coll;
    uint64_t n_bytes;
    unsigned n_ranks;
};

struct stp_page_summary {
    char machine[128]; /* "4 x NVIDIA H200 with NCCL 2.28.9" */
    bool has_policy;
    bool tried; /* the policy itself was run, not only its arms */
    size_t n_rules;
    size_t n_sizes;
    size_t n_changed;
    size_t n_faster;
    size_t n_slower;
    size_t n_below;   /* changed sizes whose whole interval is below 1, but by
                         no more than the noise */
    size_t n_unknown; /* sizes at which a rule's arm was not measured */
    bool one_round;   /* there are no intervals */
    bool has_ranks;   /* not all sizes are of as many ranks */
    struct stp_page_extreme best;  /* the largest gain of the policy, or of an
                                      arm if there is no policy; gain 1: none */
    struct stp_page_extreme worst; /* the smallest of n_slower, or else of
                                      n_below */
    double mean_gain; /* geometric, of the policy over all measured sizes */
};

void stp_page_sum_up(const struct stp_page_data *data,
                     struct stp_page_summary *summary_ret);

/* The summary as one sentence. */
void stp_page_sentence(const struct stp_page_summary *summary,
                       char text[STP_PAGE_TEXT]);

/* Training steps with the overlap policy. */
struct stp_page_overlap {
    size_t n; /* workloads */
    size_t n_faster;
    size_t n_slower; /* by more than twice AUTO's noise */
    size_t n_below;  /* by less */
    double best;     /* gains */
    double worst;
};

void stp_page_sum_up_overlap(const struct stp_iteration_summary *iterations,
                             struct stp_page_overlap *overlap_ret);

/* The same as one sentence; false if there were no such steps. */
bool stp_page_overlap_sentence(const struct stp_page_overlap *overlap,
                               char text[STP_PAGE_TEXT]);

/* The largest gains of registering at measured sizes; false if it is worth
 * nothing there. */
bool stp_page_memory_sentence(const struct stp_memory_table *memory,
                              char text[STP_PAGE_TEXT]);

/* Where the times of the 'n' sets are from, how many of how many; false without
 * times. */
bool stp_page_source_sentence(const struct stp_page_file *sets, size_t n,
                              char text[STP_PAGE_TEXT]);

/*
 * The values that page.html names, to be freed with cJSON_Delete().  Its member
 * "plots" is all that page.js draws.  What runs out of memory within cJSON is
 * missing.  STP_ERR_NOMEM otherwise.
 */
enum stp_status stp_page_view(const struct stp_page_data *data,
                              const struct stp_page_summary *summary,
                              cJSON **view_ret, struct stp_error *err);

#endif /* STP_PAGE_SUMMARY_H */
