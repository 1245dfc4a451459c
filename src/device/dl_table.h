/* dl_table.h - the functions of a library that is opened at run time */
#pragma once

#include <stddef.h>

#include "core/status.h"

/* A function, and where its address goes in the struct that holds them all. */
struct stp_dl_symbol {
    const char *name;
    size_t offset;
};

/* Fills in *api_ret, all functions of 'symbols', from a library that dlopen()
 * opened.  STP_ERR_NOTHING: "LIBRARY has no NAME"; *api_ret is undefined
 * then. */
enum stp_status stp_dl_find(void *handle, const char *library,
                            const struct stp_dl_symbol *symbols, size_t n,
                            void *api_ret, struct stp_error *err);
