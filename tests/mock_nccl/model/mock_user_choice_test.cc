// NCCL_ALGO and NCCL_PROTO: the entries that they allow, and invalid values.
#include <gmock/gmock.h>

#include "support/mock_folder.h"
#include "support/mock_script.h"

// In C a function and a struct can share a name.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include "model/cost_model.h"
#include "versions/versions.h"
}
#pragma GCC diagnostic pop

using namespace mock_test;
using testing::Contains;
using testing::ElementsAre;

namespace
{

mock_nccl_options Options(const char *algo, const char *proto,
                          const char *version = nullptr)
{
    mock_nccl_options options{};
    options.version = version;
    options.algo = algo;
    options.proto = proto;
    return options;
}

// The entries that are not below 0, such as "ring/ll tree/simple".
std::string Open(const mock_table table)
{
    std::string open;

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            if (table[a][p] >= 0)
                open += std::string(open.empty() ? "" : " ") + kAlgos[a] + "/" +
                        kProtos[p];
    return open;
}

// The open entries for a collective of 1 MiB that succeeds or fails.
std::string OpenOn(const Machine &machine, ncclFunc_t coll, const char *algo,
                   const char *proto, const char *version = nullptr)
{
    Nccl nccl = MakeNccl(Options(algo, proto, version));
    Comm comm = MakeComm(nccl, machine);
    mock_call call = Call(coll, 1 << 20);
    mock_outcome outcome;

    if (!comm)
        return "no communicator";
    mock_comm_collective(comm.get(), &call, &outcome);
    return Open(outcome.cost);
}

// ---- what is allowed ----

struct ChoiceCase {
    const char *name;
    const char *algo;
    const char *proto;
    const char *all_reduce; // what is left open on h100x8
    const char *all_gather;
};

using UserChoice = testing::TestWithParam<ChoiceCase>;

TEST_P(UserChoice, LeavesOpenWhatItAllows)
{
    const ChoiceCase &c = GetParam();
    Machine machine = LoadMachine("h100x8");

    EXPECT_EQ(c.all_reduce,
              OpenOn(machine, ncclFuncAllReduce, c.algo, c.proto));
    EXPECT_EQ(c.all_gather,
              OpenOn(machine, ncclFuncAllGather, c.algo, c.proto));
}

#define TREE "tree/ll tree/ll128 tree/simple"
#define RING "ring/ll ring/ll128 ring/simple"
#define NVLS "nvls/simple"
// clang-format off
const ChoiceCase kChoiceCases[] = {
    {"unset", nullptr, nullptr, TREE " " RING " " NVLS, RING " " NVLS},
    {"empty", "", "", TREE " " RING " " NVLS, RING " " NVLS},
    {"one_algorithm", "Ring", nullptr, RING, RING},
    {"list", "Tree,NVLS", nullptr, TREE " " NVLS, NVLS},
    {"one_protocol", nullptr, "LL", "tree/ll ring/ll", "ring/ll"},
    {"both", "Tree", "Simple", "tree/simple", ""},
    {"any_case", "rINg", "lL128", "ring/ll128", "ring/ll128"},
    {"all_but", "^Ring", nullptr, TREE " " NVLS, NVLS},
    {"all_but_two", "^Ring,NVLS", "^LL,LL128", "tree/simple", ""},
    {"for_one_collective", "allreduce:Tree", nullptr, TREE, RING " " NVLS},
    {"collective_in_any_case", "ALLREDUCE:Tree", nullptr, TREE, RING " " NVLS},
    {"all_but_for_one_collective", "AllReduce:^Tree", nullptr, RING " " NVLS, RING " " NVLS},
    {"for_all_then_for_one", "Ring;AllReduce:Tree", nullptr, TREE, RING},
    {"for_all_then_for_others", "Ring;Broadcast:Tree;Reduce:Tree;ReduceScatter:Tree", nullptr, RING, RING},
    {"for_one_then_for_another", "AllReduce:Tree;AllGather:NVLS", nullptr, TREE, NVLS},
    {"last_entry_counts_alone", "AllReduce:Tree;AllReduce:NVLS", nullptr, NVLS, RING " " NVLS},
    {"protocol_but_for_one", nullptr, "LL,Simple;AllReduce:^LL", "tree/ll128 tree/simple ring/ll128 ring/simple nvls/simple", "ring/ll ring/simple nvls/simple"},
    {"protocol_only_for_another", nullptr, "ReduceScatter:Simple", TREE " " RING " " NVLS, RING " " NVLS},
    {"protocol_only_for_one", nullptr, "^LL128;AllReduce:LL128", "tree/ll128 ring/ll128", "ring/ll ring/simple nvls/simple"},
    {"doubled_separators", "Ring,,Tree;;AllGather::NVLS", nullptr, TREE " " RING, NVLS},
    {"separators_at_the_end", "Ring,;", nullptr, RING, RING},
    {"part_after_a_second_colon", "AllReduce:Tree:NVLS", nullptr, TREE, RING " " NVLS},
    {"colon_before_a_list", ":Ring", nullptr, RING, RING},
    {"colon_after_a_list", "Ring:", nullptr, RING, RING},
    {"all_but_nothing", "^", "^", TREE " " RING " " NVLS, RING " " NVLS},
    {"comma_alone", ",", nullptr, "", ""},
    {"no_tree_of_nvls_on_one_node", "NVLSTree,Ring", "LL,Simple", "ring/ll ring/simple", "ring/ll ring/simple"},
    {"no_collnet_without_a_network", "CollNetDirect,CollNetChain,PAT", nullptr, "", ""},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, UserChoice, testing::ValuesIn(kChoiceCases),
                         CaseName());

// From 2.31 on NCCL_ALGO takes everything from what only NCCL_PROTO names.
using UserChoiceByName = testing::TestWithParam<ChoiceCase>;

TEST_P(UserChoiceByName, NarrowsOnlyWhatAListHasAWordFor)
{
    const ChoiceCase &c = GetParam();
    Machine machine = LoadMachine("h100x8");

    for (const char *version : {"2.31", "2.32.3", "2.32"}) {
        EXPECT_EQ(c.all_reduce,
                  OpenOn(machine, ncclFuncAllReduce, c.algo, c.proto, version));
        EXPECT_EQ(c.all_gather,
                  OpenOn(machine, ncclFuncAllGather, c.algo, c.proto, version));
    }
}

// clang-format off
const ChoiceCase kNamedCases[] = {
    {"algorithm_alone", "allreduce:tree", nullptr, TREE, RING " " NVLS},
    {"protocol_alone", nullptr, "simple", "tree/simple ring/simple nvls/simple", "ring/simple nvls/simple"},
    {"algorithm_of_one_and_protocol_of_all", "allreduce:tree", "simple", "tree/simple", ""},
    {"algorithm_of_one_and_protocol_of_it", "allreduce:tree", "allreduce:simple", "tree/simple", RING " " NVLS},
    {"algorithm_of_one_and_protocol_of_another", "allreduce:tree", "allgather:simple", TREE, ""},
    {"all_but_none_and_protocol", "^", "simple", "tree/simple ring/simple nvls/simple", "ring/simple nvls/simple"},
    {"empty_and_protocol", "", "simple", "tree/simple ring/simple nvls/simple", "ring/simple nvls/simple"},
    {"separator_and_protocol", ";", "allreduce:simple", "", RING " " NVLS},
    {"commas_alone", ",", ",", TREE " " RING " " NVLS, RING " " NVLS},
    {"comma_for_one", "allreduce:,", "simple", "", ""},
    {"list_of_all_without_the_other", "ring;allreduce:tree", "simple", "tree/simple", "ring/simple"},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, UserChoiceByName,
                         testing::ValuesIn(kNamedCases), CaseName());

TEST(UserChoice, IsEverythingIfUnsetButLl128OnlyWhereItIsSafe)
{
    mock_user_choice choice;

    EXPECT_EQ(ncclSuccess, mock_user_choice_parse(mock_version_find("2.28"),
                                                  nullptr, nullptr, &choice));

    EXPECT_FALSE(choice.collnet);
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            EXPECT_EQ(MOCK_USE_YES, choice.algo[c][a]) << c << " " << a;
        EXPECT_EQ(MOCK_USE_YES, choice.proto[c][NCCL_PROTO_LL]);
        EXPECT_EQ(MOCK_USE_IF_SAFE, choice.proto[c][NCCL_PROTO_LL128]);
        EXPECT_EQ(MOCK_USE_YES, choice.proto[c][NCCL_PROTO_SIMPLE]);
    }
}

// Up to 2.23 there is one list for all, of which unknown words are skipped.
TEST(UserChoice, OfAPlainListSkipsUnknownWords)
{
    mock_user_choice choice;

    EXPECT_EQ(ncclSuccess,
              mock_user_choice_parse(mock_version_find("2.21"), "tree,other",
                                     "^ll,other", &choice));

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            EXPECT_EQ(a == NCCL_ALGO_TREE ? MOCK_USE_YES : MOCK_USE_NO,
                      choice.algo[c][a])
                << c << " " << a;
        EXPECT_EQ(MOCK_USE_NO, choice.proto[c][NCCL_PROTO_LL]);
        EXPECT_EQ(MOCK_USE_YES, choice.proto[c][NCCL_PROTO_LL128]);
        EXPECT_EQ(MOCK_USE_YES, choice.proto[c][NCCL_PROTO_SIMPLE]);
    }
}

TEST(UserChoice, IsLogged)
{
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl(Options("ring", ""));
    Log log;

    Comm comm = MakeComm(nccl, machine);

    std::vector<std::string> lines;
    for (const Log::Line &line : log.lines)
        if (line.flags == NCCL_ENV && line.level == NCCL_LOG_INFO)
            lines.push_back(line.text);
    EXPECT_THAT(lines, ElementsAre("NCCL_PROTO set by environment to ",
                                   "NCCL_ALGO set by environment to ring"));
}

// ---- what is refused ----

struct BadCase {
    const char *name;
    const char *algo;
    const char *proto;
    const char *error; // all of it, or its end
};

using BadUserChoice = testing::TestWithParam<BadCase>;

TEST_P(BadUserChoice, FailsTheCommunicatorAndNamesTheWord)
{
    const BadCase &c = GetParam();
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl(Options(c.algo, c.proto));
    mock_comm *comm = nullptr;

    EXPECT_EQ(ncclInvalidUsage,
              mock_comm_create(nccl.get(), machine.get(), 1, &comm));

    EXPECT_EQ(nullptr, comm);
    EXPECT_STREQ(c.error, mock_last_error());
}

#define NAMELESS "names no collective, which only the first entry may do"
// clang-format off
const BadCase kBadCases[] = {
    {"algorithm", "rign", nullptr, "NCCL_ALGO=rign: 'rign' is no algorithm"},
    {"protocol", nullptr, "LL12", "NCCL_PROTO=LL12: 'LL12' is no protocol"},
    {"longer", "rings", nullptr, "NCCL_ALGO=rings: 'rings' is no algorithm"},
    {"of_the_other_variable", "LL", nullptr, "NCCL_ALGO=LL: 'LL' is no algorithm"},
    {"of_a_policy", "nvls_tree", nullptr, "NCCL_ALGO=nvls_tree: 'nvls_tree' is no algorithm"},
    {"second", "ring,x,y", nullptr, "NCCL_ALGO=ring,x,y: 'x' is no algorithm"},
    {"negated", "^x", nullptr, "NCCL_ALGO=^x: 'x' is no algorithm"},
    {"negated_word", "ring,^tree", nullptr, "NCCL_ALGO=ring,^tree: '^tree' is no algorithm"},
    {"space", "ring, tree", nullptr, "NCCL_ALGO=ring, tree: ' tree' is no algorithm"},
    {"space_alone", " ", nullptr, "NCCL_ALGO= : ' ' is no algorithm"},
    {"collective", "allreduc:ring", nullptr, "NCCL_ALGO=allreduc:ring: 'allreduc' is no collective"},
    {"collective_before_word", "sendrecv:x", nullptr, "NCCL_ALGO=sendrecv:x: 'sendrecv' is no collective"},
    {"in_a_later_entry", "ring;allreduce:x", nullptr, "NCCL_ALGO=ring;allreduce:x: 'x' is no algorithm"},
    {"no_list", "allreduce:", nullptr, "NCCL_ALGO=allreduce:: 'allreduce' is no algorithm"},
    {"later_without_collective", "ring;tree", nullptr, "NCCL_ALGO=ring;tree: 'tree' " NAMELESS},
    {"later_without_list", "ring;allreduce:", nullptr, "NCCL_ALGO=ring;allreduce:: 'allreduce:' " NAMELESS},
    {"separator_first", ";ring", nullptr, "NCCL_ALGO=;ring: 'ring' " NAMELESS},
    {"colon_alone", ":", nullptr, "NCCL_ALGO=:: ':' has no word"},
    {"both_bad", "x", "y", "NCCL_PROTO=y: 'y' is no protocol"},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, BadUserChoice, testing::ValuesIn(kBadCases),
                         CaseName());

TEST(BadUserChoice, ComesAfterTheTunersInitWhichIsThenFinalized)
{
    Machine machine = LoadMachine("h200x4");
    mock_nccl_options options = Options("x", nullptr);
    options.static_tuner = &kScripted;
    options.static_tuner_version = 5;
    Nccl nccl = MakeNccl(options);
    mock_comm *comm = nullptr;
    int n_inits = 0, n_ends = 0;
    on_init = [&](const Joined &joined) {
        n_inits++;
        *joined.context = &n_inits;
        return ncclSuccess;
    };
    on_finalize = [&](void *context) {
        n_ends += context == &n_inits;
        return ncclSuccess;
    };

    EXPECT_EQ(ncclInvalidUsage,
              mock_comm_create(nccl.get(), machine.get(), 1, &comm));

    ForgetScript();
    EXPECT_EQ(1, n_inits);
    EXPECT_EQ(1, n_ends);
}

TEST(BadUserChoice, IsNotReadForOneRank)
{
    Folder folder;
    std::string graph =
        " pattern=\"4\" nchannels=\"1\" speedintra=\"30\" speedinter=\"30\" "
        "typeintra=\"NVL\" typeinter=\"PIX\" samechannels=\"1\"><channel>"
        "<gpu/></channel></graph>";
    folder.Write("graphs.xml", "<graphs><graph id=\"0\"" + graph +
                                   "<graph id=\"1\"" + graph + "</graphs>");
    folder.Write("machine.csv", "gpu,compute_capability,ranks,nodes,cpu_vendor,"
                                "channels,nvls_channels,nccl\n"
                                "G,90,1,1,amd,2,0,2.28.9\n");
    Machine machine = LoadFolder(folder.Path());
    Nccl nccl = MakeNccl(Options("x", "x"));

    EXPECT_TRUE(MakeComm(nccl, machine));
}

// ---- nothing left ----

using NothingLeft = testing::TestWithParam<BadCase>;

TEST_P(NothingLeft, IsInvalidUsageIfTheUserChose)
{
    const BadCase &c = GetParam();
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl(Options(c.algo, c.proto));
    Comm comm = MakeComm(nccl, machine);
    mock_call call = Call(ncclFuncAllGather, 1 << 20);
    mock_outcome outcome;
    std::string want = std::string("Error : no algorithm/protocol available "
                                   "for function AllGather with datatype "
                                   "ncclInt8.") +
                       c.error;
    Log log;

    EXPECT_EQ(ncclInvalidUsage,
              mock_comm_collective(comm.get(), &call, &outcome));

    EXPECT_EQ(want, mock_last_error());
    EXPECT_THAT(log.Texts(), Contains(want));
    EXPECT_EQ(-1, outcome.algo);
}

// clang-format off
const BadCase kNothingCases[] = {
    {"algorithm", "tree", nullptr, " NCCL_ALGO was set to tree."},
    {"protocol", nullptr, "allgather:,", " NCCL_PROTO was set to allgather:,."},
    {"both", "nvls", "ll", " NCCL_ALGO was set to nvls. NCCL_PROTO was set to ll."},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, NothingLeft, testing::ValuesIn(kNothingCases),
                         CaseName());

} // namespace
