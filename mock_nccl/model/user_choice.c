#include "model/cost_model.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/names.h"
#include "model/select.h"

/* One of the two variables, and the destination of its value. */
struct variable {
    const char *name;
    const char *value;
    const char *kind; /* the kind of word that is expected */
    const struct mock_words *words;
    enum mock_use *uses; /* words->n_words uses per collective */
    bool *has_word; /* per collective: a list of either variable has a word */
    bool plain; /* the value is one list for all collectives, with unknown words
                   skipped */
};

/* A part of a value. */
struct part {
    const char *at;
    size_t len;
};

/* Removes the next part from *rest, up to a separator; empty parts are skipped.
 * False if there is none. */
static bool choice_next_part(struct part *rest, char separator,
                             struct part *part_ret)
{
    while (rest->len != 0 && *rest->at == separator) {
        rest->at++;
        rest->len--;
    }
    part_ret->at = rest->at;
    while (rest->len != 0 && *rest->at != separator) {
        rest->at++;
        rest->len--;
    }
    part_ret->len = (size_t)(rest->at - part_ret->at);
    return part_ret->len != 0;
}

static int user_choice_find_word(const struct mock_words *list,
                                 struct part part)
{
    for (int i = 0; i < list->n_words; i++)
        if (strlen(list->words[i]) == part.len &&
            strncasecmp(list->words[i], part.at, part.len) == 0)
            return i;
    return -1;
}

static ncclResult_t user_choice_refuse(const struct variable *v,
                                       struct part part, const char *expected)
{
    return mock_fail(ncclInvalidUsage, "%s=%s: '%.*s' %s", v->name, v->value,
                     (int)part.len, part.at, expected);
}

/* Sets the uses of one collective. */
static ncclResult_t choice_apply_list(const struct variable *v,
                                      struct part list, int coll)
{
    enum mock_use *uses = v->uses + coll * v->words->n_words;
    bool except = list.len != 0 && *list.at == '^';
    struct part word;

    if (except) {
        list.at++;
        list.len--;
    }
    for (int i = 0; i < v->words->n_words; i++)
        uses[i] = except ? MOCK_USE_YES : MOCK_USE_NO;
    while (choice_next_part(&list, ',', &word)) {
        int i = user_choice_find_word(v->words, word);

        if (i < 0 && v->plain)
            continue;
        if (i < 0)
            return user_choice_refuse(v, word, v->kind);
        uses[i] = except ? MOCK_USE_NO : MOCK_USE_YES;
        v->has_word[coll] = true;
    }
    return ncclSuccess;
}

static ncclResult_t choice_apply_to_all(const struct variable *v,
                                        struct part list)
{
    ncclResult_t rc = ncclSuccess;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS && rc == ncclSuccess; c++)
        rc = choice_apply_list(v, list, c);
    return rc;
}

static ncclResult_t choice_parse_entry(const struct variable *v,
                                       struct part entry)
{
    struct part rest = entry;
    struct part coll;
    struct part list;
    int c;

    if (!choice_next_part(&rest, ':', &coll))
        return user_choice_refuse(v, entry, "has no word");
    if (!choice_next_part(&rest, ':', &list)) {
        if (entry.at != v->value)
            return user_choice_refuse(
                v, entry,
                "names no collective, which only the first entry "
                "may do");
        return choice_apply_to_all(v, coll);
    }
    c = user_choice_find_word(&mock_variable_colls, coll);
    if (c < 0)
        return user_choice_refuse(v, coll, "is no collective");
    return choice_apply_list(v, list, c);
}

ncclResult_t mock_user_choice_parse(const struct mock_version *version,
                                    const char *algo, const char *proto,
                                    struct mock_user_choice *choice_ret)
{
    const struct mock_choice_rules *rules = &version->choice;
    const bool narrows = rules->narrows_named && algo != NULL && *algo != '\0';
    bool has_word[NCCL_NUM_TUNED_FUNCS] = {false};
    struct mock_user_choice choice = {.collnet = false};
    const struct variable variables[] = {
        /* in NCCL's order */
        {"NCCL_PROTO", proto, "is no protocol", &mock_variable_protos,
         choice.proto[0], has_word, rules->plain_lists},
        {"NCCL_ALGO", algo, "is no algorithm", &mock_variable_algos,
         choice.algo[0], has_word, rules->plain_lists},
    };
    ncclResult_t rc = ncclSuccess;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            choice.algo[c][a] = narrows ? MOCK_USE_NO : MOCK_USE_YES;
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            choice.proto[c][p] =
                p == NCCL_PROTO_LL128 ? MOCK_USE_IF_SAFE : MOCK_USE_YES;
    }
    for (int i = 0; i < 2 && rc == ncclSuccess; i++) {
        const struct variable *v = &variables[i];
        struct part rest = {v->value, 0};
        struct part entry;

        if (v->value == NULL)
            continue;
        MOCK_INFO(NCCL_ENV, "%s set by environment to %s", v->name, v->value);
        rest.len = strlen(v->value);
        if (v->plain)
            rc = choice_apply_to_all(v, rest);
        else
            while (rc == ncclSuccess && choice_next_part(&rest, ';', &entry))
                rc = choice_parse_entry(v, entry);
    }
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS && rules->narrows_named; c++) {
        choice.no_symmetric[c] = narrows && has_word[c];
        if (has_word[c])
            continue;
        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            choice.algo[c][a] = MOCK_USE_YES;
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            if (choice.proto[c][p] == MOCK_USE_NO)
                choice.proto[c][p] = MOCK_USE_YES;
    }
    if (rc == ncclSuccess)
        *choice_ret = choice;
    return rc;
}

ncclResult_t mock_release_check(const char *name, const char *algo,
                                const char *proto, bool no_nvls)
{
    const struct mock_version *version = mock_version_find(name);
    struct mock_user_choice choice;
    char starved[128] = "";
    ncclResult_t rc = mock_user_choice_parse(version, algo, proto, &choice);

    if (rc != ncclSuccess || version->model.ring_backup)
        return rc;
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        size_t len = strlen(starved);
        bool any = false;

        for (int a = 0; a < version->n_algos; a++)
            for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
                any |= mock_kernel_exists(c, a, p) &&
                       !(no_nvls &&
                         (a == NCCL_ALGO_NVLS || a == NCCL_ALGO_NVLS_TREE)) &&
                       choice.algo[c][a] != MOCK_USE_NO &&
                       choice.proto[c][p] != MOCK_USE_NO;
        if (!any)
            snprintf(starved + len, sizeof(starved) - len, "%s%s",
                     len != 0 ? ", " : "", mock_word(&mock_colls, c));
    }
    if (starved[0] == '\0')
        return ncclSuccess;
    return mock_fail(ncclInvalidUsage, "%s%s%s%s%s: nothing is left for %s",
                     algo != NULL ? "NCCL_ALGO=" : "", algo != NULL ? algo : "",
                     algo != NULL && proto != NULL ? " and " : "",
                     proto != NULL ? "NCCL_PROTO=" : "",
                     proto != NULL ? proto : "", starved);
}

bool mock_release_forces_ll128(const char *name, const char *algo,
                               const char *proto)
{
    struct mock_user_choice choice;
    bool forces = false;

    if (mock_user_choice_parse(mock_version_find(name), algo, proto, &choice) ==
        ncclSuccess)
        for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
            forces |= choice.proto[c][NCCL_PROTO_LL128] == MOCK_USE_YES;
    return forces;
}
