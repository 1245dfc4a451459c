/* faults.c - libc's functions, of which one call fails */
#define _GNU_SOURCE /* RTLD_NEXT, dl_iterate_phdr() */
#ifndef __NO_INLINE__
#define __NO_INLINE__ 1 /* or glibc's headers define getline(), putchar() */
#endif
#include "faults/faults.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static struct fault_plan nothing;
static struct fault_plan *plan = &nothing;

EXPORTED void fault_follow(struct fault_plan *other)
{
    plan = other;
}

/* Before the program runs, and in each that it starts. */
__attribute__((constructor)) static void faults_begin(void)
{
    const char *path = getenv(FAULT_PLAN_VARIABLE);
    int fd = path != NULL
                 ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC)
                 : -1;
    void *memory;

    if (fd < 0)
        return;
    memory = (void *)syscall(SYS_mmap, NULL, sizeof(*plan),
                             PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L);
    syscall(SYS_close, fd);
    if (memory != MAP_FAILED)
        plan = memory;
}

/* ---- which call ---- */

struct faults_object {
    uintptr_t address; /* within the object that is looked for */
    const char *path;  /* "" is the program itself */
};

static int faults_look_into(struct dl_phdr_info *info, size_t size, void *data)
{
    struct faults_object *object = data;

    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + part->p_vaddr;

        if (part->p_type != PT_LOAD || object->address < begin ||
            object->address - begin >= part->p_memsz)
            continue;
        object->path = info->dlpi_name;
        return 1;
    }
    return 0;
}

/* dladdr() would look for the function, too, each time. */
static bool faults_are_ours(const void *caller)
{
    struct faults_object object = {(uintptr_t)caller, NULL};
    const char *name;

    if (dl_iterate_phdr(faults_look_into, &object) == 0)
        return false;
    if (*object.path == '\0')
        object.path = program_invocation_name;
    name = strrchr(object.path, '/');
    name = name != NULL ? name + 1 : object.path;
    return strncmp(name, "steptune", 8) == 0 ||
           strncmp(name, "libsteptune", 11) == 0 ||
           strncmp(name, "libcjson", 8) == 0 ||
           strncmp(name, "libnccl-tuner-steptune", 22) == 0 ||
           strcmp(name, "plugin.so") == 0;
}

static bool faults_count(enum fault_kind kind)
{
    uint32_t n = __atomic_add_fetch(&plan->n_calls[kind], 1, __ATOMIC_RELAXED);

    if (plan->kind != kind || plan->n == 0 ||
        (plan->for_good ? n < plan->n : n != plan->n))
        return false;
    __atomic_add_fetch(&plan->n_failed, 1, __ATOMIC_RELAXED);
    return true;
}

/* Whether this call, which returns to 'caller', fails. */
static bool faults_strike(enum fault_kind kind, const void *caller)
{
    return plan->kind != FAULT_NONE && faults_are_ours(caller) &&
           faults_count(kind);
}

#define STRIKES(kind) faults_strike(kind, __builtin_return_address(0))

#define FAIL_IF(kind, error, result)                                           \
    if (STRIKES(kind)) {                                                       \
        errno = error;                                                         \
        return result;                                                         \
    }

/* libc's own function of this name, as 'real'. */
#define REAL(name)                                                             \
    static __typeof__(&name) real;                                             \
    if (real == NULL)                                                          \
    *(void **)&real = dlsym(RTLD_NEXT, #name)

/* A function of libc's that fails as the system would without memory, files,
 * room on a disk and so on: 'error' in errno, and 'result'. */
#define FAILS(kind, error, result, type, name, parameters, arguments)          \
    EXPORTED type name parameters                                              \
    {                                                                          \
        REAL(name);                                                            \
        FAIL_IF(kind, error, result);                                          \
        return real arguments;                                                 \
    }

/* One that returns the error. */
#define RETURNS(kind, error, name, parameters, arguments)                      \
    EXPORTED int name parameters                                               \
    {                                                                          \
        REAL(name);                                                            \
        return STRIKES(kind) ? (error) : real arguments;                       \
    }

/* As a device that failed leaves the stream. */
static bool faults_spoil(FILE *fp, int error)
{
    fp->_flags |= 0x20; /* what ferror() looks at */
    errno = error;
    return true;
}

#define FAIL_STREAM(kind, fp, error, result)                                   \
    if (fp != stderr && STRIKES(kind) && faults_spoil(fp, error))              \
    return result

/* One that reads or writes a stream. */
#define SPOILS(kind, error, stream, result, type, name, parameters, arguments) \
    EXPORTED type name parameters                                              \
    {                                                                          \
        REAL(name);                                                            \
        FAIL_STREAM(kind, stream, error, result);                              \
        return real arguments;                                                 \
    }

#undef strdup
#undef strndup
#undef getc
#undef putc
#undef putchar

/* clang-format off */

/* ---- memory ---- */

FAILS(FAULT_MEMORY, ENOMEM, NULL, void *, malloc, (size_t size), (size))
FAILS(FAULT_MEMORY, ENOMEM, NULL, void *, calloc, (size_t n, size_t size), (n, size))
FAILS(FAULT_MEMORY, ENOMEM, NULL, void *, realloc, (void *memory, size_t size), (memory, size))
FAILS(FAULT_MEMORY, ENOMEM, NULL, void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size))
RETURNS(FAULT_MEMORY, ENOMEM, posix_memalign, (void **memory, size_t alignment, size_t size), (memory, alignment, size))
FAILS(FAULT_MEMORY, ENOMEM, NULL, char *, strdup, (const char *text), (text))
FAILS(FAULT_MEMORY, ENOMEM, NULL, char *, strndup, (const char *text, size_t n), (text, n))
FAILS(FAULT_MEMORY, ENOMEM, NULL, FILE *, open_memstream, (char **text, size_t *size), (text, size))
FAILS(FAULT_MEMORY, ENOMEM, NULL, FILE *, fdopen, (int fd, const char *mode), (fd, mode))
FAILS(FAULT_MEMORY, ENOMEM, -1, int, setenv, (const char *name, const char *value, int overwrites), (name, value, overwrites))
FAILS(FAULT_MEMORY, ENOMEM, NULL, FILE *, fopencookie, (void *cookie, const char *mode, cookie_io_functions_t functions), (cookie, mode, functions))

/* ---- what has a descriptor ---- */

FAILS(FAULT_OPEN, EMFILE, NULL, FILE *, fopen, (const char *path, const char *mode), (path, mode))
FAILS(FAULT_OPEN, EMFILE, NULL, FILE *, tmpfile, (void), ())
FAILS(FAULT_OPEN, EMFILE, NULL, DIR *, opendir, (const char *path), (path))
FAILS(FAULT_OPEN, EMFILE, -1, int, mkstemp, (char *path), (path))
FAILS(FAULT_OPEN, ENOSPC, NULL, char *, mkdtemp, (char *path), (path))
FAILS(FAULT_OPEN, ENOSPC, -1, int, mkdir, (const char *path, mode_t mode), (path, mode))
FAILS(FAULT_OPEN, EMFILE, -1, int, pipe, (int fds[2]), (fds))
FAILS(FAULT_OPEN, EMFILE, -1, int, pipe2, (int fds[2], int flags), (fds, flags))
FAILS(FAULT_OPEN, EMFILE, -1, int, socket, (int domain, int type, int protocol), (domain, type, protocol))
FAILS(FAULT_OPEN, EMFILE, -1, int, socketpair, (int domain, int type, int protocol, int fds[2]), (domain, type, protocol, fds))
FAILS(FAULT_MAP, ENOMEM, MAP_FAILED, void *, mmap, (void *at, size_t size, int protection, int flags, int fd, off_t offset), (at, size, protection, flags, fd, offset))

/* ---- threads and processes ---- */

RETURNS(FAULT_THREAD, EAGAIN, pthread_create, (pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *user), (thread, attributes, run, user))
FAILS(FAULT_PROCESS, EAGAIN, -1, pid_t, fork, (void), ())

/* ---- reading ---- */

FAILS(FAULT_READ, EIO, -1, ssize_t, read, (int fd, void *memory, size_t size), (fd, memory, size))
FAILS(FAULT_READ, EIO, -1, ssize_t, pread, (int fd, void *memory, size_t size, off_t at), (fd, memory, size, at))
SPOILS(FAULT_READ, EIO, fp, 0, size_t, fread, (void *memory, size_t size, size_t n, FILE *fp), (memory, size, n, fp))
SPOILS(FAULT_READ, EIO, fp, NULL, char *, fgets, (char *text, int size, FILE *fp), (text, size, fp))
SPOILS(FAULT_READ, EIO, fp, EOF, int, fgetc, (FILE *fp), (fp))
SPOILS(FAULT_READ, EIO, fp, EOF, int, getc, (FILE *fp), (fp))
SPOILS(FAULT_READ, EIO, fp, -1, ssize_t, getline, (char **line, size_t *size, FILE *fp), (line, size, fp))
FAILS(FAULT_READ, EIO, NULL, struct dirent *, readdir, (DIR *folder), (folder))
FAILS(FAULT_READ, ECONNRESET, -1, ssize_t, recv, (int fd, void *memory, size_t size, int flags), (fd, memory, size, flags))

/* ---- writing ---- */

FAILS(FAULT_WRITE, ENOSPC, -1, ssize_t, pwrite, (int fd, const void *memory, size_t size, off_t at), (fd, memory, size, at))
FAILS(FAULT_WRITE, EPIPE, -1, ssize_t, send, (int fd, const void *memory, size_t size, int flags), (fd, memory, size, flags))
SPOILS(FAULT_WRITE, ENOSPC, fp, 0, size_t, fwrite, (const void *memory, size_t size, size_t n, FILE *fp), (memory, size, n, fp))
SPOILS(FAULT_WRITE, ENOSPC, fp, EOF, int, fputs, (const char *text, FILE *fp), (text, fp))
SPOILS(FAULT_WRITE, ENOSPC, stdout, EOF, int, puts, (const char *text), (text))
SPOILS(FAULT_WRITE, ENOSPC, fp, EOF, int, fputc, (int c, FILE *fp), (c, fp))
SPOILS(FAULT_WRITE, ENOSPC, fp, EOF, int, putc, (int c, FILE *fp), (c, fp))
SPOILS(FAULT_WRITE, ENOSPC, stdout, EOF, int, putchar, (int c), (c))
SPOILS(FAULT_WRITE, ENOSPC, fp, -1, int, vfprintf, (FILE *fp, const char *format, va_list args), (fp, format, args))

/* ---- files as a whole ---- */

FAILS(FAULT_FILE, EIO, -1, int, fsync, (int fd), (fd))
FAILS(FAULT_FILE, ENOSPC, -1, int, rename, (const char *from, const char *to), (from, to))
FAILS(FAULT_FILE, ENOSPC, -1, int, link, (const char *from, const char *to), (from, to))
FAILS(FAULT_FILE, ENOSPC, -1, int, symlink, (const char *to, const char *path), (to, path))
FAILS(FAULT_FILE, EFBIG, -1, int, ftruncate, (int fd, off_t size), (fd, size))
RETURNS(FAULT_FILE, ENOSPC, posix_fallocate, (int fd, off_t at, off_t size), (fd, at, size))
FAILS(FAULT_FILE, ENOLCK, -1, int, flock, (int fd, int operation), (fd, operation))
FAILS(FAULT_FILE, EIO, -1, int, fstat, (int fd, struct stat *st), (fd, st))
FAILS(FAULT_FILE, ENOMEM, NULL, char *, realpath, (const char *path, char *resolved), (path, resolved))
FAILS(FAULT_FILE, ENOENT, NULL, char *, getcwd, (char *path, size_t size), (path, size))

/* clang-format on */

/* ---- of other shapes ---- */

static mode_t faults_mode(int flags, va_list args)
{
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(args, mode_t) : 0;
}

EXPORTED int open(const char *path, int flags, ...)
{
    mode_t mode;
    va_list args;
    REAL(open);

    va_start(args, flags);
    mode = faults_mode(flags, args);
    va_end(args);
    FAIL_IF(FAULT_OPEN, EMFILE, -1);
    return real(path, flags, mode);
}

EXPORTED int openat(int folder, const char *path, int flags, ...)
{
    mode_t mode;
    va_list args;
    REAL(openat);

    va_start(args, flags);
    mode = faults_mode(flags, args);
    va_end(args);
    FAIL_IF(FAULT_OPEN, EMFILE, -1);
    return real(folder, path, flags, mode);
}

/* mock NCCL replaces clock_gettime() in programs, and asks the kernel so. */
EXPORTED long syscall(long number, ...)
{
    long a[6];
    va_list args;
    REAL(syscall);

    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_clock_gettime && plan->kind != FAULT_NONE &&
        faults_count(FAULT_CLOCK)) {
        errno = EINVAL;
        return -1;
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

EXPORTED ssize_t write(int fd, const void *memory, size_t size)
{
    REAL(write);
    if (fd != STDERR_FILENO)
        FAIL_IF(FAULT_WRITE, ENOSPC, -1);
    return real(fd, memory, size);
}

EXPORTED int fprintf(FILE *fp, const char *format, ...)
{
    va_list args;
    int n;
    REAL(vfprintf);

    FAIL_STREAM(FAULT_WRITE, fp, ENOSPC, -1);
    va_start(args, format);
    n = real(fp, format, args);
    va_end(args);
    return n;
}

EXPORTED int printf(const char *format, ...)
{
    va_list args;
    int n;
    REAL(vfprintf);

    FAIL_STREAM(FAULT_WRITE, stdout, ENOSPC, -1);
    va_start(args, format);
    n = real(stdout, format, args);
    va_end(args);
    return n;
}

EXPORTED int fflush(FILE *fp)
{
    REAL(fflush);
    if (fp != NULL)
        FAIL_STREAM(FAULT_WRITE, fp, ENOSPC, EOF);
    return real(fp);
}

/* Closed in any case. */
EXPORTED int fclose(FILE *fp)
{
    bool fails = STRIKES(FAULT_FILE);
    int rc;
    REAL(fclose);

    rc = real(fp);
    if (fails)
        errno = ENOSPC;
    return fails ? EOF : rc;
}

EXPORTED int fcntl(int fd, int command, ...)
{
    va_list args;
    void *argument;
    REAL(fcntl);

    va_start(args, command);
    argument = va_arg(args, void *);
    va_end(args);
    FAIL_IF(FAULT_FILE, ENOLCK, -1);
    return real(fd, command, argument);
}
