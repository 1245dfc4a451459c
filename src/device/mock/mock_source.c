#include "device/mock/mock_source.h"

enum stp_source stp_mock_source(enum mock_time_source source)
{
    static const enum stp_source sources[] = {
        [MOCK_TIME_RECORDED] = STP_SOURCE_RECORDED,
        [MOCK_TIME_INTERPOLATED] = STP_SOURCE_INTERPOLATED,
        [MOCK_TIME_VIRTUAL] = STP_SOURCE_VIRTUAL,
        [MOCK_TIME_MODELLED] = STP_SOURCE_MODELLED,
    };

    return sources[source];
}
