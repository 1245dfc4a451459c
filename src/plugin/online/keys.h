/*
 * keys.h - the kinds of messages of a communicator, numbered as they appear
 *
 * Every rank makes the same calls in the same order, so all of them number
 * alike.
 */
#ifndef STP_KEYS_H
#define STP_KEYS_H

#include <stdint.h>

#include "core/learn/bandit.h"

enum { STP_KEYS_SLOTS = 512 }; /* a power of two, well above the keys */

struct stp_keys {
    enum stp_strategy strategy; /* whose bands are meant */
    unsigned n;
    struct {
        uint16_t tag; /* collective and band; 0: free */
        uint8_t key;
    } slots[STP_KEYS_SLOTS];
};

/* The number of a message; STP_BANDIT_KEYS if there is no room for another.
 * 'is_new_ret' says that it appeared for the first time. */
unsigned stp_keys_find(struct stp_keys *keys, int coll, uint64_t n_bytes,
                       bool *is_new_ret);

#endif /* STP_KEYS_H */
