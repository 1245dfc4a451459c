/* options.c - one parser, on top of argp, for the tables of all commands */
#include "cli/options.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"
#include "core/names.h"
#include "core/nearest.h"
#include "core/text.h"
#include "launch/take.h"

/* ---- errors ---- */

/* Refuses an option as argp does, with control characters made printable. */
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

/* Writes what was expected, and is that. */
#define EXPECT(...)                                                            \
    (snprintf(expected, sizeof(expected), __VA_ARGS__), expected)

const char *stp_option_flag(const struct stp_option *option, const char *text,
                            void *at)
{
    *(bool *)at = true;
    return NULL;
}

/* "a, b or c" */
static const char *option_list_words(const char *const *words)
{
    expected[0] = '\0';
    for (size_t i = 0; words[i] != NULL; i++)
        stp_append(expected, sizeof(expected), "%s%s",
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
    return max == UINT64_MAX ? EXPECT("a number from %ju", (uintmax_t)min)
                             : EXPECT("a number from %ju to %ju",
                                      (uintmax_t)min, (uintmax_t)max);
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
        (option->max > 0 && value > option->max))
        return EXPECT("a number %s %g", option->above ? "above" : "from",
                      option->min);
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
        if (share >= 0 && (is_percent ? share <= 1 : share < 1)) {
            *(double *)at = share;
            return NULL;
        }
    }
    return EXPECT("a share from 0%% to 100%% such as %s",
                  option->value != NULL ? option->value : "1%");
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

    if (coll < 0)
        return EXPECT("one of %s", stp_coll_names());
    *(int *)at = coll;
    return NULL;
}

/* ---- lists ---- */

/* Reads a list; says at '*text' which part of it is wrong. */
static const char *option_read_list(const struct stp_option *option,
                                    const char **text, char *table)
{
    static char word[64];
    struct stp_field fields[64];
    const size_t n = stp_split(*text, strlen(*text), fields, 64);
    char *entries = table + option->at;
    unsigned *n_entries = (unsigned *)(void *)(table + option->n);

    if (option->has_all && strcmp(*text, "all") == 0) {
        *n_entries = 0;
        for (int i = (int)option->min; i <= (int)option->max; i++)
            ((int *)(void *)entries)[(*n_entries)++] = i;
        return NULL;
    }
    if (n > option->most || n < option->least)
        return option->least > 0 ? option->expected
                                 : EXPECT("at most %u entries", option->most);
    for (size_t i = 0; i < n; i++) {
        char *entry = entries + i * option->size;
        const char *wrong;

        snprintf(word, sizeof(word), "%.*s", (int)fields[i].len, fields[i].s);
        wrong = option->kind(option, word, entry);
        if (wrong != NULL) {
            *text = word;
            return wrong;
        }
        for (const char *e = entries; !option->repeats && e < entry;
             e += option->size)
            if (memcmp(e, entry, option->size) == 0)
                return EXPECT("%s at most once", word);
        if (option->is_ascending && i > 0 &&
            *(const unsigned *)(const void *)entry <=
                *(const unsigned *)(const void *)(entry - option->size))
            return option->expected;
    }
    *n_entries = (unsigned)n;
    return NULL;
}

/* ---- a command line ---- */

extern const char stp_cli_help[];

enum {
    MAX_OPTIONS = 64,
    FIRST_KEY = 0x100, /* of options without a letter */
};

struct option_row {
    const struct stp_option *option;
    const struct stp_option_group *group;
    char *table; /* the struct that it writes into */
    bool is_given;
};

/* A command line that is read. */
struct stp_given {
    const struct stp_command_line *line;
    const char *command; /* "sweep" */
    char *options;
    struct stp_arguments arguments;
    struct option_row rows[MAX_OPTIONS]; /* by key, if it is no letter */
    int n_rows;
    struct argp_option argp[MAX_OPTIONS]; /* aliases and headings, too */
    int n_argp;
    char *help[MAX_OPTIONS];
};

/* ---- help.txt ---- */

/* Finds the text of an option, or of the whole (NULL), below [SECTION], and how
 * long it is; NULL if there is none. */
static const char *option_find_help(const char *section, const char *option,
                                    size_t *len_ret)
{
    char heading[64], mark[64];
    const char *text, *end, *next;

    snprintf(heading, sizeof(heading), "\n[%s]\n", section);
    snprintf(mark, sizeof(mark), "\n--%s  ", option != NULL ? option : "");
    text = strstr(stp_cli_help, heading);
    if (text == NULL)
        return NULL;
    text += strlen(heading) - (option != NULL);
    end = strstr(text, "\n[");
    if (option != NULL) {
        text = strstr(text, mark);
        if (text == NULL || (end != NULL && text > end))
            return NULL;
        text += strlen(mark);
    }
    next = strstr(text, "\n--");
    end = next != NULL && (end == NULL || next < end) ? next : end;
    *len_ret = end != NULL ? (size_t)(end - text) : strlen(text);
    return text;
}

/* Copies the text of an option, or of the command (NULL), as argp wants it: a
 * line a paragraph, and \v in the place of the options.  To be freed. */
static char *option_help(const char *command, const char *option)
{
    static const char place[] = "\n(options)\n";
    size_t len = 0, n = 0;
    const char *s = option_find_help(command, option, &len);
    char *text;

    if (s == NULL)
        s = option_find_help("shared", option, &len);
    assert(s != NULL); /* cli_completion_test asks for all */
    text = stp_take(len + 1, 1);
    for (const char *end = s + len; s < end; s++)
        if (*s != '\n')
            text[n++] = *s;
        else if (strncmp(s, place, strlen(place)) == 0) {
            text[n++] = '\v';
            s += strlen(place) - 1;
        } else if (s + 1 < end && s[1] == '\n') {
            text[n++] = *s++;
            text[n++] = '\n';
        } else if (s + 1 < end) {
            text[n++] = ' ';
            s += strspn(s + 1, " ");
        }
    return text;
}

static const char *option_read(const struct option_row *row, const char **text)
{
    const struct stp_option *option = row->option;
    const char *wrong =
        option->n > 0 ? option_read_list(option, text, row->table)
                      : option->kind(option, *text, row->table + option->at);

    return wrong != NULL && option->expected != NULL &&
                   strstr(wrong, "at most ") == NULL
               ? option->expected
               : wrong;
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
    return given->arguments.n;
}

bool stp_given_is_recorded(const struct stp_given *given)
{
    unsigned n;
    const char *const *on = stp_given_value(given, "on", &n);
    const char *const *backend = stp_given_value(given, "backend", &n);

    return on != NULL && *on != NULL &&
           !stp_is_live(*on, backend != NULL ? *backend : NULL);
}

/* ---- behind the last option and argument ---- */

/* Refuses an option that was given where it has no effect. */
static void option_check_needs(const struct stp_given *p,
                               const struct stp_option *option,
                               const struct stp_needs *needs,
                               struct argp_state *state)
{
    const struct option_row *with =
        needs->with != NULL ? given_find(p, needs->with) : NULL;
    const char *where;

    for (int i = 0; i < STP_MAX_WITHOUT && needs->without[i] != NULL; i++) {
        const struct option_row *other = given_find(p, needs->without[i]);

        if (other->is_given)
            stp_usage_error(state, "%s has no effect with %s",
                            option_name(option), option_name(other->option));
    }
    if (with != NULL && !with->is_given)
        stp_usage_error(state, "%s has no effect without %s",
                        option_name(option), option_name(with->option));
    if (needs->recorded != NULL && stp_given_is_recorded(p))
        stp_usage_error(state, "%s has no effect on a recorded machine, %s",
                        option_name(option), needs->recorded);
    where = needs->find_idle != NULL ? needs->find_idle(p) : NULL;
    if (where != NULL)
        stp_usage_error(state, "%s has no effect %s", option_name(option),
                        where);
}

static const char *option_get_path(const struct option_row *row)
{
    return row->option->path == STP_PATH_NONE
               ? NULL
               : *(const char *const *)(const void *)(row->table +
                                                      row->option->at);
}

static void option_check_all(const struct stp_given *p,
                             struct argp_state *state)
{
    char why[STP_PATH_WHY];
    char list[256], word[64];

    for (const struct option_row *r = p->rows; r < p->rows + p->n_rows; r++)
        if (r->is_given) {
            option_check_needs(p, r->option, &r->option->needs, state);
            snprintf(list, sizeof(list), " %s ",
                     r->group->of != NULL ? r->group->of : r->option->name);
            snprintf(word, sizeof(word), " %s ", r->option->name);
            if (strstr(list, word) != NULL)
                option_check_needs(p, r->option, &r->group->needs, state);
        }
    for (const struct option_row *r = p->rows; r < p->rows + p->n_rows; r++) {
        const char *path = option_get_path(r);
        bool is_input = false;

        if (path == NULL)
            continue;
        for (int i = 0; i < p->n_rows; i++) {
            const char *input = option_get_path(&p->rows[i]);

            is_input |= input != NULL &&
                        p->rows[i].option->path == STP_PATH_READ &&
                        stp_path_is_same(path, input);
        }
        for (int i = 0; p->line->reads && i < p->arguments.n; i++)
            is_input |= stp_path_is_same(path, p->arguments.v[i]);
        if (stp_path_is_refused(r->option->path, path, why))
            stp_usage_error(state, "%s '%s' %s", option_name(r->option), path,
                            why);
        if (r->option->path != STP_PATH_READ && is_input)
            stp_usage_error(
                state,
                "%s '%s' is a file that is read, expected another one to write",
                option_name(r->option), path);
        if (r->option->over != NULL && stp_path_is_other(path, r->option->over))
            stp_usage_error(state,
                            "%s '%s' is a file of another kind, expected "
                            "a new one or %s",
                            option_name(r->option), path, r->option->over);
    }
    for (int i = 0; p->line->reads && i < p->arguments.n; i++)
        if (stp_path_is_refused(STP_PATH_READ, p->arguments.v[i], why))
            stp_usage_error(state, "'%s' %s", p->arguments.v[i], why);
    if (p->line->check != NULL)
        p->line->check(p->options, state);
}

/* ---- help ---- */

enum { HELP = '?', USAGE = 1, HELP_WIDTH = 79, HELP_COLUMN = 29 };

/* Prints argp's help in lines of our own: argp puts an empty line where a text
 * ends at the margin, and an indent in the wrong place where its buffer ends.
 */
static _Noreturn void option_print_help(const struct argp_state *state)
{
    char *text = NULL;
    size_t size, n;
    bool was_moved, is_moved = false;
    FILE *fp = stp_take_text(&text, &size);

    setenv("ARGP_HELP_FMT", "rmargin=9999", 1);
    argp_help(state->root_argp, fp, ARGP_HELP_STD_HELP, state->name);
    stp_end_text(fp);
    for (char *s = text; *s != '\0'; s += n + (s[n] == '\n')) {
        const int indent = *s == ' ' || is_moved ? HELP_COLUMN : 0;
        size_t width = HELP_WIDTH;

        was_moved = is_moved;
        is_moved = strspn(s, " ") > HELP_COLUMN;
        if (is_moved)
            s += HELP_COLUMN;
        if (was_moved)
            width -= (size_t)printf("%*s", indent, "");
        while ((n = strcspn(s, "\n")) > width) {
            for (n = width; n > 0 && s[n] != ' ';)
                n--;
            printf("%.*s\n%*s", (int)n, s, indent, "");
            s += n + 1;
            width = HELP_WIDTH - (size_t)indent;
        }
        printf("%.*s\n", (int)n, s);
    }
    free(text);
    exit(STP_EXIT_OK);
}

/* ---- reading, by argp ---- */

static error_t option_parse(int key, char *arg, struct argp_state *state)
{
    struct stp_given *p = state->input;
    char **v = state->argv + state->next;

    switch (key) {
    case ARGP_KEY_ARGS:
        if (p->line->args_doc == NULL)
            stp_usage_error(state, "'%s', expected options only", v[0]);
        p->arguments = (struct stp_arguments){v, state->argc - state->next};
        if (p->line->one != NULL && p->arguments.n > 1)
            stp_usage_error(state, "'%s', expected one %s", v[1], p->line->one);
        *(struct stp_arguments *)(void *)(p->options + p->line->arguments) =
            p->arguments;
        return 0;
    case ARGP_KEY_NO_ARGS:
        if (p->line->none != NULL)
            stp_usage_error(state, "%s", p->line->none);
        return 0;
    case ARGP_KEY_END:
        option_check_all(p, state);
        return 0;
    case HELP:
        option_print_help(state);
    case USAGE:
        argp_state_help(state, stdout, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK);
        return 0;
    default:
        break;
    }
    for (int i = 0; i < p->n_rows; i++) {
        struct option_row *row = &p->rows[i];
        const struct stp_option *o = row->option;
        const char *text = arg != NULL ? arg : o->bare;
        const char *wrong;
        char hint[STP_HINT] = "";

        if (key != (o->key != 0 ? o->key : FIRST_KEY + i))
            continue;
        if (arg != NULL && arg == v[-1] && strncmp(arg, "--", 2) == 0)
            stp_usage_error(state, "%s lacks its %s before '%s'",
                            option_name(o), o->arg, arg);
        wrong = option_read(row, &text);
        if (wrong != NULL) {
            if (o->words != NULL || o->from_name != NULL ||
                o->kind == stp_option_coll)
                stp_hint_nearest(text, strlen(text), wrong, hint);
            stp_usage_error(state, "%s '%s', expected %s%s", option_name(o),
                            text, wrong, hint);
        }
        if (row->is_given && option_is_list(o))
            stp_usage_error(state,
                            "%s twice, expected one comma-separated list",
                            option_name(o));
        row->is_given = true;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

/* ---- before argp ---- */

static const struct stp_option *option_find_letter(const struct stp_given *p,
                                                   char letter)
{
    for (int i = 0; i < p->n_rows; i++)
        if (p->rows[i].option->key == letter)
            return p->rows[i].option;
    return NULL;
}

/* Whether the long option "--NAME" takes the next word as its argument. Refuses
 * a name that neither the command nor argp has. */
static bool option_check_long(const struct stp_given *p, const char *command,
                              const char *word)
{
    const size_t len = strcspn(word, "=") - 2;
    const char *name = word + 2;
    const struct argp_option *found = NULL;
    char names[2048] = "";
    char text[STP_CLI_PATH];
    char hint[STP_HINT];
    const char *bare = p->line->args_doc != NULL ? p->line->args_doc : "";

    bare += bare[0] == '[';
    /* Take the first option that begins with the word. */
    for (int i = 0; i < p->n_argp; i++)
        if (p->argp[i].name != NULL) {
            if (found == NULL && strncmp(p->argp[i].name, name, len) == 0)
                found = &p->argp[i];
            stp_append(names, sizeof(names), "--%s ", p->argp[i].name);
        }
    if (found == NULL) {
        if (strncasecmp(bare, name, len) == 0 && strcspn(bare, "].") == len)
            snprintf(text, sizeof(text),
                     "unrecognized option '%.*s', expected %.*s without one",
                     (int)len + 2, word, (int)len, bare);
        else
            snprintf(text, sizeof(text), "unrecognized option '%.*s'%s",
                     (int)len + 2, word,
                     stp_hint_nearest(word, len + 2, names, hint));
        option_refuse(command, text);
    }
    while (found != NULL && (found->flags & OPTION_ALIAS) != 0)
        found--;
    return found != NULL && found->arg != NULL && name[len] == '\0' &&
           (found->flags & OPTION_ARG_OPTIONAL) == 0;
}

/* Whether the last letter of a word such as "-vb" takes the next word. */
static bool option_check_letters(const struct stp_given *p, const char *command,
                                 const char *word)
{
    char text[64];

    for (const char *s = word + 1; *s != '\0'; s++) {
        const struct stp_option *found = option_find_letter(p, *s);

        if (found == NULL && *s != '?') {
            snprintf(text, sizeof(text), "invalid option -- '%c'", *s);
            option_refuse(command, text);
        }
        if (found != NULL && found->arg != NULL)
            return s[1] == '\0';
    }
    return false;
}

/* Which kind of words a shell completes an option's argument with. */
static const char *option_completes(const struct stp_option *option)
{
    static const char *const kinds[][2] = {{"MACHINE", "machine"},
                                           {"FOLDER", "folder"},
                                           {"DIR", "folder"},
                                           {"FILE", "file"},
                                           {"SO", "file"}};

    if (option->arg == NULL || option->bare != NULL)
        return "none";
    for (size_t i = 0; i < STP_N_OF(kinds); i++)
        if (strcmp(option->arg, kinds[i][0]) == 0)
            return kinds[i][1];
    if (option->path != STP_PATH_NONE)
        return option->path == STP_PATH_FOLDER ? "folder" : "file";
    return option_is_list(option) ? "list" : "word";
}

/* Prints for completion/make.sh the arguments that are no options, then a line
 * an option, with tabs between: its names, the kind of its argument, the words
 * that it takes, and its help. */
static void option_print_all(const struct stp_given *p)
{
    char *text;

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
        if (o->from_name != NULL) /* those of the sentence that it takes */
            for (const char *s = o->expected; *s != '\0';) {
                const size_t len = strcspn(s, " ,");

                if (o->from_name(s, len) >= 0 ||
                    (o->has_all && len == 3 && strncmp(s, "all", len) == 0))
                    printf("%.*s ", (int)len, s);
                s += len + strspn(s + len, " ,");
            }
        text = option_help(p->command, o->name);
        printf("\t%s\n", text);
        free(text);
    }
}

/* Refuses in our words what argp would in its own, and makes -h --help. */
static void option_check_words(const struct stp_given *p, int argc, char **argv)
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
        if (argv[i][1] == '-' ? option_check_long(p, argv[0], argv[i])
                              : option_check_letters(p, argv[0], argv[i]))
            i++;
    }
}

/* ---- the whole of it ---- */

/* Adds a row, with its default; its help ends with that. */
static void option_add(struct stp_given *p, const struct stp_option *o,
                       const struct stp_option_group *group, int heading)
{
    const int key = o->key != 0 ? o->key : FIRST_KEY + p->n_rows;
    struct option_row *row = &p->rows[p->n_rows];
    const char *text = o->value;
    char *help = option_help(p->command, o->name);

    assert(p->n_rows < MAX_OPTIONS && p->n_argp + 5 < MAX_OPTIONS);
    *row = (struct option_row){o, group, p->options + group->at, false};
    if (text != NULL) {
        const size_t size = strlen(help) + sizeof(" (default )") + strlen(text);
        char *longer = stp_take(size, 1);

        snprintf(longer, size, "%s (default %s)", help, text);
        free(help);
        help = longer;
    }
    p->help[p->n_rows++] = help;
    p->argp[p->n_argp++] = (struct argp_option){
        o->name, key,    o->arg, o->bare != NULL ? OPTION_ARG_OPTIONAL : 0,
        help,    heading};
    if (o->alias != NULL)
        p->argp[p->n_argp++] = (struct argp_option){
            o->alias, key, NULL, OPTION_ALIAS, NULL, heading};
    if (text != NULL)
        option_read(row, &text);
    else if (o->absent != 0)
        *(int *)(void *)(row->table + o->at) = o->absent;
}

void stp_options_read(const struct stp_command_line *line, int argc,
                      char **argv, void *options)
{
    struct stp_given p = {
        .line = line, .command = strrchr(argv[0], ' ') + 1, .options = options};
    char *doc = option_help(p.command, NULL);
    struct argp argp = {.options = p.argp,
                        .parser = option_parse,
                        .args_doc = line->args_doc,
                        .doc = doc};
    int heading = 0;

    for (const struct stp_option_group *g = line->groups; g->options != NULL;
         g++) {
        if (g->heading != NULL)
            p.argp[p.n_argp++] =
                (struct argp_option){.doc = g->heading, .group = ++heading};
        for (const struct stp_option *o = g->options; o->name != NULL; o++)
            option_add(&p, o, g, g->heading != NULL ? heading : 0);
    }
    p.argp[p.n_argp++] =
        (struct argp_option){"help", HELP, NULL, 0, "Give this help list", -1};
    p.argp[p.n_argp++] = (struct argp_option){
        .name = "usage", .key = USAGE, .doc = "Give a short usage message"};
    option_check_words(&p, argc, argv);
    argp_parse(&argp, argc, argv,
               ARGP_NO_HELP | (line->is_in_order ? ARGP_IN_ORDER : 0), NULL,
               &p);
    for (int i = 0; i < p.n_rows; i++)
        free(p.help[i]);
    free(doc);
}
