/* arms.c - the arms that options name */
#include "cli/cli.h"

enum stp_status stp_parse_arms(const char *list, const char *channels,
                               struct stp_arms *arms_ret, struct stp_error *err)
{
    enum stp_status status = stp_arms_parse(list, arms_ret, err);

    return status == STP_OK && channels != NULL
               ? stp_arms_add_channels(arms_ret, channels, err)
               : status;
}

int stp_check_arms(const char *list, const char *channels)
{
    struct stp_arms arms;
    struct stp_error err;

    if (stp_parse_arms(list != NULL ? list : "all", channels, &arms, &err) ==
        STP_OK)
        return STP_EXIT_OK;
    stp_complain_error(NULL, &err);
    return STP_EXIT_USAGE;
}
