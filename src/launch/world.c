#include "launch/world.h"

#include <stdlib.h>
#include <string.h>

static enum stp_status alone_exchange(void *self, const void *mine, size_t size,
                                      void *all_ret, struct stp_error *err)
{
    memcpy(all_ret, mine, size);
    return STP_OK;
}

static bool alone_alive(void *self, struct stp_error *err)
{
    return true;
}

static enum stp_status alone_part(void *self, unsigned n,
                                  struct stp_world *part_ret,
                                  struct stp_error *err)
{
    if (n != 1)
        return STP_REFUSE(err, "%u of 1 processes", n);
    *part_ret = stp_world_of_one;
    return STP_OK;
}

static void alone_close(void *self)
{
}

static const struct stp_world_ops alone_ops = {
    .name = "alone",
    .exchange = alone_exchange,
    .alive = alone_alive,
    .part = alone_part,
    .close = alone_close,
};

const struct stp_world stp_world_of_one = {
    .ops = &alone_ops, .size = 1, .local_size = 1};

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

/* How it went for one process. */
struct verdict {
    enum stp_status status;
    struct stp_error err;
};

enum stp_status stp_world_agree(const struct stp_world *world,
                                enum stp_status status, struct stp_error *err)
{
    struct verdict mine = {.status = status};
    struct verdict *all = calloc(world->size, sizeof(*all));
    unsigned i = 0;

    if (all == NULL)
        return stp_nomem(err);
    if (status != STP_OK)
        mine.err = *err;
    status = world->ops->exchange(world->self, &mine, sizeof(mine), all, err);
    while (status == STP_OK && i < world->size && all[i].status == STP_OK)
        i++;
    if (status == STP_OK && i < world->size) {
        stp_clean_text(all[i].err.text, sizeof(all[i].err.text));
        *err = all[i].err;
        status = world->rank == 0 ? stp_status_of((unsigned)all[i].status)
                                  : STP_ERR_STOPPED;
    }
    free(all);
    return status;
}

void stp_clean_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (unsigned char *s = (unsigned char *)text; *s != '\0'; s++)
        if (*s < ' ' || *s == 0x7f)
            *s = '?';
}

enum stp_status stp_status_of(unsigned number)
{
    return number > STP_OK && number <= STP_ERR_STOPPED
               ? (enum stp_status)number
               : STP_ERR_DEVICE;
}
