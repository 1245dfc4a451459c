#include "device/module.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "device/dl_table.h"

enum stp_status stp_module_open(const char *path,
                                const struct stp_module **module_ret,
                                struct stp_error *err)
{
    const struct stp_module *module;
    void *handle;

    if (access(path, F_OK) != 0)
        return stp_fail(err, STP_ERR_IO, "no file '%s'", path);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return stp_fail(err, STP_ERR_DEVICE, "%s", dlerror());
    module = dlsym(handle, STP_MODULE_SYMBOL);
    if (module == NULL || module->abi != STP_MODULE_ABI) {
        dlclose(handle);
        return stp_fail(err, STP_ERR_DEVICE,
                        "'%s' is of another version of Steptune", path);
    }
    *module_ret = module;
    return STP_OK;
}

enum stp_status stp_dl_find(void *handle, const char *library,
                            const struct stp_dl_symbol *symbols, size_t n,
                            void *api_ret, struct stp_error *err)
{
    for (size_t i = 0; i < n; i++) {
        void *function = dlsym(handle, symbols[i].name);

        if (function == NULL)
            return stp_fail(err, STP_ERR_NOTHING, "%s has no %s", library,
                            symbols[i].name);
        memcpy((char *)api_ret + symbols[i].offset, &function,
               sizeof(function));
    }
    return STP_OK;
}
