/* shared_policy.h - one compiled policy for all communicators of a process
 *
 * A job makes hundreds of communicators, most of them of the same few shapes.
 * The first one reads the file; while any of them lives, the later ones share
 * that policy, even if the file has changed since: policies that one process
 * reads at different times could differ from another's.
 *
 * The list of shared policies is the only state that the static plugin keeps
 * outside its communicators. */
#pragma once

#include "core/policy/policy.h"

struct stp_shared_policy; /* opaque, counted */

/* The policy at 'path', compiled for '*shape'.  On success *shared_ret must be
 * given back with stp_shared_policy_release(); on failure it is untouched and
 * *err says why, as stp_file_load_policy() and stp_policy_compile() do.  Any
 * number of threads at once. */
enum stp_status stp_shared_policy_acquire(const char *path,
                                          const struct stp_shape *shape,
                                          struct stp_shared_policy **shared_ret,
                                          struct stp_error *err);

void stp_shared_policy_release(struct stp_shared_policy *shared);

/* Live as long as 'shared'. */
const struct stp_compiled *
stp_shared_policy_compiled(const struct stp_shared_policy *shared);
const char *stp_shared_policy_path(const struct stp_shared_policy *shared);
const struct stp_policy *
stp_shared_policy_rules(const struct stp_shared_policy *shared);
