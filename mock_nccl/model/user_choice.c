#include "model/cost_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/names.h"

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

static int user_choice_find_word(const struct mock_words *list,
                                 const char *word)
{
    for (int i = 0; i < list->n_words; i++)
        if (strcasecmp(list->words[i], word) == 0)
            return i;
    return -1;
}

static ncclResult_t user_choice_refuse(const struct variable *v,
                                       const char *part, const char *expected)
{
    return mock_fail(ncclInvalidUsage, "%s=%s: '%s' %s", v->name, v->value,
                     part, expected);
}

/* Sets the uses of one collective, or of all if it is -1. */
static ncclResult_t user_choice_apply_list(const struct variable *v, char *list,
                                           int coll)
{
    const bool except = *list == '^';
    const int n = v->words->n_words;
    const int first = coll < 0 ? 0 : coll;
    enum mock_use *uses = v->uses + first * n;
    char *rest = list + except;
    bool has_word = false;

    for (int i = 0; i < n; i++)
        uses[i] = except ? MOCK_USE_YES : MOCK_USE_NO;
    for (char *word; (word = strtok_r(rest, ",", &rest)) != NULL;) {
        const int i = user_choice_find_word(v->words, word);

        if (i < 0 && v->plain)
            continue;
        if (i < 0)
            return user_choice_refuse(v, word, v->kind);
        uses[i] = except ? MOCK_USE_NO : MOCK_USE_YES;
        has_word = true;
    }
    v->has_word[first] |= has_word;
    for (int c = 1; c < NCCL_NUM_TUNED_FUNCS && coll < 0; c++) {
        memcpy(uses + c * n, uses, (size_t)n * sizeof(*uses));
        v->has_word[c] |= has_word;
    }
    return ncclSuccess;
}

static ncclResult_t user_choice_apply_entry(const struct variable *v,
                                            char *entry, bool is_first)
{
    char *coll = entry + strspn(entry, ":");
    char *end = coll + strcspn(coll, ":");
    char *list = end + strspn(end, ":");
    int c;

    if (*coll == '\0')
        return user_choice_refuse(v, entry, "has no word");
    if (*list == '\0' && !is_first)
        return user_choice_refuse(
            v, entry, "names no collective, which only the first entry may do");
    *end = '\0';
    if (*list == '\0')
        return user_choice_apply_list(v, coll, -1);
    list[strcspn(list, ":")] = '\0';
    c = user_choice_find_word(&mock_variable_colls, coll);
    if (c < 0)
        return user_choice_refuse(v, coll, "is no collective");
    return user_choice_apply_list(v, list, c);
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
    char *entry, *rest;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            choice.algo[c][a] = narrows ? MOCK_USE_NO : MOCK_USE_YES;
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            choice.proto[c][p] =
                p == NCCL_PROTO_LL128 ? MOCK_USE_IF_SAFE : MOCK_USE_YES;
    }
    for (int i = 0; i < 2 && rc == ncclSuccess; i++) {
        const struct variable *v = &variables[i];
        char *text = NULL; /* a copy, to be taken apart */

        if (v->value == NULL)
            continue;
        MOCK_TRY(mock_copy_text(v->value, &text));
        MOCK_INFO(NCCL_ENV, "%s set by environment to %s", v->name, v->value);
        rest = text;
        if (v->plain)
            rc = user_choice_apply_list(v, text, -1);
        else
            while (rc == ncclSuccess &&
                   (entry = strtok_r(rest, ";", &rest)) != NULL)
                rc = user_choice_apply_entry(v, entry, entry == text);
        free(text);
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
