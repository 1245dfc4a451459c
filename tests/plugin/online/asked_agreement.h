/*
 * asked_agreement.h - an agreement of one rank, which counts what it is asked
 * and gives what it is told to
 */
#ifndef ASKED_AGREEMENT_H
#define ASKED_AGREEMENT_H

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

extern "C" {
#include "agree/agreement.h"
#include "core/learn/proposal.h"
}

namespace asked
{

// What was proposed at once.
struct Proposed {
    std::vector<stp_proposal> proposals{};
    unsigned epoch_calls = 0;
};

struct Agreement {
    Agreement();

    stp_agreement base{};
    bool is_complete = true, is_observer = false;
    bool accepts = true; // what is proposed, for the next epochs
    stp_proposed proposed = STP_PROPOSED_TAKEN;
    std::string why{};                 // it is over
    std::vector<uint32_t> proposals{}; // one an epoch; nothing changes later
    stp_epoch last = STP_EPOCH_KNOWN;  // what later epochs are

    int n_complete = 0, n_epochs = 0, n_explained = 0;
    std::vector<Proposed> made{};
};

inline Agreement *Of(stp_agreement *agreement)
{
    return reinterpret_cast<Agreement *>(agreement);
}

inline bool Propose(stp_agreement *agreement, const uint32_t *words, size_t n,
                    unsigned epoch_calls)
{
    Agreement *a = Of(agreement);
    Proposed made;

    made.epoch_calls = epoch_calls;
    for (size_t i = 0; i < n; i++)
        made.proposals.push_back(stp_proposal_unpack(words[i]));
    a->made.push_back(made);
    if (!a->accepts)
        return false;
    a->proposals.resize(
        std::max(a->proposals.size(), static_cast<size_t>(a->n_epochs)));
    a->proposals.insert(a->proposals.end(), words, words + n);
    return true;
}

inline stp_epoch NextEpoch(stp_agreement *agreement, uint32_t *proposal_ret)
{
    Agreement *a = Of(agreement);
    const auto n = static_cast<size_t>(a->n_epochs++);
    const bool is_proposed = n < a->proposals.size();

    *proposal_ret = is_proposed ? a->proposals[n] : 0;
    return is_proposed ? STP_EPOCH_KNOWN : a->last;
}

inline const stp_agreement_ops kOps = [] {
    stp_agreement_ops ops{};

    ops.is_complete = [](stp_agreement *agreement) {
        Of(agreement)->n_complete++;
        return Of(agreement)->is_complete;
    };
    ops.is_observer = [](const stp_agreement *agreement) {
        return reinterpret_cast<const Agreement *>(agreement)->is_observer;
    };
    ops.propose = Propose;
    ops.proposed = [](stp_agreement *agreement) {
        return Of(agreement)->proposed;
    };
    ops.explain = [](const stp_agreement *agreement, char *text, size_t size) {
        Agreement *a = Of(const_cast<stp_agreement *>(agreement));
        a->n_explained++;
        snprintf(text, size, "%s", a->why.c_str());
    };
    ops.next_epoch = NextEpoch;
    return ops;
}();

inline Agreement::Agreement()
{
    base.ops = &kOps;
    base.proposes = true;
    base.max_proposals = 1;
}

} // namespace asked

#endif // ASKED_AGREEMENT_H
