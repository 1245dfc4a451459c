/*
 * plugin_open.h - opens a plugin's library, and says what each version says
 */
#ifndef MOCK_PLUGIN_OPEN_H
#define MOCK_PLUGIN_OPEN_H

#include "versions/versions.h"

/* What fills the <words> of a line. */
struct mock_line_words {
    const char *name;
    const char *why;
    const char *names;
    int version;
};

/* Logs the line as INFO, unless this version has none. */
void mock_log_line(const struct mock_loader_rules *rules,
                   enum mock_line_kind said,
                   const struct mock_line_words *words);

/*
 * Opens the library that 'value' of NCCL_TUNER_PLUGIN or NCCL_PROFILER_PLUGIN
 * means, or where that fails and the version goes by names, the one that
 * NCCL_NET_PLUGIN = 'net' means; NULL if the variable is unset or empty.
 * Returns NULL if none opens.
 */
void *mock_plugin_open(const struct mock_loader_rules *rules, const char *value,
                       const char *net);

/* Opens the net plugin for the net's own sake, without a word. */
void *mock_plugin_open_net(const struct mock_loader_rules *rules,
                           const char *net);

/* The path of an open library; "" of the program itself. */
const char *mock_plugin_path(void *library);

#endif /* MOCK_PLUGIN_OPEN_H */
