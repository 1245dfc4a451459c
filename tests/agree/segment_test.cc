// Tests of the shared memory of dead jobs, of other users' files, and of a full
// /dev/shm.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <set>

extern "C" {
#include "agree/segment.h"
}

#include "faults/open_files.h"
#include "support/processes.h"
#include "support/temporary_folder.h"

// ---- calls of segment.c that fail, each time from now on; 0: none ----

namespace
{
int statx_error, lock_error, room_error, map_error;
std::string nameless; // a file that loses its name while it is looked at

// Other tests that run at the same time may hold a lock for a moment.
bool sleeps_take_time = true;
int64_t slept_ns;
std::function<void()> at_nap;

// Other tests remove a dead job's file, too.
std::vector<std::string> unlinked;

thread_local std::set<const pthread_mutex_t *> locked;

bool Fails(int error)
{
    errno = error;
    return error != 0;
}
} // namespace

extern "C" {
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_statx(int folder, const char *path, int flags, unsigned mask,
                 struct statx *st);
int __real_fcntl(int fd, int command, void *argument);
int __real_posix_fallocate(int fd, off_t at, off_t size);
void *__real_mmap(void *at, size_t size, int protection, int flags, int fd,
                  off_t offset);
int __real_nanosleep(const struct timespec *pause, struct timespec *left);
int __real_unlink(const char *path);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    const int error = __real_pthread_mutex_lock(mutex);

    locked.insert(mutex);
    return error;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    const bool was_locked = locked.erase(mutex) == 1;
    const int error = __real_pthread_mutex_unlock(mutex);

    EXPECT_TRUE(was_locked) << "a thread unlocks what it has not locked";
    return error;
}

int __wrap_unlink(const char *path)
{
    unlinked.emplace_back(path);
    return __real_unlink(path);
}

int __wrap_statx(int folder, const char *path, int flags, unsigned mask,
                 struct statx *st)
{
    char name[128] = "";
    const std::string link = "/proc/self/fd/" + std::to_string(folder);

    if (Fails(statx_error) || __real_statx(folder, path, flags, mask, st) != 0)
        return -1;
    if (!nameless.empty() &&
        readlink(link.c_str(), name, sizeof(name) - 1) > 0 && nameless == name)
        st->stx_nlink = 0;
    return 0;
}

int __wrap_nanosleep(const struct timespec *pause, struct timespec *left)
{
    slept_ns += pause->tv_sec * INT64_C(1000000000) + pause->tv_nsec;
    if (at_nap)
        at_nap();
    return sleeps_take_time ? __real_nanosleep(pause, left) : 0;
}

int __wrap_fcntl(int fd, int command, void *argument)
{
    return Fails(lock_error) ? -1 : __real_fcntl(fd, command, argument);
}

int __wrap_posix_fallocate(int fd, off_t at, off_t size)
{
    return room_error != 0 ? room_error : __real_posix_fallocate(fd, at, size);
}

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd,
                  off_t offset)
{
    return Fails(map_error)
               ? MAP_FAILED
               : __real_mmap(at, size, protection, flags, fd, offset);
}
}

namespace
{

using processes::Gate;
using processes::Process;
using testing::Contains;
using testing::Not;

class Segment : public testing::Test
{
  protected:
    void TearDown() override
    {
        EXPECT_EQ(n_files_, CountOpenFiles()) << "a file is left open";
        EXPECT_FALSE(IsMapped());
        at_nap = nullptr;
        sleeps_take_time = true;
    }

    // Whether this process has a segment of the test's in its memory.
    bool IsMapped() const
    {
        const std::string name =
            Path(id_, 0).substr(0, Path(id_, 0).size() - 3);
        return ReadFile("/proc/self/maps").find(name) != std::string::npos;
    }

    static std::string Path(uint64_t id, size_t n_ranks)
    {
        char name[96];
        snprintf(name, sizeof(name), "/dev/shm/steptune-%u-%016llx-%zu-6",
                 static_cast<unsigned>(geteuid()),
                 static_cast<unsigned long long>(id), n_ranks);
        return name;
    }

    static bool Exists(const std::string &path)
    {
        struct stat st;
        return lstat(path.c_str(), &st) == 0;
    }

    stp_segment *Join(uint64_t id, size_t n_ranks, size_t n_bytes = kBytes)
    {
        const stp_segment_key key = {id, n_ranks, n_bytes};
        stp_segment *segment = nullptr;
        status_ = stp_segment_join(&key, &segment, &index_, &err_);
        if (status_ == STP_OK)
            stp_segment_enter(segment);
        return segment;
    }

    // Which must say 'text'.
    void CannotJoin(const std::string &text)
    {
        EXPECT_EQ(nullptr, Join(id_, 2));
        EXPECT_EQ(STP_ERR_IO, status_);
        EXPECT_EQ(text, err_.text);
    }

    // Under this name once it is complete: other tests remove what is of dead
    // jobs.
    static bool MakeFile(const std::string &path, const std::string &bytes,
                         mode_t mode, uid_t owner = geteuid())
    {
        const std::string made = "/dev/shm/made-" + std::to_string(getpid());
        std::ofstream(made) << bytes;
        const bool is_owners =
            chown(made.c_str(), owner, static_cast<gid_t>(-1)) == 0;
        EXPECT_EQ(0, chmod(made.c_str(), mode));
        EXPECT_EQ(0, rename(made.c_str(), path.c_str()));
        if (!is_owners)
            unlink(path.c_str());
        return is_owners;
    }

    // A process that joins and is killed.
    void LeaveDead(uint64_t id, size_t n_ranks)
    {
        Process process([&]() -> std::string {
            if (Join(id, n_ranks) != nullptr)
                processes::BeKilled();
            return "not joined";
        });
        EXPECT_EQ("", process.Said());
    }

    static constexpr size_t kBytes = 5000;
    static constexpr size_t kHeader = 64;
    const std::ptrdiff_t n_files_ = CountOpenFiles();
    const uint64_t id_ = std::random_device()() * uint64_t{0x100000001} + 1;
    enum stp_status status_ = STP_OK;
    uint32_t index_ = 99;
    stp_error err_{};
};

TEST_F(Segment, IsZeroAtFirstAndSharedByAll)
{
    Gate joined;
    Process other([&]() -> std::string {
        joined.Pass();
        stp_segment *segment = Join(id_, 2);
        char *memory = static_cast<char *>(stp_segment_memory(segment));
        memcpy(memory + kBytes - 3, "abc", 3);
        const bool is_full = stp_segment_is_full(segment);
        stp_segment_leave(segment);
        return is_full ? "full" : "not full";
    });
    stp_segment *segment = Join(id_, 2);
    EXPECT_EQ(0U, index_);
    char *memory = static_cast<char *>(stp_segment_memory(segment));
    EXPECT_EQ(std::string(kBytes, '\0'), std::string(memory, kBytes));
    EXPECT_EQ(0U, reinterpret_cast<uintptr_t>(memory) % 64);
    EXPECT_FALSE(stp_segment_is_full(segment));
    joined.Open();

    EXPECT_EQ("full", other.Said());

    EXPECT_EQ("abc", std::string(memory + kBytes - 3, 3));
    EXPECT_TRUE(stp_segment_is_full(segment));
    stp_segment_leave(segment);
}

TEST_F(Segment, IsOursAlone)
{
    stp_segment *segment = Join(id_, 2);
    struct stat st;

    ASSERT_EQ(0, lstat(Path(id_, 2).c_str(), &st));

    EXPECT_EQ(S_IFREG | 0600U, st.st_mode);
    EXPECT_EQ(geteuid(), st.st_uid);
    EXPECT_EQ(kHeader + kBytes, static_cast<size_t>(st.st_size));
    EXPECT_TRUE(IsMapped());
    stp_segment_leave(segment);
    EXPECT_FALSE(Exists(Path(id_, 2)));
}

TEST_F(Segment, OfADeadJobIsBegunAnew)
{
    LeaveDead(id_, 2);

    stp_segment *a = Join(id_, 2);
    EXPECT_EQ(0U, index_);
    EXPECT_FALSE(stp_segment_is_full(a));
    stp_segment *b = Join(id_, 2);
    EXPECT_EQ(1U, index_);

    EXPECT_TRUE(stp_segment_is_full(b));
    EXPECT_FALSE(Exists(Path(id_, 2)));
    stp_segment_leave(a);
    stp_segment_leave(b);
}

TEST_F(Segment, OfADeadJobIsRemovedByTheNextOfAnyId)
{
    LeaveDead(id_, 3);

    stp_segment *other = Join(id_ + 1, 2);

    EXPECT_FALSE(Exists(Path(id_, 3)));
    EXPECT_TRUE(Exists(Path(id_ + 1, 2)));
    stp_segment_leave(other);
}

// Another has removed it, and begun the next of its name.
TEST_F(Segment, OfADeadJobThatHasNoNameMoreIsLeftAlone)
{
    LeaveDead(id_, 3);
    nameless = Path(id_, 3);
    unlinked.clear();

    stp_segment *other = Join(id_ + 1, 2);

    nameless.clear();
    EXPECT_THAT(unlinked, Not(Contains(Path(id_, 3))));
    unlink(Path(id_, 3).c_str());
    stp_segment_leave(other);
}

TEST_F(Segment, ThatLosesItsNameIsBegunAnew)
{
    LeaveDead(id_, 2);
    nameless = Path(id_, 2);
    unlinked.clear();
    at_nap = [&] {
        if (!nameless.empty()) {
            EXPECT_THAT(unlinked, Not(Contains(nameless))) << "it is another's";
        }
        nameless.clear();
    };

    stp_segment *segment = Join(id_, 2);

    EXPECT_EQ(0U, index_);
    EXPECT_TRUE(Exists(Path(id_, 2)));
    stp_segment_leave(segment);
}

// A process killed while it makes the file leaves it so, or another program
// does.
TEST_F(Segment, OfAFewBytesIsBegunAnew)
{
    for (const char *bytes : {"", "\1", "\1\1\1\1\1\1\1\1"}) {
        const std::string path = Path(id_, 2);
        MakeFile(path, bytes, 0600);

        stp_segment *segment = Join(id_, 2);

        EXPECT_EQ(0U, index_);
        EXPECT_EQ(1U, stp_segment_n_joined(segment));
        stp_segment_leave(segment);
        EXPECT_FALSE(Exists(path));
    }
}

TEST_F(Segment, OfALivingJobIsNotRemoved)
{
    Gate joined;
    Gate over;
    Process living([&]() -> std::string {
        stp_segment *segment = Join(id_, 2);
        joined.Open();
        over.Pass();
        const bool is_full = stp_segment_is_full(segment);
        stp_segment_leave(segment);
        return is_full ? "full" : "not full";
    });
    joined.Pass();

    stp_segment *other = Join(id_ + 1, 2);
    EXPECT_TRUE(Exists(Path(id_, 2)));
    stp_segment *second = Join(id_, 2);

    EXPECT_EQ(1U, index_);
    over.Open();
    EXPECT_EQ("full", living.Said());
    stp_segment_leave(other);
    stp_segment_leave(second);
}

TEST_F(Segment, OutlivesThatOneOfItsProcessesIsKilled)
{
    Gate joined;
    Process doomed([&]() -> std::string {
        joined.Pass();
        if (Join(id_, 3) != nullptr)
            processes::BeKilled();
        return "not joined";
    });
    stp_segment *a = Join(id_, 3);
    joined.Open();
    EXPECT_EQ("", doomed.Said());

    stp_segment *other = Join(id_ + 1, 2); // removes what is of dead jobs
    stp_segment *b = Join(id_, 3);

    EXPECT_EQ(2U, index_);
    EXPECT_TRUE(stp_segment_is_full(b));
    for (stp_segment *segment : {a, b, other})
        stp_segment_leave(segment);
    EXPECT_FALSE(Exists(Path(id_, 3)));
}

TEST_F(Segment, KeepsNoDescriptorOnceAllHaveJoined)
{
    Gate joined;
    Process other([&]() -> std::string {
        joined.Pass();
        stp_segment_leave(Join(id_, 2));
        return "joined";
    });
    const int next = dup(0); // the descriptor that comes next
    close(next);
    stp_segment *segment = Join(id_, 2);
    EXPECT_NE(-1, fcntl(next, F_GETFD));
    joined.Open();
    EXPECT_EQ("joined", other.Said());
    EXPECT_NE(-1, fcntl(next, F_GETFD));

    EXPECT_TRUE(stp_segment_is_full(segment));

    EXPECT_EQ(-1, fcntl(next, F_GETFD));
    EXPECT_EQ(next, dup(0)) << "it is somebody else's now";
    stp_segment_leave(segment);
    EXPECT_NE(-1, fcntl(next, F_GETFD));
    close(next);
}

// As in a program that closed its standard input.
TEST_F(Segment, MayHaveAnyDescriptor)
{
    Process process([&]() -> std::string {
        close(0);
        stp_segment *segment = Join(id_, 2);
        if (segment == nullptr)
            return err_.text;
        const bool was_open = fcntl(0, F_GETFD) != -1;
        Join(id_, 2);
        return std::string(was_open ? "open" : "not open") +
               (fcntl(0, F_GETFD) == -1 ? ", then closed" : ", and stays open");
    });

    EXPECT_EQ("open, then closed", process.Said());
}

TEST_F(Segment, AwaitsALockForTwoSeconds)
{
    lock_error = EAGAIN;
    sleeps_take_time = false;
    slept_ns = 0;

    CannotJoin("cannot lock " + Path(id_, 2) + ": Device or resource busy");

    EXPECT_EQ(INT64_C(2000000000), slept_ns);
    lock_error = 0;
    unlink(Path(id_, 2).c_str());
}

TEST_F(Segment, HasALockAsSoonAsThereIsOne)
{
    for (int error : {EAGAIN, EACCES}) {
        lock_error = error;
        at_nap = [] { lock_error = 0; };

        stp_segment *segment = Join(id_, 2);

        EXPECT_NE(nullptr, segment) << err_.text;
        stp_segment_leave(segment);
    }
}

// All places are taken, by ranks that have not entered.
TEST_F(Segment, AwaitsForTwoSecondsThatAFullOneHasNoName)
{
    const stp_segment_key key = {id_, 2, kBytes};
    stp_segment *full[2] = {};
    for (stp_segment *&segment : full)
        ASSERT_EQ(STP_OK, stp_segment_join(&key, &segment, &index_, &err_));
    EXPECT_EQ(full[0], full[1]);
    sleeps_take_time = false;
    slept_ns = 0;

    CannotJoin("cannot join " + Path(id_, 2) + ": Device or resource busy");
    EXPECT_EQ(INT64_C(2000000000), slept_ns);
    EXPECT_EQ(n_files_ + 1, CountOpenFiles());

    at_nap = [&] { unlink(Path(id_, 2).c_str()); };
    stp_segment *next = Join(id_, 2);
    EXPECT_EQ(0U, index_);
    EXPECT_NE(full[0], next);
    for (stp_segment *segment : {full[0], full[1], next})
        stp_segment_leave(segment);
}

TEST_F(Segment, FollowsNoLink)
{
    const std::string path = Path(id_, 2);
    const TemporaryFolder folder;
    const std::string target = folder.Path("target");
    std::ofstream(target) << "precious";
    ASSERT_EQ(0, symlink(target.c_str(), path.c_str()));

    CannotJoin("cannot open " + path + ": Too many levels of symbolic links");

    EXPECT_EQ("precious", ReadFile(target));
    unlink(path.c_str());
}

// Its mode, its owner, and why it is not used.
TEST_F(Segment, IsNotTrustedIfOthersMayOpenItOrOwnIt)
{
    const std::string path = Path(id_, 2);
    const struct {
        mode_t mode;
        uid_t owner;
        const char *why;
    } cases[] = {
        {0620, geteuid(),
         "other users may open it, expected a file of mode 0600"},
        {0604, geteuid(),
         "other users may open it, expected a file of mode 0600"},
        {0606, geteuid(),
         "all users may write it, expected a file that they "
         "may not (chmod o-w)"},
        {0600, geteuid() + 12345,
         "another user owns it, expected a file of this user"},
    };

    for (const auto &c : cases) {
        if (!MakeFile(path, "", c.mode, c.owner))
            continue; // only root can give a file away
        CannotJoin("cannot trust " + path + ": " + c.why);
        EXPECT_TRUE(Exists(path));
        unlink(path.c_str());
    }
}

TEST_F(Segment, IsNoFifo)
{
    const std::string path = Path(id_, 2);
    ASSERT_EQ(0, mkfifo(path.c_str(), 0600));

    CannotJoin("cannot trust " + path +
               ": it is a FIFO, a socket or a device, expected a regular file");
    unlink(path.c_str());
}

TEST_F(Segment, GrowsToTheLongestThatARankAsksFor)
{
    stp_segment *a = Join(id_, 3, 0);
    stp_segment *b = Join(id_, 3, kBytes);
    stp_segment *c = Join(id_, 3, 100);
    char *memory = static_cast<char *>(stp_segment_memory(b));

    memcpy(memory + kBytes - 3, "abc", 3);
    memcpy(memory, "abc", 3);

    EXPECT_EQ(std::string("abc"),
              std::string(static_cast<char *>(stp_segment_memory(c)), 3));
    for (stp_segment *segment : {a, b, c}) {
        EXPECT_TRUE(stp_segment_is_full(segment));
        stp_segment_leave(segment);
    }
}

// The file belongs to a process that is alive, perhaps of another program.
TEST_F(Segment, OfTooSmallASizeIsNotShared)
{
    const std::string path = Path(id_, 2);
    // Without its lock any rank on this host may remove the file.
    const std::string made = "/dev/shm/made-" + std::to_string(getpid());
    const int fd = open(made.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    struct flock lock = {};
    lock.l_type = F_RDLCK;
    ASSERT_EQ(0, fcntl(fd, F_OFD_SETLK, &lock));
    ASSERT_EQ(0, ftruncate(fd, 10));
    ASSERT_EQ(0, rename(made.c_str(), path.c_str()));

    CannotJoin("cannot share " + path + ": Invalid argument");

    EXPECT_TRUE(Exists(path));
    unlink(path.c_str());
    close(fd);
}

// A file may not grow here, as where /dev/shm is full.
TEST_F(Segment, IsAnErrorNowAndNotASignalLaterWhereThereIsNoRoom)
{
    Process process([&]() -> std::string {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_FSIZE, &none);
        return Join(id_, 2) == nullptr ? err_.text : "joined";
    });

    EXPECT_EQ("cannot allocate " + Path(id_, 2) + ": File too large",
              process.Said());
    EXPECT_FALSE(Exists(Path(id_, 2)));
}

TEST_F(Segment, MayBeAsLongAsAFileMay)
{
    for (rlim_t missing : {0, 1}) {
        Process process([&]() -> std::string {
            const rlim_t most = kHeader + kBytes - missing;
            const struct rlimit limit = {most, most};
            setrlimit(RLIMIT_FSIZE, &limit);
            stp_segment *segment = Join(id_, 2);
            stp_segment_leave(segment);
            return segment == nullptr ? err_.text : "joined";
        });

        EXPECT_EQ(missing == 0
                      ? "joined"
                      : "cannot allocate " + Path(id_, 2) + ": File too large",
                  process.Said());
    }
}

TEST_F(Segment, IsAnErrorByTheCallThatFailsAndIsThereAfterIt)
{
    const struct {
        int *error;
        int value;
        const char *before, *after; // the path
    } cases[] = {
        {&statx_error, EIO, "cannot trust ", ": Input/output error"},
        {&lock_error, ENOLCK, "cannot lock ", ": No locks available"},
        {&room_error, ENOSPC, "cannot allocate ", ": No space left on device"},
        {&map_error, ENOMEM, "cannot map ", ": Cannot allocate memory"},
    };

    for (const auto &c : cases) {
        *c.error = c.value;
        CannotJoin(c.before + Path(id_, 2) + c.after);
        *c.error = 0;

        stp_segment *segment = Join(id_, 2);
        EXPECT_NE(nullptr, segment) << err_.text;
        stp_segment_leave(segment);
        unlink(Path(id_, 2).c_str());
    }
}

} // namespace
