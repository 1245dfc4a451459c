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

/* One host's part of a comparison, as far as it has come. */
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

/* Tells the store of the ranks that joined since, those of one fingerprint at
 * once. */
static bool speech_say_ranks(struct speech *s)
{
    const struct stp_hosts *h = s->hosts;
    const size_t size = STP_N_FINGERPRINT_DECIDES * sizeof(uint64_t);

    for (;;) {
        const struct stp_identity *from = &h->identities[s->n_said];
        struct stp_host_row row;
        struct stp_fingerprint reference;
        char key[KEY_TEXT];
        size_t n = 0, size_now = 0;

        while (s->n_said + n < h->n_ranks && stp_identity_is_full(&from[n]) &&
               memcmp(&from[n].fingerprint, &from->fingerprint,
                      sizeof(struct stp_fingerprint)) == 0)
            n++;
        if (n == 0)
            return true;
        row = (struct stp_host_row){.identity = *from, .n_ranks = (uint32_t)n};
        snprintf(row.name, sizeof(row.name), "%s", h->store->host);
        if (!speech_take_tickets(s, n) ||
            !stp_client_append(&s->client, speech_key(s, "hosts", key), &row,
                               sizeof(row)) ||
            !stp_client_compare_set(&s->client, speech_key(s, "reference", key),
                                    from->fingerprint.part, size, NULL,
                                    &reference, sizeof(reference), &size_now))
            return false;
        s->differs |= size_now != size ||
                      memcmp(reference.part, from->fingerprint.part, size) != 0;
        if (!speech_add(s, "arrived", n, &s->n_arrived))
            return false;
        s->n_said += n;
    }
}

/* Until all ranks of all hosts arrived, or the time is over; false if the store
 * was lost. */
static bool speech_gather(struct speech *s)
{
    const struct stp_hosts *h = s->hosts;
    /* The more ranks there are, the more hosts may ask. */
    const unsigned max_ms =
        NAP_MAX_MS + (unsigned)(h->n_ranks / NAP_RANKS_PER_MS);

    for (unsigned ms = NAP_MS;; ms = ms < max_ms / 2 ? ms * 2 : max_ms) {
        const struct timespec nap = {.tv_nsec = ms * 1000000L};

        if (!speech_say_ranks(s))
            return false;
        if (s->n_arrived >= h->n_ranks || stp_now_ms() >= s->deadline_ms ||
            h->is_hushed(h->user))
            return true;
        nanosleep(&nap, NULL);
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

static bool speech_get_ready(struct speech *s)
{
    const struct stp_hosts *h = s->hosts;
    char now[WORD_TEXT] = "";
    char key[KEY_TEXT];
    size_t n_ready = 0, size = 0;

    if (s->differs || s->n_arrived != h->n_ranks || h->is_hushed(h->user) ||
        !h->commit(h->user))
        return speech_refuse(s);
    s->is_counted = true;
    if (!speech_add(s, "ready", s->n_said, &n_ready))
        return false;
    if (n_ready == h->n_ranks)
        return speech_decide(s, FOLLOW);
    /* Another host decides. */
    s->client.deadline_ms = s->deadline_ms;
    if (!stp_client_get(&s->client, speech_key(s, "decided", key), now,
                        sizeof(now) - 1, &size))
        return false;
    memcpy(s->decision, now, sizeof(now));
    return true;
}

/* After the store was lost, or the time was over while this host waited: what
 * is decided, on another connection.  A host without a generation has nothing
 * to settle. */
static void speech_settle(struct speech *s)
{
    const struct stp_client lost = s->client;
    bool is_there = true, is_open;
    char key[KEY_TEXT];

    if (!s->has_generation)
        return;
    stp_client_close(&s->client);
    is_open = speech_connect(s, stp_now_ms() + SETTLE_MS);
    /* A store that was started anew, without its keys, does not know whether
     * the hosts decided; a host that is not ready knows that they did not. */
    if (is_open && s->is_counted) {
        if (!stp_client_check(&s->client, speech_key(s, "reference", key),
                              &is_there))
            return;
        if (!is_there)
            snprintf(s->client.why, sizeof(s->client.why), "its keys are gone");
    }
    if (!is_open || (is_there && !speech_refuse(s)))
        memcpy(s->client.why, lost.why, sizeof(lost.why));
}

/* ---- in words ---- */

static int speech_order_rows(const void *a, const void *b)
{
    return strncmp(((const struct stp_host_row *)a)->name,
                   ((const struct stp_host_row *)b)->name, STP_HOST_NAME);
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
    if (s->decision[0] == '\0' && s->is_counted) {
        snprintf(why, size,
                 "%s was lost when all hosts held the same, before it said "
                 "that all know (%s): others may follow their rules, and the "
                 "job then hangs",
                 place, s->client.why);
        return;
    }
    if (s->decision[0] == '\0') {
        snprintf(why, size,
                 "%s, where hosts compare what they hold, %s: %s "
                 "(STEPTUNE_AGREE=shm compares within hosts only)",
                 place, s->has_generation ? "was lost" : "cannot be used",
                 s->client.why);
        return;
    }
    rows = malloc(max);
    s->client.deadline_ms = stp_now_ms() + SETTLE_MS;
    if (rows != NULL && stp_client_get(&s->client, speech_key(s, "hosts", key),
                                       rows, max, &n_bytes)) {
        const size_t n = n_bytes / sizeof(*rows);

        qsort(rows, n, sizeof(*rows), speech_order_rows);
        stp_hosts_explain(rows, n, &h->identities[0], h->n_ranks, place, why,
                          size);
    } else
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
