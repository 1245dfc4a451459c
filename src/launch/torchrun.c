#include "launch/torchrun.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

enum {
    LIMIT_MS = 60000,
    MAX_PORT = 65535,
};

static enum stp_status torchrun_read_number(const char *name, unsigned min,
                                            unsigned max, unsigned *value_ret,
                                            struct stp_error *err)
{
    const char *text = getenv(name);
    uint64_t value;

    if (text == NULL)
        return stp_fail(err, STP_ERR_SYNTAX, "%s is not set, as torchrun would",
                        name);
    if (!stp_parse_u64(text, strlen(text), &value) || value < min ||
        value > max)
        return stp_fail(err, STP_ERR_SYNTAX,
                        "%s is '%.60s', expected a number from %u to %u", name,
                        text, min, max);
    *value_ret = (unsigned)value;
    return STP_OK;
}

static enum stp_status torchrun_read_numbers(struct stp_torchrun *s,
                                             struct stp_error *err)
{
    struct {
        const char *name;
        unsigned min, max;
        unsigned *value;
        bool optional;
    } numbers[] = {
        {"WORLD_SIZE", 1, STP_MAX_PROCESSES, &s->size, false},
        {"RANK", 0, STP_MAX_PROCESSES - 1, &s->rank, false},
        {"LOCAL_RANK", 0, STP_MAX_PROCESSES - 1, &s->local_rank, false},
        {"LOCAL_WORLD_SIZE", 1, STP_MAX_PROCESSES, &s->local_size, true},
        {"MASTER_PORT", 1, MAX_PORT, &s->port, false},
    };
    enum stp_status status = STP_OK;

    for (size_t i = 0;
         i < sizeof(numbers) / sizeof(numbers[0]) && status == STP_OK; i++)
        if (!numbers[i].optional || getenv(numbers[i].name) != NULL)
            status =
                torchrun_read_number(numbers[i].name, numbers[i].min,
                                     numbers[i].max, numbers[i].value, err);
    return status;
}

static enum stp_status torchrun_check_below(const char *name, unsigned value,
                                            const char *of_name, unsigned of,
                                            struct stp_error *err)
{
    if (value < of)
        return STP_OK;
    return stp_fail(err, STP_ERR_SYNTAX,
                    "%s is %u, expected less than %s, which is %u", name, value,
                    of_name, of);
}

static enum stp_status torchrun_choose_port(struct stp_torchrun *s,
                                            struct stp_error *err)
{
    const char *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
    enum stp_status status = STP_OK;

    if (store != NULL && strcmp(store, "True") == 0) {
        s->job_port = s->port;
        s->port += s->port < MAX_PORT ? 1 : -1;
    }
    if (getenv("STEPTUNE_PORT") != NULL) {
        status = torchrun_read_number("STEPTUNE_PORT", 1, MAX_PORT,
                                      &s->fixed_port, err);
        s->port = s->fixed_port;
    }
    return status;
}

/* Which run of which job this is, in characters that any key may have. */
static void torchrun_read_token(struct stp_torchrun *s)
{
    const char *run = getenv("TORCHELASTIC_RUN_ID");
    const char *restarts = getenv("TORCHELASTIC_RESTART_COUNT");

    snprintf(s->token, sizeof(s->token), "%.80s/%.10s",
             run == NULL || run[0] == '\0' ? "none" : run,
             restarts == NULL ? "0" : restarts);
    for (char *c = s->token; *c != '\0'; c++)
        if (*c <= ' ' || *c > '~')
            *c = '_';
}

enum stp_status stp_torchrun_read(struct stp_torchrun *settings_ret,
                                  struct stp_error *err)
{
    struct stp_torchrun s = {.limit_ms = LIMIT_MS,
                             .host = getenv("MASTER_ADDR")};
    enum stp_status status = torchrun_read_numbers(&s, err);

    if (status == STP_OK)
        status =
            torchrun_check_below("RANK", s.rank, "WORLD_SIZE", s.size, err);
    if (status == STP_OK && s.local_size != 0)
        status = torchrun_check_below("LOCAL_RANK", s.local_rank,
                                      "LOCAL_WORLD_SIZE", s.local_size, err);
    if (status == STP_OK && (s.host == NULL || s.host[0] == '\0'))
        status = stp_fail(err, STP_ERR_SYNTAX,
                          "MASTER_ADDR is not set, expected rank 0's host");
    if (status == STP_OK)
        status = torchrun_choose_port(&s, err);
    torchrun_read_token(&s);
    if (status == STP_OK)
        *settings_ret = s;
    return status;
}
