#include "agree/identity.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LISTED = 8 };

bool stp_identity_is_full(const struct stp_identity *identity)
{
    return __atomic_load_n(&identity->is_full, __ATOMIC_ACQUIRE) != 0;
}

void stp_identity_write(struct stp_identity *identity,
                        const struct stp_agreement_rank *rank)
{
    identity->fingerprint = rank->fingerprint;
    identity->pid = (int32_t)getpid();
    identity->number = rank->number;
    __atomic_store_n(&identity->is_full, 1, __ATOMIC_RELEASE);
}

static bool identity_differs(const struct stp_identity *a,
                             const struct stp_identity *b, int part)
{
    return a->fingerprint.part[part] != b->fingerprint.part[part];
}

/* The first part in which a full row differs from row 'own';
 * STP_N_FINGERPRINT_DECIDES if none does. */
static int identities_find_part(const struct stp_identity *identities, size_t n,
                                size_t own)
{
    for (int part = 0; part < STP_N_FINGERPRINT_DECIDES; part++)
        for (size_t i = 0; i < n; i++)
            if (stp_identity_is_full(&identities[i]) &&
                identity_differs(&identities[i], &identities[own], part))
                return part;
    return STP_N_FINGERPRINT_DECIDES;
}

bool stp_identities_are_equal(const struct stp_identity *identities, size_t n)
{
    size_t own = 0;

    while (own < n && !stp_identity_is_full(&identities[own]))
        own++;
    return own == n || identities_find_part(identities, n, own) ==
                           STP_N_FINGERPRINT_DECIDES;
}

bool stp_identities_are_apart(const struct stp_identity *identities, size_t n)
{
    const struct stp_identity *first = NULL;

    for (size_t i = 0; i < n; i++) {
        if (!stp_identity_is_full(&identities[i]))
            continue;
        if (first == NULL)
            first = &identities[i];
        if (identity_differs(&identities[i], first, STP_FINGERPRINT_LOWER))
            return true;
    }
    return false;
}

/* ---- in words ---- */

struct text {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void
text_append(struct text *text, const char *format, ...)
{
    va_list args;
    size_t n;

    va_start(args, format);
    n = (size_t)vsnprintf(text->at, text->left, format, args);
    va_end(args);
    if (n >= text->left)
        n = text->left > 0 ? text->left - 1 : 0;
    text->at += n;
    text->left -= n;
}

/* The smallest items, in order, and the number of all. */
struct list {
    int32_t items[MAX_LISTED];
    size_t n;
};

static void list_add(struct list *list, int32_t item)
{
    size_t i = list->n < MAX_LISTED ? list->n : MAX_LISTED;

    list->n++;
    if (i == MAX_LISTED && list->items[--i] <= item)
        return;
    for (; i > 0 && list->items[i - 1] > item; i--)
        list->items[i] = list->items[i - 1];
    list->items[i] = item;
}

/* Ranks of one process, such as threads, are one entry. */
static void list_add_process(struct list *list, int32_t pid)
{
    for (size_t i = 0; i < list->n && i < MAX_LISTED; i++)
        if (list->items[i] == pid)
            return;
    list_add(list, pid);
}

/* "rank 1", "ranks 1, 3 and 5", "processes 100, 101 and 9 more", or with rows,
 * which the items are then of, "hosts a and b". */
static void text_append_list(struct text *text, const char *noun,
                             const char *nouns, const struct list *list,
                             const struct stp_host_row *rows)
{
    const size_t n = list->n;
    const size_t n_listed = n > MAX_LISTED ? MAX_LISTED - 1 : n;

    text_append(text, "%s ", n == 1 ? noun : nouns);
    for (size_t i = 0; i < n_listed; i++) {
        text_append(text, "%s", i == 0 ? "" : i == n - 1 ? " and " : ", ");
        if (rows != NULL)
            text_append(text, "%.*s", STP_HOST_NAME, rows[list->items[i]].name);
        else
            text_append(text, "%d", (int)list->items[i]);
    }
    if (n > n_listed)
        text_append(text, " and %zu more", n - n_listed);
}

/* Says of one rank or of more in what they differ. */
static void text_append_predicate(struct text *text,
                                  const struct stp_identity *other,
                                  const struct stp_identity *own, int part,
                                  bool is_one)
{
    enum { INACTIVE = STP_N_FINGERPRINT_DECIDES, GPU };
    static const struct {
        const char *one, *more, *rest;
    } predicates[] = {
        [STP_FINGERPRINT_BUILD] = {"has another Steptune plugin or release",
                                   "have other Steptune plugins or releases",
                                   "than this rank"},
        [STP_FINGERPRINT_LOWER] =
            {"has another tuner below Steptune's",
             "have other tuners below Steptune's",
             "than this rank (STEPTUNE_CHAIN, libnccl-tuner.so, "
             "NCCL_NET_PLUGIN; each rank's log names it)"},
        [STP_FINGERPRINT_SETTINGS] =
            {"has", "have",
             "other settings than this rank (STEPTUNE_AGREE, STEPTUNE_FREEZE, "
             "STEPTUNE_STRATEGY; where hosts learn, also STEPTUNE_ARMS, "
             "STEPTUNE_BITS, STEPTUNE_EVIDENCE, NCCL_ALGO, NCCL_PROTO and the "
             "profiler)"},
        [STP_FINGERPRINT_POLICY] =
            {"holds another policy", "hold other policies",
             "than this rank (NCCL_TUNER_CONFIG_FILE, NCCL_WORKLOAD_OVERLAP; "
             "each rank's log shows path and hash)"},
        [INACTIVE] = {"has no policy in force (its log says",
                      "have no policy in force (their logs say", "why)"},
        [GPU] = {"sees", "see",
                 "another GPU model than this rank (STEPTUNE_GPU, or the "
                 "driver), which selects other rules of the same policy"},
    };

    if (part == STP_FINGERPRINT_POLICY && other->fingerprint.part[part] == 0)
        part = INACTIVE;
    else if (part == STP_FINGERPRINT_POLICY &&
             !identity_differs(other, own, STP_FINGERPRINT_FILE))
        part = GPU;
    text_append(text, " %s %s",
                is_one ? predicates[part].one : predicates[part].more,
                predicates[part].rest);
}

void stp_identities_explain(const struct stp_identity *identities, size_t n,
                            size_t n_needed, size_t own, char *buf, size_t size)
{
    const int part = identities_find_part(identities, n, own);
    struct text text = {buf, size};
    struct list list = {.n = 0}; /* of ranks that differ or are missing */
    size_t n_joined = 0, last = own;
    bool are_numbered = true; /* all that have joined */

    for (size_t i = 0; i < n; i++)
        if (stp_identity_is_full(&identities[i])) {
            n_joined++;
            are_numbered &= identities[i].number >= 0;
        }
    if (part < STP_N_FINGERPRINT_DECIDES) {
        for (size_t i = 0; i < n; i++) {
            if (!stp_identity_is_full(&identities[i]) ||
                !identity_differs(&identities[i], &identities[own], part))
                continue;
            last = i;
            if (are_numbered)
                list_add(&list, identities[i].number);
            else
                list_add_process(&list, identities[i].pid);
        }
        text_append_list(&text, are_numbered ? "rank" : "process",
                         are_numbered ? "ranks" : "processes", &list, NULL);
        text_append_predicate(&text, &identities[last], &identities[own], part,
                              list.n == 1);
        return;
    }
    if (n_joined >= n_needed) {
        text_append(&text, "a rank joined too late");
        return;
    }
    if (n_needed == n && are_numbered) {
        for (size_t r = 0; r < n; r++) {
            size_t i = 0;

            while (i < n && (!stp_identity_is_full(&identities[i]) ||
                             identities[i].number != (int32_t)r))
                i++;
            if (i == n)
                list_add(&list, (int32_t)r);
        }
        text_append_list(&text, "rank", "ranks", &list, NULL);
    } else
        text_append(&text, "%zu of %zu ranks", n_needed - n_joined, n_needed);
    text_append(&text,
                " did not join on this host (no Steptune plugin, another user "
                "or /dev/shm, or as the rank's log says)");
}

/* ---- of several hosts ---- */

void stp_hosts_explain(const struct stp_host_row *rows, size_t n,
                       const struct stp_identity *own, size_t n_ranks,
                       const char *place, char *buf, size_t size)
{
    struct text text = {buf, size};
    struct list list = {.n = 0}; /* of each host's first row */
    size_t n_came = 0, last = 0;
    int part = STP_N_FINGERPRINT_DECIDES;
    bool are_equal;

    /* The first deciding part in which a row differs from 'own'. */
    for (size_t i = 0; i < n; i++)
        for (int p = 0; p < part; p++)
            if (identity_differs(&rows[i].identity, own, p))
                part = p;
    are_equal = part == STP_N_FINGERPRINT_DECIDES;
    for (size_t i = 0; i < n; i++) {
        size_t first = 0;

        n_came += rows[i].n_ranks;
        if (!are_equal && !identity_differs(&rows[i].identity, own, part))
            continue;
        last = i;
        while (strncmp(rows[first].name, rows[i].name, STP_HOST_NAME) != 0)
            first++;
        list_add_process(&list, (int32_t)first);
    }
    if (are_equal && n_came < n_ranks)
        text_append(&text, "%s knows of %zu of %zu ranks, of ", place, n_came,
                    n_ranks);
    text_append_list(&text, "host", "hosts", &list, rows);
    if (!are_equal)
        text_append_predicate(&text, &rows[last].identity, own, part,
                              list.n == 1);
    else if (n_came < n_ranks)
        text_append(&text, ": the others have no Steptune plugin, or another "
                           "STEPTUNE_AGREE or TORCHELASTIC_RUN_ID, or came "
                           "after STEPTUNE_AGREE_TIMEOUT");
    else
        text_append(&text, " hold the same, but one of them could not confirm "
                           "it in time");
}
