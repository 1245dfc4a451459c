// Tests of the files that plugins open, and of waits that they avoid.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "plugin/online/closed_stdin.h"
#include "support/temporary_folder.h"

extern "C" {
#include "plugin/file.h"
}

// ---- calls of file.c that go otherwise ----

namespace
{

struct Calls {
    int n_statx, bad_statx; // the call that fails, counted from 1; 0: none
    int n_locks, n_kept;    // so many tries to lock find the lock kept
    int kept_error = EWOULDBLOCK;
    int64_t slept_ns; // nobody does sleep
    // Results of the next calls: at most so many bytes, or -errno.
    std::deque<ssize_t> reads, writes;
    int n_reads;
    bool is_made_up; // what is read: of the letters in 'reads', endless
};
Calls calls;

std::string Letters(size_t n)
{
    std::string letters(n, '\0');
    for (size_t i = 0; i < n; i++)
        letters[i] = static_cast<char>('a' + i % 26);
    return letters;
}

// The number of bytes, as large as 'size'; negative if it fails.
ssize_t Take(std::deque<ssize_t> &results, size_t size)
{
    if (results.empty())
        return static_cast<ssize_t>(size);
    const ssize_t n = results.front();
    results.pop_front();
    if (n < 0)
        errno = static_cast<int>(-n);
    return std::min(n, static_cast<ssize_t>(size));
}

} // namespace

extern "C" {
int __real_statx(int folder, const char *path, int flags, unsigned mask,
                 struct statx *st);
int __real_flock(int fd, int operation);
ssize_t __real_read(int fd, void *to, size_t size);
ssize_t __real_write(int fd, const void *from, size_t size);

// Tells what it is asked for and no more.
int __wrap_statx(int folder, const char *path, int flags, unsigned mask,
                 struct statx *st)
{
    struct statx all;

    if (++calls.n_statx == calls.bad_statx) {
        errno = EIO;
        return -1;
    }
    if (__real_statx(folder, path, flags, mask, &all) != 0)
        return -1;
    *st = all;
    if ((mask & STATX_TYPE) == 0)
        st->stx_mode &= ~S_IFMT;
    if ((mask & STATX_MODE) == 0)
        st->stx_mode &= S_IFMT;
    if ((mask & STATX_UID) == 0)
        st->stx_uid = 0;
    if ((mask & STATX_SIZE) == 0)
        st->stx_size = 0;
    return 0;
}

int __wrap_flock(int fd, int operation)
{
    calls.n_locks += operation != LOCK_UN;
    if (operation == LOCK_UN || calls.n_kept == 0)
        return __real_flock(fd, operation);
    calls.n_kept--;
    errno = calls.kept_error;
    return -1;
}

int __wrap_nanosleep(const timespec *time, timespec *)
{
    calls.slept_ns += time->tv_sec * 1000000000 + time->tv_nsec;
    return 0;
}

ssize_t __wrap_read(int fd, void *to, size_t size)
{
    const ssize_t n = Take(calls.reads, size);
    static size_t at;

    at = calls.n_reads++ == 0 ? 0 : at;
    if (n <= 0 || !calls.is_made_up)
        return n <= 0 ? n : __real_read(fd, to, static_cast<size_t>(n));
    memcpy(to, Letters(at + n).data() + at, n);
    at += n;
    return n;
}

ssize_t __wrap_write(int fd, const void *from, size_t size)
{
    const ssize_t n = Take(calls.writes, size);

    return n <= 0 ? n : __real_write(fd, from, static_cast<size_t>(n));
}
}

namespace
{

using testing::HasSubstr;

// No test leaves a file open.
class PluginFile : public testing::Test
{
  protected:
    PluginFile()
    {
        calls = Calls{};
    }
    ~PluginFile() override
    {
        EXPECT_EQ(first_free_, FirstFree());
    }

    static int FirstFree()
    {
        const int fd = open("/dev/null", O_RDONLY);
        close(fd);
        return fd;
    }

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

    const int first_free_ = FirstFree();
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

TEST_F(PluginFile, AFifosOtherEndDoesNotNotice)
{
    const std::string fifo = Fifo();
    const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
    pollfd polled{reader, POLLIN, 0};

    EXPECT_EQ(-1, stp_file_open(fifo.c_str(), O_WRONLY | O_APPEND | O_CREAT));
    EXPECT_EQ(0, poll(&polled, 1, 0)) << "a writer came and went";
    const int writer = open(fifo.c_str(), O_WRONLY | O_NONBLOCK);
    for (int flags : {O_RDONLY, O_WRONLY | O_APPEND | O_CREAT})
        EXPECT_EQ(-1, stp_file_open(fifo.c_str(), flags));
    close(reader);
    close(writer);
}

TEST_F(PluginFile, MayHaveTheFirstDescriptor)
{
    char *text = nullptr;
    size_t len = 0;
    std::ofstream(Path("file")) << "text";
    const ClosedStdin closed;

    errno = ELOOP; // of another call
    EXPECT_EQ(STDIN_FILENO, stp_file_open(Path("file").c_str(), O_RDONLY));
    close(STDIN_FILENO);
    errno = EISDIR;
    EXPECT_EQ(STP_OK,
              stp_file_read(Path("file").c_str(), 4, &text, &len, nullptr));
    EXPECT_STREQ("text", text);
    EXPECT_TRUE(closed.IsFree());
    free(text);
}

TEST_F(PluginFile, ThatIsMadeIsWrittenByItsOwnerAndReadByAll)
{
    const std::string linked = Path("linked");
    const std::string link = Link(linked);
    const mode_t before = umask(0);

    for (const std::string &path : {Path("new"), link}) {
        const int fd = stp_file_open(path.c_str(), O_WRONLY | O_CREAT);
        struct stat st {
        };
        EXPECT_LE(0, fd);
        EXPECT_EQ(0, stat(path.c_str(), &st)) << path;
        EXPECT_EQ(0644u, st.st_mode & 07777) << path;
        close(fd);
    }
    EXPECT_TRUE(std::filesystem::exists(linked));
    umask(before);
}

TEST_F(PluginFile, IsNoLinkWhereTheCallerWantsNone)
{
    std::ofstream(Path("file")) << "text";
    EXPECT_EQ(-1,
              stp_file_open(Link(Path("file")).c_str(), O_RDONLY | O_NOFOLLOW));
    EXPECT_EQ(ELOOP, errno);
}

TEST_F(PluginFile, ThatThisUserMayNotOpenSaysSo)
{
    const uid_t user = geteuid();
    const std::string file = Path("file");
    std::ofstream(file) << "text";
    ASSERT_EQ(0, mkdir(Path("closed").c_str(), 0700));
    std::ofstream(Path("closed/file")) << "text";
    const std::string paths[] = {file, Link(file), Path("closed/file")};
    ASSERT_EQ(0, chmod(file.c_str(), 0));
    ASSERT_EQ(0, chmod(Path("closed").c_str(), 0));
    ASSERT_EQ(0, chmod(dir_.c_str(), 0755));
    if (user == 0) { // who may open everything
        ASSERT_EQ(0, seteuid(12345));
    }

    for (const std::string &path : paths)
        for (int flags : {O_RDONLY, O_WRONLY | O_APPEND}) {
            EXPECT_EQ(-1, stp_file_open(path.c_str(), flags)) << path;
            EXPECT_STREQ("Permission denied", stp_file_strerror(errno)) << path;
        }

    ASSERT_EQ(0, seteuid(user));
    ASSERT_EQ(0, chmod(Path("closed").c_str(), 0700));
}

TEST_F(PluginFile, ThatCannotBeLookedAtIsNotUsed)
{
    std::ofstream(Path("file")) << "text";
    for (int flags : {O_RDONLY, O_WRONLY | O_APPEND}) {
        calls = Calls{};
        calls.bad_statx = flags == O_RDONLY ? 1 : 2; // of the open file
        EXPECT_EQ(-1, stp_file_open(Path("file").c_str(), flags));
        EXPECT_STREQ("Input/output error", stp_file_strerror(errno));
    }
    if (geteuid() != 0)
        GTEST_SKIP() << "only root can give a file away";
    ASSERT_EQ(0, chown(Path("file").c_str(), 12345, 12345));
    calls = Calls{};
    calls.bad_statx = 2; // of its folder
    EXPECT_EQ(-1, stp_file_open(Path("file").c_str(), O_RDONLY));
    EXPECT_THAT(stp_file_strerror(errno),
                HasSubstr("in a folder that all users may write"));
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

TEST_F(PluginFile, PoliciesSayWhyTheyAreNotRead)
{
    const std::string fifo = Fifo();
    stp_policy *policy = nullptr;
    stp_error err{};

    EXPECT_EQ(STP_ERR_IO, stp_file_load_policy(STP_POLICY_OF_ARMS, fifo.c_str(),
                                               &policy, &err));
    EXPECT_STREQ("cannot be opened: it is a FIFO, a socket or a device, "
                 "expected a regular file",
                 err.text);
    EXPECT_EQ(STP_ERR_IO, stp_file_load_policy(STP_POLICY_OF_ARMS, dir_.c_str(),
                                               &policy, &err));
    EXPECT_STREQ("is a directory", err.text);
    std::ofstream(Path("bad")) << "nonsense\n";
    for (const auto kind :
         {STP_POLICY_OF_ARMS, STP_POLICY_OF_MEMORY, STP_POLICY_OF_STAGE})
        EXPECT_EQ(
            STP_ERR_SYNTAX,
            stp_file_load_policy(kind, Path("bad").c_str(), &policy, &err));
    EXPECT_EQ(nullptr, policy);
}

// ---- reading ----

TEST_F(PluginFile, IsParsedAsWhatItIs)
{
    stp_policy *policy = nullptr;
    stp_error err{};
    std::ofstream(Path("policy")) << "allreduce,0,inf,tree,ll,-1,-1,-1\n"
                                     "allreduce,0,inf,ring,ll,-1,-1,-1\n";
    std::ofstream(Path("memory")) << "collective,memory\nreduce,sym\n";

    ASSERT_EQ(STP_OK,
              stp_file_load_policy(STP_POLICY_OF_ARMS, Path("policy").c_str(),
                                   &policy, &err))
        << err.text;
    EXPECT_EQ(2u, stp_policy_size(policy));
    stp_policy_free(policy);
    ASSERT_EQ(STP_OK,
              stp_file_load_policy(STP_POLICY_OF_MEMORY, Path("memory").c_str(),
                                   &policy, &err))
        << err.text;
    EXPECT_EQ(1u, stp_policy_size(policy));
    stp_policy_free(policy);
}

// clang-format off
// A file of 'size' letters, or, of 0, one whose size nobody knows.
const struct {
    const char *name;
    size_t size;
    std::deque<ssize_t> reads;
    size_t max;
    stp_status status;
    size_t len;      // of letters that are read
    const char *why; // of a failure
    int n_reads;
} kReads[] = {
    {"whole", 5, {}, 5, STP_OK, 5, "", 1},
    {"one byte", 1, {}, 1, STP_OK, 1, "", 1},
    {"in pieces", 5, {1, -EINTR, 2}, 9, STP_OK, 5, "", 4},
    {"interrupted at first", 5, {-EINTR}, 5, STP_OK, 5, "", 2},
    {"became shorter", 5, {3, 0}, 5, STP_OK, 3, "", 2},
    {"too large", 5, {}, 4, STP_ERR_LIMIT, 0, "is larger than 4 bytes, the most that is read", 0},
    {"not even one byte", 1, {}, 0, STP_ERR_LIMIT, 0, "is larger than 0 bytes, the most that is read", 0},
    {"fails", 5, {-EIO}, 5, STP_ERR_IO, 0, "cannot be read: Input/output error", 1},
    {"fails later", 5, {4, -EISDIR}, 5, STP_ERR_IO, 0, "cannot be read: Is a directory", 2},
    {"empty", 0, {0}, 20, STP_OK, 0, "", 1},
    {"empty and nothing is read", 0, {0}, 0, STP_OK, 0, "", 1},
    {"of unknown size", 0, {10, 7, 0}, 20, STP_OK, 17, "", 3},
    {"as large as it may be", 0, {10, 10, 0}, 20, STP_OK, 20, "", 3},
    {"larger than it may be", 0, {10, 10, 1, 0}, 20, STP_ERR_LIMIT, 0, "is larger than 20 bytes, the most that is read", 3},
    {"of unknown size fails", 0, {10, -EIO}, 20, STP_ERR_IO, 0, "cannot be read: Input/output error", 2},
};
// clang-format on

TEST_F(PluginFile, IsReadToItsEndButNoFurtherThanItsLimit)
{
    for (const auto &c : kReads) {
        SCOPED_TRACE(c.name);
        char *text = nullptr;
        size_t len = 99;
        stp_error err{};
        std::ofstream(Path("file")) << Letters(c.size);
        calls = Calls{};
        calls.reads = c.reads;
        calls.is_made_up = c.size == 0;

        EXPECT_EQ(c.status, stp_file_read(Path("file").c_str(), c.max, &text,
                                          &len, &err));

        EXPECT_EQ(c.n_reads, calls.n_reads);
        EXPECT_STREQ(c.why, err.text);
        if (c.status == STP_OK) {
            EXPECT_EQ(c.len, len);
            EXPECT_STREQ(Letters(c.len).c_str(), text);
        }
        free(text);
    }
}

TEST_F(PluginFile, OfUnknownSizeMayBeLong)
{
    char *text = nullptr;
    size_t len = 0;
    std::ofstream(Path("file")) << "";
    calls.is_made_up = true;
    calls.reads = {50000, 50000, 50000, 50000, 50000, 0};

    EXPECT_EQ(STP_OK, stp_file_read(Path("file").c_str(), 1 << 20, &text, &len,
                                    nullptr));

    EXPECT_LT(150000u, len);
    EXPECT_EQ(Letters(len), text);
    free(text);
}

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
    const struct {
        const char *name;
        int flags;
        const char *why; // nullptr: it is opened
    } cases[] = {
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
        {"tmp/their_link_to_what_all_write", O_RDONLY, kLink},
        {"tmp/their_link_to_what_all_write", kAppend, kAllWrite},
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
        ASSERT_EQ(0,
                  symlink("written_by_all",
                          (folder + "/their_link_to_what_all_write").c_str()));
        for (const char *name : {"/their_link", "/their_link_to_nothing",
                                 "/their_link_to_what_all_write"})
            ASSERT_EQ(0, lchown((folder + name).c_str(), kOther, kOther));
    }
    ASSERT_EQ(
        0, symlink("../open/theirs", Path("closed/to_theirs_in_open").c_str()));

    for (const auto &c : cases) {
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

TEST_F(PluginFile, ALockIsAwaitedForHalfASecondAndThenTriedOnce)
{
    const struct {
        const char *name;
        bool is_kept;
        int n_kept; // tries
        int error;
        bool is_locked;
        int n_tries, n_ms;
    } cases[] = {
        {"free", false, 0, 0, true, 1, 0},
        {"kept for a while", false, 3, EWOULDBLOCK, true, 4, 3},
        {"interrupted", false, 3, EINTR, true, 4, 3},
        {"kept until the last try", false, 499, EWOULDBLOCK, true, 500, 499},
        {"kept", false, 1000, EWOULDBLOCK, false, 500, 499},
        {"still kept", true, 1000, EWOULDBLOCK, false, 1, 0},
        {"free at last", true, 0, 0, true, 1, 0},
        {"no locks here", false, 1000, ENOLCK, true, 1, 0},
        {"no locks any more", true, 1000, ENOLCK, true, 1, 0},
    };
    const int fd = open(dir_.c_str(), O_RDONLY);

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        bool is_kept = c.is_kept;
        calls = Calls{};
        calls.n_kept = c.n_kept;
        calls.kept_error = c.error;

        EXPECT_EQ(c.is_locked, stp_file_lock(fd, &is_kept));

        EXPECT_EQ(!c.is_locked, is_kept);
        EXPECT_EQ(c.n_tries, calls.n_locks);
        EXPECT_EQ(c.n_ms * 1000000, calls.slept_ns);
        flock(fd, LOCK_UN);
    }
    close(fd);
}

// ---- appending ----

TEST_F(PluginFile, IsAppendedToUntilThatFails)
{
    const struct {
        const char *name;
        std::deque<ssize_t> writes;
        const char *text;
        int error_before;
        const char *want;
        int error;
    } cases[] = {
        {"at once", {}, "abc", 0, "abc", 0},
        {"one byte", {}, "a", 0, "a", 0},
        {"nothing", {-EIO}, "", 0, "", 0},
        {"in pieces", {1, -EINTR, 2, 1}, "abcdef", 0, "abcdef", 0},
        {"interrupted at first", {-EINTR}, "abc", 0, "abc", 0},
        {"of which one writes nothing", {1, 0}, "abc", 0, "abc", 0},
        {"to a full disk", {2, -ENOSPC}, "abc", 0, "ab", ENOSPC},
        {"to a device that fails", {-EIO}, "abc", 0, "", EIO},
        {"after a failure", {}, "abc", ENOSPC, "", ENOSPC},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        const int fd =
            open(Path("log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        int error = c.error_before;
        calls = Calls{};
        calls.writes = c.writes;
        errno = EAGAIN; // of another call

        stp_file_append(fd, c.text, strlen(c.text), &error);

        close(fd);
        EXPECT_EQ(c.want, ReadFile(Path("log")));
        EXPECT_EQ(c.error, error);
    }
}

TEST_F(PluginFile, BeginsWithItsHeadWhoeverHoldsTheLock)
{
    const struct {
        const char *name;
        const char *before;
        bool is_locked; // by somebody else
        int error;
        const char *after;
    } cases[] = {
        {"empty", "", false, 0, "head\n"},
        {"one byte", "x", false, 0, "x"},
        {"begun", "head\n1\n", false, 0, "head\n1\n"},
        {"on a full disk", "", false, ENOSPC, ""},
        {"locked", "", true, 0, "head\n"},
        {"begun and locked", "head\n1\n", true, 0, "head\n1\n"},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        std::ofstream(Path("log")) << c.before;
        const int keeper = open(Path("log").c_str(), O_RDONLY);
        const int fd = stp_file_open(Path("log").c_str(), O_WRONLY | O_APPEND);
        int error = c.error;
        bool is_kept = false;
        if (c.is_locked) {
            ASSERT_EQ(0, flock(keeper, LOCK_EX));
        }

        stp_file_write_head(fd, "head\n", &is_kept, &error);

        EXPECT_EQ(c.is_locked, is_kept);
        EXPECT_EQ(c.error, error);
        EXPECT_EQ(c.after, ReadFile(Path("log")));
        EXPECT_EQ(0, flock(keeper, LOCK_EX | LOCK_NB)) << "is locked";
        close(fd);
        close(keeper);
    }
}

} // namespace
