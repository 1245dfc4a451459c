
#include <stdint.h>

#include "model/symmetric.h"

enum { HOPPER, BLACKWELL, N_GPUS }; /* and older ones; and newer ones */
enum { UNICAST, MULTICAST, N_WAYS };

static const char *const names[N_WAYS] = {"AllGather_UC", "AllGather_MC"};

/* us, at once and for each rank; without a CUDA graph, and in one */
static const struct floor {
    float base;
    float per_rank;
} floors[N_GPUS][N_WAYS][2] = {
    {{{17.50f, 1.957f}, {9.98f, 6.160f}}, {{14.90f, .726f}, {14.45f, 2.004f}}},
    {{{32.04f, .130f}, {22.28f, 6.664f}}, {{29.14f, .137f}, {24.51f, 2.755f}}},
};

static const float nvlink[N_GPUS] = {392, 779}; /* GB/s */
static const float host = 2 * 53; /* GB/s of two engines to an x86 CPU */

/* A batch of copies in a CUDA graph waits for the others after so many. */
enum { BATCH = 8 };
static const uint64_t min_waiting = 512 << 20; /* bytes of all copies */

static float copy_get_floor(const struct mock_model *model, int gpu, int way,
                            bool captured)
{
    const struct floor *floor = &floors[gpu][way][captured];

    return floor->base + floor->per_rank * (float)model->n_ranks;
}

static float copy_predict_unicast(const struct mock_model *model, int gpu,
                                  size_t bytes, bool captured)
{
    const float floor = copy_get_floor(model, gpu, UNICAST, captured);
    const double others = (double)bytes * (model->n_ranks - 1);
    float us = floor + (float)(others / (double)nvlink[gpu] / 1e3);

    if (captured) {
        const int n_copies = model->n_ranks;
        const int n_batches = (n_copies + BATCH - 1) / BATCH;

        if (n_copies <= BATCH ||
            (uint64_t)bytes * (uint64_t)n_copies < min_waiting)
            return us;
        return us + (float)(n_batches - 1 + (n_batches % 2 == 0)) * floor;
    }
    if (!model->is_arm) { /* a rank's own share goes through the host */
        float own = floor + (float)((double)bytes / (double)host / 1e3);

        us = own > us ? own : us;
    }
    return us;
}

size_t mock_copy_list(const struct mock_model *model, size_t share_bytes,
                      bool captured, struct mock_copy *copies_ret)
{
    const int gpu = model->compute_capability >= 100 ? BLACKWELL : HOPPER;
    size_t n = 0;

    copies_ret[n++] = (struct mock_copy){
        names[UNICAST],
        copy_predict_unicast(model, gpu, share_bytes, captured)};
    if (mock_symmetric_has_multicast(model)) {
        const double all = (double)share_bytes * model->n_ranks;
        const float ranks = (float)model->n_ranks;
        const float link = nvlink[gpu] / ranks;
        /* through the host at most, unless the host's memory is coherent */
        const float bw =
            model->is_arm ? nvlink[gpu] : (host < link ? host : link) * ranks;

        copies_ret[n++] = (struct mock_copy){
            names[MULTICAST], copy_get_floor(model, gpu, MULTICAST, captured) +
                                  (float)(all / (double)bw / 1e3)};
    }
    return n;
}

/* The last of equals is taken. */
const struct mock_copy *mock_copy_pick(const struct mock_copy *copies, size_t n)
{
    const struct mock_copy *best = &copies[0];

    for (size_t i = 1; i < n; i++)
        if (copies[i].us <= best->us)
            best = &copies[i];
    return best;
}
