// The contract suite as a library.
#include <dirent.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

extern "C" {
#include "analyse/contract/contract.h"
}

#include "support/owned.h"

namespace
{

using testing::Contains;
using testing::HasSubstr;
using testing::StrEq;

class ContractSuite : public testing::Test
{
  protected:
    std::string plugin_ = STP_TEST_PLUGINS "/libnccl-tuner-planted_clean.so";
    stp_contract_options options_{.plugin = plugin_.c_str(),
                                  .machine_path =
                                      STP_FIXTURES "/machines/h200x4",
                                  .nccl = nullptr,
                                  .over = nullptr,
                                  .policy = nullptr,
                                  .n_ranks = 0,
                                  .n_seeds = 2,
                                  .seed = 1,
                                  .only = nullptr,
                                  .time_limit_s = 600,
                                  .tell = nullptr,
                                  .tell_s = 0};
    Owned<stp_contract, stp_contract_free> contract_;
    stp_error err_{};
};

// And leaves no child, and the signals as they were.
TEST_F(ContractSuite, RunsEveryCheckUnderItsOwnName)
{
    std::set<std::string> names;
    sigset_t before, after;
    std::memset(&before, 0, sizeof(before)); // the kernel's part is smaller
    std::memset(&after, 0, sizeof(after));
    sigprocmask(SIG_SETMASK, nullptr, &before);

    ASSERT_EQ(STP_OK, stp_contract_run(&options_, &contract_, &err_))
        << err_.text;

    sigprocmask(SIG_SETMASK, nullptr, &after);
    EXPECT_EQ(0, std::memcmp(&before, &after, sizeof(before)));
    EXPECT_EQ(-1, waitpid(-1, nullptr, WNOHANG));
    EXPECT_EQ(ECHILD, errno);
    for (size_t i = 0; i < contract_.n_checks; i++) {
        const stp_contract_check &check = contract_.checks[i];
        EXPECT_TRUE(names.insert(check.name).second) << check.name;
        EXPECT_STRNE("", check.meaning) << check.name;
        EXPECT_EQ(nullptr, std::strchr(check.text, '\n')) << check.name;
    }
    EXPECT_EQ(0u, stp_contract_count(&contract_, STP_CONTRACT_FAIL));
    EXPECT_EQ(2u, stp_contract_count(&contract_, STP_CONTRACT_SKIP));
    EXPECT_EQ(contract_.n_checks - 2,
              stp_contract_count(&contract_, STP_CONTRACT_OK));
    EXPECT_THAT(contract_.name, StrEq("clean"));
    EXPECT_THAT(contract_.nccl, StrEq("2.28.9"));
    EXPECT_THAT(contract_.machine, StrEq("h200x4"));
}

// A tuner that hangs keeps its user waiting, who is told at what.
TEST_F(ContractSuite, TellsOfTheChecksThatRun)
{
    static std::set<std::string> told;
    options_.tell = [](const char *check, double s) {
        EXPECT_LE(0, s);
        told.insert(check);
    };
    for (const char *only : {"never negative", "ranks agree"}) {
        SCOPED_TRACE(only);
        options_.only = only;
        told.clear();

        ASSERT_EQ(STP_OK, stp_contract_run(&options_, &contract_, &err_));

        const bool has_calls = std::strcmp(only, "never negative") == 0;
        EXPECT_THAT(told, Contains("loads"));
        EXPECT_THAT(told, Contains(has_calls ? "calls of all sizes" : only));
        stp_contract_free(&contract_);
    }
    options_.tell_s = 1e6; // not yet
    told.clear();
    ASSERT_EQ(STP_OK, stp_contract_run(&options_, &contract_, &err_));
    EXPECT_THAT(told, testing::IsEmpty());
}

TEST_F(ContractSuite, RefusesAMachineThatCannotBeRead)
{
    options_.machine_path = "/nonexistent";

    EXPECT_EQ(STP_ERR_DEVICE, stp_contract_run(&options_, &contract_, &err_));

    EXPECT_THAT(err_.text, StrEq("/nonexistent: no such machine folder"));
    EXPECT_EQ(nullptr, contract_.checks);
}

TEST_F(ContractSuite, RefusesAFolderThatCannotBeWritten)
{
    setenv("TMPDIR", "/nonexistent", 1);

    EXPECT_EQ(STP_ERR_IO, stp_contract_run(&options_, &contract_, &err_));

    unsetenv("TMPDIR");
    EXPECT_THAT(err_.text, HasSubstr("cannot make /nonexistent/steptune-"));
}

} // namespace
