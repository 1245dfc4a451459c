#include "launch/store_table.h"

#include <stdlib.h>
#include <string.h>

struct stp_value *stp_value_new(size_t size)
{
    struct stp_value *value = malloc(sizeof(*value) + size);

    if (value != NULL)
        *value = (struct stp_value){.n_holders = 1, .size = size};
    return value;
}

struct stp_value *stp_value_of(const void *data, size_t size)
{
    struct stp_value *value = stp_value_new(size);

    if (value != NULL && size > 0)
        memcpy(value->bytes, data, size);
    return value;
}

void stp_value_drop(struct stp_value *value)
{
    if (value != NULL && --value->n_holders == 0)
        free(value);
}

static size_t table_bucket(const char *key)
{
    uint32_t hash = UINT32_C(2166136261);

    for (const char *s = key; *s != '\0'; s++)
        hash = (hash ^ (unsigned char)*s) * UINT32_C(16777619);
    return hash % STP_STORE_TABLE_BUCKETS;
}

struct stp_entry *stp_store_table_find(const struct stp_store_table *table,
                                       const char *key)
{
    struct stp_entry *entry = table->buckets[table_bucket(key)];

    while (entry != NULL && strcmp(entry->key, key) != 0)
        entry = entry->next;
    return entry;
}

struct stp_value *stp_store_table_value(const struct stp_store_table *table,
                                        const char *key)
{
    const struct stp_entry *entry = stp_store_table_find(table, key);

    return entry == NULL ? NULL : entry->value;
}

struct stp_entry *stp_store_table_add(struct stp_store_table *table,
                                      const char *key)
{
    struct stp_entry **bucket = &table->buckets[table_bucket(key)];
    struct stp_entry *entry = stp_store_table_find(table, key);
    const size_t size = strlen(key) + 1;

    if (entry != NULL || table->n_entries == STP_STORE_TABLE_MAX)
        return entry;
    entry = calloc(1, sizeof(*entry) + size);
    if (entry == NULL)
        return NULL;
    memcpy(entry->key, key, size);
    entry->next = *bucket;
    *bucket = entry;
    table->n_entries++;
    return entry;
}

void stp_store_table_set(struct stp_store_table *table, struct stp_entry *entry,
                         struct stp_value *value, bool is_once)
{
    if (entry->value != NULL) {
        table->n_bytes -= entry->is_once ? 0 : entry->value->size;
        table->n_values--;
    }
    stp_value_drop(entry->value);
    entry->value = value;
    entry->is_once = is_once;
    if (value != NULL) {
        table->n_bytes += is_once ? 0 : value->size;
        table->n_values++;
    }
}

void stp_store_table_tidy(struct stp_store_table *table,
                          struct stp_entry *entry)
{
    struct stp_entry **at = &table->buckets[table_bucket(entry->key)];

    if (entry->value != NULL || entry->waiting != NULL)
        return;
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    free(entry);
    table->n_entries--;
}

void stp_store_table_free(struct stp_store_table *table)
{
    for (size_t i = 0; i < STP_STORE_TABLE_BUCKETS; i++) {
        while (table->buckets[i] != NULL) {
            /* An entry is in the bucket of its key, so that it leaves this one.
             */
            // NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
            stp_store_table_set(table, table->buckets[i], NULL, false);
            stp_store_table_tidy(table, table->buckets[i]);
        }
    }
}
