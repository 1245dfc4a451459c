#include "bench/measurement.h"

#include <stdlib.h>
#include <string.h>

#include "core/room.h"
#include "core/text.h"
#include "launch/take.h"

enum stp_status stp_dataset_add(struct stp_dataset *data,
                                const struct stp_measurement *row)
{
    if (!STP_ROOM(data->rows, data->n_rows, data->capacity))
        return STP_ERR_NOMEM;
    data->rows[data->n_rows++] = *row;
    return STP_OK;
}

void stp_dataset_take(struct stp_dataset *data,
                      const struct stp_measurement *row)
{
    if (stp_dataset_add(data, row) != STP_OK)
        stp_end_without_memory();
}

size_t stp_dataset_n_iterations(const struct stp_dataset *data)
{
    size_t n = 0;

    for (size_t i = 0; i < data->n_rows; i++)
        n += data->rows[i].work.mode != STP_MODE_ALONE;
    return n;
}

bool stp_dataset_knows_bits(const struct stp_dataset *data)
{
    bool knows = false;

    for (size_t i = 0; i < data->n_rows; i++)
        knows |= data->rows[i].bits == STP_BITS_OTHER ||
                 (data->rows[i].bits == STP_BITS_SAME &&
                  data->rows[i].arm.kind != STP_ARM_AUTO);
    return knows;
}

/* enum stp_bits */
static const char *const bits_names[] = {"-", "same", "other"};

const char *stp_bits_name(int bits)
{
    return bits_names[bits];
}

int stp_bits_from_name(const char *word, size_t len)
{
    return stp_find_word(bits_names, STP_BITS_OTHER + 1, word, len);
}

int stp_source_of_all(const struct stp_source_count *count)
{
    int found = -1;

    for (int s = 0; s < STP_N_SOURCES; s++)
        if (count->n[s] > 0) {
            if (found >= 0)
                return -1;
            found = s;
        }
    return found;
}

void stp_count_sources(const struct stp_dataset *data,
                       struct stp_source_count *count)
{
    for (size_t i = 0; i < data->n_rows; i++) {
        count->n[data->rows[i].source]++;
        count->n_single_pass += data->rows[i].single_pass;
    }
}

void stp_dataset_free(struct stp_dataset *data)
{
    free(data->rows);
    memset(data, 0, sizeof(*data));
}
