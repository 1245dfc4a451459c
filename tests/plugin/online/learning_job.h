/*
 * learning_job.h - a job whose rank learns: a follower and its observer, an
 * agreement that gives it what it proposes, and a GPU
 */
#ifndef LEARNING_JOB_H
#define LEARNING_JOB_H

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

extern "C" {
#include "core/names.h"
#include "plugin/online/follower.h"
}

#include "core/learn/bandit_job.h"
#include "plugin/online/asked_agreement.h"

namespace learning_job
{

struct Message {
    int coll;
    uint64_t n_bytes;
    bandit_job::Costs costs{};
    double gain = 1; // of ring/simple, which has half of the channels
    unsigned n_channels = 16;
};

// "settled 0 allgather 1048576 ring/simple"
struct Event {
    stp_learn_event event;
    stp_learned learned;

    std::string Text() const
    {
        std::string text = stp_learn_kind_name(event.kind);

        text += " " + std::to_string(event.key);
        if (learned.coll < 0)
            return text;
        text += std::string(" ") + stp_coll_name(learned.coll) + " " +
                std::to_string(learned.bytes.min);
        if (learned.arm.algo < 0)
            return text + " auto";
        return text + " " + stp_algo_name(learned.arm.algo) + "/" +
               stp_proto_name(learned.arm.proto) + "/" +
               std::to_string(learned.arm.n_channels);
    }
};

class Job
{
  public:
    // Before it learns, there are calls of other messages, one each, and then
    // of the first.
    explicit Job(const std::vector<Message> &step,
                 const std::vector<Message> &others = {}, int n_before = 0,
                 const char *policy = nullptr)
        : step_(step)
    {
        stp_comm_info info{};
        stp_error err;

        rules_.bandit = bandit_job::Halving();
        rules_.objective = STP_LEARN_GPU;
        info.comm_id = 7;
        info.shape = shape_;
        agreement_.base.observes = true;
        EXPECT_EQ(STP_OK,
                  stp_follower_open(&info, policy, &rules_, &follower_, &err));
        stp_follower_join(follower_, &agreement_.base, &rules_);
        for (const Message &message : others)
            Call(message, false);
        for (int i = 0; i < n_before; i++)
            Call(step_[0], false);
        EXPECT_EQ(STP_OK, stp_observer_begin(observer(), Keep, this, &err));
    }
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;
    ~Job()
    {
        stp_follower_close(follower_);
    }

    stp_observer *observer() const
    {
        return follower_->observer;
    }

    // Steps until an event begins like that, or for very long.
    bool PlayUntil(const std::string &text)
    {
        for (int i = 0; i < 20000; i++) {
            const size_t n_before = events.size();
            for (const Message &message : step_)
                Call(message, true);
            stp_observer_think(observer());
            if (Has(text, n_before))
                return true;
        }
        return false;
    }

    bool Has(const std::string &text, size_t from = 0) const
    {
        for (size_t i = from; i < events.size(); i++)
            if (events[i].Text().rfind(text, 0) == 0)
                return true;
        return false;
    }

    // The arms of trials, each once, in the order of first trials.
    std::vector<std::string> Tried() const
    {
        std::vector<std::string> tried;

        for (const Event &event : events) {
            const std::string text = event.Text();
            if (event.event.kind == STP_LEARN_TRIAL &&
                std::find(tried.begin(), tried.end(), text) == tried.end())
                tried.push_back(text);
        }
        return tried;
    }

    std::vector<Event> events{};

  private:
    static void Keep(void *self, const stp_learn_event *event)
    {
        Job *job = static_cast<Job *>(self);
        Event kept{*event, {}};

        stp_observer_explain(job->observer(), event, &kept.learned);
        job->events.push_back(kept);
    }

    void Call(const Message &message, bool is_launched)
    {
        const stp_cost_view view = message.costs.View();
        const stp_launch launch{message.coll, message.n_bytes};
        stp_query query{};
        stp_choice choice{};
        uint32_t token;

        query.coll = message.coll;
        query.n_bytes = message.n_bytes;
        const bool is_ours =
            stp_follower_choose(follower_, &query, &view, &choice);
        const bool is_ring_simple = is_ours && choice.algo == NCCL_ALGO_RING &&
                                    choice.proto == NCCL_PROTO_SIMPLE;
        const bool is_timed =
            is_launched && stp_observer_launched(observer(), &launch, &token);
        unsigned n_channels = message.n_channels / (is_ring_simple ? 2 : 1);
        if (is_ours && choice.n_channels > 0)
            n_channels = static_cast<unsigned>(choice.n_channels);
        if (is_timed)
            under_way_.push_back({n_calls_, token, n_channels,
                                  static_cast<uint64_t>(us_ * 1e3)});
        n_calls_++;
        while (!under_way_.empty() &&
               under_way_.front().call + kBehind < n_calls_) {
            const Launch &began = under_way_.front();
            stp_observer_took(observer(), began.token, began.n_channels,
                              began.ns);
            under_way_.pop_front();
        }
        us_ += !is_ours ? 100 : is_ring_simple ? 100 / message.gain : 120;
    }

    static constexpr uint64_t kBehind = 301; // calls of the GPU

    struct Launch {
        uint64_t call;
        uint32_t token;
        unsigned n_channels;
        uint64_t ns;
    };

    const std::vector<Message> step_;
    uint64_t n_calls_ = 0;
    std::deque<Launch> under_way_{};
    const stp_shape shape_{4, 1, nullptr};
    stp_learner_rules rules_{};
    asked::Agreement agreement_{};
    stp_follower *follower_ = nullptr;
    double us_ = 1;
};

} // namespace learning_job

#endif // LEARNING_JOB_H
