/* status.h - how Steptune's functions say that they failed, and why */
#pragma once

#include <stddef.h>

enum stp_status {
    STP_OK = 0,
    STP_ERR_NOMEM,  /* out of memory */
    STP_ERR_SYNTAX, /* a file's text is wrong; stp_error says where */
    STP_ERR_IO,     /* a file could not be opened, read or written */
    STP_ERR_LIMIT,  /* legal, but more than this program takes on */
    STP_ERR_RANGE,  /* an argument is outside what its header allows */
    STP_ERR_DEVICE, /* the device, or a process of the run, refused or failed */
    STP_ERR_NOTHING, /* there is nothing to run on, such as no GPU */
    STP_ERR_STOPPED, /* the caller was asked whether to go on and declined */
};

/* Takes the next step, an expression of enum stp_status, unless 'status', a
 * variable, says that one before it failed: steps that all end at the first
 * failure stand one below the other. */
#define STP_THEN(status, step)                                                 \
    do {                                                                       \
        if ((status) == STP_OK)                                                \
            (status) = (step);                                                 \
    } while (0)

/* Takes a step, an expression of enum stp_status, and returns its status from
 * the function if it failed: where nothing is to be released. */
#define STP_TRY(step)                                                          \
    do {                                                                       \
        const enum stp_status tried = (step);                                  \
                                                                               \
        if (tried != STP_OK)                                                   \
            return tried;                                                      \
    } while (0)

enum { STP_ERROR_TEXT = 240 };

/* Where and why something was refused.  Meaningful only after a failure. */
struct stp_error {
    unsigned line;   /* 1-based; 0 if no line is to blame */
    unsigned column; /* 1-based, in bytes; 0 if no column is to blame */
    char text[STP_ERROR_TEXT]; /* one sentence, no newline, terminated */
};

#if defined(__GNUC__)
#define STP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define STP_PRINTF(fmt, args)
#endif

/* Fills *err (NULL is allowed) and returns 'status', so that a function can end
 * with "return stp_fail(...)".  A text that is too long is cut, and words of
 * files cannot reach a terminal as escape sequences: see stp_printable(). */
enum stp_status stp_fail(struct stp_error *err, enum stp_status status,
                         const char *fmt, ...) STP_PRINTF(3, 4);

/* stp_fail() of an argument out of range. */
#define STP_REFUSE(err, ...) stp_fail(err, STP_ERR_RANGE, __VA_ARGS__)

/* Like stp_fail(), but says which line and column of a file are to blame. */
enum stp_status stp_fail_at(struct stp_error *err, enum stp_status status,
                            unsigned line, unsigned column, const char *fmt,
                            ...) STP_PRINTF(5, 6);

/* stp_fail() for an allocation that failed: STP_ERR_NOMEM, "out of memory". */
enum stp_status stp_nomem(struct stp_error *err);

/* Writes "PATH:LINE:COLUMN: TEXT" into 'buf', leaving out what is 0, as
 * compilers print it.  Always terminated; cut if 'size' is too small. */
void stp_error_string(const struct stp_error *err, const char *path, char *buf,
                      size_t size);

/* Puts that into the text, which was to name no file. */
enum stp_status stp_fail_in(struct stp_error *err, enum stp_status status,
                            const char *path);

/* The analyser of ci/by_hand/analyse sees no other source: it has to be told
 * that the status is what these return. */
#ifdef __clang_analyzer__
#define stp_fail(err, status, ...)                                             \
    (stp_fail((err), (status), __VA_ARGS__), (status))
#define stp_fail_at(err, status, ...)                                          \
    (stp_fail_at((err), (status), __VA_ARGS__), (status))
#define stp_nomem(err) (stp_nomem(err), STP_ERR_NOMEM)
#endif
