// Whether hosts plan as they should, and ranks of all hosts take the same plans
// whatever fails, in very many random orders.
#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

extern "C" {
#include "agree/planner.h"
}

#include "agree/planners.h"

namespace
{

struct Reply {
    bool is_ok;
    uint64_t number;
    std::string value;
    const char *why;
};

Reply Done()
{
    return {true, 0, "", nullptr};
}

Reply Number(uint64_t number)
{
    return {true, number, "", nullptr};
}

Reply Value(const std::string &value)
{
    return {true, 0, value, nullptr};
}

Reply Lost(const char *why = "gone")
{
    return {false, 0, "", why};
}

// Of one word.
Reply Plan(uint64_t number, uint64_t first, uint32_t n = 1, size_t size = 0)
{
    stp_plan plan{};

    plan.number = number;
    plan.first = first;
    plan.margin = 1;
    plan.n = n;
    plan.words[0] = 7;
    return Value(std::string(reinterpret_cast<const char *>(&plan),
                             size == 0 ? sizeof(plan) : size));
}

// A host and its store, which answers as it is told.
class Host
{
  public:
    Host(bool leads, size_t n_own, size_t n_ranks)
        : memory_(stp_plan_board_bytes(n_own) / sizeof(uint64_t)), steps_(n_own)
    {
        for (uint32_t r = 0; r < n_own; r++)
            steps_[r].rank = r;
        host_.board = reinterpret_cast<stp_plan_board *>(memory_.data());
        host_.n_own = n_own;
        host_.n_ranks = n_ranks;
        host_.leads = leads;
        host_.acknowledges = true;
        host_.timeout_ms = 100;
        host_.margin_calls = 40;
        strcpy(host_.name, leads ? "host0" : "host1");
        stp_planner_begin(&planner_, &host_);
    }

    bool Propose(size_t n, unsigned epoch_calls)
    {
        std::vector<uint32_t> words(n);

        std::iota(words.begin(), words.end(), 7);
        return stp_planner_propose(&planner_, words.data(), n, epoch_calls);
    }

    // What it asks: of which plan and key, then text, number and time.
    std::string Ask(int64_t now_ms = 0)
    {
        static const char *const kAsks[] = {"nap",         "connect", "set",
                                            "add",         "get",     "check",
                                            "compare_set", "delete",  "end"};
        stp_plan_request request;

        stp_planner_ask(&planner_, now_ms, &request);
        std::string text = kAsks[request.ask];
        if (request.key != nullptr)
            text += " " + std::to_string(request.plan) + "/" + request.key;
        if (request.value == &planner_.plan) {
            EXPECT_EQ(sizeof(stp_plan), request.size);
        } else if (request.size > 0) {
            text += " " + std::string(static_cast<const char *>(request.value),
                                      request.size);
        }
        if (request.ask == STP_PLAN_ADD)
            text += " " + std::to_string(request.number);
        if (request.ask == STP_PLAN_GET)
            text += " " + std::to_string(request.wait_ms) + " ms";
        return text;
    }

    void Take(const Reply &from)
    {
        stp_plan_reply reply{};

        reply.is_ok = from.is_ok;
        reply.number = from.number;
        reply.value = from.value.data();
        reply.size = from.value.size();
        reply.why = from.why;
        stp_planner_take(&planner_, &reply);
    }

    // All ranks enter their next epochs, up to this one.
    void Enter(uint64_t epoch)
    {
        for (stp_plan_step &step : steps_)
            while (step.epoch < epoch) {
                stp_plan_begin_epoch(&step);
                while (stp_plan_access(&step, host_.board) == STP_PLAN_MORE)
                    ;
            }
    }

    void GiveUp()
    {
        stp_plan_lose(&steps_[0], host_.board);
    }

    // On the board; NONE: it is not there.
    enum stp_plan_state State(uint64_t number) const
    {
        const uint64_t state =
            host_.board->slots[number % STP_PLAN_SLOTS].state;

        return state >> 3 == number
                   ? static_cast<enum stp_plan_state>(state & 7)
                   : STP_PLAN_NONE;
    }

    const stp_planner &planner() const
    {
        return planner_;
    }

    stp_planner_host *host()
    {
        return &host_;
    }

    void Begin()
    {
        stp_planner_begin(&planner_, &host_);
    }

    void Hush()
    {
        stp_planner_hush(&planner_);
    }

  private:
    std::vector<uint64_t> memory_;
    std::vector<stp_plan_step> steps_;
    stp_planner_host host_{};
    stp_planner planner_{};
};

class Leader : public Host
{
  public:
    explicit Leader(size_t n_ranks) : Host(true, 1, n_ranks)
    {
    }
};

TEST(Planners, TakeNoReplyOnceTheyAreHushed)
{
    Leader leader(1);

    leader.Propose(1, 1);
    EXPECT_EQ("set 1/plan", leader.Ask());
    leader.Hush();
    leader.Take(Done());

    EXPECT_EQ("end", leader.Ask());
    EXPECT_STREQ("", leader.planner().why);
    EXPECT_TRUE(stp_planner_is_over(&leader.planner()));
}

TEST(Planners, AreSilentOfAFailureOnceTheyAreHushed)
{
    Leader leader(1);

    leader.Propose(1, 1);
    EXPECT_EQ("set 1/plan", leader.Ask());
    leader.Take(Lost());
    EXPECT_STREQ("gone", leader.planner().why);
    leader.Hush();

    EXPECT_STREQ("", leader.planner().why);
}

TEST(Planners, AreOverAtOnceWhereNotAllTakePart)
{
    Leader leader(2);

    leader.host()->acknowledges = false;
    leader.Begin();

    EXPECT_EQ("end", leader.Ask());
    EXPECT_STREQ("not all ranks of all hosts take part", leader.planner().why);
    EXPECT_TRUE(stp_planner_is_over(&leader.planner()));
    EXPECT_FALSE(leader.Propose(1, 1));
}

TEST(Planners, TakeOneProposalAtATimeOfAsManyWordsAsThereIsRoomFor)
{
    const struct {
        size_t n;
        bool is_taken;
    } cases[] = {{0, false},
                 {1, true},
                 {STP_PLAN_WORDS, true},
                 {STP_PLAN_WORDS + 1, false}};

    for (const auto &c : cases) {
        Leader leader(1);

        EXPECT_EQ(c.is_taken, leader.Propose(c.n, 1)) << c.n;
        EXPECT_EQ(c.is_taken ? "set 1/plan" : "nap", leader.Ask()) << c.n;
        if (c.is_taken) {
            EXPECT_EQ(c.n, leader.planner().plan.n);
            EXPECT_EQ(7, leader.planner().plan.words[0]);
            EXPECT_EQ(6 + c.n, leader.planner().plan.words[c.n - 1]);
            EXPECT_FALSE(leader.Propose(1, 1)) << "the last is pending";
        }
    }
}

// ---- word for word ----

struct Line {
    const char *ask; // or what the host's ranks do
    Reply reply;
};

struct Dialogue {
    const char *name;
    bool leads;
    std::vector<Line> lines; // of plan 1, which a leader has put to it
    std::string last;        // what is asked then
    enum stp_plan_state state;
    const char *why; // it is over
};

void PrintTo(const Dialogue &d, std::ostream *out)
{
    *out << d.name;
}

class Dialogues : public testing::TestWithParam<Dialogue>
{
};

// Two of four ranks are on this host; plan 1 begins in epoch 81.
TEST_P(Dialogues, AreAsTheyShouldBe)
{
    const Dialogue &d = GetParam();
    Host host(d.leads, 2, 4);

    if (d.leads) {
        EXPECT_TRUE(host.Propose(1, 1));
    }
    for (const Line &line : d.lines) {
        if (strcmp(line.ask, "ranks come near") == 0) {
            host.Enter(41);
        } else if (strcmp(line.ask, "ranks come to it") == 0) {
            host.Enter(81);
        } else if (strcmp(line.ask, "a rank gives up") == 0) {
            host.GiveUp();
        } else {
            EXPECT_EQ(line.ask, host.Ask());
            EXPECT_FALSE(stp_planner_is_over(&host.planner()));
            host.Take(line.reply);
        }
    }

    EXPECT_EQ(d.last, host.Ask());
    EXPECT_EQ(d.last == "end", stp_planner_is_over(&host.planner()));
    EXPECT_EQ(d.state, host.State(1));
    EXPECT_STREQ(d.why, host.planner().why);
}

#define LEADER_LOST "abort: host0 leads, and lost the store"
#define LEADER_ALONE                                                           \
    "abort: host0 leads, and not all hosts acknowledged in time"
#define LEADER_LATE  "abort: host0 leads, and acknowledgements came too late"
#define LEADER_AGAIN "abort: host0 lost the store, and asks again"
#define OTHER_LATE   "abort: host1 got the plan too late"
#define OTHER_LOST   "abort: host1 acknowledged, and lost the store"
#define OTHER_WAITED "abort: host1 acknowledged, and heard no verdict"
#define FORGOTTEN                                                              \
    "the store does not have the plan: it was restarted, or never got it"

const std::string kFits = "abort: " + std::string(119, 'x') + "z";

// clang-format off
const Dialogue kDialogues[] = {
    // ---- a leader ----
    {"all_acknowledge_before_it", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(4)},
      {"compare_set 1/verdict commit", Value("commit")}, {"set 1/known commit", Done()}},
     "nap", STP_PLAN_COMMITTED, ""},
    {"all_acknowledge_after_it", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(3)}, {"get 1/acked 100 ms", Value("all")},
      {"compare_set 1/verdict commit", Value("commit")}},
     "set 1/known commit", STP_PLAN_COMMITTED, ""},
    {"another_refuses", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(2)}, {"get 1/acked 100 ms", Value("abort")},
      {"compare_set 1/verdict " LEADER_ALONE, Value(OTHER_LATE)}, {"set 1/known " OTHER_LATE, Done()}},
     "nap", STP_PLAN_DROPPED, ""},
    {"acked_is_cut", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(2)}, {"get 1/acked 100 ms", Value("al")}},
     "compare_set 1/verdict " LEADER_ALONE, STP_PLAN_DROPPED, ""},
    {"acked_is_too_long", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(2)}, {"get 1/acked 100 ms", Value("all ")}},
     "compare_set 1/verdict " LEADER_ALONE, STP_PLAN_DROPPED, ""},
    {"acked_is_another_word", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(2)}, {"get 1/acked 100 ms", Value("alp")}},
     "compare_set 1/verdict " LEADER_ALONE, STP_PLAN_DROPPED, ""},
    {"acknowledgements_come_too_late", true,
     {{"set 1/plan", Done()}, {"ranks come near", {}}, {"add 1/acks 2", Number(4)},
      {"compare_set 1/verdict " LEADER_LATE, Value(LEADER_LATE)}, {"set 1/known " LEADER_LATE, Done()}},
     "nap", STP_PLAN_DROPPED, ""},
    {"it_drops_what_comes_too_late_at_once", true,
     {{"set 1/plan", Done()}, {"ranks come near", {}}, {"add 1/acks 2", Number(4)}},
     "compare_set 1/verdict " LEADER_LATE, STP_PLAN_DROPPED, ""},
    {"another_decided_while_it_asks", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(4)},
      {"compare_set 1/verdict commit", Value(OTHER_WAITED)}, {"set 1/known " OTHER_WAITED, Done()}},
     "nap", STP_PLAN_DROPPED, ""},
    {"it_loses_the_plan", true,
     {{"set 1/plan", Lost()}}, "end", STP_PLAN_DROPPED, "gone"},
    {"it_loses_the_plan_for_no_reason", true,
     {{"set 1/plan", Lost(nullptr)}}, "end", STP_PLAN_DROPPED, "no answer"},
    {"it_loses_its_acknowledgement", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Lost()}, {"connect", Lost("still gone")}},
     "end", STP_PLAN_DROPPED, "gone"},
    {"it_refuses_after_it_lost_its_acknowledgement", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Lost()}, {"connect", Done()}, {"check 1/plan", Number(1)},
      {"compare_set 1/verdict " LEADER_LOST, Value(LEADER_LOST)}, {"set 1/known " LEADER_LOST, Done()}},
     "nap", STP_PLAN_DROPPED, ""},
    {"it_hears_of_no_acknowledgement", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(2)}, {"get 1/acked 100 ms", Lost()},
      {"connect", Done()}, {"check 1/plan", Number(1)}},
     "compare_set 1/verdict " LEADER_ALONE, STP_PLAN_DROPPED, ""},
    {"it_finds_no_plan_that_it_dropped", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Lost()}, {"connect", Done()}, {"check 1/plan", Number(0)}},
     "end", STP_PLAN_DROPPED, FORGOTTEN},
    {"it_connects_until_a_rank_gives_up", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(4)}, {"compare_set 1/verdict commit", Lost()},
      {"connect", Lost()}, {"ranks come to it", {}}, {"connect", Lost()}, {"a rank gives up", {}},
      {"connect", Lost()}},
     "end", STP_PLAN_LOST, "gone"},
    {"it_asks_again_and_it_was_committed", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(4)}, {"compare_set 1/verdict commit", Lost()},
      {"connect", Lost()}, {"connect", Done()}, {"check 1/plan", Lost()}, {"connect", Done()},
      {"check 1/plan", Number(1)}, {"compare_set 1/verdict " LEADER_AGAIN, Value("commit")},
      {"set 1/known commit", Done()}},
     "nap", STP_PLAN_COMMITTED, ""},
    {"it_asks_again_and_it_was_not", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(4)}, {"compare_set 1/verdict commit", Lost()},
      {"connect", Done()}, {"check 1/plan", Number(1)}, {"compare_set 1/verdict " LEADER_AGAIN, Lost()},
      {"connect", Done()}, {"check 1/plan", Number(1)},
      {"compare_set 1/verdict " LEADER_AGAIN, Value(LEADER_AGAIN)}, {"set 1/known " LEADER_AGAIN, Done()}},
     "nap", STP_PLAN_DROPPED, ""},
    {"it_asked_a_store_that_forgot", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(4)}, {"compare_set 1/verdict commit", Lost()},
      {"connect", Done()}, {"check 1/plan", Number(0)}},
     "end", STP_PLAN_LOST, FORGOTTEN},
    {"its_ranks_gave_up_what_was_committed", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(4)}, {"compare_set 1/verdict commit", Lost()},
      {"ranks come to it", {}}, {"a rank gives up", {}}, {"connect", Done()}, {"check 1/plan", Number(1)},
      {"compare_set 1/verdict " LEADER_AGAIN, Value("commit")}},
     "end", STP_PLAN_LOST, "ranks of this host gave up waiting"},
    {"it_cannot_tell", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(4)}, {"compare_set 1/verdict commit", Value("commit")},
      {"set 1/known commit", Lost()}},
     "end", STP_PLAN_COMMITTED, "gone"},
    {"the_verdict_is_cut", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(4)}, {"compare_set 1/verdict commit", Value("commi")}},
     "set 1/known commi", STP_PLAN_DROPPED, ""},
    {"the_verdict_is_too_long", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(4)}, {"compare_set 1/verdict commit", Value("commit ")}},
     "set 1/known commit ", STP_PLAN_DROPPED, ""},
    {"the_verdict_just_fits", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(4)}, {"compare_set 1/verdict commit", Value(kFits)}},
     "set 1/known " + kFits, STP_PLAN_DROPPED, ""},
    {"the_verdict_has_a_byte_too_many", true,
     {{"set 1/plan", Done()}, {"add 1/acks 2", Number(4)}, {"compare_set 1/verdict commit", Value(kFits + "y")}},
     "set 1/known " + kFits, STP_PLAN_DROPPED, ""},
    // ---- another host ----
    {"it_is_the_last_to_acknowledge", false,
     {{"get 1/plan -1 ms", Plan(1, 81)}, {"add 1/acks 2", Number(4)}, {"set 1/acked all", Done()},
      {"get 1/known 100 ms", Value("commit")}},
     "get 2/plan -1 ms", STP_PLAN_COMMITTED, ""},
    {"it_is_not_the_last_to_acknowledge", false,
     {{"get 1/plan -1 ms", Plan(1, 81)}, {"add 1/acks 2", Number(3)},
      {"get 1/known 100 ms", Value(LEADER_LATE)}},
     "get 2/plan -1 ms", STP_PLAN_DROPPED, ""},
    {"its_ranks_wait_for_the_verdict", false,
     {{"get 1/plan -1 ms", Plan(1, 81)}, {"add 1/acks 2", Number(3)}, {"ranks come to it", {}}},
     "get 1/known 100 ms", STP_PLAN_ACKNOWLEDGED, ""},
    {"its_ranks_gave_up", false,
     {{"get 1/plan -1 ms", Plan(1, 81)}, {"add 1/acks 2", Number(3)}, {"ranks come to it", {}},
      {"a rank gives up", {}}, {"get 1/known 100 ms", Value("commit")}},
     "end", STP_PLAN_LOST, "ranks of this host gave up waiting"},
    {"its_ranks_gave_up_what_is_dropped", false,
     {{"get 1/plan -1 ms", Plan(1, 81)}, {"add 1/acks 2", Number(3)}, {"ranks come to it", {}},
      {"a rank gives up", {}}, {"get 1/known 100 ms", Value(LEADER_LATE)}},
     "get 2/plan -1 ms", STP_PLAN_LOST, ""},
    {"it_hears_of_no_plan", false,
     {{"get 1/plan -1 ms", Lost()}}, "end", STP_PLAN_NONE, "gone"},
    {"the_plan_is_cut", false,
     {{"get 1/plan -1 ms", Plan(1, 81, 1, sizeof(stp_plan) - 1)}},
     "end", STP_PLAN_NONE, "the store holds a plan of another size"},
    {"the_plan_is_another", false,
     {{"get 1/plan -1 ms", Plan(2, 81)}}, "end", STP_PLAN_NONE, "the store holds a plan that is none"},
    {"the_plan_is_empty", false,
     {{"get 1/plan -1 ms", Plan(1, 81, 0)}}, "end", STP_PLAN_NONE, "the store holds a plan that is none"},
    {"the_plan_is_full", false,
     {{"get 1/plan -1 ms", Plan(1, 81, STP_PLAN_WORDS)}}, "add 1/acks 2", STP_PLAN_ACKNOWLEDGED, ""},
    {"the_plan_is_too_long", false,
     {{"get 1/plan -1 ms", Plan(1, 81, STP_PLAN_WORDS + 1)}},
     "end", STP_PLAN_NONE, "the store holds a plan that is none"},
    {"it_gets_the_plan_too_late", false,
     {{"ranks come to it", {}}, {"get 1/plan -1 ms", Plan(1, 81)},
      {"compare_set 1/verdict " OTHER_LATE, Value(OTHER_LATE)}, {"set 1/acked abort", Done()},
      {"set 1/known " OTHER_LATE, Done()}},
     "get 2/plan -1 ms", STP_PLAN_DROPPED, ""},
    {"it_cannot_refuse", false,
     {{"ranks come to it", {}}, {"get 1/plan -1 ms", Plan(1, 81)},
      {"compare_set 1/verdict " OTHER_LATE, Lost()}, {"connect", Lost("still gone")}},
     "end", STP_PLAN_DROPPED, "gone"},
    {"it_refuses_on_another_connection", false,
     {{"ranks come to it", {}}, {"get 1/plan -1 ms", Plan(1, 81)},
      {"compare_set 1/verdict " OTHER_LATE, Lost()}, {"connect", Done()}, {"check 1/plan", Number(1)},
      {"compare_set 1/verdict " OTHER_LATE, Value(LEADER_LATE)}},
     "set 1/acked abort", STP_PLAN_DROPPED, ""},
    {"it_cannot_tell_the_leader", false,
     {{"ranks come to it", {}}, {"get 1/plan -1 ms", Plan(1, 81)},
      {"compare_set 1/verdict " OTHER_LATE, Value(OTHER_LATE)}, {"set 1/acked abort", Lost()}},
     "end", STP_PLAN_DROPPED, "gone"},
    {"it_cannot_tell_the_others", false,
     {{"ranks come to it", {}}, {"get 1/plan -1 ms", Plan(1, 81)},
      {"compare_set 1/verdict " OTHER_LATE, Value(OTHER_LATE)}, {"set 1/acked abort", Done()},
      {"set 1/known " OTHER_LATE, Lost()}},
     "end", STP_PLAN_DROPPED, "gone"},
    {"another_loses_its_acknowledgement", false,
     {{"get 1/plan -1 ms", Plan(1, 81)}, {"add 1/acks 2", Lost()}, {"connect", Done()},
      {"check 1/plan", Number(1)}},
     "compare_set 1/verdict " OTHER_LOST, STP_PLAN_ACKNOWLEDGED, ""},
    {"it_loses_that_all_acknowledged", false,
     {{"get 1/plan -1 ms", Plan(1, 81)}, {"add 1/acks 2", Number(4)}, {"set 1/acked all", Lost()},
      {"connect", Done()}, {"check 1/plan", Number(1)}},
     "compare_set 1/verdict " OTHER_LOST, STP_PLAN_ACKNOWLEDGED, ""},
    {"it_hears_no_verdict_and_it_is_committed", false,
     {{"get 1/plan -1 ms", Plan(1, 81)}, {"add 1/acks 2", Number(3)}, {"get 1/known 100 ms", Lost()},
      {"connect", Done()}, {"check 1/plan", Number(1)},
      {"compare_set 1/verdict " OTHER_WAITED, Value("commit")}, {"set 1/known commit", Done()}},
     "get 2/plan -1 ms", STP_PLAN_COMMITTED, ""},
    {"it_hears_no_verdict_and_refuses", false,
     {{"get 1/plan -1 ms", Plan(1, 81)}, {"add 1/acks 2", Number(3)}, {"get 1/known 100 ms", Lost()},
      {"connect", Done()}, {"check 1/plan", Number(1)},
      {"compare_set 1/verdict " OTHER_WAITED, Value(OTHER_WAITED)}, {"set 1/acked abort", Done()},
      {"set 1/known " OTHER_WAITED, Done()}},
     "get 2/plan -1 ms", STP_PLAN_DROPPED, ""},
    {"it_acknowledged_at_a_store_that_forgot", false,
     {{"get 1/plan -1 ms", Plan(1, 81)}, {"add 1/acks 2", Number(3)}, {"get 1/known 100 ms", Lost()},
      {"connect", Done()}, {"check 1/plan", Number(0)}},
     "end", STP_PLAN_LOST, FORGOTTEN},
    {"it_connects_while_nobody_gives_up", false,
     {{"get 1/plan -1 ms", Plan(1, 81)}, {"add 1/acks 2", Lost()}, {"connect", Lost()},
      {"connect", Lost()}, {"connect", Lost()}},
     "connect", STP_PLAN_ACKNOWLEDGED, ""},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Planners, Dialogues, testing::ValuesIn(kDialogues),
                         [](const auto &row) { return row.param.name; });

// ---- several plans ----

// Commits the leader's next plan, of one rank alone, whose first epoch is
// returned.
uint64_t Commit(Host *leader)
{
    EXPECT_TRUE(leader->Propose(1, 1));
    leader->Ask();
    const std::string plan = std::to_string(leader->planner().plan.number);
    leader->Take(Done());
    EXPECT_EQ("add " + plan + "/acks 1", leader->Ask());
    leader->Take(Number(leader->host()->n_ranks));
    EXPECT_EQ("compare_set " + plan + "/verdict commit", leader->Ask());
    leader->Take(Value("commit"));
    EXPECT_EQ("set " + plan + "/known commit", leader->Ask());
    leader->Take(Done());
    return leader->planner().plan.first;
}

// As Commit(), but another host refuses.
uint64_t Drop(Host *leader)
{
    EXPECT_TRUE(leader->Propose(1, 1));
    leader->Ask();
    const std::string plan = std::to_string(leader->planner().plan.number);
    leader->Take(Done());
    EXPECT_EQ("add " + plan + "/acks 1", leader->Ask());
    leader->Take(Number(1));
    EXPECT_EQ("get " + plan + "/acked 100 ms", leader->Ask());
    leader->Take(Value("abort"));
    EXPECT_EQ("compare_set " + plan + "/verdict " LEADER_ALONE, leader->Ask());
    leader->Take(Value(OTHER_LATE));
    EXPECT_EQ("set " + plan + "/known " OTHER_LATE, leader->Ask());
    leader->Take(Done());
    return leader->planner().plan.first;
}

void ExpectCleaned(Host *leader, uint64_t number)
{
    for (const char *key : {"plan", "acks", "acked", "verdict", "known"}) {
        EXPECT_EQ("delete " + std::to_string(number) + "/" + key,
                  leader->Ask());
        leader->Take(Done());
    }
}

TEST(Planners, BeginAPlanAfterTheLastOneEnds)
{
    Leader leader(1);

    leader.Propose(5, 1);
    EXPECT_EQ("set 1/plan", leader.Ask());
    EXPECT_EQ(81U, leader.planner().plan.first);
    leader.Take(Done());
    EXPECT_EQ("add 1/acks 1", leader.Ask());
    leader.Take(Number(1));
    EXPECT_EQ("compare_set 1/verdict commit", leader.Ask());
    leader.Take(Value("commit"));
    EXPECT_EQ("set 1/known commit", leader.Ask());
    leader.Take(Done());
    leader.Propose(1, 40);

    EXPECT_EQ("set 2/plan", leader.Ask());
    EXPECT_EQ(1U, leader.planner().plan.margin);
    EXPECT_EQ(86U, leader.planner().plan.first);
}

TEST(Planners, BeginAPlanTwiceAsFarAheadAfterOneThatWasDropped)
{
    Leader leader(2);

    uint64_t epoch = 0;

    for (uint64_t margins : {2, 4, 8, 16, 32, 64, 64}) {
        EXPECT_EQ(epoch + margins * 40 + 1, Drop(&leader));
        EXPECT_TRUE(leader.planner().was_dropped);
        leader.Enter(++epoch);
    }
}

TEST(Planners, BeginAPlanAsFarAheadAsTheLastThatWasCommitted)
{
    Leader leader(2);

    EXPECT_EQ(81U, Drop(&leader));
    EXPECT_EQ(161U, Commit(&leader));
    ExpectCleaned(&leader, 1);
    EXPECT_FALSE(leader.planner().was_dropped);
    leader.Enter(1000);
    EXPECT_EQ(1161U, Commit(&leader));
}

TEST(Planners, AwaitThatTheirRanksPassTheLastPlanButOne)
{
    Leader leader(2);

    Commit(&leader);
    Commit(&leader);
    ExpectCleaned(&leader, 1);
    leader.Propose(1, 1);
    EXPECT_EQ("nap", leader.Ask());
    leader.Take(Done());
    leader.Enter(80);
    EXPECT_EQ("nap", leader.Ask());
    leader.Take(Done());
    leader.Enter(81);

    EXPECT_EQ("set 3/plan", leader.Ask());
}

TEST(Planners, AwaitRoomForThePlanOfAnother)
{
    Host host(false, 1, 2);

    for (uint64_t number : {1, 2}) {
        host.Ask();
        host.Take(Plan(number, 80 + number));
        host.Ask();
        host.Take(Number(1));
        host.Ask();
        host.Take(Value("commit"));
    }
    EXPECT_EQ("get 3/plan -1 ms", host.Ask());
    host.Take(Plan(3, 200));
    EXPECT_EQ("nap", host.Ask());
    host.Take(Done());
    host.Enter(81);

    EXPECT_EQ("add 3/acks 1", host.Ask());
}

TEST(Planners, DeleteKeysOnceALaterPlanIsCommitted)
{
    Leader leader(2);

    Commit(&leader);
    leader.Enter(100);
    EXPECT_EQ("nap", leader.Ask());
    Drop(&leader);
    leader.Enter(101);
    EXPECT_EQ("nap", leader.Ask());
    Commit(&leader);
    ExpectCleaned(&leader, 1);
    ExpectCleaned(&leader, 2);

    EXPECT_EQ("nap", leader.Ask());
    EXPECT_EQ(2U, leader.planner().n_plans[STP_PLAN_COMMITTED]);
    EXPECT_EQ(1U, leader.planner().n_plans[STP_PLAN_DROPPED]);
}

TEST(Planners, AreOverIfTheyCannotDeleteKeys)
{
    Leader leader(2);

    Commit(&leader);
    Commit(&leader);
    EXPECT_EQ("delete 1/plan", leader.Ask());
    leader.Take(Lost());

    EXPECT_EQ("end", leader.Ask());
    EXPECT_STREQ("gone", leader.planner().why);
}

TEST(Planners, ProposeNoMoreAfterEightPlansInARowThatWereDropped)
{
    Leader leader(2);
    uint64_t epoch = 0;

    for (int i = 0; i < 7; i++) {
        Drop(&leader);
        leader.Enter(++epoch);
    }
    Commit(&leader);
    for (uint64_t number = 1; number < 8; number++)
        ExpectCleaned(&leader, number);
    leader.Enter(10000);
    epoch = 10000;
    for (int i = 0; i < 8; i++) {
        EXPECT_EQ("nap", leader.Ask());
        Drop(&leader);
        leader.Enter(++epoch);
    }

    EXPECT_EQ("end", leader.Ask());
    EXPECT_STREQ(OTHER_LATE, leader.planner().why);
    EXPECT_FALSE(leader.Propose(1, 1));
}

// What was in doubt, or on the board, is of the last plan alone.
TEST(Planners, AreNotInDoubtOfThePlanAfterOneThatWas)
{
    Host host(false, 1, 2);

    host.Ask();
    host.Take(Plan(1, 81));
    EXPECT_EQ("add 1/acks 1", host.Ask());
    host.Take(Number(1));
    EXPECT_EQ("get 1/known 100 ms", host.Ask());
    host.Take(Value("commit"));
    host.Enter(100);
    EXPECT_EQ("get 2/plan -1 ms", host.Ask());
    host.Take(Plan(2, 100));
    EXPECT_EQ("compare_set 2/verdict " OTHER_LATE, host.Ask());
    host.Take(Lost());
    EXPECT_EQ("connect", host.Ask());
    host.Take(Lost());

    EXPECT_EQ("end", host.Ask());
}

TEST(Planners, TakeWhatWasCommittedBeforeTheyAskedForAnAbort)
{
    Host host(false, 1, 2);

    host.Ask();
    host.Take(Plan(1, 81));
    EXPECT_EQ("add 1/acks 1", host.Ask());
    host.Take(Number(1));
    EXPECT_EQ("get 1/known 100 ms", host.Ask());
    host.Take(Lost());
    EXPECT_EQ("connect", host.Ask());
    host.Take(Done());
    EXPECT_EQ("check 1/plan", host.Ask());
    host.Take(Number(1));
    EXPECT_EQ("compare_set 1/verdict " OTHER_WAITED, host.Ask());
    host.Take(Value("commit"));

    EXPECT_EQ(STP_PLAN_COMMITTED, host.State(1));
    EXPECT_FALSE(stp_planner_is_over(&host.planner()));
}

// ---- how far ahead ----

TEST(Planners, LeaveTimeByTheHighestRateOfEpochs)
{
    const struct {
        int64_t now_ms;
        uint64_t epoch;
        uint32_t margin; // of a plan that is proposed now
    } looks[] = {
        {100, 1000, 1},  // nothing is known yet, but 40 calls
        {299, 1300, 1},  // too soon to tell
        {300, 1400, 20}, // two epochs a millisecond, and ten milliseconds
        {499, 9000, 20}, {500, 9400, 400}, {1500, 9500, 400}, // slower now
    };

    for (size_t n = 1; n <= std::size(looks); n++) {
        Leader leader(1);
        leader.host()->margin_ms = 10;
        for (size_t i = 0; i < n; i++) {
            leader.Enter(looks[i].epoch);
            if (i == n - 1)
                leader.Propose(1, 40);
            leader.Ask(looks[i].now_ms);
        }

        EXPECT_EQ(looks[n - 1].margin, leader.planner().plan.margin) << n;
        EXPECT_EQ(looks[n - 1].epoch + 2 * looks[n - 1].margin + 1,
                  leader.planner().plan.first)
            << n;
    }
}

TEST(Planners, LeaveABillionEpochsAtMost)
{
    for (const auto &[margin_ms, margin] :
         {std::pair{400000000U, 800000000U}, {500000001U, 1000000000U}}) {
        Leader leader(1);
        leader.host()->margin_ms = margin_ms;
        leader.Ask(100);
        leader.Enter(400);
        leader.Propose(1, 40);
        EXPECT_EQ("set 1/plan", leader.Ask(300));

        EXPECT_EQ(margin, leader.planner().plan.margin);
        EXPECT_EQ(400 + 2 * uint64_t{margin} + 1, leader.planner().plan.first);
    }
}

TEST(Planners, LeaveCallsInWholeEpochs)
{
    const struct {
        unsigned calls, epoch_calls;
        uint32_t margin;
    } cases[] = {{40, 1, 40}, {40, 39, 2}, {40, 40, 1}, {40, 41, 1},
                 {0, 7, 0},   {1, 7, 1},   {7, 3, 3}};

    for (const auto &c : cases) {
        Leader leader(1);
        leader.host()->margin_calls = c.calls;
        leader.Propose(1, c.epoch_calls);
        EXPECT_EQ("set 1/plan", leader.Ask());
        EXPECT_EQ(c.margin, leader.planner().plan.margin) << c.epoch_calls;
        EXPECT_EQ(2 * c.margin + 1, leader.planner().plan.first);
    }
}

TEST(Planners, RefuseAPlanThatTheirRanksMayHavePassed)
{
    const struct {
        uint64_t first; // the rank is in epoch 3, and one is the margin
        const char *ask;
    } cases[] = {{4, "compare_set 1/verdict " OTHER_LATE}, {5, "add 1/acks 1"}};

    for (const auto &c : cases) {
        Host host(false, 1, 2);

        host.Enter(3);
        EXPECT_EQ("get 1/plan -1 ms", host.Ask());
        host.Take(Plan(1, c.first));

        EXPECT_EQ(c.ask, host.Ask());
    }
}

TEST(Planners, AgreeInAHundredThousandRandomOrders)
{
    planners::Outcome sum{};

    for (uint64_t seed = 0; seed < 100000; seed++) {
        sum.Add(planners::RunRandom(seed));
        ASSERT_EQ("", sum.fault) << "seed " << seed;
    }

    // They are worth running.
    EXPECT_GT(sum.n_committed, 50000U);
    EXPECT_GT(sum.n_published - sum.n_committed, 50000U);
    EXPECT_GT(sum.n_failed, 1000U);
    EXPECT_LT(sum.n_late, 500U);
}

} // namespace
