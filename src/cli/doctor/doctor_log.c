/* doctor_log.c - what is wrong with a job, by what NCCL logged of it */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/doctor/doctor.h"
#include "core/utf8.h"
#include "report/logs/job_log_facts.h"
#include "report/logs/job_log_machine.h"

extern char **environ;

enum log_topic {
    FAILED,
    NO_TUNER,
    MNNVL_LOST,
    SHM,
    SOCKETS,
    NO_GDR,
    NVLS_OFF,
    LL128_OFF,
    FEW_CHANNELS,
};

/* A line that shows a fault, in the words of struct stp_log_row, unless the
 * other one fits, too; the first of a topic that the log has is said. */
static const struct log_finding {
    enum log_topic topic;
    enum stp_symptom_level level;
    const char *line, *unless;
    const char *what;
} findings[] = {
    // clang-format off
    {FAILED, STP_SYMPTOM_PROBLEM, "%~o algorithm/protocol %~available", NULL, "a collective failed, for which no algorithm was left"},
    {NO_TUNER, STP_SYMPTOM_PROBLEM, "NCCL_TUNER_PLUGIN set by environment to", NULL, "the tuner plugin that NCCL_TUNER_PLUGIN names is not loaded"},
    {MNNVL_LOST, STP_SYMPTOM_PROBLEM, "MNNVL (cliqueSize %u) is available but", NULL, "NVLink between nodes is there, and does not work"},
    {SHM, STP_SYMPTOM_PROBLEM, "Channel %~via SHM", NULL, "GPUs of a host talk through its memory (SHM), not directly (P2P)"},
    {SOCKETS, STP_SYMPTOM_PROBLEM, "Channel %~via NET/Socket", NULL, "ranks talk over sockets"},
    {NO_GDR, STP_SYMPTOM_PROBLEM, "Channel %~via NET/", "%~/GDRDMA", "data for other nodes go through memory of the host, without GPUDirect RDMA"},
    {NVLS_OFF, STP_SYMPTOM_NOTE, "Failed to bind NVLink SHARP", NULL, "NVLS is off"},
    {NVLS_OFF, STP_SYMPTOM_NOTE, "NVLS multicast support is not", NULL, "NVLS is off"},
    {NVLS_OFF, STP_SYMPTOM_NOTE, "%u coll channels, %u collnet channels, 0 nvls", NULL, "NVLS is off"},
    {NVLS_OFF, STP_SYMPTOM_NOTE, "%u coll channels, 0 nvls", NULL, "NVLS is off"},
    {NVLS_OFF, STP_SYMPTOM_NOTE, "NCCL_ALGO set by environment to", "%~NVLS", "NVLS is off"},
    {NVLS_OFF, STP_SYMPTOM_NOTE, "NCCL_ALGO set by environment to ^%~NVLS", NULL, "NVLS is off"},
    {LL128_OFF, STP_SYMPTOM_NOTE, "AllReduce |%s/%u |%s/%u |%s/%u |%s/%u |%s/ 0.0 |", NULL, "LL128 is off in rings"},
    {LL128_OFF, STP_SYMPTOM_NOTE, "%~NCCL_PROTO %~to", "%~LL128", "LL128 is off in rings"},
    {LL128_OFF, STP_SYMPTOM_NOTE, "NCCL_PROTO set by environment to ^%~LL128", NULL, "LL128 is off in rings"},
    {LL128_OFF, STP_SYMPTOM_NOTE, "Pattern 4, %~type P", NULL, "LL128 is off in rings"},
    {LL128_OFF, STP_SYMPTOM_NOTE, "Pattern 4, %~type S", NULL, "LL128 is off in rings"},
    {LL128_OFF, STP_SYMPTOM_NOTE, "Pattern 4, %~type %s/PHB", NULL, "LL128 is off in rings"},
    {LL128_OFF, STP_SYMPTOM_NOTE, "Pattern 4, %~type %s/SYS", NULL, "LL128 is off in rings"},
    // clang-format on
};

/* A line that explains it; the first that the log has is said. */
static const struct log_cause {
    enum log_topic topic;
    const char *line, *unless;
    const char *why, *todo;
    unsigned before; /* minor version of NCCL; 0: all */
} causes[] = {
    // clang-format off
    {FAILED, "NCCL_ALGO set by environment to", NULL, "NCCL_ALGO leaves none, or NCCL_PROTO", "name what each collective may use, or unset them", 0},
    {FAILED, "NCCL_PROTO set by environment to", NULL, "NCCL_PROTO leaves none", "name what each collective may use, or unset it", 0},
    {NO_TUNER, "TUNER/Plugin: Could not find", NULL, "NCCL did not find it", "put its folder into LD_LIBRARY_PATH, or give its path", 0},
    {NO_TUNER, "External tuner plugin %s is unsupported", NULL, "NCCL did not find it", "put its folder into LD_LIBRARY_PATH, or give its path", 0},
    {NO_TUNER, "TUNER/Plugin: %~cannot open", NULL, "NCCL did not find it", "put its folder into LD_LIBRARY_PATH, or give its path", 0},
    {MNNVL_LOST, "MNNVL (cliqueSize", NULL, "the job has no access to the IMEX channels of the nodes", "see `nvidia-imex-ctl -N` and /dev/nvidia-caps-imex-channels", 0},
    {SHM, "NCCL_P2P_DISABLE set by environment to 1", NULL, "NCCL_P2P_DISABLE=1 switches direct access off", "unset it", 0},
    {SHM, "NCCL_P2P_LEVEL set by environment to", NULL, "NCCL_P2P_LEVEL limits direct access to GPUs so near", "unset it", 0},
    {SHM, "%~ed between", NULL, "the driver refuses direct access", "switch off ACS and the IOMMU of the host (lspci -vvv, ACSCtl), and give a container all GPUs", 0},
    {SHM, "Could not enable P2P", NULL, "the driver refuses direct access", "switch off ACS and the IOMMU of the host (lspci -vvv, ACSCtl), and give a container all GPUs", 0},
    {SHM, "Check P2P Type %s 0", NULL, "not all GPUs of a node reach each other", "see `nvidia-smi topo -p2p r`", 0},
    {SHM, "Pattern 4, %~type PHB", NULL, "the GPUs reach each other through the CPU alone, where NCCL takes its memory", "NCCL_P2P_LEVEL=SYS tries direct access: measure both", 0},
    {SHM, "Pattern 4, %~type SYS", NULL, "the GPUs reach each other through the CPU alone, where NCCL takes its memory", "NCCL_P2P_LEVEL=SYS tries direct access: measure both", 0},
    {SHM, "%~GeForce RTX", NULL, "NVIDIA's driver gives GeForce RTX GPUs no direct access over PCIe", NULL, 0},
    {SOCKETS, "NCCL_IB_DISABLE set by environment to 1", NULL, "NCCL_IB_DISABLE=1 switches InfiniBand and RoCE off", "unset it", 0},
    {SOCKETS, "NCCL_NET set by environment to Socket", NULL, "NCCL_NET=Socket asks for it", "unset it", 0},
    {SOCKETS, "NET/IB : No", NULL, "NCCL found no InfiniBand or RoCE device that it may use", "see `ibv_devinfo` where the job runs: a container needs /dev/infiniband and libibverbs, and NCCL_IB_HCA must name a device that is there", 0},
    {SOCKETS, "Failed to open libibverbs", NULL, "libibverbs, which InfiniBand and RoCE need, is missing", "install it where the job runs", 0},
    {SOCKETS, "NET/Plugin%~No plugin found", NULL, "no network plugin is loaded, which clouds such as AWS (libnccl-net-ofi.so) need for their network", "put the plugin's folder into LD_LIBRARY_PATH, or name it by NCCL_NET_PLUGIN", 0},
    {SOCKETS, "NET/Plugin: Could not find", NULL, "no network plugin is loaded, which clouds such as AWS (libnccl-net-ofi.so) need for their network", "put the plugin's folder into LD_LIBRARY_PATH, or name it by NCCL_NET_PLUGIN", 0},
    {SOCKETS, "NET/Plugin: %~cannot open", NULL, "no network plugin is loaded, which clouds such as AWS (libnccl-net-ofi.so) need for their network", "put the plugin's folder into LD_LIBRARY_PATH, or name it by NCCL_NET_PLUGIN", 0},
    {NO_GDR, "NCCL_NET_GDR_LEVEL set by environment to", NULL, "NCCL_NET_GDR_LEVEL limits it to NICs so near", "unset it", 0},
    {NO_GDR, "NET/OFI %~disabling GDR", NULL, "the network plugin switched it off, as the GPU or the driver lacks what it needs", NULL, 0},
    {NO_GDR, "NET/%s : GPU Direct RDMA Disabled", NULL, "the driver of the NIC cannot reach memory of GPUs", "load nvidia-peermem, or take a kernel and a driver with DMA-BUF", 0},
    {NO_GDR, "GPU Direct RDMA Disabled for", NULL, "GPU and NIC are farther apart than NCCL takes it", "NCCL_NET_GDR_LEVEL=SYS takes it at any distance: measure both", 0},
    {NVLS_OFF, "NCCL_NVLS_ENABLE set by environment to 0", NULL, "NCCL_NVLS_ENABLE=0 switches it off", "unset it", 0},
    {NVLS_OFF, "Failed to bind NVLink SHARP", NULL, "NCCL could not bind multicast memory", "restart the fabric manager, and look for errors of NVSwitches in dmesg", 0},
    {NVLS_OFF, "NVLS multicast support is not", NULL, "the driver offers no multicast: it takes GPUs from H100 on behind NVSwitches, a driver of CUDA 12.1 or later, and a fabric manager that runs, also outside of a container or virtual machine", "see `nvidia-smi -q`, section Fabric: State is Completed where it runs", 0},
    {NVLS_OFF, "comm %s rank %u nRanks %u nNodes %u localRanks 1 ", NULL, "NCCL takes it where a node has several GPUs", NULL, 0},
    {NVLS_OFF, "comm %s rank %u nRanks %u nNodes %u localRanks 2 ", NULL, "NCCL before 2.28 takes it from 3 GPUs of a node on", NULL, 28},
    {NVLS_OFF, "NCCL_ALGO set by environment to", "%~NVLS", "NCCL_ALGO leaves it out", "unset it", 0},
    {NVLS_OFF, "NCCL_ALGO set by environment to ^%~NVLS", NULL, "NCCL_ALGO leaves it out", "unset it", 0},
    {LL128_OFF, "NET/%s %~ing NCCL_PROTO", NULL, "the network plugin sets NCCL_PROTO", NULL, 0},
    {LL128_OFF, "NCCL_PROTO set by environment to", "%~LL128", "NCCL_PROTO leaves it out", "unset it", 0},
    {LL128_OFF, "NCCL_PROTO set by environment to ^%~LL128", NULL, "NCCL_PROTO leaves it out", "unset it", 0},
    {LL128_OFF, "Pattern 4, %~type P", NULL, "NCCL takes it where all of a ring within a node is NVLink, and this one is not", NULL, 0},
    {LL128_OFF, "Pattern 4, %~type S", NULL, "NCCL takes it where all of a ring within a node is NVLink, and this one is not", NULL, 0},
    {LL128_OFF, "Pattern 4, %~type %s/PHB", NULL, "NCCL takes it where GPUs reach their NIC without the CPU, and these do not", NULL, 0},
    {LL128_OFF, "Pattern 4, %~type %s/SYS", NULL, "NCCL takes it where GPUs reach their NIC without the CPU, and these do not", NULL, 0},
    {LL128_OFF, "Disabling LL128", NULL, "NCCL leaves it out where GPUs reach their NIC by PXN or C2C", NULL, 0},
    {FEW_CHANNELS, "NCCL_MAX_%s set by environment to", NULL, "a variable limits them", "unset it", 0},
    {FEW_CHANNELS, "Comm config maxCTAs set", NULL, "the program sets maxCTAs of the communicator", "change it there", 0},
    {FEW_CHANNELS, "NCCL_P2P_DISABLE set by environment to 1", NULL, "NCCL_P2P_DISABLE=1 takes the links between GPUs away", "unset it", 0},
    {FEW_CHANNELS, "NCCL_GRAPH_FILE set by environment to", NULL, "a file gives them", "unset the variable, or write the file anew", 0},
    {FEW_CHANNELS, "NCCL_TOPO_FILE set by environment to", NULL, "a file describes the links", "unset the variable, or write the file anew", 0},
    // clang-format on
};

/* The next fact whose line fits, of communicators of 'shape' or of none. */
static const struct stp_log_fact *log_find(const struct stp_job_log *log,
                                           const char *line, const char *unless,
                                           unsigned shape,
                                           const struct stp_log_fact *after)
{
    size_t i = after != NULL ? (size_t)(after - log->facts) + 1 : 0;

    for (; i < log->n_facts; i++) {
        const struct stp_log_fact *f = &log->facts[i];

        if ((shape == STP_LOG_ANY || f->shape == 0 || f->shape == shape) &&
            stp_log_fits(f, line) &&
            (unless == NULL || !stp_log_fits(f, unless)))
            return f;
    }
    return NULL;
}

/* The last symptom gets the reason that the log tells; false if it has none. */
static bool log_explain(struct stp_doctor *d, const struct stp_job_log *log,
                        enum log_topic topic, unsigned shape)
{
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        const struct log_cause *c = &causes[i];
        const struct stp_log_fact *f =
            c->topic == topic &&
                    (c->before == 0 || stp_log_minor(log) < c->before)
                ? log_find(log, c->line, c->unless, shape, NULL)
                : NULL;

        if (f == NULL)
            continue;
        stp_diagnose_why(&d->diagnosis, "%s (line %u)", c->why, f->line);
        if (c->todo != NULL)
            stp_diagnose_todo(&d->diagnosis, "%s", c->todo);
        return true;
    }
    stp_diagnose_why(&d->diagnosis, "the log does not say why");
    return false;
}

static void log_judge(struct stp_doctor *d, const struct stp_job_log *log)
{
    const struct stp_log_fact *gpu =
        stp_log_next(log, STP_LOG_GPU, STP_LOG_ANY, NULL);
    char name[64] = "";
    enum log_topic said = FEW_CHANNELS;

    if (gpu != NULL)
        snprintf(name, sizeof(name), "%.*s", STP_SHOWN(&gpu->value[3]));
    const int capability = stp_log_capability(name); /* 0: not known */
    const bool lacks_nvls =
        capability > 0 && (capability < 90 || capability > 103);
    for (size_t i = 0; i < sizeof(findings) / sizeof(findings[0]); i++) {
        const struct log_finding *finding = &findings[i];
        const struct stp_log_fact *first =
            log_find(log, finding->line, finding->unless, STP_LOG_ANY, NULL);
        char more[40] = "", ranks[40] = "";
        size_t n = 0;

        if (first == NULL || finding->topic == said ||
            (finding->topic == NO_GDR && said == SOCKETS) ||
            (finding->topic == NVLS_OFF && lacks_nvls))
            continue;
        for (const struct stp_log_fact *f = first;
             (f = log_find(log, finding->line, finding->unless, STP_LOG_ANY,
                           f)) != NULL;)
            n++;
        said = finding->topic;
        if (n > 0)
            snprintf(more, sizeof(more), " and %zu more", n);
        if (log->n_shapes > 1 && first->shape > 0)
            snprintf(ranks, sizeof(ranks), " between %u ranks",
                     log->shapes[first->shape - 1].n_ranks);
        stp_diagnose(&d->diagnosis, finding->level, NULL, NULL,
                     "%s%s (line %u%s)", finding->what, ranks, first->line,
                     more);
        if (!log_explain(d, log, said, first->shape) && said == NO_TUNER)
            d->diagnosis.n--;
    }
}

/* Says the first fact of a key, and how many more there are. */
static void log_judge_first(struct stp_doctor *d, const struct stp_job_log *log,
                            enum stp_log_key key, const char *what)
{
    const struct stp_log_fact *f = NULL, *first = NULL;
    char text[240], more[40] = "";
    size_t n = 0;

    for (; (f = stp_log_next(log, key, STP_LOG_ANY, f)) != NULL; n++)
        if (first == NULL || f->line < first->line)
            first = f;
    if (first == NULL)
        return;
    if (n > 1)
        snprintf(more, sizeof(more), ", the first of %zu", n);
    const struct stp_field said =
        key == STP_LOG_FAILURE ? first->message : first->value[0];
    stp_printable(said.s, said.len, text, sizeof(text));
    STP_PROBLEM(d, NULL, NULL, "%s: %s (line %u%s)", what, text, first->line,
                more);
}

/* All versions make two channels of one of the graphs, up to a limit. */
static void log_judge_channels(struct stp_doctor *d,
                               const struct stp_job_log *log, unsigned shape)
{
    const struct stp_log_shape *s = &log->shapes[shape - 1];
    const struct stp_log_fact *links =
        stp_log_next(log, STP_LOG_LINKS, shape, NULL);
    const struct stp_log_fact *channels =
        stp_log_next(log, STP_LOG_CHANNELS, shape, NULL);
    const struct stp_log_fact *ring =
        stp_log_next(log, STP_LOG_RING_GRAPH, shape, NULL);
    double n = INFINITY; /* of all nodes' rings and trees, the fewest */

    for (int i = 0; i < 2; i++)
        for (const struct stp_log_fact *f = NULL;
             (f = stp_log_next(log,
                               i == 0 ? STP_LOG_RING_GRAPH : STP_LOG_TREE_GRAPH,
                               shape, f)) != NULL;)
            n = fmin(n, stp_log_number(f, 2));
    n = isfinite(n) ? n : 0;
    const double expected = fmin(2 * n, stp_log_minor(log) >= 25 ? 64 : 32);
    const double bw = ring != NULL ? n * stp_log_number(ring, 3) : 0;

    if (channels != NULL && stp_log_number(channels, 0) < expected) {
        STP_REMARK(d, NULL, NULL,
                   "%.0f channels between %u ranks (line %u), where the graphs "
                   "give %.0f",
                   stp_log_number(channels, 0), s->n_ranks, channels->line,
                   expected);
        log_explain(d, log, FEW_CHANNELS, shape);
    }
    /* half, so that what searches round off is none */
    if (links != NULL && s->n_nodes == 1 && bw > 0 &&
        bw < 0.5 * stp_log_number(links, 1)) {
        STP_REMARK(d, NULL,
                   "see `nvidia-smi topo -m`, and the topology that NCCL finds "
                   "(NCCL_TOPO_DUMP_FILE)",
                   "rings between %u ranks have %.4g GB/s (line %u), where the "
                   "links of a GPU have %.4g (line %u)",
                   s->n_ranks, bw, ring->line, stp_log_number(links, 1),
                   links->line);
        log_explain(d, log, FEW_CHANNELS, shape);
    }
}

/* A PCIe link to a GPU that is far slower than the others. */
static void log_judge_pci(struct stp_doctor *d, const struct stp_job_log *log)
{
    const struct stp_log_fact *f = NULL, *slow = NULL;
    double most = 0;

    while ((f = stp_log_next(log, STP_LOG_PCI, STP_LOG_ANY, f)) != NULL) {
        if (f->value[1].s[0] != 'G' && f->value[1].s[0] != 'P')
            continue;
        most = fmax(most, stp_log_number(f, 0));
        if (slow == NULL || stp_log_number(f, 0) < stp_log_number(slow, 0))
            slow = f;
    }
    if (slow != NULL && stp_log_number(slow, 0) <= most / 8)
        STP_PROBLEM(d, NULL,
                    "see LnkSta of `lspci -vv`: speed and width that the link "
                    "came up with",
                    "a PCIe link has %.4g GB/s, others up to %.4g (line %u)",
                    stp_log_number(slow, 0), most, slow->line);
}

/* Puts the job's variables into this environment, in place of its own, so that
 * they are judged as those of a job that starts here. */
static void log_take_variables(struct stp_doctor *d,
                               const struct stp_job_log *log, const char *path)
{
    const struct stp_log_fact *f =
        stp_log_next(log, STP_LOG_VERSION, STP_LOG_ANY, NULL);
    unsigned minor, patch;

    if (f != NULL && sscanf(f->value[0].s, "%2u.%2u", &minor, &patch) == 2)
        d->versions[d->n_versions++] = (int)(20000 + 100 * minor + patch);
    f = NULL;
    for (char **v = environ; *v != NULL;) {
        char own[64];

        snprintf(own, sizeof(own), "%.*s", (int)strcspn(*v, "="), *v);
        v = strncmp(own, "NCCL_", 5) == 0 && unsetenv(own) == 0 ? environ
                                                                : v + 1;
    }
    while ((f = stp_log_next(log, STP_LOG_VARIABLE, STP_LOG_ANY, f)) != NULL &&
           d->n_settings < STP_MAX_NAMED_SETTINGS) {
        struct stp_conf_setting *s = &d->settings[d->n_settings];
        char value[1024], plugin[96];

        snprintf(s->name, sizeof(s->name), "NCCL_%.*s",
                 STP_SHOWN(&f->value[0]));
        if (getenv(s->name) != NULL) /* as another rank logged it */
            continue;
        snprintf(plugin, sizeof(plugin), "NET/%%s Adding %s=", s->name);
        snprintf(s->where, sizeof(s->where), "%.120s:%u%s", path, f->line,
                 log_find(log, plugin, NULL, STP_LOG_ANY, NULL) != NULL
                     ? " by a network plugin"
                     : "");
        snprintf(value, sizeof(value), "%.*s", (int)f->value[1].len,
                 f->value[1].s);
        d->n_settings += setenv(s->name, value, 0) == 0;
    }
    if (d->n_settings == 0) {
        STP_FINE(d, "the log names no variable that the job set: none was, or "
                    "NCCL_DEBUG_SUBSYS had no ENV");
        return;
    }
    d->is_logged = true;
    stp_doctor_variables(d);
    stp_doctor_paths(d);
}

int stp_doctor_log(struct stp_doctor *d, const char *path, bool is_whole,
                   bool is_json)
{
    struct stp_job_log log;
    struct stp_error err;
    int exit_status = STP_EXIT_OK;

    if (stp_job_log_load(path, &log, &err) != STP_OK)
        return stp_complain_error(path, &err);
    if (log.unread[0] != '\0')
        stp_complain("%s: compressed files are not read: %s", path, log.unread);
    log_judge_first(d, &log, STP_LOG_FAILURE, "the run failed");
    log_judge_first(d, &log, STP_LOG_WARNING, "NCCL warned");
    log_judge(d, &log);
    log_judge_pci(d, &log);
    for (unsigned shape = 1; shape <= log.n_shapes; shape++)
        log_judge_channels(d, &log, shape);
    log_take_variables(d, &log, path);
    if (!is_whole)
        exit_status = stp_doctor_print(&d->diagnosis, is_json);
    else
        stp_print_job_log(&log, &d->diagnosis, is_json, stdout);
    stp_job_log_free(&log);
    return exit_status;
}
