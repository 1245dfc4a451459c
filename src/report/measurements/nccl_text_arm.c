/* nccl_text_arm.c - the arm that a file of nccl-tests is of */
#include <inttypes.h>
#include <string.h>

#include "core/names.h"
#include "report/measurements/measurements_csv.h"
#include "report/measurements/nccl_text.h"

static enum stp_status arm_refuse(struct stp_error *err, const char *why)
{
    return stp_fail(err, STP_ERR_RANGE,
                    "%s, expected its arm by name, such as --arm auto=FILE or "
                    "--arm ring/ll128=FILE",
                    why);
}

/* The number of the one name that a variable was set to; STP_ANY if it was not.
 * False for lists and what else it may be. */
static bool arm_read_setting(const char *value,
                             int (*from_name)(const char *, size_t),
                             int *number_ret)
{
    *number_ret = STP_ANY;
    if (*value == '\0')
        return true;
    *number_ret = stp_from_any_case(value, strlen(value), from_name);
    return *number_ret >= 0;
}

static enum stp_status arm_find(const struct stp_dataset *data,
                                const struct stp_nccl_settings *settings,
                                struct stp_arm *arm_ret, struct stp_error *err)
{
    const int algo = data->rows[0].ran_algo, proto = data->rows[0].ran_proto;
    bool is_known = true, one_algo = true, one_proto = true;

    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_measurement *m = &data->rows[i];

        is_known &= m->ran_algo >= 0 && m->ran_proto >= 0;
        one_algo &= m->ran_algo == algo;
        one_proto &= m->ran_proto == proto;
    }
    *arm_ret = (struct stp_arm){.kind = STP_ARM_FORCED};
    if (!arm_read_setting(settings->algo, stp_algo_from_name, &arm_ret->algo) ||
        !arm_read_setting(settings->proto, stp_proto_from_name,
                          &arm_ret->proto))
        return arm_refuse(err, "NCCL_ALGO or NCCL_PROTO was a list");
    if (arm_ret->algo != STP_ANY || arm_ret->proto != STP_ANY)
        return STP_OK;
    if (!is_known)
        return arm_refuse(err,
                          "NCCL did not log what it ran at every size "
                          "(NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING,ENV)");
    if (one_algo && one_proto)
        *arm_ret = (struct stp_arm){
            .kind = STP_ARM_FORCED, .algo = algo, .proto = proto};
    else if (settings->has_tuner)
        return arm_refuse(err, "a tuner plugin chose");
    else if (one_algo || one_proto)
        return arm_refuse(err, "NCCL may have chosen by itself, or NCCL_ALGO "
                               "or NCCL_PROTO were set");
    else
        *arm_ret = (struct stp_arm){.kind = STP_ARM_AUTO};
    return STP_OK;
}

static enum stp_status arm_set(struct stp_dataset *data,
                               const struct stp_arm *arm, struct stp_error *err)
{
    const bool is_forced = arm->kind == STP_ARM_FORCED;
    const char *name = STP_ARM_TEXT(arm);

    for (size_t i = 0; i < data->n_rows; i++) {
        struct stp_measurement *m = &data->rows[i];
        const bool has_algo = m->ran_algo >= 0, has_proto = m->ran_proto >= 0;

        if (is_forced &&
            ((has_algo && arm->algo != STP_ANY && m->ran_algo != arm->algo) ||
             (has_proto && arm->proto != STP_ANY &&
              m->ran_proto != arm->proto)))
            return stp_fail(err, STP_ERR_RANGE,
                            "arm %s, but NCCL ran %s/%s at %" PRIu64
                            " bytes, expected what was forced",
                            name, stp_algo_name(m->ran_algo),
                            stp_proto_name(m->ran_proto), m->n_bytes);
        /* nobody knows the pair that this arm was, and rules name pairs */
        if (is_forced && ((!has_algo && arm->algo == STP_ANY) ||
                          (!has_proto && arm->proto == STP_ANY)))
            return stp_fail(
                err, STP_ERR_RANGE,
                "arm %s, but NCCL did not log which pair that was at %" PRIu64
                " bytes, expected NCCL_DEBUG_SUBSYS=TUNING or an arm such as "
                "ring/ll128",
                name, m->n_bytes);
        if (is_forced &&
            !stp_pair_exists(m->coll,
                             arm->algo == STP_ANY ? m->ran_algo : arm->algo,
                             arm->proto == STP_ANY ? m->ran_proto : arm->proto))
            return stp_fail(err, STP_ERR_RANGE,
                            "arm %s, but no NCCL has it for %s, expected a "
                            "pair such as ring/ll128",
                            name, stp_coll_name(m->coll));
        m->arm = *arm;
    }
    return STP_OK;
}

enum stp_status stp_nccl_text_add(const char *text, size_t len, int coll,
                                  unsigned n_ranks, const struct stp_arm *arm,
                                  struct stp_dataset *data,
                                  struct stp_error *err)
{
    struct stp_dataset more = {0};
    struct stp_nccl_settings settings = {0};
    struct stp_arm found;
    enum stp_status status =
        stp_nccl_text_read(text, len, coll, n_ranks, &more, &settings, err);

    if (status == STP_OK && settings.names_arms && arm != NULL)
        status =
            stp_fail(err, STP_ERR_RANGE,
                     "this text names its arms, expected it without --arm");
    if (status == STP_OK && !settings.names_arms && arm == NULL) {
        status = arm_find(&more, &settings, &found, err);
        arm = &found;
    }
    if (status == STP_OK && !settings.names_arms)
        status = arm_set(&more, arm, err);
    for (size_t i = 0; i < more.n_rows; i++)
        more.rows[i].single_pass = true;
    STP_THEN(status, stp_measurements_pool(data, &more, true, err));
    stp_dataset_free(&more);
    return status;
}
