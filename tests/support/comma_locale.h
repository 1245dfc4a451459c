// A locale whose numbers have a decimal comma.
#pragma once

#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <string>

// The locale is set for this process until the destructor.  Where it is not
// installed, localedef makes it in a folder 'dir' (Debian: locales).
class CommaLocale
{
  public:
    explicit CommaLocale(const std::filesystem::path &dir,
                         const std::string &language = "de_DE")
    {
        const std::string name = language + ".UTF-8";

        if (setlocale(LC_ALL, name.c_str()) == nullptr) {
            const std::string path = dir / name;
            const std::string make = "localedef -i " + language +
                                     " -f UTF-8 '" + path + "' >/dev/null 2>&1";
            if (system(make.c_str()) != 0)
                return;
            setenv("LOCPATH", dir.c_str(), 1);
            setlocale(LC_ALL, name.c_str());
        }
        is_set_ = *localeconv()->decimal_point == ',';
    }
    ~CommaLocale()
    {
        setlocale(LC_ALL, "C");
        unsetenv("LOCPATH");
    }
    CommaLocale(const CommaLocale &) = delete;
    CommaLocale &operator=(const CommaLocale &) = delete;

    bool IsSet() const
    {
        return is_set_;
    }

  private:
    bool is_set_ = false;
};

#define SKIP_WITHOUT_COMMA(locale)                                             \
    if (!(locale).IsSet())                                                     \
    GTEST_SKIP()                                                               \
        << "localedef makes no locale with a decimal comma, expected "         \
           "the Debian package locales"
