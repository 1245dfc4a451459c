#include "agree/planners_job.h"

#include <algorithm>

namespace planners
{

Job *job; // whose board is used now

Job::Job(uint64_t seed) : random_(seed)
{
    static const int64_t kEpochTimes[] = {200, 1000, 4 * kMs, 12 * kMs};
    static const int64_t kMessageTimes[] = {30, 300, 2 * kMs};
    static const uint32_t kSkews[] = {1, 2, 6, 1000};
    const uint32_t n_hosts = 1 + random_.Below(4);

    n_epochs_ = 6 + random_.Below(random_.OneIn(8) ? 60 : 24);
    n_proposals_ = random_.OneIn(16) ? kMostPlans - 2 : 1 + random_.Below(4);
    most_skew_ = kSkews[random_.Below(4)];
    epoch_time_ = kEpochTimes[random_.Below(4)];
    message_time_ = kMessageTimes[random_.Below(3)];
    wakes_ = random_.OneIn(2);
    hushes_ = random_.OneIn(8);
    decided_.assign(n_epochs_ + 1, kNone);
    hosts_.reserve(n_hosts);
    for (uint32_t i = 0; i < n_hosts; i++)
        AddHost(1 + random_.Below(3));
    for (Host &host : hosts_) {
        for (const Host &other : hosts_)
            host.host.n_ranks += other.ranks.size();
        stp_planner_begin(&host.planner, &host.host);
    }
    connections_.resize(n_hosts);
    for (uint32_t i = 0; i < n_hosts; i++)
        connections_[i].host = i;
    if (random_.Below(10) < 7)
        AddFailures();
}

void Job::AddHost(uint32_t n_ranks)
{
    Host host;
    const size_t at = hosts_.size();

    host.memory.resize(stp_plan_board_bytes(n_ranks) / sizeof(uint64_t));
    host.ranks.resize(n_ranks);
    for (uint32_t r = 0; r < n_ranks; r++) {
        host.ranks[r].step.rank = r;
        host.ranks[r].due = Delay(epoch_time_);
    }
    host.host.n_own = n_ranks;
    host.host.leads = at == 0;
    host.host.acknowledges = !random_.OneIn(32);
    host.host.timeout_ms = kTimeout / kMs;
    host.host.margin_ms = 1 + random_.Below(8);
    host.host.margin_calls = 1 + random_.Below(12);
    snprintf(host.host.name, sizeof(host.host.name), "host%zu", at);
    host.due = Delay(message_time_);
    hosts_.push_back(host);
    hosts_[at].host.board = hosts_[at].board();
}

// At times when there is something to fail.
void Job::AddFailures()
{
    const int64_t length = std::min(epoch_time_ * n_epochs_, 400 * kMs);
    const uint32_t n = 1 + random_.Below(3);

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t pick = random_.Below(10);
        const Failure failure = pick < 4   ? Failure::kConnection
                                : pick < 5 ? Failure::kSpeaker
                                : pick < 6 ? Failure::kHost
                                : pick < 7 ? Failure::kOutage
                                : pick < 9 ? Failure::kRestart
                                           : Failure::kGone;
        failures_.emplace_back(random_.Below(static_cast<uint32_t>(length)),
                               failure);
    }
    n_slow_ = random_.Below(4);
    has_failures_ = true;
}

int64_t Job::Delay(int64_t mean)
{
    return 1 + random_.Below(static_cast<uint32_t>(2 * mean));
}

void Job::Fault(const std::string &text)
{
    if (outcome_.fault.empty())
        outcome_.fault = text;
}

// ---- ranks ----

// Collectives keep ranks together; a rank that has failed keeps nobody.
bool Job::IsBlocked(const Rank &rank) const
{
    for (const Host &host : hosts_)
        for (const Rank &other : host.ranks)
            if (!other.has_ended &&
                other.step.epoch + most_skew_ <= rank.step.epoch)
                return true;
    return false;
}

void Job::StepRank(Host *host, Rank *rank)
{
    rank->due = now_ + 1 + random_.Below(20);
    if (!rank->is_within && rank->step.epoch == n_epochs_) {
        rank->has_ended = true;
        return;
    }
    if (!rank->is_within && IsBlocked(*rank)) {
        rank->due = now_ + Delay(epoch_time_);
        return;
    }
    if (!rank->is_within)
        stp_plan_begin_epoch(&rank->step);
    rank->is_within = true;
    switch (stp_plan_access(&rank->step, host->board())) {
    case STP_PLAN_MORE:
        return;
    case STP_PLAN_DONE:
        Take(*rank);
        rank->is_within = false;
        rank->doubt_since = kNever;
        rank->due = now_ + Delay(epoch_time_);
        return;
    case STP_PLAN_DOUBT:
        rank->due = now_ + Delay(4 * kMs);
        if (rank->doubt_since == kNever)
            rank->doubt_since = now_;
        else if (now_ - rank->doubt_since > kPatience)
            stp_plan_lose(&rank->step, host->board());
        return;
    case STP_PLAN_FAILED:
        CheckFailed(host, *rank);
        rank->has_ended = rank->has_failed = true;
    }
}

void Job::Take(const Rank &rank)
{
    uint32_t *decided = &decided_[rank.step.epoch];

    outcome_.n_words += rank.step.word != 0;
    if (*decided == kNone)
        *decided = rank.step.word;
    if (*decided != rank.step.word)
        Fault("ranks take " + std::to_string(rank.step.word) + " and " +
              std::to_string(*decided) + " in epoch " +
              std::to_string(rank.step.epoch));
}

void Job::CheckFailed(Host *host, const Rank &rank)
{
    const uint64_t number = rank.step.next + 1;

    outcome_.n_failed++;
    if (host->board()->slots[number % STP_PLAN_SLOTS].state !=
        (number << 3 | STP_PLAN_LOST))
        Fault("a rank fails in plan " + std::to_string(number) +
              ", which is not lost");
    if (!may_fail_ && host->speaker != Speaker::kDead)
        Fault("a rank fails though nothing in doubt was lost for good");
}

// ---- hosts ----

void Job::Ask(uint32_t at)
{
    Host *host = &hosts_[at];
    stp_plan_request request;

    if (host->host.leads && n_proposed_ < n_proposals_ && random_.OneIn(2)) {
        uint32_t words[STP_PLAN_WORDS];
        const uint32_t n = 1 + random_.Below(random_.OneIn(8) ? 32 : 4);
        for (uint32_t i = 0; i < n; i++)
            words[i] = (n_proposed_ + 1) * 100 + i;
        n_proposed_ +=
            stp_planner_propose(&host->planner, words, n, 1 + random_.Below(8));
    }
    stp_planner_ask(&host->planner, now_ / kMs, &request);
    host->speaker = Speaker::kAwaits;
    host->deadline = kNever;
    host->reply = Reply();
    host->due = now_ + Delay(20);
    if (request.ask == STP_PLAN_NAP) {
        host->due = now_ + STP_PLANNER_NAP_MS * kMs;
    } else if (request.ask == STP_PLAN_CONNECT) {
        host->due = now_ + Delay(8 * kMs);
        host->is_connected = false;
        outcome_.n_late +=
            !has_failures_ && (truths_[request.plan].is_committed ||
                               (at == 0 && truths_[request.plan].is_refused));
    } else if (request.ask == STP_PLAN_END) {
        host->speaker = Speaker::kOver;
        if (!host->is_hushed && host->planner.why[0] == '\0')
            Fault("a host takes part no more, and does not say why");
        Lose(at, true);
    } else {
        CheckAsked(host, request);
        Send(at, request);
    }
}

void Job::CheckAsked(Host *host, const stp_plan_request &request)
{
    const uint32_t key = KeyOf(request.key);
    const uint64_t number = request.plan;
    Truth *truth = &truths_[number];

    outcome_.n_requests++;
    if (request.ask == STP_PLAN_SET && key == kPlan) {
        memcpy(&truth->plan, request.value, sizeof(truth->plan));
        outcome_.n_published++;
        if (number > STP_PLANNER_TRIES &&
            std::none_of(truth - STP_PLANNER_TRIES, truth,
                         [](const Truth &t) { return t.is_committed; }))
            Fault("the leader proposes though its plans are dropped");
    }
    if (request.ask == STP_PLAN_ADD) {
        truth->n_acknowledged += static_cast<uint32_t>(request.number);
        if (host->put != number)
            Fault("a plan is acknowledged that is not on the board");
        if (!host->host.leads && host->ahead != number)
            Fault("a plan is acknowledged without its margin");
    }
    if (request.ask != STP_PLAN_COMPARE_SET)
        return;
    if (strcmp(host->planner.verdict, "commit") != 0) {
        truth->is_refused |= !host->host.leads;
        return;
    }
    if (!host->host.leads)
        Fault("a host asks to commit that does not lead");
    if (truth->n_acknowledged != host->host.n_ranks)
        Fault("a plan is to be committed that not all acknowledged");
    if (host->ahead != number)
        Fault("a plan is to be committed without its margin");
}

// A set has no reply: it is sent, and nobody knows more.
void Job::Send(uint32_t at, const stp_plan_request &request)
{
    Host *host = &hosts_[at];
    Connection *connection = &connections_[at];
    Message message{};

    message.ask = request.ask;
    message.plan = request.plan;
    message.key = KeyOf(request.key);
    message.number = request.number;
    if (request.value != nullptr)
        message.value.Set(request.value, request.size);
    message.due = now_ + Delay(message_time_);
    if (n_slow_ > 0 && random_.OneIn(16)) {
        message.due += 20 * kMs + random_.Below(80 * kMs);
        n_slow_--;
    }
    if (!connection->sent.empty())
        message.due = std::max(message.due, connection->sent.back().due + 1);
    if (message.key == kKeys || request.plan == 0 ||
        request.plan >= kMostPlans || request.size > message.value.bytes.size())
        Fault("the store is asked for a key that it cannot hold");
    else if (!connection->is_lost)
        connection->sent.push_back(message);
    if (request.ask == STP_PLAN_SET) {
        host->reply.is_ok = !connection->is_lost || random_.OneIn(2);
        return;
    }
    host->due = kNever;
    if (request.ask == STP_PLAN_GET && request.wait_ms >= 0)
        host->deadline = now_ + request.wait_ms * kMs;
    else if (request.ask != STP_PLAN_GET)
        host->deadline = now_ + kAnswer;
    if (connection->is_lost) {
        host->reply.is_ok = false;
        host->due = now_ + Delay(kMs);
    }
}

// The reply is there, or its deadline has passed.
void Job::Answer(uint32_t at)
{
    Host *host = &hosts_[at];
    stp_plan_reply reply{};

    if (host->due > now_) {
        host->reply.is_ok = false;
        Lose(at, true);
    } else if (!host->is_connected) {
        Connect(at);
    }
    reply.is_ok = host->reply.is_ok;
    reply.value = host->reply.value.bytes.data();
    reply.size = host->reply.value.size;
    reply.number = host->reply.number;
    reply.why = reply.is_ok || random_.OneIn(4) ? nullptr : "it was planted";
    host->speaker = Speaker::kAsks;
    host->deadline = kNever;
    host->due = now_ + Delay(20);
    if (hushes_ && HaveRanksEnded(*host) && random_.OneIn(3)) {
        host->is_hushed = true;
        stp_planner_hush(&host->planner);
    }
    stp_planner_take(&host->planner, &reply);
}

void Job::Connect(uint32_t at)
{
    Host *host = &hosts_[at];

    if (!connections_[at].is_lost)
        Lose(at, true);
    host->is_connected = true;
    host->reply.is_ok = is_up_;
    connections_[at].is_lost = !is_up_;
}

// The store may still receive what was sent, or a part of it.
void Job::Abandon(Connection *connection)
{
    Connection lost;

    lost.host = kNone;
    lost.is_lost = true;
    lost.sent.swap(connection->sent);
    connection->is_lost = true;
    if (random_.OneIn(3))
        return;
    while (!lost.sent.empty() && random_.OneIn(3))
        lost.sent.pop_back();
    if (lost.sent.empty() || connections_.size() > hosts_.size() + 8)
        return;
    for (Message &message : lost.sent)
        message.due = std::max(message.due == kNever ? 0 : message.due,
                               now_ + (random_.OneIn(2) ? 1 : Delay(20 * kMs)));
    connections_.push_back(lost);
}

// Of a connection that is lost a host that awaits a reply hears, or not.
void Job::Lose(uint32_t at, bool is_noticed)
{
    Host *host = &hosts_[at];

    Abandon(&connections_[at]);
    if (!is_noticed || host->speaker != Speaker::kAwaits || host->due != kNever)
        return;
    host->reply.is_ok = false;
    host->due = now_ + Delay(kMs);
}

// ---- the store ----

void Job::Apply(Connection *connection)
{
    const Message message = connection->sent.front();
    const uint32_t at = connection->host;
    bool is_parked = false;
    Reply reply;

    ApplyTo(message, &reply, &is_parked);
    if (is_parked && at != kNone) {
        connection->sent.front().due = kNever;
        return;
    }
    connection->sent.pop_front();
    if (message.ask == STP_PLAN_SET ||
        (message.ask == STP_PLAN_COMPARE_SET && wakes_))
        Wake(message.plan, message.key);
    if (at == kNone || message.ask == STP_PLAN_SET ||
        hosts_[at].speaker != Speaker::kAwaits)
        return;
    hosts_[at].reply = reply;
    hosts_[at].due = now_ + Delay(message_time_);
    if (n_slow_ > 0 && random_.OneIn(16)) {
        hosts_[at].due += 20 * kMs + random_.Below(80 * kMs);
        n_slow_--;
    }
}

void Job::ApplyTo(const Message &message, Reply *reply, bool *is_parked)
{
    Value *value = &values_[message.plan][message.key];
    uint64_t sum = 0;

    switch (message.ask) {
    case STP_PLAN_SET:
        *value = message.value;
        break;
    case STP_PLAN_ADD:
        if (value->is_there)
            memcpy(&sum, value->bytes.data(), sizeof(sum));
        sum += message.number;
        value->Set(&sum, sizeof(sum));
        reply->number = sum;
        break;
    case STP_PLAN_GET:
        *is_parked = !value->is_there;
        reply->value = *value;
        break;
    case STP_PLAN_CHECK:
        reply->number = value->is_there;
        break;
    case STP_PLAN_COMPARE_SET:
        CompareSet(message, value);
        reply->value = *value;
        break;
    case STP_PLAN_DELETE:
        *value = Value();
        truths_[message.plan].is_over |= message.key == kVerdict;
        break;
    default:
        Fault("the store is asked for what it does not have");
    }
}

void Job::CompareSet(const Message &message, Value *value)
{
    Truth *truth = &truths_[message.plan];

    if (value->is_there)
        return;
    *value = message.value;
    // A request of a lost connection may come after all know the verdict.
    if (!value->Is("commit") || truth->is_over)
        return;
    if (truth->is_dropped)
        Fault("plan " + std::to_string(message.plan) +
              " is committed after a host dropped it");
    outcome_.n_committed += !truth->is_committed;
    truth->is_committed = true;
}

void Job::Wake(uint64_t plan, uint32_t key)
{
    for (Connection &connection : connections_)
        if (!connection.sent.empty() && connection.sent.front().due == kNever &&
            connection.sent.front().plan == plan &&
            connection.sent.front().key == key)
            connection.sent.front().due = now_ + Delay(20);
}

uint32_t Job::n_keys() const
{
    uint32_t n = 0;

    for (const auto &keys : values_)
        for (const Value &value : keys)
            n += value.is_there;
    return n;
}

// ---- failures ----

// A store that is lost now may cost no rank anything.
bool Job::HasNothingInDoubt() const
{
    for (const Host &host : hosts_) {
        const stp_planner *planner = &host.planner;
        if (host.speaker == Speaker::kOver || host.speaker == Speaker::kDead)
            continue;
        if (planner->plan.number != outcome_.n_published || planner->is_put ||
            planner->n_plans[STP_PLAN_COMMITTED] +
                    planner->n_plans[STP_PLAN_DROPPED] !=
                planner->plan.number)
            return false;
    }
    return true;
}

void Job::Fail(Failure failure)
{
    const uint32_t at = random_.Below(static_cast<uint32_t>(hosts_.size()));

    if (failure == Failure::kConnection) {
        Lose(at, !random_.OneIn(3));
        return;
    }
    if (failure == Failure::kSpeaker || failure == Failure::kHost) {
        Lose(at, false);
        hosts_[at].speaker = Speaker::kDead;
        for (Rank &rank : hosts_[at].ranks)
            rank.has_ended |= failure == Failure::kHost;
        return;
    }
    if (failure == Failure::kBack) {
        is_up_ = true;
        return;
    }
    may_fail_ |= failure != Failure::kOutage && !HasNothingInDoubt();
    outcome_.n_store_losses = 1;
    for (uint32_t i = 0; i < hosts_.size(); i++)
        Lose(i, true);
    connections_.resize(hosts_.size());
    if (failure == Failure::kRestart)
        values_ = {};
    is_up_ = failure == Failure::kRestart && is_up_;
    if (failure != Failure::kOutage)
        return;
    failures_.emplace_back(now_ + Delay(40 * kMs), Failure::kBack);
}

// ---- what the planner does with its board ----

Host *Job::Of(const stp_plan_board *board)
{
    for (Host &host : hosts_)
        if (host.board() == board)
            return &host;
    return nullptr;
}

void Job::Interrupt(Host *host)
{
    if (!random_.OneIn(4))
        return;
    for (uint32_t n = 1 + random_.Below(4); n > 0; n--) {
        Rank *rank = &host->ranks[random_.Below(
            static_cast<uint32_t>(host->ranks.size()))];
        if (!rank->has_ended)
            StepRank(host, rank);
    }
}

void Job::CheckPut(const stp_plan_board *board, const stp_plan *plan)
{
    Host *host = Of(board);
    stp_plan_slot *slot = &host->board()->slots[plan->number % STP_PLAN_SLOTS];

    for (const Rank &rank : host->ranks)
        if (rank.step.next + STP_PLAN_SLOTS < plan->number)
            Fault("a plan is put in the place of one that a rank needs");
    slot->first = 0; // what a rank may not see
    slot->n = 0;
    host->put = plan->number;
    host->ahead = 0;
}

void Job::CheckAhead(const stp_plan_board *board, const stp_plan *plan,
                     bool is_ahead)
{
    Host *host = Of(board);
    uint64_t last = 0;

    for (size_t r = 0; r < host->ranks.size(); r++)
        last = std::max(last, host->board()->lines[r].epoch);
    const bool expected = last + plan->margin < plan->first;
    if (is_ahead != expected)
        Fault("a plan is not as far ahead as it seems");
    host->ahead = expected && host->put == plan->number ? plan->number : 0;
}

void Job::CheckDecided(uint64_t number, stp_plan_state state)
{
    Truth *truth = &truths_[number];

    if (state == STP_PLAN_COMMITTED && !truth->is_committed)
        Fault("a host commits plan " + std::to_string(number) +
              ", the store does not");
    if (state == STP_PLAN_DROPPED && truth->is_committed)
        Fault("a host drops plan " + std::to_string(number) +
              ", the store commits it");
    truth->is_dropped |= state == STP_PLAN_DROPPED;
}

// ---- a run ----

bool Job::HaveRanksEnded(const Host &host)
{
    return std::all_of(host.ranks.begin(), host.ranks.end(),
                       [](const Rank &rank) { return rank.has_ended; });
}

bool Job::HaveRanksEnded() const
{
    return std::all_of(hosts_.begin(), hosts_.end(),
                       [](const Host &host) { return HaveRanksEnded(host); });
}

// Runs what is due next, at 'limit' or before.  Returns its time.
int64_t Job::Next(int64_t limit)
{
    int64_t due = limit;
    Host *host = nullptr;
    Rank *rank = nullptr;
    Connection *connection = nullptr;
    uint32_t speaker = kNone;

    for (uint32_t i = 0; i < hosts_.size(); i++) {
        Host *h = &hosts_[i];
        for (Rank &r : h->ranks)
            if (!r.has_ended && r.due < due) {
                due = r.due;
                host = h;
                rank = &r;
            }
        if (h->speaker == Speaker::kOver || h->speaker == Speaker::kDead ||
            std::min(h->due, h->deadline) >= due)
            continue;
        due = std::min(h->due, h->deadline);
        speaker = i;
        rank = nullptr;
    }
    for (Connection &c : connections_)
        if (!c.sent.empty() && c.sent.front().due < due && is_up_) {
            due = c.sent.front().due;
            connection = &c;
        }
    now_ = std::max(now_, due);
    if (connection != nullptr)
        Apply(connection);
    else if (rank != nullptr)
        StepRank(host, rank);
    else if (speaker != kNone && hosts_[speaker].speaker == Speaker::kAsks)
        Ask(speaker);
    else if (speaker != kNone)
        Answer(speaker);
    return due;
}

void Job::RunUntil(int64_t limit)
{
    while (outcome_.fault.empty()) {
        if (end_ == kNever && HaveRanksEnded())
            end_ = now_ + kSettle;
        int64_t until = std::min(limit, end_);
        const bool fails = !failures_.empty() && failures_[0].first < until;
        if (fails)
            until = failures_[0].first;
        if (Next(until) < until)
            n_steps_++;
        else if (fails) {
            const Failure failure = failures_[0].second;
            failures_.erase(failures_.begin());
            Fail(failure);
            std::sort(failures_.begin(), failures_.end());
        } else
            return;
        if (n_steps_ > 200000)
            Fault("it does not end");
    }
}

void Job::CheckWords()
{
    std::vector<uint32_t> expected(n_epochs_ + 1, 0);
    uint64_t end = 0;

    for (const Truth &truth : truths_) {
        if (!truth.is_committed)
            continue;
        if (truth.plan.first <= end)
            Fault("a plan begins before the one before ends");
        end = truth.plan.first + truth.plan.n - 1;
        for (uint64_t e = truth.plan.first; e <= end && e <= n_epochs_; e++)
            expected[e] = truth.plan.words[e - truth.plan.first];
    }
    for (uint32_t e = 1; e <= n_epochs_; e++)
        if (decided_[e] != kNone && decided_[e] != expected[e])
            Fault("ranks take " + std::to_string(decided_[e]) + " in epoch " +
                  std::to_string(e) + ", expected " +
                  std::to_string(expected[e]));
}

void Job::CheckEnd()
{
    const uint64_t last = outcome_.n_published;

    CheckWords();
    if (has_failures_)
        return;
    if (outcome_.n_failed != 0)
        Fault("ranks fail though nothing else does");
    for (uint32_t e = 1; e <= n_epochs_; e++)
        if (decided_[e] == kNone)
            Fault("epoch " + std::to_string(e) + " is not decided");
    // Only those of plans that were dropped since are still there.
    uint64_t first = last;
    while (first > 0 && !truths_[first].is_committed)
        first--;
    if (!hushes_ && n_keys() > (last - first + 1) * kKeys)
        Fault("the store has " + std::to_string(n_keys()) + " keys of " +
              std::to_string(last - first + 1) + " plans");
}

// Once everything is settled hosts ask the store for nothing.
void Job::CheckQuiet()
{
    const uint64_t n_requests = outcome_.n_requests;

    if (has_failures_ ||
        (n_proposed_ < n_proposals_ && hosts_[0].speaker != Speaker::kOver))
        return;
    end_ += kSettle;
    RunUntil(kNever);
    if (outcome_.n_requests != n_requests)
        Fault("hosts ask the store though nothing is to be decided");
}

Outcome Job::Run()
{
    std::sort(failures_.begin(), failures_.end());
    job = this;
    RunUntil(kNever);
    if (outcome_.fault.empty())
        CheckEnd();
    if (outcome_.fault.empty())
        CheckQuiet();
    job = nullptr;
    outcome_.n_with_failures = has_failures_;
    return outcome_;
}

Outcome RunRandom(uint64_t seed)
{
    return Job(seed).Run();
}

} // namespace planners
