// CSV files: what is read, and what is refused.
#include <cstddef>

#include "faults/open_files.h"
#include "support/mock_folder.h"

extern "C" {
#include "base/csv.h"
}

using namespace mock_test;

namespace
{

const char *const kWords[] = {"red", "green"};
const mock_words kColors = {kWords, 2};

struct Record {
    char name[8];
    int color;
    int number;
    size_t size;
    double us;
};

enum { NAME, COLOR, NUMBER, SIZE, US, OTHER, N_FIELDS };

const mock_field kFields[] = {
    {"name", mock_field::MOCK_FIELD_TEXT, offsetof(Record, name), 1, 8, nullptr,
     nullptr, false},
    {"color", mock_field::MOCK_FIELD_WORD, offsetof(Record, color), 0, 0,
     &kColors, "any", true},
    {"number", mock_field::MOCK_FIELD_INT, offsetof(Record, number), 2, 9,
     nullptr, nullptr, true},
    {"size", mock_field::MOCK_FIELD_SIZE, offsetof(Record, size), 0, 1ll << 40,
     nullptr, nullptr, true},
    {"us", mock_field::MOCK_FIELD_TIME, offsetof(Record, us), 0, 0, nullptr,
     nullptr, true},
    {"other", mock_field::MOCK_FIELD_OTHER, 0, 0, 0, nullptr, nullptr, true},
};

class Csv : public testing::Test
{
  protected:
    ~Csv() override
    {
        mock_csv_close(csv_);
    }
    ncclResult_t Open(const std::string &text,
                      const mock_field *fields = kFields, int n = N_FIELDS)
    {
        mock_csv_close(csv_);
        csv_ = nullptr;
        std::ofstream(path_) << text;
        return mock_csv_open(path_.c_str(), fields, n, &csv_);
    }
    bool Next()
    {
        bool has_row = false;
        EXPECT_EQ(ncclSuccess, mock_csv_next(csv_, &has_row))
            << mock_last_error();
        return has_row;
    }
    // The error of a file without its path; "" if its first row can be read.
    std::string Error(const std::string &text,
                      const mock_field *fields = kFields, int n = N_FIELDS)
    {
        bool has_row = false;
        Record record{};
        mock_set_error("%s", "");
        ncclResult_t rc = Open(text, fields, n);
        if (rc == ncclSuccess)
            rc = mock_csv_next(csv_, &has_row);
        if (rc == ncclSuccess && has_row)
            rc = mock_csv_read(csv_, &record);
        const std::string error = mock_last_error();
        EXPECT_EQ(error.empty(), rc == ncclSuccess);
        return error.empty() ? "" : error.substr(path_.size());
    }

    TemporaryFolder folder_;
    const std::string path_ = folder_.Path("a.csv");
    mock_csv *csv_ = nullptr;
};

TEST_F(Csv, FillsTheMembersOfItsColumns)
{
    Record record{};
    ASSERT_EQ(ncclSuccess,
              Open("# comment\n\nus,other,size,number,color,name\n"
                   "1.5,x,1099511627776,2,green,abcdefg\r\n\n# comment\n"
                   "2e3,,0,9,any,a"));

    ASSERT_TRUE(Next());
    EXPECT_EQ(4, mock_csv_line(csv_));
    ASSERT_EQ(ncclSuccess, mock_csv_read(csv_, &record)) << mock_last_error();
    EXPECT_STREQ("abcdefg", record.name);
    EXPECT_EQ(1, record.color);
    EXPECT_EQ(2, record.number);
    EXPECT_EQ(size_t{1} << 40, record.size);
    EXPECT_EQ(1.5, record.us);
    EXPECT_TRUE(mock_csv_is(csv_, OTHER, "x"));
    EXPECT_FALSE(mock_csv_is(csv_, OTHER, "y"));

    ASSERT_TRUE(Next());
    EXPECT_EQ(7, mock_csv_line(csv_));
    ASSERT_EQ(ncclSuccess, mock_csv_read(csv_, &record)) << mock_last_error();
    EXPECT_STREQ("a", record.name);
    EXPECT_EQ(-1, record.color);
    EXPECT_EQ(9, record.number);
    EXPECT_EQ(0u, record.size);
    EXPECT_EQ(2000, record.us);
    EXPECT_TRUE(mock_csv_is(csv_, OTHER, ""));
    EXPECT_FALSE(Next());
    EXPECT_EQ(7, mock_csv_line(csv_));
}

// clang-format off
TEST_F(Csv, IsRefusedWithItsLineAndReason)
{
    const std::string c63(63, ','), c64(64, ',');
    const std::pair<std::string, std::string> cases[] = {
        {"", ": empty, no header line"},
        {"#\n\n#", ": empty, no header line"},
        {"color\n", ":1: no column 'name'"},
        {"name,colour\n", ":1: unknown column 'colour'"},
        {"#\nname,name\n", ":2: two columns 'name'"},
        {"name,", ":1: unknown column ''"},
        {c63, ":1: unknown column ''"},
        {c64, ":1: more than 64 fields"},
        {"name,us\na\n", ":2: 1 fields instead of 2"},
        {"name,us\n\na,1,2\n", ":3: 3 fields instead of 2"},
        {"name\n" + c64, ":2: more than 64 fields"},
        {"name,us\n,1\n", ":2: column 'name' has 0 characters, expected 1 to 7"},
        {"name\nabcdefgh\n", ":2: column 'name' has 8 characters, expected 1 to 7"},
        {"name,color\na,\n", ":2: column 'color': '' is none of red, green, any"},
        {"name,color\na,blue\n", ":2: column 'color': 'blue' is none of red, green, any"},
        {"name,number\na,1\n", ":2: column 'number': '1' is not a whole number from 2 to 9"},
        {"name,number\na,10\n", ":2: column 'number': '10' is not a whole number from 2 to 9"},
        {"name,number\na, 3\n", ":2: column 'number': ' 3' is not a whole number from 2 to 9"},
        {"name,number\na,3 \n", ":2: column 'number': '3 ' is not a whole number from 2 to 9"},
        {"name,number\na,\n", ":2: column 'number': '' is not a whole number from 2 to 9"},
        {"name,size\na,1099511627777\n",
         ":2: column 'size': '1099511627777' is not a whole number from 0 to 1099511627776"},
        {"name,us\na,0\n", ":2: column 'us': '0' is not a number above 0"},
        {"name,us\na,-1\n", ":2: column 'us': '-1' is not a number above 0"},
        {"name,us\na,inf\n", ":2: column 'us': 'inf' is not a number above 0"},
        {"name,us\na,1e999\n", ":2: column 'us': '1e999' is not a number above 0"},
        {"name,us\na,1us\n", ":2: column 'us': '1us' is not a number above 0"},
        {"name,us\na,\n", ""},
        {"name,us\na,1e-9\n", ""},
        {"name,number\na,2\n", ""},
        {"name\nabcdefg\n", ""},
        {"name", ""},
    };

    for (const auto &[text, error] : cases)
        EXPECT_EQ(error, Error(text)) << text;
}
// clang-format on

TEST_F(Csv, ThatCannotBeReadIsASystemError)
{
    std::filesystem::create_directory(path_);

    EXPECT_EQ(ncclSystemError, mock_csv_open(folder_.Path("none").c_str(),
                                             kFields, N_FIELDS, &csv_));
    EXPECT_EQ(folder_.Path("none") + ": No such file or directory",
              mock_last_error());
    EXPECT_EQ(nullptr, csv_);
    EXPECT_EQ(ncclInvalidArgument,
              mock_csv_open(path_.c_str(), kFields, N_FIELDS, &csv_));
    EXPECT_EQ(path_ + ": empty, no header line", mock_last_error());
}

// A text that is one of some words, and may be empty.
TEST_F(Csv, TextsCanBeWordsOrEmpty)
{
    const mock_field fields[] = {
        {"color", mock_field::MOCK_FIELD_TEXT, 0, 0, 6, &kColors, nullptr,
         false},
        {"text", mock_field::MOCK_FIELD_TEXT, 6, 0, 2, nullptr, nullptr, false},
    };
    char texts[8] = "";

    ASSERT_EQ(ncclSuccess, Open("color,text\ngreen,\nred,x\n", fields, 2));
    ASSERT_TRUE(Next());
    ASSERT_EQ(ncclSuccess, mock_csv_read(csv_, texts));
    EXPECT_STREQ("green", texts);
    EXPECT_STREQ("", texts + 6);
    ASSERT_TRUE(Next());
    ASSERT_EQ(ncclSuccess, mock_csv_read(csv_, texts));
    EXPECT_STREQ("red", texts);
    EXPECT_STREQ("x", texts + 6);
    EXPECT_EQ(":2: column 'color': 'blue' is none of red, green",
              Error("color,text\nblue,\n", fields, 2));
    EXPECT_EQ(":2: column 'text' has 2 characters, expected 0 to 1",
              Error("color,text\nred,xy\n", fields, 2));
}

} // namespace
