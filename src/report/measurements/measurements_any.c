#include "report/measurements/measurements_any.h"

#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "report/measurements/measurements_csv.h"
#include "report/measurements/measurements_json.h"
#include "report/measurements/nccl_text.h"

static enum stp_status measurements_read_any(const char *text, size_t len,
                                             int coll, struct stp_dataset *data,
                                             struct stp_error *err)
{
    size_t blank = strspn(text, " \t\r\n");

    if (stp_nccl_text_is(text, len))
        return stp_nccl_text_read(text, len, coll, data, NULL, err);
    if (blank < len && (text[blank] == '{' || text[blank] == '['))
        return stp_measurements_read_json(text, len, data, err);
    return stp_measurements_read(text, len, data, err);
}

enum stp_status stp_measurements_load_any(const char *path, int coll,
                                          struct stp_dataset *data,
                                          struct stp_error *err)
{
    char *text;
    size_t len;
    enum stp_status status =
        stp_read_file(path, STP_MEASUREMENTS_MAX, &text, &len, err);

    if (status != STP_OK)
        return status;
    status = measurements_read_any(text, len, coll, data, err);
    free(text);
    return status;
}
