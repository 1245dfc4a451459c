#include "analyse/contract/contract_story.h"

#include <stdio.h>
#include <time.h>

enum { GROUP = 3 }; /* collectives of a group */

/* What all ranks do. */
struct script {
    struct mock_call calls[STP_N_QUESTIONS + STP_STORY_GROUPS * GROUP];
    struct mock_step steps[STP_STORY_STEPS];
};

static void write_script(struct script *s)
{
    for (size_t i = 0; i < STP_N_QUESTIONS; i++) {
        s->calls[i] = stp_contract_question(i);
        s->steps[i] = (struct mock_step){&s->calls[i], 1};
    }
    for (size_t g = 0; g < STP_STORY_GROUPS; g++) {
        struct mock_call *calls = &s->calls[STP_N_QUESTIONS + g * GROUP];

        for (size_t i = 0; i < GROUP; i++)
            calls[i] = stp_contract_question((g * 7 + i * 5) % STP_N_QUESTIONS);
        s->steps[STP_N_QUESTIONS + g] = (struct mock_step){calls, GROUP};
    }
}

/* ---- one story ---- */

bool stp_story_blame(struct stp_story *story, const char *what)
{
    return stp_contract_fail(story->run, "%s%s%s", story->title, what,
                             mock_last_error());
}

bool stp_story_play(struct stp_story *story, struct mock_ranks *ranks,
                    uint64_t seed, const struct mock_death *death)
{
    struct script s;
    const struct mock_script script = {.steps = s.steps,
                                       .n_steps = STP_STORY_STEPS,
                                       .vary = story->vary,
                                       .before_step = story->before_step,
                                       .user = story,
                                       .death = death,
                                       .at_once = story->play_at_once};
    char what[48];

    write_script(&s);
    stp_contract_at(story->run, "%s, schedule %u", story->title,
                    (unsigned)seed);
    snprintf(what, sizeof(what), ", schedule %u: ", (unsigned)seed);
    return mock_ranks_play(ranks, &script, seed) == ncclSuccess ||
           stp_story_blame(story, what);
}

struct mock_ranks *stp_story_open(struct stp_story *story,
                                  struct mock_nccl *nccl)
{
    const struct mock_ranks_options options = {.layout = story->layout,
                                               .comm_id = mock_new_comm_id(),
                                               .at_once = story->init_at_once,
                                               .before_init =
                                                   story->before_init,
                                               .user = story};
    struct mock_ranks *ranks;

    stp_contract_at(story->run, "%s, init", story->title);
    if (mock_ranks_create(nccl, story->machine, &options, &ranks) ==
        ncclSuccess)
        return ranks;
    stp_story_blame(story, ": ");
    return NULL;
}

static bool live(struct stp_story *story, uint64_t seed,
                 const struct mock_death *death)
{
    struct mock_nccl *nccl = stp_contract_nccl(story->run, NULL, NULL, NULL);
    struct mock_ranks *ranks;
    bool good;

    if (nccl == NULL)
        return false;
    ranks = stp_story_open(story, nccl);
    good = ranks != NULL && stp_story_play(story, ranks, seed, death);
    if (ranks != NULL) {
        stp_contract_at(story->run, "%s, finalize", story->title);
        mock_ranks_destroy(ranks);
    }
    mock_nccl_destroy(nccl);
    return good;
}

const struct mock_machine *stp_story_machine(const struct stp_contract_run *run)
{
    const struct mock_machine *machine = run->world->machine;

    return mock_machine_get_info(machine)->n_ranks > 1
               ? machine
               : run->world->shapes[STP_SHAPE_4];
}

bool stp_story_tell(struct stp_contract_run *run, struct stp_story story,
                    unsigned n_seeds)
{
    story.run = run;
    story.machine = stp_story_machine(run);
    for (unsigned seed = 0; seed < n_seeds; seed++) {
        story.seed = seed;
        if (!live(&story, seed, story.death) ||
            (story.then_another && !live(&story, seed, NULL)))
            return false;
    }
    return true;
}

bool stp_story_tell_all(struct stp_contract_run *run,
                        const struct stp_story *stories, size_t n,
                        unsigned n_seeds)
{
    for (size_t i = 0; i < n; i++)
        if (!stp_story_tell(run, stories[i], n_seeds))
            return false;
    return true;
}

void stp_story_pause(long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}
