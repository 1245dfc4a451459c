#include "launch/world.h"

#include <stdlib.h>
#include <string.h>

static enum stp_status alone_exchange(void *self, const void *mine, size_t size,
                                      void *all_ret, struct stp_error *err)
{
    (void)self;
    (void)err;
    memcpy(all_ret, mine, size);
    return STP_OK;
}

static bool alone_alive(void *self, struct stp_error *err)
{
    (void)self;
    (void)err;
    return true;
}

static enum stp_status alone_part(void *self, unsigned n,
                                  struct stp_world *part_ret,
                                  struct stp_error *err)
{
    (void)self;
    if (n != 1)
        return stp_fail(err, STP_ERR_RANGE, 0, 0, "%u of 1 processes", n);
    stp_world_alone(part_ret);
    return STP_OK;
}

static void alone_close(void *self)
{
    (void)self;
}

static const struct stp_world_ops alone_ops = {
    .name = "alone",
    .exchange = alone_exchange,
    .alive = alone_alive,
    .part = alone_part,
    .close = alone_close,
};

void stp_world_alone(struct stp_world *world_ret)
{
    *world_ret = (struct stp_world){
        .ops = &alone_ops, .rank = 0, .size = 1, .local_size = 1};
}

enum stp_status stp_world_any(const struct stp_world *world, bool mine,
                              bool *any_ret, struct stp_error *err)
{
    unsigned char all[STP_MAX_PROCESSES];
    unsigned char one = mine;
    enum stp_status status =
        world->ops->exchange(world->self, &one, 1, all, err);

    if (status == STP_OK)
        *any_ret = memchr(all, 1, world->size) != NULL;
    return status;
}
