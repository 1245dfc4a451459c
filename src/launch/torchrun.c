#include "launch/torchrun.h"

#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "launch/hub.h"
#include "launch/rendezvous.h"

enum {
    LIMIT_MS = 60000,
    MAX_PORT = 65535,
};

/* ---- the environment ---- */

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

    if (getenv("STEPTUNE_PORT") != NULL)
        return torchrun_read_number("STEPTUNE_PORT", 1, MAX_PORT, &s->port,
                                    err);
    if (store != NULL && strcmp(store, "True") == 0)
        s->port += s->port < MAX_PORT ? 1 : -1;
    return STP_OK;
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
    if (status == STP_OK)
        *settings_ret = s;
    return status;
}

/* ---- the world ---- */

enum stp_status stp_torchrun_join(const struct stp_torchrun *settings,
                                  struct stp_world *world_ret,
                                  struct stp_error *err)
{
    const bool is_first = settings->rank == 0;
    int *fds = calloc(settings->size, sizeof(*fds));
    struct stp_hub_options options = {.name = "torchrun",
                                      .rank = settings->rank,
                                      .size = settings->size,
                                      .local_rank = settings->local_rank,
                                      .local_size = settings->local_size,
                                      .fds = fds};
    enum stp_status status;

    if (fds == NULL)
        return stp_nomem(err);
    if (is_first)
        stp_hub_allow(settings->size);
    status = is_first ? stp_rendezvous_serve(settings, fds, err)
                      : stp_rendezvous_connect(settings, fds, err);
    if (status == STP_OK)
        status = stp_hub_open(&options, world_ret, err);
    free(fds);
    return status;
}
