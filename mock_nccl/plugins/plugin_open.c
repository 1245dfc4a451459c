#define _GNU_SOURCE /* dlinfo */
#include "plugins/plugin_open.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/log.h"

enum {
    ERROR_SIZE = 256, /* NCCL's buffer for dlerror(), from 2.22 on */
    LINE_SIZE = 1024,
    MAX_ATTEMPTS = 4,
};

#define NET_PREFIX "libnccl-net"

void mock_log_line(const struct mock_loader_rules *rules,
                   enum mock_line_kind said,
                   const struct mock_line_words *words)
{
    const struct mock_line *format = mock_line_find(rules, said);
    char version[16];
    char line[LINE_SIZE];
    const struct mock_blank blanks[] = {{"name", words->name},
                                        {"why", words->why},
                                        {"names", words->names},
                                        {"version", version}};

    if (format == NULL)
        return;
    snprintf(version, sizeof(version), "%d", words->version);
    mock_fill(line, sizeof(line), format->text, blanks, MOCK_N_OF(blanks));
    MOCK_INFO(format->flags, "%s", line);
}

/* ---- one attempt ---- */

struct plugin_open_search {
    const struct mock_loader_rules *rules;
    char names[MAX_ATTEMPTS * PATH_MAX]; /* names that were not found, or
                                            in 2.21 all, each after a space */
    char why[PATH_MAX + ERROR_SIZE];     /* reason of the last failure */
};

static bool plugin_open_has_summary(const struct mock_loader_rules *rules)
{
    return mock_line_find(rules, MOCK_LINE_ONE_FAILED) != NULL;
}

/* Any prefix of STATIC_PLUGIN, in any case, names the program itself. */
static const char *plugin_open_get_file(const struct mock_loader_rules *rules,
                                        const char *name)
{
    bool is_static = rules->has_static_plugin &&
                     strncasecmp(name, "STATIC_PLUGIN", strlen(name)) == 0;

    return is_static ? NULL : name;
}

static void plugin_open_write_name(const struct mock_loader_rules *rules,
                                   const char *prefix, const char *value,
                                   char name_ret[PATH_MAX])
{
    if (prefix == NULL)
        snprintf(name_ret, rules->name_size, "%s", value);
    else
        snprintf(name_ret, rules->name_size, "%s-%s.so", prefix, value);
}

/* Opens 'value', or with a prefix "<prefix>-<value>.so"; the library of a
 * variable is logged. */
static void *plugin_open_attempt(struct plugin_open_search *s,
                                 const char *prefix, const char *value,
                                 bool of_variable)
{
    const bool has_summary = plugin_open_has_summary(s->rules);
    char name[PATH_MAX];
    const struct mock_line_words words = {.name = name, .why = s->why};
    size_t used = s->rules->keeps_last_name ? 0 : strlen(s->names);
    bool is_missing;
    void *library;

    plugin_open_write_name(s->rules, prefix, value, name);
    library = dlopen(plugin_open_get_file(s->rules, name),
                     s->rules->mode | RTLD_LOCAL);
    if (library != NULL && of_variable)
        mock_log_line(s->rules, MOCK_LINE_OPENED, &words);
    if (library != NULL)
        return library;
    snprintf(s->why, has_summary ? sizeof(s->why) : ERROR_SIZE, "%s",
             dlerror());
    /* 2.21 reads errno, which dlopen does not set. NCCL has tried to open
     * absent files before, so it always finds ENOENT; logs of users show it. */
    is_missing =
        has_summary || (strstr(s->why, name) != NULL &&
                        strstr(s->why, "No such file or directory") != NULL);
    mock_log_line(s->rules, MOCK_LINE_DLOPEN, &words);
    mock_log_line(s->rules,
                  is_missing ? MOCK_LINE_NOT_FOUND : MOCK_LINE_NOT_LOADED,
                  &words);
    if (is_missing)
        snprintf(s->names + used, sizeof(s->names) - used, " %s", name);
    return NULL;
}

/* ---- all attempts ---- */

/* Whether the value is a word such as "steptune", and no path or file name. */
static bool plugin_open_is_short_name(const char *value)
{
    size_t len = strlen(value);

    if (strchr(value, '/') != NULL)
        return false;
    return strncmp(value, "lib", 3) != 0 || strcmp(value + len - 3, ".so") != 0;
}

/* Opens the library that a variable names, or the default one. */
static void *plugin_open_find(struct plugin_open_search *s, const char *prefix,
                              const char *value)
{
    char name[32];
    void *library;

    if (value == NULL) {
        snprintf(name, sizeof(name), "%s.so", prefix);
        return plugin_open_attempt(s, NULL, name, false);
    }
    library = plugin_open_attempt(s, NULL, value, true);
    if (library == NULL &&
        (s->rules->extends_files || plugin_open_is_short_name(value)))
        library = plugin_open_attempt(s, prefix, value, true);
    return library;
}

static bool plugin_open_search(const struct mock_loader_rules *rules,
                               const char *value, const char *net,
                               void **library_ret)
{
    struct plugin_open_search s = {.rules = rules};
    bool is_set = value != NULL && *value != '\0';
    bool has_net = net != NULL && *net != '\0';

    *library_ret = NULL;
    if (rules->has_none_keyword && is_set && strcasecmp(value, "none") == 0)
        return false;
    *library_ret = plugin_open_find(&s, rules->prefix, is_set ? value : NULL);
    if (*library_ret == NULL && rules->net == MOCK_NET_BY_NAME)
        *library_ret = plugin_open_find(&s, NET_PREFIX, has_net ? net : NULL);
    if (*library_ret != NULL)
        return true;
    if (plugin_open_has_summary(rules)) {
        /* 2.21 omits the last name, whose failure is the reason that it logs */
        *strrchr(s.names, ' ') = '\0';
        MOCK_LOG_LINE(rules,
                      strchr(s.names + 1, ' ') != NULL ? MOCK_LINE_ALL_FAILED
                                                       : MOCK_LINE_ONE_FAILED,
                      .why = s.why, .names = s.names + 1);
        MOCK_LOG_LINE(rules, MOCK_LINE_NO_LIBRARY, .why = s.why,
                      .names = s.names + 1);
        return true;
    }
    MOCK_LOG_LINE(rules,
                  s.names[0] != '\0' ? MOCK_LINE_MISSING : MOCK_LINE_NO_LIBRARY,
                  .name = value, .names = s.names);
    return true;
}

bool mock_plugin_open(const struct mock_loader_rules *rules, const char *value,
                      const char *net, void **library_ret)
{
    if (value != NULL && (*value != '\0' || rules->reports_empty))
        MOCK_LOG_LINE(rules, MOCK_LINE_SET, .name = value);
    return plugin_open_search(rules, value, net, library_ret);
}

/* Whether it has a net or collnet plugin of a version that NCCL knows, which
 * are symbols of that name; logs which. */
static bool plugin_open_has_net(const struct mock_version *version,
                                void *library, const char *kind,
                                const char *name)
{
    const struct mock_loader_rules *rules = &version->net;

    for (int v = version->newest_net; v >= version->oldest_net; v--) {
        const bool is_newest = v == version->newest_net;
        char symbol[32], why[ERROR_SIZE];
        struct mock_line_words words = {
            .name = symbol, .why = why, .names = name, .version = v};
        const char *const *net;

        snprintf(symbol, sizeof(symbol), "%s_v%d", name, v);
        net = dlsym(library, symbol); /* it begins with a name */
        if (net != NULL) {
            words.name = *net;
            words.why = kind;
            if (rules->release != MOCK_2_21 || kind[0] == 'n')
                mock_log_line(
                    rules, is_newest ? MOCK_LINE_USING_NEWEST : MOCK_LINE_USING,
                    &words);
            return true;
        }
        snprintf(why, sizeof(why), "%s", dlerror());
        if (!is_newest)
            mock_log_line(rules, MOCK_LINE_DLSYM, &words);
        mock_log_line(rules,
                      is_newest                 ? MOCK_LINE_NO_NEWEST
                      : v > version->oldest_net ? MOCK_LINE_NO_SYMBOL
                                                : MOCK_LINE_NO_TUNER,
                      &words);
    }
    return false;
}

void *mock_plugin_load_net(const struct mock_version *version,
                           const char *names)
{
    const struct mock_loader_rules *rules = &version->net;
    const bool is_list = rules->is_list && names != NULL;
    const char *rest = names != NULL ? names : "";
    void *library = NULL;

    if (names == NULL && (library = dlopen(NET_PREFIX ".so", RTLD_NOW)) == NULL)
        return NULL;
    if (library != NULL)
        dlclose(library);
    if (is_list)
        MOCK_LOG_LINE(rules, MOCK_LINE_SET, .name = names);
    do {
        const size_t len = is_list ? strcspn(rest, ",") : strlen(rest);
        char name[PATH_MAX];
        struct mock_line_words words;

        snprintf(name, sizeof(name), "%.*s", (int)len, rest);
        rest += len + (rest[len] == ',');
        if (is_list && name[0] == '\0')
            continue;
        plugin_open_search(rules, name, NULL, &library);
        if (library == NULL)
            continue;
        words = (struct mock_line_words){
            .name = mock_plugin_path(library),
            .names = names != NULL ? name : NET_PREFIX ".so"};
        if (plugin_open_has_net(version, library, "net", "ncclNetPlugin")) {
            plugin_open_has_net(version, library, "collnet",
                                "ncclCollNetPlugin");
            mock_log_line(rules, MOCK_LINE_LOADED, &words);
            return library;
        }
        mock_log_line(rules, MOCK_LINE_UNSUPPORTED, &words);
        dlclose(library);
    } while (*rest != '\0');
    return NULL;
}

void *mock_plugin_open_net(const struct mock_loader_rules *rules,
                           const char *net)
{
    char name[PATH_MAX];
    void *library =
        dlopen(plugin_open_get_file(rules, net), RTLD_NOW | RTLD_LOCAL);

    plugin_open_write_name(rules, NET_PREFIX, net, name);
    if (library == NULL &&
        (rules->extends_files || plugin_open_is_short_name(net)))
        library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return library;
}

const char *mock_plugin_path(void *library)
{
    struct link_map *map;

    if (library == NULL || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
        return "";
    return map->l_name;
}
