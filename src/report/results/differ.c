/* differ.c - ranges in which two plugins or policies decide differently */
#include <math.h>

#include "core/names.h"
#include "report/results/results.h"
#include "report/table.h"

enum stp_status
stp_print_differences(const struct stp_differences_report *report, bool is_json,
                      FILE *fp, struct stp_error *err)
{
    const struct stp_differences *all = report->differences;
    struct stp_table t = stp_table_result(is_json);

    if (!is_json)
        fprintf(fp,
                all->n_ranges == 0
                    ? "%s and %s decide the same on %s at %zu sizes of each "
                      "collective\n"
                    : "%s and %s decide differently on %s\n\n",
                report->first, report->second, report->machine, all->n_sizes);
    stp_table_word(&t, "machine", NULL, report->machine);
    stp_table_word(&t, "first", NULL, report->first);
    stp_table_word(&t, "second", NULL, report->second);
    stp_table_flag(&t, "same", NULL, all->n_ranges == 0);
    stp_table_count(&t, "sizes_asked", NULL, all->n_sizes);
    stp_table_rows(&t, "differences");
    for (size_t i = 0; i < all->n_ranges; i++) {
        const struct stp_difference *d = &all->ranges[i];
        const struct stp_differing *first = &d->first;
        const struct stp_differing *second = &d->second;
        bool is_timed = !isnan(first->us) || !isnan(second->us);
        const char *source = d->source == STP_SOURCE_MODELLED
                                 ? NULL
                                 : stp_source_words(d->source, d->single_pass);

        stp_table_row(&t);
        stp_table_word(&t, "collective", "<collective", stp_coll_name(d->coll));
        stp_table_count(&t, "min_bytes", "from bytes", d->min_bytes);
        stp_table_count(&t, "max_bytes", "to bytes", d->max_bytes);
        stp_table_ran(&t, "first", "<first", first->pick.algo,
                      first->pick.proto, first->asked_channels);
        stp_table_ran(&t, "second", "<second", second->pick.algo,
                      second->pick.proto, second->asked_channels);
        stp_table_count(&t, "at_bytes", is_timed ? "at bytes" : NULL,
                        d->at_bytes);
        stp_table_word(&t, NULL, is_timed ? NULL : "at bytes", NULL);
        stp_table_number(&t, "first_us", "?first us", first->us, 3);
        stp_table_number(&t, "second_us", "?second us", second->us, 3);
        stp_table_word(&t, "source", NULL,
                       source != NULL ? stp_source_name(d->source) : NULL);
        stp_table_word(&t, NULL, "<source",
                       source != NULL ? source
                       : is_timed     ? "one recorded"
                                      : "not recorded");
    }
    return stp_table_end(&t, fp, err);
}
