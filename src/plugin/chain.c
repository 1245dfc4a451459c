#include "plugin/chain.h"

#include <limits.h>
#include <string.h>

#include "core/rng.h"
#include "plugin/log.h"
#include "plugin/settings.h"

/* Tells a fault, once. */
#define TELL(chain, format, ...)                                               \
    do {                                                                       \
        if (!(chain)->has_told)                                                \
            stp_log((chain)->log, NCCL_LOG_WARN, "chain.c", __LINE__,          \
                    "steptune: tuner '%s' of %s " format,                      \
                    stp_lower_name(&chain->lower), (chain)->lower.path,        \
                    __VA_ARGS__);                                              \
        (chain)->has_told = true;                                              \
    } while (0)

/* ---- asking ---- */

/* As NCCL's own shim for version 2 has it: the pair that such a tuner names
 * costs nothing, unless it is ruled out. */
static ncclResult_t chain_ask_v2(void *opaque, ncclFunc_t coll, size_t n_bytes,
                                 int n_pipe_ops, float **table, int n_algo,
                                 int n_proto, int reg_buff, int *n_channels)
{
    const struct stp_chain *chain = opaque;
    const ncclTuner_v2_t *tuner = chain->lower.symbol;
    float(*cost)[NCCL_NUM_PROTOCOLS] = (float(*)[NCCL_NUM_PROTOCOLS])table;
    const bool collnet = cost[NCCL_ALGO_COLLNET_CHAIN][NCCL_PROTO_SIMPLE] !=
                         NCCL_ALGO_PROTO_IGNORE;
    const bool nvls =
        cost[NCCL_ALGO_NVLS][NCCL_PROTO_SIMPLE] != NCCL_ALGO_PROTO_IGNORE ||
        cost[NCCL_ALGO_NVLS_TREE][NCCL_PROTO_SIMPLE] != NCCL_ALGO_PROTO_IGNORE;
    int algo = NCCL_ALGO_UNDEF, proto = NCCL_PROTO_UNDEF;
    const ncclResult_t rc =
        tuner->getCollInfo(chain->context, coll, n_bytes, collnet, nvls,
                           n_pipe_ops, &algo, &proto, n_channels);

    if (rc == ncclSuccess && algo >= 0 && algo < n_algo && proto >= 0 &&
        proto < n_proto && cost[algo][proto] != NCCL_ALGO_PROTO_IGNORE)
        cost[algo][proto] = 0;
    return rc;
}

static ncclResult_t chain_ask_v3(void *opaque, ncclFunc_t coll, size_t n_bytes,
                                 int n_pipe_ops, float **table, int n_algo,
                                 int n_proto, int reg_buff, int *n_channels)
{
    const struct stp_chain *chain = opaque;
    const ncclTuner_v3_t *tuner = chain->lower.symbol;

    return tuner->getCollInfo(chain->context, coll, n_bytes, n_pipe_ops, table,
                              n_algo, n_proto, n_channels);
}

typedef float quad_t __attribute__((vector_size(16)));
typedef int32_t quad_bits_t __attribute__((vector_size(16)));

/* Copies by fours, of which the last may overlap; memcpy() takes longer. */
static void chain_copy(float *to, const float *from, int n)
{
    for (int i = 0; i < n; i += 4) {
        const int at = i + 4 <= n ? i : n - 4;
        quad_t times;

        memcpy(&times, &from[at], sizeof(times));
        memcpy(&to[at], &times, sizeof(times));
    }
}

/* Whether NCCL can be given the table 'now' for its 'own', which is kept if
 * something is ruled out.  Mostly it is as NCCL's in what it rules out. */
static bool chain_is_sound(struct stp_chain *chain, const float *own,
                           const float *now, int n)
{
    quad_bits_t differs = {0};
    bool is_wrong = false;

    for (int i = 0; i < n; i += 4) {
        const int at = i + 4 <= n ? i : n - 4;
        quad_t before, times;

        memcpy(&before, &own[at], sizeof(before));
        memcpy(&times, &now[at], sizeof(times));
        differs |= (times != times) | ((before < 0) ^ (times < 0));
    }
    if ((differs[0] | differs[1] | differs[2] | differs[3]) == 0)
        return true;
    memcpy(chain->own, own, (size_t)n * sizeof(*own));
    for (int i = 0; i < n; i++) {
        is_wrong |= now[i] != now[i] || (chain->own[i] < 0 && now[i] >= 0);
        chain->rules_out |= chain->own[i] >= 0 && now[i] < 0;
    }
    return !is_wrong;
}

/* Whether NCCL gets an answer as it is; tells the first that it cannot use, and
 * the first error. */
static bool chain_passes(struct stp_chain *chain, ncclResult_t rc,
                         bool is_sound, int n_channels)
{
    const bool is_channels = (unsigned)n_channels <= SCHAR_MAX; /* a byte */

    if (rc != ncclSuccess)
        TELL(chain, "returns error %d, which NCCL sees as without Steptune",
             (int)rc);
    else if (!is_sound || !is_channels)
        TELL(chain,
             "gives %s that NCCL cannot use; where it does, NCCL chooses",
             is_channels ? "times" : "a number of channels");
    return rc != ncclSuccess || (is_sound && is_channels);
}

ncclResult_t stp_chain_ask(struct stp_chain *chain, ncclFunc_t coll,
                           size_t n_bytes, int n_pipe_ops, float *cost,
                           int n_algo, int n_proto, int reg_buff,
                           int *n_channels)
{
    const int n = n_algo * n_proto, own_channels = *n_channels;
    const bool is_checked = n >= 4 && n <= STP_CHAIN_ENTRIES;
    float *table = is_checked ? chain->table + STP_CHAIN_MARGIN : cost;
    ncclResult_t rc;

    if (chain->ask == NULL)
        return ncclSuccess;
    chain->rules_out = false;
    if (is_checked)
        chain_copy(table, cost, n);
    rc = chain->ask(chain->lower.version >= 4 ? chain->context : chain, coll,
                    n_bytes, n_pipe_ops, (float **)table, n_algo, n_proto,
                    reg_buff, n_channels);
    if (!chain_passes(chain, rc,
                      !is_checked || chain_is_sound(chain, cost, table, n),
                      *n_channels))
        *n_channels = own_channels;
    else if (is_checked)
        chain_copy(cost, table, n);
    return rc;
}

void stp_chain_settle(const struct stp_chain *chain, float *cost, int n)
{
    for (int i = 0; chain->rules_out && i < n; i++)
        if (chain->own[i] >= 0 && cost[i] < 0)
            cost[i] = 3.5e9f; /* an hour, below NCCL's own "never" */
}

ncclResult_t stp_chain_ask_pair(struct stp_chain *chain, ncclFunc_t coll,
                                size_t n_bytes, int collnet, int nvls,
                                int n_pipe_ops, int *algo, int *proto,
                                int *n_channels)
{
    const int own_algo = *algo, own_proto = *proto, own_channels = *n_channels;
    const ncclTuner_v2_t *tuner = chain->lower.symbol;
    bool is_there;
    ncclResult_t rc;

    if (chain->ask == NULL)
        return ncclSuccess;
    rc = tuner->getCollInfo(chain->context, coll, n_bytes, collnet, nvls,
                            n_pipe_ops, algo, proto, n_channels);
    is_there = *algo >= NCCL_ALGO_UNDEF && *algo < NCCL_ALGO_PAT &&
               (*algo < NCCL_ALGO_COLLNET_DIRECT ||
                (*algo < NCCL_ALGO_NVLS ? collnet : nvls)) &&
               *proto >= NCCL_PROTO_UNDEF && *proto < NCCL_NUM_PROTOCOLS;
    if (!chain_passes(chain, rc, is_there, *n_channels)) {
        *algo = own_algo;
        *proto = own_proto;
        *n_channels = own_channels;
    }
    return rc;
}

ncclResult_t stp_chain_ask_chunk(struct stp_chain *chain, ncclFunc_t coll,
                                 size_t n_bytes, int algo, int proto,
                                 int n_channels, size_t *chunk)
{
    /* NCCL rounds down to a multiple, and divides by what it gets */
    static const size_t grains[NCCL_NUM_PROTOCOLS] = {[NCCL_PROTO_LL] = 16,
                                                      [NCCL_PROTO_LL128] = 1920,
                                                      [NCCL_PROTO_SIMPLE] =
                                                          512};
    const ncclTuner_v6_t *tuner = chain->lower.symbol; /* v7 has it, too */
    const size_t own = *chunk;
    ncclResult_t rc;

    if (chain->ask == NULL || chain->lower.version < 6 ||
        tuner->getChunkSize == NULL)
        return ncclSuccess;
    rc = tuner->getChunkSize(chain->context, coll, n_bytes, algo, proto,
                             n_channels, chunk);
    if (rc == ncclSuccess &&
        (proto < 0 || proto >= NCCL_NUM_PROTOCOLS || *chunk < grains[proto])) {
        TELL(chain,
             "gives a chunk of %zu bytes, which NCCL cannot use; where "
             "it does, NCCL chooses",
             *chunk);
        *chunk = own;
    }
    return rc;
}

/* ---- life ---- */

/* The interface of version 7 has constants that older tuners do not know:
 * those of both go down and come back, as through NCCL's own shim. */
static ncclResult_t chain_init(struct stp_chain *chain,
                               const struct stp_chain_init *init)
{
    const ncclTuner_v7_t *v7 = chain->lower.symbol;
    const ncclTuner_v5_t *v5 = chain->lower.symbol;
    const ncclTuner_v2_t *v2 = chain->lower.symbol;
    ncclTunerConstants_v5_t constants;
    ncclResult_t rc;

    if (chain->lower.version < 5)
        return v2->init(init->n_ranks, init->n_nodes, init->log,
                        &chain->context);
    if (chain->lower.version == 7)
        return v7->init(&chain->context, init->comm_id, init->n_ranks,
                        init->n_nodes, init->log, init->nvl, init->constants);
    if (init->version < 7 || init->constants == NULL)
        return v5->init(&chain->context, init->comm_id, init->n_ranks,
                        init->n_nodes, init->log, init->nvl, init->constants);
    nccl_constants_to_v5(init->constants, &constants);
    rc = v5->init(&chain->context, init->comm_id, init->n_ranks, init->n_nodes,
                  init->log, init->nvl, &constants);
    nccl_constants_to_v7(&constants, init->constants);
    return rc;
}

static enum stp_status chain_find(const struct stp_chain_init *init,
                                  struct stp_lower *lower_ret,
                                  struct stp_error *err)
{
    const struct stp_lower_question question = {
        .chain = stp_setting("STEPTUNE_CHAIN"),
        .net = stp_setting("NCCL_NET_PLUGIN"),
        .newest = init->version,
        .is_job = true};

    return stp_lower_find(&question, lower_ret, err);
}

bool stp_chain_exists(const struct stp_chain_init *init)
{
    struct stp_lower lower;
    struct stp_error err;

    return chain_find(init, &lower, &err) == STP_OK && lower.symbol != NULL;
}

ncclResult_t stp_chain_open(struct stp_chain *chain,
                            const struct stp_chain_init *init)
{
    const ncclTuner_v4_t *any; /* all begin with a name and three functions */
    struct stp_error err;
    ncclResult_t rc;

    chain->log = init->log;
    if (chain_find(init, &chain->lower, &err) != STP_OK) {
        stp_log(chain->log, NCCL_LOG_WARN, "chain.c", __LINE__,
                "steptune: no tuner is asked first: %s", err.text);
        chain->has_told = true;
    }
    any = chain->lower.symbol;
    if (any == NULL)
        return ncclSuccess;
    rc = any->init != NULL ? chain_init(chain, init) : ncclInvalidUsage;
    if (rc == ncclSuccess && (any->getCollInfo == NULL || any->destroy == NULL))
        rc = ncclInvalidUsage; /* which its init may have set */
    chain->identity = stp_hash(chain->lower.identity, rc);
    if (rc != ncclSuccess) {
        TELL(chain, "cannot be asked first: its init returns error %d",
             (int)rc);
        return rc;
    }
    chain->ask = chain->lower.version >= 4   ? any->getCollInfo
                 : chain->lower.version == 3 ? chain_ask_v3
                                             : chain_ask_v2;
    chain->is_open = true;
    stp_log(chain->log, NCCL_LOG_INFO, "chain.c", __LINE__,
            "steptune: tuner '%s' (v%d) of %s, by %s, is asked first, and "
            "decides where no rule applies",
            stp_lower_name(&chain->lower), chain->lower.version,
            chain->lower.path, chain->lower.found_by);
    return ncclSuccess;
}

ncclResult_t stp_chain_close(struct stp_chain *chain)
{
    const ncclTuner_v2_t *any = chain->lower.symbol; /* finalize since v5 */

    return chain->is_open ? any->destroy(chain->context) : ncclSuccess;
}
