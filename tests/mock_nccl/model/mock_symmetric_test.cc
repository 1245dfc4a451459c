// Kernels for symmetric windows, compared with NCCL's own code: name, time and
// blocks. 2.31 charges blocks to the time.
#include "support/mock_test.h"

// In C a function and a struct can share a name.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include "machine/machine.h"
#include "model/symmetric.h"
}
#pragma GCC diagnostic pop

namespace
{

using namespace mock_test;

constexpr const char *kWindows[] = {"none", "both", "send", "recv"};

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
    for (const Row &row : ReadCsv(STP_FIXTURES "/cost_models/symmetric.csv")) {
        const auto number = [&](const char *name) {
            return std::stoull(row.at(name));
        };
        const mock_model model =
            ModelOf(row.at("version").c_str(), row.at("machine").c_str(),
                    nullptr, (int)number("ranks"));
        const mock_symmetric_work work{
            Find(kColls, row.at("collective")),
            row.at("fp8") == "1",
            number("bytes"),
            number("bytes") / number("works"),
            (int)number("works"),
            static_cast<mock_windows>(Find(kWindows, row.at("windows")))};
        mock_symmetric_kernel kernels[MOCK_MAX_SYMMETRIC];
        const mock_symmetric_kernel *best = mock_symmetric_pick(
            &model, kernels, mock_symmetric_list(&model, &work, kernels));
        SCOPED_TRACE(row.at("version") + " " + row.at("machine") + " " +
                     row.at("collective") + " " + row.at("bytes"));

        if (best == nullptr) {
            EXPECT_EQ("none", row.at("kernel"));
            continue;
        }
        EXPECT_EQ(row.at("kernel"), best->name);
        EXPECT_EQ(std::stof(row.at("us")),
                  row.at("version") == "2.31" ? best->charged_us : best->us);
        EXPECT_EQ((int)number("blocks"), best->n_blocks);
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
    model.min_ctas = 1;
    model.max_ctas = 64;
    return model;
}

std::vector<mock_symmetric_kernel> KernelsOf(const mock_model &model,
                                             const mock_symmetric_work &work)
{
    std::vector<mock_symmetric_kernel> kernels(MOCK_MAX_SYMMETRIC);

    kernels.resize(mock_symmetric_list(&model, &work, kernels.data()));
    return kernels;
}

TEST(Symmetric, KernelsHaveTheBlocksThatTheCommunicatorAllows)
{
    for (const Row &row :
         ReadCsv(STP_FIXTURES "/cost_models/symmetric_ctas.csv")) {
        const size_t n_bytes = std::stoull(row.at("bytes"));
        mock_model model = NodeOf(row.at("version").c_str(),
                                  std::stoi(row.at("compute_capability")),
                                  std::stoi(row.at("ranks")));
        model.min_ctas = std::stoi(row.at("min_ctas"));
        model.max_ctas = std::stoi(row.at("max_ctas"));
        std::string got = "none";
        for (const mock_symmetric_kernel &kernel :
             KernelsOf(model, {Find(kColls, row.at("collective")), false,
                               n_bytes, n_bytes, 1, MOCK_WINDOWS_BOTH}))
            if (kernel.name == row.at("kernel") &&
                kernel.us == std::stof(row.at("us")))
                got = std::to_string(kernel.n_blocks);
        EXPECT_EQ(row.at("blocks"), got)
            << row.at("version") << " " << row.at("kernel") << " " << n_bytes;
    }
}

TEST(Symmetric, EveryKernelHasNcclsPrediction)
{
    std::vector<mock_symmetric_kernel> got;
    size_t i = 0;

    for (const Row &row :
         ReadCsv(STP_FIXTURES "/cost_models/symmetric_all.csv")) {
        const size_t n_bytes = std::stoull(row.at("bytes"));
        if (i == got.size()) {
            i = 0;
            got = KernelsOf(NodeOf("2.30",
                                   std::stoi(row.at("compute_capability")),
                                   std::stoi(row.at("ranks"))),
                            {Find(kColls, row.at("collective")), false, n_bytes,
                             n_bytes, 1, MOCK_WINDOWS_BOTH});
        }
        ASSERT_LT(i, got.size()) << row.at("kernel");
        const mock_symmetric_kernel &kernel = got[i++];
        const float us = std::stof(row.at("us"));
        EXPECT_EQ(row.at("kernel"), kernel.name);
        EXPECT_FLOAT_EQ(us, kernel.us) << kernel.name;
        EXPECT_EQ(std::stoi(row.at("blocks")), kernel.n_blocks) << kernel.name;
        EXPECT_FLOAT_EQ(us * (1 + .025f * (float)kernel.n_blocks),
                        kernel.charged_us)
            << kernel.name;
        EXPECT_EQ(row.at("kernel").find("LL") != std::string::npos,
                  kernel.is_ll);
    }
    EXPECT_EQ(got.size(), i);
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
