#include "core/policy/ledger.h"

#include <stdio.h>
#include <string.h>

#include "core/rng.h"

void stp_ledger_begin(struct stp_ledger *ledger, uint32_t pid, uint64_t comm_id,
                      const struct stp_shape *shape)
{
    ledger->size = sizeof(*ledger);
    ledger->pid = pid;
    ledger->comm_id = comm_id;
    ledger->n_ranks = shape->n_ranks;
    ledger->n_nodes = shape->n_nodes;
    snprintf(ledger->gpu, sizeof(ledger->gpu), "%s",
             shape->gpu != NULL ? shape->gpu : "");
    memcpy(ledger->magic, STP_LEDGER_MAGIC, sizeof(ledger->magic));
}

bool stp_ledger_is_valid(const struct stp_ledger *ledger, size_t size)
{
    return size == sizeof(*ledger) && ledger->size == size &&
           memcmp(ledger->magic, STP_LEDGER_MAGIC, sizeof(ledger->magic)) ==
               0 &&
           memchr(ledger->gpu, '\0', sizeof(ledger->gpu)) != NULL &&
           memchr(ledger->what, '\0', sizeof(ledger->what)) != NULL;
}

unsigned stp_ledger_class(uint64_t n_bytes)
{
    unsigned class = 0;

    while (n_bytes > 1) {
        n_bytes >>= 1;
        class ++;
    }
    return class;
}

static bool ledger_is_alike(const struct stp_ledger_entry *a,
                            const struct stp_ledger_entry *b)
{
    return a->coll == b->coll && a->line == b->line && a->algo == b->algo &&
           a->proto == b->proto && a->n_channels == b->n_channels &&
           stp_ledger_class(a->min_bytes) == stp_ledger_class(b->min_bytes);
}

/* Where it is, or would be; NULL if there is no room. */
static struct stp_ledger_entry *
ledger_find(struct stp_ledger *ledger, const struct stp_ledger_entry *wanted)
{
    uint64_t call =
        stp_hash(stp_ledger_class(wanted->min_bytes), (uint8_t)wanted->coll);
    uint64_t pair = stp_hash((uint8_t)wanted->algo, (uint8_t)wanted->proto);
    uint32_t at = (uint32_t)stp_hash(stp_hash(call, wanted->line),
                                     stp_hash(pair, wanted->n_channels));

    for (uint32_t i = 0; i < STP_LEDGER_ENTRIES; i++) {
        struct stp_ledger_entry *e =
            &ledger->entries[(at + i) % STP_LEDGER_ENTRIES];

        if (e->n_calls == 0 || ledger_is_alike(e, wanted))
            return e;
    }
    return NULL;
}

void stp_ledger_count(struct stp_ledger *ledger, int coll, uint64_t n_bytes,
                      const struct stp_choice *choice)
{
    struct stp_ledger_entry call = {.min_bytes = n_bytes,
                                    .max_bytes = n_bytes,
                                    .coll = (int8_t)coll,
                                    .algo = -1,
                                    .proto = -1};
    struct stp_ledger_entry *e;

    if (choice != NULL) {
        call.line = choice->line;
        call.algo = (int8_t)choice->algo;
        call.proto = (int8_t)choice->proto;
        call.n_channels = (uint8_t)choice->n_channels;
    }
    e = ledger_find(ledger, &call);
    if (e == NULL) {
        ledger->n_lost++;
        return;
    }
    if (e->n_calls == 0) {
        *e = call;
        ledger->n_entries++;
    }
    if (n_bytes < e->min_bytes)
        e->min_bytes = n_bytes;
    if (n_bytes > e->max_bytes)
        e->max_bytes = n_bytes;
    e->n_calls++;
}
