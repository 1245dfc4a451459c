#include "device/mock/mock_way.h"

static const int ways[STP_N_MEMORIES] = {[STP_MEMORY_REG] = MOCK_WAY_REG,
                                         [STP_MEMORY_SYM] = MOCK_WAY_SYM,
                                         [STP_MEMORY_CE] = MOCK_WAY_CE};

static bool way_has_times(const struct mock_machine *machine, int way)
{
    bool has = way == 0;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS && !has; c++)
        has = mock_machine_has_way(machine, (ncclFunc_t)c, (enum mock_way)way);
    return has;
}

unsigned stp_mock_memories(const struct mock_machine *machine)
{
    unsigned memories = 0;

    for (int m = 0; m < STP_N_MEMORIES; m++)
        if (way_has_times(machine, ways[m]))
            memories |= 1u << m;
    return memories;
}

enum stp_status stp_mock_find_way(const struct mock_machine *machine,
                                  const struct stp_arm *arm, int *way_ret,
                                  struct stp_error *err)
{
    const struct stp_setup *setup = &arm->setup;
    char name[STP_ARM_NAME];

    if (setup->max_ctas == 0 && setup->cga == 0 && arm->chunk_bytes == 0 &&
        way_has_times(machine, ways[setup->memory])) {
        *way_ret = ways[setup->memory];
        return STP_OK;
    }
    stp_arm_name(arm, name);
    return stp_fail(err, STP_ERR_RANGE,
                    "arm %s: machine '%s' has no recorded times of it, and "
                    "none are modelled",
                    name, mock_machine_get_info(machine)->name);
}
