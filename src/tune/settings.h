/* settings.h - the training iterations that decide on rules
 *
 * tune measures them, and record keeps them, so that tune on a recorded machine
 * finds them there. */
#pragma once

#include "analyse/compare.h"
#include "bench/iterate.h"
#include "tune/plan.h"

/* Iterations of one kind. */
struct stp_setting {
    int mode;
    int coll; /* ncclFunc_t; of fsdp, its all-gather */
    uint64_t n_bytes;
    double ratio;
};

/* Settings are powers of two, from the first to the last.  Shorter sequential
 * iterations, from STP_STEPS_FIRST on, are the launches of a host unless they
 * are captured. */
enum {
    STP_SETTINGS_FIRST_MIB = 2,
    STP_SETTINGS_LAST_MIB = 64,
    STP_STEPS_FIRST = 64 << 10,
    STP_MAX_SETTINGS = 3 * STP_MAX_SIZES /* steps of three collectives */
};

/* The sizes at which sequential iterations are captured. */
extern const struct stp_range stp_settings_captured;

/* Lists the settings of the sizes that were swept: overlapped ones, and
 * sequential ones, by which stp_compare_registered() decides, on a device that
 * registers buffers and is live or has them recorded. Returns how many. */
size_t stp_settings_list(const struct stp_comparisons *swept,
                         const struct stp_device_facts *known,
                         struct stp_setting settings[STP_MAX_SETTINGS]);

/* Whether there are sequential settings of a size, or captured ones, and the
 * device has what they take, measured or recorded. */
bool stp_settings_has(const struct stp_device_facts *known, int coll,
                      uint64_t n_bytes);

/* Adds the mode's settings, of all of its ratios, at a size. */
void stp_settings_add(int mode, int coll, uint64_t n_bytes,
                      struct stp_setting *settings, size_t *n);

/* The best arms of the sweep at the setting's size, and those of registered
 * buffers that the device has.  With a 'min_gain' above 0 only those that may
 * decide something: in sequential iterations, which are for registered buffers,
 * the pair that a rule of that gain would run, and of registered buffers those
 * that are not much slower alone. */
enum stp_status stp_setting_choose_arms(const struct stp_comparisons *swept,
                                        double min_gain,
                                        const struct stp_device_info *info,
                                        const struct stp_setting *setting,
                                        struct stp_arms *arms_ret,
                                        struct stp_error *err);

struct stp_setting_terms {
    int type;
    unsigned rounds; /* 0: as many as are recorded, or 5 */
    double min_gain; /* of a rule: arms that cannot have it stop early, and
                        those that are unsure go on, unless 'rounds' are given;
                        0: all arms have as many rounds, as in a recording */
    bool same_bits;  /* of arms that keep the bits of NCCL's own choice */
    bool captures;   /* half of each turn's time is for iterations that are
                        captured in a CUDA graph, on a device that captures */
    bool graph;      /* all are, on a device that uses graphs at the moment */
    stp_sweep_progress progress;
    void *user;
};

/* The terms of rounds on a device of unlimited ones, of which 'rounds' were
 * asked for, or 0: as for collectives alone that are verified. */
struct stp_rounds_terms stp_setting_rounds(const struct stp_device_info *info,
                                           unsigned rounds, double min_gain);

/* Runs one setting with these arms, and appends to *out. */
enum stp_status stp_setting_run(const struct stp_device *device,
                                const struct stp_device_info *info,
                                const struct stp_setting *setting,
                                const struct stp_setting_terms *terms,
                                const struct stp_arms *arms,
                                struct stp_iterations *out,
                                struct stp_error *err);
