extern "C" {
#include "core/names.h"
#include "core/text.h"
}

#include "nccl_tuner_abi.h"

#include <clocale>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StrEq;

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

TEST(Split, GivesWordsAndColumns)
{
    EXPECT_THAT(Split("a,bc,d"), ElementsAre("a@1", "bc@3", "d@6"));
}

TEST(Split, TakesBlanksAwayAroundFieldsButNotInside)
{
    EXPECT_THAT(Split(" \ta b\t ,\tc "), ElementsAre("a b@3", "c@10"));
}

TEST(Split, KeepsEmptyFields)
{
    EXPECT_THAT(Split(",,x,"), ElementsAre("@1", "@2", "x@3", "@5"));
}

TEST(Split, PutsABlankFieldWhereItsWordIsMissing)
{
    EXPECT_THAT(Split("a,  ,b"), ElementsAre("a@1", "@5", "b@6"));
    EXPECT_THAT(Split("a,  "), ElementsAre("a@1", "@5"));
}

TEST(Split, FindsOneEmptyFieldInAnEmptyLine)
{
    EXPECT_THAT(Split(""), ElementsAre("@1"));
    EXPECT_THAT(Split("  "), ElementsAre("@3"));
}

TEST(Split, CountsFieldsThatItHasNoRoomFor)
{
    stp_field fields[3] = {};
    const std::string line = "a,b,c,d";

    size_t n = stp_split(line.data(), line.size(), fields, 2);

    EXPECT_EQ(4u, n);
    EXPECT_EQ(0u, fields[2].column) << "wrote behind the end";
}

TEST(Split, StopsAtTheLengthGiven)
{
    stp_field fields[4] = {};

    EXPECT_EQ(2u, stp_split("ab,cd,ef", 4, fields, 4));
    EXPECT_EQ("c", std::string(fields[1].s, fields[1].len));
}

TEST(Split, TakesNoOtherByteForABlank)
{
    EXPECT_THAT(Split("\ra\v,\fb"), ElementsAre("\ra\v@1", "\fb@5"));
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
}

TEST(NextLine, GivesALastLineWithoutAnEnd)
{
    EXPECT_THAT(Lines("a\nbc"), ElementsAre("a", "bc"));
}

TEST(NextLine, KeepsCarriageReturnsThatEndNoLine)
{
    EXPECT_THAT(Lines("a\rb\r\r\nc\r"), ElementsAre("a\rb\r", "c\r"));
    EXPECT_THAT(Lines("\r\n\r"), ElementsAre("", "\r"));
}

TEST(NextLine, LeavesEverythingAloneAtTheEnd)
{
    const char *text = "x", *s = text + 1;
    size_t len = 77;

    EXPECT_EQ(nullptr, stp_next_line(&s, text + 1, &len));

    EXPECT_EQ(text + 1, s);
    EXPECT_EQ(77u, len);
}

// ---- numbers ----

struct NumberCase {
    const char *text;
    bool ok;
    uint64_t value;
};

constexpr uint64_t kUntouched = 424242;

// clang-format off
const NumberCase kNumbers[] = {
    {"0", true, 0},
    {"7", true, 7},
    {"007", true, 7},
    {"4294967296", true, 4294967296u},
    {"18446744073709551615", true, UINT64_MAX},
    {"00000000000000000000000000000018446744073709551615", true, UINT64_MAX},
    {"18446744073709551616", false, 0},
    {"18446744073709551620", false, 0},
    {"28446744073709551615", false, 0},
    {"184467440737095516150", false, 0},
    {"", false, 0},
    {" 1", false, 0},
    {"1 ", false, 0},
    {"+1", false, 0},
    {"-1", false, 0},
    {"-0", false, 0},
    {"1.0", false, 0},
    {"0x10", false, 0},
    {"1e3", false, 0},
    {"1,000", false, 0},
    {"1_000", false, 0},
    {"a", false, 0},
    {"1K", false, 0},
    {"/", false, 0},  // the bytes before '0' and behind '9'
    {":", false, 0},
};

const NumberCase kSizes[] = {
    {"0", true, 0},
    {"4096", true, 4096},
    {"1K", true, 1024},
    {"1k", true, 1024},
    {"3M", true, 3u << 20},
    {"3m", true, 3u << 20},
    {"5G", true, 5ull << 30},
    {"5g", true, 5ull << 30},
    {"0G", true, 0},
    {"18446744073709551615", true, UINT64_MAX},
    {"17179869183G", true, 17179869183ull << 30},
    {"17179869184G", false, 0},
    {"18014398509481983K", true, 18014398509481983ull << 10},
    {"18014398509481984K", false, 0},
    {"17592186044416M", false, 0},
    {"18446744073709551616", false, 0},
    {"", false, 0},
    {"K", false, 0},
    {"4KB", false, 0},
    {"4KK", false, 0},
    {"4K4", false, 0},
    {"4 K", false, 0},
    {"1T", false, 0},
    {"-1K", false, 0},
    {"1.5K", false, 0},
    {"inf", false, 0},
};
// clang-format on

TEST(ParseU64, TakesDecimalDigitsAndNothingElse)
{
    for (const NumberCase &c : kNumbers) {
        SCOPED_TRACE(c.text);
        const std::string text(c.text);
        uint64_t value = kUntouched;

        EXPECT_EQ(c.ok, stp_parse_u64(text.data(), text.size(), &value));
        EXPECT_EQ(c.ok ? c.value : kUntouched, value);
    }
}

TEST(ParseU64, StopsAtTheLengthGiven)
{
    uint64_t value = 0;

    EXPECT_TRUE(stp_parse_u64("1234", 2, &value));
    EXPECT_EQ(12u, value);
    EXPECT_FALSE(stp_parse_u64("1\0", 2, &value));
}

TEST(ParseSize, TakesOneSuffix)
{
    for (const NumberCase &c : kSizes) {
        SCOPED_TRACE(c.text);
        const std::string text(c.text);
        uint64_t value = kUntouched;

        EXPECT_EQ(c.ok, stp_parse_size(text.data(), text.size(), &value));
        EXPECT_EQ(c.ok ? c.value : kUntouched, value);
    }
}

TEST(ParseDouble, TakesFiniteDecimalNumbers)
{
    const struct {
        const char *text;
        double value;
    } cases[] = {
        {"0", 0},
        {"1.02", 1.02},
        {"-3", -3},
        {"2e-6", 2e-6},
        {"2E+6", 2e6},
        {"-0.5e1", -5},
        {"1e308", 1e308},
        {"007.50", 7.5},
        {"1e-400", 0},
        {"4.9406564584124654e-324", 4.9406564584124654e-324},
        {"12345678901234567890", 12345678901234567890.0},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.text);
        const std::string text(c.text);
        double value = 4242;

        ASSERT_TRUE(stp_parse_double(text.data(), text.size(), &value));

        EXPECT_EQ(c.value, value);
    }
}

TEST(ParseDouble, RefusesAllElse)
{
    const char *cases[] = {"",      " 1",   "1 ",    "+1",  "1.",   ".5",
                           "-",     "-.",   "1e",    "1e+", "e5",   "1e5.0",
                           "0x1p3", "0x10", "inf",   "nan", "-inf", "infinity",
                           "1e309", "1,5",  "1.2.3", "1f",  "--1",  "-1e999"};
    for (const char *c : cases) {
        SCOPED_TRACE(c);
        const std::string text(c);
        double value = 4242;

        EXPECT_FALSE(stp_parse_double(text.data(), text.size(), &value));
        EXPECT_EQ(4242, value);
    }
}

TEST(ParseDouble, StopsAtTheLengthGiven)
{
    double value = 0;

    EXPECT_TRUE(stp_parse_double("1.255", 4, &value));
    EXPECT_EQ(1.25, value);
}

TEST(ParseDouble, TakesWhatPrintfWritesAndRefusesTheEndless)
{
    const std::string most(309, '9'), endless = "0." + std::string(500, '1');
    double value = 0;

    EXPECT_FALSE(stp_parse_double(most.data(), most.size(), &value));
    EXPECT_TRUE(stp_parse_double(most.data(), most.size() - 1, &value));
    EXPECT_FALSE(stp_parse_double(endless.data(), endless.size(), &value));
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

// ---- files ----

std::string WriteFile(const std::string &name, const std::string &content)
{
    const std::string path = testing::TempDir() + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
}

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

TEST(ReadFile, GivesEveryByte)
{
    for (size_t size : {0u, 1u, 65534u, 65535u, 65536u, 65537u, 300000u}) {
        SCOPED_TRACE(size);
        std::string want(size, '\0');
        for (size_t i = 0; i < size; i++)
            want[i] = static_cast<char>(i * 7 + i / 256);
        const std::string path = WriteFile("read_file_bytes", want);

        Content got = Read(path, size);

        EXPECT_EQ(STP_OK, got.status);
        EXPECT_TRUE(want == got.text);
    }
}

TEST(ReadFile, RefusesMoreThanTheMaximum)
{
    for (size_t size : {2u, 65536u, 200001u}) {
        SCOPED_TRACE(size);
        const std::string path =
            WriteFile("read_file_max", std::string(size, 'x'));

        Content got = Read(path, size - 1);

        EXPECT_EQ(STP_ERR_LIMIT, got.status);
        EXPECT_EQ("is larger than " + std::to_string(size - 1) +
                      " bytes, the most that is read",
                  std::string(got.err.text));
    }
}

TEST(ReadFile, SaysThatADirectoryIsOne)
{
    Content got = Read(STP_FIXTURES, 1000);

    EXPECT_EQ(STP_ERR_IO, got.status);
    EXPECT_THAT(got.err.text, StrEq("is a directory"));
    EXPECT_EQ(0u, got.err.line);
    EXPECT_EQ(0u, got.err.column);
}

TEST(ReadFile, SaysWhyAFileCannotBeOpened)
{
    Content got = Read(testing::TempDir() + "no/such/file", 1000);

    EXPECT_EQ(STP_ERR_IO, got.status);
    EXPECT_THAT(got.err.text, HasSubstr("cannot be opened: "));
    EXPECT_THAT(got.err.text, HasSubstr("No such file"));
}

TEST(ReadFile, StopsReadingWhatHasNoEnd)
{
    EXPECT_EQ(STP_ERR_LIMIT, Read("/dev/zero", 100000).status);
}

TEST(ReadFile, NeedsNoErrorToFill)
{
    char *text = nullptr;
    size_t len = 0;

    EXPECT_EQ(STP_ERR_IO,
              stp_read_file(STP_FIXTURES, 10, &text, &len, nullptr));
}

TEST(Names, AreReadAsNcclSpellsThem)
{
    const std::string word(40, 'R');

    EXPECT_EQ(ncclFuncAllReduce,
              stp_from_any_case("AllReduce", 9, stp_coll_from_name));
    EXPECT_EQ(NCCL_ALGO_COLLNET_DIRECT,
              stp_from_any_case("COLLNET_DIRECT", 14, stp_algo_from_name));
    EXPECT_EQ(NCCL_PROTO_LL128,
              stp_from_any_case("LL128x", 5, stp_proto_from_name));
    EXPECT_EQ(-1, stp_from_any_case("SendRecv", 8, stp_coll_from_name));
    EXPECT_EQ(-1,
              stp_from_any_case(word.data(), word.size(), stp_algo_from_name));
    EXPECT_EQ(-1, stp_from_any_case("", 0, stp_algo_from_name));
}

} // namespace
