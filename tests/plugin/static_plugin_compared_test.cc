// How ranks in one process are compared, of one host or of two that meet in a
// folder, and what of that is left in memory.
#include <gmock/gmock.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <thread>

#include "mock_ranks.h"
#include "plugin/bare_interface.h"
#include "support/child.h"
#include "support/read_file.h"

using namespace bare_interface;
using namespace static_plugin;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// Calls of the plugin's for files or names that a server does not answer, while
// it hangs.
static std::atomic<bool> server_hangs;

extern "C" int openat(int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = va_arg(args, mode_t);
    va_end(args);
    while (server_hangs)
        usleep(1000);
    return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}

extern "C" int getaddrinfo(const char *, const char *, const addrinfo *,
                           addrinfo **)
{
    while (server_hangs)
        usleep(1000);
    return EAI_AGAIN;
}

namespace
{

constexpr char kTree[] = "allreduce,0,inf,tree,ll128,-1,-1,-1\n";

class Compared : public BareInterface
{
  protected:
    // Whether a rule decides.
    bool Decides(void *ctx) const
    {
        return Ask(ctx)[1] < 5;
    }
};

// Parts of this process's memory that are the communicator's.
size_t CountShared(uint64_t comm_id)
{
    std::ifstream maps("/proc/self/maps");
    char hex[17];
    size_t n = 0;

    snprintf(hex, sizeof(hex), "%016llx",
             static_cast<unsigned long long>(comm_id));
    for (std::string line; std::getline(maps, line);)
        n += line.find("steptune-") != std::string::npos &&
             line.find(hex) != std::string::npos;
    return n;
}

TEST_F(Compared, RanksShareNoMemoryOnceTheyAreCompared)
{
    const struct {
        const char *name;
        const char *gpus[2];
        const char *agree;
        bool is_tuned;
    } cases[] = {{"alike", {"A", "A"}, "shm", true},
                 {"alike_and_required", {"A", "A"}, "required", true},
                 {"other_gpus", {"A", "B"}, "shm", false}};
    uint64_t id = id_;
    Policy("collective,algorithm,protocol,gpu\n"
           "allreduce,tree,ll128,A\n"
           "allgather,ring,ll,B\n");

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        void *ctx[2] = {};
        setenv("STEPTUNE_AGREE", c.agree, 1);
        id++;
        for (int r = 0; r < 2; r++) {
            setenv("STEPTUNE_GPU", c.gpus[r], 1);
            v5_->init(&ctx[r], id, 2, 1, Log, nullptr, nullptr);
        }
        EXPECT_EQ(1u, CountShared(id));
        for (int r = 0; r < 2; r++) {
            EXPECT_EQ(c.is_tuned, Decides(ctx[r]));
            EXPECT_EQ(r == 0 ? 1u : 0u, CountShared(id));
        }
        for (void *rank : ctx)
            v5_->finalize(rank);
    }
}

TEST_F(Compared, RanksThatNeverDecideLeaveNoSharedMemory)
{
    void *ctx = nullptr;
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n");
    setenv("STEPTUNE_AGREE", "shm", 1);

    v5_->init(&ctx, id_, 2, 1, nullptr, nullptr, nullptr);
    EXPECT_EQ(1u, CountShared(id_));
    v5_->finalize(ctx);

    EXPECT_EQ(0u, CountShared(id_));
}

std::string ReadFiles(const std::string &folder)
{
    std::string bytes;
    for (const auto &entry : std::filesystem::directory_iterator(folder))
        bytes += ReadFile(entry.path());
    return bytes;
}

// Shared memory that this process has a descriptor of.
size_t CountOpenShared()
{
    size_t n = 0;
    for (const auto &fd :
         std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        n += std::filesystem::read_symlink(fd.path(), gone)
                 .string()
                 .find("/dev/shm/steptune-") == 0;
    }
    return n;
}

// A child owns nothing that its parent uses: whatever it does with its copies,
// and whenever it is forked, its parent's ranks notice nothing.
TEST_F(Compared, AForkedChildTouchesNothingOfItsParents)
{
    const std::string ledgers = folder_.Path("ledgers");
    void *ctx[2];
    uint64_t id = id_;
    const auto fork_child = [&](bool asks) {
        const std::string before = ReadFiles(ledgers);
        EXPECT_EQ(0, StatusOfChild([&] {
                      EXPECT_EQ(0u, CountOpenShared());
                      for (void *rank : ctx) {
                          EXPECT_FALSE(asks && rank != nullptr &&
                                       Decides(rank));
                          v5_->finalize(rank);
                      }
                  }));
        EXPECT_EQ(before, ReadFiles(ledgers));
    };
    Policy(kTree);
    std::filesystem::create_directory(ledgers);
    setenv("STEPTUNE_LEDGER", ledgers.c_str(), 1);
    setenv("STEPTUNE_AGREE", "shm", 1);

    for (int when = 0; when < 4; when++)
        for (const bool asks : {false, true}) {
            SCOPED_TRACE(std::to_string(when) + (asks ? " asks" : ""));
            ctx[0] = ctx[1] = nullptr;
            id++;
            for (int step = 0; step < 4; step++) {
                if (step == when)
                    fork_child(asks);
                if (step < 2)
                    v5_->init(&ctx[step], id, 2, 1, Log, nullptr, nullptr);
                else
                    EXPECT_TRUE(Decides(ctx[step - 2])) << logged;
            }
            for (void *rank : ctx)
                v5_->finalize(rank);
        }
}

// A process whose files may have no bytes.
TEST_F(Compared, WithoutSharedMemoryItIsTheUsersWordThatCounts)
{
    Policy(kTree);
    struct rlimit before;
    ASSERT_EQ(0, getrlimit(RLIMIT_FSIZE, &before));
    const struct rlimit none = {0, before.rlim_max};
    constexpr char kWhy[] = "steptune: cannot be compared with the other "
                            "ranks: cannot allocate /dev/shm/steptune-";
    constexpr char kLarge[] = ": File too large";

    for (const bool is_assumed : {false, true}) {
        void *ctx = nullptr;
        setenv("STEPTUNE_AGREE", is_assumed ? "assume" : "shm", 1);
        logged.clear();
        infos.clear();
        setrlimit(RLIMIT_FSIZE, &none);
        v5_->init(&ctx, id_, 2, 1, Log, nullptr, nullptr);
        setrlimit(RLIMIT_FSIZE, &before);
        EXPECT_EQ(is_assumed, Decides(ctx));
        v5_->finalize(ctx);

        if (is_assumed) {
            ASSERT_FALSE(infos.empty());
            EXPECT_THAT(infos[0], AllOf(StartsWith(kWhy), EndsWith(kLarge)));
            EXPECT_EQ("", logged);
        } else {
            EXPECT_THAT(
                logged,
                AllOf(StartsWith(kWhy),
                      EndsWith(std::string(kLarge) +
                               "; stepping aside, NCCL tunes alone\n")));
        }
    }
}

// ---- two hosts, of one rank each ----

class TwoHosts : public Compared
{
  protected:
    void SetUp() override
    {
        Compared::SetUp();
        setenv("STEPTUNE_AGREE", ("file://" + folder_.path()).c_str(), 1);
        setenv("STEPTUNE_AGREE_TIMEOUT", "60", 1); // nothing waits so long
        setenv("STEPTUNE_GPU", "NVIDIA H200", 1);
    }

    void ExpectNoneHeld(bool names_a_host);

    void Join(const char *host, void **ctx)
    {
        setenv("NCCL_HOSTID", host, 1);
        v5_->init(ctx, id_, 2, 2, Log, nullptr, nullptr);
    }

    // Each rank decides in a thread of its own.
    std::vector<bool> Decide(const std::vector<void *> &ranks)
    {
        std::vector<char> tuned(ranks.size());
        std::vector<std::thread> threads;
        for (size_t r = 0; r < ranks.size(); r++)
            threads.emplace_back([&, r] { tuned[r] = Decides(ranks[r]); });
        for (std::thread &thread : threads)
            thread.join();
        for (void *rank : ranks)
            v5_->finalize(rank);
        return {tuned.begin(), tuned.end()};
    }
};

TEST_F(TwoHosts, DecideIfTheyHoldTheSame)
{
    void *a = nullptr, *b = nullptr;
    Policy(kTree);

    Join("a", &a);
    Join("b", &b);

    EXPECT_EQ(std::vector<bool>({true, true}), Decide({a, b}));
    EXPECT_EQ("", logged);
    EXPECT_EQ(2u, infos.size()) << "only what each has loaded";
}

TEST_F(TwoHosts, DecideNothingIfTheirPoliciesDiffer)
{
    void *a = nullptr, *b = nullptr;

    Policy(kTree, "a.conf");
    Join("a", &a);
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n", "b.conf");
    Join("b", &b);

    EXPECT_EQ(std::vector<bool>({false, false}), Decide({a, b}));
    EXPECT_THAT(logged,
                HasSubstr("host a holds another policy than this rank"));
    EXPECT_THAT(logged,
                HasSubstr("host b holds another policy than this rank"));
}

TEST_F(TwoHosts, DecideNothingIfOneHasNoThreadToSpeakIn)
{
    void *a = nullptr, *b = nullptr;
    pthread_attr_t usual, huge;
    ASSERT_EQ(0, pthread_getattr_default_np(&usual));
    ASSERT_EQ(0, pthread_getattr_default_np(&huge));
    ASSERT_EQ(0, pthread_attr_setstacksize(&huge, size_t{1} << 62));
    Policy(kTree);

    pthread_setattr_default_np(&huge);
    Join("a", &a);
    pthread_setattr_default_np(&usual);
    EXPECT_EQ("steptune: this host cannot be compared: no thread to be had",
              infos.front());
    Join("b", &b);

    EXPECT_EQ(std::vector<bool>({false, false}), Decide({a, b}));
    pthread_attr_destroy(&usual);
    pthread_attr_destroy(&huge);
}

TEST_F(TwoHosts, AHostThatLeavesAwaitsNoOther)
{
    void *ctx = nullptr;
    Policy(kTree);

    Join("a", &ctx);
    v5_->finalize(ctx); // or this takes a minute

    EXPECT_EQ("", logged);
}

void TwoHosts::ExpectNoneHeld(bool names_a_host)
{
    void *ctx = nullptr;
    if (names_a_host)
        setenv("STEPTUNE_AGREE", "tcpstore://a.host:29500", 1);
    Policy(kTree);
    server_hangs = true;
    Join("a", &ctx);

    mock_clock_shift(INT64_C(70) * 1000000000);
    EXPECT_FALSE(Decides(ctx));
    EXPECT_THAT(logged, HasSubstr("which speaks for this host at the store, "
                                  "did not hear from it in time"));
    mock_clock_shift(0);
    EXPECT_FALSE(Decides(ctx));
    v5_->finalize(ctx); // does not wait for it, either

    // Its thread keeps the code that it runs, and no longer than that.
    dlclose(lib_);
    lib_ = dlopen(STP_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
    EXPECT_NE(nullptr, lib_);
    server_hangs = false;
    for (int i = 0; i < 10000 && lib_ != nullptr; i++) {
        usleep(1000);
        dlclose(lib_);
        lib_ = dlopen(STP_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
    }
    EXPECT_EQ(nullptr, lib_) << "is still loaded";
    lib_ = dlopen(STP_PLUGIN, RTLD_NOW | RTLD_LOCAL);
}

TEST_F(TwoHosts, AStoreThatHangsHoldsNoCollective)
{
    ExpectNoneHeld(false);
}

TEST_F(TwoHosts, ANameThatIsNotResolvedHoldsNoCollective)
{
    ExpectNoneHeld(true);
}

// Which is all that there is.
TEST_F(TwoHosts, OneHostAloneNeedsNoStore)
{
    void *ctx[2] = {};
    setenv("STEPTUNE_AGREE", "file:///no/such/folder", 1);
    Policy(kTree);

    for (void *&rank : ctx)
        v5_->init(&rank, id_, 2, 1, Log, nullptr, nullptr);
    for (void *rank : ctx) {
        EXPECT_TRUE(Decides(rank));
        v5_->finalize(rank);
    }
    EXPECT_EQ("", logged);
}

} // namespace
