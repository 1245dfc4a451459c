// The completions that the shells load, as the build makes them.
#include "support/cli_fixture.h"
#include "support/written.h"
#include "support/with_param.h"

#include <regex>
#include <set>

namespace
{

using namespace cli;
using namespace testing;

using Words = std::vector<std::string>;

// The last word of the line is the one that the cursor is in.
struct CompletionCase {
    const char *name;
    Words line;
    Words replies;
};

const CompletionCase kCompletionCases[] = {
    {"a_command", {"rep"}, {"replay", "report"}},
    {"a_command_to_explain", {"help", "der"}, {"derive"}},
    {"an_option", {"sweep", "--max"}, {"--maxbytes"}},
    {"another_name_of_an_option",
     {"sweep", "--collectives"},
     {"--collectives"}},
    {"all_words_of_an_option", {"sweep", "--backend", ""}, {"nccl", "gloo"}},
    {"a_word_after_an_equals_sign", {"sweep", "--backend", "=", "g"}, {"gloo"}},
    {"no_word_yet_after_an_equals_sign",
     {"sweep", "--backend", "="},
     {"nccl", "gloo"}},
    {"a_machine_where_an_equals_sign_breaks_no_words",
     {"tune", "--on=b200"},
     {"--on=b200x8"}},
    {"words_that_an_option_reads_by_name",
     {"iterate", "--mode", ""},
     {"sequential", "overlap", "fsdp", "all"}},
    {"a_type_by_its_letter", {"sweep", "-d", "bf"}, {"bf16"}},
    {"the_next_entry_of_a_list",
     {"tune", "--collective", "broadcast,all"},
     {"broadcast,allgather", "broadcast,allreduce"}},
    {"a_recorded_machine",
     {"tune", "--on", "h200x"},
     {"h200x2", "h200x2_graphs", "h200x3", "h200x4", "h200x4_graphs"}},
    {"a_machine_that_is_no_option", {"machines", "b200"}, {"b200x8"}},
    {"a_file", {"check", "job"}, {"job one.conf", "jobs"}},
    {"a_file_of_an_option", {"explain", "--policy", "job "}, {"job one.conf"}},
    {"a_folder", {"plot", "-o", "job"}, {"jobs"}},
    {"nothing_for_a_number", {"tune", "--seed", ""}, {}},
    {"nothing_where_all_are_options", {"sweep", "job"}, {}},
    {"an_option_before_a_jobs_command",
     {"run", "--quiet", "--pol"},
     {"--policy"}},
    {"a_jobs_command",
     {"run", "--policy", "job one.conf", "train-"},
     {"train-job"}},
    {"a_jobs_command_after_dashes",
     {"tune", "--for", "=", "2m", "--", "train-"},
     {"train-job"}},
    {"a_file_of_a_jobs_command",
     {"run", "train-job", "job"},
     {"job one.conf", "jobs"}},
    {"no_option_of_ours_after_a_jobs_command",
     {"run", "train-job", "--pol"},
     {}},
    {"nothing_for_an_unknown_command", {"swep", "--"}, {}},
};

class CliCompletion : public Cli
{
  protected:
    void SetUp() override
    {
        Cli::SetUp();
        fs::create_directories(dir_ / "jobs");
        Write("job one.conf", "");
        Write("train-job", "#!/bin/sh\n");
        fs::permissions(dir_ / "train-job", fs::perms::owner_all);
        fs::create_symlink(STP_STEPTUNE, dir_ / "steptune");
        Set("PATH", dir_.string() + ":" + getenv("PATH"));
    }

    Words Complete(const Words &line) const
    {
        std::string script = "set -u\n. '" STP_COMPLETION "/steptune'\n"
                             "COMP_WORDS=(steptune";
        for (const std::string &word : line)
            script += " '" + word + "'";
        Write("line.bash", script +
                               ")\nCOMP_CWORD=" + std::to_string(line.size()) +
                               "\n_steptune\n((${#COMPREPLY[@]} == 0)) || "
                               "printf '%s\\n' \"${COMPREPLY[@]}\"\n");
        const Outcome o = RunProgram("bash", "--norc line.bash");
        EXPECT_EQ("", o.err);
        return SplitLines(o.out);
    }

    Words Commands() const
    {
        Words names;
        for (const std::string &line : SplitLines(Run("--help").out))
            if (line.rfind("  ", 0) == 0)
                names.push_back(line.substr(2, line.find(' ', 2) - 2));
        EXPECT_LT(10u, names.size());
        return names;
    }

    // The options of --help, with both dashes; argp's --usage is no use here.
    std::set<std::string> Options(const std::string &command) const
    {
        const std::regex line("^ +(-.*?)(  .*)?$"), name("--[a-z0-9_-]+");
        std::set<std::string> options;
        for (const std::string &text :
             SplitLines(Run(command + " --help").out)) {
            std::smatch names;
            if (!std::regex_match(text, names, line))
                continue;
            const std::string found = names[1];
            for (std::sregex_iterator i(found.begin(), found.end(), name), end;
                 i != end; ++i)
                options.insert(i->str());
        }
        options.erase("--usage");
        return options;
    }
};

using CliCompletes = WithParam<CliCompletion, CompletionCase>;

TEST_P(CliCompletes, InBash)
{
    Words replies = Complete(GetParam().line);

    std::sort(replies.begin(), replies.end());
    Words expected = GetParam().replies;
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(expected, replies);
}

INSTANTIATE_TEST_SUITE_P(Table, CliCompletes, ValuesIn(kCompletionCases),
                         CaseName());

TEST_F(CliCompletion, OffersTheOptionsOfHelpAndNoOthers)
{
    for (const std::string &command : Commands()) {
        SCOPED_TRACE(command);
        const Words offered = Complete({command, "--"});

        EXPECT_EQ(Options(command),
                  std::set<std::string>(offered.begin(), offered.end()));
    }
}

// Each text of help.txt is of a command that there is and an option that it
// has, or of several below [shared]; that none lacks steptune itself asserts.
TEST_F(CliCompletion, HasNoHelpOfOptionsThatAreGone)
{
    const std::regex line(R"((?:\[([a-z]+)\]|(--[a-z0-9_-]+)  .+))");
    std::map<std::string, std::set<std::string>> options;
    for (const std::string &command : Commands()) {
        options[command] = Options(command);
        options["shared"].insert(options[command].begin(),
                                 options[command].end());
    }

    std::ifstream help(STP_CLI_HELP);
    std::string section;
    size_t n = 0;
    for (std::string text; std::getline(help, text);) {
        std::smatch found;
        if (!std::regex_match(text, found, line))
            continue;
        n++;
        section = found[1].matched ? found[1].str() : section;
        EXPECT_EQ(1u, options.count(section)) << section;
        EXPECT_EQ(found[2].matched ? 1u : 0u, options[section].count(found[2]))
            << section << text;
    }
    EXPECT_LT(150u, n);
}

// Stand-ins for what compinit loads print what it would receive.
TEST_F(CliCompletion, TellsZshTheSame)
{
    if (RunProgram("zsh", "-c :").status != 0)
        GTEST_SKIP() << "no zsh here";
    Write("line.zsh", "_arguments() { print -rl -- \"$@\" }\n"
                      "_describe() { print -rl -- $commands }\n"
                      "words=(steptune $@); CURRENT=$#words\n"
                      ". " STP_COMPLETION "/_steptune\n");

    EXPECT_EQ(Commands().size(),
              SplitLines(RunProgram("zsh", "-f line.zsh r").out).size());
    const Outcome sweep = RunProgram("zsh", "-f line.zsh sweep x");
    EXPECT_EQ("", sweep.err);
    EXPECT_THAT(SplitLines(sweep.out),
                IsSupersetOf({
                    "(--minbytes -b)-b+[Smallest message]:value: ",
                    "(--backend)--backend=[Transport]:value:(nccl gloo)",
                    "(--json)--json[Print JSON instead of tables]",
                }));
    EXPECT_THAT(SplitLines(RunProgram("zsh", "-f line.zsh run x").out),
                Contains("*:::command:_normal"));
}

} // namespace
