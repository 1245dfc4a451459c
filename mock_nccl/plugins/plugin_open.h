/* plugin_open.h - opens a plugin's library, and logs as each version does */
#pragma once

#include "versions/versions.h"

/* The texts that replace the <words> of a line. */
struct mock_line_words {
    const char *name;
    const char *why;
    const char *names;
    int version;
};

/* Logs the line as INFO, unless the version lacks it. */
void mock_log_line(const struct mock_loader_rules *rules,
                   enum mock_line_kind said,
                   const struct mock_line_words *words);

/* The same, with the members that the line has. */
#define MOCK_LOG_LINE(rules, said, ...)                                        \
    mock_log_line(rules, said, &(struct mock_line_words){__VA_ARGS__})

/* Opens the library of 'value' of NCCL_TUNER_PLUGIN or NCCL_PROFILER_PLUGIN, or
 * if that fails and the version searches by name, the library of
 * NCCL_NET_PLUGIN = 'net'; NULL for unset variables.  *library_ret is NULL if
 * no library opens.  Returns false if the value disables the search. */
bool mock_plugin_open(const struct mock_loader_rules *rules, const char *value,
                      const char *net, void **library_ret);

/* Loads the net plugin that NCCL_NET_PLUGIN names, of a list the first that is
 * one; NULL: libnccl-net.so, of which nothing is said if it is not there.  What
 * its init does is not played: it has a network. */
void *mock_plugin_load_net(const struct mock_version *version,
                           const char *names);

/* Opens that library once more, without a log line. */
void *mock_plugin_open_net(const struct mock_loader_rules *rules,
                           const char *net);

/* The path of an open library; "" for the program itself. */
const char *mock_plugin_path(void *library);
