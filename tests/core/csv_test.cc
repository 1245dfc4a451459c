// Tables with a header line: what each kind of field takes, and what a text is
// refused for, with its place.
#include <gmock/gmock.h>

#include <cstddef>
#include <string>
#include <vector>

extern "C" {
#include "core/csv.h"
}

namespace
{

using testing::ElementsAre;

struct Row {
    unsigned line;
    unsigned number_column;
    int32_t narrow;
    uint64_t wide;
    uint64_t size;
    double number, from_0, positive;
    bool flag;
    int word;
    char text[4];
    stp_field field;
    int own;
};

int FromName(const char *word, size_t len)
{
    const std::string text(word, len);
    return text == "zero" ? 0 : text == "one" ? 1 : -1;
}

bool ReadOwn(const stp_field *field, void *row)
{
    static_cast<Row *>(row)->own = static_cast<int>(field->len);
    return field->len > 0;
}

stp_csv_column Column(const char *name, stp_csv_kind kind, size_t offset,
                      size_t size)
{
    stp_csv_column column{};
    column.name = name;
    column.expected = "it";
    column.kind = kind;
    column.offset = offset;
    column.size = size;
    return column;
}

#define INTO(member) offsetof(Row, member), sizeof(Row::member)

std::vector<stp_csv_column> Columns()
{
    std::vector<stp_csv_column> columns{
        Column("narrow", STP_CSV_WHOLE, INTO(narrow)),
        Column("wide", STP_CSV_WHOLE, INTO(wide)),
        Column("size", STP_CSV_SIZE, INTO(size)),
        Column("number", STP_CSV_NUMBER, INTO(number)),
        Column("from_0", STP_CSV_FROM_0, INTO(from_0)),
        Column("positive", STP_CSV_POSITIVE, INTO(positive)),
        Column("flag", STP_CSV_FLAG, INTO(flag)),
        Column("word", STP_CSV_WORD, INTO(word)),
        Column("text", STP_CSV_TEXT, INTO(text)),
        Column("field", STP_CSV_FIELD, INTO(field)),
        Column("own", STP_CSV_OWN, 0, 0),
        Column("skip", STP_CSV_SKIP, 0, 0),
    };
    columns[0].min = 2, columns[0].max = 9;
    columns[0].none = "-", columns[0].none_value = -1;
    columns[1].max = UINT64_MAX;
    columns[3].none = "*", columns[3].none_value = 7;
    columns[3].column_into = offsetof(Row, number_column);
    columns[7].from_name = FromName;
    columns[10].read = ReadOwn;
    return columns;
}

class Csv : public testing::Test
{
  protected:
    stp_status Read(const std::string &text)
    {
        text_ = text; // fields point into it
        stp_csv_format format{};
        format.what = "rows";
        format.columns = columns_.data();
        format.n_columns = columns_.size();
        format.begin_row = [](void *self, unsigned line) -> void * {
            Csv *csv = static_cast<Csv *>(self);
            csv->rows_.emplace_back();
            csv->rows_.back().line = line;
            return &csv->rows_.back();
        };
        format.comment = [](void *self, const char *line, size_t len) {
            static_cast<Csv *>(self)->comments_.emplace_back(line, len);
        };
        rows_.clear();
        comments_.clear();
        err_ = {};
        return stp_csv_read(&format, this, text_.data(), text_.size(), &err_);
    }

    std::vector<stp_csv_column> columns_ = Columns();
    std::string text_;
    std::vector<Row> rows_;
    std::vector<std::string> comments_;
    stp_error err_{};
};

TEST_F(Csv, ReadsColumnsInAnyOrderAmongCommentsAndEmptyLines)
{
    ASSERT_EQ(STP_OK, Read("# a\n\nwide,narrow\n#\n10,2\n\n11,9\n"))
        << err_.text;

    ASSERT_EQ(2u, rows_.size());
    EXPECT_EQ(5u, rows_[0].line);
    EXPECT_EQ(10u, rows_[0].wide);
    EXPECT_EQ(2, rows_[0].narrow);
    EXPECT_EQ(7u, rows_[1].line);
    EXPECT_EQ(11u, rows_[1].wide);
    EXPECT_EQ(9, rows_[1].narrow);
    EXPECT_THAT(comments_, ElementsAre("# a", "#"));
}

TEST_F(Csv, ReadsEachKindOfField)
{
    ASSERT_EQ(STP_OK, Read("number,narrow,wide,size,from_0,positive,flag,word,"
                           "text,field,own,skip\n"
                           "-1.5,-,18446744073709551615,2K,0,0.5,1,one,"
                           "abc,any,four,thing\n"
                           "*,9,0,3,1,1,0,zero,,,x,\n"))
        << err_.text;

    const Row &a = rows_.at(0), &b = rows_.at(1);
    EXPECT_EQ(-1.5, a.number);
    EXPECT_EQ(1u, a.number_column);
    EXPECT_EQ(-1, a.narrow);
    EXPECT_EQ(UINT64_MAX, a.wide);
    EXPECT_EQ(2048u, a.size);
    EXPECT_EQ(0, a.from_0);
    EXPECT_EQ(.5, a.positive);
    EXPECT_TRUE(a.flag);
    EXPECT_EQ(1, a.word);
    EXPECT_STREQ("abc", a.text);
    EXPECT_EQ("any", std::string(a.field.s, a.field.len));
    EXPECT_EQ(4, a.own);
    EXPECT_EQ(7, b.number);
    EXPECT_FALSE(b.flag);
    EXPECT_EQ(0, b.word);
    EXPECT_STREQ("", b.text);
}

TEST_F(Csv, RefusesAFieldOfAnotherKindWithItsPlace)
{
    const struct {
        const char *column, *field;
    } cases[] = {
        {"narrow", "1"},    {"narrow", "10"},  {"narrow", "x"},
        {"narrow", ""},     {"narrow", "--"},  {"wide", "-"},
        {"size", "1T"},     {"number", "inf"}, {"number", "1x"},
        {"from_0", "-0.1"}, {"from_0", "*"},   {"positive", "0"},
        {"positive", "-1"}, {"flag", "2"},     {"flag", ""},
        {"flag", "true"},   {"word", "two"},   {"text", "abcd"},
        {"own", ""},
    };

    for (const auto &c : cases) {
        const std::string text =
            std::string("skip,") + c.column + "\nfour," + c.field + "\n";
        EXPECT_EQ(STP_ERR_SYNTAX, Read(text)) << text;
        EXPECT_EQ(2u, err_.line) << text;
        EXPECT_EQ(6u, err_.column) << text;
        EXPECT_EQ(std::string(c.column) + " '" + c.field + "', expected it",
                  err_.text);
    }
}

TEST_F(Csv, RefusesATextThatIsNoTable)
{
    columns_.resize(2);
    columns_[0].required = columns_[1].required = true;
    const struct {
        const char *text;
        unsigned line, column;
        const char *error;
    } cases[] = {
        {"", 0, 0, "no rows, expected a header line and rows"},
        {"# a\nwide,narrow\n", 2, 0,
         "no rows, expected a header line and rows"},
        {"\nwide,other\n1,2\n", 2, 6,
         "header with 'other', expected each at most once of narrow, wide"},
        {"wide,narrow,wide\n", 1, 13,
         "header with 'wide', expected each at most once of narrow, wide"},
        {"narrow\n2\n", 1, 1, "header without the column wide"},
        {"wide\n2\n", 1, 1, "header without the column narrow"},
        {"wide,narrow\n1,2\n1\n", 3, 1,
         "1 fields, expected 2 as in the header"},
        {"wide,narrow\n1,2,3\n", 2, 1, "3 fields, expected 2 as in the header"},
    };

    for (const auto &c : cases) {
        EXPECT_EQ(STP_ERR_SYNTAX, Read(c.text)) << c.text;
        EXPECT_EQ(c.line, err_.line) << c.text;
        EXPECT_EQ(c.column, err_.column) << c.text;
        EXPECT_STREQ(c.error, err_.text) << c.text;
    }
}

TEST(CsvHeader, IsTheFirstLineThatIsNoCommentAndNotEmpty)
{
    std::string most;
    for (int i = 1; i < STP_CSV_COLUMNS; i++)
        most += "a,";
    const struct {
        std::string text;
        bool has_it;
        unsigned line;
    } cases[] = {
        {most + "b\n", true, 1},
        {most + "a,b\n", false, 1},
        {"a,b\n", true, 1},
        {"b\n", true, 1},
        {"# b\n\na,b", true, 3},
        {"a\nb\n", false, 1},
        {"# b\na,bb\n", false, 2},
        {"# b\n", false, 2},
        {"", false, 1},
    };

    for (const auto &c : cases) {
        unsigned line = 0;
        EXPECT_EQ(c.has_it,
                  stp_csv_has_column(c.text.data(), c.text.size(), "b", &line))
            << c.text;
        EXPECT_EQ(c.line, line) << c.text;
    }
}

TEST(CsvValue, IsTheRestOfAComment)
{
    const struct {
        std::string line;
        std::string value; // of 8 bytes, the end included
    } cases[] = {
        {"# gpu: H200", "H200"},
        {"# gpu: ", "before"},
        {"# gpu: X", "X"},
        {"# gpu:H200", "before"},
        {"# gpus: H200", "before"},
        {"# gpu: 12345678", "1234567"},
        {"# gpu: a\x1b[1m", "a\\x1B[1"},
    };

    for (const auto &c : cases) {
        char value[8] = "before";
        stp_csv_value(c.line.data(), c.line.size(), "# gpu: ", value,
                      sizeof(value));
        EXPECT_EQ(c.value, value) << c.line;
    }
}

} // namespace
