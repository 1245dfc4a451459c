/* arm.h - arms: the ways to run a collective that a benchmark compares */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/memory.h"
#include "core/status.h"

enum stp_arm_kind {
    STP_ARM_AUTO,       /* NCCL's own choice, untouched, or where jobs have a
                           tuner, what NCCL chooses with that */
    STP_ARM_AUTO_AGAIN, /* the same once more: by how much equal arms differ */
    STP_ARM_FORCED,     /* an algorithm, a protocol or both, at every size, or a
                           number of channels */
    STP_ARM_PLUGIN,     /* whatever the tuner plugin under test says */
    STP_ARM_SETUP,      /* NCCL's own choice with buffers that are registered
                           or staged, or in a communicator of another
                           configuration */
    STP_ARM_NCCL,       /* NCCL alone, where AUTO is with a tuner */
};

/* The open half of an arm that forces only an algorithm or a protocol: NCCL
 * chooses it, as if NCCL_ALGO or NCCL_PROTO were set. */
enum { STP_ANY = -1 };

/* The decisions of an application, or of a library that stages its buffers,
 * before it communicates; members of 0 leave NCCL's own. */
struct stp_setup {
    enum stp_memory memory;
    int min_ctas; /* ncclConfig_t.minCTAs, 1 to 64 */
    int max_ctas; /* ncclConfig_t.maxCTAs, 1 to 64 */
    int cga;      /* ncclConfig_t.cgaClusterSize, 0 to 8, and 1 */
};

/* The setups that are tried wherever a device has them: a bit each in
 * stp_device_info.setups.  The first STP_N_MEMORIES are the kinds of memory
 * alone, as enum stp_memory numbers them; those of 16 and 32 CTAs were faster
 * at many sizes with NCCL 2.28.9 on H100 and H200, whose model gives kernels of
 * symmetric memory fewer. */
enum { STP_N_SETUPS = STP_N_MEMORIES + 4 };
extern const struct stp_setup stp_setups[STP_N_SETUPS];

struct stp_arm {
    enum stp_arm_kind kind;
    int algo;               /* NCCL_ALGO_* or STP_ANY; 0 unless forced */
    int proto;              /* NCCL_PROTO_* or STP_ANY; 0 unless forced */
    int n_channels;         /* 1 to 64; 0 for NCCL's own count */
    uint32_t chunk_bytes;   /* that tuner v6 asks for; 0 for NCCL's own, and
                               unless forced */
    struct stp_setup setup; /* all 0 unless kind is STP_ARM_SETUP */
};

/* "ring/ll128/16/chunk=512K" and "sym/ctas=16-32/cga=4" are the longest kinds
 * of names that arms have. */
enum { STP_ARM_NAME = 48, STP_MAX_ARMS = 256 };

struct stp_arms {
    struct stp_arm arm[STP_MAX_ARMS];
    size_t n;
};

/* The setup of a rule of a memory or stage policy: buffers of that memory, in a
 * communicator of at least so many CTAs, or NCCL's own count for 0. */
struct stp_setup stp_setup_of(enum stp_memory memory, int min_ctas);

bool stp_setup_equal(const struct stp_setup *a, const struct stp_setup *b);
bool stp_arm_equal(const struct stp_arm *a, const struct stp_arm *b);

/* Whether NCCL ran this arm: one that is forced, but that NCCL rules
 * out, runs as NCCL's own choice. */
bool stp_arm_ran(const struct stp_arm *arm, int algo, int proto);

/* Writes an arm's name: "auto", "auto2", "plugin", "nccl", "ring/ll128" or
 * "ring/ll128/16"; an algorithm or a protocol alone is "ring", "ll128",
 * "ll128/16", "auto/16" or "auto/chunk=128K", and a setup is "sym",
 * "sym/ctas=16", "ctas=8-16" or "cga=0".  Returns 'name'. */
#define STP_ARM_TEXT(arm) stp_arm_name(arm, (char[STP_ARM_NAME]){0})
const char *stp_arm_name(const struct stp_arm *arm, char name[STP_ARM_NAME]);

/* The words in the columns of a file for the algorithm and the protocol:
 * "auto" for one that is not forced, and the name of an arm that forces nothing
 * in both. */
void stp_arm_columns(const struct stp_arm *arm, char algo[STP_ARM_NAME],
                     char proto[STP_ARM_NAME]);

/* The arm of such a name; false, and *arm_ret untouched, if there is none. */
bool stp_arm_from_name(const char *name, size_t len, struct stp_arm *arm_ret);

/* Reads a comma-separated list of names: "all" is every algorithm with every
 * protocol that NCCL has kernels for, "memory" every setup of stp_setups;
 * "plugin" and "nccl" are not in a list.  AUTO is always the first of
 * *arms_ret, named or not, and no arm is in it twice.  *err names the word that
 * means nothing; *arms_ret is undefined then. */
enum stp_status stp_arms_parse(const char *list, struct stp_arms *arms_ret,
                               struct stp_error *err);

/* AUTO in a sentence: "NCCL's own choice", or "AUTO with NAME's tuner". */
#define STP_AUTO_WORDS(tuner) stp_auto_words(tuner, (char[STP_AUTO_TEXT]){0})
enum { STP_AUTO_TEXT = 72 };
const char *stp_auto_words(const char *tuner, char text[STP_AUTO_TEXT]);

/* Adds the arm of NCCL alone where AUTO asks a tuner. */
void stp_arms_add_nccl(struct stp_arms *arms, const char *tuner);

/* Adds an arm for each of stp_setups whose bit is in 'setups', but plain. */
enum stp_status stp_arms_add_setups(struct stp_arms *arms, unsigned setups,
                                    struct stp_error *err);

/* Adds those of them that are of staged buffers. */
enum stp_status stp_arms_add_staged(struct stp_arms *arms, unsigned setups,
                                    struct stp_error *err);

/* Adds the arm of a setup, unless it is there. */
enum stp_status stp_arms_add_setup(struct stp_arms *arms,
                                   const struct stp_setup *setup,
                                   struct stp_error *err);

/* Adds, for each forced arm that leaves the channels to NCCL, one arm for each
 * count of the comma-separated 'list' of different numbers from 1 to 64. */
enum stp_status stp_arms_add_channels(struct stp_arms *arms, const char *list,
                                      struct stp_error *err);
