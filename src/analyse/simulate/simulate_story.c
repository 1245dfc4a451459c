#include "analyse/simulate/simulate_story.h"

static bool story_same_arm(const struct mock_run *a, const struct mock_run *b)
{
    return a->algo == b->algo && a->proto == b->proto &&
           a->n_channels == b->n_channels;
}

/* The majority of what is noted while 'votes' counts: Boyer and Moore. */
static void story_vote(struct stp_learn_story *story,
                       const struct mock_run *run)
{
    if (story->votes == 0)
        story->final = *run;
    if (story_same_arm(&story->final, run))
        story->votes++;
    else
        story->votes--;
}

/* Whether one other arm was tried, and the one that ran before goes on. */
static bool story_went_back(const struct stp_learn_story *story)
{
    return story->is_single && story_same_arm(&story->last, &story->base);
}

static bool story_is_retest(const struct stp_learn_story *story)
{
    return !story->is_first && story_went_back(story) &&
           (!story->was_single || story_same_arm(&story->other, &story->tried));
}

size_t stp_learn_story_settled(const struct stp_learn_story *story)
{
    return story_is_retest(story) ? story->settled_before : story->changed;
}

/* After calls without a change. */
static void story_begin_changes(struct stp_learn_story *story,
                                const struct mock_run *run)
{
    story->settled_before = stp_learn_story_settled(story);
    story->was_single = !story->is_first && story_went_back(story);
    story->tried = story->other;
    story->is_first = story->searched_from == 0;
    story->base = story->last;
    story->other = *run;
    story->is_single = true;
}

static void story_change(struct stp_learn_story *story,
                         const struct mock_run *run)
{
    const size_t n = story->n_calls;

    story->is_away = !(story->is_away && story_same_arm(&story->before, run));
    story->n_trials += story->is_away;
    if (story->searched_from == 0 || n - story->changed >= STP_STORY_QUIET)
        story_begin_changes(story, run);
    if (!story_same_arm(run, &story->base) &&
        !story_same_arm(run, &story->other))
        story->is_single = false;
    if (story->searched_from == 0)
        story->searched_from = n;
    story->before = story->last;
    story->changed = n;
}

void stp_learn_story_call(struct stp_learn_story *story,
                          const struct mock_run *run, bool is_end)
{
    if (story->n_calls > 0 && !story_same_arm(&story->last, run))
        story_change(story, run);
    story->last = *run;
    story->n_calls++;
    if (is_end)
        story_vote(story, run);
}

bool stp_learn_story_is_trying(const struct stp_learn_story *story)
{
    return stp_learn_story_settled(story) > story->n_calls - story->n_calls / 5;
}
