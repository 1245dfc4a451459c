#include "device/dl_table.h"

#include <dlfcn.h>
#include <string.h>

enum stp_status stp_dl_find(void *handle, const char *library,
                            const struct stp_dl_symbol *symbols, size_t n,
                            const char *expected, void *api_ret,
                            struct stp_error *err)
{
    for (size_t i = 0; i < n; i++) {
        void *function = dlsym(handle, symbols[i].name);

        if (function == NULL)
            return stp_fail(err, STP_ERR_NOTHING, "%s has no %s%s", library,
                            symbols[i].name, expected);
        memcpy((char *)api_ret + symbols[i].offset, &function,
               sizeof(function));
    }
    return STP_OK;
}
