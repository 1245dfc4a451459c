#include "report/words.h"

#include <math.h>
#include <stdio.h>

#include "core/names.h"

void stp_ran_name(int algo, int proto, int n_channels, char name[STP_RAN_NAME])
{
    if (algo < 0)
        snprintf(name, STP_RAN_NAME, "-");
    else if (n_channels == 0)
        snprintf(name, STP_RAN_NAME, "%s/%s", stp_algo_name(algo),
                 stp_proto_name(proto));
    else
        snprintf(name, STP_RAN_NAME, "%s/%s/%d", stp_algo_name(algo),
                 stp_proto_name(proto), n_channels);
}

void stp_interval_text(const struct stp_gain *gain, char text[STP_INTERVAL])
{
    if (isinf(gain->high))
        snprintf(text, STP_INTERVAL, "one round");
    else
        snprintf(text, STP_INTERVAL, "%.3f to %.3f", gain->low, gain->high);
}

const char *stp_decider_name(enum stp_decider decider)
{
    static const char *const names[] = {
        [STP_DECIDER_NCCL] = "nccl",
        [STP_DECIDER_RULE] = "rule",
        [STP_DECIDER_PLUGIN] = "plugin",
    };

    return names[decider];
}
