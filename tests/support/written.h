// What is written to a file, as a string.
#ifndef WRITTEN_H
#define WRITTEN_H

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

// What 'write' writes to the file it is given.
template <typename Write> std::string Written(Write write)
{
    char *text = nullptr;
    size_t len = 0;
    FILE *fp = open_memstream(&text, &len);
    EXPECT_EQ(STP_OK, write(fp));
    fclose(fp);
    std::string s(text, len);
    free(text);
    return s;
}

#endif // WRITTEN_H
