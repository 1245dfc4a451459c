#include "job/environment.h"

#include <stdlib.h>

bool stp_job_has(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0';
}

enum stp_status stp_job_set(const struct stp_job_variable *variables, size_t n,
                            struct stp_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct stp_job_variable *v = &variables[i];

        if (v->value != NULL ? setenv(v->name, v->value, 1) != 0
                             : unsetenv(v->name) != 0)
            return stp_nomem(err);
    }
    return STP_OK;
}
