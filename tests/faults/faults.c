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
static _Thread_local bool rests;

EXPORTED void fault_follow(struct fault_plan *other)
{
    plan = other;
}

EXPORTED void fault_rest(bool now)
{
    rests = now;
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
    return plan->kind != FAULT_NONE && !rests && faults_are_ours(caller) &&
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

/* ---- memory ---- */

EXPORTED void *malloc(size_t size)
{
    REAL(malloc);
    FAIL_IF(FAULT_MEMORY, ENOMEM, NULL);
    return real(size);
}

EXPORTED void *calloc(size_t n, size_t size)
{
    REAL(calloc);
    FAIL_IF(FAULT_MEMORY, ENOMEM, NULL);
    return real(n, size);
}

EXPORTED void *realloc(void *memory, size_t size)
{
    REAL(realloc);
    FAIL_IF(FAULT_MEMORY, ENOMEM, NULL);
    return real(memory, size);
}

EXPORTED int posix_memalign(void **memory, size_t alignment, size_t size)
{
    REAL(posix_memalign);
    return STRIKES(FAULT_MEMORY) ? ENOMEM : real(memory, alignment, size);
}

EXPORTED void *aligned_alloc(size_t alignment, size_t size)
{
    REAL(aligned_alloc);
    FAIL_IF(FAULT_MEMORY, ENOMEM, NULL);
    return real(alignment, size);
}

#undef strdup
#undef strndup
EXPORTED char *strdup(const char *text)
{
    REAL(strdup);
    FAIL_IF(FAULT_MEMORY, ENOMEM, NULL);
    return real(text);
}

EXPORTED char *strndup(const char *text, size_t n)
{
    REAL(strndup);
    FAIL_IF(FAULT_MEMORY, ENOMEM, NULL);
    return real(text, n);
}

EXPORTED FILE *open_memstream(char **text, size_t *size)
{
    REAL(open_memstream);
    FAIL_IF(FAULT_MEMORY, ENOMEM, NULL);
    return real(text, size);
}

EXPORTED int setenv(const char *name, const char *value, int overwrites)
{
    REAL(setenv);
    FAIL_IF(FAULT_MEMORY, ENOMEM, -1);
    return real(name, value, overwrites);
}

EXPORTED FILE *fopencookie(void *cookie, const char *mode,
                           cookie_io_functions_t functions)
{
    REAL(fopencookie);
    FAIL_IF(FAULT_MEMORY, ENOMEM, NULL);
    return real(cookie, mode, functions);
}

/* ---- what has a descriptor ---- */

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

EXPORTED FILE *fopen(const char *path, const char *mode)
{
    REAL(fopen);
    FAIL_IF(FAULT_OPEN, EMFILE, NULL);
    return real(path, mode);
}

EXPORTED FILE *fdopen(int fd, const char *mode)
{
    REAL(fdopen);
    FAIL_IF(FAULT_MEMORY, ENOMEM, NULL);
    return real(fd, mode);
}

EXPORTED FILE *tmpfile(void)
{
    REAL(tmpfile);
    FAIL_IF(FAULT_OPEN, EMFILE, NULL);
    return real();
}

EXPORTED DIR *opendir(const char *path)
{
    REAL(opendir);
    FAIL_IF(FAULT_OPEN, EMFILE, NULL);
    return real(path);
}

EXPORTED int mkstemp(char *path)
{
    REAL(mkstemp);
    FAIL_IF(FAULT_OPEN, EMFILE, -1);
    return real(path);
}

EXPORTED char *mkdtemp(char *path)
{
    REAL(mkdtemp);
    FAIL_IF(FAULT_OPEN, ENOSPC, NULL);
    return real(path);
}

EXPORTED int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir);
    FAIL_IF(FAULT_OPEN, ENOSPC, -1);
    return real(path, mode);
}

EXPORTED int pipe(int fds[2])
{
    REAL(pipe);
    FAIL_IF(FAULT_OPEN, EMFILE, -1);
    return real(fds);
}

EXPORTED int pipe2(int fds[2], int flags)
{
    REAL(pipe2);
    FAIL_IF(FAULT_OPEN, EMFILE, -1);
    return real(fds, flags);
}

EXPORTED int socket(int domain, int type, int protocol)
{
    REAL(socket);
    FAIL_IF(FAULT_OPEN, EMFILE, -1);
    return real(domain, type, protocol);
}

EXPORTED int socketpair(int domain, int type, int protocol, int fds[2])
{
    REAL(socketpair);
    FAIL_IF(FAULT_OPEN, EMFILE, -1);
    return real(domain, type, protocol, fds);
}

EXPORTED void *mmap(void *at, size_t size, int protection, int flags, int fd,
                    off_t offset)
{
    REAL(mmap);
    FAIL_IF(FAULT_MAP, ENOMEM, MAP_FAILED);
    return real(at, size, protection, flags, fd, offset);
}

/* ---- threads, processes, clocks ---- */

EXPORTED int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                            void *(*run)(void *), void *user)
{
    REAL(pthread_create);
    return STRIKES(FAULT_THREAD) ? EAGAIN : real(thread, attributes, run, user);
}

EXPORTED pid_t fork(void)
{
    REAL(fork);
    FAIL_IF(FAULT_PROCESS, EAGAIN, -1);
    return real();
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

/* ---- reading ---- */

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

EXPORTED ssize_t read(int fd, void *memory, size_t size)
{
    REAL(read);
    FAIL_IF(FAULT_READ, EIO, -1);
    return real(fd, memory, size);
}

EXPORTED ssize_t pread(int fd, void *memory, size_t size, off_t at)
{
    REAL(pread);
    FAIL_IF(FAULT_READ, EIO, -1);
    return real(fd, memory, size, at);
}

EXPORTED size_t fread(void *memory, size_t size, size_t n, FILE *fp)
{
    REAL(fread);
    FAIL_STREAM(FAULT_READ, fp, EIO, 0);
    return real(memory, size, n, fp);
}

EXPORTED char *fgets(char *text, int size, FILE *fp)
{
    REAL(fgets);
    FAIL_STREAM(FAULT_READ, fp, EIO, NULL);
    return real(text, size, fp);
}

EXPORTED int fgetc(FILE *fp)
{
    REAL(fgetc);
    FAIL_STREAM(FAULT_READ, fp, EIO, EOF);
    return real(fp);
}

#undef getc
EXPORTED int getc(FILE *fp)
{
    REAL(getc);
    FAIL_STREAM(FAULT_READ, fp, EIO, EOF);
    return real(fp);
}

EXPORTED ssize_t getline(char **line, size_t *size, FILE *fp)
{
    REAL(getline);
    FAIL_STREAM(FAULT_READ, fp, EIO, -1);
    return real(line, size, fp);
}

EXPORTED struct dirent *readdir(DIR *folder)
{
    REAL(readdir);
    FAIL_IF(FAULT_READ, EIO, NULL);
    return real(folder);
}

EXPORTED ssize_t recv(int fd, void *memory, size_t size, int flags)
{
    REAL(recv);
    FAIL_IF(FAULT_READ, ECONNRESET, -1);
    return real(fd, memory, size, flags);
}

/* ---- writing ---- */

EXPORTED ssize_t write(int fd, const void *memory, size_t size)
{
    REAL(write);
    if (fd != STDERR_FILENO)
        FAIL_IF(FAULT_WRITE, ENOSPC, -1);
    return real(fd, memory, size);
}

EXPORTED ssize_t pwrite(int fd, const void *memory, size_t size, off_t at)
{
    REAL(pwrite);
    FAIL_IF(FAULT_WRITE, ENOSPC, -1);
    return real(fd, memory, size, at);
}

EXPORTED ssize_t send(int fd, const void *memory, size_t size, int flags)
{
    REAL(send);
    FAIL_IF(FAULT_WRITE, EPIPE, -1);
    return real(fd, memory, size, flags);
}

EXPORTED size_t fwrite(const void *memory, size_t size, size_t n, FILE *fp)
{
    REAL(fwrite);
    FAIL_STREAM(FAULT_WRITE, fp, ENOSPC, 0);
    return real(memory, size, n, fp);
}

EXPORTED int fputs(const char *text, FILE *fp)
{
    REAL(fputs);
    FAIL_STREAM(FAULT_WRITE, fp, ENOSPC, EOF);
    return real(text, fp);
}

EXPORTED int puts(const char *text)
{
    REAL(puts);
    FAIL_STREAM(FAULT_WRITE, stdout, ENOSPC, EOF);
    return real(text);
}

EXPORTED int fputc(int c, FILE *fp)
{
    REAL(fputc);
    FAIL_STREAM(FAULT_WRITE, fp, ENOSPC, EOF);
    return real(c, fp);
}

#undef putc
EXPORTED int putc(int c, FILE *fp)
{
    REAL(putc);
    FAIL_STREAM(FAULT_WRITE, fp, ENOSPC, EOF);
    return real(c, fp);
}

#undef putchar
EXPORTED int putchar(int c)
{
    REAL(putchar);
    FAIL_STREAM(FAULT_WRITE, stdout, ENOSPC, EOF);
    return real(c);
}

EXPORTED int vfprintf(FILE *fp, const char *format, va_list args)
{
    REAL(vfprintf);
    FAIL_STREAM(FAULT_WRITE, fp, ENOSPC, -1);
    return real(fp, format, args);
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

/* ---- files as a whole ---- */

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

EXPORTED int fsync(int fd)
{
    REAL(fsync);
    FAIL_IF(FAULT_FILE, EIO, -1);
    return real(fd);
}

EXPORTED int rename(const char *from, const char *to)
{
    REAL(rename);
    FAIL_IF(FAULT_FILE, ENOSPC, -1);
    return real(from, to);
}

EXPORTED int link(const char *from, const char *to)
{
    REAL(link);
    FAIL_IF(FAULT_FILE, ENOSPC, -1);
    return real(from, to);
}

EXPORTED int symlink(const char *to, const char *path)
{
    REAL(symlink);
    FAIL_IF(FAULT_FILE, ENOSPC, -1);
    return real(to, path);
}

EXPORTED int ftruncate(int fd, off_t size)
{
    REAL(ftruncate);
    FAIL_IF(FAULT_FILE, EFBIG, -1);
    return real(fd, size);
}

EXPORTED int posix_fallocate(int fd, off_t at, off_t size)
{
    REAL(posix_fallocate);
    return STRIKES(FAULT_FILE) ? ENOSPC : real(fd, at, size);
}

EXPORTED int flock(int fd, int operation)
{
    REAL(flock);
    FAIL_IF(FAULT_FILE, ENOLCK, -1);
    return real(fd, operation);
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

EXPORTED int fstat(int fd, struct stat *st)
{
    REAL(fstat);
    FAIL_IF(FAULT_FILE, EIO, -1);
    return real(fd, st);
}

EXPORTED char *realpath(const char *path, char *resolved)
{
    REAL(realpath);
    FAIL_IF(FAULT_FILE, ENOMEM, NULL);
    return real(path, resolved);
}

EXPORTED char *getcwd(char *path, size_t size)
{
    REAL(getcwd);
    FAIL_IF(FAULT_FILE, ENOENT, NULL);
    return real(path, size);
}
