#include "agree/hosts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/clock.h"
#include "store/store_client.h"

enum {
    SETTLE_MS = 1000, /* for the store to answer after the time limit */
    NAP_MS = 1,       /* between looks, at first */
    NAP_MAX_MS = 20,
    NAP_RANKS_PER_MS = 64,
    MAX_ROWS = 1024, /* that are read to tell why */
    KEY_TEXT = 192,
    WORD_TEXT = 8, /* of a decision */
};

#define TOKEN  "agree"
#define FOLLOW "follow"
#define ASIDE  "aside"

/* What one host knows. */
struct speech {
    const struct stp_hosts *hosts;
    struct stp_client client;
    int64_t deadline_ms; /* for all hosts to come */
    bool has_generation;
    uint64_t generation;
    size_t n_said;    /* ranks of this host that the store knows of */
    size_t n_arrived; /* ranks of all hosts, as last heard */
    bool differs;     /* from the reference */
    bool is_counted;  /* 'ready' may hold this host */
    char decision[WORD_TEXT];
};

static const char *speech_key(const struct speech *s, const char *name,
                              char key[KEY_TEXT])
{
    const struct stp_hosts *h = s->hosts;

    snprintf(key, KEY_TEXT, "1/%s/%016" PRIx64 "-%zu/%" PRIu64 "/%s",
             h->store->run, h->comm_id, h->n_ranks, s->generation, name);
    return key;
}

static bool speech_connect(struct speech *s, int64_t deadline_ms)
{
    return stp_client_open(&s->client, &s->hosts->store->address, TOKEN,
                           deadline_ms);
}

static bool speech_add(struct speech *s, const char *name, size_t n,
                       size_t *sum_ret)
{
    char key[KEY_TEXT];
    int64_t sum = 0;

    if (!stp_client_add(&s->client, speech_key(s, name, key), (int64_t)n, &sum))
        return false;
    *sum_ret = (size_t)sum;
    return true;
}

/* ---- arriving ---- */

/* All ranks of a communicator are of one generation, unless another of the same
 * id and size had not all its ranks. */
static bool speech_take_tickets(struct speech *s, size_t n)
{
    const struct stp_hosts *h = s->hosts;
    char key[KEY_TEXT];
    int64_t sum = 0;
    uint64_t last;

    snprintf(key, sizeof(key), "1/%s/%016" PRIx64 "-%zu/tickets", h->store->run,
             h->comm_id, h->n_ranks);
    if (!stp_client_add(&s->client, key, (int64_t)n, &sum))
        return false;
    last = ((uint64_t)sum - 1) / h->n_ranks;
    if (!s->has_generation)
        s->generation = last;
    s->has_generation = true;
    if (((uint64_t)sum - n) / h->n_ranks == last && last == s->generation)
        return true;
    snprintf(s->client.why, sizeof(s->client.why),
             "an earlier communicator of the same id is incomplete there");
    return false;
}

static bool speech_append_row(struct speech *s, const struct stp_identity *from,
                              size_t n)
{
    struct stp_host_row row = {.identity = *from, .n_ranks = (uint32_t)n};
    char key[KEY_TEXT];

    snprintf(row.name, sizeof(row.name), "%s", s->hosts->store->host);
    return stp_client_append(&s->client, speech_key(s, "hosts", key), &row,
                             sizeof(row));
}

static bool speech_compare(struct speech *s, const struct stp_fingerprint *own)
{
    const size_t size = STP_N_FINGERPRINT_DECIDES * sizeof(own->part[0]);
    struct stp_fingerprint reference;
    char key[KEY_TEXT];
    size_t size_now = 0;

    if (!stp_client_compare_set(&s->client, speech_key(s, "reference", key),
                                own->part, size, NULL, &reference,
                                sizeof(reference), &size_now))
        return false;
    s->differs |=
        size_now != size || memcmp(reference.part, own->part, size) != 0;
    return true;
}

/* The full rows from 'i' on with the same fingerprint. */
static size_t speech_count_run(const struct stp_hosts *h, size_t i)
{
    size_t n = 0;

    while (i + n < h->n_ranks && stp_identity_is_full(&h->identities[i + n]) &&
           memcmp(&h->identities[i + n].fingerprint,
                  &h->identities[i].fingerprint,
                  sizeof(struct stp_fingerprint)) == 0)
        n++;
    return n;
}

/* Tells the store of the ranks that joined since. */
static bool speech_say_ranks(struct speech *s)
{
    size_t n;

    while ((n = speech_count_run(s->hosts, s->n_said)) > 0) {
        const struct stp_identity *from = &s->hosts->identities[s->n_said];

        if (!speech_take_tickets(s, n) || !speech_append_row(s, from, n) ||
            !speech_compare(s, &from->fingerprint) ||
            !speech_add(s, "arrived", n, &s->n_arrived))
            return false;
        s->n_said += n;
    }
    return true;
}

/* The more ranks there are, the more hosts may ask. */
static void speech_nap(const struct speech *s, unsigned *ms)
{
    const unsigned max_ms =
        NAP_MAX_MS + (unsigned)(s->hosts->n_ranks / NAP_RANKS_PER_MS);
    const struct timespec nap = {.tv_nsec = *ms * 1000000L};

    nanosleep(&nap, NULL);
    *ms = *ms < max_ms / 2 ? *ms * 2 : max_ms;
}

/* Until all ranks of all hosts arrived, or the time is over; false if the store
 * was lost. */
static bool speech_gather(struct speech *s)
{
    unsigned nap_ms = NAP_MS;

    for (;;) {
        if (!speech_say_ranks(s))
            return false;
        if (s->n_arrived >= s->hosts->n_ranks ||
            stp_now_ms() >= s->deadline_ms ||
            s->hosts->is_hushed(s->hosts->user))
            return true;
        speech_nap(s, &nap_ms);
        if (!speech_add(s, "arrived", 0, &s->n_arrived))
            return false;
    }
}

/* ---- deciding ---- */

/* The decision that the store holds, for those that await it, too. */
static bool speech_decide(struct speech *s, const char *word)
{
    char now[WORD_TEXT] = "";
    char key[KEY_TEXT];
    size_t size = 0;

    if (!stp_client_compare_set(&s->client, speech_key(s, "decision", key),
                                word, strlen(word), NULL, now, sizeof(now) - 1,
                                &size))
        return false;
    memcpy(s->decision, now, sizeof(now));
    stp_client_set(&s->client, speech_key(s, "decided", key), now, size);
    return true;
}

/* Decides that all step aside, and ends the waiting of those that do not know:
 * more ranks than there are arrive. */
static bool speech_refuse(struct speech *s)
{
    return speech_decide(s, ASIDE) &&
           speech_add(s, "arrived", s->hosts->n_ranks, &s->n_arrived);
}

static bool speech_await_decision(struct speech *s)
{
    char now[WORD_TEXT] = "";
    char key[KEY_TEXT];
    size_t size = 0;

    s->client.deadline_ms = s->deadline_ms;
    if (!stp_client_get(&s->client, speech_key(s, "decided", key), now,
                        sizeof(now) - 1, &size))
        return false;
    memcpy(s->decision, now, sizeof(now));
    return true;
}

static bool speech_get_ready(struct speech *s)
{
    size_t n_ready = 0;

    if (s->differs || s->n_arrived != s->hosts->n_ranks ||
        s->hosts->is_hushed(s->hosts->user) ||
        !s->hosts->commit(s->hosts->user))
        return speech_refuse(s);
    s->is_counted = true;
    if (!speech_add(s, "ready", s->n_said, &n_ready))
        return false;
    return n_ready == s->hosts->n_ranks ? speech_decide(s, FOLLOW)
                                        : speech_await_decision(s);
}

/* A store that was started anew, without its keys, does not know whether the
 * hosts decided; a host that is not ready knows that they did not. */
static bool speech_check_keys(struct speech *s)
{
    char key[KEY_TEXT];
    bool is_there = false;

    if (!s->is_counted)
        return true;
    if (!stp_client_check(&s->client, speech_key(s, "reference", key),
                          &is_there))
        return false;
    snprintf(s->client.why, sizeof(s->client.why), "its keys are gone");
    return is_there;
}

/* After the store was lost, or the time was over while this host waited: what
 * is decided, on another connection.  A host without a generation has nothing
 * to settle. */
static void speech_settle(struct speech *s)
{
    const struct stp_client lost = s->client;

    if (!s->has_generation)
        return;
    stp_client_close(&s->client);
    if (!speech_connect(s, stp_now_ms() + SETTLE_MS))
        memcpy(s->client.why, lost.why, sizeof(lost.why));
    else if (speech_check_keys(s) && !speech_refuse(s))
        memcpy(s->client.why, lost.why, sizeof(lost.why));
}

/* ---- in words ---- */

static void speech_explain_lost(const struct speech *s, const char *place,
                                char *why, size_t size)
{
    if (s->is_counted)
        snprintf(why, size,
                 "%s was lost when all hosts held the same, before it said "
                 "that all know (%s): others may follow their rules, and the "
                 "job then hangs",
                 place, s->client.why);
    else
        snprintf(why, size,
                 "%s, where hosts compare what they hold, %s: %s "
                 "(STEPTUNE_AGREE=shm compares within hosts only)",
                 place, s->has_generation ? "was lost" : "cannot be used",
                 s->client.why);
}

static int speech_order_rows(const void *a, const void *b)
{
    return strncmp(((const struct stp_host_row *)a)->name,
                   ((const struct stp_host_row *)b)->name, STP_HOST_NAME);
}

static void speech_explain_rows(struct speech *s, struct stp_host_row *rows,
                                size_t n, const char *place, char *why,
                                size_t size)
{
    const struct stp_hosts *h = s->hosts;

    qsort(rows, n, sizeof(*rows), speech_order_rows);
    stp_hosts_explain(rows, n, &h->identities[0], h->n_ranks, place, why, size);
}

static void speech_explain(struct speech *s, char *why, size_t size)
{
    const struct stp_hosts *h = s->hosts;
    const size_t max = MAX_ROWS * sizeof(struct stp_host_row);
    struct stp_host_row *rows = NULL;
    char place[STP_STORE_PLACE];
    char key[KEY_TEXT];
    size_t n_bytes = 0;

    stp_store_describe(&h->store->address, place);
    if (s->decision[0] == '\0') {
        speech_explain_lost(s, place, why, size);
        return;
    }
    rows = malloc(max);
    s->client.deadline_ms = stp_now_ms() + SETTLE_MS;
    if (rows != NULL && stp_client_get(&s->client, speech_key(s, "hosts", key),
                                       rows, max, &n_bytes))
        speech_explain_rows(s, rows, n_bytes / sizeof(*rows), place, why, size);
    else
        snprintf(why, size, "the hosts decided in %s to step aside", place);
    free(rows);
}

bool stp_hosts_compare(const struct stp_hosts *hosts, char *why, size_t size)
{
    struct speech s = {.hosts = hosts,
                       .deadline_ms = stp_now_ms() + hosts->store->timeout_ms};
    bool is_agreed;

    if (!speech_connect(&s, s.deadline_ms + SETTLE_MS) || !speech_gather(&s) ||
        !speech_get_ready(&s))
        speech_settle(&s);
    is_agreed = strcmp(s.decision, FOLLOW) == 0;
    if (!is_agreed)
        speech_explain(&s, why, size);
    stp_client_close(&s.client);
    return is_agreed;
}
