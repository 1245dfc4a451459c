/* explainer.h - NCCL alone and NCCL with a plugin, asked the same questions
 *
 * Shared by explain.c and why.c; nobody else includes it. */
#pragma once

#include "analyse/explain/explain.h"

struct stp_explainer {
    struct mock_machine *machine;
    const char *nccl; /* version that chooses */
    struct mock_nccl *nccl_alone;
    struct mock_nccl *nccl_tuned;
    struct mock_comm *alone;
    struct mock_comm *tuned;
    struct stp_compiled *compiled; /* NULL without a policy */
    bool is_over;                  /* the plugin asks another tuner first */
};

/* A question and both answers. */
struct stp_asked {
    struct mock_call call;
    struct mock_outcome alone;
    struct mock_outcome tuned;
    enum stp_decider decider;
    unsigned line; /* of the rule */
};

/* STP_ERR_DEVICE if the machine or the plugin cannot be loaded; nothing is to
 * be closed then. */
enum stp_status stp_explainer_open(struct stp_explainer *explainer_ret,
                                   const struct stp_explain_options *options,
                                   struct stp_error *err);
void stp_explainer_close(struct stp_explainer *explainer);

/* The bytes of one element a rank. */
uint64_t stp_explainer_grain(const struct stp_explainer *explainer);

/* Asks about one collective.  STP_ERR_DEVICE if it fails. */
enum stp_status stp_explainer_ask(struct stp_explainer *explainer, int coll,
                                  uint64_t n_bytes, struct stp_asked *asked_ret,
                                  struct stp_error *err);

/* Makes a communicator of the machine, in a libnccl of its own. Both are to be
 * destroyed unless NULL, the communicator first, also after STP_ERR_DEVICE. */
enum stp_status stp_explainer_comm(const struct stp_explainer *explainer,
                                   const struct mock_nccl_options *options,
                                   struct mock_nccl **nccl,
                                   struct mock_comm **comm,
                                   struct stp_error *err);
