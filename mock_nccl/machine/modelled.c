#include "machine/modelled.h"

#include <math.h>

#include "base/names.h"
#include "machine/machine.h"
#include "model/channels.h"

/* s of modelled.h. */
static double modelled_share_of(int algo, int proto)
{
    static const double rings[NCCL_NUM_PROTOCOLS] = {
        [NCCL_PROTO_LL] = .96,
        [NCCL_PROTO_LL128] = .69,
        [NCCL_PROTO_SIMPLE] = .55,
    };
    static const double trees[NCCL_NUM_PROTOCOLS] = {
        [NCCL_PROTO_LL] = .79,
        [NCCL_PROTO_LL128] = .57,
        [NCCL_PROTO_SIMPLE] = .45,
    };

    return algo == NCCL_ALGO_TREE ? trees[proto] : rings[proto];
}

/* R of modelled.h, for a part 'used' of all channels. */
static double modelled_stretch(double share, double used)
{
    return cbrt(pow(share / used, 3) + 1 - pow(share, 3));
}

double mock_fewer_channels_us(const struct mock_model *model,
                              const struct mock_run *run)
{
    int own = mock_default_channels(model, run->algo, run->proto, run->n_bytes);
    bool nvls = run->algo == NCCL_ALGO_NVLS || run->algo == NCCL_ALGO_NVLS_TREE;
    double all = nvls ? model->n_nvls_channels : model->n_channels;
    double bandwidth = model->bandwidth[run->coll][run->algo][run->proto];
    double share = modelled_share_of(run->algo, run->proto);

    if (run->n_channels == 0 || run->n_channels >= own || bandwidth == 0)
        return 0;
    return (modelled_stretch(share, run->n_channels / all) -
            modelled_stretch(share, own / all)) *
           (double)run->n_bytes / (1000 * bandwidth);
}

ncclResult_t mock_modelled_time(const struct mock_machine *machine,
                                const struct mock_run *run,
                                struct mock_time *time_ret)
{
    const struct mock_question question = {
        .coll = run->coll,
        .n_bytes = run->n_bytes,
        .n_pipe_ops = 1,
    };
    mock_table table;

    if (run->algo >= NCCL_NUM_ALGORITHMS)
        return mock_fail(ncclInvalidArgument,
                         "no time for %s of registered buffers: none was "
                         "recorded on %s, and none is modelled",
                         mock_word(&mock_colls, run->coll), machine->info.name);
    mock_model_table(&machine->model, &question, table);
    if (table[run->algo][run->proto] < 0)
        return mock_fail(ncclInvalidArgument,
                         "no time for %s with %s/%s: nothing was recorded on "
                         "%s, and NCCL rules it out",
                         mock_word(&mock_colls, run->coll),
                         mock_word(&mock_algos, run->algo),
                         mock_word(&mock_protos, run->proto),
                         machine->info.name);
    time_ret->us = table[run->algo][run->proto] +
                   mock_fewer_channels_us(&machine->model, run);
    time_ret->source = MOCK_TIME_MODELLED;
    time_ret->is_single_pass = false;
    time_ret->kernel = "";
    return ncclSuccess;
}
