#include "launch/hub.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "launch/star.h"
#include "launch/wire.h"

enum { SPARE_FILES = 256 }; /* for all else that a run opens */

/* A world: the first 'n' processes. */
struct view {
    struct stp_world_ops ops; /* with the hub's name */
    struct stp_star *star;
    unsigned rank, local_rank;
    unsigned n;
    bool is_part; /* the star is another's */
};

static enum stp_status hub_exchange(void *self, const void *mine, size_t size,
                                    void *all_ret, struct stp_error *err)
{
    struct view *view = self;

    return stp_star_exchange(view->star, view->n, mine, size, all_ret, err);
}

static bool hub_alive(void *self, struct stp_error *err)
{
    return stp_star_alive(((struct view *)self)->star, err);
}

static void hub_close(void *self)
{
    struct view *view = self;

    if (!view->is_part)
        stp_star_close(view->star);
    free(view);
}

static enum stp_status make_world(const struct view *like, unsigned n,
                                  struct stp_world *world_ret,
                                  struct stp_error *err)
{
    bool is_in = like->rank < n;
    struct view *view = malloc(sizeof(*view));

    if (view == NULL)
        return stp_nomem(err);
    *view = *like;
    view->n = n;
    *world_ret = (struct stp_world){
        .ops = &view->ops,
        .self = view,
        .rank = view->rank,
        .size = is_in ? n : 0,
        .local_rank = view->local_rank,
        .local_size = is_in ? stp_star_count_local(view->star, n) : 0};
    return STP_OK;
}

static enum stp_status hub_part(void *self, unsigned n,
                                struct stp_world *part_ret,
                                struct stp_error *err)
{
    struct view part = *(const struct view *)self;

    if (n == 0 || n > part.n)
        return stp_fail(err, STP_ERR_RANGE, "%u of %u processes", n, part.n);
    part.is_part = true;
    return make_world(&part, n, part_ret, err);
}

enum stp_status stp_hub_open(const struct stp_hub_options *options,
                             struct stp_world *world_ret, struct stp_error *err)
{
    struct view view = {.ops = {.name = options->name,
                                .exchange = hub_exchange,
                                .alive = hub_alive,
                                .part = hub_part,
                                .close = hub_close},
                        .rank = options->rank,
                        .local_rank = options->local_rank};
    enum stp_status status = stp_star_open(options->rank, options->size,
                                           options->fds, &view.star, err);

    if (status != STP_OK)
        return status;
    status = make_world(&view, options->size, world_ret, err);
    if (status != STP_OK)
        stp_star_close(view.star);
    else if (options->local_size != 0)
        world_ret->local_size = options->local_size;
    return status;
}

void stp_hub_refuse(int fd, enum stp_status status, const struct stp_error *why)
{
    struct stp_wire wire;

    stp_wire_open(&wire, fd);
    stp_wire_receive(&wire);
    stp_wire_begin(&wire, STP_WIRE_NOTICE, status, why->text,
                   strlen(why->text));
    stp_wire_flush(&wire);
    stp_wire_close(&wire);
}

void stp_hub_allow(unsigned size)
{
    const rlim_t needed = size + SPARE_FILES;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return;
    limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}
