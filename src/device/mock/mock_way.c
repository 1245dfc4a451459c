#include "device/mock/mock_way.h"

/* Of stp_setups. */
static const int ways[STP_N_SETUPS] = {
    0,           MOCK_WAY_REG,    MOCK_WAY_SYM,
    MOCK_WAY_CE, MOCK_WAY_SYM_16, MOCK_WAY_SYM_32,
};

unsigned stp_mock_setups(const struct mock_machine *machine)
{
    unsigned setups = 0;

    for (int i = 0; i < STP_N_SETUPS; i++)
        for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
            if (ways[i] == 0 || mock_machine_has_way(machine, (ncclFunc_t)c,
                                                     (enum mock_way)ways[i]))
                setups |= 1u << i;
    return setups;
}

enum stp_status stp_mock_find_way(const struct mock_machine *machine,
                                  const struct stp_arm *arm, int *way_ret,
                                  struct stp_error *err)
{
    const unsigned has = stp_mock_setups(machine);
    char name[STP_ARM_NAME];

    for (int i = 0; i < STP_N_SETUPS && arm->chunk_bytes == 0; i++)
        if (stp_setup_equal(&arm->setup, &stp_setups[i]) &&
            (has >> i & 1) != 0) {
            *way_ret = ways[i];
            return STP_OK;
        }
    stp_arm_name(arm, name);
    return stp_fail(err, STP_ERR_RANGE,
                    "arm %s: machine '%s' has no recorded times of it, and "
                    "none are modelled",
                    name, mock_machine_get_info(machine)->name);
}
