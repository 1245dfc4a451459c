#include "bench/measurement.h"

#include <stdlib.h>
#include <string.h>

static const char *const source_names[STP_N_SOURCES] = {
    [STP_SOURCE_MEASURED] = "measured",
    [STP_SOURCE_RECORDED] = "recorded",
    [STP_SOURCE_INTERPOLATED] = "interpolated",
    [STP_SOURCE_SINGLE_PASS] = "single_pass",
    [STP_SOURCE_MODELLED] = "modelled",
};

const char *stp_source_name(enum stp_source source)
{
    return source_names[source];
}

int stp_source_from_name(const char *word, size_t len)
{
    for (int i = 0; i < STP_N_SOURCES; i++)
        if (strlen(source_names[i]) == len &&
            memcmp(source_names[i], word, len) == 0)
            return i;
    return -1;
}

enum stp_status stp_dataset_add(struct stp_dataset *data,
                                const struct stp_measurement *row)
{
    if (data->n_rows == data->capacity) {
        size_t capacity = data->capacity ? 2 * data->capacity : 256;
        struct stp_measurement *rows =
            realloc(data->rows, capacity * sizeof(*rows));

        if (rows == NULL)
            return STP_ERR_NOMEM;
        data->rows = rows;
        data->capacity = capacity;
    }
    data->rows[data->n_rows++] = *row;
    return STP_OK;
}

size_t stp_dataset_n_iterations(const struct stp_dataset *data)
{
    size_t n = 0;

    for (size_t i = 0; i < data->n_rows; i++)
        n += data->rows[i].work.mode != STP_MODE_ALONE;
    return n;
}

void stp_dataset_free(struct stp_dataset *data)
{
    free(data->rows);
    memset(data, 0, sizeof(*data));
}
