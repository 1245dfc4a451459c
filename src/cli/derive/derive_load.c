#include "cli/derive/derive_load.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "core/text.h"
#include "report/measurements/best_csv.h"
#include "report/measurements/measurements_csv.h"
#include "report/measurements/nccl_text.h"
#include "report/measurements/nccl_text_arm.h"

static const char *const kinds[] = {
    [STP_DERIVE_OURS] = "measurements of Steptune",
    [STP_DERIVE_TEXT] = "text of nccl-tests",
    [STP_DERIVE_NVIDIA] = "NVIDIA's performance data",
};

static enum stp_derive_kind load_find_kind(const char *text, size_t len)
{
    if (stp_best_csv_is(text, len))
        return STP_DERIVE_NVIDIA;
    return stp_nccl_text_is(text, len) ? STP_DERIVE_TEXT : STP_DERIVE_OURS;
}

/* Whether this file is among the ones before it, by whatever name: its rounds
 * would count twice. */
static bool load_is_repeated(const struct stp_derive_input *inputs, size_t i)
{
    struct stat a, b;

    if (stat(inputs[i].path, &a) != 0)
        return false; /* reading it will say why */
    for (size_t j = 0; j < i; j++)
        if (stat(inputs[j].path, &b) == 0 && a.st_dev == b.st_dev &&
            a.st_ino == b.st_ino)
            return true;
    return false;
}

static enum stp_status load_add_text(const char *text, size_t len, int coll,
                                     const struct stp_derive_input *input,
                                     struct stp_derive_data *data,
                                     struct stp_error *err)
{
    switch (data->kind) {
    case STP_DERIVE_NVIDIA:
        return stp_best_csv_read(text, len, &data->rows, err);
    case STP_DERIVE_TEXT:
        return stp_nccl_text_add(text, len, coll,
                                 input->has_arm ? &input->arm : NULL,
                                 &data->data, err);
    case STP_DERIVE_OURS:
        break;
    }
    return stp_measurements_read(text, len, &data->data, err);
}

static enum stp_status load_file(const struct stp_derive_input *input,
                                 bool is_first, int coll,
                                 struct stp_derive_data *data,
                                 struct stp_error *err)
{
    enum stp_derive_kind kind;
    char *text;
    size_t len;
    enum stp_status status =
        stp_read_file(input->path, STP_MEASUREMENTS_MAX, &text, &len, err);

    if (status != STP_OK)
        return status;
    kind = load_find_kind(text, len);
    if (is_first)
        data->kind = kind;
    if (kind != data->kind)
        status = stp_fail(err, STP_ERR_RANGE,
                          "%s, expected %s as in the file before", kinds[kind],
                          kinds[data->kind]);
    else if (input->has_arm && kind != STP_DERIVE_TEXT)
        status = stp_fail(err, STP_ERR_RANGE,
                          "%s, which name their arms, expected %s for --arm",
                          kinds[kind], kinds[STP_DERIVE_TEXT]);
    else
        status = load_add_text(text, len, coll, input, data, err);
    free(text);
    return status;
}

int stp_derive_load(const char *command, const struct stp_derive_input *inputs,
                    size_t n_inputs, int coll, struct stp_derive_data *data_ret)
{
    struct stp_error err;

    for (size_t i = 0; i < n_inputs; i++) {
        if (load_is_repeated(inputs, i))
            return stp_complain(command,
                                "%s: given twice, its rounds would count twice",
                                inputs[i].path);
        if (load_file(&inputs[i], i == 0, coll, data_ret, &err) != STP_OK)
            return stp_complain_error(command, inputs[i].path, &err);
    }
    return STP_EXIT_OK;
}

void stp_derive_data_free(struct stp_derive_data *data)
{
    stp_dataset_free(&data->data);
    stp_best_rows_free(&data->rows);
}
