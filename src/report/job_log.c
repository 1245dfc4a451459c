#define _GNU_SOURCE /* memmem(), memrchr() */
#include "report/job_log.h"

#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/looks.h"
#include "core/names.h"
#include "core/qsort.h"
#include "core/text.h"
#include "launch/take.h"
#include "report/plain.h"

static const char compressed[] = "a compressed file";

#define LOG "what a job prints with NCCL_DEBUG=INFO"

enum {
    MAX_LOG = 512 << 20,
    MAX_NAMED = 8,  /* files that are not read */
    MAX_BLANKS = 8, /* that a terminal leaves out at the end of a cut line */
};

#define JOB      STP_LOG_OF_JOB
#define COMM     STP_LOG_OF_COMM
#define DECISION STP_LOG_OF_CALL
#define NONE     STP_LOG_OF_NONE
#define GRAPH_SAYS                                                             \
    "$3 channels of $4# GB/s within a node ($6), $5# to the network ($7)"

const struct stp_log_row stp_log_rows[] = {
    // clang-format off
    {STP_LOG_VERSION, JOB, "TEXT", 21, 32, "%~NCCL version 2.%u%l", "?NCCL", "2.$1$2"},
    {STP_LOG_VERSION, JOB, "", 21, 32, "NCCL version 2.%u%l", "?NCCL", "2.$1$2"},
    {STP_LOG_VERSION, JOB, "TEXT", 21, 32, "%~vLLM is using nccl==2.%u%l", "?NCCL", "2.$1$2"},
    {STP_LOG_SAID, JOB, "", 21, 32, "RCCL version : %l", "?NCCL", "RCCL $1, which is AMD's: its lines are read as far as they are NCCL's"},
    {STP_LOG_FAILURE, JOB, "TEXT", 21, 32, "%~Test NCCL failure %l", "failure", "$1"},
    {STP_LOG_FAILURE, JOB, "TEXT", 21, 32, "%~Test CUDA failure %l", "failure", "$1"},
    {STP_LOG_FAILURE, JOB, "TEXT", 21, 32, "%~srun: error: %l", "failure", "$1"},
    {STP_LOG_FAILURE, JOB, "TEXT", 21, 32, "%~exited on signal %l", "failure", "signal $1"},
    {STP_LOG_FAILURE, JOB, "TEXT", 21, 32, "%~Test failure %l", "failure", "$1"},
    {STP_LOG_FAILURE, JOB, "TEXT", 21, 32, "%~Test timeout %l", "failure", "timeout $1"},
    {STP_LOG_FAILURE, JOB, "TEXT", 21, 32, "%~Segmentation fault (%l", "failure", "segmentation fault ($1"},
    {STP_LOG_FAILURE, JOB, "TEXT", 21, 32, "%~Segmentation fault: %l", "failure", "segmentation fault: $1"},
    {STP_LOG_FAILURE, JOB, "TEXT", 21, 32, "%~CANCELLED AT %l", "failure", "cancelled at $1"},
    {STP_LOG_GPU, JOB, "TEXT", 21, 32, "%~Rank %u %~on %w device %u [%s] %l", "GPU", "$4"},
    {STP_LOG_SAID, JOB, "INIT", 21, 32, "cudaDriverVersion %u", "CUDA driver", "$1"},
    {STP_LOG_VARIABLE, JOB, "ENV", 21, 32, "NCCL_%w set by environment to %l", "variable", "NCCL_$1=$2"},
    {STP_LOG_VARIABLE, JOB, "ENV", 21, 32, "NCCL_%w set to %l", "variable", "NCCL_$1=$2"},
    {STP_LOG_VARIABLE, JOB, "ENV", 21, 27, "TUNER/Plugin: NCCL_%w set to %l", "variable", "NCCL_$1=$2"},
    {STP_LOG_SAID, JOB, "ENV", 21, 32, "NET/%w Adding NCCL_%w=%w to environment", "variable", "NCCL_$2=$3, set by the plugin $1"},
    {STP_LOG_SAID, JOB, "ENV", 21, 32, "NET/%w Setting NCCL_%w to \"%w\"", "variable", "NCCL_$2=$3, set by the plugin $1"},
    {STP_LOG_SAID, JOB, "ENV", 21, 32, "NET/%w %~etting NCCL_%w environment variable to %l", "variable", "NCCL_$2=$3, set by the plugin $1"},
    {STP_LOG_VARIABLE, JOB, "ENV", 28, 32, "Comm config %s reset to NCCL_%w=%l", "variable", "NCCL_$1=$2"},
    {STP_LOG_SAID, JOB, "ENV", 21, 32, "Invalid value %w for NCCL_%w, using default %w", "variable", "NCCL_$2=$1 is not understood: $3"},
    {STP_LOG_SAID, JOB, "ENV", 21, 32, "Comm config %w set to %l", "set by the program", "$1=$2"},
    {STP_LOG_RANK, NONE, "INIT", 21, 32, "%~comm %s rank %u nranks %u cudaDev %~Init START", NULL, NULL},
    {STP_LOG_RANK, NONE, "INIT", 21, 32, "%~comm %s rank %u nranks %u cudaDev %~Init COMPLETE", NULL, NULL},
    {STP_LOG_SHAPE, NONE, "INIT", 21, 32, "comm %s rank %u nRanks %u nNodes %u localRanks %u", NULL, NULL},
    {STP_LOG_SAID, JOB, "ENV", 22, 27, "TUNER/Plugin: Could not find: %*. Using", "tuner plugin", "none: $1"},
    {STP_LOG_SAID, JOB, "ENV", 28, 32, "TUNER/Plugin: Could not find:%l", "tuner plugin", "none: $1"},
    {STP_LOG_SAID, JOB, "ENV", 22, 32, "TUNER/Plugin: %*: cannot open shared object", "tuner plugin", "none: $1"},
    {STP_LOG_SAID, JOB, "ENV", 28, 32, "External tuner plugin %w is unsupported", "tuner plugin", "none: $1"},
    {STP_LOG_TUNER, JOB, "ENV", 21, 27, "TUNER/Plugin: Using tuner plugin %l", "tuner", "$1"},
    {STP_LOG_SAID, JOB, "ENV", 21, 27, "TUNER/Plugin: %~sing internal tuner", "tuner", "NCCL's own"},
    {STP_LOG_TUNER, JOB, "ENV", 28, 32, "TUNER/Plugin: Using %l", "tuner", "$1"},
    {STP_LOG_SAID, JOB, "INIT", 21, 32, "Using network %l", "?network", "$1"},
    {STP_LOG_SAID, JOB, "INIT", 21, 32, "NET/Plugin: Loaded net plugin %l", "network plugin", "$1"},
    {STP_LOG_SAID, JOB, "INIT", 22, 26, "NET/Plugin: Could not find: %*. Using", "network plugin", "none: $1"},
    {STP_LOG_SAID, JOB, "INIT", 27, 32, "NET/Plugin: Could not find:%l", "network plugin", "none: $1"},
    {STP_LOG_SAID, JOB, "INIT", 19, 21, "NET/Plugin%~No plugin found (%*)", "network plugin", "none: $1"},
    {STP_LOG_SAID, JOB, "INIT", 18, 18, "NET/Plugin : Plugin load (%*) returned", "network plugin", "none: $1"},
    {STP_LOG_SAID, JOB, "INIT", 22, 32, "NET/Plugin: %*: cannot open shared object", "network plugin", "none: $1"},
    {STP_LOG_SAID, JOB, "INIT", 28, 32, "External network plugin %w is unsupported", "network plugin", "none: $1"},
    {STP_LOG_SAID, JOB, "NET", 21, 32, "NET/OFI %~ing aws-ofi-nccl %l", "network plugin", "aws-ofi-nccl $1"},
    {STP_LOG_SAID, JOB, "NET", 21, 32, "P2P plugin %l", "network plugin", "$1"},
    {STP_LOG_SAID, JOB, "INIT", 21, 32, "NET/IB : Using %l", "network devices", "$1"},
    {STP_LOG_SAID, JOB, "NET", 21, 32, "NET/OFI Selected %~rovider is %l", "network devices", "$1"},
    {STP_LOG_SAID, JOB, "NET", 21, 32, "NET/OFI Using transport protocol %w", "network devices", "protocol $1"},
    {STP_LOG_SAID, JOB, "INIT", 21, 32, "NET/Socket : Using %l", "network devices", "$1"},
    {STP_LOG_SAID, JOB, "INIT", 21, 32, "NET/IB : No %l", "InfiniBand", "no $1"},
    {STP_LOG_SAID, JOB, "INIT", 21, 29, "Failed to open libibverbs", "InfiniBand", "no libibverbs"},
    {STP_LOG_SAID, JOB, "NET", 21, 32, "NET/%w : GPU Direct RDMA %w for HCA %u %l", "GPUDirect RDMA", "$2 for devices of $1"},
    {STP_LOG_SAID, JOB, "NET", 21, 32, "NET/OFI %*, disabling GDR", "GPUDirect RDMA", "off: $1"},
    {STP_LOG_SAID, JOB, "NET", 21, 32, "GPU Direct RDMA Disabled for %l", "GPUDirect RDMA", "off for $1"},
    {STP_LOG_SAID, JOB, "NET", 21, 32, "GPU Direct RDMA Enabled for GPU", "GPUDirect RDMA", "on"},
    {STP_LOG_CPU, NONE, "GRAPH", 21, 32, "CPU/%s (%u/%u/", NULL, NULL},
    {STP_LOG_PCI, NONE, "GRAPH", 21, 32, "%~+ PCI[%u] - %l", NULL, NULL},
    {STP_LOG_LINKS, COMM, "GRAPH", 21, 32, "=== System : maxBw %u totalBw %u ===", "?links of a GPU", "$2# GB/s"},
    {STP_LOG_RING_GRAPH, COMM, "GRAPH", 21, 32, "Pattern %04, crossNic %u, nChannels %u, bw %u/%u, type %w/%w, sameChannels %u", "?ring graph", GRAPH_SAYS},
    {STP_LOG_NVLS_GRAPH, COMM, "GRAPH", 21, 32, "Pattern %05, crossNic %u, nChannels %u, bw %u/%u, type %w/%w, sameChannels %u", "NVLS graph", GRAPH_SAYS},
    {STP_LOG_SAID, COMM, "GRAPH", 21, 32, "Pattern %06, crossNic %u, nChannels %u, bw %u/%u, type %w/%w, sameChannels %u", "CollNet graph", GRAPH_SAYS},
    {STP_LOG_TREE_GRAPH, COMM, "GRAPH", 21, 32, "Pattern %w, crossNic %u, nChannels %u, bw %u/%u, type %w/%w, sameChannels %u", "tree graph", GRAPH_SAYS},
    {STP_LOG_CHANNELS, COMM, "INIT", 21, 32, "%u coll channels, %u collnet channels, %u nvls channels, %u p2p channels, %u p2p channels per peer", "?channels", "$1 of collectives, $3 of NVLS, $4 point to point, $5 a peer"},
    {STP_LOG_CHANNELS, COMM, "INIT", 18, 20, "%u coll channels, %0%u nvls channels, %u p2p channels, %u p2p channels per peer", "?channels", "$1 of collectives, $3 of NVLS, $4 point to point, $5 a peer"},
    {STP_LOG_CHANNELS, COMM, "INIT", 17, 17, "%u coll channels, %0%0%u p2p channels, %u p2p channels per peer", "?channels", "$1 of collectives, $4 point to point, $5 a peer"},
    {STP_LOG_SAID, COMM, "INIT", 21, 32, "Channel %u%~: %u[%s] -> %u[%s]%~via %t", "?transport", "$4/"},
    {STP_LOG_SAID, COMM, "INIT", 21, 32, "Channel 00/%u : %u %l", "ring of channel 0", "$2 $3"},
    {STP_LOG_SAID, COMM, "INIT", 24, 32, "Connected all rings, use ring PXN %u GDR %u", "?rings", "PXN $1?, GPUDirect RDMA $2?"},
    {STP_LOG_SAID, COMM, "INIT", 24, 26, "Check P2P Type intraNodeP2pSupport %u", "direct access in a node", "$1?"},
    {STP_LOG_SAID, COMM, "INIT", 27, 32, "Check P2P Type isAllDirectP2p %u", "direct access in a node", "$1?"},
    {STP_LOG_SAID, COMM, "INIT", 21, 32, "P2P is disabled between %*.", "no direct access", "$1"},
    {STP_LOG_SAID, COMM, "INIT", 24, 32, "P2P not supported between %l", "no direct access", "$1"},
    {STP_LOG_SAID, COMM, "INIT", 21, 32, "Could not enable P2P between %l", "no direct access", "$1"},
    {STP_LOG_SAID, COMM, "INIT", 21, 32, "peer query failed between %l", "no direct access", "$1"},
    {STP_LOG_SAID, COMM, "INIT", 21, 32, "NVLS multicast support is not available on dev", "?NVLS", "not available"},
    {STP_LOG_SAID, COMM, "INIT", 21, 32, "NVLS multicast support is available on dev", "?NVLS", "available"},
    {STP_LOG_SAID, COMM, "INIT", 27, 32, "Failed to bind NVLink SHARP (NVLS) Multicast memory %l", "?NVLS", "lost: memory $1"},
    {STP_LOG_SAID, COMM, "WARN", 25, 32, "MNNVL (cliqueSize %u) is available but %l", "NVLink between nodes", "lost: $2"},
    {STP_LOG_SAID, COMM, "INIT", 21, 32, "MNNVL 0 cliqueId", "NVLink between nodes", "none"},
    {STP_LOG_SAID, COMM, "INIT", 21, 32, "MNNVL 1 cliqueId %s cliqueSize %u", "NVLink between nodes", "$1 GPUs"},
    {STP_LOG_SAID, NONE, "GRAPH", 27, 32, "Disabling LL128 over all PxN connections", NULL, NULL},
    {STP_LOG_TABLE, NONE, "TUNING", 18, 32, "Algorithm | Tree", NULL, NULL},
    {STP_LOG_TABLE, NONE, "TUNING", 8, 17, "Latency/AlgBw | Tree/", NULL, NULL},
    {STP_LOG_COSTS, COMM, "TUNING", 21, 32, "AllReduce |%s/%u |%s/%u |%s/%u |%s/%u |%s/%u |%s/%u |", "?GB/s by NCCL's model", "tree LL $1, LL128 $2, Simple $3; ring LL $4, LL128 $5, Simple $6"},
    {STP_LOG_RAN, DECISION, "TUNING", 21, 22, "%0%u Bytes -> Algo %u proto %u time", NULL, "$1c\t$2@\t$3a\t$4p\t"},
    {STP_LOG_RAN, DECISION, "TUNING", 24, 32, "%w:%u Bytes -> Algo %w proto %w channel{Lo..Hi}={%u..%u}", NULL, "$1c\t$2@\t$3a\t$4p\t$5..$6"},
    {STP_LOG_RAN, DECISION, "TUNING", 23, 23, "%w:%u Bytes -> Algo %u proto %u time", NULL, "$1c\t$2@\t$3a\t$4p\t"},
    {STP_LOG_RAN, DECISION, "TUNING", 27, 32, "%w [Symmetric]: %u Bytes -> Kernel %w nchannels %u", NULL, "$1c\t$2@\t$3\t\t$4"},
    {STP_LOG_RAN, DECISION, "TUNING", 29, 32, "%w [Copy Engine]: %u Bytes -> %w", NULL, "$1c\t$2@\t$3\t\t"},
    {STP_LOG_RAN, DECISION, "TUNING", 30, 32, "%w [Hierarchical CE]: %u Bytes -> %l", NULL, "$1c\t$2@\t$3\t\t"},
    {STP_LOG_ASKED, NONE, "TUNING", 31, 32, "Input: {%~.func = %w,%~.nBytes = %u,", NULL, NULL},
    {STP_LOG_BEST, DECISION, "TUNING", 31, 32, "Best tuning {%~.algo = %w, .proto = %w, .symKernelId = %w,%~nChannels = %u,", NULL, "$1c\t$2@\t$3a\t$4p\t$6"},
    {STP_LOG_SAID, JOB, "WARN", 21, 32, "%~o algorithm/protocol %~available%l", "warning", "no algorithm is left$1"},
    {STP_LOG_WARNING, JOB, "WARN", 21, 32, "%l", "warning", "$1"},
    {.line = NULL},
    // clang-format on
};

/* ---- whether a line fits ---- */

static const char *log_skip_blanks(const char *s, const char *end)
{
    while (s < end && (*s == ' ' || *s == '\t'))
        s++;
    return s;
}

/* The end of the word, number, transport or nothing at 's' that '*kind' means;
 * NULL if there is none. */
static const char *log_skip_value(const char *kind, const char *s,
                                  const char *end)
{
    const char *from = s;

    if (*kind == '0' || *kind == 'l')
        return *kind == 'l' ? end : s;
    if (*kind == 't') {
        while (s < end && (isalnum((unsigned char)*s) ||
                           (*s != '\0' && strchr("/()_-", *s) != NULL) ||
                           (*s == ' ' && s + 1 < end && s[1] != 'c')))
            s++;
        return s == end || *s == ' ' ? s : NULL; /* " comm 0x5" of 2.18 */
    }
    if (*kind != 'u')
        while (s < end && *s != ' ' && *s != '\t' && *s != kind[1])
            s++;
    for (; *kind == 'u' && s < end; s++)
        if (!isdigit((unsigned char)*s) &&
            (*s != '.' || s + 1 == end || !isdigit((unsigned char)s[1])))
            break;
    return s > from ? s : NULL;
}

/* Whether the text up to 'end' begins as the pattern says; adds its values. */
static bool log_fits(const char *says, const char *s, const char *end,
                     struct stp_field *value)
{
    for (; *says != '\0'; says++) {
        const char *from = s;

        if (*says == ' ') {
            s = log_skip_blanks(s, end);
            if (s == from)
                return false;
        } else if (*says != '%') {
            if (s == end || *s++ != *says)
                return false;
        } else if (*++says == '~' || *says == '*') {
            while (s <= end &&
                   !log_fits(says + 1, s, end, value + (*says == '*')))
                s++;
            if (s <= end && *says == '*')
                *value = (struct stp_field){from, (size_t)(s - from), 1};
            return s <= end;
        } else {
            from = *says == '0' ? s : log_skip_blanks(s, end);
            s = log_skip_value(says, from, end);
            if (s == NULL)
                return false;
            if (*says != 's')
                *value++ = (struct stp_field){from, (size_t)(s - from), 1};
        }
    }
    return true;
}

/* ---- where in a line NCCL's begins ---- */

/* Steps back over ":DIGITS" before 's'; NULL if something else is there. */
static const char *log_step_back(const char *line, const char *s)
{
    while (s > line && isdigit((unsigned char)s[-1]))
        s--;
    return s > line && s[-1] == ':' ? s - 1 : NULL;
}

/* Where the host begins that ends at 'end': a row may end against it. */
static const char *log_find_host(const char *line, const char *end,
                                 struct stp_field *known)
{
    const char *s = end;

    while (s > line && (isalnum((unsigned char)s[-1]) ||
                        (s[-1] != '\0' && strchr("._-", s[-1]) != NULL)))
        s--;
    if (known->len > 0 && (size_t)(end - s) >= known->len &&
        memcmp(end - known->len, known->s, known->len) == 0)
        return end - known->len;
    if (s == line && known->len == 0)
        *known = (struct stp_field){s, (size_t)(end - s), 1};
    if (s - line >= 2 && s[-1] == '/' && s[-2] == 'N' && *s == 'A')
        return s + 1; /* "N/Avm" */
    if (s == line || (s[-1] != ' ' && s[-1] != '\t'))
        return s;
    s += *s == '-'; /* "-1vm", "0vm" */
    while (s < end && isdigit((unsigned char)*s))
        s++;
    return s;
}

static size_t log_find_one(const char *line, size_t len,
                           struct stp_field *known, struct stp_log_message *m)
{
    static const char *const levels[] = {"INFO ", "WARN ", "ATTN ", "TRACE ",
                                         "CALL "};
    const char *at = line, *device, *end, *s;

    for (m->s = NULL; m->s == NULL; at++) {
        at = memmem(at, (size_t)(line + len - at), "NCCL ", 5);
        if (at == NULL)
            return len;
        for (int i = 0; i < 5 && m->s == NULL; i++) {
            const size_t level = strlen(levels[i]);

            m->is_warning = i == 1 || i == 2;
            if ((size_t)(line + len - at) >= 5 + level &&
                memcmp(at + 5, levels[i], level) == 0)
                m->s = at + 5 + level;
        }
    }
    m->thread = (struct stp_field){--at, 0, 1};
    device = memrchr(line, '[', (size_t)(at - line));
    end = device != NULL ? memchr(device, ']', (size_t)(at - device)) : NULL;
    if (end == NULL)
        return (size_t)(at - line);
    m->thread = (struct stp_field){device, (size_t)(++end - device), 1};
    s = log_step_back(line, device - (device > line));
    s = s != NULL ? log_step_back(line, s) : NULL;
    if (s == NULL)
        return (size_t)(device - line);
    s = log_find_host(line, s, known);
    m->thread = (struct stp_field){s, (size_t)(end - s), 1};
    return (size_t)(s - line);
}

size_t stp_log_find(const char *line, size_t len, struct stp_field *known,
                    struct stp_log_message *m)
{
    const size_t begin = log_find_one(line, len, known, m);
    struct stp_log_message next;
    size_t n;

    m->end = line + len;
    m->is_torn = false;
    if (m->s == NULL)
        return begin;
    n = log_find_one(m->s, (size_t)(m->end - m->s), known, &next);
    m->end = m->s + n;
    /* where it ends is known where a host that is begins the next */
    m->is_torn =
        next.s != NULL &&
        (n == 0 || (!isalnum((unsigned char)m->end[-1]) && m->end[-1] != '.') ||
         known->len == 0 || next.thread.len < known->len ||
         memcmp(next.thread.s, known->s, known->len) != 0);
    return begin;
}

/* Whether the row fits, with values that are whole. */
static bool log_fits_row(const struct stp_log_message *m, const char *s,
                         const char *end, struct stp_log_fact *fact)
{
    if (!m->is_torn)
        return log_fits(fact->row->line, s, end, fact->value);
    for (int i = 0; i < STP_LOG_VALUES; i++)
        fact->value[i] = (struct stp_field){s, 0, 1};
    if (!log_fits(fact->row->line, s, end, fact->value))
        return false;
    for (int i = 0; i < STP_LOG_VALUES; i++)
        if (fact->value[i].s + fact->value[i].len == end)
            return false;
    return true;
}

bool stp_log_read(const struct stp_log_message *m, bool is_log, const char *end,
                  struct stp_log_fact *fact)
{
    const char *s = log_skip_blanks(m->s, end);

    *fact = (struct stp_log_fact){.row = stp_log_rows,
                                  .thread = m->thread,
                                  .message = {s, (size_t)(end - s), 1}};
    for (int i = 0; i < STP_LOG_VALUES; i++)
        fact->value[i] = (struct stp_field){s, 0, 1};
    while (fact->row->line != NULL &&
           ((strcmp(fact->row->subsystem, "TEXT") == 0) == is_log ||
            (strcmp(fact->row->subsystem, "WARN") == 0 && !m->is_warning) ||
            !log_fits_row(m, s, end, fact)))
        fact->row++;
    return fact->row->line != NULL;
}

/* ---- facts ---- */

static int log_compare_fields(const struct stp_field *a,
                              const struct stp_field *b)
{
    STP_RETURN_ORDER(memcmp(a->s, b->s, a->len < b->len ? a->len : b->len));
    return STP_ORDER(a->len, b->len);
}

static unsigned log_count(const struct stp_field *field)
{
    uint64_t n = 0;

    return stp_parse_u64(field->s, field->len, &n) && n < 1 << 30 ? (unsigned)n
                                                                  : 0;
}

/* The last rank that a thread made. */
static unsigned log_find_rank(const struct stp_job_log *log,
                              const struct stp_field *thread)
{
    unsigned i = (unsigned)log->n_ranks;

    while (i > 0 && log_compare_fields(&log->ranks[i - 1].thread, thread) != 0)
        i--;
    return i;
}

/* Notes the rank that a line makes, unless the thread has it. */
static void log_add_rank(struct stp_job_log *log,
                         const struct stp_log_message *m,
                         const struct stp_log_fact *fact)
{
    const unsigned number = log_count(&fact->value[0]);
    const unsigned n_ranks = log_count(&fact->value[1]);
    unsigned found = log_find_rank(log, &m->thread);

    if (found == 0 || log->ranks[found - 1].number != number ||
        log->ranks[found - 1].n_ranks != n_ranks) {
        STP_TAKE_ROOM(log->ranks, log->n_ranks, log->ranks_capacity);
        found = (unsigned)++log->n_ranks;
        log->ranks[found - 1] =
            (struct stp_log_rank){m->thread, number, n_ranks, 0, 0, 0};
    }
    if (fact->row->key == STP_LOG_SHAPE) {
        log->ranks[found - 1].n_nodes = log_count(&fact->value[2]);
        log->ranks[found - 1].per_node = log_count(&fact->value[3]);
    }
}

/* Completes a fact by what its thread logged before; false if it is none. */
static bool log_complete(const struct stp_job_log *log,
                         struct stp_log_fact *fact)
{
    const enum stp_log_key key = fact->row->key;
    struct stp_field *last = &fact->value[1];

    if (key == STP_LOG_VARIABLE && last->len > 1 &&
        last->s[last->len - 1] == '.')
        last->len--; /* it ends what is a number */
    if (key != STP_LOG_COSTS && key != STP_LOG_BEST)
        return true;
    for (size_t i = log->n_facts; i > 0; i--) {
        const struct stp_log_fact *f = &log->facts[i - 1];

        if (log_compare_fields(&f->thread, &fact->thread) != 0)
            continue;
        if (key == STP_LOG_COSTS && f->row->key == STP_LOG_TABLE)
            return true;
        /* other algorithms stand in the tables that follow */
        if (key == STP_LOG_COSTS && f->row->key == key)
            return false;
        if (key == STP_LOG_BEST && f->row->key == STP_LOG_ASKED) {
            memmove(fact->value + 2, fact->value, 4 * sizeof(*f->value));
            memcpy(fact->value, f->value, 2 * sizeof(*f->value));
            return true;
        }
    }
    return false;
}

/* Reads the first message of the line, which may stand against others; returns
 * the end of it. */
static const char *log_read_line(struct stp_job_log *log, unsigned number,
                                 const char *line, size_t len)
{
    struct stp_log_message m = {.thread = {line, 0, 1}};
    const bool is_log = stp_log_find(line, len, &log->host, &m) < len;
    struct stp_log_fact fact;

    if (!is_log)
        m.s = line;
    log->n_lines += is_log;
    if (!stp_log_read(&m, is_log, m.end, &fact))
        return m.end;
    if (fact.row->key == STP_LOG_RANK || fact.row->key == STP_LOG_SHAPE)
        log_add_rank(log, &m, &fact);
    fact.line = number;
    fact.rank = log_find_rank(log, &fact.thread);
    if (!log_complete(log, &fact))
        return m.end;
    STP_TAKE_ROOM(log->facts, log->n_facts, log->facts_capacity);
    log->facts[log->n_facts++] = fact;
    return m.end;
}

/* Threads by name, and the lines of a thread as they follow each other: so the
 * order in which threads wrote does not matter. */
static int log_compare(const void *a, const void *b)
{
    const struct stp_log_fact *x = a, *y = b;

    STP_RETURN_ORDER(log_compare_fields(&x->thread, &y->thread));
    return STP_ORDER(x->message.s, y->message.s);
}

/* Tells facts the shape of their communicator.  What a thread logged before it
 * made a rank is of its first, since lines may be cut off; what other threads
 * logged, as those that connect ranks later, of the only shape there is. */
static void log_add_shapes(struct stp_job_log *log)
{
    for (size_t i = 0; i < log->n_facts; i++) {
        struct stp_log_fact *f = &log->facts[i];
        struct stp_log_rank *rank;
        unsigned k = 0;

        for (unsigned n = 1; n <= log->n_ranks && f->rank == 0; n++)
            if (log_compare_fields(&log->ranks[n - 1].thread, &f->thread) == 0)
                f->rank = n;
        if (f->rank == 0)
            continue;
        rank = &log->ranks[f->rank - 1];
        while (k < log->n_shapes && (log->shapes[k].n_ranks != rank->n_ranks ||
                                     log->shapes[k].n_nodes != rank->n_nodes))
            k++;
        if (k == log->n_shapes) {
            STP_TAKE_ROOM(log->shapes, log->n_shapes, log->shapes_capacity);
            log->shapes[log->n_shapes++] = (struct stp_log_shape){
                rank->n_ranks, rank->n_nodes, rank->per_node, 0};
        }
        log->shapes[k].n_logged += rank->shape == 0;
        f->shape = rank->shape = k + 1;
    }
    for (size_t i = 0; i < log->n_facts && log->n_shapes == 1; i++)
        log->facts[i].shape = 1;
}

/* ---- the log ---- */

/* The width at which a terminal cut the lines of a text: there are three so
 * long that begin a message and go on in the next, and few that do not; else
 * SIZE_MAX. */
static size_t log_measure_width(const char *text, const char *end)
{
    struct stp_field known = {text, 0, 1};
    struct stp_log_message m;
    const char *line, *s = text;
    size_t width = 0, n, n_cut = 0, n_whole = 0;
    bool is_long = false;

    while ((line = stp_next_line(&s, end, &n)) != NULL)
        width = n > width ? n : width;
    for (s = text; (line = stp_next_line(&s, end, &n)) != NULL;) {
        const bool begins = log_find_one(line, n, &known, &m) < n;

        n_cut += is_long && n > 0 && !begins;
        n_whole += is_long && (n == 0 || begins);
        is_long = n == width && (begins || is_long);
    }
    return n_cut >= 3 && n_whole * 4 <= n_cut ? width : SIZE_MAX;
}

/* Puts what a terminal cut off the line behind it, with the blank that ended
 * it: lines up to one that begins a message.  Returns how many they are. */
static unsigned log_join_lines(struct stp_job_log *log, char *line, size_t *n,
                               const char **s, const char *end, size_t width)
{
    struct stp_log_message m;
    size_t last = *n;
    unsigned n_joined = 0;

    if (last + MAX_BLANKS < width ||
        log_find_one(line, last, &log->host, &m) == last)
        return 0;
    for (; last + MAX_BLANKS >= width; n_joined++) {
        const bool has_blank = last < width;
        const char *next = *s;
        const char *more = stp_next_line(&next, end, &last);

        if (more == NULL || log_find_one(more, last, &log->host, &m) < last)
            return n_joined;
        if (has_blank)
            line[(*n)++] = ' ';
        memmove(line + *n, more, last);
        *n += last;
        *s = next;
    }
    return n_joined;
}

enum stp_status stp_job_log_read(char *text, size_t len,
                                 struct stp_job_log *log_ret,
                                 struct stp_error *err)
{
    struct stp_job_log log = {.text = NULL};
    const char *const end = text + stp_plain(text, len);
    const size_t width = log_measure_width(text, end);
    const char *s = text, *line;
    unsigned number = 0;
    size_t n;

    while ((line = stp_next_line(&s, end, &n)) != NULL) {
        const unsigned n_joined =
            log_join_lines(&log, text + (line - text), &n, &s, end, width);
        const char *const line_end = line + n;

        number++;
        do
            line = log_read_line(&log, number, line, (size_t)(line_end - line));
        while (line < line_end);
        number += n_joined;
    }
    STP_SORT(log.facts, log.n_facts, log_compare);
    log_add_shapes(&log);
    if (log.n_lines > 0) {
        *log_ret = log;
        log_ret->text = text;
        return STP_OK;
    }
    stp_job_log_free(&log);
    stp_fail(err, STP_ERR_SYNTAX, "no line of NCCL's log, expected " LOG);
    return stp_refuse_kind(text, (size_t)(end - text), LOG, err);
}

enum stp_status stp_job_log_load(const char *path, struct stp_job_log *log_ret,
                                 struct stp_error *err)
{
    struct dirent **files = NULL;
    const int n = scandir(path, &files, NULL, alphasort);
    char *text = NULL, *one, file[4096], unread[sizeof(log_ret->unread)] = "";
    size_t len = 0, n_one, n_unread = 0;
    const char *like;
    FILE *all = n < 0 ? NULL : stp_take_text(&text, &len);
    struct stat st;
    enum stp_status status =
        n < 0 ? stp_read_file(path, MAX_LOG, &text, &len, err) : STP_OK;

    for (int i = 0; i < n; i++) {
        const char *name = files[i]->d_name;

        snprintf(file, sizeof(file), "%s/%s", path, name);
        if (status == STP_OK && name[0] != '.' && stat(file, &st) == 0 &&
            S_ISREG(st.st_mode)) {
            status = stp_read_file(file, MAX_LOG, &one, &n_one, err);
            like = status == STP_OK ? stp_looks_like(one, n_one) : NULL;
            if (like != NULL &&
                strncmp(like, compressed, strlen(compressed)) == 0) {
                if (n_unread++ < MAX_NAMED)
                    stp_append(unread, sizeof(unread), "%s%.40s",
                               n_unread == 1 ? "" : ", ", name);
                free(one);
            } else if (status == STP_OK) {
                fwrite(one, 1, n_one, all);
                fputs(n_one > 0 && one[n_one - 1] != '\n' ? "\n" : "", all);
                free(one);
            } else {
                stp_fail_in(err, status, name);
            }
        }
        free(files[i]);
    }
    free(files);
    if (all != NULL)
        stp_end_text(all);
    if (n_unread > MAX_NAMED)
        stp_append(unread, sizeof(unread), " and %zu more",
                   n_unread - MAX_NAMED);
    if (status == STP_OK && n >= 0 && len == 0)
        status = stp_fail(err, STP_ERR_IO,
                          "is a folder without a log, expected files with "
                          "text; folders within it and compressed files are "
                          "not read");
    STP_THEN(status, stp_job_log_read(text, len, log_ret, err));
    if (status != STP_OK) {
        free(text);
        return status;
    }
    memcpy(log_ret->unread, unread, sizeof(unread));
    return status;
}

void stp_job_log_free(struct stp_job_log *log)
{
    free(log->text);
    free(log->facts);
    free(log->ranks);
    free(log->shapes);
    memset(log, 0, sizeof(*log));
}

/* ---- questions ---- */

const struct stp_log_fact *stp_log_next(const struct stp_job_log *log,
                                        enum stp_log_key key, unsigned shape,
                                        const struct stp_log_fact *after)
{
    size_t i = after != NULL ? (size_t)(after - log->facts) + 1 : 0;

    for (; i < log->n_facts; i++)
        if (log->facts[i].row->key == key &&
            (shape == STP_LOG_ANY || log->facts[i].shape == shape))
            return &log->facts[i];
    return NULL;
}

bool stp_log_fits(const struct stp_log_fact *fact, const char *line)
{
    struct stp_field value[STP_LOG_VALUES];

    return log_fits(line, fact->message.s, fact->message.s + fact->message.len,
                    value);
}

double stp_log_number(const struct stp_log_fact *fact, int i)
{
    double value = NAN;

    stp_parse_double(fact->value[i].s, fact->value[i].len, &value);
    return value;
}

int stp_log_word(const struct stp_field *word, int n,
                 int (*from_name)(const char *, size_t))
{
    uint64_t number;

    if (stp_parse_u64(word->s, word->len, &number))
        return number < (uint64_t)n ? (int)number : -1;
    return stp_from_any_case(word->s, word->len, from_name);
}

unsigned stp_log_minor(const struct stp_job_log *log)
{
    const struct stp_log_fact *f =
        stp_log_next(log, STP_LOG_VERSION, STP_LOG_ANY, NULL);

    return f != NULL && stp_log_number(f, 0) < 1000
               ? (unsigned)stp_log_number(f, 0)
               : 0;
}

void stp_log_lacks(const struct stp_job_log *log, const struct stp_log_row *row,
                   char *text, size_t size)
{
    const unsigned minor = stp_log_minor(log);
    bool has_subsystem =
        strlen(row->subsystem) == 0 || row->key == STP_LOG_VERSION;

    for (size_t i = 0; i < log->n_facts; i++)
        has_subsystem |=
            strcmp(log->facts[i].row->subsystem, row->subsystem) == 0;
    if (minor >= 21 && minor < row->since)
        snprintf(text, size, "unknown: NCCL 2.%u does not log it", minor);
    else if (has_subsystem)
        snprintf(text, size, "unknown: the log has no line of it");
    else
        snprintf(text, size,
                 "unknown: the log has no %s lines: run with NCCL_DEBUG=INFO "
                 "NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH,TUNING",
                 row->subsystem);
}
