// Measurements of real GPUs, changed at random, through all that is derived and
// printed of them; STP_SEEDS=5000 takes so many seeds, STP_SEEDS=25-27 these.
#include <array>
#include <cmath>
#include <random>
#include <set>

#include "report/page/json_at.h"
#include "report/page/page_files.h"

extern "C" {
#include "analyse/objective.h"
#include "core/policy/memory_policy.h"
#include "report/charts/labels.h"
#include "report/charts/plot.h"
#include "report/results/results.h"
#include "tune/tune.h"
}

namespace
{

namespace fs = std::filesystem;
using Rng = std::mt19937;
using Set = Owned<stp_dataset, stp_dataset_free>;

constexpr int kFiles = STP_PAGE_N_SOURCES - STP_PAGE_SWEEP;
using Rows = std::array<std::vector<stp_measurement>, kFiles>;

// Files by enum stp_page_source, and where those of measurements are from.
const char *const kNames[] = {
    "p.conf",       "p.conf.overlap",   "p.conf.memory",
    "p.conf.stage", "p.sweep.csv",      "p.verify.csv",
    "p.graph.csv",  "p.iterations.csv", "p.overlap-verify.csv"};
const char *const kFrom[kFiles] = {
    "reports/h200x2/steptune.sweep.csv", "reports/h200x2/steptune.verify.csv",
    "timings/h200x2_staged_steps.csv", "reports/h200x2/steptune.iterations.csv",
    "reports/h200x2/steptune.overlap-verify.csv"};

template <typename T> T OneOf(uint64_t number, const std::vector<T> &values)
{
    return values[number % values.size()];
}

// A number that all rows of a collective and size share.
uint64_t Hash(const stp_measurement &m, uint64_t salt)
{
    return ((m.n_bytes ^ salt) + 31 * m.coll) * 0x9E3779B97F4A7C15 >> 40;
}

void Scale(stp_measurement *m, double factor)
{
    for (double *us :
         {&m->us.mean, &m->us.median, &m->us.p95, &m->us.p99, &m->us.min})
        *us *= factor;
}

enum { N_CHANGES = 16 };
constexpr uint64_t kMost = uint64_t{1} << 48; // bytes that are read

// Makes a change; 'h' is the hash of the row.
void Change(int change, uint64_t h, uint64_t salt, stp_measurement *m)
{
    const unsigned arm = m->arm.algo + 3 * m->arm.proto +
                         m->arm.setup.min_ctas + 5 * m->arm.setup.memory +
                         m->arm.kind;
    double n = m->n_bytes;

    switch (change) {
    case 0: // arms that gain or lose
        Scale(m, exp2((h * (arm + 7) % 64 - 31.) / 32));
        break;
    case 1: // sizes: of another scale, one beside the other, at both ends
        n *= OneOf<double>(salt, {1e-3, 1 / 3., 3, 1e9, 1e15});
        m->n_bytes = n < 1 ? 1 : n > kMost ? kMost : uint64_t(n);
        break;
    case 2:
        m->n_bytes =
            OneOf<uint64_t>(salt, {1, 1 << 20, kMost - 60}) + uint64_t(log2(n));
        break;
    case 3:
        m->n_bytes = OneOf<uint64_t>(h, {m->n_bytes, 1, kMost});
        break;
    case 4:
        m->round = UINT32_MAX - m->round;
        m->iters = h % 2 ? 1 : UINT32_MAX;
        break;
    case 5: // times: all alike, of another scale, of an arm far away
        Scale(m, 10 / m->us.median);
        break;
    case 6:
        Scale(m, OneOf<double>(salt, {1e-9, 1e-3, 1e3, 1e9}));
        break;
    case 7:
        if (h % 3 == unsigned(m->arm.kind) % 3)
            Scale(m, OneOf<double>(salt, {1e-6, 0.1, 10, 1e6}));
        break;
    case 8:
        m->us.p95 = m->us.p99 = m->us.min = NAN;
        m->graph = h % 2;
        break;
    case 9:
        m->n_ranks = OneOf<unsigned>(h + salt, {1, 2, 2, 3, 8, UINT32_MAX});
        m->n_nodes = OneOf<unsigned>(h / 7, {1, 1, 2, UINT32_MAX});
        break;
    case 10: // workloads, of few layers and of too many
        if (m->work.mode == STP_MODE_ALONE)
            break;
        m->work.mode = 1 + (h + salt) % (STP_N_MODES - 1);
        m->work.layers = OneOf<unsigned>(h / 5, {1, 2, UINT32_MAX - 1});
        m->work.ratio = OneOf<double>(h, {0, 1, 1e300});
        m->work.compute_us = OneOf<double>(h / 3, {0, 1, 1e300});
        m->alone_us = OneOf<double>(h / 2, {0, 1e-9, 1e300});
        break;
    case 11:
        m->source = stp_source((h + salt) % STP_N_SOURCES);
        m->single_pass = h / 8 % 4 == 0;
        break;
    case 12:
        m->n_wrong = h % 4 == unsigned(m->arm.kind) ? INT64_MAX : 0;
        m->bits = h % 3 == 0 ? STP_BITS_OTHER : STP_BITS_SAME;
        break;
    case 13: // places, and types that no rule can tell apart
        m->in_place = h % 2;
        m->type = salt % 2 == 0 ? m->type : h % STP_N_TYPES;
        m->op = salt % 2 == 0 ? m->op : h / 3 % STP_N_OPS;
        break;
    case 14:
        m->ran_algo = int((h + salt) % (NCCL_NUM_ALGORITHMS + 1)) - 1;
        m->ran_proto = m->ran_algo < 0 ? -1 : int(h % NCCL_NUM_PROTOCOLS);
        m->ran_channels = h % 65;
        strcpy(
            m->ran_kernel,
            OneOf<const char *>(h, {"", STP_COPY_ENGINES, "</script>&",
                                    "A_kernel_of_a_name_of_39_bytes_like_it"}));
        break;
    case 15: // many arms
        if (m->arm.kind == STP_ARM_FORCED)
            m->arm.n_channels = (m->round * 7 + m->arm.proto) % 65;
        else if (m->arm.kind == STP_ARM_SETUP && m->round % 2 == 0)
            m->arm.setup = stp_setup_of(m->arm.setup.memory, 1 + m->round % 64);
        break;
    }
}

// A few sizes of what was recorded, changed; says how.
Rows AnyRows(const Rows &recorded, Rng *rng, std::string *how)
{
    const uint64_t salt = (*rng)(),
                   sizes = OneOf<uint64_t>((*rng)(), {4, 8, 16});
    const unsigned kind = (*rng)() % 8;
    Rows rows;

    *how = "rows " + std::to_string(kind) + ", changes";
    for (int f = 0; f < kFiles; f++)
        for (const stp_measurement &m : recorded[f]) {
            const bool is_auto = m.arm.kind == STP_ARM_AUTO;
            if (Hash(m, salt) % (f == 2 ? 2 : sizes) > 0 || // f 2 has 4 sizes
                m.round > (kind == 0 ? 0 : 3) ||
                (kind == 1 && (*rng)() % 3 == 0) ||
                (kind == 2 && is_auto && Hash(m, salt) / 64 % 5 == 0) ||
                (kind == 3 && f == int(salt % kFiles)))
                continue;
            rows[f].insert(rows[f].end(), kind == 4 ? 2 : 1, m);
        }
    for (int change = 0; change < N_CHANGES; change++) {
        const uint64_t own = (*rng)();
        if (change == 0 ? own % 4 == 0 : own % 5 > 0)
            continue;
        *how += " " + std::to_string(change);
        for (auto &file : rows)
            for (stp_measurement &m : file)
                Change(change, Hash(m, own), own, &m);
    }
    return rows;
}

// ---- what always holds ----

bool ShareCalls(const stp_rule &a, const stp_rule &b)
{
    return a.coll == b.coll && a.nodes.min == b.nodes.min &&
           a.ranks.min == b.ranks.min && a.overlap == b.overlap &&
           a.graph == b.graph;
}

// Ranges are of sizes that were measured, each size in one.
void ExpectSound(const stp_policy *policy, const stp_dataset &data,
                 bool extrapolates)
{
    for (size_t i = 0; i < stp_policy_size(policy); i++) {
        const stp_rule &rule = *stp_policy_rule(policy, i);
        uint64_t least = UINT64_MAX, most = 0;
        for (size_t k = 0; k < data.n_rows; k++) {
            const stp_measurement &m = data.rows[k];
            if ((m.coll != rule.coll && m.work.mode != STP_MODE_FSDP) ||
                m.n_ranks != rule.ranks.min || m.n_nodes != rule.nodes.min)
                continue;
            least = std::min(least, m.n_bytes);
            most = std::max(most, m.n_bytes);
        }
        EXPECT_LE(rule.bytes.min, rule.bytes.max) << rule.line;
        EXPECT_TRUE(extrapolates ||
                    (least <= rule.bytes.min && rule.bytes.max <= most))
            << rule.line;
        for (size_t k = 0; k < i; k++) {
            const stp_rule &other = *stp_policy_rule(policy, k);
            EXPECT_TRUE(!ShareCalls(other, rule) ||
                        other.bytes.max < rule.bytes.min ||
                        rule.bytes.max < other.bytes.min)
                << other.line << " and " << rule.line;
        }
    }
}

// No rule stands where the same times say that its arm is slower.
void ExpectGains(const stp_derived &derived, const stp_comparisons &all)
{
    for (size_t i = 0; i < derived.n_rules; i++) {
        const stp_derived_rule &rule = derived.rules[i];
        for (size_t k = 0; k < all.n_points; k++) {
            const stp_point *p = &all.points[k];
            const stp_comparison *c = stp_point_arm(p, &rule.arm);
            if (!stp_point_alike(p, rule.points) ||
                p->n_bytes < rule.min_bytes || p->n_bytes > rule.max_bytes)
                continue;
            ASSERT_NE(nullptr, c) << i << " at " << p->n_bytes;
            EXPECT_GT(c->gain.low, 1) << i << " at " << p->n_bytes;
        }
    }
}

void ExpectFinite(const cJSON *json)
{
    for (; json != nullptr; json = json->next) {
        EXPECT_TRUE(!cJSON_IsNumber(json) || std::isfinite(json->valuedouble))
            << json->string;
        ExpectFinite(json->child);
    }
}

// It has no control characters, numbers that are none and tags of templates.
void ExpectText(const std::string &text)
{
    size_t at = 0;
    const auto is_bad = [&](char c) {
        return (c >= 0 && c < ' ' && c != '\n' && c != '\t') || c == 0x7f ||
               text.compare(at, 2, "{{") == 0 ||
               (text.compare(at, 3, "nan") == 0 && at > 0 &&
                !isalpha(text[at - 1]) && !isalpha(text[at + 3]));
    };
    while (at < text.size() && !is_bad(text[at]))
        at++;
    EXPECT_EQ(text.size(), at)
        << text.substr(at - std::min<size_t>(at, 300), 400);
}

class Recordings : public InFolder
{
  protected:
    // Writes the rows to files and reads these, of a machine of odd names.
    void Load(const Rows &rows, Rng *rng)
    {
        const std::string longest(63, '<');
        const std::vector<const char *> names = {
            "",       "NVIDIA H200",  "a,b",      "\"&'*",
            "%s%n\\", "\xC3\xA9\xFF", "# gpu: x", longest.c_str()};
        stp_dataset data{};
        for (auto [text, size] : {std::pair{data.machine, sizeof(data.machine)},
                                  {data.gpu, sizeof(data.gpu)},
                                  {data.nccl, sizeof(data.nccl)},
                                  {data.tuner, sizeof(data.tuner)}})
            snprintf(text, size, "%s", OneOf((*rng)(), names));
        strcpy(data.run, (*rng)() % 4 == 0 ? "" : "12345678");
        for (int f = 0; f < kFiles; f++) {
            const std::string path = Path(kNames[STP_PAGE_SWEEP + f]);
            data.rows = const_cast<stp_measurement *>(rows[f].data());
            data.n_rows = rows[f].size();
            fs::remove(path);
            stp_dataset_free(&sets_[f]);
            if (data.n_rows == 0)
                continue;
            ASSERT_EQ(STP_OK, stp_measurements_save(&data, "test", path.c_str(),
                                                    &err_));
            EXPECT_EQ(STP_OK, stp_measurements_load_any(path.c_str(), -1, 0,
                                                        &sets_[f], &err_))
                << err_.line << ": " << err_.text;
        }
    }

    // Whether the status is good; if not, there is a sentence why.
    bool IsDone(stp_status status)
    {
        if (status == STP_OK)
            return true;
        EXPECT_NE('\0', err_.text[0]);
        Say([&](FILE *fp) { fprintf(fp, "%s\n", err_.text); });
        return false;
    }

    template <typename Write> void Say(Write write)
    {
        const std::string text = Written(write);
        ExpectText(text);
        said_ += text;
        if (text[0] != '{')
            return;
        const Json json = ParseJson(text);
        EXPECT_NE(nullptr, json.get()) << text.substr(0, 400);
        ExpectFinite(json.get());
    }

    // All that the files give, which is alike each time.
    std::string Run(unsigned seed)
    {
        Set launched, pooled;
        said_.clear();
        for (int s = 0; s < STP_PAGE_SWEEP; s++)
            fs::remove(Path(kNames[s]));
        for (const Set &set : sets_)
            if (set.n_rows > 0) {
                Print(set);
                EXPECT_EQ(STP_OK,
                          stp_measurements_pool(&pooled, &set, false, &err_));
                if (&set != &sets_[STP_PAGE_GRAPH - STP_PAGE_SWEEP])
                    EXPECT_EQ(STP_OK, stp_measurements_pool(&launched, &set,
                                                            false, &err_));
            }
        if (pooled.n_rows == 0)
            return said_;
        Draw();
        terms_ = {};
        terms_.min_gain = OneOf<double>(seed, {0.02, 0, 0.02, 0.3});
        terms_.trust_passes = seed / 2 % 4 == 0;
        terms_.same_bits = seed / 3 % 4 == 0;
        terms_.extrapolate = seed / 5 % 3 == 0;
        Derive(launched, pooled, seed / 7 % 3 == 0);
        MakePage();
        for (int s = 0; s < STP_PAGE_SWEEP; s++)
            said_ += Read(kNames[s]);
        return said_;
    }

    void Print(const stp_dataset &data)
    {
        const stp_device_info info{};
        Owned<stp_comparisons, stp_comparisons_free> all;
        if (!IsDone(stp_compare(&data, &all, &err_)))
            return;
        Say([&](FILE *fp) { stp_print_sweep(&all, fp); });
        Say([&](FILE *fp) { stp_print_sweep_best(data.tuner, &all, fp); });
        Say([&](FILE *fp) { stp_print_sweep_json(&data, fp); });
        Say([&](FILE *fp) { stp_print_verdicts_json(&info, "", &all, fp); });
    }

    // Draws collectives alone; no two curves of a plot have one label.
    void Draw()
    {
        std::vector<stp_dataset> sets;
        std::vector<const char *> names;
        Owned<stp_curves, stp_curves_free> curves;
        for (int f = 0; f < kFiles; f++)
            if (sets_[f].n_rows > 0 &&
                stp_dataset_n_iterations(&sets_[f]) == 0) {
                sets.push_back(sets_[f]);
                names.push_back(kNames[STP_PAGE_SWEEP + f]);
            }
        static_cast<stp_curves &>(curves) =
            stp_curves_make(sets.data(), names.data(), sets.size());
        for (int i = 0; i < STP_N_PLOT_KINDS * NCCL_NUM_TUNED_FUNCS; i++) {
            const stp_plot plot{stp_plot_kind(i / NCCL_NUM_TUNED_FUNCS),
                                i % NCCL_NUM_TUNED_FUNCS, 32};
            Owned<stp_chart, stp_chart_free> chart;
            Owned<stp_labelled_set, stp_labelled_free> picked;
            std::set<std::string> labels;
            if (!stp_plot_has(&curves, &plot))
                continue;
            stp_plot_make(&curves, &plot, &chart);
            Say([&](FILE *fp) { stp_chart_write(&chart, STP_PLOT_SVG, fp); });
            static_cast<stp_labelled_set &>(picked) =
                stp_pick_curves(&curves, plot.coll, 32);
            for (size_t k = 0; k < picked.n; k++)
                EXPECT_TRUE(labels.insert(picked.all[k].label).second)
                    << picked.all[k].label;
        }
        for (int t = 0; t < STP_N_STUDY_TEXTS && stp_plot_is_study(&curves);
             t++)
            Say([&](FILE *fp) {
                stp_study_write(&curves, stp_study_text(t), fp);
            });
    }

    // Derives all kinds of policies, and reports them as tune does.
    void Derive(const stp_dataset &launched, const stp_dataset &data,
                bool is_portable)
    {
        const stp_device_info info{};
        const stp_comparisons none{};
        Set selected[2];
        Owned<stp_comparisons, stp_comparisons_free> all[2];
        Owned<stp_derived, stp_derived_free> derived[2];
        stp_steadiness steadiness[2];
        Owned<stp_memory_situations, stp_memory_situations_free> situations[2];
        Owned<stp_memory_rules, stp_memory_rules_free> rules[2];
        bool is_there[STP_PAGE_SWEEP];
        stp_policy_origin origin{};

        origin.made_by = "a test";
        origin.min_gain = terms_.min_gain;
        origin.trusts_passes = terms_.trust_passes;
        origin.same_bits = terms_.same_bits;
        origin.portable = is_portable;
        for (int k = 0; k < 2; k++) {
            const stp_objective objective = stp_objective(k);
            origin.data = &selected[k];
            origin.steadiness = &steadiness[k];
            is_there[k] =
                IsDone(stp_objective_select(&launched, objective, &selected[k],
                                            &err_)) &&
                IsDone(stp_objective_compare(&selected[k], objective, &all[k],
                                             &err_)) &&
                IsDone(stp_derive_on(&all[k], &terms_, &derived[k], &err_)) &&
                IsDone(stp_tune_measure_steadiness(&selected[k], &all[k],
                                                   &steadiness[k], &err_));
            if (!is_there[k])
                continue;
            ExpectGains(derived[k], all[k]);
            EXPECT_TRUE(IsDone(stp_policy_file_save(
                &derived[k], &origin, Path(kNames[k]).c_str(), &err_)))
                << err_.text;
            Expect(kNames[k], derived[k].n_rules, data, nullptr);
            Say([&](FILE *fp) { stp_print_rules(&derived[k], fp); });
            Say([&](FILE *fp) { stp_no_rule_write(&origin, fp); });
            Say([&](FILE *fp) {
                stp_print_rules_json(&derived[k], &selected[k], &steadiness[k],
                                     fp);
            });
        }
        for (int k = 0; k < 2; k++) {
            const stp_memory_data from{&data, &data, {}};
            const char *name = kNames[STP_PAGE_MEMORY_POLICY + k];
            terms_.kind = k == 0 ? STP_POLICY_OF_MEMORY : STP_POLICY_OF_STAGE;
            is_there[2 + k] = IsDone(stp_memory_situations_compare(
                                  &from, &terms_, &situations[k], &err_)) &&
                              IsDone(stp_memory_rules_derive(
                                  &situations[k], data.gpu, &rules[k], &err_));
            if (!is_there[2 + k])
                continue;
            origin.data = &data;
            EXPECT_TRUE(IsDone(stp_memory_file_save(&rules[k].table, &origin,
                                                    Path(name).c_str(), &err_)))
                << err_.text;
            Expect(name, rules[k].table.n_rules, data, &situations[k]);
            Say([&](FILE *fp) {
                stp_print_memory_rules(&rules[k].table, true, fp);
            });
        }
        if (!is_there[0])
            return;
        const stp_tune_overlap overlap{
            "", "", "", &selected[1], &steadiness[1], &derived[1], &all[1], 1};
        stp_tune_report report{};
        report.info = &info;
        report.run = report.policy_path = report.policy_hash = "";
        report.min_gain = terms_.min_gain;
        report.sweep = report.verdicts = &all[0];
        report.derived = &derived[0];
        report.steps = is_there[1] ? &all[1] : &none;
        report.overlap = is_there[1] ? &overlap : nullptr;
        report.memory = is_there[2] ? &rules[0].table : nullptr;
        report.stage = is_there[3] ? &rules[1].table : nullptr;
        report.choices = is_there[3] ? &situations[1] : nullptr;
        EXPECT_EQ(STP_OK,
                  stp_tune_report_save(&report, Path("r").c_str(), &err_));
        Say([&](FILE *fp) { fputs(Read("r").c_str(), fp); });
        Say([&](FILE *fp) { stp_print_tuning_json(&report, fp); });
    }

    // Reads a policy that was written.  Rules for buffers rest on what was
    // measured in these situations.
    void Expect(const char *name, size_t n_rules, const stp_dataset &data,
                const stp_memory_situations *situations)
    {
        stp_policy *policy = nullptr;
        SCOPED_TRACE(name);
        ASSERT_EQ(STP_OK,
                  stp_policy_load_any(Path(name).c_str(), &policy, &err_))
            << err_.line << ": " << err_.text;
        EXPECT_EQ(n_rules, stp_policy_size(policy));
        ExpectSound(policy, data, terms_.extrapolate);
        if (situations != nullptr) {
            Owned<stp_memory_rules, stp_memory_rules_free> rules;
            static_cast<stp_memory_rules &>(rules) =
                stp_memory_rules_measure(policy, situations, data.gpu);
            for (size_t i = 0; i < n_rules; i++)
                EXPECT_TRUE(stp_memory_rule_is_idle(&rules.rules[i].rule) !=
                                nullptr ||
                            (rules.rules[i].n_evidence > 0 &&
                             rules.rules[i].evidence->gain.low > 1))
                    << i;
            Say([&](FILE *fp) { stp_print_memory_sizes(&rules.table, fp); });
        }
        stp_policy_free(policy);
    }

    // Makes the page of the folder, and its figures.
    void MakePage()
    {
        const char *const folder = folder_.path().c_str();
        const std::string path = Path("page.html");
        auto found = std::make_unique<stp_page_found>();
        stp_status status = stp_page_find(&folder, 1, found.get(), &err_);

        for (bool is_json : {true, false})
            if (status == STP_OK)
                Say([&](FILE *fp) {
                    status = stp_page_save(&found->sources, path.c_str(),
                                           is_json, fp, nullptr, &err_);
                });
        if (!IsDone(status))
            return;
        const std::string page = Read("page.html"), end = "</script>";
        const size_t at = page.find("id=\"data\">") + 10;
        Say([&](FILE *fp) { fputs(page.c_str(), fp); });
        Say([&](FILE *fp) {
            fputs(page.substr(at, page.find(end, at) - at).c_str(), fp);
        });
        fs::remove(path);
    }

    Set sets_[kFiles];
    stp_derive_terms terms_{};
    std::string said_;
};

TEST_F(Recordings, GiveSoundPoliciesAndPagesHoweverTheyAreChanged)
{
    const char *text = std::getenv("STP_SEEDS");
    unsigned first = 0, last = 4;
    Rows recorded;

    if (text != nullptr && sscanf(text, "%u-%u", &first, &last) == 1)
        last = std::exchange(first, 0) - 1;
    for (int f = 0; f < kFiles; f++) {
        Set set;
        ASSERT_EQ(STP_OK,
                  stp_measurements_load_any(
                      (STP_FIXTURES "/" + std::string(kFrom[f])).c_str(), -1, 0,
                      &set, &err_));
        /* those of graphs are launched, too */
        for (size_t i = 0; i < set.n_rows; i++)
            recorded[f == 2 && !set.rows[i].graph ? 3 : f].push_back(
                set.rows[i]);
    }
    for (unsigned seed = first; seed <= last && !HasFatalFailure(); seed++) {
        Rng rng(seed);
        std::string how;
        const Rows rows = AnyRows(recorded, &rng, &how);
        SCOPED_TRACE("seed " + std::to_string(seed) + ": " + how);
        Load(rows, &rng);
        const std::string said = Run(seed);
        if (seed % 4 == 0)
            EXPECT_TRUE(said == Run(seed)) << "not the same twice";
    }
}

} // namespace
