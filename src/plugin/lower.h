/* lower.h - the tuner that NCCL would load if ours were not there
 *
 * NCCL loads one tuner: the library that NCCL_TUNER_PLUGIN names, else
 * libnccl-tuner.so; only if that does not open, the tuner in the net plugin.
 * Where the environment names ours, that is the variable of nccl.conf (conf.h).
 * Up to 2.25 it opens the library that NCCL_NET_PLUGIN names, by the rules of
 * names below, or libnccl-net.so; from 2.26 on it takes the net plugin that it
 * has loaded, whose variable is a list of names from 2.27 on.  (NCCL's
 * src/misc/tuner.cc; since 2.26 src/plugin/tuner.cc and plugin_open.cc.)
 *
 * NCCL opens a NAME as it stands, and if that fails and NAME is a word,
 * libnccl-tuner-NAME.so or libnccl-net-NAME.so.  Any beginning of
 * STATIC_PLUGIN, in any case, names the program itself.  Of a library's tuners
 * it takes the newest version that it knows; a library that has none ends the
 * search. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

enum { STP_LOWER_PATH = 1024, STP_LOWER_BY = 192 };

struct stp_lower_question {
    const char *chain; /* $STEPTUNE_CHAIN: NULL or "auto": as above; "none"; or
                          a NAME, as NCCL_TUNER_PLUGIN has it */
    const char *net;   /* $NCCL_NET_PLUGIN; NULL: unset, as nccl.conf has it */
    const char *root;  /* of /etc; NULL but in tests */
    int newest;        /* version of the interface that this NCCL knows */
    bool is_job;       /* NCCL runs here: net plugins of 2.24 and later are
                          those that are loaded, and are not opened anew */
};

/* A tuner below ours, which stays open to the end of the process. */
struct stp_lower {
    const void *symbol; /* struct ncclTuner_v<version>_t; NULL: there is none */
    int version;
    uint64_t identity; /* hash of file name, build and version; not 0 */
    char path[STP_LOWER_PATH];
    char found_by[STP_LOWER_BY]; /* "libnccl-tuner.so", or a variable */
};

/* Finds that tuner, and skips ours.  STP_OK also where there is none.
 * STP_ERR_IO: $STEPTUNE_CHAIN names no tuner of others, and no net plugin has
 * one.  Runs the initializers of libraries, which may be anybody's. */
enum stp_status stp_lower_find(const struct stp_lower_question *question,
                               struct stp_lower *lower_ret,
                               struct stp_error *err);

/* Its name; "(unnamed)" if it has none. */
const char *stp_lower_name(const struct stp_lower *lower);

/* The value that STEPTUNE_CHAIN is to have where a tuner of ours takes the
 * place of NCCL_TUNER_PLUGIN=displaced, NULL or "" if that is not set: the
 * variable as it is, else what is displaced unless it is ours, else NULL. */
const char *stp_lower_setting(const char *chain, const char *displaced);
