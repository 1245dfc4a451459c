/* old_glibc.h - the names that these functions have in every glibc
 *
 * They moved into libc in glibc 2.32 and 2.34, and got its version: a plugin
 * built with that would not load on an older system. */
#pragma once

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#if defined(__GLIBC__) && defined(__x86_64__)
#define STP_OLD(function)                                                      \
    __asm__(".symver " #function "," #function "@GLIBC_2.2.5")
#elif defined(__GLIBC__) && defined(__aarch64__)
#define STP_OLD(function)                                                      \
    __asm__(".symver " #function "," #function "@GLIBC_2.17")
#endif
#ifdef STP_OLD
STP_OLD(dladdr);
STP_OLD(dlclose);
STP_OLD(dlerror);
STP_OLD(dlopen);
STP_OLD(dlsym);
STP_OLD(pthread_create);
STP_OLD(pthread_detach);
STP_OLD(pthread_join);
STP_OLD(pthread_sigmask);
#endif
