// Where a number comes from travels with it: every chain of commands and
// formats, on machines of every kind.
#include <set>

#include "support/cli_fixture.h"
#include "support/written.h"
#include "support/slow.h"
#include "support/with_param.h"

namespace
{

namespace fs = std::filesystem;
using cli::Outcome;

// The worth of a time, best first; as steptune names them.
const std::vector<std::string> kWords = {"measured", "recorded", "interpolated",
                                         "virtual", "modelled"};
enum { MEASURED, RECORDED, INTERPOLATED, VIRTUAL, MODELLED, N_SOURCES };

// Where the words stand for nothing that a time is.
const char *const kProse[] = {
    "recorded machine",
    "Recorded by",
    "which this machine is recorded",
    "not measured",
    "nothing measured",
    "measured by nobody",
    "nobody measured",
    "nothing was measured",
    "recorded sizes",  // "interpolated between recorded sizes"
    "out of recorded", // "simulated in virtual time, out of recorded times"
    "in virtual time", // always beside "simulated" or "modelled"
    "fastest pair measured",
    "the sizes measured",
};

// The sources that a file or a print claims for its times.
struct Claims {
    int best = N_SOURCES;
    int worst = -1;
    bool single_pass = false;

    bool IsEmpty() const
    {
        return worst < 0;
    }
    void Add(int source)
    {
        best = std::min(best, source);
        worst = std::max(worst, source);
    }
};

bool HasWord(const std::string &text, const std::string &word)
{
    const auto is_part = [&](size_t at) {
        return at < text.size() &&
               (isalnum(static_cast<unsigned char>(text[at])) ||
                text[at] == '_');
    };

    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at++)
        if (!is_part(at - 1) && !is_part(at + word.size()))
            return true;
    return false;
}

Claims ClaimsOf(std::string text)
{
    Claims claims;

    for (const char *prose : kProse)
        for (size_t at; (at = text.find(prose)) != std::string::npos;)
            text.erase(at, strlen(prose));
    for (int s = 0; s < N_SOURCES; s++)
        if (HasWord(text, kWords[s]))
            claims.Add(s);
    for (const char *words : {"single pass", "not interleaved"})
        claims.single_pass |= text.find(words) != std::string::npos;
    // JSON says true, or a count.
    static const std::string key = "single_pass\":";
    for (size_t at = 0; (at = text.find(key, at)) != std::string::npos;) {
        at = text.find_first_not_of('\t', at + key.size());
        claims.single_pass |=
            at != std::string::npos && (text.compare(at, 4, "true") == 0 ||
                                        (text[at] >= '1' && text[at] <= '9'));
    }
    return claims;
}

// ---- the rows of files that are read again ----

int SourceOf(const std::string &word)
{
    auto at = std::find(kWords.begin(), kWords.end(), word);
    return at == kWords.end() ? -1 : int(at - kWords.begin());
}

// Claims of a table with a column "source" in each row.
Claims ClaimsOfTable(const std::string &text, char by)
{
    Claims claims;
    std::vector<std::string> names;

    for (const std::string &line : SplitLines(text)) {
        std::vector<std::string> fields = Split(line, by);
        if (std::find(fields.begin(), fields.end(), "source") != fields.end())
            names = fields;
        else if (line.empty() || line[0] == '#')
            continue;
        for (size_t i = 0; i < names.size() && i < fields.size(); i++) {
            if (names[i] == "single_pass")
                claims.single_pass |= fields[i] == "1";
            if (names[i] != "source" || fields[i] == "source")
                continue;
            EXPECT_GE(SourceOf(fields[i]), 0) << line;
            claims.Add(SourceOf(fields[i]));
        }
    }
    return claims;
}

// Claims of nccl-tests' text, in a line above each row.
Claims ClaimsOfText(const std::string &text)
{
    const std::string mark = "# Source: ";
    Claims claims;
    int now = -1;

    for (const std::string &line : SplitLines(text))
        if (line.rfind(mark, 0) == 0) {
            now = SourceOf(
                line.substr(mark.size(), line.find(',') - mark.size()));
        } else if (!line.empty() && line[0] != '#') {
            EXPECT_GE(now, 0) << "no source above " << line;
            claims.Add(now);
        }
    return claims;
}

Claims ClaimsOfRows(const std::string &name, const std::string &text)
{
    const std::string end = fs::path(name).extension();

    return end == ".csv" ? ClaimsOfTable(text, ',')
           : text.rfind("# steptune version ", 0) == 0 ? ClaimsOfText(text)
                                                       : ClaimsOf(text);
}

// ---- steps ----

// The kinds of files that a step reads and writes.
enum Kind { MACHINE, TIMES, ROUNDS, RULES, TRAINING, END };

// A command; {} stands for what it takes, @ for the file or folder that it
// leaves.
struct Step {
    const char *name;
    Kind takes;
    Kind leaves;
    const char *file; // that it leaves: @ and this
    const char *command;
    const char *prints; // its standard output goes to this; NULL: nowhere
    bool computes;      // its times are of compute and collectives
    bool may_be_silent; // where nobody has a time
};

// Sizes are put in for %.
const Step kSteps[] = {
    {"sweep", MACHINE, TIMES, ".csv",
     "sweep --on {} --collective allreduce % --arms ring/ll128,ring/simple "
     "-n 2 -o @.csv",
     nullptr, false, false},
    {"sweep-json", MACHINE, END, nullptr,
     "sweep --on {} --collective allreduce % --arms ring/ll128,ring/simple "
     "-n 2 -o @.json --format json",
     nullptr, false, false},
    {"sweep-nccl", MACHINE, TIMES, ".txt",
     "sweep --on {} --collective allreduce % --arms ring/ll128,ring/simple "
     "-n 2 --format nccl",
     ".txt", false, false},
    {"iterate", MACHINE, ROUNDS, "/rounds.csv",
     "iterate --on {} --bytes 4M --arms auto,ring/ll128 -n 2 -o @", nullptr,
     true, false},
    {"record", MACHINE, MACHINE, "",
     "record @ -o . --on {} --collective allreduce % -n 2 --channels 8",
     nullptr, false, false},
    {"train", MACHINE, TRAINING, "/benchmark_results_GPU.json",
     "train --on {} --size tiny --epochs 1 --samples 4096 -o @", nullptr, true,
     false},
    {"tune", MACHINE, TIMES, ".verify.csv",
     "tune --on {} --collective allreduce % -n 2 --no-iterate -o @.conf",
     nullptr, false, false},
    {"verify", MACHINE, TIMES, ".conf.verified.csv",
     "verify @.conf --on {} --collective allreduce % -n 2 --proof", nullptr,
     false, false},
    {"why", MACHINE, END, nullptr, "explain --on {} --policy r.conf --why 3M",
     nullptr, false, true},
    {"plot", TIMES, END, nullptr, "plot {} -o @", nullptr, false, false},
    {"report", TIMES, END, nullptr, "report {} -o @.html", nullptr, false,
     false},
    {"report-json", TIMES, END, nullptr, "report {} -o @.html --json", nullptr,
     false, false},
    {"derive", TIMES, RULES, ".conf", "derive {} --trust-passes -o @.conf",
     nullptr, false, false},
    {"derive-json", TIMES, END, nullptr, "derive {} --trust-passes --json",
     nullptr, false, false},
    {"derive-iterations", ROUNDS, RULES, ".conf",
     "derive {} --objective iteration --min-gain 0 -o @.conf", nullptr, true,
     false},
    {"report-iterations", ROUNDS, END, nullptr, "report {} -o @.html", nullptr,
     true, false},
    {"overlap", ROUNDS, MACHINE, "", nullptr, nullptr, true, false},
    {"verify-rules", RULES, END, nullptr,
     "verify {} --on ONMACHINE --collective allreduce % -n 2", nullptr, false,
     false},
    {"why-rules", RULES, END, nullptr,
     "explain --on ONMACHINE --policy {} --why 4M", nullptr, false, true},
    {"plot-training", TRAINING, END, nullptr, "plot {} -o @", nullptr, true,
     false},
};

// ---- chains ----

// The best source that a step may claim for its times, and the worst that it
// must admit.
struct Node {
    Kind kind;
    std::string name; // of the file or folder
    Claims limit;     // of a machine those of collectives alone
    int compute;      // of a machine, the best of compute and collectives
};

struct Beginning {
    const char *name;
    Kind kind;
    const char *input;
    const char *sizes;
    int best;
    bool single_pass;
    unsigned n_chains;
};

std::string Replaced(std::string text, const std::string &what,
                     const std::string &by)
{
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos;
         at += by.size())
        text.replace(at, what.size(), by);
    return text;
}

class SourceChains : public cli::Cli,
                     public testing::WithParamInterface<Beginning>
{
  protected:
    void SetUp() override
    {
        Cli::SetUp();
        charts::WriteCopyist(dir_ / "copy");
        Set("STEPTUNE_GNUPLOT", (dir_ / "copy"));
        Write("r.conf", kRules);
    }

    // Everything that a step left and was not there before.
    std::vector<std::string> NewFiles(std::set<std::string> *before) const
    {
        std::vector<std::string> names;
        for (const auto &entry : fs::recursive_directory_iterator(dir_))
            if (entry.is_regular_file() && before->insert(entry.path()).second)
                names.push_back(fs::relative(entry.path(), dir_));
        return names;
    }

    // The same bound for every text, whatever its format.
    void Check(const std::string &of, const Claims &claims, const Claims &limit)
    {
        if (claims.IsEmpty() || claims.best >= limit.best)
            return;
        n_promoted_++;
        ADD_FAILURE() << of << " says " << kWords[claims.best] << " of what is "
                      << kWords[limit.best] << " at best";
    }

    // Takes the step; false if it says nothing.
    bool Take(const Step &step, const Node &from, const std::string &path,
              Node *to)
    {
        const std::string out = "n" + std::to_string(n_++);
        Claims limit = from.limit;
        Claims all;
        Outcome o;

        if (from.kind == RULES) // what it says is of the machine, not of these
            limit = machine_limit_;

        if (from.kind == MACHINE && step.computes) {
            limit.best = limit.worst = from.compute;
            limit.single_pass = false;
        }
        if (step.command == nullptr) { // its rounds as overlap.csv
            fs::copy(machine_, dir_ / out);
            fs::copy_file(dir_ / from.name, dir_ / out / "overlap.csv",
                          fs::copy_options::overwrite_existing);
            *to = {MACHINE, "./" + out, machine_limit_, limit.best};
            return true;
        }
        if (strcmp(step.name, "verify") == 0)
            Write((out + ".conf").c_str(), kRules);
        std::set<std::string> before;
        NewFiles(&before);
        std::string command = Replaced(step.command, "@", out);
        command =
            Replaced(Replaced(command, "%", GetParam().sizes), "{}", from.name);
        o = Run(Replaced(command, "ONMACHINE", machine_.filename()));
        if (step.prints != nullptr)
            Write((out + step.prints).c_str(), o.out);
        std::vector<std::string> files = NewFiles(&before);
        if (o.status > 1 || (files.empty() && o.out.empty()))
            return false; // it refuses such times
        std::vector<std::pair<std::string, std::string>> texts = {
            {"standard output", o.out}};
        for (const std::string &file : files)
            texts.push_back({file, Read(file.c_str())});
        for (const auto &[name, text] : texts) {
            const Claims claims = ClaimsOf(text);
            Check(path + ": " + name, claims, limit);
            if (!claims.IsEmpty())
                all.Add(claims.worst);
            all.single_pass |= claims.single_pass;
        }
        for (const std::string &file : files) {
            const Claims rows = ClaimsOfRows(file, Read(file.c_str()));
            Check(path + ": a row of " + file, rows, limit);
            all.single_pass |= rows.single_pass;
        }
        if (step.leaves == END && all.IsEmpty() && step.may_be_silent)
            return true;
        EXPECT_GE(all.single_pass, limit.single_pass && !step.may_be_silent)
            << path << o.out;
        EXPECT_GE(all.worst, limit.worst)
            << path << " does not say " << kWords[limit.worst] << "\n"
            << command << "\n"
            << o.out << o.err;
        if (step.file == nullptr)
            return true;
        *to = {step.leaves,
               (step.leaves == MACHINE ? "./" : "") + out + step.file,
               from.limit, from.compute};
        if (step.leaves == TRAINING)
            for (const std::string &file : files)
                to->name = file;
        if (step.leaves != MACHINE)
            to->limit = ClaimsOfRows(to->name, Read(to->name.c_str()));
        return true;
    }

    void Walk(const Node &from, const std::string &path, unsigned left,
              bool may_record)
    {
        for (const Step &step : kSteps) {
            const bool records = step.leaves == MACHINE;
            Node to{END, "", {}, 0};
            if (step.takes != from.kind || (records && !may_record))
                continue;
            const std::string name = path + " > " + step.name;
            if (!Take(step, from, name, &to))
                continue;
            n_chains_++;
            if (left > 1)
                Walk(to, name, left - 1, may_record && !records);
        }
    }

    // A CSV's all-reduces from 1 MiB on are enough, and sooner done.
    std::string Excerpt(const std::string &path)
    {
        std::string text;

        for (const std::string &line : SplitLines(Read(path))) {
            const std::vector<std::string> fields = Split(line, ',');
            if (line[0] == '#' || fields[0] == "collective" ||
                (fields[0] == "allreduce" && std::stoull(fields[1]) >= 1 << 20))
                text += line + "\n";
        }
        Write("excerpt.csv", text);
        return "excerpt.csv";
    }

    static constexpr char kRules[] =
        "allreduce,0,1073741824,ring,simple,-1,-1,-1,-1,-1\n";
    fs::path machine_;
    Claims machine_limit_;
    unsigned n_ = 0;
    unsigned n_chains_ = 0;
    unsigned n_promoted_ = 0;
};

TEST_P(SourceChains, PromoteNoNumber)
{
    STP_SLOW();
    const Beginning &s = GetParam();
    const bool is_csv = s.kind == TIMES && strstr(s.input, ".csv") != nullptr;
    Node from{s.kind,
              is_csv ? Excerpt(s.input) : s.input,
              {},
              std::max(int(VIRTUAL), s.best)};

    from.limit.Add(s.best);
    from.limit.single_pass = s.single_pass;
    machine_ = fs::path(STP_FIXTURES "/machines") /
               (s.kind == MACHINE ? s.input : "h200x2");
    machine_limit_ = from.limit;

    Walk(from, s.name, 4, true);

    printf("%s: %u chains tried, %u numbers promoted\n", s.name, n_chains_,
           n_promoted_);
    EXPECT_EQ(s.n_chains, n_chains_);
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(
    Of, SourceChains,
    testing::Values(
        Beginning{"measured_text", TIMES, STP_FIXTURES "/timings/h200x4_all_reduce_perf.txt", "", MEASURED, false, 3},
        Beginning{"measured_csv", TIMES, STP_FIXTURES "/reports/h200x2/steptune.sweep.csv", "-b 4M -e 8M", MEASURED, false, 7},
        Beginning{"recorded", MACHINE, "h200x4", "-b 3905536 -e 3905536", RECORDED, false, 105},
        Beginning{"interpolated", MACHINE, "h200x4", "-b 2500000 -e 5000000 -i 2500000", INTERPOLATED, false, 105},
        Beginning{"single_pass", MACHINE, "h200x4", "-b 64 -e 128", RECORDED, true, 98},
        Beginning{"modelled", MACHINE, "a100x8", "-b 1M -e 4M", MODELLED, false, 85}),
    CaseName());
// clang-format on

} // namespace
