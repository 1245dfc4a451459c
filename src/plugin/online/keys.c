#include "plugin/online/keys.h"

unsigned stp_keys_find(struct stp_keys *keys, int coll, uint64_t n_bytes,
                       bool *is_new_ret)
{
    unsigned band = stp_bandit_band(keys->strategy, n_bytes);
    uint16_t tag = (uint16_t)((unsigned)(coll + 1) << 10 | band);
    uint32_t at = tag * UINT32_C(0x9e3779b1) >> 16;

    *is_new_ret = false;
    for (uint32_t i = 0; i < STP_KEYS_SLOTS; i++) {
        uint32_t slot = (at + i) % STP_KEYS_SLOTS;

        if (keys->slots[slot].tag == tag)
            return keys->slots[slot].key;
        if (keys->slots[slot].tag != 0)
            continue;
        if (keys->n == STP_BANDIT_KEYS)
            return STP_BANDIT_KEYS;
        *is_new_ret = true;
        keys->slots[slot].tag = tag;
        keys->slots[slot].key = (uint8_t)keys->n;
        return keys->n++;
    }
    return STP_BANDIT_KEYS;
}
