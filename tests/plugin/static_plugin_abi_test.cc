// Tests of the plugin's bare interface, called in ways in which mock NCCL does
// not.
#include <cfloat>
#include <clocale>
#include <cmath>
#include <limits>

#include "plugin/bare_interface.h"
#include "support/with_param.h"

using namespace bare_interface;
using namespace static_plugin;

namespace
{

TEST_F(BareInterface, NeedsNoLogger)
{
    ncclNvlDomainInfo_v5_t nvl{1, 4, 4};

    for (const char *text :
         {"allreduce,0,inf,tree,ll,-1,-1,-1\n", "nonsense\n"}) {
        Policy(text);
        void *ctx = nullptr;
        EXPECT_EQ(ncclSuccess,
                  v5_->init(&ctx, id_, 4, 1, nullptr, &nvl, nullptr));
        EXPECT_EQ(ncclSuccess, v5_->finalize(ctx));
        EXPECT_EQ(ncclSuccess, v4_->init(4, 1, nullptr, &ctx));
        EXPECT_EQ(ncclSuccess, v4_->destroy(ctx));
    }
}

TEST_F(BareInterface, ReadsTheFileAgainOnceNoCommunicatorHoldsIt)
{
    for (const size_t at : {0, 2}) {
        Policy(std::string("allreduce,0,inf,tree,") +
               (at == 0 ? "ll" : "simple") + ",-1,-1,-1\n");
        void *ctx = Init(8, 1);
        EXPECT_GT(4, Ask(ctx, CostsOf(4, 4, 4, 5))[at]);
        v4_->destroy(ctx);
    }
}

TEST_F(BareInterface, IgnoresTheGpuColumnOnSeveralNodes)
{
    Policy("collective,algorithm,protocol,gpu\n"
           "allreduce,tree,ll,NVIDIA H200\n");
    setenv("STEPTUNE_GPU", "NVIDIA H200", 1);

    for (size_t n_nodes : {1, 2}) {
        void *ctx = Init(8, n_nodes);
        EXPECT_EQ(n_nodes == 1, Ask(ctx)[0] < 5);
        v4_->destroy(ctx);
    }
}

TEST_F(BareInterface, TellsTheChunkSizeOfWhatItDecidedAndOfNothingElse)
{
    Policy("collective,min_bytes,max_bytes,algorithm,protocol,chunk_bytes\n"
           "allreduce,4096,4096,tree,simple,64K\n"
           "allreduce,8192,8192,tree,simple,128K\n"
           "allreduce,16384,16384,tree,simple,-1\n");
    // Which chunk size is told for what was asked: calls of one group, then the
    // question.  "T4" is an all-reduce of 4096 bytes that a rule decides, "T8"
    // one of 8192 with another chunk size, "N" one that no rule decides.
    const struct {
        const char *name;
        std::vector<size_t> calls; // bytes of the all-reduces before
        int algo;
        int proto;
        size_t want;
    } cases[] = {
        {"decided", {4096}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 65536},
        {"twice_alike", {4096, 4096}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 65536},
        {"two_sizes", {4096, 8192}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"beside_undecided", {64, 4096}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"undecided_behind", {4096, 64}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"undecided", {64}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"rule_without", {16384}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"other_pair_ran", {4096}, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0},
        {"nothing_asked", {}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"decided_again", {8192}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 131072},
    };
    const auto *v6 = Tuner<ncclTuner_v6_t>("ncclTunerPlugin_v6");
    ncclTunerConstants_v5_t constants{};
    ncclNvlDomainInfo_v5_t nvl{1, 4, 4};
    void *ctx = nullptr;
    setenv("STEPTUNE_AGREE", "assume", 1); // no other rank joins
    v6->init(&ctx, id_, 4, 1, nullptr, &nvl, &constants);

    // All cases in one communicator: what a group noted must not outlive it.
    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        for (size_t n_bytes : c.calls)
            Ask(ctx, CostsOf(9, 8, 7, 5), ncclFuncAllReduce, n_bytes);
        if (c.calls.empty()) // a group of another collective
            Ask(ctx, CostsOf(9, 8, 7, 5), ncclFuncAllGather);
        for (int part = 0; part < 3; part++) {
            size_t chunk = 1234;
            EXPECT_EQ(ncclSuccess,
                      v6->getChunkSize(ctx, ncclFuncAllReduce, 512, c.algo,
                                       c.proto, 1, &chunk));
            EXPECT_EQ(c.want == 0 ? 1234 : c.want, chunk);
        }
    }
    v6->finalize(ctx);
}

// ---- the entry that is written ----

// Tells 0 from -0, and finds a NaN equal to itself.
std::array<uint32_t, 21> BitsOf(const Costs &costs)
{
    std::array<uint32_t, 21> bits;
    memcpy(bits.data(), costs.data(), sizeof(bits));
    return bits;
}

struct WrittenCase {
    const char *name;
    Costs before;
    Costs after;
};

using Written = WithParam<BareInterface, WrittenCase>;

// tree/ll128 wins in every version: before 2.31 the first of the smallest does,
// later the last, and it is compared with kernels that the table lacks.
TEST_P(Written, IsTheSmallestByTheLeast)
{
    Policy("allreduce,0,inf,tree,ll128,-1,-1,-1\n");
    const auto *v3 = Tuner<ncclTuner_v3_t>("ncclTunerPlugin_v3");
    Costs costs = GetParam().before;
    int channels = 0;
    void *ctx = Init(4, 1);

    EXPECT_EQ(ncclSuccess,
              v3->getCollInfo(ctx, ncclFuncAllReduce, 64, 1,
                              reinterpret_cast<float **>(costs.data()), 7, 3,
                              &channels));
    EXPECT_EQ(BitsOf(GetParam().after), BitsOf(costs));
    EXPECT_EQ(BitsOf(GetParam().after), BitsOf(Ask(ctx, GetParam().before)));
    v4_->destroy(ctx);
}

const float kTiny = std::numeric_limits<float>::denorm_min();
const float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

const WrittenCase kWritten[] = {
    {"below_another", CostsOf(9, 8, 7, 5),
     CostsOf(9, std::nextafter(5.0f, 0.0f), 7, 5)},
    {"below_itself", CostsOf(9, 5, 7, 6),
     CostsOf(9, std::nextafter(5.0f, 0.0f), 7, 6)},
    {"below_its_equals", CostsOf(5, 5, 5, 5),
     CostsOf(5, std::nextafter(5.0f, 0.0f), 5, 5)},
    {"below_the_first", CostsOf(5, 8, 7, 6),
     CostsOf(5, std::nextafter(5.0f, 0.0f), 7, 6)},
    {"below_a_power_of_two", CostsOf(9, 8, 7, 4),
     CostsOf(9, 0x1.fffffep1f, 7, 4)},
    {"the_only_one", CostsOf(-1, 5, -1, -1),
     CostsOf(-1, std::nextafter(5.0f, 0.0f), -1, -1)},
    {"nan_beside_it", CostsOf(kNan, 8, -kNan, 5),
     CostsOf(kNan, std::nextafter(5.0f, 0.0f), -kNan, 5)},
    {"nan_itself", CostsOf(9, kNan, 7, 6), CostsOf(9, kNan, 7, 6)},
    {"below_infinity", CostsOf(kInf, kInf, -1, -1024),
     CostsOf(kInf, FLT_MAX, -1, -1024)},
    {"below_the_least_float", CostsOf(9, 8, 7, kTiny), CostsOf(9, 0, 7, kTiny)},
    {"zeros_make_room", CostsOf(0, 8, 7, 0), CostsOf(FLT_MIN, 0, 7, FLT_MIN)},
    {"zero_itself", CostsOf(9, 0, 7, 6), CostsOf(9, 0, 7, 6)},
    {"zero_alone", CostsOf(-1, 0, -1, -1), CostsOf(-1, 0, -1, -1)},
    {"minus_zero_makes_room", CostsOf(-0.0f, 8, 7, 5),
     CostsOf(FLT_MIN, 0, 7, 5)},
    {"minus_zero_itself", CostsOf(9, -0.0f, 7, 6), CostsOf(9, 0, 7, 6)},
    {"minus_zero_alone", CostsOf(-1, -0.0f, -1, -1), CostsOf(-1, 0, -1, -1)},
    {"ruled_out_itself", CostsOf(9, -1, 7, 6), CostsOf(9, -1, 7, 6)},
    {"zero_at_first_makes_room", CostsOf(0, 8, 7, 6),
     CostsOf(FLT_MIN, 0, 7, 6)},
    {"fp8_is_ruled_out", CostsOf(9, -1024, 7, 6), CostsOf(9, -1024, 7, 6)},
};
INSTANTIATE_TEST_SUITE_P(Table, Written, testing::ValuesIn(kWritten),
                         CaseName());

// ---- what NCCL may leave out ----

// As a communicator for whose context there was no memory.
TEST_F(BareInterface, ChangesNothingWithoutAContext)
{
    Costs costs = CostsOf(9, 8, 7, 5);
    const Costs before = costs;
    auto *table = reinterpret_cast<float **>(costs.data());
    int algo = 7, proto = 7, channels = 7;
    size_t chunk = 7;

    EXPECT_EQ(ncclSuccess, Tuner<ncclTuner_v2_t>("ncclTunerPlugin_v2")
                               ->getCollInfo(nullptr, ncclFuncAllReduce, 64, 1,
                                             1, 1, &algo, &proto, &channels));
    EXPECT_EQ(ncclSuccess, Tuner<ncclTuner_v3_t>("ncclTunerPlugin_v3")
                               ->getCollInfo(nullptr, ncclFuncAllReduce, 64, 1,
                                             table, 7, 3, &channels));
    const auto *v6 = Tuner<ncclTuner_v6_t>("ncclTunerPlugin_v6");
    EXPECT_EQ(ncclSuccess, v6->getCollInfo(nullptr, ncclFuncAllReduce, 64, 1,
                                           table, 7, 3, 0, &channels));
    EXPECT_EQ(ncclSuccess,
              v6->getChunkSize(nullptr, ncclFuncAllReduce, 64, NCCL_ALGO_RING,
                               NCCL_PROTO_LL, 1, &chunk));
    EXPECT_EQ(ncclSuccess, v6->finalize(nullptr));

    EXPECT_EQ(before, costs);
    EXPECT_EQ(7, algo);
    EXPECT_EQ(7, proto);
    EXPECT_EQ(7, channels);
    EXPECT_EQ(7u, chunk);
}

TEST_F(BareInterface, DecidesWithoutConstantsOrDomains)
{
    Policy("allreduce,0,inf,tree,ll128,-1,-1,-1\n");
    setenv("STEPTUNE_AGREE", "assume", 1); // no other rank joins

    for (const char *name :
         {"ncclTunerPlugin_v5", "ncclTunerPlugin_v6", "ncclTunerPlugin_v7"}) {
        const auto *tuner = Tuner<ncclTuner_v5_t>(name);
        void *ctx = nullptr;
        ASSERT_EQ(ncclSuccess,
                  tuner->init(&ctx, id_, 4, 1, nullptr, nullptr, nullptr));
        EXPECT_GT(5, Ask(ctx)[1]) << name;
        tuner->finalize(ctx);
    }
}

// NCCL 2.21, whose table shows only what is there at all.
TEST_F(BareInterface, RulesOutWhatTheMachineLacksWhereThereIsNoTable)
{
    const struct {
        const char *algorithm;
        int collnet, nvls, want; // -1: the next rule decides
    } cases[] = {{"collnet_direct", 1, 0, NCCL_ALGO_COLLNET_DIRECT},
                 {"collnet_direct", 0, 1, -1},
                 {"collnet_chain", 1, 0, NCCL_ALGO_COLLNET_CHAIN},
                 {"collnet_chain", 0, 1, -1},
                 {"nvls", 0, 1, NCCL_ALGO_NVLS},
                 {"nvls", 1, 0, -1}};
    const auto *v2 = Tuner<ncclTuner_v2_t>("ncclTunerPlugin_v2");

    for (const auto &c : cases) {
        Policy(std::string("allreduce,0,inf,") + c.algorithm +
               ",simple,4,-1,-1\nallreduce,0,inf,tree,ll,-1,-1,-1\n");
        int algo = -1, proto = -1, channels = 7;
        void *ctx = nullptr;
        v2->init(4, 1, nullptr, &ctx);
        v2->getCollInfo(ctx, ncclFuncAllReduce, 64, c.collnet, c.nvls, 1, &algo,
                        &proto, &channels);
        v2->destroy(ctx);

        EXPECT_EQ(c.want < 0 ? NCCL_ALGO_TREE : c.want, algo) << c.algorithm;
        EXPECT_EQ(c.want < 0 ? 7 : 4, channels) << c.algorithm;
    }
}

// Where it says nothing of them, a call has no registered buffers.
TEST_F(BareInterface, TakesBuffersAsNotRegisteredBefore224)
{
    Policy("collective,algorithm,protocol,regBuff\n"
           "allreduce,tree,ll,1\n"
           "allreduce,tree,ll128,0\n");
    const auto *v2 = Tuner<ncclTuner_v2_t>("ncclTunerPlugin_v2");
    const auto *v3 = Tuner<ncclTuner_v3_t>("ncclTunerPlugin_v3");
    Costs costs = CostsOf(9, 8, 7, 5);
    int algo = -1, proto = -1, channels = 0;
    void *ctx = nullptr;
    v3->init(4, 1, nullptr, &ctx);

    v2->getCollInfo(ctx, ncclFuncAllReduce, 64, 1, 1, 1, &algo, &proto,
                    &channels);
    v3->getCollInfo(ctx, ncclFuncAllReduce, 64, 1,
                    reinterpret_cast<float **>(costs.data()), 7, 3, &channels);

    EXPECT_EQ(NCCL_PROTO_LL128, proto);
    EXPECT_EQ(CostsOf(9, std::nextafter(5.0f, 0.0f), 7, 5), costs);
    v3->destroy(ctx);
}

TEST_F(BareInterface, AsksForTheChannelsOfTheRule)
{
    const auto *v2 = Tuner<ncclTuner_v2_t>("ncclTunerPlugin_v2");
    const std::pair<const char *, int> cases[] = {
        {"-1", 7}, {"0", 7}, {"1", 1}, {"2", 2}, {"32", 32}};

    for (const auto &[channels, want] : cases) {
        Policy(std::string("allreduce,0,inf,tree,ll,") + channels + ",-1,-1\n");
        int algo = -1, proto = -1, of_v2 = 7, of_v4 = 7;
        void *ctx = Init(4, 1);
        v2->getCollInfo(ctx, ncclFuncAllReduce, 64, 1, 1, 1, &algo, &proto,
                        &of_v2);
        Ask(ctx, CostsOf(9, 8, 7, 5), ncclFuncAllReduce, 64, &of_v4);
        v4_->destroy(ctx);
        EXPECT_EQ(want, of_v2) << channels;
        EXPECT_EQ(want, of_v4) << channels;
    }
}

TEST_F(BareInterface, LeavesTheThreadItsLocale)
{
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n");
    void *ctx = Init(4, 1);
    EXPECT_EQ(LC_GLOBAL_LOCALE, uselocale(nullptr));
    v4_->destroy(ctx);
    EXPECT_EQ(LC_GLOBAL_LOCALE, uselocale(nullptr));
}

// ---- ranks that are not all there ----

TEST_F(BareInterface, RanksOfTwoVersionsOfItDecideNothing)
{
    Policy("allreduce,0,inf,tree,ll128,-1,-1,-1\n");
    setenv("STEPTUNE_AGREE", "shm", 1);
    const auto *v6 = Tuner<ncclTuner_v6_t>("ncclTunerPlugin_v6");
    const auto *v7 = Tuner<ncclTuner_v7_t>("ncclTunerPlugin_v7");
    ncclNvlDomainInfo_v5_t nvl{1, 2, 2};
    uint64_t id = id_;
    const auto init = [&](int version, void **ctx) {
        if (version == 7)
            return v7->init(ctx, id, 2, 1, Log, &nvl, nullptr);
        return (version == 6 ? v6->init : v5_->init)(ctx, id, 2, 1, Log, &nvl,
                                                     nullptr);
    };

    for (int first : {5, 6, 7})
        for (int second : {5, 6, 7}) {
            void *ctx[2] = {};
            id++;
            init(first, &ctx[0]);
            init(second, &ctx[1]);
            for (void *rank : ctx)
                EXPECT_EQ(first == second, Ask(rank)[1] < 5) << first << second;
            for (void *rank : ctx)
                v5_->finalize(rank);
        }
}

// One rank of a communicator, which is asked once.
struct Lone {
    const char *name;
    const char *agree;
    bool is_named; // by NCCL
    size_t n_ranks, n_nodes;
    int n_local; // the least ranks of a host; -1: NCCL tells nothing
    bool is_tuned;
    const char *says; // in its warning; "": there is none
};

using LoneRank = WithParam<BareInterface, Lone>;

TEST_P(LoneRank, DecidesWhereItIsAllThatIsCompared)
{
    const Lone &c = GetParam();
    Policy("allreduce,0,inf,tree,ll128,-1,-1,-1\n");
    setenv("STEPTUNE_AGREE", c.agree, 1);
    const ncclNvlDomainInfo_v5_t nvl{1, c.n_local, c.n_local};
    void *ctx =
        Init(c.n_ranks, c.n_nodes, c.is_named, c.n_local < 0 ? nullptr : &nvl);

    EXPECT_EQ(c.is_tuned, Ask(ctx)[1] < 5);
    v5_->finalize(ctx);
    EXPECT_EQ(logged.empty(), std::string(c.says).empty()) << logged;
    EXPECT_NE(std::string::npos, logged.find(c.says)) << logged;
}

// clang-format off
const Lone kLone[] = {
    {"alone", "required", true, 1, 1, 1, true, ""},
    {"alone_and_not_named", "required", false, 1, 1, 1, true, ""},
    {"one_of_four_not_named", "required", false, 4, 1, 4, false, "cannot be compared, which STEPTUNE_AGREE=required demands"},
    {"one_of_two_not_named", "required", false, 2, 1, 2, false, "cannot be compared, which STEPTUNE_AGREE=required demands"},
    {"one_of_two_hosts_without_a_store", "required", true, 4, 2, 1, false, "cannot be compared, which STEPTUNE_AGREE=required demands"},
    {"one_of_two_hosts_is_all_of_its_own", "shm", true, 4, 2, 1, true, ""},
    {"a_host_of_which_nothing_is_told", "shm", true, 4, 2, -1, true, ""},
    {"a_host_with_no_ranks", "shm", true, 4, 2, 0, true, ""},
    {"a_host_with_more_ranks_than_there_are", "shm", true, 4, 2, 5, true, ""},
    {"a_host_with_as_many", "shm", true, 4, 2, 4, false, "stepping aside"},
    {"a_host_with_two", "shm", true, 4, 2, 2, false, "stepping aside"},
    {"a_host_with_two_that_are_alike", "assume", true, 4, 2, 2, true, ""},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, LoneRank, testing::ValuesIn(kLone), CaseName());

TEST_F(BareInterface, WarnsOfRegisteredBuffersWhereRanksMayDiffer)
{
    Policy("collective,algorithm,protocol,regBuff\nallreduce,tree,ll,1\n");
    setenv("STEPTUNE_AGREE", "assume", 1);

    for (size_t n_ranks : {1, 2}) {
        logged.clear();
        v4_->destroy(Init(n_ranks, 1));
        EXPECT_EQ(n_ranks == 1
                      ? ""
                      : "steptune: line 2 of the policy depends on regBuff, "
                        "which each rank sees for its own buffers: the job "
                        "hangs if some ranks register their buffers and others "
                        "do not\n",
                  logged);
    }
}

// One file, read once, for communicators that live together.
TEST_F(BareInterface, AFileServesCommunicatorsThatDifferInOneThing)
{
    Policy("collective,algorithm,protocol,nNodes,nRanks,gpu\n"
           "allreduce,tree,ll,1,4,A\n"
           "allreduce,tree,ll128,1,4,B\n"
           "allreduce,tree,simple,2,4,*\n"
           "allreduce,ring,ll,1,2,*\n");
    const struct {
        const char *gpu; // "": another, or unknown
        size_t n_ranks, n_nodes;
        size_t want; // of the costs' places; 4: none
    } cases[] = {{"A", 4, 1, 0}, {"B", 4, 1, 1}, {"A", 4, 2, 2},
                 {"A", 2, 1, 3}, {"A", 4, 1, 0}, {"B", 4, 1, 1},
                 {"", 4, 1, 4},  {"", 4, 2, 2},  {"", 2, 1, 3}};
    std::vector<void *> all;

    setenv("STEPTUNE_AGREE", "assume", 1); // all hosts have this GPU
    for (const auto &c : cases) {
        setenv("STEPTUNE_GPU", c.gpu, 1);
        all.push_back(Init(c.n_ranks, c.n_nodes));
    }
    for (size_t i = 0; i < all.size(); i++) {
        const Costs costs = Ask(all[i], CostsOf(9, 9, 9, 9));
        for (size_t k = 0; k < 4; k++)
            EXPECT_EQ(k == cases[i].want, costs[k] < 9) << i << " " << k;
    }
    for (void *ctx : all)
        v4_->destroy(ctx);
}

TEST_F(BareInterface, EachFileServesCommunicatorsThatLiveTogether)
{
    const std::pair<const char *, size_t> files[] = {
        {"b", 0}, {"a", 1}, {"c", 2}, {"a", 1}, {"c", 2}, {"b", 0}};
    constexpr const char *pairs[] = {"tree,ll", "tree,ll128", "tree,simple"};
    std::vector<void *> all;

    for (const auto &[file, at] : files) {
        Policy(std::string("allreduce,0,inf,") + pairs[at] + ",-1,-1,-1\n",
               file);
        all.push_back(Init(4, 1));
    }
    for (size_t i = 0; i < all.size(); i++) {
        const Costs costs = Ask(all[i], CostsOf(9, 9, 9, 9));
        for (size_t k = 0; k < 3; k++)
            EXPECT_EQ(k == files[i].second, costs[k] < 9) << i << " " << k;
    }
    for (void *ctx : all)
        v4_->destroy(ctx);
}

// ---- calls by which no collective runs ----

TEST_F(BareInterface, AnswersNothingWhileNcclLooksForSymmetricKernels)
{
    Policy("collective,algorithm,protocol,channels,chunk_bytes\n"
           "allreduce,tree,ll128,4,64K\n");
    setenv("STEPTUNE_AGREE", "assume", 1); // no other rank joins
    const auto *v7 = Tuner<ncclTuner_v7_t>("ncclTunerPlugin_v7");
    ncclTunerConstants_v7_t constants{};
    ncclNvlDomainInfo_v5_t nvl{1, 4, 4};
    void *ctx = nullptr;
    size_t chunk = 1234;
    v7->init(&ctx, id_, 4, 1, nullptr, &nvl, &constants);
    const auto ask = [&](const Costs &costs, int n_pipe_ops) {
        int channels = 0;
        const Costs after =
            Ask(ctx, costs, ncclFuncAllReduce, 64, &channels, n_pipe_ops);
        EXPECT_EQ(costs != after, channels == 4);
        return costs != after;
    };

    EXPECT_TRUE(ask(CostsOf(9, 8, 7, 5), 1));
    EXPECT_FALSE(ask(CostsOf(-1, -1, -1, -1), 0));
    EXPECT_FALSE(ask(CostsOf(-1, -1, -1, -1024), 1));
    EXPECT_FALSE(ask(CostsOf(9, 8, 7, 5), 0));
    v7->getChunkSize(ctx, ncclFuncAllReduce, 64, NCCL_ALGO_TREE,
                     NCCL_PROTO_LL128, 1, &chunk);
    EXPECT_EQ(65536u, chunk) << "of the call that decided";
    v7->finalize(ctx);
}

TEST_F(BareInterface, AnswersWhereAnyEntryIsLeftToChoose)
{
    const struct {
        const char *rule;
        ncclFunc_t coll;
        size_t at; // the first or the last entry
    } cases[] = {
        {"allreduce,0,inf,tree,ll,3,-1,-1\n", ncclFuncAllReduce, 0},
        {"allgather,0,inf,pat,simple,3,-1,-1\n", ncclFuncAllGather, 20}};

    for (const auto &c : cases)
        for (const float cost : {0.0f, -0.0f, 5.0f}) {
            Policy(c.rule);
            Costs costs = CostsOf(-1, -1, -1, -1);
            int channels = 0;
            void *ctx = Init(4, 1);
            costs[c.at] = cost;
            Ask(ctx, costs, c.coll, 64, &channels);
            v4_->destroy(ctx);
            EXPECT_EQ(3, channels) << c.rule << cost;
        }
}

} // namespace
