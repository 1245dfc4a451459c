#include "report/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/names.h"
#include "core/text.h"

const char *stp_ran_name(int algo, int proto, int n_channels,
                         char name[STP_RAN_NAME])
{
    if (algo < 0)
        snprintf(name, STP_RAN_NAME, "-");
    else if (n_channels == 0)
        snprintf(name, STP_RAN_NAME, "%s/%s", stp_algo_name(algo),
                 stp_proto_name(proto));
    else
        snprintf(name, STP_RAN_NAME, "%s/%s/%d", stp_algo_name(algo),
                 stp_proto_name(proto), n_channels);
    return name;
}

const char *stp_interval_text(const struct stp_gain *gain,
                              char text[STP_INTERVAL])
{
    if (isinf(gain->high))
        snprintf(text, STP_INTERVAL, gain->n_pairs < 2 ? "one round" : "-");
    else
        snprintf(text, STP_INTERVAL, "%.3f to %.3f", gain->low, gain->high);
    return text;
}

const char *stp_list_sign(size_t i, size_t n)
{
    return i == 0 ? "" : i + 1 == n ? " and " : ", ";
}

static void words_add_count(char text[STP_SOURCES_TEXT], size_t n, size_t n_all,
                            const char *words)
{
    if (n > 0)
        stp_append(text, STP_SOURCES_TEXT, "%s%zu of %zu %s",
                   text[0] != '\0' ? ", " : "", n, n_all, words);
}

bool stp_again_text(size_t n_again, size_t n_disturbed,
                    char text[STP_SOURCES_TEXT])
{
    snprintf(text, STP_SOURCES_TEXT, "%zu round%s disturbed and ran again",
             n_again, n_again == 1 ? " was" : "s were");
    stp_append(text, STP_SOURCES_TEXT,
               n_disturbed > 0 ? "; %zu that stayed disturbed count all the "
                                 "same, so that intervals there are wide."
                               : ".",
               n_disturbed);
    return n_again > 0;
}

void stp_sources_text(const struct stp_source_count *count,
                      char text[STP_SOURCES_TEXT])
{
    const int all = stp_source_of_all(count);
    size_t n_all = 0;

    text[0] = '\0';
    for (int s = 0; s < STP_N_SOURCES; s++)
        n_all += count->n[s];
    if (all >= 0)
        snprintf(text, STP_SOURCES_TEXT, "%zu %s", n_all,
                 stp_source_name((enum stp_source)all));
    for (int s = 0; s < STP_N_SOURCES && all < 0; s++)
        words_add_count(text, count->n[s], n_all,
                        stp_source_name((enum stp_source)s));
    words_add_count(text, count->n_single_pass, n_all, "in single passes");
}

void stp_sources_words(const struct stp_source_count *count,
                       char text[STP_SOURCES_TEXT])
{
    const int all = stp_source_of_all(count);

    if (all >= 0 && count->n_single_pass == 0)
        snprintf(text, STP_SOURCES_TEXT, "%s",
                 stp_source_name((enum stp_source)all));
    else
        stp_sources_text(count, text);
}

const char *stp_decider_name(enum stp_decider decider)
{
    static const char *const names[] = {
        [STP_DECIDER_NCCL] = "nccl",
        [STP_DECIDER_RULE] = "rule",
        [STP_DECIDER_BELOW] = "below",
        [STP_DECIDER_PLUGIN] = "plugin",
    };

    return names[decider];
}

/* Divides *n by 'base' while it is not smaller, at most 3 times; how often. */
static int words_scale(double *n, double base)
{
    int unit = 0;

    for (; *n >= base && unit < 3; unit++)
        *n /= base;
    return unit;
}

const char *stp_size_name(uint64_t n_bytes, char name[32])
{
    static const char *const units[] = {"", "K", "M", "G"};
    double n = (double)n_bytes;
    int unit = words_scale(&n, 1024);

    snprintf(name, 32, "%.4g%s", n, units[unit]);
    return name;
}

void stp_range_names(const struct stp_range *range, char from[32], char to[32])
{
    stp_size_name(range->min, from);
    snprintf(to, 32, "no end");
    if (range->max != UINT64_MAX)
        stp_size_name(range->max, to);
}

const char *stp_size_text(uint64_t n_bytes, char text[32])
{
    static const char *const units[2][4] = {{"bytes", "KiB", "MiB", "GiB"},
                                            {"bytes", "KB", "MB", "GB"}};
    bool decimal = n_bytes % 1000 == 0;
    double n = (double)n_bytes;
    int unit = words_scale(&n, decimal ? 1000 : 1024);

    snprintf(text, 32, "%.4g %s", n, units[decimal][unit]);
    return text;
}

void stp_wrong_text(const struct stp_wrong *wrong, char text[STP_ERROR_TEXT])
{
    const bool is_auto = wrong->like->arm.kind == STP_ARM_AUTO ||
                         wrong->like->arm.kind == STP_ARM_AUTO_AGAIN;
    char sizes[80], most[40] = "";

    stp_size_name(wrong->bytes.min, sizes);
    if (wrong->bytes.max > wrong->bytes.min)
        stp_append(sizes, sizeof(sizes), " to %s",
                   STP_SIZE_NAME(wrong->bytes.max));
    if (wrong->most > 1) /* of some texts 1 stands for any number */
        snprintf(most, sizeof(most), ", up to %" PRId64 " in one", wrong->most);
    snprintf(text, STP_ERROR_TEXT,
             "%s: %s has %zu result%s with wrong elements%s, at %s: %s there",
             stp_coll_name(wrong->like->coll),
             is_auto ? STP_AUTO_WORDS(wrong->tuner)
                     : STP_ARM_TEXT(&wrong->like->arm),
             wrong->n_results, STP_S(wrong->n_results), most, sizes,
             is_auto ? "nothing is compared" : "it is left out");
}
