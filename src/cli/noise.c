/* noise.c - whether what was measured can tell what was asked */
#include <math.h>

#include "analyse/derive.h"
#include "analyse/steadiness.h"
#include "cli/cli.h"

void stp_warn_of_noise(const char *command,
                       const struct stp_steadiness *steadiness, double min_gain)
{
    size_t n;

    if (!isfinite(steadiness->resolved)) {
        stp_complain(command,
                     "warning: one round says nothing of its error, expected "
                     "%d or more",
                     STP_DERIVE_PASSES);
        return;
    }
    if (!(min_gain > 0) || !stp_is_noisy(steadiness, min_gain))
        return;
    n = stp_rounds_for(steadiness, min_gain);
    if (n > 0)
        stp_complain(command,
                     "warning: too noisy for --min-gain %g%%: only gains from "
                     "%.2f percent up stand out; about %zu rounds would do",
                     min_gain * 100, steadiness->resolved * 100, n);
    else
        stp_complain(command,
                     "warning: too noisy for --min-gain %g%%: only gains from "
                     "%.2f percent up stand out, whatever the rounds",
                     min_gain * 100, steadiness->resolved * 100);
}
