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
    POLL_MS = 1,      /* between looks, at first */
    NAP_MAX_MS = 20,
    NAP_RANKS_PER_MS = 64,
    MAX_ROWS = 1024, /* that are read to tell why */
    KEY_TEXT = 192,
    WORD_TEXT = 8, /* of a decision */
};

#define FOLLOW "follow"
#define ASIDE  "aside"
#define APART  "apart"

/* One host's part of a comparison, as far as it has come. */
struct comparison {
    const struct stp_hosts *hosts;
    struct stp_client client;
    int64_t deadline_ms; /* for all hosts to come */
    bool has_generation;
    uint64_t generation;
    size_t n_published; /* ranks of this host that the store knows of */
    size_t n_arrived;   /* ranks of all hosts, as last heard */
    bool differs;       /* from the reference */
    bool is_apart;      /* in the tuner below ours */
    bool is_counted;    /* 'ready' may hold this host */
    char decision[WORD_TEXT];
};

static const char *comparison_key(const struct comparison *c, const char *name,
                                  char key[KEY_TEXT])
{
    const struct stp_hosts *h = c->hosts;

    snprintf(key, KEY_TEXT, "1/%s/%016" PRIx64 "-%zu/%" PRIu64 "/%s",
             h->store->run, h->comm_id, h->n_ranks, c->generation, name);
    return key;
}

static bool comparison_connect(struct comparison *c, int64_t deadline_ms)
{
    return stp_client_open(&c->client, &c->hosts->store->address, "agree",
                           deadline_ms);
}

static bool comparison_add(struct comparison *c, const char *name, size_t n,
                           size_t *sum_ret)
{
    char key[KEY_TEXT];
    int64_t sum = 0;

    if (!stp_client_add(&c->client, comparison_key(c, name, key), (int64_t)n,
                        &sum))
        return false;
    *sum_ret = (size_t)sum;
    return true;
}

/* ---- arriving ---- */

/* Adds to the tickets of this communicator's id, in a number of all its
 * generations.  In a folder a generation that is incomplete, and that nobody
 * can await any more, is over. */
static bool comparison_add_tickets(struct comparison *c, size_t n,
                                   uint64_t *sum_ret)
{
    const struct stp_hosts *h = c->hosts;
    char key[KEY_TEXT];
    int64_t sum = 0;
    bool is_added;

    snprintf(key, sizeof(key), "1/%s/%016" PRIx64 "-%zu/tickets", h->store->run,
             h->comm_id, h->n_ranks);
    c->client.unit = c->has_generation ? 0 : (int64_t)h->n_ranks;
    c->client.stale_ms = (int64_t)h->store->timeout_ms + 2 * SETTLE_MS;
    is_added = stp_client_add(&c->client, key, (int64_t)n, &sum);
    c->client.unit = 0;
    *sum_ret = (uint64_t)sum;
    return is_added;
}

/* Takes tickets for 'n' ranks. All ranks of a communicator are of one
 * generation, unless another one of the same id and size lacked ranks. */
static bool comparison_take_tickets(struct comparison *c, size_t n)
{
    const size_t n_ranks = c->hosts->n_ranks;
    uint64_t sum, last;

    if (!comparison_add_tickets(c, n, &sum))
        return false;
    last = (sum - 1) / n_ranks;
    if (!c->has_generation)
        c->generation = last;
    c->has_generation = true;
    if ((sum - n) / n_ranks == last && last == c->generation)
        return true;
    snprintf(c->client.why, sizeof(c->client.why),
             "an earlier communicator of the same id is incomplete there");
    return false;
}

/* Tells the store which ranks joined since the last time, all of one
 * fingerprint at once. */
static bool comparison_publish_ranks(struct comparison *c)
{
    const struct stp_hosts *h = c->hosts;
    const size_t size = STP_N_FINGERPRINT_DECIDES * sizeof(uint64_t);

    for (;;) {
        const struct stp_identity *from = &h->identities[c->n_published];
        struct stp_host_row row;
        struct stp_fingerprint reference;
        char key[KEY_TEXT];
        size_t n = 0, size_now = 0;

        while (c->n_published + n < h->n_ranks &&
               stp_identity_is_full(&from[n]) &&
               memcmp(&from[n].fingerprint, &from->fingerprint,
                      sizeof(struct stp_fingerprint)) == 0)
            n++;
        if (n == 0)
            return true;
        row = (struct stp_host_row){.identity = *from, .n_ranks = (uint32_t)n};
        snprintf(row.name, sizeof(row.name), "%s", h->store->host);
        if (!comparison_take_tickets(c, n) ||
            !stp_client_append(&c->client, comparison_key(c, "hosts", key),
                               &row, sizeof(row)) ||
            !stp_client_compare_set(&c->client,
                                    comparison_key(c, "reference", key),
                                    from->fingerprint.part, size, &reference,
                                    sizeof(reference), &size_now))
            return false;
        c->differs |= size_now != size ||
                      memcmp(reference.part, from->fingerprint.part, size) != 0;
        c->is_apart |= size_now == size &&
                       reference.part[STP_FINGERPRINT_LOWER] !=
                           from->fingerprint.part[STP_FINGERPRINT_LOWER];
        if (!comparison_add(c, "arrived", n, &c->n_arrived))
            return false;
        c->n_published += n;
    }
}

/* Waits until all ranks of all hosts have arrived or the time is over; false if
 * the store was lost. */
static bool comparison_gather(struct comparison *c)
{
    const struct stp_hosts *h = c->hosts;
    /* The more ranks there are, the more hosts may ask. */
    const unsigned max_ms =
        NAP_MAX_MS + (unsigned)(h->n_ranks / NAP_RANKS_PER_MS);

    for (unsigned ms = POLL_MS;; ms = ms < max_ms / 2 ? ms * 2 : max_ms) {
        const struct timespec pause = {.tv_nsec = ms * 1000000L};

        if (!comparison_publish_ranks(c))
            return false;
        if (c->n_arrived >= h->n_ranks || stp_now_ms() >= c->deadline_ms ||
            h->is_cancelled(h->user))
            return true;
        nanosleep(&pause, NULL);
        if (!comparison_add(c, "arrived", 0, &c->n_arrived))
            return false;
    }
}

/* ---- deciding ---- */

/* Writes the decision unless the store has one, wakes the hosts that await it,
 * and returns the one in force. */
static bool comparison_decide(struct comparison *c, const char *word)
{
    char now[WORD_TEXT] = "";
    char key[KEY_TEXT];
    size_t size = 0;

    if (!stp_client_compare_set(&c->client, comparison_key(c, "decision", key),
                                word, strlen(word), now, sizeof(now) - 1,
                                &size))
        return false;
    memcpy(c->decision, now, sizeof(now));
    stp_client_set(&c->client, comparison_key(c, "decided", key), now, size);
    return true;
}

/* Decides that all step aside, and ends the wait of hosts that await more ranks
 * by making 'arrived' larger than their number.  A generation that lacks ranks
 * ends by taking their tickets: those that come next are another one. */
static bool comparison_refuse(struct comparison *c)
{
    const size_t n_ranks = c->hosts->n_ranks;
    uint64_t sum;
    bool is_added;

    if (!comparison_decide(c, c->is_apart ? APART : ASIDE) ||
        !comparison_add(c, "arrived", n_ranks, &c->n_arrived))
        return false;
    if (c->hosts->is_cancelled(c->hosts->user))
        return true;
    is_added = comparison_add_tickets(c, 0, &sum);
    if (sum / n_ranks == c->generation)
        while (is_added && sum % n_ranks != 0)
            is_added = comparison_add_tickets(c, n_ranks - sum % n_ranks, &sum);
    return is_added;
}

static bool comparison_get_ready(struct comparison *c)
{
    const struct stp_hosts *h = c->hosts;
    char now[WORD_TEXT] = "";
    char key[KEY_TEXT];
    size_t n_ready = 0, size = 0;

    if (c->differs || c->n_arrived != h->n_ranks || h->is_cancelled(h->user) ||
        !h->commit(h->user))
        return comparison_refuse(c);
    c->is_counted = true;
    if (!comparison_add(c, "ready", c->n_published, &n_ready))
        return false;
    if (n_ready == h->n_ranks)
        return comparison_decide(c, FOLLOW);
    /* Another host decides. */
    c->client.deadline_ms = c->deadline_ms;
    if (!stp_client_get(&c->client, comparison_key(c, "decided", key), now,
                        sizeof(now) - 1, &size))
        return false;
    memcpy(c->decision, now, sizeof(now));
    /* The copy is a hint: what it should be is in the decision. */
    return strcmp(now, FOLLOW) == 0 || strcmp(now, ASIDE) == 0 ||
           strcmp(now, APART) == 0 || comparison_decide(c, ASIDE);
}

/* Reads the decision over another connection, after the store was lost or the
 * time was over. A host without a generation has no decision to read. */
static void comparison_read_decision(struct comparison *c)
{
    const struct stp_client lost = c->client;
    bool is_there = true, is_open;
    char key[KEY_TEXT];

    if (!c->has_generation)
        return;
    stp_client_close(&c->client);
    is_open = comparison_connect(c, stp_now_ms() + SETTLE_MS);
    /* A store that was started anew, without its keys, does not know whether
     * the hosts decided; a host that is not ready knows that they did not. */
    if (is_open && c->is_counted) {
        if (!stp_client_check(&c->client, comparison_key(c, "reference", key),
                              &is_there))
            return;
        if (!is_there)
            snprintf(c->client.why, sizeof(c->client.why), "its keys are gone");
    }
    if (!is_open || (is_there && !comparison_refuse(c)))
        memcpy(c->client.why, lost.why, sizeof(lost.why));
}

/* ---- in words ---- */

static int comparison_order_rows(const void *a, const void *b)
{
    return strncmp(((const struct stp_host_row *)a)->name,
                   ((const struct stp_host_row *)b)->name, STP_HOST_NAME);
}

static void comparison_explain(struct comparison *c, char *why, size_t size)
{
    const struct stp_hosts *h = c->hosts;
    const size_t max = MAX_ROWS * sizeof(struct stp_host_row);
    struct stp_host_row *rows = NULL;
    char place[STP_STORE_PLACE];
    char key[KEY_TEXT];
    size_t n_bytes = 0;

    stp_store_describe(&h->store->address, place);
    if (c->decision[0] == '\0' && c->is_counted) {
        snprintf(why, size,
                 "%s was lost when all hosts held the same, before it said "
                 "that all know (%s): others may follow their rules, and the "
                 "job then hangs",
                 place, c->client.why);
        return;
    }
    if (c->decision[0] == '\0') {
        snprintf(why, size,
                 "%s, where hosts compare what they hold, %s: %s "
                 "(STEPTUNE_AGREE=shm compares within hosts only)",
                 place, c->has_generation ? "was lost" : "cannot be used",
                 c->client.why);
        return;
    }
    rows = malloc(max);
    c->client.deadline_ms = stp_now_ms() + SETTLE_MS;
    if (rows != NULL &&
        stp_client_get(&c->client, comparison_key(c, "hosts", key), rows, max,
                       &n_bytes)) {
        const size_t n = n_bytes / sizeof(*rows);

        qsort(rows, n, sizeof(*rows), comparison_order_rows);
        stp_hosts_explain(rows, n, &h->identities[0], h->n_ranks, place, why,
                          size);
    } else
        snprintf(why, size, "the hosts decided in %s to step aside", place);
    free(rows);
}

enum stp_hosts_outcome stp_hosts_compare(const struct stp_hosts *hosts,
                                         char *why, size_t size)
{
    struct comparison c = {
        .hosts = hosts, .deadline_ms = stp_now_ms() + hosts->store->timeout_ms};
    enum stp_hosts_outcome outcome;

    if (!comparison_connect(&c, c.deadline_ms + SETTLE_MS) ||
        !comparison_gather(&c) || !comparison_get_ready(&c))
        comparison_read_decision(&c);
    outcome = strcmp(c.decision, FOLLOW) == 0  ? STP_HOSTS_FOLLOW
              : strcmp(c.decision, APART) == 0 ? STP_HOSTS_APART
                                               : STP_HOSTS_ASIDE;
    if (outcome != STP_HOSTS_FOLLOW)
        comparison_explain(&c, why, size);
    stp_client_close(&c.client);
    return outcome;
}
