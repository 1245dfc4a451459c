/* store_table.h - the keys of a store and their values */
#ifndef STP_STORE_TABLE_H
#define STP_STORE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of a value, of which several may hold the same. */
struct stp_value {
    size_t n_holders;
    uint64_t size;
    unsigned char bytes[];
};

/* With one holder; NULL without memory. */
struct stp_value *stp_value_new(size_t size);
struct stp_value *stp_value_of(const void *data, size_t size);
void stp_value_drop(struct stp_value *value); /* NULL is allowed */

/* A key that has a value, or that connections wait for. */
struct stp_entry {
    struct stp_entry *next;
    struct stp_value *value;
    struct connection *waiting;
    bool is_once; /* the first GET deletes it */
    char key[];
};

enum {
    STP_STORE_TABLE_BUCKETS = 4096,
    STP_STORE_TABLE_MAX = 65536 /* entries */
};

/* Empty when all zero. */
struct stp_store_table {
    struct stp_entry *buckets[STP_STORE_TABLE_BUCKETS];
    size_t n_entries, n_values;
    size_t n_bytes; /* of values, but those that are read once */
};

/* NULL if there is none. */
struct stp_entry *stp_store_table_find(const struct stp_store_table *table,
                                       const char *key);
struct stp_value *stp_store_table_value(const struct stp_store_table *table,
                                        const char *key);

/* NULL without room or memory. */
struct stp_entry *stp_store_table_add(struct stp_store_table *table,
                                      const char *key);

/* Takes over the value; NULL for none. */
void stp_store_table_set(struct stp_store_table *table, struct stp_entry *entry,
                         struct stp_value *value, bool is_once);

/* Frees an entry without a value that nothing waits for. */
void stp_store_table_tidy(struct stp_store_table *table,
                          struct stp_entry *entry);

/* Frees all; nothing may wait. */
void stp_store_table_free(struct stp_store_table *table);

#endif /* STP_STORE_TABLE_H */
