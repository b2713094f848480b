/* Macros of the C tests: a check that reports its line and the library's error message. C99 and
 * C++. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "strait.h"

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: \"%s\"\n", __FILE__, __LINE__, #condition, strait_error_message());            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The call succeeds. */
#define OK(call) CHECK((call) == STRAIT_OK)

/* The call fails with this code, and its message begins with its own name. */
#define FAILS(code, call)                                                                                              \
    do {                                                                                                               \
        int returned = (call);                                                                                         \
        if (returned != (code)) {                                                                                      \
            fprintf(stderr, "%s:%d: %s returned %s\n", __FILE__, __LINE__, #call, strait_error_name(returned));        \
            exit(1);                                                                                                   \
        }                                                                                                              \
        CHECK(strncmp(strait_error_message(), #call, strcspn(#call, "(")) == 0);                                       \
    } while (0)

static inline struct iovec part_of(void *base, size_t bytes)
{
    struct iovec part;
    part.iov_base = base;
    part.iov_len = bytes;
    return part;
}

#endif
