#include "device/source.h"

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
