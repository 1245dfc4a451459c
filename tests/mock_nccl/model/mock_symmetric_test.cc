// Kernels for symmetric windows, compared with NCCL's own code: name, time and
// blocks. 2.31 charges blocks to the time.
#include "support/mock_test.h"

// In C a function and a struct can share a name.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include "machine/machine.h"
#include "model/copy_engine.h"
#include "model/symmetric.h"
}
#pragma GCC diagnostic pop

namespace
{

using namespace mock_test;

struct KernelCase {
    const char *version;
    const char *machine;
    int coll;
    bool fp8;
    size_t n_bytes; // of one rank and all collectives
    int n_works;    // of equal size
    mock_windows windows;
    const char *name;
    float us;
    int n_blocks;
    int n_ranks = 0; // 0: those of the machine
};

mock_model ModelOf(const char *version, const char *machine_name,
                   const char *algo = nullptr, int n_ranks = 0)
{
    Machine machine = LoadMachine(machine_name);
    if (n_ranks != 0)
        machine = Resized(machine, n_ranks);
    const mock_version *v = mock_version_find(version);
    ncclTunerConstants_v7_t constants;
    mock_user_choice choice;
    mock_model model;

    EXPECT_EQ(ncclSuccess, mock_user_choice_parse(v, algo, nullptr, &choice));
    mock_release_constants(v->model.release, &constants);
    mock_model_build(&model, &machine->info, &machine->graphs, &v->model,
                     &constants, &choice);
    return model;
}

TEST(Symmetric, KernelsAreThoseOfNcclToTheLastBit)
{
    // clang-format off
    const KernelCase cases[] = {
        {"2.30", "h100x8", ncclFuncAllGather, false, 1024, 1, MOCK_WINDOWS_NONE, "AllGather_LLMC", 4.96489191f, 3},
        {"2.30", "h100x8", ncclFuncAllReduce, false, 100485120, 1, MOCK_WINDOWS_RECV, "AllReduce_AGxLLMC_R", 21319.459f, 7},
        {"2.30", "h100x8", ncclFuncReduceScatter, false, 513191936, 2, MOCK_WINDOWS_SEND, "ReduceScatter_LDMC", 10752.0254f, 2},
        {"2.30", "h100x8", ncclFuncAllGather, false, 1024, 1, MOCK_WINDOWS_BOTH, "AllGather_LLMC", 4.96489191f, 3},
        {"2.30", "h100x8", ncclFuncAllGather, false, 61297959936, 1, MOCK_WINDOWS_SEND, "none", 0, 0},
        {"2.30", "h100x8", ncclFuncAllReduce, false, 2048, 2, MOCK_WINDOWS_RECV, "none", 0, 0},
        {"2.30", "h100x4", ncclFuncReduceScatter, false, 3072, 1, MOCK_WINDOWS_BOTH, "ReduceScatter_LL", 5.00925493f, 4},
        {"2.30", "h100x4", ncclFuncAllGather, false, 8318976, 1, MOCK_WINDOWS_SEND, "AllGather_LLMC", 883.549194f, 9},
        {"2.30", "h100x4", ncclFuncReduceScatter, false, 2048, 2, MOCK_WINDOWS_SEND, "ReduceScatter_LDMC", 8.12954807f, 1},
        {"2.30", "h100x4", ncclFuncReduceScatter, true, 6429696, 1, MOCK_WINDOWS_NONE, "ReduceScatter_LL", 692.658325f, 9},
        {"2.30", "h100x4", ncclFuncAllReduce, false, 299008, 2, MOCK_WINDOWS_BOTH, "AllReduce_RSxLDMC_AGxSTMC", 8.38484764f, 2},
        {"2.30", "h100x4", ncclFuncAllGather, false, 2048, 2, MOCK_WINDOWS_BOTH, "AllGather_STMC", 8.12954807f, 1},
        {"2.30", "b200x8", ncclFuncAllGather, false, 2048, 2, MOCK_WINDOWS_RECV, "AllGather_STMC", 13.3284063f, 1},
        {"2.30", "b200x8", ncclFuncReduceScatter, true, 208896, 2, MOCK_WINDOWS_NONE, "none", 0, 0},
        {"2.30", "b200x8", ncclFuncReduceScatter, true, 128000, 1, MOCK_WINDOWS_NONE, "ReduceScatter_LL", 24.6952381f, 12},
        {"2.30", "b200x8", ncclFuncAllGather, false, 14895104, 2, MOCK_WINDOWS_BOTH, "AllGather_STMC", 175.284241f, 3},
        {"2.30", "b200x8", ncclFuncAllReduce, false, 268435456, 1, MOCK_WINDOWS_BOTH, "AllReduce_RSxLDMC_AGxSTMC", 299.795929f, 3},
        {"2.30", "b200x8", ncclFuncReduceScatter, true, 2067500032, 1, MOCK_WINDOWS_SEND, "ReduceScatter_LDMC", 22676.5059f, 3},
        {"2.30", "b200x8", ncclFuncAllGather, false, 28278784, 2, MOCK_WINDOWS_SEND, "none", 0, 0},
        {"2.30", "h200x4", ncclFuncReduceScatter, false, 38912, 2, MOCK_WINDOWS_NONE, "none", 0, 0},
        {"2.30", "h200x4", ncclFuncAllGather, false, 125129728, 1, MOCK_WINDOWS_RECV, "AllGather_ST", 1124.4552f, 9},
        {"2.30", "h200x4", ncclFuncAllReduce, false, 4220715008, 1, MOCK_WINDOWS_RECV, "none", 0, 0},
        {"2.30", "h200x4", ncclFuncReduceScatter, false, 2631680, 2, MOCK_WINDOWS_BOTH, "ReduceScatter_LD", 30.3060913f, 9},
        {"2.30", "h200x4", ncclFuncReduceScatter, false, 3321856, 2, MOCK_WINDOWS_SEND, "ReduceScatter_LD", 36.4707222f, 9},
        {"2.30", "h200x4", ncclFuncAllGather, false, 37888, 1, MOCK_WINDOWS_BOTH, "AllGather_ST", 8.40061283f, 3},
        {"2.30", "h200x2", ncclFuncAllReduce, true, 1024, 1, MOCK_WINDOWS_BOTH, "AllReduce_AGxLL_R", 4.89249182f, 1},
        {"2.30", "h200x2", ncclFuncAllGather, false, 14336, 1, MOCK_WINDOWS_BOTH, "AllGather_LL", 5.16812134f, 6},
        {"2.30", "h200x2", ncclFuncReduceScatter, true, 37265408, 2, MOCK_WINDOWS_SEND, "ReduceScatter_LD", 117.75119f, 9},
        {"2.30", "h200x2", ncclFuncAllGather, false, 15230976, 2, MOCK_WINDOWS_NONE, "none", 0, 0},
        {"2.30", "h200x2", ncclFuncReduceScatter, true, 29743183872, 1, MOCK_WINDOWS_RECV, "none", 0, 0},
        {"2.30", "a100x8", ncclFuncAllGather, false, 2048, 2, MOCK_WINDOWS_BOTH, "AllGather_ST", 8.20444965f, 1},
        {"2.30", "a100x8", ncclFuncAllReduce, false, 1737878528, 1, MOCK_WINDOWS_BOTH, "AllReduce_RSxLD_AGxST", 9074.06543f, 7},
        {"2.30", "a100x8", ncclFuncAllGather, false, 1024, 1, MOCK_WINDOWS_SEND, "AllGather_LL", 4.9826231f, 3},
        {"2.30", "a100x8", ncclFuncAllGather, false, 830728192, 1, MOCK_WINDOWS_RECV, "AllGather_ST", 17320.2285f, 9},
        {"2.30", "a100x8", ncclFuncAllGather, false, 1024, 1, MOCK_WINDOWS_BOTH, "AllGather_LL", 4.9826231f, 3},
        {"2.30", "a100x8", ncclFuncAllGather, false, 80153141248, 2, MOCK_WINDOWS_SEND, "none", 0, 0},
        {"2.31", "h100x8", ncclFuncReduceScatter, false, 513191936, 2, MOCK_WINDOWS_SEND, "ReduceScatter_LDMC", 11289.626f, 2},
        {"2.31", "h100x8", ncclFuncAllGather, false, 1024, 1, MOCK_WINDOWS_BOTH, "AllGather_LLMC", 5.41550779f, 4},
        {"2.31", "h100x4", ncclFuncReduceScatter, false, 2048, 2, MOCK_WINDOWS_SEND, "ReduceScatter_LDMC", 8.33278656f, 1},
        {"2.31", "h100x4", ncclFuncAllReduce, false, 299008, 2, MOCK_WINDOWS_BOTH, "AllReduce_RSxLDMC_AGxSTMC", 8.80408955f, 2},
        {"2.31", "h100x4", ncclFuncAllGather, false, 2048, 2, MOCK_WINDOWS_BOTH, "AllGather_STMC", 8.33278656f, 1},
        {"2.31", "h100x4", ncclFuncAllGather, false, 2048, 2, MOCK_WINDOWS_RECV, "AllGather_STMC", 8.33278656f, 1},
        {"2.31", "b200x8", ncclFuncReduceScatter, true, 2067500032, 1, MOCK_WINDOWS_SEND, "ReduceScatter_LDMC", 22829.0254f, 4},
        {"2.31", "b200x8", ncclFuncAllGather, false, 125129728, 1, MOCK_WINDOWS_RECV, "AllGather_STMC", 1508.91736f, 4},
        {"2.31", "b200x8", ncclFuncReduceScatter, false, 2631680, 2, MOCK_WINDOWS_BOTH, "ReduceScatter_LDMC", 42.2418137f, 4},
        {"2.31", "h200x4", ncclFuncAllReduce, true, 1024, 1, MOCK_WINDOWS_BOTH, "AllReduce_AGxLL_R", 5.13807726f, 2},
        {"2.31", "h200x4", ncclFuncAllGather, false, 14336, 1, MOCK_WINDOWS_BOTH, "AllGather_LL", 6.63576126f, 8},
        {"2.31", "h200x4", ncclFuncReduceScatter, true, 37265408, 2, MOCK_WINDOWS_SEND, "ReduceScatter_LD", 418.7836f, 10},
        {"2.31", "h200x2", ncclFuncAllGather, false, 830728192, 1, MOCK_WINDOWS_RECV, "AllGather_ST", 3057.20898f, 10},
        {"2.31", "h200x2", ncclFuncAllGather, false, 1024, 1, MOCK_WINDOWS_BOTH, "AllGather_LL", 5.05752277f, 1},
        {"2.31", "b200x8", ncclFuncAllGather, false, 1159708672, 1, MOCK_WINDOWS_BOTH, "AllGather_TmaST", 2080.99341f, 16, 2},
        {"2.31", "b200x8", ncclFuncAllGather, false, 6239911936, 2, MOCK_WINDOWS_RECV, "AllGather_TmaST", 10982.3154f, 16, 2},
        {"2.31", "b200x8", ncclFuncAllReduce, false, 3390283776, 1, MOCK_WINDOWS_BOTH, "AllReduce_RSxTmaLD_AGxTmaST", 6723.24414f, 14, 2},
        {"2.31", "b200x8", ncclFuncReduceScatter, false, 179939328, 2, MOCK_WINDOWS_SEND, "ReduceScatter_TmaLD", 352.898743f, 14, 2},
        {"2.31", "b200x8", ncclFuncReduceScatter, true, 7687781376, 1, MOCK_WINDOWS_SEND, "ReduceScatter_TmaLD", 14176.1064f, 14, 2},
        {"2.31", "a100x8", ncclFuncReduceScatter, false, 629434368, 1, MOCK_WINDOWS_SEND, "ReduceScatter_LD", 16178.332f, 10},
    };
    // clang-format on

    for (const KernelCase &c : cases) {
        const mock_model model =
            ModelOf(c.version, c.machine, nullptr, c.n_ranks);
        const mock_symmetric_work work{c.coll,    c.fp8,
                                       c.n_bytes, c.n_bytes / (size_t)c.n_works,
                                       c.n_works, c.windows};
        mock_symmetric_kernel kernels[MOCK_MAX_SYMMETRIC];
        const mock_symmetric_kernel *best = mock_symmetric_pick(
            &model, kernels, mock_symmetric_list(&model, &work, kernels));
        const auto i = &c - cases;

        if (best == nullptr) {
            EXPECT_STREQ("none", c.name) << i;
            continue;
        }
        EXPECT_STREQ(c.name, best->name) << i;
        EXPECT_EQ(c.us, c.version == std::string("2.31") ? best->charged_us
                                                         : best->us)
            << i;
        EXPECT_EQ(c.n_blocks, best->n_blocks) << i;
    }
}

// A node of GPUs that NVLink joins, of which 'n_ranks' have NVLS.
mock_model NodeOf(const char *version, int compute_capability, int n_ranks)
{
    mock_model model{};

    model.rules = &mock_version_find(version)->model;
    model.all_nvlink = true;
    model.compute_capability = compute_capability;
    model.n_ranks = n_ranks;
    model.n_nodes = 1;
    model.n_nvls_channels = 16;
    return model;
}

std::vector<mock_symmetric_kernel> KernelsOf(const mock_model &model,
                                             const mock_symmetric_work &work)
{
    std::vector<mock_symmetric_kernel> kernels(MOCK_MAX_SYMMETRIC);

    kernels.resize(mock_symmetric_list(&model, &work, kernels.data()));
    return kernels;
}

struct Predicted {
    std::string name;
    float us;
    int n_blocks;
};

// queryModel_lsa() of NCCL 2.30.7, also of the kernels that lose.
TEST(Symmetric, EveryKernelHasNcclsPrediction)
{
    const struct {
        int compute_capability, n_ranks, coll;
        size_t n_bytes;
        std::vector<Predicted> want;
    } cases[] = {
        // clang-format off
        {90, 8, ncclFuncAllReduce, 1048576,
         {{"AllReduce_AGxLL_R", 228.587448f, 7},
          {"AllReduce_AGxLLMC_R", 225.934952f, 7},
          {"AllReduce_RSxLD_AGxST", 12.2822475f, 7},
          {"AllReduce_RSxLDMC_AGxSTMC", 9.44534492f, 1}}},
        {90, 6, ncclFuncAllReduce, 134217728,
         {{"AllReduce_AGxLL_R", 21611.8945f, 7},
          {"AllReduce_AGxLLMC_R", 21357.2559f, 7},
          {"AllReduce_RSxLD_AGxST", 673.725769f, 7},
          {"AllReduce_RSxLDMC_AGxSTMC", 311.024963f, 2}}},
        {100, 8, ncclFuncAllReduce, 1048576,
         {{"AllReduce_AGxLL_R", 128.452621f, 13},
          {"AllReduce_AGxLLMC_R", 130.109451f, 11},
          {"AllReduce_RSxLD_AGxST", 21.8196049f, 10},
          {"AllReduce_RSxLDMC_AGxSTMC", 20.3297939f, 2}}},
        {100, 5, ncclFuncAllReduce, 134217728,
         {{"AllReduce_AGxLL_R", 9486.20996f, 13},
          {"AllReduce_AGxLLMC_R", 9618.75586f, 11},
          {"AllReduce_RSxLD_AGxST", 355.431885f, 13},
          {"AllReduce_RSxLDMC_AGxSTMC", 169.751297f, 4}}},
        {90, 8, ncclFuncAllGather, 1048576,
         {{"AllGather_LL", 228.280426f, 9},
          {"AllGather_LLMC", 225.353851f, 9},
          {"AllGather_ST", 28.6536522f, 9},
          {"AllGather_STMC", 28.7551098f, 2}}},
        {90, 6, ncclFuncAllGather, 134217728,
         {{"AllGather_LL", 21582.4219f, 9},
          {"AllGather_LLMC", 21301.4707f, 9},
          {"AllGather_ST", 2004.84827f, 9},
          {"AllGather_STMC", 1978.83423f, 3}}},
        {100, 8, ncclFuncAllGather, 1048576,
         {{"AllGather_LL", 125.952621f, 13},
          {"AllGather_LLMC", 127.609451f, 11},
          {"AllGather_ST", 23.7039623f, 12},
          {"AllGather_STMC", 23.4948063f, 3}}},
        {100, 5, ncclFuncAllGather, 134217728,
         {{"AllGather_LL", 9483.70996f, 13},
          {"AllGather_LLMC", 9616.25586f, 11},
          {"AllGather_ST", 854.329712f, 13},
          {"AllGather_STMC", 849.689636f, 5}}},
        {90, 8, ncclFuncReduceScatter, 1048576,
         {{"ReduceScatter_LL", 228.280426f, 9},
          {"ReduceScatter_LD", 28.6536522f, 9},
          {"ReduceScatter_LDMC", 28.7551098f, 2}}},
        {90, 6, ncclFuncReduceScatter, 134217728,
         {{"ReduceScatter_LL", 21582.4219f, 9},
          {"ReduceScatter_LD", 2004.84827f, 9},
          {"ReduceScatter_LDMC", 1978.83423f, 3}}},
        {100, 8, ncclFuncReduceScatter, 1048576,
         {{"ReduceScatter_LL", 128.452621f, 13},
          {"ReduceScatter_LD", 23.7039623f, 12},
          {"ReduceScatter_LDMC", 23.4948063f, 3}}},
        {100, 5, ncclFuncReduceScatter, 134217728,
         {{"ReduceScatter_LL", 9486.20996f, 13},
          {"ReduceScatter_LD", 854.329712f, 13},
          {"ReduceScatter_LDMC", 849.689636f, 5}}},
        // clang-format on
    };

    for (const auto &c : cases) {
        const std::vector<mock_symmetric_kernel> got = KernelsOf(
            NodeOf("2.30", c.compute_capability, c.n_ranks),
            {c.coll, false, c.n_bytes, c.n_bytes, 1, MOCK_WINDOWS_BOTH});

        ASSERT_EQ(c.want.size(), got.size()) << &c - cases;
        for (size_t i = 0; i < got.size(); i++) {
            EXPECT_EQ(c.want[i].name, got[i].name);
            EXPECT_FLOAT_EQ(c.want[i].us, got[i].us) << got[i].name;
            EXPECT_EQ(c.want[i].n_blocks, got[i].n_blocks) << got[i].name;
            EXPECT_FLOAT_EQ(c.want[i].us *
                                (1 + .025f * (float)c.want[i].n_blocks),
                            got[i].charged_us)
                << got[i].name;
            EXPECT_EQ(got[i].name != nullptr &&
                          std::string(got[i].name).find("LL") !=
                              std::string::npos,
                      got[i].is_ll);
        }
    }
}

TEST(Symmetric, OfEqualKernelsTheFirstIsTakenUpTo2_30AndThenTheLast)
{
    const mock_symmetric_kernel kernels[] = {{"slow", false, 1, 1, 3},
                                             {"first", false, 1, 1, 2},
                                             {"last", false, 1, 1, 2},
                                             {"slower", false, 1, 1, 4}};
    const mock_model old = NodeOf("2.30", 90, 8);
    const mock_model later = NodeOf("2.31", 90, 8);

    EXPECT_STREQ("first", mock_symmetric_pick(&old, kernels, 4)->name);
    EXPECT_STREQ("last", mock_symmetric_pick(&later, kernels, 4)->name);
    EXPECT_EQ(nullptr, mock_symmetric_pick(&old, kernels, 0));
    EXPECT_EQ(nullptr, mock_symmetric_pick(&later, kernels, 0));
}

TEST(Symmetric, AListOfAlgorithmsRulesKernelsOutFrom2_31)
{
    const mock_symmetric_work work{ncclFuncAllReduce, false, 1024, 1024, 1,
                                   MOCK_WINDOWS_BOTH};
    mock_symmetric_kernel kernels[MOCK_MAX_SYMMETRIC];
    const struct {
        const char *version;
        const char *algo;
        size_t n;
    } cases[] = {{"2.30", nullptr, 4}, {"2.30", "ring", 4},
                 {"2.31", nullptr, 4}, {"2.31", "ring", 0},
                 {"2.31", "^tree", 0}, {"2.31", "^pat", 0},
                 {"2.31", "^", 4},     {"2.31", "allgather:ring", 4}};

    for (const auto &c : cases) {
        const mock_model model = ModelOf(c.version, "h100x8", c.algo);
        EXPECT_EQ(c.n, mock_symmetric_list(&model, &work, kernels))
            << c.version;
    }
}

TEST(Symmetric, KernelsAreComparedFrom2_29OnAndCopiesFrom2_31On)
{
    const struct {
        const char *version;
        size_t n_kernels, n_copies;
    } cases[] = {{"2.26", 0, 0}, {"2.28", 0, 0}, {"2.29", 2, 0},
                 {"2.30", 2, 0}, {"2.31", 2, 1}, {"2.32", 2, 1}};
    Machine machine = LoadMachine("h200x4");
    const mock_call reduce = Call(ncclFuncAllReduce, 1 << 20);
    const mock_call gather = Call(ncclFuncAllGather, 1 << 20);

    for (const auto &c : cases) {
        Nccl nccl = MakeNccl({c.version});
        Comm comm = MakeComm(nccl, machine);
        mock_symmetric_kernel kernels[MOCK_MAX_SYMMETRIC];
        mock_copy copies[MOCK_MAX_COPIES];
        EXPECT_EQ(c.n_kernels, mock_comm_kernels(comm.get(), &reduce, kernels))
            << c.version;
        EXPECT_EQ(c.n_copies, mock_comm_copies(comm.get(), &gather, copies))
            << c.version;
        EXPECT_EQ(0u, mock_comm_copies(comm.get(), &reduce, copies));
    }
}

} // namespace
