// tests/cli/transcripts/: a file is a test.  It is what a terminal shows:
//
//   # a comment
//   $ a command, of a shell in a fresh folder, which runs all of the file
//   > its further lines
//   ? its exit status, if not 0
//   what it prints
//   2> what it prints to standard error
//
// In what is printed "..." stands for any text, and alone on a line for any
// lines, behind "2> " for any of standard error; a line that would be taken for
// another kind has a backslash before it.  $PWD, $FIXTURES, $TRANSCRIPTS,
// $PLUGINS (those of tests/plugins) and $LIB (ours) stand for paths, PATH leads
// to what was built, and no other variable is set.  A comment "# needs NAME..."
// skips a file where a module is not built, "# slow" where sanitizers make it
// slow, or impossible: they cannot be preloaded. STEPTUNE_UPDATE_EXPECTED=1
// writes what was printed into the files.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>

#include "support/slow.h"
#include "support/temporary_folder.h"

namespace
{

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

struct Printed {
    std::string status = "0";
    Lines lines; // those of standard error begin with "2> "
};

struct Step {
    size_t line = 0; // of the command
    Lines head;      // comments and the command, as they are in the file
    std::string command;
    Printed expected;
    Printed got;
};

bool BeginsWith(const std::string &text, const std::string &with)
{
    return text.rfind(with, 0) == 0;
}

// ---- files ----

void MoveEmptyLines(Lines *from, Lines *to)
{
    for (; !from->empty() && from->back().empty(); from->pop_back())
        if (to != nullptr)
            to->push_back("");
}

// The last step has no command: it holds the comments at the end.
std::vector<Step> Parse(const std::string &text)
{
    std::vector<Step> steps(1);
    size_t n_lines = 0;
    for (const std::string &line : SplitLines(text)) {
        n_lines++;
        const bool begins = BeginsWith(line, "$ ");
        if ((begins || BeginsWith(line, "#")) && steps.back().line != 0) {
            Step next;
            MoveEmptyLines(&steps.back().expected.lines, &next.head);
            steps.push_back(next);
        }
        Step &step = steps.back();
        const bool goes_on = BeginsWith(line, ">") && step.line != 0;
        if (begins)
            step.line = n_lines;
        if (begins || goes_on)
            step.command +=
                line.substr(std::min<size_t>(2, line.size())) + "\n";
        if (begins || goes_on || step.line == 0)
            step.head.push_back(line);
        else if (BeginsWith(line, "? "))
            step.expected.status = line.substr(2);
        else
            step.expected.lines.push_back(
                line.substr(BeginsWith(line, "\\") ? 1 : 0));
    }
    if (steps.back().line != 0) {
        MoveEmptyLines(&steps.back().expected.lines, nullptr);
        steps.emplace_back();
    }
    return steps;
}

std::string Escaped(const std::string &line, bool is_err)
{
    for (const char *other : {"$ ", "? ", "#", ">", "\\", "2> "})
        if (BeginsWith(line, other) && !is_err)
            return "\\" + line;
    return line;
}

// ---- running ----

std::string Replaced(std::string text, const std::string &path,
                     const std::string &name)
{
    for (size_t at = 0; (at = text.find(path, at)) != std::string::npos;
         at += name.size())
        text.replace(at, path.size(), name);
    return text;
}

void Play(std::vector<Step> *steps)
{
    const TemporaryFolder temporary;
    const fs::path folder = temporary.path();
    const std::string home = folder / "home";
    const std::pair<std::string, std::string> paths[] = {
        {"PWD", home},
        {"FIXTURES", STP_FIXTURES},
        {"PLUGINS", STP_TEST_PLUGINS},
        {"TRANSCRIPTS", STP_TRANSCRIPTS},
        {"LIB", fs::path(STP_PLUGIN).parent_path()}};
    std::ofstream script(folder / "script");
    script << "cd home\n"
           << "export LC_ALL=C HOME=$PWD CUDA_VISIBLE_DEVICES= PATH='"
           << fs::path(STP_STEPTUNE).parent_path().string() << "':$PATH\n";
    for (const auto &[name, path] : paths)
        script << "export " << name << "='" << path << "'\n";
    script << "export LD_LIBRARY_PATH=$PLUGINS\n";
    for (size_t i = 0; i + 1 < steps->size(); i++) {
        const std::string file = folder / std::to_string(i);
        std::ofstream(file) << (*steps)[i].command;
        script << ". '" << file << "' >'" << file << ".out' 2>'" << file
               << ".err' </dev/null\necho $? >'" << file << ".status'\n";
    }
    script.close();
    fs::create_directory(home);
    const std::string run = "cd '" + folder.string() +
                            "' && env -i PATH=\"$PATH\" $(env | grep -e "
                            "_OPTIONS= -e ^GCOV) timeout 500 sh script 2>log";
    EXPECT_NE(-1, std::system(run.c_str()));
    for (size_t i = 0; i + 1 < steps->size(); i++) {
        Printed &got = (*steps)[i].got;
        const auto read = [&](const std::string &what) {
            std::string text = ReadFile(folder / (std::to_string(i) + what));
            for (const auto &[name, path] : paths)
                text = Replaced(text, path, "$" + name);
            return SplitLines(text);
        };
        const Lines status = read(".status");
        got.status = status.empty() ? "none" : status[0];
        got.lines = read(".out");
        MoveEmptyLines(&got.lines, nullptr);
        for (const std::string &line : read(".err"))
            got.lines.push_back("2> " + line);
    }
}

// ---- comparing ----

bool Fits(const char *text, const char *expected)
{
    if (strncmp(expected, "...", 3) == 0)
        return Fits(text, expected + 3) ||
               (*text != '\0' && Fits(text + 1, expected));
    return *text == *expected &&
           (*text == '\0' || Fits(text + 1, expected + 1));
}

// Compares the lines from 'g' and 'e' on; sets 'far' to how many expected ones
// fit at most.
bool Fit(const Lines &got, size_t g, const Lines &expected, size_t e,
         size_t *far)
{
    *far = std::max(*far, e);
    if (e == expected.size())
        return g == got.size();
    const bool any = expected[e] == "...", any_err = expected[e] == "2> ...";
    if (any || any_err)
        return Fit(got, g, expected, e + 1, far) ||
               (g < got.size() && any_err == BeginsWith(got[g], "2> ") &&
                Fit(got, g + 1, expected, e, far));
    return g < got.size() && Fits(got[g].c_str(), expected[e].c_str()) &&
           Fit(got, g + 1, expected, e + 1, far);
}

// "", or where and how the step did otherwise.
std::string Fault(const Step &step)
{
    size_t n_fit = 0;
    const bool fits = Fit(step.got.lines, 0, step.expected.lines, 0, &n_fit);
    if (fits && step.got.status == step.expected.status)
        return "";
    std::string text = std::to_string(step.line) + ": $ " + step.command;
    if (step.got.status != step.expected.status)
        text += "expected status " + step.expected.status + ", got " +
                step.got.status + "\n";
    if (!fits)
        text += n_fit < step.expected.lines.size()
                    ? "expected here: " + step.expected.lines[n_fit] + "\n"
                    : "expected nothing more\n";
    for (const std::string &line : step.got.lines)
        text += "+" + line + "\n";
    return text;
}

// ---- updating ----

std::string Updated(const std::vector<Step> &steps)
{
    std::string text;
    for (const Step &step : steps) {
        Lines lines = step.expected.lines;
        if (Fault(step) != "") {
            lines = step.got.lines;
            for (std::string &line : lines)
                for (const std::string &pattern : step.expected.lines)
                    if (pattern != "..." && pattern != "2> ..." &&
                        Fits(line.c_str(), pattern.c_str()))
                        line = pattern;
        }
        for (const std::string &line : step.head)
            text += line + "\n";
        if (step.line != 0 && step.got.status != "0")
            text += "? " + step.got.status + "\n";
        for (const std::string &line : lines)
            text += Escaped(line, BeginsWith(line, "2> ")) + "\n";
    }
    return text;
}

std::string Faults(const std::vector<Step> &steps, const std::string &name)
{
    std::string text;
    for (const Step &step : steps)
        if (Fault(step) != "")
            text += name + ":" + Fault(step);
    return text;
}

// ---- tests ----

std::vector<fs::path> Transcripts()
{
    std::vector<fs::path> paths;
    for (const auto &entry : fs::recursive_directory_iterator(STP_TRANSCRIPTS))
        if (entry.path().extension() == ".txt")
            paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    return paths;
}

std::string NameOf(const fs::path &path)
{
    return Replaced(fs::relative(path, STP_TRANSCRIPTS).replace_extension(),
                    "/", "_");
}

using Transcript = testing::TestWithParam<fs::path>;

TEST_P(Transcript, Shows)
{
    const std::string text = ReadFile(GetParam());
    std::vector<Step> steps = Parse(text);
    for (const std::string &line : SplitLines(text)) {
        std::stringstream words(BeginsWith(line, "# needs ") ? line.substr(8)
                                                             : "");
        for (std::string word; words >> word;)
            if (std::string(" " STP_MODULES " ").find(" " + word + " ") ==
                std::string::npos)
                GTEST_SKIP() << "there is no " << word;
    }
    if (BeginsWith(text, "# slow\n"))
        STP_SLOW();
    Play(&steps);
    if (getenv("STEPTUNE_UPDATE_EXPECTED") != nullptr)
        std::ofstream(GetParam()) << Updated(steps);
    else if (const std::string faults = Faults(steps, GetParam()); faults != "")
        FAIL() << faults;
}

INSTANTIATE_TEST_SUITE_P(, Transcript, testing::ValuesIn(Transcripts()),
                         [](const auto &path) { return NameOf(path.param); });

std::string FaultsOf(const std::string &text)
{
    std::vector<Step> steps = Parse(text);
    Play(&steps);
    return Faults(steps, "t");
}

TEST(TranscriptRunner, PassesWhatIsAsWritten)
{
    for (const char *text : {
             "$ true\n",
             "# comment\n$ echo a; echo b >&2; (exit 3)\n? 3\na\n2> b\n",
             "$ false\n? 1\n\n# another\n$ cat <<E\n> x\n>\n> # y\n> "
             "E\nx\n\n\\# "
             "y\n\n",
             "$ A=1; cd /; echo x >$HOME/f\n$ cd; echo $A; ls\n1\nf\n",
             "$ echo a; echo b >&2; echo c >&2\n...\n2> ...\n2> c\n",
             "$ printf 'a\\nb\\nc\\nd\\n\\n'\na\n...\nd\n",
             "$ echo a; echo z\n...\na\n...\nz\n...\n",
             "$ echo it took 12.5 us of $PWD/x\nit took ... us of $PWD/x\n",
             "$ echo '2> a'\n\\2> a\n",
             "$ env | grep -c STEPTUNE_\n? 1\n0\n",
         })
        EXPECT_EQ("", FaultsOf(text)) << text;
}

TEST(TranscriptRunner, FailsAndSaysWhere)
{
    const struct {
        const char *text, *fault;
    } cases[] = {
        {"# c\n\n$ false\n", "t:3: $ false\nexpected status 0, got 1\n"},
        {"$ true\n? 1\n", "t:1: $ true\nexpected status 1, got 0\n"},
        {"$ echo a\n", "t:1: $ echo a\nexpected nothing more\n+a\n"},
        {"$ echo a\nb\n", "t:1: $ echo a\nexpected here: b\n+a\n"},
        {"$ echo a\na\nb\n", "t:1: $ echo a\nexpected here: b\n+a\n"},
        {"$ echo a >&2\na\n", "t:1: $ echo a >&2\nexpected here: a\n+2> a\n"},
        {"$ echo ab\na...c\n", "t:1: $ echo ab\nexpected here: a...c\n+ab\n"},
        {"$ echo a\n...\nb\n", "t:1: $ echo a\nexpected here: b\n+a\n"},
        {"$ echo a; echo b >&2\n...\n",
         "t:1: $ echo a; echo b >&2\nexpected nothing more\n+a\n+2> b\n"},
        {"$ exit\n", "t:1: $ exit\nexpected status 0, got none\n"},
    };
    for (const auto &c : cases)
        EXPECT_EQ(c.fault, FaultsOf(c.text));
}

TEST(TranscriptRunner, UpdatesWhatIsOtherwiseAlone)
{
    std::vector<Step> steps =
        Parse("# c\n$ echo a1; echo '# b'; false\na...\nc\n\n$ echo d\n...\n");
    Play(&steps);

    const std::string updated = Updated(steps);

    EXPECT_EQ("# c\n$ echo a1; echo '# b'; false\n? 1\na...\n\\# b\n\n"
              "$ echo d\n...\n",
              updated);
    EXPECT_EQ("", FaultsOf(updated));
}

} // namespace
