/* channels.c - channel counts follow topoGetAlgoInfo(), and the channels of a
 * group scheduleCollTasksToPlan(), both in NCCL's src/enqueue.cc */
#include "model/channels.h"

enum { CELL_ALIGN = 16 };

bool mock_pat_is_by_nvls(const struct mock_model *model)
{
    return model->rules->pat_by_nvls && model->n_nodes != model->n_ranks;
}

enum mock_kind mock_kind_of(const struct mock_model *model, int algo)
{
    switch (algo) {
    case NCCL_ALGO_NVLS:
        return model->n_nodes > 1 ? MOCK_KIND_COLLNET_NVLS : MOCK_KIND_NVLS;
    case NCCL_ALGO_NVLS_TREE:
        return MOCK_KIND_NVLS;
    case NCCL_ALGO_COLLNET_DIRECT:
    case NCCL_ALGO_COLLNET_CHAIN:
        return MOCK_KIND_COLLNET;
    case NCCL_ALGO_PAT:
        return mock_pat_is_by_nvls(model) ? MOCK_KIND_NVLS : MOCK_KIND_PLAIN;
    default:
        return MOCK_KIND_PLAIN;
    }
}

/* Takes channels away one by one while the bytes do not justify their number,
 * in stages that end at 16, 8, 4, 2 and 1 channels. Halfway down a stage, at
 * 24, 12, 6 and 3 channels, the bytes per thread that justify a channel are
 * halved. A stage begins only if the bytes still do not justify the number at
 * which the stage before it ended. */
static int channels_direct_channels(const struct mock_model *model,
                                    size_t n_bytes)
{
    const int algo = NCCL_ALGO_COLLNET_DIRECT;
    int threshold = model->thread_threshold[algo][NCCL_PROTO_SIMPLE];
    int n_threads = model->max_threads[algo][NCCL_PROTO_SIMPLE];
    size_t each = (size_t)n_threads * (size_t)model->n_collnet_heads;
    int n = model->n_channels;

    for (int stage = 16; stage >= 1; stage /= 2) {
        while (n > stage && n_bytes < (size_t)n * each * (size_t)threshold) {
            if (n == stage + stage / 2)
                threshold /= 2;
            n--;
        }
        if (n_bytes >= (size_t)n * each * (size_t)threshold)
            break;
    }
    return n;
}

int mock_default_channels(const struct mock_model *model, int algo, int proto,
                          size_t n_bytes)
{
    int n = model->n_channels;
    int n_threads, threshold;

    if (algo >= NCCL_NUM_ALGORITHMS)
        return 0; /* registered buffers have other kernels */
    n_threads = model->max_threads[algo][proto];
    threshold = model->thread_threshold[algo][proto];
    if (algo == NCCL_ALGO_COLLNET_DIRECT)
        return channels_direct_channels(model, n_bytes);
    if (mock_kind_of(model, algo) == MOCK_KIND_COLLNET_NVLS &&
        model->rules->nvls_within_channels && n < model->n_nvls_channels)
        return n;
    if (algo == NCCL_ALGO_NVLS || algo == NCCL_ALGO_NVLS_TREE)
        return model->n_nvls_channels;
    if (algo == NCCL_ALGO_PAT && mock_pat_is_by_nvls(model))
        return model->rules->pat_by_nvls_channels || model->n_nvls_channels < n
                   ? model->n_nvls_channels
                   : n;
    /* Fewer channels if the bytes do not justify them. NCCL's product is an
     * int, and overflows: for 16 channels of a ring with LL, whose threshold
     * grows with the ranks, from 32,768 ranks on. A negative product then
     * compares as a huge size_t. */
    while (n >= 2 && n_bytes < (size_t)(int)((unsigned)n * (unsigned)n_threads *
                                             (unsigned)threshold))
        n--;
    return n;
}

int mock_channel_field(int n_channels)
{
    int low = n_channels & 0xff;

    return low < 128 ? low : low - 256;
}

static size_t channels_div_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static size_t channels_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ncclFuncTrafficPerByte(): the number of times that NCCL counts each byte of a
 * rank's share as traffic over the links. */
static size_t channels_get_weight(const struct mock_model *model, int coll)
{
    switch (coll) {
    case ncclFuncAllReduce:
        return 2;
    case ncclFuncAllGather:
    case ncclFuncReduceScatter:
        return (size_t)model->n_ranks;
    default:
        return 1;
    }
}

/* With LL four bytes of data travel with a flag of four; from 2.26 on NCCL
 * counts the traffic of LL fourfold. */
static size_t channels_traffic_per_byte(const struct mock_model *model,
                                        const struct mock_work *work)
{
    bool heavy = work->proto == NCCL_PROTO_LL && model->rules->weighs_ll;

    return channels_get_weight(model, work->coll) * (heavy ? 4 : 1);
}

/* A collective from the view of one rank. */
struct share {
    size_t element_size; /* NCCL moves allgather and broadcast as bytes */
    size_t n_sides;      /* number of ranks whose bytes getCollInfo counts */
    size_t count;        /* number of elements */
};

static struct share channels_share_of(const struct mock_model *model, int coll,
                                      size_t n_bytes, size_t element_size)
{
    bool bytewise = coll == ncclFuncAllGather || coll == ncclFuncBroadcast;
    bool over_ranks =
        coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;
    struct share s = {.element_size = bytewise ? 1 : element_size,
                      .n_sides = over_ranks ? (size_t)model->n_ranks : 1};

    s.count = channels_div_up(n_bytes, s.element_size * s.n_sides);
    return s;
}

size_t mock_traffic(const struct mock_model *model,
                    const struct mock_call *call)
{
    return mock_share_bytes(model, call) *
           channels_get_weight(model, call->coll);
}

size_t mock_share_bytes(const struct mock_model *model,
                        const struct mock_call *call)
{
    struct share s =
        channels_share_of(model, call->coll, call->n_bytes,
                          call->element_size != 0 ? call->element_size : 2);

    return s.count * s.element_size;
}

/* ---- channels that a group shares ---- */

struct mock_lane mock_lane_of(const struct mock_model *model, int algo)
{
    enum mock_kind kind = mock_kind_of(model, algo);
    bool has_more = kind == MOCK_KIND_COLLNET_NVLS &&
                    !model->rules->nvls_within_channels &&
                    model->n_nvls_channels > model->n_channels;

    /* as many as NCCL has set up for the kind */
    return (struct mock_lane){
        .alone = kind >= MOCK_KIND_COLLNET,
        .limit = kind == MOCK_KIND_NVLS || has_more ? model->n_nvls_channels
                                                    : model->n_channels,
    };
}

void mock_lane_add(struct mock_lane *lane, const struct mock_model *model,
                   const struct mock_work *work, int max_channels)
{
    const struct mock_model_rules *rules = model->rules;
    struct share s =
        channels_share_of(model, work->coll, work->n_bytes, work->element_size);
    size_t traffic =
        s.count * s.element_size * channels_traffic_per_byte(model, work);
    int n = lane->max_channels + max_channels;

    lane->traffic += rules->fine_cells || traffic > rules->min_traffic
                         ? traffic
                         : rules->min_traffic;
    if (lane->alone) {
        lane->max_channels = max_channels;
        return;
    }
    lane->max_channels = n < lane->limit ? n : lane->limit;
    if (lane->max_channels == 0)
        return;
    /* NCCL divides a size_t by the int, so a negative count is a huge one */
    lane->per_channel = lane->traffic / (size_t)lane->max_channels;
    if (rules->fills_channels)
        lane->per_channel =
            channels_div_up(lane->per_channel, CELL_ALIGN) * CELL_ALIGN;
    else if (lane->per_channel < rules->min_traffic)
        lane->per_channel = rules->min_traffic;
}

/* The collective in cells: a channel's part is a whole number of them. */
struct cells {
    size_t n;
    size_t elements; /* elements per cell */
    size_t traffic;  /* bytes of one cell over the links */
    bool whole;      /* up to 2.22 the first channel gets only cells that fit
                        into its free room; later also one that does not */
};

/* Cells of the first channel, of each of 'n_mid' between, and of the last. */
struct deal {
    size_t lo;
    size_t n_mid;
    size_t mid;
    size_t hi;
};

/* The first channel gets what its free room holds, or everything if it is the
 * communicator's last. The others get a full share each, and the last of them
 * the rest. If that takes more channels than are left, the cells after the
 * first channel's are spread over those, and the last also gets the
 * remainder. */
static struct deal channels_deal_cells(const struct mock_lane *lane,
                                       const struct cells *cells)
{
    size_t mid = channels_min_size(
        cells->n, channels_div_up(lane->per_channel, cells->traffic));
    size_t left = (size_t)(lane->limit - lane->channel);
    struct deal d = {.lo = cells->n, .mid = mid};

    size_t room = lane->per_channel - lane->used;

    if (left > 1)
        d.lo = channels_min_size(
            cells->n, cells->whole ? room / cells->traffic
                                   : channels_div_up(room, cells->traffic));
    d.n_mid = (cells->n - d.lo) / mid;
    d.hi = (cells->n - d.lo) % mid;
    if ((d.lo != 0) + d.n_mid + (d.hi != 0) > left) {
        d.n_mid = left - 2;
        d.mid = (cells->n - d.lo) / (d.n_mid + 1);
        d.hi = d.mid + (cells->n - d.lo) % (d.n_mid + 1);
    }
    if (d.hi == 0 && d.n_mid != 0) {
        d.hi = d.mid;
        d.n_mid--;
    }
    return d;
}

void mock_schedule(struct mock_lane *lane, const struct mock_model *model,
                   const struct mock_work *work,
                   struct mock_schedule *schedule_ret)
{
    const struct mock_model_rules *rules = model->rules;
    const struct share share =
        channels_share_of(model, work->coll, work->n_bytes, work->element_size);
    const size_t per_byte = channels_traffic_per_byte(model, work);
    size_t size =
        rules->fine_cells ? 1 : channels_div_up(rules->min_traffic, per_byte);
    struct cells cells;
    struct deal d;

    /* with CollNet a collective is on all its channels, from the first one, and
     * is not divided into parts */
    *schedule_ret = (struct mock_schedule){
        .n_channels = lane->max_channels,
        .n_together = lane->max_channels,
        .element_bytes = share.element_size * share.n_sides,
        .lo = share.count,
    };
    if (lane->alone)
        return;
    size = channels_div_up(size, CELL_ALIGN) * CELL_ALIGN;
    cells = (struct cells){
        .n = channels_div_up(share.count * share.element_size, size),
        .elements = size / share.element_size,
        .traffic = size * per_byte,
        .whole = rules->fine_cells,
    };
    d = channels_deal_cells(lane, &cells);
    if (d.lo == 0) { /* none fits: the collective begins on the next channel */
        lane->channel++;
        if (d.n_mid == 0) {
            d.lo = d.hi;
            d.hi = 0;
        } else {
            d.lo = d.mid;
            d.n_mid--;
        }
    }
    schedule_ret->first = lane->channel;
    schedule_ret->n_channels = 1 + (int)d.n_mid + (d.hi != 0);
    schedule_ret->n_together = 1;
    schedule_ret->lo = d.lo * cells.elements;
    schedule_ret->mid = d.n_mid != 0 ? d.mid * cells.elements : 0;
    schedule_ret->hi = d.hi * cells.elements;
    *(d.hi != 0 ? &schedule_ret->hi : &schedule_ret->lo) -=
        cells.n * cells.elements - share.count;
    /* the rest of the last channel is left for others */
    if (d.hi != 0) {
        lane->channel += schedule_ret->n_channels - 1;
        lane->used = d.hi * cells.traffic;
    } else if (d.n_mid != 0) {
        lane->channel += schedule_ret->n_channels;
        lane->used = 0;
    } else {
        lane->used += d.lo * cells.traffic;
    }
    if (lane->used >= lane->per_channel && lane->channel + 1 != lane->limit) {
        lane->channel++;
        lane->used = 0;
    }
}
