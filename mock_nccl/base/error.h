/* error.h - the reason of a failure, which mock_last_error() returns */
#pragma once

#include "nccl_tuner_abi.h"

#if defined(__GNUC__)
#define MOCK_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define MOCK_PRINTF(fmt, args)
#endif

/* Stores the error message of this thread. */
void mock_set_error(const char *fmt, ...) MOCK_PRINTF(1, 2);

static inline ncclResult_t mock_error_result(ncclResult_t result)
{
    return result;
}

/* mock_fail(RESULT, FORMAT...) - the same, and is RESULT: a macro, so that an
 * analyser of the caller alone sees which it is. */
#define mock_fail(result, ...)                                                 \
    (mock_set_error(__VA_ARGS__), mock_error_result(result))

/* mock_fail() of an invalid argument. */
#define mock_refuse(...) mock_fail(ncclInvalidArgument, __VA_ARGS__)

/* mock_fail() for a failed allocation. */
static inline ncclResult_t mock_fail_memory(void)
{
    return mock_fail(ncclSystemError, "out of memory");
}

/* How many items an array has. */
#define MOCK_N_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Takes the next step, an expression of ncclResult_t, unless 'rc', a variable,
 * says that one before it failed. */
#define MOCK_THEN(rc, step)                                                    \
    do {                                                                       \
        if ((rc) == ncclSuccess)                                               \
            (rc) = (step);                                                     \
    } while (0)

/* Returns the failure of 'step' from its function, as NCCLCHECK() does. */
#define MOCK_TRY(step)                                                         \
    do {                                                                       \
        const ncclResult_t tried = (step);                                     \
                                                                               \
        if (tried != ncclSuccess)                                              \
            return tried;                                                      \
    } while (0)

/* Puts "rank N: " or the like before this thread's error message, unless
 * 'result' is ncclSuccess, and returns 'result'. */
ncclResult_t mock_fail_prefix(ncclResult_t result, const char *fmt, ...)
    MOCK_PRINTF(2, 3);

/* A result with its error message, kept while other calls can fail. */
struct mock_kept {
    ncclResult_t rc;
    char error[1024];
};

/* Keeps 'rc' and this thread's message; restoring returns it, with the message
 * in the calling thread if it is a failure. */
void mock_keep(struct mock_kept *kept, ncclResult_t rc);
ncclResult_t mock_restore(const struct mock_kept *kept);

/* A copy of the text, to be freed; leaves *copy_ret untouched for NULL. */
ncclResult_t mock_copy_text(const char *text, char **copy_ret);

/* "ncclInternalError" and so on; "an unknown code" for other numbers. */
const char *mock_result_name(ncclResult_t result);
