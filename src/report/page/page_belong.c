/* page_belong.c - which files of a page belong together */
#include <string.h>

#include "report/page/page_summary.h"

/* A file among the others. */
struct belong {
    const struct stp_page_sources *sources;
    struct stp_page_data *data;
    const char *anchor; /* the first file that names a run; NULL: none does */
};

/* ---- what a file says ---- */

static const char *belong_name(const struct stp_page_data *data, int source)
{
    return source < STP_PAGE_SWEEP ? data->policies[source].name
                                   : data->sets[source].name;
}

static const char *belong_run(const struct stp_page_data *data, int source)
{
    return source < STP_PAGE_SWEEP ? data->policies[source].mark.run
                                   : data->sets[source].data.run;
}

/* The policy that a set verifies; NULL: the set is no verification. */
static const struct stp_page_policy *
belong_policy(const struct stp_page_data *data, int source)
{
    switch (source) {
    case STP_PAGE_VERIFY:
        return &data->policies[STP_PAGE_POLICY];
    case STP_PAGE_OVERLAP_VERIFY:
        return &data->policies[STP_PAGE_OVERLAP_POLICY];
    default:
        return NULL;
    }
}

static void belong_find_anchor(struct belong *b)
{
    struct stp_page_data *data = b->data;

    for (int s = 0; s < STP_PAGE_N_SOURCES && b->anchor == NULL; s++)
        if (belong_name(data, s) != NULL && belong_run(data, s)[0] != '\0') {
            b->anchor = belong_name(data, s);
            memcpy(data->run, belong_run(data, s), sizeof(data->run));
        }
}

/* ---- why a file does not belong: "" if it does ---- */

/* A verification by hand names no run: its policy's hash does for it. */
static void belong_check_run(const struct belong *b, int source,
                             char why[STP_PAGE_TEXT])
{
    const char *run = belong_run(b->data, source);
    const bool has_hash = source >= STP_PAGE_SWEEP &&
                          b->data->sets[source].data.policy_hash[0] != '\0';

    if (b->anchor == NULL || strcmp(run, b->data->run) == 0)
        return;
    if (run[0] != '\0')
        stp_page_say(why, "it is of run %s, expected run %s as %s", run,
                     b->data->run, b->anchor);
    else if (source != STP_PAGE_POLICY && !has_hash &&
             !b->sources->is_named[source])
        stp_page_say(why, "it names no run, expected run %s as %s",
                     b->data->run, b->anchor);
}

static void belong_check_policy(const struct belong *b, int source,
                                char why[STP_PAGE_TEXT])
{
    const struct stp_page_policy *policy = belong_policy(b->data, source);
    const char *hash;

    if (policy == NULL)
        return;
    hash = b->data->sets[source].data.policy_hash;
    if (policy->name == NULL && !b->sources->is_named[source])
        stp_page_say(why, "the policy that it verifies is not here");
    if (policy->name != NULL && hash[0] != '\0' &&
        strcmp(hash, policy->hash) != 0)
        stp_page_say(why, "it verifies a policy of hash %s, and %s has %s",
                     hash, policy->name, policy->hash);
}

static void belong_check_machine(const struct belong *b, int source,
                                 char why[STP_PAGE_TEXT])
{
    const struct stp_dataset *data = &b->data->sets[source].data;
    const struct stp_page_set *first;

    if (source < STP_PAGE_SWEEP)
        return;
    first = stp_page_first_set(b->data);
    if (strcmp(data->gpu, first->data.gpu) != 0 ||
        strcmp(data->nccl, first->data.nccl) != 0)
        stp_page_say(why,
                     "it was measured on '%s' with NCCL %s, expected '%s' with "
                     "NCCL %s as %s",
                     data->gpu, data->nccl, first->data.gpu, first->data.nccl,
                     first->name);
}

/* ---- what follows ---- */

static enum stp_status belong_leave_out(struct belong *b, int source,
                                        const char *why, struct stp_error *err)
{
    struct stp_page_data *data = b->data;
    const char *name = belong_name(data, source);

    if (b->sources->is_named[source])
        return stp_fail(err, STP_ERR_RANGE,
                        "'%.120s' does not belong to the others: %s", name,
                        why);
    stp_page_say(data->warnings[data->n_warnings++], "%s is left out: %s.",
                 name, why);
    if (source < STP_PAGE_SWEEP)
        stp_page_drop_policy(&data->policies[source]);
    else
        stp_page_drop_set(&data->sets[source]);
    return STP_OK;
}

/* What a file that belongs does not say, or says no more. */
static void belong_warn(struct stp_page_data *data, int source)
{
    const struct stp_page_policy *policy = belong_policy(data, source);

    if (policy != NULL && policy->name != NULL &&
        data->sets[source].data.policy_hash[0] == '\0')
        stp_page_say(data->warnings[data->n_warnings++],
                     "%s does not say which policy it verifies, as an earlier "
                     "release wrote it: it is taken to be %s.",
                     data->sets[source].name, policy->name);
    if (source >= STP_PAGE_SWEEP)
        return;
    policy = &data->policies[source];
    if (policy->mark.hash[0] != '\0' &&
        strcmp(policy->mark.hash, policy->hash) != 0)
        stp_page_say(data->warnings[data->n_warnings++],
                     "%s was changed since it was written: its policy hash was "
                     "%s and is %s.",
                     policy->name, policy->mark.hash, policy->hash);
}

enum stp_status stp_page_keep_own(const struct stp_page_sources *sources,
                                  struct stp_page_data *data,
                                  struct stp_error *err)
{
    struct belong b = {.sources = sources, .data = data};
    enum stp_status status = STP_OK;

    belong_find_anchor(&b);
    for (int s = 0; s < STP_PAGE_N_SOURCES && status == STP_OK; s++) {
        char why[STP_PAGE_TEXT] = "";

        if (belong_name(data, s) == NULL)
            continue;
        belong_check_run(&b, s, why);
        if (why[0] == '\0')
            belong_check_policy(&b, s, why);
        if (why[0] == '\0')
            belong_check_machine(&b, s, why);
        if (why[0] != '\0')
            status = belong_leave_out(&b, s, why, err);
        else
            belong_warn(data, s);
    }
    return status;
}
