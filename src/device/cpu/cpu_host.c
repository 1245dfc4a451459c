#include "device/cpu/cpu_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/host.h"

/* The value of the first line "KEY<blanks>: VALUE", cut to 'size'; or "". */
static void host_find_value(const char *text, const char *key, char *value,
                            size_t size)
{
    const size_t len = strlen(key);

    value[0] = '\0';
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');

        if (strncmp(line, key, len) == 0 &&
            line[len + strspn(line + len, " \t")] == ':') {
            line += len;
            line += strspn(line, " \t:");
            snprintf(value, size, "%.*s", (int)strcspn(line, "\n"), line);
            return;
        }
        line = end == NULL ? NULL : end + 1;
    }
}

/* The first bytes of a file of /proc. */
static void host_read_start(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    size_t n = 0;

    if (file != NULL) {
        n = fread(text, 1, size - 1, file);
        fclose(file);
    }
    text[n] = '\0';
}

void stp_cpu_host_get(struct stp_cpu_host *host_ret)
{
    static const char *const names[] = {"OPENBLAS_NUM_THREADS",
                                        "OMP_NUM_THREADS"};
    char text[4096]; /* the first CPU is in it */
    char value[64];
    long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);

    memset(host_ret, 0, sizeof(*host_ret));
    host_read_start("/proc/cpuinfo", text, sizeof(text));
    host_find_value(text, "model name", host_ret->model,
                    sizeof(host_ret->model));
    if (host_ret->model[0] == '\0')
        snprintf(host_ret->model, sizeof(host_ret->model), "unknown CPU");
    stp_host_name(host_ret->name, sizeof(host_ret->name));
    snprintf(host_ret->vendor, sizeof(host_ret->vendor), "%s",
             stp_host_cpu_vendor());
    host_ret->n_cpus = n_cpus > 0 ? (uint32_t)n_cpus : 1;
    host_ret->pid = (uint32_t)getpid();
    host_read_start("/proc/meminfo", text, sizeof(text));
    host_find_value(text, "MemAvailable", value, sizeof(value));
    host_ret->available_nbytes =
        value[0] == '\0' ? UINT64_MAX : strtoull(value, NULL, 10) * 1024;
    /* As OpenBLAS reads them: words that are no number above 0 are ignored. */
    host_ret->most_threads = UINT32_MAX;
    for (size_t i = sizeof(names) / sizeof(names[0]); i-- > 0;) {
        const char *word = getenv(names[i]);
        long n = word == NULL ? 0 : strtol(word, NULL, 10);

        if (n > 0 && n < UINT32_MAX)
            host_ret->most_threads = (uint32_t)n;
    }
}

enum stp_status stp_cpu_hosts_exchange(const struct stp_world *world,
                                       struct stp_cpu_host **hosts_ret,
                                       struct stp_error *err)
{
    struct stp_cpu_host *hosts = calloc(world->size, sizeof(*hosts));
    struct stp_cpu_host mine;
    enum stp_status status;

    if (hosts == NULL)
        return stp_nomem(err);
    stp_cpu_host_get(&mine);
    status = world->ops->exchange(world->self, &mine, sizeof(mine), hosts, err);
    if (status == STP_OK)
        *hosts_ret = hosts;
    else
        free(hosts);
    return status;
}

unsigned stp_cpu_hosts_like(const struct stp_cpu_host *hosts, unsigned n,
                            unsigned rank)
{
    unsigned n_like = 0;

    for (unsigned r = 0; r < n; r++)
        n_like += strcmp(hosts[r].name, hosts[rank].name) == 0;
    return n_like;
}

unsigned stp_cpu_hosts_count(const struct stp_cpu_host *hosts, unsigned n)
{
    unsigned n_hosts = 0;

    for (unsigned r = 0; r < n; r++) /* the first rank of each counts */
        n_hosts += stp_cpu_hosts_like(hosts, r, r) == 0;
    return n_hosts;
}

unsigned stp_cpu_hosts_threads(const struct stp_cpu_host *hosts, unsigned n,
                               unsigned rank)
{
    const struct stp_cpu_host *host = &hosts[rank];
    unsigned part = host->n_cpus / stp_cpu_hosts_like(hosts, n, rank);

    if (part > host->most_threads)
        part = host->most_threads;
    return part > 0 ? part : 1;
}

enum stp_status stp_cpu_hosts_fit(const struct stp_cpu_host *hosts, unsigned n,
                                  uint64_t nbytes, struct stp_error *err)
{
    for (unsigned r = 0; r < n; r++) {
        const unsigned n_like = stp_cpu_hosts_like(hosts, n, r);

        if (nbytes > hosts[r].available_nbytes / n_like)
            return stp_fail(err, STP_ERR_NOMEM,
                            "%u process%s with %.2f GB each on %s, which has "
                            "%.2f GB of memory free",
                            n_like, n_like == 1 ? "" : "es",
                            (double)nbytes / 1e9, hosts[r].name,
                            (double)hosts[r].available_nbytes / 1e9);
    }
    return STP_OK;
}

void stp_cpu_hosts_info(const struct stp_cpu_host *hosts, unsigned n,
                        const char *how, struct stp_device_info *info_ret)
{
    const struct stp_cpu_host *host = &hosts[0];
    struct stp_device_info info = {.n_ranks = n,
                                   .n_nodes = stp_cpu_hosts_count(hosts, n),
                                   .is_live = true,
                                   .has_data = true,
                                   .is_late = true};
    const char *vendor = host->vendor;
    char where[112];

    for (unsigned r = 1; r < n; r++)
        if (strcmp(hosts[r].vendor, host->vendor) != 0)
            vendor = "mixed";
    snprintf(info.cpu_vendor, sizeof(info.cpu_vendor), "%s", vendor);
    snprintf(info.machine, sizeof(info.machine), "%s", host->name);
    snprintf(info.processor, sizeof(info.processor), "%s", host->model);
    snprintf(where, sizeof(where), "%s", host->name);
    if (info.n_nodes > 1)
        snprintf(where, sizeof(where), "%u hosts, the first of them %s",
                 info.n_nodes, host->name);
    snprintf(info.what, sizeof(info.what),
             "%u process%s on %s (%u CPU%s, %s), %s; measured here and now", n,
             n == 1 ? "" : "es", where, host->n_cpus,
             host->n_cpus == 1 ? "" : "s", host->model, how);
    *info_ret = info;
}
