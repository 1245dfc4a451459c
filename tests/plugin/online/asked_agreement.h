/* asked_agreement.h - an agreement of one rank, which counts what it is asked
 * and gives what it is told to */
#pragma once

#include <algorithm>
#include <vector>

extern "C" {
#include "agree/agreement.h"
#include "core/learn/proposal.h"
}

namespace asked
{

struct Agreement {
    Agreement();

    stp_agreement base{};
    bool is_complete = true;
    bool accepts = true; // what is proposed, for the next epoch
    bool is_pending = false;
    std::vector<uint32_t> proposals{}; // one an epoch; nothing changes later
    bool freezes = false;              // then

    int n_complete = 0, n_epochs = 0;
    std::vector<stp_proposal> made{};
};

inline Agreement *Of(stp_agreement *agreement)
{
    return reinterpret_cast<Agreement *>(agreement);
}

inline bool Propose(stp_agreement *agreement, uint32_t word)
{
    Agreement *a = Of(agreement);

    a->made.push_back(stp_proposal_unpack(word));
    if (!a->accepts)
        return false;
    a->proposals.resize(
        std::max(a->proposals.size(), static_cast<size_t>(a->n_epochs)));
    a->proposals.push_back(word);
    return true;
}

inline bool NextEpoch(stp_agreement *agreement, uint32_t *proposal_ret)
{
    Agreement *a = Of(agreement);
    const auto n = static_cast<size_t>(a->n_epochs++);
    const bool is_proposed = n < a->proposals.size();

    *proposal_ret = is_proposed ? a->proposals[n] : 0;
    return is_proposed || !a->freezes;
}

inline const stp_agreement_ops kOps = [] {
    stp_agreement_ops ops{};

    ops.is_complete = [](stp_agreement *agreement) {
        Of(agreement)->n_complete++;
        return Of(agreement)->is_complete;
    };
    ops.propose = Propose;
    ops.is_pending = [](stp_agreement *agreement) {
        return Of(agreement)->is_pending;
    };
    ops.next_epoch = NextEpoch;
    return ops;
}();

inline Agreement::Agreement()
{
    base.ops = &kOps;
    base.proposes = true;
}

} // namespace asked
