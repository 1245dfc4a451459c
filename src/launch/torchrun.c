#include "launch/torchrun.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "core/text.h"
#include "launch/launch.h"

enum {
    LIMIT_S = 60,
    MAX_LIMIT_S = 24 * 3600,
    MAX_PORT = 65535,
    FIRST_PORT =
        20000, /* of jobs by their number: below what Linux hands out */
    N_PORTS = 12000,
};

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

static const char *torchrun_get(const char *name, const char *otherwise)
{
    const char *text = getenv(name);

    return text == NULL || text[0] == '\0' ? otherwise : text;
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

    STP_TRY(torchrun_read_number(s->launcher, "SLURM_JOB_ID", 0, UINT32_MAX,
                                 &job, err));
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

/* Meets where MASTER_ADDR says, as in PyTorch's jobs; on one host it may be
 * missing.  PMIx has a name of the job that is the same on all hosts. */
static enum stp_status mpirun_read_job(struct stp_torchrun *s,
                                       struct stp_error *err)
{
    const char *job = torchrun_get("PMIX_NAMESPACE", "none");
    uint64_t hash = 0;

    if (s->local_size != s->size && torchrun_get("MASTER_ADDR", NULL) == NULL)
        return stp_fail(
            err, STP_ERR_SYNTAX,
            "MASTER_ADDR is not set, expected rank 0's host, since mpirun "
            "started ranks on several: `mpirun -x MASTER_ADDR=HOST` (Open MPI) "
            "or `mpirun -genv MASTER_ADDR HOST` (MPICH) gives it to all");
    snprintf(s->host, sizeof(s->host), "%s",
             torchrun_get("MASTER_ADDR", "127.0.0.1"));
    for (const char *c = job; *c != '\0'; c++)
        hash = stp_hash(hash, (unsigned char)*c);
    if (s->port == 0)
        s->port = FIRST_PORT + (unsigned)(hash % N_PORTS);
    snprintf(s->token, sizeof(s->token), "%.80s/0", job);
    return torchrun_choose_port(s, err);
}

enum stp_status stp_torchrun_read(struct stp_torchrun *settings_ret,
                                  struct stp_error *err)
{
    const struct stp_launcher *names = stp_find_launcher();
    struct stp_torchrun s = {.launcher = names->name};
    static const char below[] = "%s is %u, expected less than %s, which is %u";
    const bool has_port = strcmp(names->name, "torchrun") == 0;
    unsigned limit_s = LIMIT_S;
    const struct {
        const char *name;
        unsigned min, max;
        unsigned *value;
        bool optional;
    } numbers[] = {
        {names->size, 1, STP_MAX_PROCESSES, &s.size, false},
        {names->rank, 0, STP_MAX_PROCESSES - 1, &s.rank, false},
        {names->local_rank, 0, STP_MAX_PROCESSES - 1, &s.local_rank, false},
        {names->local_size, 1, STP_MAX_PROCESSES, &s.local_size, true},
        {"MASTER_PORT", 1, MAX_PORT, &s.port, !has_port},
        {"STEPTUNE_JOIN_TIMEOUT", 1, MAX_LIMIT_S, &limit_s, true},
    };
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (!numbers[i].optional ||
            (numbers[i].name != NULL && getenv(numbers[i].name) != NULL))
            STP_TRY(torchrun_read_number(names->name, numbers[i].name,
                                         numbers[i].min, numbers[i].max,
                                         numbers[i].value, err));
    if (status == STP_OK && s.rank >= s.size)
        status = stp_fail(err, STP_ERR_SYNTAX, below, names->rank, s.rank,
                          names->size, s.size);
    if (status == STP_OK && s.local_size != 0 && s.local_rank >= s.local_size)
        status = stp_fail(err, STP_ERR_SYNTAX, below, names->local_rank,
                          s.local_rank, names->local_size, s.local_size);
    if (names->launched != STP_LAUNCHED_BY_SRUN &&
        names->launched != STP_LAUNCHED_BY_MPI) {
        if (status == STP_OK && torchrun_get("MASTER_ADDR", NULL) == NULL)
            status = stp_fail(err, STP_ERR_SYNTAX,
                              "MASTER_ADDR is not set, expected rank 0's host");
        snprintf(s.host, sizeof(s.host), "%s", torchrun_get("MASTER_ADDR", ""));
        snprintf(s.token, sizeof(s.token), "%.80s/%.10s",
                 torchrun_get("TORCHELASTIC_RUN_ID", "none"),
                 torchrun_get("TORCHELASTIC_RESTART_COUNT", "0"));
    }
    STP_THEN(status, names->launched == STP_LAUNCHED_BY_SRUN
                         ? srun_read_job(&s, err)
                     : names->launched == STP_LAUNCHED_BY_MPI
                         ? mpirun_read_job(&s, err)
                         : torchrun_choose_port(&s, err));
    if (status != STP_OK)
        return status;
    /* Any key of a store may have the characters that are left. */
    for (char *c = s.token; *c != '\0'; c++)
        if (*c <= ' ' || *c > '~')
            *c = '_';
    s.limit_ms = 1000 * limit_s;
    *settings_ret = s;
    return STP_OK;
}
