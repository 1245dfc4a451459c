// Modelled times: the cost of fewer channels, and calibrations.

#include "support/mock_folder.h"
#include "support/mock_times.h"

using namespace mock_test;

namespace
{

mock_run OfPair(int algo, int proto, size_t n_bytes, int n_channels)
{
    return {ncclFuncAllReduce, n_bytes, algo, proto, n_channels};
}

// Measured by NVIDIA's nccl-tests with NVIDIA's example tuner, which forces one
// channel: 8 MiB as ring/ll128 and 64 MiB as ring/simple, 4 x H200.
TEST(FewerChannels, ComeCloseToWhatOneChannelCostOnGpus)
{
    Folder folder; // an h200x4 without its times
    Machine machine = LoadFolder(folder.Path());

    EXPECT_NEAR(
        1, Mean(machine, RingOf(8 * kMiB, NCCL_PROTO_LL128, 1)).us / 675.95,
        .05);
    EXPECT_NEAR(1, Mean(machine, Simple(64 * kMiB, 1)).us / 4046.26, .1);
}

TEST(FewerChannels, ComeCloseToTheRecordedOnes)
{
    Folder folder;
    Machine recorded = LoadMachine("h200x4");
    Machine modelled = LoadFolder(folder.Path());

    for (int proto : {NCCL_PROTO_LL, NCCL_PROTO_LL128, NCCL_PROTO_SIMPLE})
        for (int algo : {NCCL_ALGO_TREE, NCCL_ALGO_RING})
            for (int n : {1, 2, 4, 8, 16}) {
                auto ratio = [&](const Machine &machine) {
                    return Mean(machine, OfPair(algo, proto, 64 * kMiB, n)).us /
                           Mean(machine, OfPair(algo, proto, 64 * kMiB, 0)).us;
                };
                EXPECT_NEAR(1, ratio(modelled) / ratio(recorded), .25)
                    << algo << " " << proto << " " << n;
            }
}

TEST(Modelled, TimesSayThatTheyAre)
{
    Machine machine = LoadMachine("h100x8");
    const mock_run run = Simple(kMiB);
    mock_time mean{-1, MOCK_TIME_RECORDED, true, "other"};
    mock_time at{-1, MOCK_TIME_RECORDED, true, "other"};

    EXPECT_EQ(ncclSuccess, mock_machine_mean_time(machine.get(), &run, &mean));
    EXPECT_EQ(ncclSuccess, mock_machine_time(machine.get(), &run, 0, 0, &at));

    for (const mock_time &time : {mean, at}) {
        EXPECT_LT(0, time.us);
        EXPECT_EQ(MOCK_TIME_MODELLED, time.source);
        EXPECT_FALSE(time.is_single_pass);
        EXPECT_STREQ("", time.kernel);
    }
}

TEST(RegisteredBuffers, AreOnNoMachineModelled)
{
    Machine machine = LoadMachine("h100x8");

    for (int way = MOCK_WAY_REG; way < MOCK_NUM_WAYS; way++) {
        mock_time time{};
        const mock_run run{ncclFuncAllReduce, kMiB, way, 0, 0};

        EXPECT_EQ(ncclInvalidArgument,
                  mock_machine_time(machine.get(), &run, 0, 0, &time));
        EXPECT_STREQ("no time for allreduce of registered buffers: none was "
                     "recorded on h100x8, and none is modelled",
                     mock_last_error());
    }
}

// ---- calibrations ----

constexpr char kCalibrationHeader[] =
    "collective,algorithm,protocol,launch_us,latency,bandwidth,copy,source\n";

// A folder of the machine, with this calibration or without one.
void Write(const Folder &folder, const std::string &machine,
           const std::string &rows)
{
    folder.WriteAs(machine, "2.28.9");
    folder.Remove("calibration.csv");
    if (!rows.empty())
        folder.Write("calibration.csv", kCalibrationHeader + rows);
}

TEST(Calibration, ScalesTheStepsAndTheDataOfAModelledTime)
{
    const Folder folder;
    Write(folder, "h100x8", "");
    const Machine plain = LoadFolder(folder.Path());
    Write(folder, "h100x8",
          "allreduce,ring,simple,5,2,1.5,0.25,us\n"
          "allreduce,ring,ll,,,,3,us\n");
    const Machine whole = LoadFolder(folder.Path());
    EXPECT_STREQ("us", mock_machine_get_info(whole.get())->calibration);

    for (int n : {2, 3, 8}) {
        const Machine before = Resized(plain, n);
        const Machine after = Resized(whole, n);
        // 2 (n - 1) steps of 3.4 or .6 us beside NCCL's 8.4 or 6.6
        const double steps = 2 * (n - 1) * 3.4;
        const double all = 1. * n / (n - 1);
        for (int channels : {0, 4})
            EXPECT_NEAR(
                5 + 2 * steps +
                    (1.5 + .25 * all) *
                        (Mean(before, Simple(kMiB, channels)).us - steps - 8.4),
                Mean(after, Simple(kMiB, channels)).us, 1e-3)
                << n << " " << channels;
        EXPECT_NEAR(3 * all *
                        (Mean(before, Ll(kMiB)).us - 2 * (n - 1) * .6 - 6.6),
                    Mean(after, Ll(kMiB)).us, 1e-3);
        for (int proto : {NCCL_PROTO_LL128, NCCL_PROTO_SIMPLE}) {
            const mock_run other{ncclFuncAllGather, kMiB, NCCL_ALGO_RING, proto,
                                 0};
            EXPECT_EQ(Mean(before, other).us, Mean(after, other).us);
        }
        EXPECT_EQ(MOCK_TIME_MODELLED, Mean(after, Ll(kMiB)).source);
    }
}

// Everything that NCCL says to a tuner and does afterwards.
TEST(Calibration, ChangesNoCostAndNoChoice)
{
    for (const char *name : {"a100x8", "b200x8", "h100x4", "h100x8"})
        for (const char *version : {"2.21", "2.24", "2.27", "2.28", "2.29",
                                    "2.30", "2.31", "2.32.6"}) {
            const Folder folder;
            Write(folder, name, "");
            const Nccl nccl = MakeNccl({.version = version});
            const Machine plain = LoadFolder(folder.Path());
            const Machine calibrated = LoadMachine(name);
            EXPECT_STRNE("",
                         mock_machine_get_info(calibrated.get())->calibration);
            for (int n : {2, 4}) {
                const Machine machines[] = {Resized(plain, n),
                                            Resized(calibrated, n)};
                const Comm comms[] = {MakeComm(nccl, machines[0]),
                                      MakeComm(nccl, machines[1])};
                for (int coll = 0; coll < NCCL_NUM_TUNED_FUNCS; coll++)
                    for (double bytes = 8; bytes < 1 << 30; bytes *= 1.3) {
                        const mock_call call =
                            Call(static_cast<ncclFunc_t>(coll),
                                 static_cast<size_t>(bytes) / 8 * 8);
                        mock_outcome out[2] = {};
                        for (int i : {0, 1})
                            ASSERT_EQ(ncclSuccess,
                                      mock_comm_collective(comms[i].get(),
                                                           &call, &out[i]));
                        ASSERT_EQ(0, memcmp(out[0].cost, out[1].cost,
                                            sizeof(out[0].cost)));
                        ASSERT_EQ(std::make_tuple(out[0].algo, out[0].proto,
                                                  out[0].n_channels),
                                  std::make_tuple(out[1].algo, out[1].proto,
                                                  out[1].n_channels));
                    }
            }
        }
}

TEST(Calibration, OfBadRowsIsRefused)
{
    const std::pair<const char *, const char *> cases[] = {
        {"allreduce,ring,ll,1,1,1,,a\nallreduce,ring,ll128,1,1,1,,b\n",
         ":3: column 'source': 'b', but 'a' above"},
        {"allreduce,ring,ll,1,1,1,,a\nallreduce,ring,ll,1,1,1,,a\n",
         ":3: a second row of allreduce with ring/ll"},
        {"allreduce,ring,ll,1,1,,,a\n", ":2: neither 'bandwidth' nor 'copy'"},
        {"allreduce,ring,ll,-1,1,1,,a\n",
         ":2: column 'launch_us': '-1' is not a number above 0"},
    };

    for (const auto &[rows, error] : cases) {
        const Folder folder;
        mock_machine *machine = nullptr;
        Write(folder, "h100x8", rows);
        EXPECT_EQ(ncclInvalidArgument,
                  mock_machine_load(folder.Path().c_str(), &machine));
        EXPECT_EQ(folder.Path() + "/calibration.csv" + error,
                  mock_last_error());
    }
    for (const auto &[name, what] :
         {std::pair("h100n2x8", "nodes"), {"h200x2", "recorded times"}}) {
        const Folder folder;
        mock_machine *machine = nullptr;
        Write(folder, name, "allreduce,ring,ll,1,1,1,,a\n");
        if (*what == 'r')
            folder.Write("timings.csv",
                         ReadFile(STP_FIXTURES "/machines/h200x2/timings.csv"));
        EXPECT_EQ(ncclInvalidArgument,
                  mock_machine_load(folder.Path().c_str(), &machine));
        EXPECT_EQ(folder.Path() + "/calibration.csv: a calibration of " + what +
                      ", expected a machine of one node without timings.csv",
                  mock_last_error());
    }
}

} // namespace
