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

/* What stands before item 'i' of 'n'. */
static const char *text_joint(size_t i, size_t n)
{
    return i == 0 ? "" : i == n - 1 ? " and " : ", ";
}

/* "rank 1", "ranks 1, 3 and 5", "processes 100, 101 and 9 more". */
static void text_append_list(struct text *text, const char *noun,
                             const char *nouns, const int32_t *items, size_t n)
{
    size_t n_listed = n > MAX_LISTED ? MAX_LISTED - 1 : n;

    text_append(text, "%s ", n == 1 ? noun : nouns);
    for (size_t i = 0; i < n_listed; i++)
        text_append(text, "%s%d", text_joint(i, n), (int)items[i]);
    if (n > n_listed)
        text_append(text, " and %zu more", n - n_listed);
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

static bool identities_are_numbered(const struct stp_identity *identities,
                                    size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (stp_identity_is_full(&identities[i]) && identities[i].number < 0)
            return false;
    return true;
}

static const struct {
    const char *one, *more;
} identity_predicates[STP_N_FINGERPRINT_DECIDES] = {
    [STP_FINGERPRINT_BUILD] =
        {"has another Steptune plugin or release than this rank",
         "have other Steptune plugins or releases than this rank"},
    [STP_FINGERPRINT_SETTINGS] =
        {"has other settings than this rank (STEPTUNE_AGREE, STEPTUNE_FREEZE, "
         "STEPTUNE_STRATEGY)",
         "have other settings than this rank (STEPTUNE_AGREE, STEPTUNE_FREEZE, "
         "STEPTUNE_STRATEGY)"},
    [STP_FINGERPRINT_POLICY] =
        {"holds another policy than this rank (NCCL_TUNER_CONFIG_FILE, "
         "NCCL_WORKLOAD_OVERLAP; each rank's log shows path and hash)",
         "hold other policies than this rank (NCCL_TUNER_CONFIG_FILE, "
         "NCCL_WORKLOAD_OVERLAP; each rank's log shows path and hash)"},
};

static const char *identity_predicate(const struct stp_identity *other,
                                      const struct stp_identity *own, int part,
                                      bool is_one)
{
    if (part == STP_FINGERPRINT_POLICY && other->fingerprint.part[part] == 0)
        return is_one ? "has no policy in force (its log says why)"
                      : "have no policy in force (their logs say why)";
    if (part == STP_FINGERPRINT_POLICY &&
        !identity_differs(other, own, STP_FINGERPRINT_FILE))
        return is_one ? "sees another GPU model than this rank (STEPTUNE_GPU, "
                        "or the driver), which selects other rules of the "
                        "same policy"
                      : "see another GPU model than this rank (STEPTUNE_GPU, "
                        "or the driver), which selects other rules of the "
                        "same policy";
    return is_one ? identity_predicates[part].one
                  : identity_predicates[part].more;
}

static void identities_explain_part(const struct stp_identity *identities,
                                    size_t n, size_t own, int part,
                                    struct text *text)
{
    bool are_numbered = identities_are_numbered(identities, n);
    struct list list = {.n = 0};
    size_t last = own;

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
    text_append_list(text, are_numbered ? "rank" : "process",
                     are_numbered ? "ranks" : "processes", list.items, list.n);
    text_append(text, " %s",
                identity_predicate(&identities[last], &identities[own], part,
                                   list.n == 1));
}

static bool identities_have_number(const struct stp_identity *identities,
                                   size_t n, int32_t number)
{
    for (size_t i = 0; i < n; i++)
        if (stp_identity_is_full(&identities[i]) &&
            identities[i].number == number)
            return true;
    return false;
}

static void identities_explain_missing(const struct stp_identity *identities,
                                       size_t n, size_t n_needed,
                                       size_t n_joined, struct text *text)
{
    struct list missing = {.n = 0};

    if (n_needed == n && identities_are_numbered(identities, n)) {
        for (size_t r = 0; r < n; r++)
            if (!identities_have_number(identities, n, (int32_t)r))
                list_add(&missing, (int32_t)r);
        text_append_list(text, "rank", "ranks", missing.items, missing.n);
    } else
        text_append(text, "%zu of %zu ranks", n_needed - n_joined, n_needed);
    text_append(text,
                " did not join on this host (no Steptune plugin, another user "
                "or /dev/shm, or as the rank's log says)");
}

void stp_identities_explain(const struct stp_identity *identities, size_t n,
                            size_t n_needed, size_t own, char *buf, size_t size)
{
    int part = identities_find_part(identities, n, own);
    struct text text = {buf, size};
    size_t n_joined = 0;

    for (size_t i = 0; i < n; i++)
        n_joined += stp_identity_is_full(&identities[i]);
    if (part < STP_N_FINGERPRINT_DECIDES)
        identities_explain_part(identities, n, own, part, &text);
    else if (n_joined < n_needed)
        identities_explain_missing(identities, n, n_needed, n_joined, &text);
    else
        text_append(&text, "a rank joined too late");
}

/* ---- of several hosts ---- */

/* The first row of the same host. */
static size_t hosts_find(const struct stp_host_row *rows, size_t row)
{
    size_t i = 0;

    while (strncmp(rows[i].name, rows[row].name, STP_HOST_NAME) != 0)
        i++;
    return i;
}

/* "host a", "hosts a, b and c", "hosts a, b and 9 more". */
static void hosts_append_list(struct text *text,
                              const struct stp_host_row *rows,
                              const struct list *list)
{
    size_t n_listed = list->n > MAX_LISTED ? MAX_LISTED - 1 : list->n;

    text_append(text, "%s ", list->n == 1 ? "host" : "hosts");
    for (size_t i = 0; i < n_listed; i++)
        text_append(text, "%s%.*s", text_joint(i, list->n), STP_HOST_NAME,
                    rows[list->items[i]].name);
    if (list->n > n_listed)
        text_append(text, " and %zu more", list->n - n_listed);
}

/* The first deciding part in which a row differs from 'own'. */
static int hosts_find_part(const struct stp_host_row *rows, size_t n,
                           const struct stp_identity *own)
{
    for (int part = 0; part < STP_N_FINGERPRINT_DECIDES; part++)
        for (size_t i = 0; i < n; i++)
            if (identity_differs(&rows[i].identity, own, part))
                return part;
    return STP_N_FINGERPRINT_DECIDES;
}

void stp_hosts_explain(const struct stp_host_row *rows, size_t n,
                       const struct stp_identity *own, size_t n_ranks,
                       const char *place, char *buf, size_t size)
{
    int part = hosts_find_part(rows, n, own);
    bool are_equal = part == STP_N_FINGERPRINT_DECIDES;
    struct text text = {buf, size};
    struct list list = {.n = 0};
    size_t n_came = 0;
    size_t last = 0;

    for (size_t i = 0; i < n; i++) {
        n_came += rows[i].n_ranks;
        if (!are_equal && !identity_differs(&rows[i].identity, own, part))
            continue;
        last = i;
        list_add_process(&list, (int32_t)hosts_find(rows, i));
    }
    if (are_equal && n_came < n_ranks)
        text_append(&text, "%s knows of %zu of %zu ranks, of ", place, n_came,
                    n_ranks);
    hosts_append_list(&text, rows, &list);
    if (!are_equal)
        text_append(
            &text, " %s",
            identity_predicate(&rows[last].identity, own, part, list.n == 1));
    else if (n_came < n_ranks)
        text_append(&text, ": the others have no Steptune plugin, or another "
                           "STEPTUNE_AGREE or TORCHELASTIC_RUN_ID, or came "
                           "after STEPTUNE_AGREE_TIMEOUT");
    else
        text_append(&text, " hold the same, but one of them could not confirm "
                           "it in time");
}
