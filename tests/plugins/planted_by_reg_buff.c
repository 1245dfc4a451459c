/* planted_by_reg_buff.c - decides by regBuff, which ranks may see differently
 */
#include "planted.h"

static ncclResult_t ask(struct planted *self, const struct planted_call *call)
{
    (void)self;
    planted_choose(call, call->reg_buff);
    return ncclSuccess;
}

PLANTED_TUNER("by regBuff", planted_init, ask, planted_finalize);
