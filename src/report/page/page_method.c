/* page_method.c - how it was measured, and what the words mean */
#include <math.h>

#include "analyse/steadiness.h"
#include "report/html.h"
#include "report/page/page_parts.h"

static void write_spread(const struct stp_steadiness *s, FILE *fp)
{
    if (s->min_rounds < s->max_rounds)
        fprintf(fp, "%zu to ", s->min_rounds);
    fprintf(fp, "%zu round%s", s->max_rounds, s->max_rounds == 1 ? "" : "s");
    if (s->max_rounds > 1)
        fprintf(fp,
                "; NCCL&#39;s own choice spreads by %.2f percent between "
                "rounds (worst size %.2f)",
                s->spread * 100, s->worst_spread * 100);
    if (isfinite(s->drift))
        fprintf(fp,
                "; it drifts by %+.2f percent from the first third of the "
                "rounds to the last (worst size %+.2f)",
                s->drift * 100, s->worst_drift * 100);
    if (isfinite(s->resolved))
        fprintf(fp, "; gains from %.2f percent up stand out from noise",
                s->resolved * 100);
    fputs(".</li>\n", fp);
}

/* Iterations an arm and round, and how many there were. */
static void write_counts(const struct stp_page_set *set, FILE *fp)
{
    unsigned min = UINT32_MAX, max = 0;

    for (size_t i = 0; i < set->data.n_rows; i++) {
        unsigned iters = set->data.rows[i].iters;

        min = iters < min ? iters : min;
        max = iters > max ? iters : max;
    }
    fputs("<li><code>", fp);
    stp_html_text(set->name, fp);
    fputs("</code>: ", fp);
    if (min < max)
        fprintf(fp, "%u to ", min);
    fprintf(fp, "%u iteration%s an arm and round", max, max == 1 ? "" : "s");
}

static enum stp_status write_set(const struct stp_page_set *set, FILE *fp,
                                 struct stp_error *err)
{
    struct stp_steadiness s;
    enum stp_status status = STP_OK;

    if (set->name == NULL)
        return STP_OK;
    write_counts(set, fp);
    if (set->comparisons.n_points == 0) {
        fprintf(fp, "; %u rounds, %zu workloads.</li>\n",
                set->iterations.settings[0].arms[0].n_rounds,
                set->iterations.n_settings);
        return STP_OK;
    }
    status = stp_steadiness_of(&set->comparisons, &set->comparisons, &s, err);
    if (status == STP_OK) {
        fputs("; ", fp);
        write_spread(&s, fp);
    }
    return status;
}

static const char words[] =
    "<dl class=\"words\">\n"
    "<div><dt>Round</dt><dd>All arms one after the other, each after untimed "
    "warm-up runs. A round counts with the median of its iterations, so that "
    "one late interrupt is not the arm&#39;s.</dd></div>\n"
    "<div><dt>Gain</dt><dd>How many times as fast as NCCL&#39;s own choice "
    "(AUTO): each arm is divided by AUTO of the same round, and the gain is "
    "the geometric mean of these pairs.</dd></div>\n"
    "<div><dt>Interval</dt><dd>The 95 percent interval of the gain "
    "(Student&#39;s t on the logarithms of the pairs). <i>Faster</i> means "
    "that "
    "all of it is above 1; <i>SLOWER</i> that all of it is below 1 and the "
    "loss "
    "is more than twice AUTO&#39;s own spread; <i>unsure</i> anything between; "
    "<i>same</i> that NCCL ran what it would have run anyway.</dd></div>\n"
    "<div><dt>algbw</dt><dd>Algorithm bandwidth: bytes of the collective over "
    "its time, in GB/s of 10<sup>9</sup> bytes.</dd></div>\n"
    "<div><dt>busbw</dt><dd>Bus bandwidth: algbw times 2(n-1)/n for "
    "all-reduce, "
    "(n-1)/n for all-gather and reduce-scatter, 1 for broadcast and reduce, of "
    "n ranks: what the links carry, as nccl-tests has it.</dd></div>\n"
    "<div><dt>Arm</dt><dd>A way to run a collective: algorithm/protocol, and "
    "channels where they are forced. The fastest arm is that of the sweep, by "
    "its gain.</dd></div>\n"
    "<div><dt>Sizes</dt><dd>Bytes as NCCL tells a tuner, for all-gather and "
    "reduce-scatter the sum over all ranks; K, M and G are powers of 1024."
    "</dd></div>\n"
    "</dl>\n";

enum stp_status stp_page_write_method(const struct stp_page_data *data,
                                      FILE *fp, struct stp_error *err)
{
    enum stp_status status = STP_OK;

    fputs("<ul>\n", fp);
    for (int i = 0; i < STP_PAGE_N_SETS && status == STP_OK; i++)
        status = write_set(&data->sets[i], fp, err);
    fputs("</ul>\n", fp);
    fputs(words, fp);
    return status;
}
