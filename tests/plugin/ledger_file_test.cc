// The file of a ledger: whose it is, and when it is mapped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "support/temporary_folder.h"

extern "C" {
#include "plugin/ledger_file.h"
}

namespace
{

namespace fs = std::filesystem;

class LedgerFile : public testing::Test
{
  protected:
    TemporaryFolder folder_;
    const fs::path dir_ = folder_.path();
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
    stp_ledger *ledger = nullptr;

    EXPECT_EQ(STP_ERR_IO,
              stp_ledger_open((dir_ / "none").c_str(), &ledger, &err_));
    EXPECT_THAT(err_.text, testing::HasSubstr("none"));
    EXPECT_EQ(nullptr, ledger);
}

} // namespace
