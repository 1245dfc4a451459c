// NCCL's own choices by version and by variable, and what values NCCL reads.
#include <gmock/gmock.h>

#include <random>
#include <set>

#include "support/mock_test.h"

extern "C" {
#include "analyse/explain/overlay.h"
}

namespace
{

using namespace mock_test;
using testing::HasSubstr;
using testing::StartsWith;

std::map<std::string, std::string> environment;

char *Variable(const char *name)
{
    auto found = environment.find(name);
    return found != environment.end() ? found->second.data() : nullptr;
}

class Overlay
{
  public:
    Overlay(const std::string &machine, int coll, uint64_t max_bytes,
            bool one = false)
        : path_(STP_FIXTURES "/machines/" + machine)
    {
        for (const char *version;
             (version = mock_release_name(cases.size()));) {
            cases.emplace_back();
            stp_explain_options &options = cases.back().options;
            options.machine_path = path_.c_str();
            options.nccl = version;
            options.variable = Variable;
            options.is_one = one;
        }
        overlay = stp_overlay_ask(cases.data(), cases.size(), coll, max_bytes);
    }
    ~Overlay()
    {
        stp_overlay_free(&overlay);
    }
    Overlay(const Overlay &) = delete;
    Overlay &operator=(const Overlay &) = delete;

    const stp_overlay_row *Find(int coll, uint64_t n_bytes) const
    {
        for (size_t i = 0; i < overlay.n_rows; i++)
            if (overlay.rows[i].coll == coll &&
                overlay.rows[i].min_bytes <= n_bytes &&
                n_bytes <= overlay.rows[i].max_bytes)
                return &overlay.rows[i];
        return nullptr;
    }

    std::vector<stp_choice_case> cases;
    stp_overlay overlay{};

  private:
    const std::string path_;
};

// Each version chooses at a size what the overlay says of it.
TEST(ExplainChoices, AreThoseOfEachVersionUnderTheVariables)
{
    const struct {
        const char *name;
        std::map<std::string, std::string> set;
    } machines[] = {
        {"h100x8", {}},
        {"h100n2x8",
         {{"NCCL_ALGO", "allreduce:tree,ring"}, {"NCCL_PROTO", "^LL"}}},
        {"h100x8", {{"NCCL_NVLS_ENABLE", "0"}, {"NCCL_MAX_NCHANNELS", "4"}}},
    };
    std::mt19937_64 random(5);
    size_t n_differ = 0;

    for (const auto &[name, set] : machines) {
        environment = set;
        const Overlay o(name, -1, uint64_t{1} << 30);
        const Machine machine = LoadMachine(name);
        const uint64_t grain =
            2 * static_cast<uint64_t>(
                    mock_machine_get_info(machine.get())->n_ranks);

        for (int i = 0; i < 60; i++) {
            const int coll = static_cast<int>(random() % 5);
            const uint64_t n_bytes =
                (1 + (random() >> (35 + random() % 20)) / grain) * grain;
            const stp_overlay_row *row = o.Find(coll, n_bytes);
            ASSERT_NE(nullptr, row) << coll << " " << n_bytes;
            for (size_t v = 0; v < o.cases.size(); v++) {
                mock_nccl_options options{};
                options.version = mock_release_name(v);
                options.algo = Variable("NCCL_ALGO");
                options.proto = Variable("NCCL_PROTO");
                options.no_nvls = Variable("NCCL_NVLS_ENABLE") != nullptr;
                if (Variable("NCCL_MAX_NCHANNELS") != nullptr)
                    options.limits.max_channels = 4;
                Nccl nccl = MakeNccl(options);
                Comm comm = MakeComm(nccl, machine);
                mock_call call = Call(static_cast<ncclFunc_t>(coll), n_bytes);
                mock_outcome out;
                const bool runs = mock_comm_collective(comm.get(), &call,
                                                       &out) == ncclSuccess;
                EXPECT_EQ(runs ? out.algo : -1, row->picks[v].pick.algo)
                    << name << " " << options.version << " " << coll << " "
                    << n_bytes;
                EXPECT_EQ(runs ? out.proto : -1, row->picks[v].pick.proto);
                n_differ += v > 0 && !stp_pick_equal(row->picks[v].pick,
                                                     row->picks[0].pick);
            }
        }
    }
    EXPECT_GT(n_differ, 20u);
}

TEST(ExplainChoices, CoverAllSizesOnce)
{
    environment = {};
    const Overlay o("h100n2x8", ncclFuncAllReduce, 1 << 28);
    uint64_t next = 32;

    for (size_t i = 0; i < o.overlay.n_rows; i++) {
        EXPECT_EQ(next, o.overlay.rows[i].min_bytes);
        next = o.overlay.rows[i].max_bytes + 32;
    }
    EXPECT_EQ((uint64_t{1} << 28) + 32, next);
}

// By ranges made by hand: channels count, lines do not.
TEST(ExplainChoices, DifferWhereOneDecidesOtherwise)
{
    struct Range {
        uint64_t min, max;
        int proto, channels;
        int coll = ncclFuncAllReduce;
    };
    const auto lay = [](std::vector<Range> first, std::vector<Range> second) {
        stp_overlay overlay{};
        std::string all;
        std::vector<stp_explained> ranges[2];
        stp_explanation cases[2]{};
        for (int i = 0; i < 2; i++) {
            for (const Range &r : i == 0 ? first : second) {
                stp_explained x{};
                x.coll = r.coll;
                x.min_bytes = r.min;
                x.max_bytes = r.max;
                x.pick = {NCCL_ALGO_RING, r.proto};
                x.asked_channels = r.channels;
                x.line = static_cast<unsigned>(ranges[i].size());
                ranges[i].push_back(x);
            }
            cases[i].ranges = ranges[i].data();
            cases[i].n_ranges = ranges[i].size();
        }
        stp_overlay_add(&overlay, ncclFuncAllReduce, cases, 2);
        for (size_t i = 0; i < overlay.n_rows; i++) {
            const stp_overlay_row &r = overlay.rows[i];
            for (const auto &p : {r.picks[0], r.picks[1]})
                all += std::to_string(p.pick.proto) + "/" +
                       std::to_string(p.asked_channels) + " ";
            all += "to " + std::to_string(r.max_bytes) + "; ";
        }
        stp_overlay_free(&overlay);
        return all;
    };

    EXPECT_EQ("0/0 0/0 to 96; ", lay({{8, 96, 0, 0}}, {{8, 96, 0, 0}}));
    EXPECT_EQ("0/0 0/0 to 96; ",
              lay({{8, 40, 0, 0}, {48, 96, 0, 0}}, {{8, 96, 0, 0}}));
    EXPECT_EQ(
        "0/0 0/0 to 40; 0/4 0/0 to 64; 0/4 2/0 to 96; ",
        lay({{8, 40, 0, 0}, {48, 96, 0, 4}}, {{8, 64, 0, 0}, {72, 96, 2, 0}}));
    EXPECT_EQ("1/0 2/0 to 96; ",
              lay({{8, 96, 0, 0, ncclFuncReduce}, {8, 96, 1, 0}},
                  {{8, 96, 0, 0, ncclFuncReduce}, {8, 96, 2, 0}}));
}

TEST(ExplainChoices, NameTheFaultOfACaseThatFails)
{
    environment = {{"NCCL_ALGO", "nosuch"}};
    const Overlay o("h100x8", ncclFuncReduce, 1 << 20, true);

    ASSERT_EQ(1u, o.overlay.n_rows);
    EXPECT_EQ(1u << 20, o.overlay.rows[0].max_bytes);
    EXPECT_STREQ("", o.cases[0].fault); // 2.21 passes over unknown words
    EXPECT_EQ(NCCL_ALGO_RING, o.overlay.rows[0].picks[0].pick.algo);
    EXPECT_THAT(o.cases.back().fault, HasSubstr("'nosuch' is no algorithm"));
    EXPECT_EQ(-1, o.overlay.rows[0].picks[o.cases.size() - 1].pick.algo);
}

// ---- the table of variables ----

stp_variable Row(const std::string &name)
{
    stp_variable v{};
    for (size_t i = 0; stp_variable_at(i, &v); i++)
        if (name == v.name)
            return v;
    ADD_FAILURE() << name;
    return {};
}

TEST(ExplainVariables, AreEachOnceAndWhole)
{
    std::set<std::string> names;
    stp_variable v;

    for (size_t i = 0; stp_variable_at(i, &v); i++) {
        EXPECT_THAT(v.name, StartsWith("NCCL_"));
        EXPECT_TRUE(names.insert(v.name).second) << v.name;
        EXPECT_TRUE(v.first >= 21 && (v.last == 0 || v.last >= v.first))
            << v.name;
        EXPECT_STRNE("", v.kind) << v.name;
        EXPECT_EQ(std::string(v.plays) == "says", v.does[0] != '\0') << v.name;
        EXPECT_EQ(v.off[0] != '\0', v.path[0] != '\0') << v.name;
    }
    EXPECT_GT(names.size(), 250u);
}

TEST(ExplainVariables, AreReadAsNcclReadsThem)
{
    const struct {
        const char *name, *value;
        bool off;
        const char *misread; // "": as it was meant
    } cases[] = {
        // clang-format off
        {"NCCL_P2P_DISABLE", "1", true, ""},
        {"NCCL_P2P_DISABLE", "0x1", true, ""},
        {"NCCL_P2P_DISABLE", "true", false, "NCCL reads it as 0"},
        {"NCCL_P2P_DISABLE", "1;", true, "NCCL reads it as 1, and not what"},
        {"NCCL_P2P_DISABLE", "", false, ""},
        {"NCCL_WIN_ENABLE", "yes", true, "NCCL reads it as 0"},
        {"NCCL_CUMEM_ENABLE", "-2", false, ""},
        {"NCCL_BUFFSIZE", "4M", false, "NCCL reads it as 4, and not what"},
        {"NCCL_BUFFSIZE", "99999999999999999999", false, "its default"},
        {"NCCL_IB_TIMEOUT", " 22 ", false, ""},
        {"NCCL_P2P_LEVEL", "NVL", false, ""},
        {"NCCL_P2P_LEVEL", "nvl", false, "NCCL passes over it, expected LOC"},
        {"NCCL_P2P_LEVEL", "LOC", true, ""},
        {"NCCL_NET_GDR_LEVEL", "0", true, ""},
        {"NCCL_NET_GDR_LEVEL", "5", false, ""},
        {"NCCL_DEBUG", "info", false, ""},
        {"NCCL_DEBUG", "DEBUG", false, "expected VERSION,WARN,INFO"},
        {"NCCL_DEBUG_SUBSYS", "^INIT,net", false, ""},
        {"NCCL_DEBUG_SUBSYS", "INIT,TUNE", false, "passes over 'TUNE'"},
        {"NCCL_SOCKET_FAMILY", "AF_INET6", false, ""},
        {"NCCL_SOCKET_FAMILY", "ipv6", false, "expected AF_INET,AF_INET6"},
        {"NCCL_SOCKET_FAMILY", "af_inet", false, "expected AF_INET"},
        {"NCCL_CTA_POLICY", "2", false, ""},
        {"NCCL_CTA_POLICY", "zero|EFFICIENCY", false, ""},
        {"NCCL_CTA_POLICY", "FAST", false, "passes over 'FAST'"},
        {"NCCL_THREAD_THRESHOLDS", "8 8 64", false, ""},
        {"NCCL_THREAD_THRESHOLDS", "8,8,64", false, "numbers between blanks"},
        {"NCCL_SOCKET_IFNAME", "^lo,docker", false, ""},
        {"NCCL_IB_DISABLE", "2", true, ""},
        {"NCCL_NTHREADS", "0x100", false, ""},
        {"NCCL_NTHREADS", "-2", false, ""},
        {"NCCL_NTHREADS", "abc", false, "NCCL reads it as 0"},
        {"NCCL_NTHREADS", "1000", false, "NCCL takes 512, expected a multiple of 32 from 64 to 512"},
        {"NCCL_NTHREADS", "100", false, "NCCL takes 512"},
        {"NCCL_NTHREADS", "32", false, "NCCL takes 64"},
        {"NCCL_LL128_NTHREADS", "1024", false, "NCCL takes 640"},
        // clang-format on
    };

    for (const auto &c : cases) {
        const stp_variable v = Row(c.name);
        char text[STP_VARIABLE_TEXT] = "";

        SCOPED_TRACE(std::string(c.name) + "=" + c.value);
        EXPECT_EQ(c.off, stp_variable_is_off(&v, c.value));
        EXPECT_EQ(c.misread[0] != '\0',
                  stp_variable_is_misread(&v, c.value, text))
            << text;
        if (c.misread[0] != '\0') {
            EXPECT_THAT(text, HasSubstr(c.misread));
        }
    }
}

} // namespace
