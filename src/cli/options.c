/* options.c - one parser, on top of argp, for the tables of all commands */
#include "cli/options.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/names.h"
#include "core/nearest.h"
#include "core/text.h"

/* ---- errors ---- */

/* As argp's own errors are, but with nothing that a terminal obeys. */
static _Noreturn void option_refuse(const char *name, const char *text)
{
    stp_complain("%s", text);
    fprintf(stderr, "Try `%s --help' or `%s --usage' for more information.\n",
            name, name);
    exit(argp_err_exit_status);
}

void stp_usage_error(const struct argp_state *state, const char *fmt, ...)
{
    char text[STP_CLI_PATH];
    va_list va;

    va_start(va, fmt);
    vsnprintf(text, sizeof(text), fmt, va);
    va_end(va);
    option_refuse(state->name, text);
}

/* ---- kinds ---- */

static char expected[256];

const char *stp_option_flag(const struct stp_option *option, const char *text,
                            void *at)
{
    (void)option;
    (void)text;
    *(bool *)at = true;
    return NULL;
}

/* "a, b or c" */
static const char *option_list_words(const char *const *words)
{
    size_t len = 0;

    for (size_t i = 0; words[i] != NULL; i++)
        len += (size_t)snprintf(&expected[len], sizeof(expected) - len, "%s%s",
                                i == 0                 ? ""
                                : words[i + 1] == NULL ? " or "
                                                       : ", ",
                                words[i]);
    return expected;
}

/* The place of a word in a list; -1 if it is not there. */
static int option_find_word(const char *const *words, const char *text)
{
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    return -1;
}

const char *stp_option_text(const struct stp_option *option, const char *text,
                            void *at)
{
    if (option->words != NULL && option_find_word(option->words, text) < 0)
        return option_list_words(option->words);
    *(const char **)at = text;
    return NULL;
}

static const char *option_read_number(const struct stp_option *option,
                                      const char *text, uint64_t max,
                                      uint64_t *n_ret)
{
    const uint64_t min = (uint64_t)option->min;
    uint64_t n;

    if (stp_parse_u64(text, strlen(text), &n) && n >= min && n <= max) {
        *n_ret = n;
        return NULL;
    }
    if (max == UINT64_MAX)
        snprintf(expected, sizeof(expected), "a number from %ju",
                 (uintmax_t)min);
    else
        snprintf(expected, sizeof(expected), "a number from %ju to %ju",
                 (uintmax_t)min, (uintmax_t)max);
    return expected;
}

const char *stp_option_count(const struct stp_option *option, const char *text,
                             void *at)
{
    uint64_t n = 0;
    const char *wrong = option_read_number(
        option, text, option->max > 0 ? (uint64_t)option->max : 1000000, &n);

    if (wrong == NULL)
        *(unsigned *)at = (unsigned)n;
    return wrong;
}

const char *stp_option_number(const struct stp_option *option, const char *text,
                              void *at)
{
    return option_read_number(
        option, text, option->max > 0 ? (uint64_t)option->max : UINT64_MAX, at);
}

const char *stp_option_size(const struct stp_option *option, const char *text,
                            void *at)
{
    uint64_t size;

    if (!stp_parse_size(text, strlen(text), &size) || size < 1 ||
        (double)size < option->min ||
        (option->max > 0 && (double)size > option->max))
        return "a size such as 8, 64K or 1G";
    *(uint64_t *)at = size;
    return NULL;
}

const char *stp_option_double(const struct stp_option *option, const char *text,
                              void *at)
{
    double value;

    if (!stp_parse_double(text, strlen(text), &value) || value < option->min ||
        (option->above && value <= option->min) ||
        (option->max > 0 && value > option->max)) {
        snprintf(expected, sizeof(expected), "a number %s %g",
                 option->above ? "above" : "from", option->min);
        return expected;
    }
    *(double *)at = value;
    return NULL;
}

const char *stp_option_share(const struct stp_option *option, const char *text,
                             void *at)
{
    const size_t len = strlen(text);
    const bool is_percent = len > 0 && text[len - 1] == '%';
    double share;

    if (stp_parse_double(text, is_percent ? len - 1 : len, &share)) {
        share = is_percent ? share / 100 : share;
        if (share >= 0 && share <= 1) {
            *(double *)at = share;
            return NULL;
        }
    }
    snprintf(expected, sizeof(expected), "a share from 0%% to 100%% such as %s",
             option->value);
    return expected;
}

const char *stp_option_duration(const struct stp_option *option,
                                const char *text, void *at)
{
    static const char units[] = "smh";
    static const unsigned seconds[] = {1, 60, 3600};
    enum { LONGEST = 30 * 24 * 3600 };
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    const char *unit = *end != '\0' ? strchr(units, *end) : units;

    (void)option;
    if (*text >= '0' && *text <= '9' && n > 0 && n <= LONGEST && unit != NULL &&
        (*end == '\0' || end[1] == '\0') &&
        n * seconds[unit - units] <= LONGEST) {
        *(unsigned *)at = (unsigned)(n * seconds[unit - units]);
        return NULL;
    }
    return "a time from 1s to 30 days such as 60s, 5m or 2h";
}

const char *stp_option_word(const struct stp_option *option, const char *text,
                            void *at)
{
    int value;

    if (option->words != NULL) {
        value = option_find_word(option->words, text);
        if (value < 0)
            return option_list_words(option->words);
        value += (int)option->min;
    } else {
        value = option->from_name(text, strlen(text));
        if (value < 0 || value < (int)option->min ||
            (option->max > 0 && value > (int)option->max))
            return option->expected;
    }
    *(int *)at = value;
    return NULL;
}

const char *stp_option_coll(const struct stp_option *option, const char *text,
                            void *at)
{
    int coll = stp_coll_from_name(text, strlen(text));

    if (coll < 0) {
        snprintf(expected, sizeof(expected), "%s of %s",
                 option->n > 0 ? "each at most once" : "one", stp_coll_names());
        return expected;
    }
    *(int *)at = coll;
    return NULL;
}

/* ---- lists ---- */

/* "all" of a list of words. */
static void option_take_all(const struct stp_option *option, char *table)
{
    int *values = (int *)(void *)(table + option->at);
    unsigned n = 0;

    for (int i = (int)option->min; i <= (int)option->max; i++)
        values[n++] = i;
    *(unsigned *)(void *)(table + option->n) = n;
}

/* What is wrong with entry 'i' beside the ones before it; NULL: nothing. */
static const char *option_compare_entries(const struct stp_option *option,
                                          const char *entries, unsigned i,
                                          const char *word)
{
    const char *entry = entries + i * option->size;

    for (unsigned k = 0; !option->repeats && k < i; k++)
        if (memcmp(entries + k * option->size, entry, option->size) == 0) {
            snprintf(expected, sizeof(expected), "%s at most once", word);
            return expected;
        }
    if (option->is_ascending && i > 0 &&
        *(const unsigned *)(const void *)entry <=
            *(const unsigned *)(const void *)(entry - option->size))
        return option->expected;
    return NULL;
}

/* Says at '*text' which part of the list is wrong. */
static const char *option_read_list(const struct stp_option *option,
                                    const char **text, char *table)
{
    static char word[64];
    struct stp_field fields[64];
    const size_t n = stp_split(*text, strlen(*text), fields, 64);

    if (option->has_all && strcmp(*text, "all") == 0) {
        option_take_all(option, table);
        return NULL;
    }
    if (n > option->most || n < option->least) {
        snprintf(expected, sizeof(expected), "at most %u entries",
                 option->most);
        return option->expected != NULL ? option->expected : expected;
    }
    for (unsigned i = 0; i < n; i++) {
        char *entries = table + option->at;
        const char *wrong;

        snprintf(word, sizeof(word), "%.*s", (int)fields[i].len, fields[i].s);
        wrong = option->kind(option, word, entries + i * option->size);
        if (wrong != NULL) {
            *text = word;
            return wrong;
        }
        wrong = option_compare_entries(option, entries, i, word);
        if (wrong != NULL)
            return wrong;
    }
    *(unsigned *)(void *)(table + option->n) = (unsigned)n;
    return NULL;
}

/* ---- a command line ---- */

enum {
    MAX_OPTIONS = 64,
    FIRST_KEY = 0x100, /* of options without a letter */
};

struct option_row {
    const struct stp_option *option;
    char *table; /* the struct that it writes into */
    bool is_given;
};

/* A command line that is read. */
struct stp_given {
    const struct stp_command_line *line;
    char *options;
    struct option_row rows[MAX_OPTIONS]; /* by key, if it is no letter */
    int n_rows;
    struct argp_option argp[MAX_OPTIONS]; /* aliases and headings, too */
    int n_argp;
    char *help[MAX_OPTIONS];
};

static const char *option_read(const struct option_row *row, const char **text)
{
    const struct stp_option *option = row->option;
    const char *wrong =
        option->n > 0 ? option_read_list(option, text, row->table)
                      : option->kind(option, *text, row->table + option->at);

    return wrong != NULL && option->expected != NULL &&
                   strstr(wrong, " at most once") == NULL
               ? option->expected
               : wrong;
}

/* What the option expected is a list of words. */
static bool option_has_words(const struct stp_option *option)
{
    return option->words != NULL || option->from_name != NULL ||
           option->kind == stp_option_coll;
}

/* "-b", or "--min-gain". */
static const char *option_name(const struct stp_option *option)
{
    static char name[2][32]; /* of two options of a sentence */
    static int next;

    next = !next;
    if (option->key != 0)
        snprintf(name[next], sizeof(name[next]), "-%c", option->key);
    else
        snprintf(name[next], sizeof(name[next]), "--%s", option->name);
    return name[next];
}

static bool option_is_list(const struct stp_option *option)
{
    return option->n > 0 ||
           (option->arg != NULL && strcmp(option->arg, "LIST") == 0);
}

static error_t option_parse_row(struct option_row *row, const char *text,
                                struct argp_state *state)
{
    const struct stp_option *option = row->option;
    const char *wrong = option_read(row, &text);
    char hint[STP_HINT] = "";

    if (wrong != NULL) {
        if (option_has_words(option))
            stp_hint_nearest(text, strlen(text), wrong, hint);
        stp_usage_error(state, "%s '%s', expected %s%s", option_name(option),
                        text, wrong, hint);
    }
    if (row->is_given && option_is_list(option))
        stp_usage_error(state, "%s twice, expected one comma-separated list",
                        option_name(option));
    row->is_given = true;
    return 0;
}

/* ---- the whole of it ---- */

static const struct option_row *given_find(const struct stp_given *p,
                                           const char *name)
{
    for (int i = 0; i < p->n_rows; i++)
        if (strcmp(p->rows[i].option->name, name) == 0)
            return &p->rows[i];
    return NULL;
}

const void *stp_given_value(const struct stp_given *given, const char *name,
                            unsigned *n_ret)
{
    const struct option_row *row = given_find(given, name);

    if (row == NULL)
        return NULL;
    *n_ret =
        row->option->n > 0
            ? *(const unsigned *)(const void *)(row->table + row->option->n)
            : row->is_given || row->option->value != NULL;
    return row->table + row->option->at;
}

int stp_given_arguments(const struct stp_given *given)
{
    const struct stp_arguments *arguments =
        (const void *)(given->options + given->line->arguments);

    return given->line->args_doc != NULL ? arguments->n : 0;
}

bool stp_is_given(const struct stp_given *given, const char *name)
{
    const struct option_row *row = given_find(given, name);

    return row != NULL && row->is_given;
}

const char *stp_given_name(const struct stp_given *given, const char *name)
{
    return option_name(given_find(given, name)->option);
}

static const char *option_get_path(const struct option_row *row)
{
    return row->option->path == STP_PATH_NONE
               ? NULL
               : *(const char *const *)(const void *)(row->table +
                                                      row->option->at);
}

/* Whether the output 'path' is a file that the command reads. */
static bool option_is_input(const struct stp_given *p, const char *path)
{
    const struct stp_arguments *arguments =
        (const void *)(p->options + p->line->arguments);

    for (int i = 0; i < p->n_rows; i++) {
        const char *input = option_get_path(&p->rows[i]);

        if (input != NULL && p->rows[i].option->path == STP_PATH_READ &&
            stp_path_is_same(path, input))
            return true;
    }
    for (int i = 0; p->line->reads && i < arguments->n; i++)
        if (stp_path_is_same(path, arguments->v[i]))
            return true;
    return false;
}

static void option_check_path(const struct stp_given *p,
                              const struct stp_option *option, const char *path,
                              struct argp_state *state)
{
    char why[STP_RULE_TEXT];

    if (stp_path_objects(option->path, path, why))
        stp_usage_error(state, "%s '%s' %s", option_name(option), path, why);
    if (option->path != STP_PATH_READ && option_is_input(p, path))
        stp_usage_error(
            state,
            "%s '%s' is a file that is read, expected another one to "
            "write",
            option_name(option), path);
}

static void option_check_paths(const struct stp_given *p,
                               struct argp_state *state)
{
    const struct stp_arguments *arguments =
        (const void *)(p->options + p->line->arguments);
    char why[STP_RULE_TEXT];

    for (int i = 0; i < p->n_rows; i++) {
        const char *path = option_get_path(&p->rows[i]);

        if (path != NULL)
            option_check_path(p, p->rows[i].option, path, state);
    }
    for (int i = 0; p->line->reads && i < arguments->n; i++)
        if (stp_path_objects(STP_PATH_READ, arguments->v[i], why))
            stp_usage_error(state, "'%s' %s", arguments->v[i], why);
}

/* Behind the last option and argument. */
static void option_check_all(const struct stp_given *p,
                             struct argp_state *state)
{
    const char *command = strchr(state->name, ' ');
    char why[STP_RULE_TEXT];

    if (stp_rules_object(command != NULL ? command + 1 : "", p, why))
        stp_usage_error(state, "%s", why);
    option_check_paths(p, state);
    if (p->line->check != NULL)
        p->line->check(p->options, state);
}

static error_t option_take_arguments(struct stp_given *p,
                                     struct argp_state *state)
{
    struct stp_arguments *arguments = (void *)(p->options + p->line->arguments);
    char **v = state->argv + state->next;

    if (p->line->args_doc == NULL)
        stp_usage_error(state, "'%s', expected options only", v[0]);
    arguments->v = v;
    arguments->n = state->argc - state->next;
    if (p->line->one != NULL && arguments->n > 1)
        stp_usage_error(state, "'%s', expected one %s", v[1], p->line->one);
    return 0;
}

static error_t option_parse(int key, char *arg, struct argp_state *state)
{
    struct stp_given *p = state->input;

    switch (key) {
    case ARGP_KEY_ARGS:
        return option_take_arguments(p, state);
    case ARGP_KEY_NO_ARGS:
        if (p->line->none != NULL)
            stp_usage_error(state, "%s", p->line->none);
        return 0;
    case ARGP_KEY_END:
        option_check_all(p, state);
        return 0;
    default:
        break;
    }
    for (int i = 0; i < p->n_rows; i++) {
        const struct stp_option *o = p->rows[i].option;

        if (key == (o->key != 0 ? o->key : FIRST_KEY + i))
            return option_parse_row(&p->rows[i], arg, state);
    }
    return ARGP_ERR_UNKNOWN;
}

/* ---- words that are no options ---- */

/* The options that argp has itself. */
static const char *const option_argps_own[] = {"help", "usage"};
enum { N_OWN = sizeof(option_argps_own) / sizeof(option_argps_own[0]) };

static bool option_begins(const char *name, const char *word, size_t len)
{
    return name != NULL && strncmp(name, word, len) == 0;
}

/* The first that the 'len' bytes at 'word' name, which may be a beginning. */
static const struct argp_option *option_find_long(const struct stp_given *p,
                                                  const char *word, size_t len)
{
    for (int i = 0; i < p->n_argp; i++)
        if (option_begins(p->argp[i].name, word, len))
            return &p->argp[i];
    return NULL;
}

static const struct stp_option *option_find_letter(const struct stp_given *p,
                                                   char letter)
{
    for (int i = 0; i < p->n_rows; i++)
        if (p->rows[i].option->key == letter)
            return p->rows[i].option;
    return NULL;
}

static bool option_is_argps_own(const char *word, size_t len)
{
    for (size_t i = 0; i < N_OWN; i++)
        if (option_begins(option_argps_own[i], word, len))
            return true;
    return false;
}

static void option_refuse_long(const struct stp_given *p, const char *name,
                               const char *word, size_t len)
{
    char names[2048] = "";
    char text[STP_CLI_PATH];
    char hint[STP_HINT];
    size_t used = 0;

    for (int i = 0; i < p->n_argp && used < sizeof(names); i++)
        if (p->argp[i].name != NULL)
            used += (size_t)snprintf(names + used, sizeof(names) - used,
                                     "--%s ", p->argp[i].name);
    snprintf(text, sizeof(text), "unrecognized option '%.*s'%s", (int)len, word,
             stp_hint_nearest(word, len, names, hint));
    option_refuse(name, text);
}

/* Whether the argument behind the word "--NAME", which is known, is its own. */
static bool option_meet_long(const struct stp_given *p, const char *name,
                             const char *word)
{
    const size_t len = strcspn(word, "=");
    const struct argp_option *found = option_find_long(p, word + 2, len - 2);

    if (found == NULL && !option_is_argps_own(word + 2, len - 2))
        option_refuse_long(p, name, word, len);
    while (found != NULL && (found->flags & OPTION_ALIAS) != 0)
        found--;
    return found != NULL && found->arg != NULL && word[len] == '\0';
}

/* The same of a word of letters. */
static bool option_meet_letters(const struct stp_given *p, const char *name,
                                const char *word)
{
    char text[64];

    for (const char *s = word + 1; *s != '\0'; s++) {
        const struct stp_option *found = option_find_letter(p, *s);

        if (found == NULL && *s != '?') {
            snprintf(text, sizeof(text), "invalid option -- '%c'", *s);
            option_refuse(name, text);
        }
        if (found != NULL && found->arg != NULL)
            return s[1] == '\0';
    }
    return false;
}

/* ---- shell completion ---- */

static bool option_has_argument(const struct stp_option *option, const char *a,
                                const char *b)
{
    return strcmp(option->arg, a) == 0 || strcmp(option->arg, b) == 0;
}

/* Which kind of words a shell completes an option's argument with. */
static const char *option_completes(const struct stp_option *option)
{
    if (option->arg == NULL)
        return "none";
    if (option_has_argument(option, "MACHINE", "MACHINE"))
        return "machine";
    if (option->path == STP_PATH_FOLDER ||
        option_has_argument(option, "FOLDER", "DIR"))
        return "folder";
    if (option->path != STP_PATH_NONE ||
        option_has_argument(option, "FILE", "SO"))
        return "file";
    return option_is_list(option) ? "list" : "word";
}

/* For completion/make.sh, a line an option: its names, the kind of its
 * argument, the words that it takes, and its help, with tabs between; before
 * them the arguments that are no options. */
static void option_print_all(const struct stp_given *p)
{
    printf("\t%s\t\t\n", p->line->args_doc != NULL ? p->line->args_doc : "");
    for (int i = 0; i < p->n_rows; i++) {
        const struct stp_option *o = p->rows[i].option;

        printf("--%s", o->name);
        if (o->alias != NULL)
            printf(" --%s", o->alias);
        if (o->key != 0)
            printf(" -%c", o->key);
        printf("\t%s\t", option_completes(o));
        for (int k = 0; o->words != NULL && o->words[k] != NULL; k++)
            printf("%s%s", k > 0 ? " " : "", o->words[k]);
        for (int c = 0; o->kind == stp_option_coll && c < NCCL_NUM_TUNED_FUNCS;
             c++)
            printf("%s%s", c > 0 ? " " : "", stp_coll_name(c));
        printf("\t%s\n", o->help);
    }
}

/* Refuses what argp would refuse as it is, and makes -h what --help is. */
static void option_look_ahead(const struct stp_given *p, int argc, char **argv)
{
    static char help[] = "--help";

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "-h") == 0 && option_find_letter(p, 'h') == NULL)
            argv[i] = help;
        if (strcmp(argv[i], "--print-options") == 0) {
            option_print_all(p);
            exit(STP_EXIT_OK);
        }
        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            if (p->line->is_in_order)
                return;
            continue;
        }
        if (argv[i][1] == '-' ? option_meet_long(p, argv[0], argv[i])
                              : option_meet_letters(p, argv[0], argv[i]))
            i++;
    }
}

/* ---- reading all of them ---- */

static void option_set_default(const struct option_row *row)
{
    const struct stp_option *o = row->option;
    const char *text = o->value;

    if (o->value != NULL)
        option_read(row, &text);
    else if (o->absent != 0)
        *(int *)(void *)(row->table + o->at) = o->absent;
}

/* Its help ends with the default. */
static void option_add(struct stp_given *p, const struct stp_option *o,
                       char *table, int group)
{
    const int key = o->key != 0 ? o->key : FIRST_KEY + p->n_rows;
    const size_t size = strlen(o->help) + sizeof(" (default )") +
                        (o->value != NULL ? strlen(o->value) : 0);
    char *help = malloc(size);

    assert(p->n_rows < MAX_OPTIONS && p->n_argp + 3 < MAX_OPTIONS);
    if (help != NULL && o->value != NULL)
        snprintf(help, size, "%s (default %s)", o->help, o->value);
    else if (help != NULL)
        strcpy(help, o->help);
    p->help[p->n_rows] = help;
    p->rows[p->n_rows] = (struct option_row){o, table, false};
    option_set_default(&p->rows[p->n_rows++]);
    p->argp[p->n_argp++] =
        (struct argp_option){o->name, key, o->arg, 0, help, group};
    if (o->alias != NULL)
        p->argp[p->n_argp++] = (struct argp_option){o->alias,     key,  NULL,
                                                    OPTION_ALIAS, NULL, group};
}

void stp_options_read(const struct stp_command_line *line, int argc,
                      char **argv, void *options)
{
    struct stp_given p = {.line = line, .options = options};
    struct argp argp = {.options = p.argp,
                        .parser = option_parse,
                        .args_doc = line->args_doc,
                        .doc = line->doc};
    int heading = 0;

    for (const struct stp_option_group *g = line->groups; g->options != NULL;
         g++) {
        if (g->heading != NULL)
            p.argp[p.n_argp++] =
                (struct argp_option){.doc = g->heading, .group = ++heading};
        for (const struct stp_option *o = g->options; o->name != NULL; o++)
            option_add(&p, o, (char *)options + g->at,
                       g->heading != NULL ? heading : 0);
    }
    option_look_ahead(&p, argc, argv);
    argp_parse(&argp, argc, argv, line->is_in_order ? ARGP_IN_ORDER : 0, NULL,
               &p);
    for (int i = 0; i < p.n_rows; i++)
        free(p.help[i]);
}
