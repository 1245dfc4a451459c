#include "report/results/differ.h"

#include <inttypes.h>
#include <math.h>

#include "core/names.h"
#include "report/json.h"
#include "report/table.h"
#include "report/words.h"

static void add_choice(struct stp_table *t, const struct stp_differing *x)
{
    char name[STP_RAN_NAME];

    stp_ran_name(x->pick.algo, x->pick.proto, x->asked_channels, name);
    stp_table_add(t, "%s", name);
}

/* "-" where nobody has recorded it. */
static void add_us(struct stp_table *t, double us)
{
    if (isnan(us))
        stp_table_add(t, "-");
    else
        stp_table_add(t, "%.3f", us);
}

static void add_range(struct stp_table *t, const struct stp_difference *d)
{
    bool timed = !isnan(d->first.us) || !isnan(d->second.us);

    stp_table_add(t, "%s", stp_coll_name(d->coll));
    stp_table_add(t, "%" PRIu64, d->min_bytes);
    stp_table_add(t, "%" PRIu64, d->max_bytes);
    add_choice(t, &d->first);
    add_choice(t, &d->second);
    if (timed)
        stp_table_add(t, "%" PRIu64, d->at_bytes);
    else
        stp_table_add(t, "-");
    add_us(t, d->first.us);
    add_us(t, d->second.us);
    if (d->source == STP_SOURCE_MODELLED)
        stp_table_add(t, timed ? "one recorded" : "not recorded");
    else
        stp_table_add(t, "%s", stp_source_name(d->source));
}

enum stp_status
stp_print_differences(const struct stp_differences_report *report, FILE *fp,
                      struct stp_error *err)
{
    const struct stp_differences *all = report->differences;
    struct stp_table *t;

    if (all->n_ranges == 0) {
        fprintf(fp, "%s and %s decide the same on %s\n", report->first,
                report->second, report->machine);
        return STP_OK;
    }
    fprintf(fp, "%s and %s decide differently on %s\n\n", report->first,
            report->second, report->machine);
    t = stp_table_create("<collective|from bytes|to bytes|<first|<second|"
                         "at bytes|first us|second us|<source");
    for (size_t i = 0; t != NULL && i < all->n_ranges; i++)
        add_range(t, &all->ranges[i]);
    return stp_table_finish(t, fp, err);
}

static void add_range_json(cJSON *row, const struct stp_difference *d)
{
    bool timed = d->source != STP_SOURCE_MODELLED;

    cJSON_AddStringToObject(row, "collective", stp_coll_name(d->coll));
    stp_json_number(row, "min_bytes", (double)d->min_bytes);
    stp_json_number(row, "max_bytes", (double)d->max_bytes);
    stp_json_pair(row, "first", d->first.pick.algo, d->first.pick.proto,
                  d->first.asked_channels);
    stp_json_pair(row, "second", d->second.pick.algo, d->second.pick.proto,
                  d->second.asked_channels);
    stp_json_number(row, "at_bytes", (double)d->at_bytes);
    stp_json_number(row, "first_us", d->first.us);
    stp_json_number(row, "second_us", d->second.us);
    stp_json_word(row, "source", timed ? stp_source_name(d->source) : NULL);
}

enum stp_status
stp_print_differences_json(const struct stp_differences_report *report,
                           FILE *fp, struct stp_error *err)
{
    const struct stp_differences *all = report->differences;
    cJSON *root = cJSON_CreateObject();
    cJSON *list;

    cJSON_AddStringToObject(root, "machine", report->machine);
    cJSON_AddStringToObject(root, "first", report->first);
    cJSON_AddStringToObject(root, "second", report->second);
    cJSON_AddBoolToObject(root, "same", all->n_ranges == 0);
    list = cJSON_AddArrayToObject(root, "differences");
    for (size_t i = 0; i < all->n_ranges; i++)
        add_range_json(stp_json_row(list), &all->ranges[i]);
    return stp_json_finish(root, fp, err);
}
