/* hosts.h - how the hosts of a communicator compare fingerprints in a store
 *
 * One thread of each host does so, over one connection.  Keys begin with
 * "/steptune/agree/1/RUN/COMM-RANKS/":
 *
 *   tickets        the ranks of all hosts that came, ever; every RANKS of them
 *                  are a generation G: communicators may have one id after
 *                  another.  Who steps aside takes those that a generation
 *                  lacks, so that the next one is whole
 *   G/hosts        struct stp_host_row of each host, appended, for messages
 *   G/reference    the fingerprint of the host that was first
 *   G/arrived      ranks whose rows and fingerprints are there; more than RANKS
 *                  if "aside" is decided
 *   G/ready        ranks of hosts that know that all arrived, and equal the
 *                  reference
 *   G/decision     "follow", "aside", or "apart", which is to step aside and
 *                  leave out the tuner below ours, in which hosts differ;
 *                  written once, by compare-and-set
 *   G/decided      a copy of it, which those await that are ready: a
 *                  compare-and-set wakes nobody in PyTorch's older server
 *
 * 1. Each host takes tickets, appends its row, compares itself with the
 *    reference, and adds its ranks to 'arrived'.
 * 2. When all arrived, a host that equals the reference adds its ranks to
 *    'ready'.  The host that completes 'ready' decides "follow".
 * 3. A host that differs, waits too long or loses the store decides "aside".
 *    What the store then holds is the decision.
 *
 * "follow" cannot be decided before every host is ready, so a host that is not
 * knows that none follows, whatever happens to it or to the store.  A host that
 * is ready and never learns the decision is in doubt: it steps aside, and the
 * others may have read "follow".  That window opens when the last host gets
 * ready and closes when each has read the decision for which all wait: two
 * round trips.  No protocol closes it. */
#pragma once

#include "agree/agreement.h"
#include "agree/identity.h"

/* One host; the rows of its ranks may be filled meanwhile. */
struct stp_hosts {
    const struct stp_agreement_store *store;
    uint64_t comm_id;
    size_t n_ranks;                        /* of the communicator */
    const struct stp_identity *identities; /* 'n_ranks'; the first is full */

    /* Whether the outcome is of no use any more. */
    bool (*is_cancelled)(void *user);

    /* Whether the ranks of this host still await the outcome; from then on they
     * wait until it is known. */
    bool (*commit)(void *user);
    void *user;
};

enum stp_hosts_outcome { STP_HOSTS_ASIDE, STP_HOSTS_FOLLOW, STP_HOSTS_APART };

/* Whether all hosts have the same fingerprint and know it; else writes why not
 * into 'why'.  Blocks for the store's time limit and three seconds at most, if
 * names are resolved and files found in time.  No connection is left. */
enum stp_hosts_outcome stp_hosts_compare(const struct stp_hosts *hosts,
                                         char *why, size_t size);
