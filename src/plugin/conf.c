#include "plugin/conf.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/file.h"
#include "plugin/settings.h"

enum { FIRST_BY_HOME = 6 }; /* 2.30, which takes $HOME, and CRLF line ends */

bool stp_conf_path(int i, const char *root, const char *home,
                   char path[STP_CONF_TEXT])
{
    const char *named = stp_setting("NCCL_CONF_FILE");

    if (i == 0 && named == NULL && home == NULL)
        return false;
    snprintf(path, STP_CONF_TEXT, "%s%s",
             i > 0           ? root
             : named != NULL ? named
                             : home,
             i > 0           ? "/etc/nccl.conf"
             : named != NULL ? ""
                             : "/.nccl.conf");
    return true;
}

void stp_conf_read(const char *path, char *text,
                   void (*take)(void *user, const struct stp_conf_line *line),
                   void *user)
{
    struct stp_conf_line line = {.path = path};

    for (char *end; *text != '\0'; text = end) {
        end = text + strcspn(text, "\n");
        if (*end == '\n')
            *end++ = '\0';
        line.number++;
        line.name = text;
        line.value = strchr(text, '=');
        if (*text == '#')
            continue;
        if (line.value != NULL)
            *line.value++ = '\0';
        take(user, &line);
    }
}

static void conf_take(void *user, const struct stp_conf_line *line)
{
    struct stp_conf_value *v = user;

    if (v->where[0] != '\0' || line->value == NULL ||
        strcmp(line->name, v->name) != 0)
        return;
    snprintf(v->value, sizeof(v->value), "%s", line->value);
    snprintf(v->where, sizeof(v->where), "%s:%u", line->path, line->number);
}

bool stp_conf_find(const char *root, int newest, const char *name,
                   struct stp_conf_value *value_ret)
{
    char path[STP_CONF_TEXT], buf[4096], *text;
    struct passwd user = {.pw_dir = NULL}, *found;
    const char *home = getenv("HOME");
    size_t len;

    *value_ret = (struct stp_conf_value){.name = name};
    if (newest < FIRST_BY_HOME && root[0] == '\0' &&
        getpwuid_r(getuid(), &user, buf, sizeof(buf), &found) == 0)
        home = user.pw_dir;
    for (int i = 0; i < STP_CONF_FILES; i++) {
        if (!stp_conf_path(i, root, home, path) ||
            stp_file_read(path, STP_CONF_MAX, &text, &len, NULL) != STP_OK)
            continue;
        stp_conf_read(path, text, conf_take, value_ret);
        free(text);
    }
    if (newest >= FIRST_BY_HOME)
        value_ret->value[strcspn(value_ret->value, "\r")] = '\0';
    return value_ret->value[0] != '\0';
}
