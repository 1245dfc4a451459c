#include "support/temporary_folder.h"

extern "C" {
#include "core/names.h"
#include "core/room.h"
#include "core/text.h"
#include "core/utf8.h"
}

#include "nccl_tuner_abi.h"

#include <algorithm>
#include <clocale>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include <gmock/gmock.h>

using testing::ElementsAre;

namespace
{

// ---- fields ----

// Every field as TEXT@COLUMN.
std::vector<std::string> Split(const std::string &line, size_t max = 8)
{
    std::vector<stp_field> fields(max);
    std::vector<std::string> got;
    size_t n = stp_split(line.data(), line.size(), fields.data(), max);

    for (size_t i = 0; i < n && i < max; i++)
        got.push_back(std::string(fields[i].s, fields[i].len) + "@" +
                      std::to_string(fields[i].column));
    return got;
}

TEST(Split, GivesWordsAndColumnsWithoutTheBlanksAround)
{
    const struct {
        const char *line;
        std::vector<std::string> fields;
    } cases[] = {
        {"a,bc,d", {"a@1", "bc@3", "d@6"}},
        {" \ta b\t ,\tc ", {"a b@3", "c@10"}},
        {",,x,", {"@1", "@2", "x@3", "@5"}},
        {"a,  ,b", {"a@1", "@5", "b@6"}},
        {"a,  ", {"a@1", "@5"}},
        {"", {"@1"}},
        {"  ", {"@3"}},
        {"\ra\v,\fb", {"\ra\v@1", "\fb@5"}}, // no blanks
    };
    for (const auto &c : cases)
        EXPECT_EQ(c.fields, Split(c.line)) << c.line;
}

TEST(Split, CountsFieldsThatItHasNoRoomFor)
{
    stp_field fields[3] = {};
    const std::string line = "a,b,c,d";

    size_t n = stp_split(line.data(), line.size(), fields, 2);

    EXPECT_EQ(4u, n);
    EXPECT_EQ(0u, fields[2].column) << "wrote behind the end";
}

TEST(FieldIs, ComparesToTheLetter)
{
    const stp_field field = {"ringer", 4, 1};

    EXPECT_TRUE(stp_field_is(&field, "ring"));
    EXPECT_FALSE(stp_field_is(&field, "rin"));
    EXPECT_FALSE(stp_field_is(&field, "ringer"));
    EXPECT_FALSE(stp_field_is(&field, "Ring"));
    EXPECT_FALSE(stp_field_is(&field, ""));
}

// ---- lines ----

std::vector<std::string> Lines(const std::string &text)
{
    const char *s = text.data(), *end = s + text.size(), *line;
    std::vector<std::string> lines;
    size_t len;

    while ((line = stp_next_line(&s, end, &len)) != nullptr)
        lines.emplace_back(line, len);
    EXPECT_EQ(end, s);
    return lines;
}

TEST(NextLine, TakesLfAndCrlfEnds)
{
    EXPECT_THAT(Lines("a\nb\r\n\nc\n"), ElementsAre("a", "b", "", "c"));
    EXPECT_THAT(Lines("a\nbc"), ElementsAre("a", "bc")) << "no end";
    EXPECT_THAT(Lines("a\rb\r\r\nc\r"), ElementsAre("a\rb\r", "c\r"));
    EXPECT_THAT(Lines("\r\n\r"), ElementsAre("", "\r"));
}

// ---- numbers ----

constexpr uint64_t kUntouched = 424242;
constexpr char kMost[] = "18446744073709551615";

// A refusal leaves the value as it was.  A suffix stands before each text
// and no byte behind it, where a sanitizer sees who looks there.
template <typename Value, typename Parse>
void ExpectValues(
    Parse parse, Value untouched,
    const std::vector<std::pair<std::vector<const char *>, Value>> &cases)
{
    for (const auto &[texts, want] : cases)
        for (const std::string text : texts) {
            const std::unique_ptr<char[]> exact(new char[1 + text.size()]);
            Value value = untouched;
            exact[0] = 'K';
            std::copy(text.begin(), text.end(), &exact[1]);

            EXPECT_EQ(want != untouched, parse(&exact[1], text.size(), &value))
                << text;
            EXPECT_EQ(want, value) << text;
        }
}

TEST(ParseU64, TakesDecimalDigitsAndNothingElse)
{
    ExpectValues<uint64_t>(
        stp_parse_u64, kUntouched,
        {{{"0"}, 0},
         {{"7", "007"}, 7},
         {{"4294967296"}, 4294967296u},
         {{kMost, "00000000000000000000000000000018446744073709551615"},
          UINT64_MAX},
         {{"18446744073709551616", "18446744073709551620",
           "28446744073709551615", "184467440737095516150"},
          kUntouched},
         // '/' and ':' are the bytes before '0' and behind '9'
         {{"", " 1", "1 ", "+1", "-1", "-0", "1.0", "0x10", "1e3", "1,000",
           "1_000", "a", "1K", "/", ":"},
          kUntouched}});
}

TEST(ParseSize, TakesOneSuffix)
{
    ExpectValues<uint64_t>(
        stp_parse_size, kUntouched,
        {{{"0", "0G"}, 0},
         {{"4096"}, 4096},
         {{"1K", "1k"}, 1024},
         {{"3M", "3m"}, 3u << 20},
         {{"5G", "5g"}, 5ull << 30},
         {{kMost}, UINT64_MAX},
         {{"17179869183G"}, 17179869183ull << 30},
         {{"18014398509481983K"}, 18014398509481983ull << 10},
         {{"17179869184G", "18014398509481984K", "17592186044416M",
           "18446744073709551616"},
          kUntouched},
         {{"", "K", "4KB", "4KK", "4K4", "4 K", "1T", "-1K", "1.5K", "inf"},
          kUntouched}});
}

TEST(ParseDouble, TakesFiniteDecimalNumbersAndNothingElse)
{
    ExpectValues<double>(
        stp_parse_double, 4242,
        {{{"0", "1e-400"}, 0},
         {{"1.02"}, 1.02},
         {{"-3"}, -3},
         {{"2e-6"}, 2e-6},
         {{"2E+6"}, 2e6},
         {{"-0.5e1"}, -5},
         {{"1e308"}, 1e308},
         {{"007.50"}, 7.5},
         {{"4.9406564584124654e-324"}, 4.9406564584124654e-324},
         {{"12345678901234567890"}, 12345678901234567890.0},
         {{"",      " 1",   "1 ",    "+1",  "1.",   ".5",
           "-",     "-.",   "1e",    "1e+", "e5",   "1e5.0",
           "0x1p3", "0x10", "inf",   "nan", "-inf", "infinity",
           "1e309", "1,5",  "1.2.3", "1f",  "--1",  "-1e999"},
          4242}});
}

TEST(ParseDouble, TakesWhatPrintfWritesAndRefusesTheEndless)
{
    const std::string most(309, '9'), endless = "0." + std::string(500, '1');
    const std::string longest = "0." + std::string(318, '1');
    double value = 0;

    EXPECT_FALSE(stp_parse_double(most.data(), most.size(), &value));
    EXPECT_TRUE(stp_parse_double(most.data(), most.size() - 1, &value));
    EXPECT_FALSE(stp_parse_double(endless.data(), endless.size(), &value));
    EXPECT_TRUE(stp_parse_double(longest.data(), 320, &value));
    EXPECT_FALSE(stp_parse_double(endless.data(), 321, &value));
}

TEST(ParseDouble, DoesNotAskTheLocale)
{
    const char *names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    bool comma = false;
    double value = 0;

    for (const char *name : names)
        comma = comma || setlocale(LC_ALL, name) != nullptr;
    bool ok = stp_parse_double("1.5", 3, &value);
    setlocale(LC_ALL, "C");

    EXPECT_TRUE(ok);
    EXPECT_EQ(1.5, value);
    if (!comma)
        GTEST_SKIP() << "no locale with a decimal comma is installed";
}

// ---- UTF-8 ----

std::string Utf8(unsigned long code, size_t n)
{
    const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    std::string text(n, 0);

    for (size_t i = n; i-- > 1; code >>= 6)
        text[i] = static_cast<char>(0x80 | (code & 0x3f));
    text[0] = static_cast<char>(first[n] | code);
    return text;
}

TEST(Utf8, IsWhatUnicodeHasInTheFewestBytes)
{
    const unsigned long least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned long end[] = {0, 0, 0x800, 0x10000, 0x120000};

    for (size_t n = 2; n <= 4; n++)
        for (unsigned long code = 0; code < end[n]; code++) {
            const bool is_surrogate = code >= 0xd800 && code < 0xe000;
            const bool is_good =
                code >= least[n] && code < 0x110000 && !is_surrogate;
            const std::string text = Utf8(code, n);

            ASSERT_EQ(is_good ? n : 0, stp_utf8_len(text.data(), n)) << code;
            ASSERT_EQ(0u, stp_utf8_len(text.data(), n - 1)) << code;
        }
}

TEST(Utf8, IsOneByteOfAsciiAndNoByteThatBeginsNothing)
{
    for (int byte = 0; byte < 256; byte++) {
        const std::string text = {static_cast<char>(byte), '\x80', '\x80',
                                  '\x80'};
        if (byte < 0x80) {
            EXPECT_EQ(1u, stp_utf8_len(text.data(), 4)) << byte;
        } else if (byte < 0xc2 || byte > 0xf4) {
            EXPECT_EQ(0u, stp_utf8_len(text.data(), 4)) << byte;
        }
    }
}

// ---- files ----

struct Content {
    stp_status status;
    std::string text;
    stp_error err;
};

Content Read(const std::string &path, size_t max)
{
    char untouched, *text = &untouched;
    size_t len = kUntouched;
    Content got{};

    got.status = stp_read_file(path.c_str(), max, &text, &len, &got.err);
    if (got.status != STP_OK) {
        EXPECT_EQ(&untouched, text) << "output must be untouched on failure";
        EXPECT_EQ(kUntouched, len);
        return got;
    }
    EXPECT_EQ('\0', text[len]);
    got.text.assign(text, len);
    free(text);
    return got;
}

Content ReadWritten(const std::string &content, size_t max)
{
    const TemporaryFolder folder;
    std::ofstream(folder.Path("file"), std::ios::binary) << content;
    return Read(folder.Path("file"), max);
}

TEST(ReadFile, GivesEveryByte)
{
    for (size_t size : {0u, 1u, 65534u, 65535u, 65536u, 65537u, 300000u}) {
        SCOPED_TRACE(size);
        std::string want(size, '\0');
        for (size_t i = 0; i < size; i++)
            want[i] = static_cast<char>(i * 7 + i / 256);
        Content got = ReadWritten(want, size);

        EXPECT_EQ(STP_OK, got.status);
        EXPECT_TRUE(want == got.text);
    }
}

TEST(ReadFile, RefusesMoreThanTheMaximum)
{
    for (size_t size : {2u, 65536u, 200001u}) {
        SCOPED_TRACE(size);
        Content got = ReadWritten(std::string(size, 'x'), size - 1);

        EXPECT_EQ(STP_ERR_LIMIT, got.status);
        EXPECT_EQ("is larger than " + std::to_string(size - 1) +
                      " bytes, the most that is read",
                  std::string(got.err.text));
    }
}

TEST(ReadFile, SaysWhyItCannot)
{
    const struct {
        std::string path;
        size_t max;
        stp_status status;
        const char *text;
    } cases[] = {
        {STP_FIXTURES, 1000, STP_ERR_IO, "is a directory"},
        {STP_FIXTURES, 0, STP_ERR_IO, "is a directory"},
        {"/no/such/file", 1000, STP_ERR_IO,
         "cannot be opened: No such file or directory"},
        {"/dev/zero", 1000, STP_ERR_LIMIT, // it has no end
         "is larger than 1000 bytes, the most that is read"},
    };
    for (const auto &c : cases) {
        Content got = Read(c.path, c.max);

        EXPECT_EQ(c.status, got.status);
        EXPECT_STREQ(c.text, got.err.text);
        EXPECT_EQ(0u, got.err.line + got.err.column);
    }
}

TEST(BaseName, IsWhatIsBehindTheLastSlash)
{
    const std::pair<const char *, const char *> cases[] = {
        {"/a/b.csv", "b.csv"}, {"a/b/c", "c"}, {"b.csv", "b.csv"},
        {"/b", "b"},           {"a/", ""},     {"", ""},
    };

    for (const auto &[path, name] : cases)
        EXPECT_STREQ(name, stp_base_name(path)) << path;
}

// ---- words of files in messages ----

TEST(Printable, LeavesNothingThatATerminalObeys)
{
    const std::pair<std::string, const char *> cases[] = {
        {"", ""},
        {"ring/ll128, \\x1B", "ring/ll128, \\x1B"},
        {"\x1b[31mred\a", "\\x1B[31mred\\x07"},
        {"a\r\n\tb\x7f", "a\\x0D\\x0A\tb\\x7F"},
        {std::string("a\0b", 3), "a\\x00b"},
        {"\u00fc \u20ac \U0001f600", "\u00fc \u20ac \U0001f600"},
        {"\u009b31m\u00a0", "\\xC2\\x9B31m\u00a0"},
        {"\x9b \xc0\x80 \xed\xa0\x80", // not UTF-8
         "\\x9B \\xC0\\x80 \\xED\\xA0\\x80"},
        {"\xe2\x82", "\\xE2\\x82"}, // cut
        {"\xe2\x82"
         "A\xe2\x82\xc2",
         "\\xE2\\x82A\\xE2\\x82\\xC2"},
    };
    for (const auto &[text, shown] : cases) {
        char got[64];

        stp_printable(text.data(), text.size(), got, sizeof(got));
        EXPECT_STREQ(shown, got);
    }
}

TEST(Printable, IsCutAfterACharacter)
{
    const char *const want[] = {"",        "",        "a",
                                "a",       "a\u00fc", "a\u00fc",
                                "a\u00fc", "a\u00fc", "a\u00fc\\x1B"};

    for (size_t size = 1; size <= 8; size++) {
        char got[16] = "untouched";

        stp_printable("a\u00fc\x1b", 4, got, size);
        EXPECT_STREQ(want[size], got) << size;
    }
}

TEST(Error, IsShownAsCompilersDo)
{
    const struct {
        unsigned line, column;
        size_t size;
        const char *shown;
    } cases[] = {
        {0, 0, 64, "dir/file: no rows"},
        {0, 7, 64, "dir/file: no rows"},
        {1, 0, 64, "dir/file:1: no rows"},
        {12, 0, 64, "dir/file:12: no rows"},
        {1, 1, 64, "dir/file:1:1: no rows"},
        {30, 4, 64, "dir/file:30:4: no rows"},
        {30, 4, 15, "dir/file:30:4:"},
    };

    for (const auto &c : cases) {
        const stp_error err = {c.line, c.column, "no rows"};
        char shown[64] = "untouched";

        stp_error_string(&err, "dir/file", shown, c.size);
        EXPECT_STREQ(c.shown, shown);
    }
}

TEST(Error, SaysWhatWasRefusedAndWhere)
{
    const std::string longest(STP_ERROR_TEXT + 10, 'x');
    stp_error err = {7, 7, "before"};

    EXPECT_EQ(STP_ERR_IO, stp_fail(&err, STP_ERR_IO, "%d of %s", 3, "four"));
    EXPECT_STREQ("3 of four", err.text);
    EXPECT_EQ(0u, err.line);
    EXPECT_EQ(0u, err.column);

    EXPECT_EQ(STP_ERR_SYNTAX,
              stp_fail_at(&err, STP_ERR_SYNTAX, 5, 6, "%s", longest.c_str()));
    EXPECT_EQ(longest.substr(0, STP_ERROR_TEXT - 1), err.text);
    EXPECT_EQ(5u, err.line);
    EXPECT_EQ(6u, err.column);

    EXPECT_EQ(STP_ERR_NOMEM, stp_nomem(&err));
    EXPECT_STREQ("out of memory", err.text);
    EXPECT_EQ(0u, err.line);
    EXPECT_EQ(STP_ERR_NOMEM, stp_nomem(nullptr));
}

TEST(Error, QuotesAFileWithoutItsEscapeSequences)
{
    stp_error err{};

    stp_fail_at(&err, STP_ERR_SYNTAX, 3, 1, "word '%s'", "\x1b]0;x\a");

    EXPECT_STREQ("word '\\x1B]0;x\\x07'", err.text);
}

TEST(Names, AndValuesAreOneToOneAndListedInOrder)
{
    const struct {
        int n_values;
        int (*from_name)(const char *word, size_t len);
        const char *(*name)(int value);
        const char *names;
        const char *all;
    } cases[] = {
        {NCCL_NUM_TUNED_FUNCS, stp_coll_from_name, stp_coll_name,
         stp_coll_names(),
         "broadcast, reduce, allgather, reducescatter, allreduce"},
        {NCCL_NUM_ALGORITHMS, stp_algo_from_name, stp_algo_name,
         stp_algo_names(),
         "tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat"},
        {NCCL_NUM_PROTOCOLS, stp_proto_from_name, stp_proto_name,
         stp_proto_names(), "ll, ll128, simple"},
    };

    for (const auto &c : cases) {
        std::string all;

        for (int i = 0; i < c.n_values; i++) {
            const std::string word = c.name(i);
            EXPECT_EQ(i, c.from_name(word.data(), word.size())) << word;
            all += (i > 0 ? ", " : "") + word;
        }
        EXPECT_EQ(c.all, all);
        EXPECT_STREQ(c.all, c.names);
        EXPECT_STREQ("?", c.name(-1));
        EXPECT_STREQ("?", c.name(c.n_values));
        for (const std::string word : {"", "l", "l1", "Ring", "tree "})
            EXPECT_EQ(-1, c.from_name(word.data(), word.size())) << word;
    }
}

TEST(Names, AreReadAsNcclSpellsThem)
{

    EXPECT_EQ(ncclFuncAllReduce,
              stp_from_any_case("AllReduce", 9, stp_coll_from_name));
    EXPECT_EQ(NCCL_ALGO_COLLNET_DIRECT,
              stp_from_any_case("COLLNET_DIRECT", 14, stp_algo_from_name));
    EXPECT_EQ(NCCL_PROTO_LL128,
              stp_from_any_case("LL128x", 5, stp_proto_from_name));
    EXPECT_EQ(-1, stp_from_any_case("SendRecv", 8, stp_coll_from_name));
    for (size_t len : {31u, 32u, 33u, 40u}) {
        const std::string word(len, 'R');
        EXPECT_EQ(-1, stp_from_any_case(word.data(), len, stp_algo_from_name))
            << len;
    }
    EXPECT_EQ(-1, stp_from_any_case("", 0, stp_algo_from_name));
}

TEST(Names, PairsOutsideOfTheListsDoNotExist)
{
    const struct {
        int coll, algo, proto;
        bool exists;
    } cases[] = {
        {ncclFuncAllReduce, NCCL_ALGO_RING, NCCL_PROTO_LL, true},
        {ncclFuncAllReduce, NCCL_ALGO_NVLS, NCCL_PROTO_LL, false},
        {ncclFuncAllReduce, NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE, true},
        {-1, NCCL_ALGO_RING, NCCL_PROTO_LL, false},
    };

    for (const auto &c : cases)
        EXPECT_EQ(c.exists, stp_pair_exists(c.coll, c.algo, c.proto))
            << c.coll << " " << c.algo << " " << c.proto;
}

// ---- words and lists ----

TEST(FindWord, IsToTheLetter)
{
    const char *const words[] = {"ring", "tree"};

    EXPECT_EQ(1, stp_find_word(words, 2, "trees", 4));
    for (const std::string word : {"", "tre", "trees", "Tree"})
        EXPECT_EQ(-1, stp_find_word(words, 2, word.data(), word.size()));
}

TEST(Room, KeepsWhatIsInTheList)
{
    int *list = nullptr;
    size_t n = 0, capacity = 0;

    for (int i = 0; i < 1000; i++) {
        ASSERT_TRUE(STP_ROOM(list, n, capacity));
        list[n++] = i;
    }

    EXPECT_EQ(1024u, capacity);
    for (int i = 0; i < 1000; i++)
        EXPECT_EQ(i, list[i]);
    free(list);
}

} // namespace
