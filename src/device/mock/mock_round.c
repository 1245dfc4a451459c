#include "device/mock/mock_round.h"

#include "core/rng.h"

/* A random number in [0, 1) of this round. */
static double round_unit(const struct stp_mock_round *r, uint64_t seed,
                         uint64_t number)
{
    return stp_rng_unit(stp_hash(seed, r->number), number);
}

void stp_mock_round_begin(struct stp_mock_round *r, unsigned round,
                          unsigned n_rounds, struct stp_virtual_time *time)
{
    r->number++;
    time->round = n_rounds > 0 ? (round % n_rounds + 0.5) / n_rounds
                               : round_unit(r, time->seed, UINT64_MAX);
    r->is_disturbed = round_unit(r, time->seed, 0) < r->stalls;
    r->all = round_unit(r, time->seed, 1) < 0.5;
    /* one of as many as the round before had */
    r->arm = (unsigned)(round_unit(r, time->seed, 2) * (r->n_arms + 1));
    r->n_arms = 0;
    r->place = stp_hash(n_rounds, n_rounds > 0 ? round % n_rounds : r->number);
    time->stall = 1;
    if (r->is_disturbed && r->all)
        time->stall = 1.5 + 1.5 * round_unit(r, time->seed, 3);
}

void stp_mock_round_select(struct stp_mock_round *r, const struct stp_arm *arm,
                           struct stp_virtual_time *time)
{
    char name[STP_ARM_NAME];

    if (r->stalls > 0) {
        stp_arm_name(arm, name);
        time->place = r->place;
        time->n_draws = 0;
        for (const char *c = name; *c != '\0'; c++)
            time->place = stp_hash(time->place, (unsigned char)*c);
    }
    time->stall = 1;
    if (r->is_disturbed && (r->all || r->n_arms == r->arm))
        time->stall = 1.5 + 1.5 * round_unit(r, time->seed, 4 + r->n_arms);
    r->n_arms++;
}
