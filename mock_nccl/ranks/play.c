/* play.c - runs a script on all ranks of a communicator */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mix.h"
#include "ranks/rank.h"

/* The state of one rank in a script. */
struct player {
    size_t at; /* the rank's next step */
    struct mock_order order;
    struct mock_call *calls; /* room for the largest step */
    struct mock_outcome *outcomes;
};

struct play {
    const struct mock_ranks *ranks;
    const struct mock_script *script;
    struct mock_decision *decisions; /* per communicator and collective of
                                        the script; rank -1: no rank has
                                        reached it */
    size_t n_decisions;              /* of one communicator */
    size_t *first;                   /* index of each step's first collective */
    size_t largest;                  /* collectives of the largest step */

    struct player *players; /* by rank */
    struct mock_call *calls;
    struct mock_outcome *outcomes;

    int *active; /* ranks with steps left, in any order */
    int n_active;
    int turn; /* index in 'active' of the last rank that ran */
    unsigned
        stay; /* of 8 steps, the number for which the rank stays the same */
    uint64_t random;
};

/* Compares the step that the rank has just run, or names it in its error. */
static ncclResult_t play_compare(struct play *p, int rank, ncclResult_t rc)
{
    struct player *player = &p->players[rank];
    const size_t step = player->at;
    const size_t color = (size_t)mock_ranks_color(p->ranks, rank);
    struct mock_decision *first =
        &p->decisions[color * p->n_decisions + p->first[step]];

    if (rc != ncclSuccess)
        return mock_fail_prefix(rc, "step %zu, rank %d: ", step,
                                mock_ranks_get(p->ranks, rank)->number);
    player->at++;
    for (size_t i = 0; i < p->script->steps[step].n; i++, first++) {
        const struct mock_outcome *out = &player->outcomes[i];
        const struct mock_decision mine =
            mock_decision_of(mock_ranks_get(p->ranks, rank)->number, out);

        if (first->rank >= 0) {
            MOCK_TRY(
                mock_decision_compare(step, &player->calls[i], first, &mine));
            continue;
        }
        *first = mine;
        if (p->script->decided != NULL)
            p->script->decided(p->script->user, step, i, out);
    }
    return ncclSuccess;
}

static void play_prepare_step(struct play *p, int rank)
{
    struct player *player = &p->players[rank];
    const struct mock_step *step = &p->script->steps[player->at];

    memcpy(player->calls, step->calls, step->n * sizeof(*player->calls));
    if (p->script->vary != NULL)
        for (size_t i = 0; i < step->n; i++)
            p->script->vary(p->script->user,
                            mock_ranks_get(p->ranks, rank)->number, player->at,
                            &player->calls[i]);
    player->order =
        (struct mock_order){.task = MOCK_STEP,
                            .comm = p->ranks->comm,
                            .before_step = p->script->before_step,
                            .before_call = p->script->before_call,
                            .user = p->script->user,
                            .step = player->at,
                            .calls = player->calls,
                            .n_calls = step->n,
                            .apart = player->at < p->script->n_apart};
}

static void play_deactivate(struct play *p, int place)
{
    p->active[place] = p->active[--p->n_active];
    p->turn = -1;
}

/* Ends a rank that dies before its step; false for others. */
static bool play_end_rank(struct play *p, int place)
{
    const struct mock_death *death = p->script->death;
    struct mock_rank *rank = mock_ranks_get(p->ranks, p->active[place]);

    if (death == NULL || death->rank != rank->number ||
        death->step != p->players[p->active[place]].at)
        return false;
    rank->dead = true;
    if (rank->carrier != NULL)
        rank->carrier->ops->kill(rank);
    play_deactivate(p, place);
    return true;
}

/* Runs one step of one rank at a time. */
static ncclResult_t play_in_turn(struct play *p)
{
    ncclResult_t rc = ncclSuccess;

    while (p->n_active > 0 && rc == ncclSuccess) {
        uint64_t random = mock_mix(p->random);
        int place, rank;

        p->random += MOCK_GOLDEN;
        if (p->turn < 0 || random % 8 >= p->stay)
            p->turn = (int)((random >> 32) % (uint64_t)p->n_active);
        place = p->turn;
        rank = p->active[place];
        if (play_end_rank(p, place))
            continue;
        play_prepare_step(p, rank);
        rc = play_compare(p, rank,
                          mock_rank_run_order(mock_ranks_get(p->ranks, rank),
                                              &p->players[rank].order,
                                              p->players[rank].outcomes));
        if (p->players[rank].at == p->script->n_steps)
            play_deactivate(p, place);
    }
    return rc;
}

/* Runs each step on all ranks at once, and waits for all with an order, even
 * after failures. */
static ncclResult_t play_at_once(struct play *p)
{
    struct mock_kept first = {.rc = ncclSuccess};

    for (size_t s = 0; s < p->script->n_steps && first.rc == ncclSuccess; s++) {
        int n_posted = 0;

        for (int place = p->n_active - 1; place >= 0; place--)
            play_end_rank(p, place);
        for (; n_posted < p->n_active && first.rc == ncclSuccess; n_posted++) {
            const int player = p->active[n_posted];
            struct mock_rank *rank = mock_ranks_get(p->ranks, player);
            ncclResult_t rc;

            play_prepare_step(p, player);
            rc = rank->carrier->ops->post(rank, &p->players[player].order,
                                          p->players[player].outcomes);
            if (rc == ncclSuccess)
                continue;
            mock_keep(&first, play_compare(p, player, rc));
            break;
        }
        for (int place = 0; place < n_posted; place++) {
            const int player = p->active[place];
            struct mock_rank *rank = mock_ranks_get(p->ranks, player);
            ncclResult_t rc =
                play_compare(p, player, rank->carrier->ops->wait(rank));

            if (first.rc == ncclSuccess)
                mock_keep(&first, rc);
        }
    }
    return mock_restore(&first);
}

/* ---- life ---- */

static bool play_count_calls(struct play *p)
{
    size_t n_calls = 0;

    p->first = calloc(p->script->n_steps + 1, sizeof(*p->first));
    for (size_t s = 0; p->first != NULL && s < p->script->n_steps; s++) {
        p->first[s] = n_calls;
        n_calls += p->script->steps[s].n;
        if (p->script->steps[s].n > p->largest)
            p->largest = p->script->steps[s].n;
    }
    p->n_decisions = n_calls;
    n_calls *= (size_t)p->ranks->n_colors;
    p->decisions = calloc(n_calls + 1, sizeof(*p->decisions));
    for (size_t i = 0; p->decisions != NULL && i < n_calls; i++)
        p->decisions[i].rank = -1;
    return p->first != NULL && p->decisions != NULL;
}

/* Ranks that run in turn share the room for calls and outcomes. */
static bool play_alloc_players(struct play *p)
{
    size_t n = (size_t)p->ranks->n;
    size_t rooms = p->script->at_once ? n : 1;

    p->players = calloc(n, sizeof(*p->players));
    p->active = calloc(n, sizeof(*p->active));
    p->calls = calloc(rooms * p->largest + 1, sizeof(*p->calls));
    p->outcomes = calloc(rooms * p->largest + 1, sizeof(*p->outcomes));
    if (p->players == NULL || p->active == NULL || p->calls == NULL ||
        p->outcomes == NULL)
        return false;
    for (size_t r = 0; r < n; r++) {
        size_t room = p->script->at_once ? r : 0;

        p->players[r].calls = &p->calls[room * p->largest];
        p->players[r].outcomes = &p->outcomes[room * p->largest];
        if (p->script->n_steps > 0 && !mock_ranks_get(p->ranks, (int)r)->dead)
            p->active[p->n_active++] = (int)r;
    }
    return true;
}

ncclResult_t mock_ranks_play(struct mock_ranks *ranks,
                             const struct mock_script *script, uint64_t seed)
{
    /* from an independent draw per step to one rank after the other */
    static const unsigned stays[] = {0, 4, 7, 8};
    struct play p = {.ranks = ranks,
                     .script = script,
                     .turn = -1,
                     .stay = stays[seed % 4],
                     .random = seed};
    bool elsewhere = ranks->pool->ranks[0].carrier != NULL;
    ncclResult_t rc;

    if (!play_count_calls(&p) || !play_alloc_players(&p))
        rc = mock_fail_memory();
    else
        rc = script->at_once && elsewhere ? play_at_once(&p) : play_in_turn(&p);
    free(p.first);
    free(p.decisions);
    free(p.players);
    free(p.active);
    free(p.calls);
    free(p.outcomes);
    return rc;
}
