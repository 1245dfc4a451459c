// What the plugins open, and what they never wait for.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/temporary_folder.h"

extern "C" {
#include "plugin/file.h"
}

namespace
{

using testing::HasSubstr;

class PluginFile : public testing::Test
{
  protected:
    std::string Path(const char *name) const
    {
        return folder_.Path(name);
    }

    std::string Fifo() const
    {
        EXPECT_EQ(0, mkfifo(Path("fifo").c_str(), 0600));
        return Path("fifo");
    }

    std::string Socket() const
    {
        sockaddr_un address{};
        const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        address.sun_family = AF_UNIX;
        snprintf(address.sun_path, sizeof(address.sun_path), "%s",
                 Path("socket").c_str());
        EXPECT_EQ(0, bind(fd, reinterpret_cast<sockaddr *>(&address),
                          sizeof(address)));
        close(fd);
        return Path("socket");
    }

    std::string Link(const std::string &to) const
    {
        EXPECT_EQ(0, symlink(to.c_str(), Path("link").c_str()));
        return Path("link");
    }

    TemporaryFolder folder_;
    const std::string &dir_ = folder_.path();
};

TEST_F(PluginFile, IsRegularOrRefused)
{
    constexpr char kIrregular[] =
        "it is a FIFO, a socket or a device, expected a regular file";
    const std::string fifo = Fifo();
    const struct {
        std::string path;
        const char *why;
    } cases[] = {{fifo, kIrregular},
                 {Link(fifo), kIrregular},
                 {Socket(), kIrregular},
                 {"/dev/zero", kIrregular},
                 {"/dev/tty", kIrregular},
                 {dir_, "Is a directory"},
                 {Path("gone"), "No such file or directory"}};

    for (const auto &c : cases)
        for (int flags : {O_RDONLY, O_WRONLY | O_APPEND}) {
            errno = 0;
            EXPECT_EQ(-1, stp_file_open(c.path.c_str(), flags)) << c.path;
            EXPECT_STREQ(c.why, stp_file_strerror(errno)) << c.path;
        }
}

TEST_F(PluginFile, AFifoWithSomebodyAtItsOtherEndIsRefusedAlike)
{
    const std::string fifo = Fifo();
    const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
    const int writer = open(fifo.c_str(), O_WRONLY | O_NONBLOCK);

    for (int flags : {O_RDONLY, O_WRONLY | O_APPEND | O_CREAT})
        EXPECT_EQ(-1, stp_file_open(fifo.c_str(), flags));
    close(reader);
    close(writer);
}

TEST_F(PluginFile, NothingGoesToOrComesFromTheNullDevice)
{
    const int fd = stp_file_open("/dev/null", O_RDWR);
    char byte;

    ASSERT_LE(0, fd);
    EXPECT_EQ(1, write(fd, "x", 1));
    EXPECT_EQ(0, read(fd, &byte, 1));
    close(fd);
}

TEST_F(PluginFile, IsNotInheritedByProgramsThatTheJobStarts)
{
    std::string name = Path("new.XXXXXX");
    const int made = stp_file_create(name.data());
    const int opened = stp_file_open(name.c_str(), O_RDONLY);

    for (int fd : {made, opened}) {
        ASSERT_LE(0, fd);
        EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
        close(fd);
    }
}

TEST_F(PluginFile, PoliciesAndConstantsSayWhyTheyAreNotRead)
{
    const std::string fifo = Fifo();
    stp_policy *policy = nullptr;
    stp_constants constants;
    stp_error err{};

    EXPECT_EQ(STP_ERR_IO, stp_file_load_policy(fifo.c_str(), &policy, &err));
    EXPECT_STREQ("cannot be opened: it is a FIFO, a socket or a device, "
                 "expected a regular file",
                 err.text);
    EXPECT_EQ(STP_ERR_IO, stp_file_load_policy(dir_.c_str(), &policy, &err));
    EXPECT_STREQ("is a directory", err.text);
    std::ofstream(Path("long")) << std::string(STP_MAX_CONSTANTS_FILE + 1, '#');
    EXPECT_EQ(STP_ERR_LIMIT,
              stp_file_load_constants(Path("long").c_str(), &constants, &err));
    EXPECT_STREQ("is larger than 1048576 bytes, the most that is read",
                 err.text);
}

// A file of /proc has no size, and one read gives a page of it at most.
TEST_F(PluginFile, OfUnknownSizeIsReadToItsEnd)
{
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t n_pages = 400; // every other one readable: a line each
    char *text = nullptr;
    size_t len = 0;
    stp_error err{};
    auto *lines = static_cast<char *>(mmap(nullptr, n_pages * page, PROT_NONE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(MAP_FAILED, lines);
    for (size_t i = 0; i < n_pages; i += 2)
        mprotect(lines + i * page, page, PROT_READ);

    ASSERT_EQ(STP_OK,
              stp_file_read("/proc/self/maps", 1 << 20, &text, &len, &err))
        << err.text;

    EXPECT_LT(4 * 4096u, len);
    EXPECT_THAT(text, HasSubstr("[stack]")); // one of the last lines
    free(text);
    munmap(lines, n_pages * page);
}

struct Refused {
    const char *name;
    int flags;
    const char *why; // nullptr: it is opened
};

// The rule itself is tested in trust_test; here, that files, links and folders
// are the ones that it is asked about.
TEST_F(PluginFile, OfAnotherUserIsOpenedWhereOnlyItsOwnerMayLayIt)
{
    constexpr char kStrangers[] =
        "another user owns it, in a folder that all users may write, expected "
        "a file of this user or of root";
    constexpr char kLink[] =
        "it is a symbolic link that another user may have made in a folder "
        "that all users may write, expected a regular file";
    constexpr char kAllWrite[] =
        "all users may write it, expected a file that they may not (chmod o-w)";
    constexpr int kAppend = O_WRONLY | O_APPEND | O_CREAT;
    const Refused cases[] = {
        {"closed/theirs", O_RDONLY, nullptr},
        {"closed/theirs", kAppend, nullptr},
        {"tmp/theirs", O_RDONLY, nullptr},
        {"tmp/theirs", kAppend, kStrangers},
        {"open/theirs", O_RDONLY, kStrangers},
        {"open/ours", O_RDONLY, nullptr},
        {"closed/to_theirs_in_open", O_RDONLY, kStrangers},
        {"closed/to_theirs_in_open", kAppend, kStrangers},
        {"tmp/our_link", O_RDONLY, nullptr},
        {"tmp/our_link", kAppend, nullptr},
        {"tmp/their_link", O_RDONLY, kLink},
        {"tmp/their_link", kAppend, kLink},
        {"tmp/their_link_to_nothing", kAppend, kLink},
        {"closed/their_link", O_RDONLY, nullptr},
        {"closed/written_by_all", O_RDONLY, kAllWrite},
        {"closed/written_by_all", kAppend, kAllWrite},
    };
    constexpr uid_t kOther = 12345;
    if (geteuid() != 0)
        GTEST_SKIP() << "only root can give a file away";
    const struct {
        const char *name;
        mode_t mode;
    } folders[] = {{"closed", 0755}, {"tmp", 01777}, {"open", 0777}};
    for (const auto &f : folders) {
        const std::string folder = Path(f.name);
        ASSERT_EQ(0, mkdir(folder.c_str(), 0700));
        ASSERT_EQ(0, chmod(folder.c_str(), f.mode));
        for (const char *name : {"/theirs", "/ours", "/written_by_all"})
            std::ofstream(folder + name) << "text";
        ASSERT_EQ(0, chown((folder + "/theirs").c_str(), kOther, kOther));
        ASSERT_EQ(0, chmod((folder + "/written_by_all").c_str(), 0666));
        ASSERT_EQ(0, symlink("ours", (folder + "/our_link").c_str()));
        ASSERT_EQ(0, symlink("ours", (folder + "/their_link").c_str()));
        ASSERT_EQ(0,
                  symlink("no", (folder + "/their_link_to_nothing").c_str()));
        for (const char *name : {"/their_link", "/their_link_to_nothing"})
            ASSERT_EQ(0, lchown((folder + name).c_str(), kOther, kOther));
    }
    ASSERT_EQ(
        0, symlink("../open/theirs", Path("closed/to_theirs_in_open").c_str()));

    for (const Refused &c : cases) {
        const int fd = stp_file_open(Path(c.name).c_str(), c.flags);
        const int error = errno;

        EXPECT_EQ(c.why == nullptr, fd >= 0) << c.name << " " << c.flags;
        if (c.why != nullptr) {
            EXPECT_STREQ(c.why, stp_file_strerror(error)) << c.name;
        }
        close(fd);
    }
    EXPECT_FALSE(std::filesystem::exists(Path("tmp/no")));
}

// As nccl_tuner.conf of a job that runs in /tmp.
TEST_F(PluginFile, WithABareNameIsNotAnotherUsersWhereAllMayWrite)
{
    const std::filesystem::path before = std::filesystem::current_path();
    if (geteuid() != 0)
        GTEST_SKIP() << "only root can give a file away";
    std::ofstream(Path("nccl_tuner.conf")) << "";
    ASSERT_EQ(0, chown(Path("nccl_tuner.conf").c_str(), 12345, 12345));
    ASSERT_EQ(0, chmod(dir_.c_str(), 01777));
    std::filesystem::current_path(dir_);

    ASSERT_EQ(0, symlink("/dev/null", "their_link"));
    ASSERT_EQ(0, lchown("their_link", 12345, 12345));

    const int bare = stp_file_open("nccl_tuner.conf", O_RDONLY);
    const int named = stp_file_open("./nccl_tuner.conf", O_RDONLY);
    const int link = stp_file_open("their_link", O_RDONLY);

    std::filesystem::current_path(before);
    EXPECT_EQ(-1, bare);
    EXPECT_LE(0, named);
    EXPECT_EQ(-1, link);
    close(named);
}

// flock() tells open files of one process apart, too.
TEST_F(PluginFile, ALockThatIsKeptIsGivenUpAndThenTriedOnce)
{
    const int keeper = open(dir_.c_str(), O_RDONLY);
    const int fd = open(dir_.c_str(), O_RDONLY);
    bool is_kept = false;

    ASSERT_EQ(0, flock(keeper, LOCK_EX));
    for (int i = 0; i < 1000; i++) { // which would take minutes, waiting
        EXPECT_FALSE(stp_file_lock(fd, &is_kept));
        EXPECT_TRUE(is_kept);
    }
    ASSERT_EQ(0, flock(keeper, LOCK_UN));
    EXPECT_TRUE(stp_file_lock(fd, &is_kept));
    EXPECT_FALSE(is_kept);
    close(fd);
    close(keeper);
}

TEST_F(PluginFile, WithoutLocksThereIsNothingToWaitFor)
{
    bool is_kept = false;

    EXPECT_TRUE(stp_file_lock(-1, &is_kept)); // as flock() fails there
    EXPECT_FALSE(is_kept);
}

} // namespace
