/* conf.h - files from which NCCL takes variables that the environment lacks
 *
 * $NCCL_CONF_FILE, else .nccl.conf in the user's home; then /etc/nccl.conf.
 * The first that names a variable sets it, of whatever name, in the whole
 * process.  (NCCL's src/misc/param.cc.)  What the environment has hides that:
 * NCCL_TUNER_PLUGIN, where it names ours. */
#pragma once

#include <stdbool.h>

enum { STP_CONF_FILES = 2, STP_CONF_TEXT = 1024, STP_CONF_MAX = 1 << 20 };

/* The path of file 'i', in the order in which they are read; false if there is
 * none.  'root' is "" but in tests; 'home' NULL if there is none. */
bool stp_conf_path(int i, const char *root, const char *home,
                   char path[STP_CONF_TEXT]);

struct stp_conf_line {
    const char *path;
    unsigned number; /* from 1 */
    char *name;
    char *value; /* the rest of the line; NULL: it has no '=' */
};

/* Gives each line of a file's text, which is cut into pieces, to 'take', but
 * for comments. */
void stp_conf_read(const char *path, char *text,
                   void (*take)(void *user, const struct stp_conf_line *line),
                   void *user);

/* A variable in these files. */
struct stp_conf_value {
    const char *name;
    char value[STP_CONF_TEXT];
    char where[STP_CONF_TEXT + 16]; /* "FILE:LINE" */
};

/* Finds what they have for 'name', as NCCL does whose tuners' newest version is
 * 'newest'; false if that is nothing.  Files that another user may have written
 * have nothing (file.h). */
bool stp_conf_find(const char *root, int newest, const char *name,
                   struct stp_conf_value *value_ret);
