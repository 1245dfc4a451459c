#include "launch/torchrun.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "launch/launch.h"

enum {
    LIMIT_S = 60,
    MAX_LIMIT_S = 24 * 3600,
    MAX_PORT = 65535,
    FIRST_PORT = 20000, /* of Slurm's jobs: below those that Linux hands out */
    N_PORTS = 12000,
};

/* The variables of a launcher. */
static const struct torchrun_names {
    const char *launcher;
    const char *rank, *size, *local_rank;
    const char *local_size; /* NULL: it has none */
} torchrun_names = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK",
                    "LOCAL_WORLD_SIZE"},
  srun_names = {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                NULL};

static enum stp_status torchrun_read_number(const char *launcher,
                                            const char *name, unsigned min,
                                            unsigned max, unsigned *value_ret,
                                            struct stp_error *err)
{
    const char *text = getenv(name);
    uint64_t value;

    if (text == NULL)
        return stp_fail(err, STP_ERR_SYNTAX, "%s is not set, as %s would", name,
                        launcher);
    if (!stp_parse_u64(text, strlen(text), &value) || value < min ||
        value > max)
        return stp_fail(err, STP_ERR_SYNTAX,
                        "%s is '%.60s', expected a number from %u to %u", name,
                        text, min, max);
    *value_ret = (unsigned)value;
    return STP_OK;
}

static enum stp_status torchrun_read_numbers(const struct torchrun_names *names,
                                             struct stp_torchrun *s,
                                             unsigned *limit_s,
                                             struct stp_error *err)
{
    const bool has_port = names == &torchrun_names;
    struct {
        const char *name;
        unsigned min, max;
        unsigned *value;
        bool optional;
    } numbers[] = {
        {names->size, 1, STP_MAX_PROCESSES, &s->size, false},
        {names->rank, 0, STP_MAX_PROCESSES - 1, &s->rank, false},
        {names->local_rank, 0, STP_MAX_PROCESSES - 1, &s->local_rank, false},
        {names->local_size, 1, STP_MAX_PROCESSES, &s->local_size, true},
        {"MASTER_PORT", 1, MAX_PORT, &s->port, !has_port},
        {"STEPTUNE_JOIN_TIMEOUT", 1, MAX_LIMIT_S, limit_s, true},
    };
    enum stp_status status = STP_OK;

    for (size_t i = 0;
         i < sizeof(numbers) / sizeof(numbers[0]) && status == STP_OK; i++)
        if (!numbers[i].optional ||
            (numbers[i].name != NULL && getenv(numbers[i].name) != NULL))
            status = torchrun_read_number(names->launcher, numbers[i].name,
                                          numbers[i].min, numbers[i].max,
                                          numbers[i].value, err);
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
        status = torchrun_read_number(s->launcher, "STEPTUNE_PORT", 1, MAX_PORT,
                                      &s->fixed_port, err);
        s->port = s->fixed_port;
    }
    return status;
}

/* Leaves characters that any key of a store may have. */
static void torchrun_clean_token(struct stp_torchrun *s)
{
    for (char *c = s->token; *c != '\0'; c++)
        if (*c <= ' ' || *c > '~')
            *c = '_';
}

static const char *torchrun_get(const char *name, const char *otherwise)
{
    const char *text = getenv(name);

    return text == NULL || text[0] == '\0' ? otherwise : text;
}

/* Which run of which job this is, and where. */
static enum stp_status torchrun_read_job(struct stp_torchrun *s,
                                         struct stp_error *err)
{
    const char *host = torchrun_get("MASTER_ADDR", NULL);

    if (host == NULL)
        return stp_fail(err, STP_ERR_SYNTAX,
                        "MASTER_ADDR is not set, expected rank 0's host");
    snprintf(s->host, sizeof(s->host), "%s", host);
    snprintf(s->token, sizeof(s->token), "%.80s/%.10s",
             torchrun_get("TORCHELASTIC_RUN_ID", "none"),
             torchrun_get("TORCHELASTIC_RESTART_COUNT", "0"));
    return torchrun_choose_port(s, err);
}

/* The first of Slurm's list of hosts, such as "gpu01" of "gpu[01-04,7],big". */
static void srun_read_host(const char *list, char host[STP_TORCHRUN_HOST])
{
    bool is_in = false;   /* brackets */
    bool is_first = true; /* number of them */
    size_t n = 0;

    for (; *list != '\0' && (is_in || *list != ','); list++) {
        if (*list == '[' || *list == ']') {
            is_in = *list == '[';
            is_first = true;
            continue;
        }
        is_first = is_first && !(is_in && (*list == '-' || *list == ','));
        if (is_first && n + 1 < STP_TORCHRUN_HOST)
            host[n++] = *list;
    }
    host[n] = '\0';
}

static enum stp_status srun_read_job(struct stp_torchrun *s,
                                     struct stp_error *err)
{
    const char *host = torchrun_get("MASTER_ADDR", NULL);
    const char *list = torchrun_get("SLURM_STEP_NODELIST", NULL);
    const char *step = torchrun_get("SLURM_STEP_ID", "0");
    unsigned job = 0;
    enum stp_status status = torchrun_read_number(s->launcher, "SLURM_JOB_ID",
                                                  0, UINT32_MAX, &job, err);

    if (status != STP_OK)
        return status;
    if (host == NULL && list == NULL)
        return stp_fail(err, STP_ERR_SYNTAX,
                        "SLURM_STEP_NODELIST is not set, as srun would, nor "
                        "MASTER_ADDR to rank 0's host");
    if (host != NULL)
        snprintf(s->host, sizeof(s->host), "%s", host);
    else
        srun_read_host(list, s->host);
    if (s->port == 0)
        s->port = FIRST_PORT + job % N_PORTS;
    snprintf(s->token, sizeof(s->token), "%u.%.40s/%.10s", job, step,
             torchrun_get("SLURM_RESTART_COUNT", "0"));
    return torchrun_choose_port(s, err);
}

enum stp_status stp_torchrun_read(struct stp_torchrun *settings_ret,
                                  struct stp_error *err)
{
    const bool is_srun = stp_launched_by() == STP_LAUNCHED_BY_SRUN;
    const struct torchrun_names *names =
        is_srun ? &srun_names : &torchrun_names;
    struct stp_torchrun s = {.launcher = names->launcher};
    unsigned limit_s = LIMIT_S;
    enum stp_status status = torchrun_read_numbers(names, &s, &limit_s, err);

    STP_THEN(status, torchrun_check_below(names->rank, s.rank, names->size,
                                          s.size, err));
    if (status == STP_OK && s.local_size != 0)
        status = torchrun_check_below(names->local_rank, s.local_rank,
                                      names->local_size, s.local_size, err);
    STP_THEN(status,
             is_srun ? srun_read_job(&s, err) : torchrun_read_job(&s, err));
    if (status != STP_OK)
        return status;
    torchrun_clean_token(&s);
    s.limit_ms = 1000 * limit_s;
    *settings_ret = s;
    return STP_OK;
}
