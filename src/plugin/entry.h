/* entry.h - the state of the calling thread that belongs to the application: it
 * must not harm a plugin, and a plugin must not change it
 *
 * The application's locale may have a decimal comma, and write(2) beyond
 * `ulimit -f` raises SIGXFSZ, which ends a process. Code that reads or prints
 * numbers, or writes files, runs within a struct stp_entry: numbers have a
 * point there, and such a write fails instead. */
#pragma once

#include <locale.h>
#include <signal.h>
#include <stdbool.h>

/* The application's own state, which stp_entry_end() restores. */
struct stp_entry {
    locale_t locale;
    bool is_limited; /* the size of files */
    sigset_t signals;
    bool was_pending; /* SIGXFSZ, which is the application's own */
};

/* Each begin has its end, in the same thread; they may nest. */
void stp_entry_begin(struct stp_entry *entry);
void stp_entry_end(const struct stp_entry *entry);
