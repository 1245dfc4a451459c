// The file of a ledger: whose it is, and when it is mapped.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "plugin/online/closed_stdin.h"
#include "support/temporary_folder.h"

extern "C" {
#include "plugin/ledger_file.h"
#include "plugin/settings.h"
}

namespace
{

namespace fs = std::filesystem;

class LedgerFile : public testing::Test
{
  protected:
    TemporaryFolder folder_;
    const fs::path dir_ = folder_.path();
    stp_ledger *ledger_ = nullptr;
    stp_error err_{};
};

TEST_F(LedgerFile, IsItsOwnersAloneAndEmpty)
{
    stp_ledger *ledger = nullptr;
    ASSERT_EQ(STP_OK, stp_ledger_open(dir_.c_str(), &ledger, &err_))
        << err_.text;

    const fs::path file = fs::directory_iterator(dir_)->path();
    struct stat st;
    ASSERT_EQ(0, stat(file.c_str(), &st));
    EXPECT_EQ(0600u, st.st_mode & 0777);
    EXPECT_EQ(sizeof(stp_ledger), static_cast<size_t>(st.st_size));
    const auto *bytes = reinterpret_cast<const char *>(ledger);
    EXPECT_EQ(sizeof(stp_ledger), static_cast<size_t>(std::count(
                                      bytes, bytes + sizeof(*ledger), 0)));
    stp_ledger_close(ledger);
}

TEST_F(LedgerFile, IsMappedNoMoreOnceItIsClosed)
{
    stp_ledger *ledger = nullptr;
    ASSERT_EQ(STP_OK, stp_ledger_open(dir_.c_str(), &ledger, &err_));
    unsigned char pages[sizeof(*ledger) / 4096 + 1];
    ASSERT_EQ(0, mincore(ledger, sizeof(*ledger), pages));

    stp_ledger_close(ledger);

    EXPECT_EQ(-1, mincore(ledger, sizeof(*ledger), pages));
    EXPECT_EQ(ENOMEM, errno);
    stp_ledger_close(nullptr);
}

TEST_F(LedgerFile, CannotBeInAFolderThatIsNotThere)
{
    const std::string none = dir_ / "none";

    EXPECT_EQ(STP_ERR_IO, stp_ledger_open(none.c_str(), &ledger_, &err_));
    EXPECT_EQ("cannot make a file in '" + none + "': No such file or directory",
              err_.text);
    EXPECT_EQ(nullptr, ledger_);
}

TEST_F(LedgerFile, IsNotLeftWhereThereIsNoRoomForIt)
{
    struct rlimit before;
    ASSERT_EQ(0, getrlimit(RLIMIT_FSIZE, &before));
    const struct rlimit little = {sizeof(stp_ledger) - 1, before.rlim_max};
    const auto handler = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &little);

    EXPECT_EQ(STP_ERR_IO, stp_ledger_open(dir_.c_str(), &ledger_, &err_));

    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    EXPECT_EQ("cannot make room for a file in '" + dir_.string() +
                  "': File too large",
              err_.text);
    EXPECT_EQ(nullptr, ledger_);
    EXPECT_TRUE(fs::is_empty(dir_));
}

TEST_F(LedgerFile, HasAPathOfLimitedLength)
{
    const size_t longest = STP_PATH_SIZE - 1 - strlen("/ledger.XXXXXX");
    const std::string dir =
        std::string(longest - dir_.string().size(), '/') + dir_.string();

    EXPECT_EQ(STP_OK, stp_ledger_open(dir.c_str(), &ledger_, &err_))
        << err_.text;
    stp_ledger_close(ledger_);
    EXPECT_EQ(STP_ERR_IO,
              stp_ledger_open(("/" + dir).c_str(), &ledger_, &err_));
    EXPECT_EQ("the path '" + std::string(60, '/') + "...' is too long",
              err_.text);
}

TEST_F(LedgerFile, IsMadeWhereThereIsNoStandardInput)
{
    const ClosedStdin closed;

    EXPECT_EQ(STP_OK, stp_ledger_open(dir_.c_str(), &ledger_, &err_))
        << err_.text;

    EXPECT_TRUE(closed.IsFree()) << "the file stays open";
    stp_ledger_close(ledger_);
}

} // namespace
