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

static bool story_ends_retest(const struct stp_learn_story *story,
                              const struct mock_run *run)
{
    return story->was_quiet && story_same_arm(&story->before, run) &&
           story->n_calls - story->changed <= STP_STORY_RETEST;
}

/* After a re-test of another arm it is a search. */
static void story_end_retest(struct stp_learn_story *story)
{
    bool is_other = story->retest_end > 0 &&
                    story->retest_end >= story->settled_before &&
                    !story_same_arm(&story->retested, &story->last);

    story->settled = is_other ? story->n_calls : story->settled_before;
    story->retested = story->last;
    story->retest_end = story->n_calls;
}

static void story_change(struct stp_learn_story *story,
                         const struct mock_run *run)
{
    const size_t n = story->n_calls;
    const bool ends_retest = story_ends_retest(story, run);

    story->is_away = !(story->is_away && story_same_arm(&story->before, run));
    story->n_trials += story->is_away;
    if (ends_retest) {
        story_end_retest(story);
    } else {
        story->settled_before = story->settled;
        story->settled = n;
    }
    story->was_quiet = !ends_retest && story->searched_from > 0 &&
                       n - story->changed >= STP_STORY_QUIET;
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
    return story->settled > story->n_calls - story->n_calls / 5;
}
