// Targets for the files that jobs leave behind: journals, ledgers, rewards.
#include "fuzz/fuzz.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" {
#include "core/learn/reward_log.h"
#include "report/learning/learning.h"
#include "report/learning/ledgers.h"
}

namespace fuzz
{

namespace
{

// A stream whose text is thrown away.
struct Printed {
    char *text = nullptr;
    size_t len = 0;
    FILE *fp = open_memstream(&text, &len);

    ~Printed()
    {
        fclose(fp);
        free(text);
    }
};

} // namespace

std::string Journal(std::string_view bytes)
{
    const stp_learning_setting setting = {"halving", "gpu", nullptr, nullptr};
    stp_journal_lines lines{};
    stp_learning learning{};
    stp_error err{};
    Printed printed;

    if (stp_journal_read(bytes.data(), bytes.size(), 0, &lines, &err) != STP_OK)
        return FaultOf(err);
    stp_learning_sum(&lines, &learning);
    stp_print_learning(&learning, &setting, printed.fp);
    stp_learning_free(&learning);
    stp_journal_free(&lines);
    return "";
}

// The bytes lie at the begin of a ledger, but for what says that it is one.
std::string Ledger(std::string_view bytes)
{
    static stp_ledger ledger;
    const std::string folder = Folder() + "/ledgers";
    stp_ledgers ledgers{};
    stp_error err{};
    Printed printed;

    memset(&ledger, 0, sizeof(ledger));
    memcpy(&ledger, bytes.data(), std::min(bytes.size(), sizeof(ledger)));
    memcpy(ledger.magic, STP_LEDGER_MAGIC, sizeof(ledger.magic));
    ledger.size = sizeof(ledger);
    WriteFile("ledgers/1.ledger",
              {reinterpret_cast<const char *>(&ledger), sizeof(ledger)});
    if (stp_ledgers_load(folder.c_str(), &ledgers, &err) != STP_OK)
        return FaultOf(err);
    for (bool is_json : {false, true})
        stp_print_ledgers(&ledgers, nullptr, nullptr, nullptr, nullptr, is_json,
                          printed.fp);
    stp_ledgers_free(&ledgers);
    return "";
}

// A stage policy, a line "--" and the report of a process.
std::string StageReport(std::string_view bytes)
{
    const size_t at = std::min(bytes.find("--\n"), bytes.size());
    const std::string rules = WriteFile("rules.stage", bytes.substr(0, at));
    const std::string folder = Folder() + "/staged";
    stp_staged staged{};
    stp_error err{};
    Printed printed;
    std::string fault;

    WriteFile("staged/1.csv", bytes.substr(std::min(at + 3, bytes.size())));
    if (stp_staged_load(folder.c_str(), rules.c_str(), &staged, &err) != STP_OK)
        return FaultOf(err);
    stp_print_staged(&staged, nullptr, printed.fp);
    for (size_t i = 0; i < staged.n; i++)
        if (staged.calls[i].gain[0] > staged.calls[i].gain[1])
            fault = "the least gain is above the greatest";
    free(staged.calls);
    return fault;
}

namespace
{

void AddReward(void *user, const stp_reward *reward)
{
    static_cast<std::vector<double> *>(user)->push_back(reward->latency_ms);
}

} // namespace

// Whole, and in pieces.
std::string Rewards(std::string_view bytes)
{
    stp_reward_log whole{}, pieces{};
    std::vector<double> of_whole, of_pieces;
    size_t at = 0;

    stp_reward_log_feed(&whole, bytes.data(), bytes.size(), AddReward,
                        &of_whole);
    for (size_t n = 1; at < bytes.size(); at += n, n = n * 2 % 61) {
        n = std::min(n, bytes.size() - at);
        const std::vector<char> piece(bytes.begin() + at,
                                      bytes.begin() + at + n);
        stp_reward_log_feed(&pieces, piece.data(), n, AddReward, &of_pieces);
    }
    return of_whole == of_pieces && whole.n_bad == pieces.n_bad &&
                   strcmp(whole.first_bad, pieces.first_bad) == 0
               ? ""
               : "pieces say something else";
}

} // namespace fuzz
