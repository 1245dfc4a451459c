// steptune doctor, in a system that is made up: no test sees the real one.
#include "support/cli_fixture.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

class CliDoctor : public Cli
{
  protected:
    void SetUp() override
    {
        Cli::SetUp();
        for (const char *folder : {"root/dev/shm", "root/etc", "home", "lib"})
            fs::create_directories(dir_ / folder);
        fs::copy(STP_FAKE_NCCL, dir_ / "lib/libnccl.so.2");
        Set("STEPTUNE_ROOT", (dir_ / "root").string());
        Set("HOME", (dir_ / "home").string());
        Set("LD_LIBRARY_PATH", (dir_ / "lib").string() + ":" +
                                   fs::path(STP_PLUGIN).parent_path().string());
        Set("NCCL_TUNER_PLUGIN", "steptune");
        Write("nccl_tuner.conf", "allreduce,0,inf,tree,ll,-1,-1,-1\n");
    }

    // What is found of a level, each with its reason and remedy, a line each.
    std::string Found(const char *level, const std::string &options = "")
    {
        Outcome o = Run("doctor --json " + options);
        Json root = Parse(o.out);
        double problems = Number(root.get(), "problems");
        std::string found;
        const cJSON *row;
        cJSON_ArrayForEach(row, cJSON_GetObjectItem(root.get(), "findings"))
        {
            if (String(row, "level") == level)
                found += String(row, "what") + "|" + String(row, "why") + "|" +
                         String(row, "do") + "\n";
        }
        EXPECT_THAT(o.err, IsEmpty());
        EXPECT_EQ(problems > 0 ? 1 : 0, o.status);
        return found;
    }

    void MakeGpu(const char *number, const char *model)
    {
        const std::string folder =
            std::string("root/proc/driver/nvidia/gpus/") + number;
        fs::create_directories(dir_ / folder);
        Write((folder + "/information").c_str(),
              std::string("Model: \t\t ") + model + "\n");
    }
};

TEST_F(CliDoctor, HasNothingToSayWhereAllIsWell)
{
    Outcome o = Run("doctor");

    EXPECT_EQ(0, o.status) << o.out;
    EXPECT_THAT(
        o.out, AllOf(HasSubstr("ok       NCCL 2.28.9: " +
                               (dir_ / "lib/libnccl.so.2").string() +
                               " (in LD_LIBRARY_PATH)\n"),
                     HasSubstr("ok       NCCL 2.28.9 loads tuner 'steptune' by "
                               "NCCL_TUNER_PLUGIN=steptune, and takes "
                               "ncclTunerPlugin_v5\n"),
                     HasSubstr("ok       glibc "),
                     HasSubstr("ok       no variable overrides the plugin\n"),
                     HasSubstr("ok       policy nccl_tuner.conf is valid: 1 "
                               "rule, all for the GPU here (not known)\n"),
                     HasSubstr("ok       no variable switches off a fast path "
                               "of NCCL\n"),
                     HasSubstr("root/dev/shm has "),
                     HasSubstr("\nproblems: 0, notes: 0, ok: 8\n")));
    EXPECT_THAT(o.out, Not(HasSubstr("why:")));
}

// ---- GPUs and transports ----

TEST_F(CliDoctor, TellsAHostWithoutAGpuFromOneWhoseGpusDoNotAnswer)
{
    EXPECT_THAT(Found("ok"),
                HasSubstr("no GPU here: --on plays recorded machines, which "
                          "`steptune machines` lists||\n"));

    fs::create_directories(dir_ / "root/proc/driver/nvidia");
    Write("root/proc/driver/nvidia/version",
          "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Sat\n");
    EXPECT_THAT(Found("problem"),
                AllOf(StartsWith("driver 570.86.15 is loaded, but Steptune "
                                 "sees no GPU|"),
                      HasSubstr("|look at CUDA_VISIBLE_DEVICES and "
                                "nvidia-smi\n")));
}

TEST_F(CliDoctor, TriesATransportWithTwoRanks)
{
#ifdef STP_HAS_GLOO
    EXPECT_THAT(
        Found("ok", "--backend gloo"),
        ContainsRegex("^gloo works: 2 ranks on .+, [0-9]+ all-reduces "
                      "of 8 bytes to 4 MiB, 0 wrong elements\\|\\|\n$"));
    EXPECT_THAT(Run("doctor --backend gloo").out,
                EndsWith("\n\nproblems: 0, notes: 0, ok: 1\n"));
#endif
}

TEST_F(CliDoctor, SaysWhatATransportLacks)
{
    EXPECT_THAT(Found("problem", "--backend nccl"),
                StartsWith("nccl does not work here|"));
    EXPECT_EQ(2, Run("doctor --backend ucx").status);
    // a copy of the program without any module beside it
    fs::create_directories(dir_ / "alone/bin");
    fs::copy(STP_STEPTUNE, dir_ / "alone/bin/steptune");
    const std::string text =
        "cd '" + dir_.string() +
        "' && ./alone/bin/steptune doctor --backend gloo >out 2>&1";
    EXPECT_EQ(1, WEXITSTATUS(std::system(text.c_str())));
    EXPECT_EQ("problem  gloo does not work here\n"
              "         why: there is no steptune-gloo.so beside this program\n"
              "         do:  install Gloo and OpenBLAS (Debian: libgloo-dev "
              "libopenblas-dev), and build Steptune again\n"
              "\nproblems: 1, notes: 0, ok: 0\n",
              Read("out"));
}

// ---- libnccl ----

struct FindingCase {
    const char *value;
    const char *level;
    const char *found;
};

TEST_F(CliDoctor, KnowsWhatEachNcclTakes)
{
    const FindingCase cases[] = {
        {"22105", "ok",
         "NCCL 2.21.5 loads tuner 'steptune' by "
         "NCCL_TUNER_PLUGIN=steptune, and takes "
         "ncclTunerPlugin_v2|"},
        {"22304", "ok", "takes ncclTunerPlugin_v3|"},
        {"22707", "ok", "takes ncclTunerPlugin_v4|"},
        {"22903", "ok", "takes ncclTunerPlugin_v5|"},
        {"21805", "problem", "|it takes no tuner of ours|"},
        {"23500", "note", "|it is newer than what Steptune knows"},
        {"0", "problem", "libnccl.so.2 (in LD_LIBRARY_PATH) does not open: "},
        {"crash", "problem", "does not open: it crashed (Aborted)|"},
    };

    for (const FindingCase &c : cases) {
        Set("FAKE_NCCL", c.value);
        EXPECT_THAT(Found(c.level), HasSubstr(c.found)) << c.value;
    }
}

TEST_F(CliDoctor, LooksWherePyTorchHasItsOwn)
{
    const std::string site =
        "root/usr/local/lib/python3.12/dist-packages/nvidia/nccl/lib";
    fs::create_directories(dir_ / site);
    fs::rename(dir_ / "lib/libnccl.so.2", dir_ / site / "libnccl.so.2");

    EXPECT_THAT(Found("ok"), HasSubstr(site + "/libnccl.so.2 (PyTorch's)|"));
    fs::remove_all(dir_ / "root/usr");
    EXPECT_THAT(Found("problem"), HasSubstr("no libnccl.so.2 found|"));
}

TEST_F(CliDoctor, TriesTheOneThatSteptuneUses)
{
    Set("STEPTUNE_NCCL", "/nowhere/libnccl.so");

    EXPECT_THAT(Found("problem"),
                HasSubstr("/nowhere/libnccl.so (STEPTUNE_NCCL, for steptune "
                          "itself) does not open: /nowhere/libnccl.so: "));
}

// ---- the plugin ----

TEST_F(CliDoctor, LoadsWhatNcclWouldLoad)
{
    const FindingCase cases[] = {
        {"", "note",
         "NCCL_TUNER_PLUGIN is not set; NCCL 2.28.9 would take "
         "ncclTunerPlugin_v5 of " STP_PLUGIN
         "|NCCL tunes alone|set NCCL_TUNER_PLUGIN=" STP_PLUGIN},
        {STP_PLUGIN, "ok", "NCCL 2.28.9 loads tuner 'steptune'"},
        {"absent", "problem",
         "NCCL 2.28.9 finds no tuner for NCCL_TUNER_PLUGIN=absent|NCCL tunes "
         "alone|set NCCL_TUNER_PLUGIN=" STP_PLUGIN ", or add its folder to "
         "LD_LIBRARY_PATH"},
        {STP_ONE_CHANNEL, "problem", "(the environment) is another tuner, '"},
    };

    for (const FindingCase &c : cases) {
        Set("NCCL_TUNER_PLUGIN", c.value);
        EXPECT_THAT(Found(c.level), HasSubstr(c.found)) << c.value;
    }
}

TEST_F(CliDoctor, ANameNeedsThePluginsFolderOnTheLinkersPath)
{
    Set("LD_LIBRARY_PATH", (dir_ / "lib").string());

    EXPECT_THAT(Found("problem"),
                HasSubstr("finds no tuner for NCCL_TUNER_PLUGIN=steptune|"));
}

// ---- variables ----

TEST_F(CliDoctor, ListsWhatOverridesThePluginAndWhereItIsSet)
{
    Set("NCCL_ALGO", "tree");
    Write("home/.nccl.conf", "# NCCL_CTA_POLICY=1\n"
                             "NCCL_ALGO=ring\n"
                             "NCCL_NVLS_ENABLE=1\n");
    Write("root/etc/nccl.conf", "NCCL_NVLS_ENABLE=0\nNCCL_PROTO=LL\n");

    const std::string problems = Found("problem");
    const std::string notes = Found("note");

    EXPECT_THAT(problems,
                HasSubstr("NCCL_ALGO=tree is set in the environment|NCCL "
                          "rules out all else"));
    EXPECT_THAT(problems,
                HasSubstr("NCCL_PROTO=LL is set in " +
                          (dir_ / "root/etc/nccl.conf").string() + ":2|"));
    EXPECT_THAT(notes, HasSubstr("NCCL_NVLS_ENABLE=1 is set in " +
                                 (dir_ / "home/.nccl.conf").string() + ":3|"));
    EXPECT_THAT(problems + notes, Not(HasSubstr("NCCL_CTA_POLICY")));
}

// ---- fast paths ----

TEST_F(CliDoctor, NamesFastPathsThatAreSwitchedOff)
{
    STP_SLOW();
    const char *const unmeasured = "|what that costs was not measured here|"
                                   "unset it, or measure ";
    const struct {
        const char *name, *off;
        std::vector<const char *> on;
        const char *path, *how;
    } cases[] = {
        {"NCCL_CUMEM_ENABLE",
         "0",
         {"1", "-2", "", "no"},
         "symmetric memory: NCCL's symmetric kernels and copy engines",
         "without it by `steptune sweep --arms all,memory`"},
        {"NCCL_WIN_ENABLE",
         "0x0",
         {"1"},
         "symmetric memory: NCCL's symmetric kernels and copy engines",
         "without it by `steptune sweep --arms all,memory`"},
        {"NCCL_LOCAL_REGISTER",
         "0",
         {"1"},
         "ncclCommRegister()",
         "without it by `steptune sweep"},
        {"NCCL_GRAPH_REGISTER",
         "0",
         {"1"},
         "registration of the buffers of CUDA graphs",
         "a job with it and without it by `steptune compare --env`"},
        {"NCCL_NVLS_ENABLE",
         "0",
         {"1", "2"},
         "NVLS, so that rules for nvls and nvls_tree never decide",
         "without it by `steptune sweep"},
        {"NCCL_P2P_DISABLE",
         "1",
         {"0", "2"},
         "direct access of GPUs to each other, over NVLink and PCIe, and "
         "symmetric memory",
         "a job with it"},
        {"NCCL_P2P_LEVEL",
         "LOC",
         {"NVL", "SYS", "1"},
         "direct access of GPUs to each other, over NVLink and PCIe, and "
         "symmetric memory",
         "a job with it"},
        {"NCCL_P2P_DIRECT_DISABLE",
         "1",
         {"0"},
         "copies without a buffer between GPUs of one process",
         "a job with "},
        {"NCCL_SHM_DISABLE",
         "1",
         {"0"},
         "shared memory, so that GPUs of a host without direct access to each "
         "other talk over the network",
         "a job with it"},
        {"NCCL_MNNVL_ENABLE",
         "0",
         {"2"},
         "NVLink between hosts",
         "a job with it"},
        {"NCCL_IB_DISABLE",
         "1",
         {"0"},
         "InfiniBand and RoCE, so that hosts talk over sockets",
         "a job with it"},
        {"NCCL_NET_GDR_LEVEL",
         "0",
         {"PIX", "5"},
         "GPUDirect RDMA, so that data for other hosts go through host memory",
         "a job with it"},
    };

    for (const auto &c : cases) {
        Set(c.name, c.off);
        EXPECT_THAT(Found("note"),
                    StartsWith(std::string(c.name) + "=" + c.off +
                               " (the environment) switches off " + c.path +
                               unmeasured + c.how));
        for (const char *value : c.on) {
            Set(c.name, value);
            EXPECT_THAT(Found("ok"),
                        HasSubstr("no variable switches off a fast path of "
                                  "NCCL||\n"))
                << c.name << "=" << value;
        }
        unsetenv(c.name);
    }
}

const char kMeasured[] = "collective,bytes,round,algorithm,protocol,channels,"
                         "nNodes,nRanks,median_us,ran_algorithm,ran_protocol,"
                         "source\n";

TEST_F(CliDoctor, PricesByMeasurementsWhatIsSwitchedOff)
{
    Set("NCCL_NVLS_ENABLE", "0");
    Set("NCCL_SHM_DISABLE", "1");
    // AUTO is nvls itself, another arm is, none is faster, and three that say
    // nothing: a model's, a message with nvls alone, and one where NCCL ran
    // something else
    Write("m.csv",
          kMeasured +
              std::string(
                  "allreduce,1024,0,auto,auto,0,1,8,10,nvls,simple,measured\n"
                  "allreduce,1024,0,ring,ll,0,1,8,15,ring,ll,measured\n"
                  "allreduce,2048,0,auto,auto,0,1,8,20,ring,ll,recorded\n"
                  "allreduce,2048,0,nvls,simple,0,1,8,10,nvls,simple,recorded\n"
                  "allreduce,4096,0,auto,auto,0,1,8,20,ring,ll,measured\n"
                  "allreduce,4096,0,nvls,simple,0,1,8,20,nvls,simple,measured\n"
                  "allreduce,8192,0,auto,auto,0,1,8,90,ring,ll,modelled\n"
                  "allreduce,8192,0,nvls,simple,0,1,8,1,nvls,simple,modelled\n"
                  "allgather,8192,0,auto,auto,0,1,8,1,nvls,simple,measured\n"
                  "reduce,8192,0,auto,auto,0,1,8,9,ring,ll,measured\n"
                  "reduce,8192,0,nvls,simple,0,1,8,1,ring,ll,measured\n"));

    const std::string notes = Found("note", "--measurements m.csv");

    EXPECT_THAT(
        notes, HasSubstr("nvls_tree never decide|by m.csv that costs 2 percent "
                         "or more at 2 of 3 messages, most at allreduce of "
                         "2048 bytes: 20.0 us instead of 10.0 us (2.00x; "
                         "recorded)|unset it, or keep it where it costs "
                         "nothing\n"));
    EXPECT_THAT(notes, HasSubstr("|what that costs was not measured in m.csv|"
                                 "unset it, or measure a job"));
}

TEST_F(CliDoctor, PricesSymmetricMemoryByItsArms)
{
    Write("m.csv", kMeasured + std::string("allreduce,8,0,auto,auto,0,1,2,20,"
                                           "ring,ll,measured\n"
                                           "allreduce,8,0,sym,sym,0,1,2,16,-,-,"
                                           "measured\n"
                                           "allreduce,8,0,reg,reg,0,1,2,19,"
                                           "ring,ll,measured\n"));
    const std::string most = " at 1 of 1 messages, most at allreduce of 8 "
                             "bytes: ";

    Set("NCCL_CUMEM_ENABLE", "0");
    EXPECT_THAT(Found("note", "--measurements m.csv"),
                HasSubstr(most + "19.0 us instead of 16.0 us (1.19x; "
                                 "measured)|"));
    unsetenv("NCCL_CUMEM_ENABLE");
    Set("NCCL_LOCAL_REGISTER", "0");
    EXPECT_THAT(Found("note", "--measurements m.csv"),
                HasSubstr("|by m.csv that costs less than 2 percent"));
}

TEST_F(CliDoctor, CallsNoNoiseAPrice)
{
    Set("NCCL_NVLS_ENABLE", "0");
    Write(
        "m.csv",
        kMeasured +
            std::string("allreduce,4096,0,auto,auto,0,1,8,20,ring,ll,measured\n"
                        "allreduce,4096,0,nvls,simple,0,1,8,19.9,nvls,simple,"
                        "measured\n"));

    EXPECT_THAT(Found("note", "--measurements m.csv"),
                HasSubstr("|by m.csv that costs less than 2 percent at each "
                          "message measured with it and without it (1)|"));
}

TEST_F(CliDoctor, PricesByWhatTuneLeftBesideThePolicy)
{
    Set("NCCL_NVLS_ENABLE", "0");
    Write(
        "nccl_tuner.sweep.csv",
        kMeasured +
            std::string("allreduce,8,0,auto,auto,0,1,8,9,ring,ll,measured\n"));
    EXPECT_THAT(Found("note"), HasSubstr("|what that costs was not measured in "
                                         "nccl_tuner.sweep.csv|"));

    Write("nccl_tuner.sweep.csv", "allreduce,1024\n");
    EXPECT_THAT(Found("problem"),
                HasSubstr("measurements nccl_tuner.sweep.csv:1"));
    EXPECT_THAT(Found("problem", "--measurements none.csv"),
                HasSubstr("measurements none.csv: "));
}

TEST_F(CliDoctor, ExaminesTheMemoryPolicyThatApplicationsRead)
{
    Set("STEPTUNE_GPU", "NVIDIA H200");
    EXPECT_THAT(Run("doctor").out, Not(HasSubstr("memory policy")));

    Write("nccl_tuner.conf.memory", "collective,memory,gpu\nallreduce,sym,*\n"
                                    "allgather,reg,NVIDIA H200\n");
    EXPECT_THAT(Found("ok"),
                HasSubstr("memory policy nccl_tuner.conf.memory is valid: 2 "
                          "rules, all for the GPU here (NVIDIA H200)||\n"));
    Set("NCCL_WIN_ENABLE", "0");
    EXPECT_THAT(Found("note"),
                HasSubstr("1 of the 2 rules of memory policy "
                          "nccl_tuner.conf.memory want memory that "
                          "NCCL_WIN_ENABLE=0 switches off|applications "
                          "register buffers in vain|unset it\n"));
    Set("STEPTUNE_GPU", "NVIDIA H100");
    EXPECT_THAT(Found("note"),
                HasSubstr("1 of the 2 rules of memory policy "
                          "nccl_tuner.conf.memory are for another GPU than the "
                          "one here (NVIDIA H100)|they never apply|"));

    Write("mine.memory", "collective,memory\nallreduce,symm\n");
    Set("STEPTUNE_MEMORY_CONFIG_FILE", "mine.memory");
    EXPECT_THAT(Found("problem"),
                HasSubstr("memory policy mine.memory:2:11: unknown memory "
                          "'symm', expected plain, reg, sym, ce|applications "
                          "cannot ask it what to register|"));
    Set("STEPTUNE_MEMORY_CONFIG_FILE", "none.memory");
    EXPECT_THAT(Found("problem"), HasSubstr("memory policy none.memory: "));
}

TEST_F(CliDoctor, ANamedConfTakesThePlaceOfTheUsers)
{
    Write("home/.nccl.conf", "NCCL_ALGO=ring\n");
    Write("mine.conf", "NCCL_PROTO=LL\n");
    Set("NCCL_CONF_FILE", "mine.conf");
    EXPECT_THAT(Found("problem"),
                AllOf(HasSubstr("NCCL_PROTO=LL is set in mine.conf:1|"),
                      Not(HasSubstr("NCCL_ALGO"))));

    Set("NCCL_CONF_FILE", "none.conf");
    EXPECT_THAT(Found("problem"),
                AllOf(HasSubstr("NCCL_CONF_FILE=none.conf cannot be read|"),
                      Not(HasSubstr("NCCL_ALGO"))));
}

TEST_F(CliDoctor, AConfNamesPluginAndPolicy)
{
    unsetenv("NCCL_TUNER_PLUGIN");
    Write("root/etc/nccl.conf", "NCCL_TUNER_PLUGIN=" STP_ONE_CHANNEL
                                "\nNCCL_TUNER_CONFIG_FILE=absent.conf\n");

    EXPECT_THAT(Found("problem"),
                AllOf(HasSubstr("root/etc/nccl.conf:1) is another tuner"),
                      HasSubstr("policy absent.conf: cannot be opened: ")));
}

// ---- the policy ----

TEST_F(CliDoctor, RefusesAPolicyAsThePluginWould)
{
    Write("p.conf", "allreduce,0,inf,tree\n");

    EXPECT_THAT(Found("problem", "--policy p.conf"),
                HasSubstr("policy p.conf:1:"));
    fs::remove(dir_ / "nccl_tuner.conf");
    EXPECT_THAT(Found("note"), HasSubstr("no policy: NCCL_TUNER_CONFIG_FILE is "
                                         "not set, and there is no "
                                         "nccl_tuner.conf here|"));
}

TEST_F(CliDoctor, ComparesThePolicyWithTheGpusHere)
{
    Write("p.conf", "collective,algorithm,protocol,gpu\n"
                    "allreduce,tree,ll,NVIDIA H200\n"
                    "allgather,ring,ll,NVIDIA H200\n");
    Write("both.conf", "collective,algorithm,protocol,gpu\n"
                       "allreduce,tree,ll,NVIDIA H200\n"
                       "allgather,ring,ll,*\n");
    EXPECT_THAT(Found("problem", "--policy p.conf"),
                HasSubstr("2 of the 2 rules of policy p.conf are for another "
                          "GPU than the one here (not known)|they never "
                          "apply|"));

    MakeGpu("0000:01:00.0", "NVIDIA H100");
    EXPECT_THAT(Found("problem", "--policy p.conf"),
                HasSubstr("the one here (NVIDIA H100)|"));
    EXPECT_THAT(Found("note", "--policy both.conf"),
                HasSubstr("1 of the 2 rules of policy both.conf are for "));

    MakeGpu("0000:01:00.0", "NVIDIA H200");
    EXPECT_THAT(Found("ok", "--policy p.conf"),
                HasSubstr("policy p.conf is valid: 2 rules, all for the GPU "
                          "here (NVIDIA H200)|"));
}

TEST_F(CliDoctor, SaysWhetherHostsComparePolicies)
{
    Write("one.conf", "allreduce,0,inf,tree,ll,-1,-1,-1\n"
                      "allgather,0,inf,ring,ll,-1,1,-1\n");
    Write("two.conf", "allreduce,0,inf,tree,ll,-1,2,-1\n");
    EXPECT_THAT(Found("note", "--policy one.conf"), Not(HasSubstr("hosts")));
    EXPECT_THAT(Found("note", "--policy two.conf"),
                HasSubstr("1 rule of policy two.conf is for several hosts, and "
                          "no store is known in which hosts compare their "
                          "policies|the job hangs if one host has another "
                          "policy, and rules that name a GPU do not apply|"));

    Set("STEPTUNE_AGREE", "required");
    EXPECT_THAT(Found("note", "--policy two.conf"),
                HasSubstr("|STEPTUNE_AGREE=required: the plugin steps aside on "
                          "several hosts|"));

    Set("STEPTUNE_AGREE", "tcpstore://[::1]:29500");
    EXPECT_THAT(Found("ok", "--policy two.conf"),
                HasSubstr("hosts compare their policies in the store at ::1 "
                          "port 29500|"));

    Set("STEPTUNE_AGREE", "");
    for (auto [name, value] : {std::pair{"MASTER_ADDR", "10.0.0.1"},
                               {"MASTER_PORT", "29501"},
                               {"RANK", "0"},
                               {"WORLD_SIZE", "1"}})
        Set(name, value);
    EXPECT_THAT(Found("ok", "--policy two.conf"),
                HasSubstr("in the store at 10.0.0.1 port 29501|"));
}

TEST_F(CliDoctor, ExaminesThePolicyForOverlapIfThatIsOn)
{
    Set("NCCL_WORKLOAD_OVERLAP", "1");
    Set("NCCL_TUNER_CONFIG_FILE", "nccl_tuner.conf");
    EXPECT_THAT(Found("note"), HasSubstr("NCCL_WORKLOAD_OVERLAP=1: the policy "
                                         "is nccl_tuner.conf.overlap|"));
    EXPECT_THAT(Found("problem"), HasSubstr("policy nccl_tuner.conf.overlap: "
                                            "cannot be opened: "));

    Set("NCCL_WORKLOAD_OVERLAP", "yes");
    EXPECT_THAT(Found("problem"),
                HasSubstr("NCCL_WORKLOAD_OVERLAP is 'yes', expected 0 or 1|"));
}

// ---- shared memory ----

TEST_F(CliDoctor, MissesSharedMemory)
{
    fs::remove(dir_ / "root/dev/shm");

    EXPECT_THAT(Found("problem"), HasSubstr((dir_ / "root/dev/shm").string() +
                                            " cannot be written|"));
}

// ---- the plugin that learns ----

TEST_F(CliDoctor, KnowsThePluginThatLearns)
{
    Set("NCCL_TUNER_PLUGIN", "steptune-online");
    Set("NCCL_PROFILER_PLUGIN", "steptune-online");
    fs::remove(dir_ / "nccl_tuner.conf");

    EXPECT_THAT(
        Found("ok"),
        AllOf(HasSubstr("loads tuner 'steptune-online' by "),
              HasSubstr("the plugin that learns is NCCL's profiler, too|"),
              HasSubstr("it learns by strategy halving, objective gpu, and "
                        "writes steptune.learned.conf|"),
              HasSubstr("no policy: learning begins with NCCL's own choice|")));
    EXPECT_EQ("", Found("note"));
    EXPECT_EQ("", Found("problem"));
}

struct OnlineCase {
    const char *tuner;
    const char *profiler;
    const char *level;
    const char *found; // all of it
};

TEST_F(CliDoctor, SeesWhereOnlyOneHalfOfItIsLoaded)
{
    const char *slow = "the plugin sees no times on the GPU, and learns only "
                       "from times that the application writes|"
                       "set NCCL_PROFILER_PLUGIN=steptune-online\n";
    const OnlineCase cases[] = {
        {"steptune-online", "", "note",
         "NCCL_TUNER_PLUGIN names the plugin that learns, and "
         "NCCL_PROFILER_PLUGIN nothing|"},
        {"steptune-online", "inspector", "note",
         "NCCL_PROFILER_PLUGIN=inspector (the environment) is another one than "
         "NCCL_TUNER_PLUGIN|"},
        {"steptune", "libnccl-tuner-steptune-online.so", "problem",
         "NCCL_PROFILER_PLUGIN names the plugin that learns, but "
         "NCCL_TUNER_PLUGIN does not|nothing is learned|set "
         "NCCL_TUNER_PLUGIN=libnccl-tuner-steptune-online.so, or unset "
         "NCCL_PROFILER_PLUGIN\n"},
        {"steptune", "inspector", "note", ""},
        {"steptune", "", "note", ""},
    };

    for (const OnlineCase &c : cases) {
        const bool is_slow = std::string(c.tuner) == "steptune-online";
        Set("NCCL_TUNER_PLUGIN", c.tuner);
        Set("NCCL_PROFILER_PLUGIN", c.profiler);
        EXPECT_EQ(std::string(c.found) + (is_slow ? slow : ""), Found(c.level))
            << c.tuner << " " << c.profiler;
    }
}

struct OnlineSettingCase {
    const char *name;
    const char *value;
    const char *level;
    const char *found;
};

TEST_F(CliDoctor, ReadsTheSettingsOfWhatLearns)
{
    const OnlineSettingCase cases[] = {
        {"STEPTUNE_STRATEGY", "greedy", "problem",
         "STEPTUNE_STRATEGY is 'greedy', expected halving or epsilon|the "
         "plugin steps aside"},
        {"STEPTUNE_STRATEGY", "epsilon", "ok",
         "it learns by strategy epsilon, objective file, "},
        {"STEPTUNE_FREEZE", "1", "note",
         "STEPTUNE_FREEZE is set (the environment)|nothing is learned|"},
        {"STEPTUNE_WARM_START", "none.conf", "problem", "policy none.conf: "},
        {"STEPTUNE_WARM_START", "nccl_tuner.conf", "ok",
         "policy nccl_tuner.conf is valid"},
    };

    Set("NCCL_TUNER_PLUGIN", "steptune-online");
    Set("NCCL_PROFILER_PLUGIN", "steptune-online");
    for (const OnlineSettingCase &c : cases) {
        Set(c.name, c.value);
        EXPECT_THAT(Found(c.level), HasSubstr(c.found)) << c.value;
        Set(c.name, "");
    }
    Set("NCCL_TUNER_PLUGIN", "steptune"); // reads none of them
    Set("NCCL_PROFILER_PLUGIN", "");
    Set("STEPTUNE_STRATEGY", "greedy");
    Set("STEPTUNE_WARM_START", "none.conf");
    EXPECT_EQ("", Found("problem"));
}

TEST_F(CliDoctor, NamesRulesWhoseChannelsAreALimit)
{
    const std::string rest = ",-1,-1\n";

    Write("p.conf", "allreduce,0,4K,ring,ll,8" + rest +
                        "allreduce,8K,9K,ring,ll,-1" + rest +
                        "broadcast,0,4K,ring,ll,2" + rest);
    Set("NCCL_TUNER_CONFIG_FILE", "p.conf");
    Set("FAKE_NCCL", "23007");
    EXPECT_THAT(Found("note"), Not(HasSubstr("as a limit")));
    Set("FAKE_NCCL", "23102");
    EXPECT_THAT(Found("note"),
                HasSubstr("2 rules of policy p.conf set channels|NCCL 2.31 and "
                          "later take them as a limit: a rule can lower "
                          "NCCL's own number, and not raise it|"));
    Write("p.conf", "allreduce,8K,9K,ring,ll,-1" + rest);
    EXPECT_THAT(Found("note"), Not(HasSubstr("as a limit")));
}

} // namespace
