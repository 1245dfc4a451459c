// Hosts of a communicator, in threads of the test, that meet in its store.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "agree/agreement.h"
}

namespace meeting_hosts
{

inline constexpr unsigned kLongMs = 120000; // nothing waits for it
inline constexpr unsigned kShortMs = 50, kEnoughMs = 4000; // to be ready

struct Place {
    unsigned port;
    uint64_t comm_id;
    size_t n_ranks;
    const char *run = "none";
    unsigned timeout_ms = kLongMs;
    bool compares = true;    // else as if that rank's process were stopped
    std::string folder = ""; // the store, if there is one
};

// A host whose ranks have these policies; they join one after another, and
// the one that compares hosts does so in a thread.
class Host
{
  public:
    Host(const Place &place, const std::string &name,
         const std::vector<uint64_t> &policies)
    {
        for (uint64_t policy : policies)
            Join(place, name, policy);
    }
    Host(const Host &) = delete;
    Host &operator=(const Host &) = delete;
    ~Host()
    {
        AwaitComparison();
        for (stp_agreement *rank : ranks_)
            stp_agreement_leave(rank);
    }

    void AwaitComparison()
    {
        for (stp_agreement *rank : ranks_)
            rank->ops->cancel_hosts(rank);
        if (comparison_.joinable())
            comparison_.join();
    }

    // The same on all ranks of the host.
    bool Follows()
    {
        const bool follows = ranks_[0]->ops->compare(ranks_[0], 0);
        for (stp_agreement *rank : ranks_)
            EXPECT_EQ(follows, rank->ops->compare(rank, 0));
        return follows;
    }

    std::string Explain(size_t rank = 0) const
    {
        char text[512] = "";
        ranks_[rank]->ops->explain(ranks_[rank], text, sizeof(text));
        return text;
    }

    size_t n_ranks() const
    {
        return ranks_.size();
    }

    stp_agreement *rank(size_t r) const
    {
        return ranks_[r];
    }

  private:
    void Join(const Place &place, const std::string &name, uint64_t policy)
    {
        stp_agreement_rank rank{};
        stp_agreement *agreement = nullptr;
        stp_error err;

        rank.comm_id = place.comm_id;
        rank.host_id = 1 + std::hash<std::string>()(name + place.run) / 2;
        rank.n_ranks = place.n_ranks;
        rank.n_needed = 1;
        rank.number = -1;
        rank.fingerprint.part[STP_FINGERPRINT_POLICY] = policy;
        rank.fingerprint.part[STP_FINGERPRINT_FILE] = policy;
        rank.store.address = stp_store_at("127.0.0.1", place.port);
        if (!place.folder.empty()) {
            rank.store.address.engine = STP_STORE_FOLDER;
            strcpy(rank.store.address.folder, place.folder.c_str());
        }
        rank.store.timeout_ms = place.timeout_ms;
        strcpy(rank.store.run, place.run);
        strcpy(rank.store.host, name.c_str());
        ASSERT_EQ(STP_OK, stp_agreement_join(&rank, &agreement, &err))
            << err.text;
        EXPECT_EQ(ranks_.empty(), agreement->compares_hosts);
        if (agreement->compares_hosts && place.compares)
            comparison_ = std::thread(agreement->ops->compare_hosts, agreement);
        ranks_.push_back(agreement);
    }

    std::vector<stp_agreement *> ranks_;
    std::thread comparison_;
};

using Hosts = std::vector<std::unique_ptr<Host>>;

// Hosts a, b, ... of one communicator.
inline Hosts Start(Place place,
                   const std::vector<std::vector<uint64_t>> &policies)
{
    Hosts hosts;
    for (size_t i = 0; i < policies.size(); i++)
        hosts.push_back(std::make_unique<Host>(
            place, std::string(1, static_cast<char>('a' + i)), policies[i]));
    return hosts;
}

inline uint64_t NewId()
{
    static uint64_t n = 0;
    return (uint64_t{0xa905} << 48) | (static_cast<uint64_t>(getpid()) << 16) |
           ++n;
}

} // namespace meeting_hosts
