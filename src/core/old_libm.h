/* old_libm.h - the names that these functions have in every glibc
 *
 * glibc 2.29 gave them new ones, which differ in how they report errors; a
 * plugin built with those would not load on an older system.  Included in all
 * of core/ by its build (src/CMakeLists.txt). */
#pragma once

#include <features.h>

#if defined(__GLIBC__) && defined(__x86_64__)
__asm__(".symver exp,exp@GLIBC_2.2.5");
__asm__(".symver log,log@GLIBC_2.2.5");
__asm__(".symver pow,pow@GLIBC_2.2.5");
#elif defined(__GLIBC__) && defined(__aarch64__)
__asm__(".symver exp,exp@GLIBC_2.17");
__asm__(".symver log,log@GLIBC_2.17");
__asm__(".symver pow,pow@GLIBC_2.17");
#endif
