/*
 * coverage_exit.c - _exit() that keeps what was counted
 *
 * Checks and ranks have processes of their own, which end with _exit(); gcov
 * writes its counts in exit() only.  Linked with --wrap=_exit for coverage.
 * Visible, since a library that a program is linked with has it as well, and
 * the linker wraps that library's _exit() by the program's.
 *
 * Where calls fail (tests/faults), those by which gcov writes do not, be it
 * here or in __gcov_exit(), which every program and library calls at its end.
 */
#include <stdbool.h>
#include <stddef.h>

void __gcov_dump(void);
void __real___gcov_exit(void);
void __wrap___gcov_exit(void);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);
__attribute__((weak)) void fault_rest(bool rests); /* of tests/faults */

__attribute__((visibility("default"))) _Noreturn void __wrap__exit(int status)
{
    if (fault_rest != NULL)
        fault_rest(true);
    __gcov_dump();
    __real__exit(status);
}

void __wrap___gcov_exit(void)
{
    if (fault_rest != NULL)
        fault_rest(true);
    __real___gcov_exit();
    if (fault_rest != NULL)
        fault_rest(false);
}
