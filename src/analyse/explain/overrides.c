#include "analyse/explain/overrides.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT(member)                                                          \
    {                                                                          \
#member, offsetof(struct mock_limits, member)                          \
    }

static const struct {
    const char *plays;
    size_t at;
} limits[] = {LIMIT(min_channels), LIMIT(max_channels), LIMIT(min_ctas),
              LIMIT(max_ctas), LIMIT(nvls_channels)};

static bool override_limit(const char *plays, int n,
                           struct mock_limits *limits_ret)
{
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (strcmp(limits[i].plays, plays) != 0)
            continue;
        if (limits[i].at == offsetof(struct mock_limits, max_channels) && n < 1)
            n = 1;
        memcpy((char *)limits_ret + limits[i].at, &n, sizeof(n));
        /* unlike an application, a variable needs no maximum beside it */
        if (limits_ret->max_ctas == 0)
            limits_ret->max_ctas = INT_MAX;
        return n > 0;
    }
    return false;
}

enum stp_override_kind stp_override_play(const struct stp_variable *v,
                                         const char *value, const char *nccl,
                                         struct mock_nccl_options *options)
{
    const long long n = stp_variable_number(value);
    const int minor = atoi(nccl + strcspn(nccl, ".") + 1);
    bool plays;

    if ((value[0] == '\0' && !stp_variable_is(v, "choice")) ||
        v->plays[0] == '\0' || minor < v->first ||
        (v->last != 0 && minor > v->last))
        return STP_OVERRIDE_NOTHING;
    if (strcmp(v->plays, "graph") == 0) {
        /* NCCL's graphs may stay as they are, though the variable is set. */
        const bool is_default =
            stp_variable_is(v, "int") &&
            (n == atoll(stp_variable_words(v)) ||
             (strcmp(v->off, "1") == 0 && !stp_variable_is_off(v, value)));

        return is_default ? STP_OVERRIDE_NOTHING : STP_OVERRIDE_MACHINE;
    }
    if (strcmp(v->plays, "says") == 0)
        return STP_OVERRIDE_UNPLAYED;
    if (strcmp(v->name, "NCCL_ALGO") == 0)
        plays = (options->algo = value) != NULL;
    else if (strcmp(v->name, "NCCL_PROTO") == 0)
        plays = (options->proto = value) != NULL;
    else if (strcmp(v->plays, "value") == 0)
        plays =
            (options->variables[mock_variable_find(v->name)] = value) != NULL;
    else if (strcmp(v->plays, "nvls") == 0)
        plays = options->no_nvls = n == 0;
    else if (strcmp(v->plays, "collnet") == 0)
        plays = options->collnet = n == 1;
    else
        plays = override_limit(v->plays, (int)n, &options->limits);
    return plays ? STP_OVERRIDE_RUNS : STP_OVERRIDE_NOTHING;
}

size_t stp_overrides_play(const struct stp_explain_options *options,
                          const char *nccl,
                          struct mock_nccl_options *options_ret)
{
    struct stp_variable v;
    size_t n = 0;

    for (size_t i = 0; options->variable != NULL && stp_variable_at(i, &v);
         i++) {
        const char *value = options->variable(v.name);

        if (value == NULL ||
            (options->only != NULL &&
             strncmp(options->only, v.name, strcspn(options->only, "=")) != 0))
            continue;
        n += stp_override_play(&v, value, nccl, options_ret) ==
             STP_OVERRIDE_RUNS;
    }
    return n;
}
