/* device_check.c - how a collective runs, and whether its results are right */
#include "device/device_ranks.h"
#include "nccl_tuner_abi.h"

enum stp_status stp_device_probe(const struct stp_device *device,
                                 const struct stp_collective *collective,
                                 struct stp_device_run *run_ret,
                                 struct stp_question *question_ret,
                                 struct stp_error *err)
{
    struct stp_ranks *d = device->ranks;
    const struct stp_engine *first = &d->local[0].engine;
    const struct stp_work work = {.kind = STP_WORK_COLLECTIVE,
                                  .collective = *collective};
    struct stp_device_run run = {.algo = -1, .proto = -1};
    struct stp_question question = {.n_bytes = 0};
    enum stp_status status = stp_ranks_check_work(d, &work, err);
    const bool captures =
        d->arm == STP_ARM_SETUP && first->ops->captured != NULL;

    if (status == STP_OK && first->ops->probe != NULL)
        return first->ops->probe(first->self, collective, run_ret, question_ret,
                                 err);
    if (status == STP_OK && first->ops->listen != NULL)
        first->ops->listen(first->self);
    STP_THEN(status, stp_ranks_run_one(d, collective, captures, err));
    if (first->ops->heard != NULL)
        first->ops->heard(first->self, &run, &question);
    if (captures)
        first->ops->captured(first->self, run.kernel);
    if (run.kernel[0] != '\0') {
        run.algo = run.proto = -1; /* which NCCL asked about before */
        run.n_channels = 0;
    }
    if (status != STP_OK)
        return status;
    run.source = STP_SOURCE_MEASURED;
    run.us = stp_device_elapsed_us(device, 0, 1);
    *run_ret = run;
    if (question_ret != NULL)
        *question_ret = question;
    return STP_OK;
}

struct check {
    struct stp_ranks *ranks;
    const struct stp_collective *collective;
    struct stp_pattern pattern;
    uint64_t n_send, n_recv; /* elements of a rank */
    bool counts;             /* it ran */
};

static enum stp_status ranks_check_part(void *user, unsigned thread,
                                        struct stp_error *err)
{
    const struct check *c = user;
    const unsigned n = c->ranks->n_per_thread;
    const int coll = c->collective->coll;
    const struct stp_rank_groups *groups = &c->collective->groups;

    for (unsigned i = 0; i < n; i++) {
        struct rank *r = &c->ranks->local[thread * n + i];
        const struct stp_transfer t =
            stp_ranks_place(c->ranks, r, STP_STREAM_MAIN, c->collective, 0);
        struct stp_pattern pattern = c->pattern; /* each group has its own */
        bool is_root;

        pattern.rank = stp_rank_in_group(groups, r->rank);
        pattern.seed += stp_rank_groups_color(groups, r->rank);
        is_root = pattern.rank == c->collective->root;
        if (!c->counts) {
            /* Poison first: in place the input lies within the output. */
            STP_TRY(RANK_DO(r, fill, &pattern, true, t.out, c->n_recv, err));
            if (coll != ncclFuncBroadcast || is_root)
                STP_TRY(RANK_DO(r, fill, &pattern, false, (void *)t.in,
                                c->n_send, err));
            continue;
        }
        r->found = (struct stp_found){0};
        if (coll != ncclFuncReduce || is_root)
            STP_TRY(RANK_DO(r, examine, &pattern, t.out, c->n_recv, &r->found,
                            err));
        r->found.bits = stp_pattern_mix(r->found.bits, r->rank + 1);
    }
    return STP_OK;
}

enum stp_status stp_device_check(const struct stp_device *device,
                                 const struct stp_collective *collective,
                                 uint64_t seed, bool rounds,
                                 struct stp_found *found_ret,
                                 struct stp_error *err)
{
    struct stp_ranks *d = device->ranks;
    const struct stp_work work = {.kind = STP_WORK_COLLECTIVE,
                                  .collective = *collective};
    struct check check = {
        .ranks = d,
        .collective = collective,
        .pattern = {.coll = collective->coll,
                    .type = collective->type,
                    .op = collective->op,
                    .root = collective->root,
                    .ranks = stp_collective_ranks(collective, d->info.n_ranks),
                    .seed = seed,
                    .rounds = rounds}};
    struct stp_found all[STP_MAX_PROCESSES];
    struct stp_found mine = {0};

    STP_TRY(stp_ranks_check_work(d, &work, err));
    if (!d->info.has_data) { /* there are no bytes in virtual time */
        *found_ret = mine;
        return STP_OK;
    }
    stp_pattern_sizes(&check.pattern, collective->n_bytes, &check.n_send,
                      &check.n_recv);
    STP_TRY(stp_ranks_do(d, ranks_check_part, &check, err));
    STP_TRY(stp_ranks_run_one(d, collective, false, err));
    check.counts = true;
    STP_TRY(stp_ranks_do(d, ranks_check_part, &check, err));
    for (unsigned i = 0; i < d->n_local; i++) {
        mine.n_wrong += d->local[i].found.n_wrong;
        mine.bits += d->local[i].found.bits;
    }
    STP_TRY(
        d->world->ops->exchange(d->world->self, &mine, sizeof(mine), all, err));
    *found_ret = (struct stp_found){0};
    for (unsigned i = 0; i < d->world->size; i++) {
        found_ret->n_wrong += all[i].n_wrong;
        found_ret->bits += all[i].bits;
    }
    return STP_OK;
}
