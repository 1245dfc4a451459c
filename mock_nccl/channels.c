#include "channels.h"

enum {
    MIN_TRAFFIC = 16 << 10, /* bytes that are worth a channel */
    CELL_ALIGN = 16,
};

int mock_default_channels(const struct mock_model *model, int algo, int proto,
                          size_t n_bytes)
{
    int n_threads = model->max_threads[algo][proto];
    int threshold = model->thread_threshold[algo][proto];
    int n = model->n_channels;

    if (algo == NCCL_ALGO_NVLS || algo == NCCL_ALGO_NVLS_TREE)
        return model->n_nvls_channels;
    while (n >= 2 && n_bytes < (size_t)(n * n_threads * threshold))
        n--;
    return n;
}

int mock_channel_field(int n_channels)
{
    int low = n_channels & 0xff;

    return low < 128 ? low : low - 256;
}

static size_t div_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How often each byte of a rank's buffer crosses the links, as NCCL weighs it:
 * LL four times. */
static size_t traffic_per_byte(const struct mock_work *work, int n_ranks)
{
    size_t weight = work->proto == NCCL_PROTO_LL ? 4 : 1;

    switch (work->coll) {
    case ncclFuncAllReduce:
        return weight * 2;
    case ncclFuncAllGather:
    case ncclFuncReduceScatter:
        return weight * (size_t)n_ranks;
    default:
        return weight;
    }
}

static int ranks_in_bytes(const struct mock_model *model, int coll)
{
    return coll == ncclFuncAllGather || coll == ncclFuncReduceScatter
               ? model->n_ranks
               : 1;
}

/* A negative count divides as a huge one, as NCCL's does. */
static size_t traffic_per_channel(size_t traffic, int max_channels, int limit)
{
    int n = max_channels < limit ? max_channels : limit;

    return max_size(MIN_TRAFFIC, max_size(MIN_TRAFFIC, traffic) / (size_t)n);
}

/* The collective in cells, the unit that channels get. */
struct cells {
    size_t n;
    size_t elements; /* in one */
    size_t traffic;  /* bytes of one over the links */
};

static struct cells cut(size_t n_bytes, size_t per_byte, size_t element_size)
{
    size_t size =
        div_up(div_up(MIN_TRAFFIC, per_byte), CELL_ALIGN) * CELL_ALIGN;

    return (struct cells){
        .n = div_up(n_bytes, size),
        .elements = size / element_size,
        .traffic = size * per_byte,
    };
}

/* Cells for the first channel, the ones between and the last. */
static void deal(const struct cells *cells, size_t per_channel, int limit,
                 struct mock_schedule *s)
{
    size_t each = min_size(cells->n, div_up(per_channel, cells->traffic));
    size_t lo = limit == 1 ? cells->n : each;
    size_t n_mid = (cells->n - lo) / each;
    size_t hi = (cells->n - lo) % each;

    if (1 + n_mid + (hi != 0) > (size_t)limit) {
        n_mid = (size_t)limit - 2;
        each = (cells->n - lo) / (n_mid + 1);
        hi = each + (cells->n - lo) % (n_mid + 1);
    }
    if (hi == 0 && n_mid != 0) {
        hi = each;
        n_mid--;
    }
    s->n_channels = (int)(1 + n_mid + (hi != 0));
    s->lo = lo * cells->elements;
    s->mid = n_mid != 0 ? each * cells->elements : 0;
    s->hi = hi * cells->elements;
}

void mock_schedule(const struct mock_model *model, const struct mock_work *work,
                   int max_channels, struct mock_schedule *schedule_ret)
{
    bool bytewise =
        work->coll == ncclFuncAllGather || work->coll == ncclFuncBroadcast;
    size_t element_size = bytewise ? 1 : work->element_size;
    int n_sides = ranks_in_bytes(model, work->coll);
    size_t count = div_up(work->n_bytes, element_size * (size_t)n_sides);
    int limit = work->algo == NCCL_ALGO_NVLS ? model->n_nvls_channels
                                             : model->n_channels;
    size_t per_byte = traffic_per_byte(work, model->n_ranks);
    size_t n_bytes = count * element_size;
    struct cells cells = cut(n_bytes, per_byte, element_size);
    size_t surplus = cells.n * cells.elements - count;

    deal(&cells, traffic_per_channel(n_bytes * per_byte, max_channels, limit),
         limit, schedule_ret);
    *(schedule_ret->hi != 0 ? &schedule_ret->hi : &schedule_ret->lo) -= surplus;
    schedule_ret->element_bytes = element_size * (size_t)n_sides;
}
