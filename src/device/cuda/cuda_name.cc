// C++ for its demangler alone.
extern "C" {
#include "device/cuda/cuda_name.h"
}

#include <cxxabi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void stp_cuda_kernel_name(const char *symbol, char *name, size_t size)
{
    const bool is_mangled = symbol != nullptr && strncmp(symbol, "_Z", 2) == 0;
    int status = 0;
    char *plain = is_mangled
                      ? abi::__cxa_demangle(symbol, nullptr, nullptr, &status)
                      : nullptr;
    const char *text = plain != nullptr    ? plain
                       : symbol != nullptr ? symbol
                                           : "kernel";
    char *end;

    if (strncmp(text, "void ", 5) == 0)
        text += 5;
    snprintf(name, size, "%s", text);
    end = strchr(name, '(');
    if (end != nullptr && end != name)
        *end = '\0';
    free(plain);
}
