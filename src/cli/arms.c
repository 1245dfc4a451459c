/* arms.c - arms that are asked for: which there are, and which ran */
#include <string.h>

#include "analyse/derive.h"
#include "cli/cli.h"
#include "core/names.h"
#include "core/text.h"
#include "report/words.h"

enum { NAMES = 160 };

/* Whether the list has the word, or with NULL names the arm. */
static bool arms_list_has(const char *list, const char *word,
                          const struct stp_arm *arm)
{
    struct stp_arm named;
    bool has = false;

    while (*list != '\0') {
        const size_t len = strcspn(list, ",");

        has |= word != NULL
                   ? len == strlen(word) && memcmp(list, word, len) == 0
                   : stp_arm_from_name(list, len, &named) &&
                         stp_arm_equal(&named, arm);
        list += len + (list[len] == ',');
    }
    return has;
}

/* Drops arms that the word "memory" stands for and the device lacks, but not
 * arms that the list names itself. */
static enum stp_status arms_limit(const struct stp_device_info *info,
                                  const char *list, struct stp_arms *arms,
                                  struct stp_error *err)
{
    size_t n_kept = 0, n_setups = 0;

    for (size_t i = 0; i < arms->n; i++) {
        const struct stp_arm *arm = &arms->arm[i];
        bool has = false;

        if (!stp_arm_registers(arm)) {
            arms->arm[n_kept++] = *arm;
            continue;
        }
        for (int k = 0; k < STP_N_SETUPS; k++)
            has |= (info->setups >> k & 1) != 0 &&
                   stp_setup_equal(&arm->setup, &stp_setups[k]);
        n_setups += has;
        if (has || arms_list_has(list, NULL, arm))
            arms->arm[n_kept++] = *arm;
    }
    arms->n = n_kept;
    return n_setups > 0
               ? STP_OK
               : STP_REFUSE(
                     err, "arm 'memory': %s has no arms of registered buffers",
                     info->machine[0] != '\0' ? info->machine : "this machine");
}

enum stp_status stp_parse_arms(const struct stp_device_info *info,
                               const char *list, const char *channels,
                               struct stp_arms *arms_ret, struct stp_error *err)
{
    enum stp_status status = stp_arms_parse(list, arms_ret, err);

    if (status == STP_OK && info != NULL && arms_list_has(list, "memory", NULL))
        status = arms_limit(info, list, arms_ret, err);
    if (channels != NULL)
        STP_THEN(status, stp_arms_add_channels(arms_ret, channels, err));
    if (status == STP_OK && info != NULL)
        stp_arms_add_nccl(arms_ret, info->tuner);
    return status;
}

/* Takes the next forced arm that the list names, other than those of "all";
 * false at its end.  '*list' parses. */
static bool arms_next_named(const char **list, struct stp_arm *arm_ret)
{
    while (*list != NULL && **list != '\0') {
        size_t len = strcspn(*list, ",");
        bool is_arm = stp_arm_from_name(*list, len, arm_ret);

        *list += len + ((*list)[len] == ',');
        if (is_arm && arm_ret->kind == STP_ARM_FORCED)
            return true;
    }
    return false;
}

/* Whether some NCCL has a kernel of the arm for the collective. */
static bool arm_has_kernel(const struct stp_arm *arm, int coll)
{
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            if (stp_arm_ran(arm, a, p) && stp_pair_exists(coll, a, p))
                return true;
    return false;
}

/* Appends a collective to "allgather, reduce". */
static void arms_add_name(char names[NAMES], int coll)
{
    stp_append(names, NAMES, "%s%s", names[0] != '\0' ? ", " : "",
               stp_coll_name(coll));
}

/* ---- before anything runs ---- */

const char *stp_find_idle_channels(const struct stp_given *given)
{
    unsigned n;
    const char *const *on = stp_given_value(given, "on", &n);
    const char *const *backend = stp_given_value(given, "backend", &n);
    const char *const *list = stp_given_value(given, "arms", &n);
    struct stp_arms arms;
    struct stp_error err;

    if (stp_is_on_cpus(*on, *backend))
        return "on CPUs, whose transports have no arms";
    if (*list == NULL || stp_arms_parse(*list, &arms, &err) != STP_OK)
        return NULL;
    for (size_t i = 0; i < arms.n; i++)
        if (arms.arm[i].kind == STP_ARM_FORCED && arms.arm[i].n_channels == 0)
            return NULL;
    return "on these --arms, expected one that leaves the channels open, such "
           "as ring/simple";
}

/* Complains if NCCL has the arm for none of the collectives. */
static bool arms_lack_kernel(const struct stp_arm *arm, const int *colls,
                             size_t n_colls)
{
    const char *name = STP_ARM_TEXT(arm);
    char lacking[NAMES] = "";
    char having[NAMES] = "";

    for (size_t i = 0; i < n_colls; i++) {
        if (arm_has_kernel(arm, colls[i]))
            return false;
        arms_add_name(lacking, colls[i]);
    }
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        if (arm_has_kernel(arm, c))
            arms_add_name(having, c);
    if (having[0] == '\0')
        stp_complain("arm %s: NCCL has no such kernel", name);
    else
        stp_complain("arm %s: NCCL has no such kernel for %s, only for %s",
                     name, lacking, having);
    return true;
}

int stp_check_arms(const char *list, const char *channels, const int *colls,
                   size_t n_colls)
{
    static const int all[] = {ncclFuncBroadcast, ncclFuncReduce,
                              ncclFuncAllGather, ncclFuncReduceScatter,
                              ncclFuncAllReduce};
    struct stp_arms arms;
    struct stp_arm arm;
    struct stp_error err;

    if (stp_parse_arms(NULL, list != NULL ? list : "all", channels, &arms,
                       &err) != STP_OK)
        return STP_MISUSE("%s", err.text);
    while (arms_next_named(&list, &arm))
        if (arms_lack_kernel(&arm, n_colls > 0 ? colls : all,
                             n_colls > 0 ? n_colls : NCCL_NUM_TUNED_FUNCS))
            return STP_EXIT_USAGE;
    return STP_EXIT_OK;
}

/* ---- afterwards ---- */

static bool arms_have_row(const struct stp_dataset *data,
                          const struct stp_arm *arm, int coll)
{
    for (size_t i = 0; i < data->n_rows; i++)
        if (data->rows[i].coll == coll &&
            stp_arm_equal(&data->rows[i].arm, arm))
            return true;
    return false;
}

/* Whether the arm ran; says for which collectives measured it did not. */
static bool arms_report_lacking(const struct stp_arm *arm,
                                const struct stp_dataset *data)
{
    static const struct stp_arm own = {.kind = STP_ARM_AUTO};
    char lacking[NAMES] = "";
    bool ran = false;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        if (!arms_have_row(data, &own, c))
            continue;
        else if (arms_have_row(data, arm, c))
            ran = true;
        else
            arms_add_name(lacking, c);
    if (lacking[0] != '\0')
        stp_complain("arm %s did not run for %s: NCCL %s rules it out there",
                     STP_ARM_TEXT(arm), lacking, data->nccl);
    return ran;
}

/* Warns where registered buffers had no effect: NCCL ran as with plain ones. */
static void arms_report_no_effect(const struct stp_dataset *data,
                                  enum stp_memory memory, int coll)
{
    size_t n = 0, n_same = 0;

    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_measurement *m = &data->rows[i];

        if (m->coll != coll || m->arm.setup.memory != memory)
            continue;
        n++;
        n_same += m->ran_kernel[0] == '\0';
    }
    if (n_same > 0)
        stp_complain("arm %s had no effect in %zu of %zu measurements of %s: "
                     "NCCL %s ran neither a symmetric kernel nor copy engines",
                     stp_memory_name(memory), n_same, n, stp_coll_name(coll),
                     data->nccl);
}

int stp_report_arms(const char *list, const struct stp_dataset *data)
{
    struct stp_arm arm;
    size_t n = 0, n_ran = 0;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        for (int memory = STP_MEMORY_SYM; memory < STP_N_MEMORIES; memory++)
            arms_report_no_effect(data, (enum stp_memory)memory, c);
    for (int channels = 1; channels <= STP_MAX_CHANNELS; channels++) {
        int most = 0; /* that an arm of so many ran on */

        for (size_t i = 0; i < data->n_rows; i++)
            if (data->rows[i].arm.n_channels == channels &&
                data->rows[i].ran_channels > most)
                most = data->rows[i].ran_channels;
        if (most > 0 && most < channels)
            stp_complain("no arm of %d channels ran on more than %d", channels,
                         most);
    }
    for (; arms_next_named(&list, &arm); n++)
        n_ran += arms_report_lacking(&arm, data);
    if (n == 0 || n_ran > 0)
        return STP_EXIT_OK;
    return stp_complain("none of the arms that --arms names ran");
}

void stp_report_text(const char *path, struct stp_dataset *data)
{
    if (data->doubt[0] != '\0')
        stp_complain("warning: %s: %s", path, data->doubt);
    if (data->said[0] != '\0')
        stp_complain("note: %s: %s", path, data->said);
    data->doubt[0] = data->said[0] = '\0';
}

int stp_report_wrong(const char *path, const struct stp_dataset *data, bool any)
{
    struct stp_wrong wrong = {0};
    char text[STP_ERROR_TEXT];

    while (stp_next_wrong(data, &wrong)) {
        stp_wrong_text(&wrong, text);
        stp_complain("%s%s%s", path != NULL ? path : "",
                     path != NULL ? ": " : "", text);
    }
    any &= wrong.like != NULL;
    return any || stp_kind_is_wrong(data, STP_ARM_AUTO) ? STP_EXIT_FAILED
                                                        : STP_EXIT_OK;
}
