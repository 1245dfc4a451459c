// The application's locale and signals, within the plugin and after it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include "support/comma_locale.h"
#include "support/slow.h"
#include "support/temporary_folder.h"

extern "C" {
#include "core/names.h"
#include "plugin/entry.h"
}

#include "nccl_tuner_abi.h"

namespace
{

std::string Half()
{
    char text[16];
    snprintf(text, sizeof(text), "%g", 0.5);
    return text;
}

class EntryLocale : public testing::Test
{
  protected:
    TemporaryFolder folder_;
    const std::string &dir_ = folder_.path();
};

TEST_F(EntryLocale, NumbersHaveAPointWithinAndACommaAfter)
{
    STP_SLOW();
    CommaLocale comma(dir_);
    stp_entry outer, inner;
    SKIP_WITHOUT_COMMA(comma);

    EXPECT_EQ("0,5", Half());
    stp_entry_begin(&outer);
    EXPECT_EQ("0.5", Half());
    stp_entry_begin(&inner);
    EXPECT_EQ("0.5", Half());
    stp_entry_end(&inner);
    EXPECT_EQ("0.5", Half());
    EXPECT_EQ(0.25, strtod("0.25", nullptr));
    stp_entry_end(&outer);
    EXPECT_EQ("0,5", Half());
}

// Where I is no capital of i: NCCL's profiler names algorithms so.
TEST_F(EntryLocale, WordsAreTheSameInTurkish)
{
    STP_SLOW();
    CommaLocale comma(dir_, "tr_TR");
    SKIP_WITHOUT_COMMA(comma);

    EXPECT_EQ(NCCL_ALGO_RING, stp_from_any_case("RING", 4, stp_algo_from_name));
}

// Fills the stack, so that zeros found there help no test.
[[gnu::noinline]] void FillStack()
{
    volatile char filled[4096];
    for (volatile char &byte : filled)
        byte = '\xff';
}

TEST(Entry, LeavesSignalsAloneWhereFilesMayBeOfAnySize)
{
    struct rlimit before;
    stp_entry entry;
    sigset_t within;
    ASSERT_EQ(0, getrlimit(RLIMIT_FSIZE, &before));
    if (before.rlim_max != RLIM_INFINITY)
        GTEST_SKIP() << "the size of files is limited here";
    const struct rlimit any = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &any);

    stp_entry_begin(&entry);
    pthread_sigmask(SIG_BLOCK, nullptr, &within);
    stp_entry_end(&entry);

    EXPECT_FALSE(entry.is_limited);
    EXPECT_EQ(0, sigismember(&within, SIGXFSZ));
    setrlimit(RLIMIT_FSIZE, &before);
}

volatile sig_atomic_t n_raised;

// Files may have no bytes at all; SIGXFSZ is counted.
class NoFileSize : public testing::Test
{
  protected:
    NoFileSize()
    {
        struct sigaction action {
        };
        struct rlimit none;

        n_raised = 0;
        action.sa_handler = [](int) { n_raised = n_raised + 1; };
        sigaction(SIGXFSZ, &action, &old_action_);
        getrlimit(RLIMIT_FSIZE, &old_limit_);
        none = {0, old_limit_.rlim_max};
        setrlimit(RLIMIT_FSIZE, &none);
        fd_ = fileno(file_);
    }
    ~NoFileSize() override
    {
        setrlimit(RLIMIT_FSIZE, &old_limit_);
        sigaction(SIGXFSZ, &old_action_, nullptr);
        fclose(file_);
    }

    int fd_;

  private:
    FILE *file_ = tmpfile();
    struct sigaction old_action_;
    struct rlimit old_limit_;
};

TEST_F(NoFileSize, AWriteWithinFailsAndRaisesNothing)
{
    stp_entry entry;

    for (int i = 0; i < 2; i++) {
        stp_entry_begin(&entry);
        for (int n = 0; n < 3; n++) {
            EXPECT_EQ(-1, write(fd_, "x", 1));
            EXPECT_EQ(EFBIG, errno);
            EXPECT_EQ(EFBIG, posix_fallocate(fd_, 0, 1));
        }
        stp_entry_end(&entry);
        EXPECT_EQ(0, n_raised);
    }
}

TEST_F(NoFileSize, TheSignalMaskIsTheApplicationsAfterwards)
{
    for (int how : {SIG_BLOCK, SIG_UNBLOCK}) {
        sigset_t signals, before, within, after;
        stp_entry entry;
        sigemptyset(&signals);
        sigaddset(&signals, SIGXFSZ);
        sigaddset(&signals, SIGUSR1);
        pthread_sigmask(how, &signals, &before);

        FillStack();
        stp_entry_begin(&entry);
        pthread_sigmask(SIG_BLOCK, nullptr, &within);
        stp_entry_end(&entry);
        pthread_sigmask(SIG_SETMASK, &before, &after);

        for (int signal = 1; signal < 32; signal++)
            EXPECT_EQ(signal == SIGXFSZ || sigismember(&before, signal) == 1 ||
                          (how == SIG_BLOCK && signal == SIGUSR1),
                      sigismember(&within, signal) == 1)
                << signal;
        for (int signal : {SIGXFSZ, SIGUSR1})
            EXPECT_EQ(how == SIG_BLOCK, sigismember(&after, signal) == 1);
    }
}

TEST_F(NoFileSize, TheApplicationsOwnSignalIsItsOwn)
{
    stp_entry entry;
    sigset_t blocked, before;

    stp_entry_begin(&entry);
    stp_entry_end(&entry);
    EXPECT_EQ(-1, write(fd_, "x", 1));
    EXPECT_EQ(1, n_raised);

    sigemptyset(&blocked);
    sigaddset(&blocked, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    EXPECT_EQ(-1, write(fd_, "x", 1)); // pending from here on
    stp_entry_begin(&entry);
    EXPECT_EQ(-1, write(fd_, "x", 1));
    stp_entry_end(&entry);
    EXPECT_EQ(1, n_raised);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    EXPECT_EQ(2, n_raised);
}

} // namespace
