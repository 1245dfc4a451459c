/*
 * coverage_exit.c - _exit() that keeps what was counted
 *
 * Checks and ranks have processes of their own, which end with _exit(); gcov
 * writes its counts in exit() only.  Linked with --wrap=_exit for coverage.
 * Visible, since a library that a program is linked with has it as well, and
 * the linker wraps that library's _exit() by the program's.
 */
void __gcov_dump(void);
_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

__attribute__((visibility("default"))) _Noreturn void __wrap__exit(int status)
{
    __gcov_dump();
    __real__exit(status);
}
