// Lets an allocation fail, in a program that is linked with STP_FAILING_MEMORY
// (tests/CMakeLists.txt): that puts these in front of libc's for what is linked
// in, under sanitizers as well.  For one source of a program.
#pragma once

#include <cstddef>

namespace failing_memory
{

inline long until_failure; // allocations with the failing one; 0: none fails

inline bool Fails()
{
    return until_failure > 0 && --until_failure == 0;
}

} // namespace failing_memory

extern "C" {
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    return failing_memory::Fails() ? nullptr : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return failing_memory::Fails() ? nullptr : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return failing_memory::Fails() ? nullptr : __real_realloc(old, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return failing_memory::Fails() ? nullptr
                                   : __real_aligned_alloc(alignment, size);
}

char *__wrap_strdup(const char *text)
{
    return failing_memory::Fails() ? nullptr : __real_strdup(text);
}
}
