/* The program with the counted instructions, through the C interface. docs/instruction-count.md
 * describes the method. It does what src/bin/icount.rs does, with the shared library. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "strait.h"

enum { CALLS = 1000 }; /* number of warm-up calls, and of counted calls, of each operation */

/* Defines a counted function with one line of code. */
#define COUNTED(name, call)                                                                                            \
    __attribute__((noinline)) void name(strait_world world, void *data);                                               \
    void name(strait_world world, void *data)                                                                          \
    {                                                                                                                  \
        if (call != STRAIT_OK) {                                                                                       \
            abort();                                                                                                   \
        }                                                                                                              \
    }

/* Makes the counted functions for messages of so many bytes: one way with one tag, answering with another. */
#define COUNTED_FOR(bytes, tag)                                                                                        \
    COUNTED(strait_icount_c_send_##bytes, strait_send(world, 0, data, bytes, 1, tag))                                  \
    COUNTED(strait_icount_c_recv_##bytes, strait_recv(world, 0, data, bytes, 0, tag, NULL))                            \
    COUNTED(strait_icount_c_send_baton_##bytes, strait_send(world, 0, data, bytes, 1, tag + 1))                        \
    COUNTED(strait_icount_c_recv_baton_##bytes, strait_recv(world, 0, data, bytes, 0, tag + 1, NULL))

COUNTED_FOR(0, 20)
COUNTED_FOR(4, 30)
COUNTED_FOR(8, 40)
COUNTED_FOR(16, 50)
COUNTED_FOR(48, 60)
COUNTED_FOR(64, 70)

typedef void (*counted)(strait_world world, void *data);

/* The counted functions for messages of one length. */
struct length {
    size_t bytes;
    counted send, receive, send_baton, receive_baton;
};

#define LENGTH(bytes)                                                                                                  \
    {                                                                                                                  \
        bytes, strait_icount_c_send_##bytes, strait_icount_c_recv_##bytes, strait_icount_c_send_baton_##bytes,         \
            strait_icount_c_recv_baton_##bytes                                                                         \
    }

static const struct length LENGTHS[] = {LENGTH(0), LENGTH(4), LENGTH(8), LENGTH(16), LENGTH(48), LENGTH(64)};

static void check(int is_good)
{
    if (!is_good) {
        abort();
    }
}

/* Defines a function with the start and the end of a receive and a send of 8 bytes, and one with a send and a receive
 * from any source. */
#define NONBLOCKING(name)                                                                                              \
    __attribute__((noinline)) void name(strait_world worlds[2], const void *sent, void *received);                     \
    void name(strait_world worlds[2], const void *sent, void *received)                                                \
    {                                                                                                                  \
        strait_request send, receive;                                                                                  \
        check(strait_irecv(worlds[1], 0, received, 8, 0, 70, &receive) == STRAIT_OK);                                  \
        check(strait_isend(worlds[0], 0, sent, 8, 1, 70, &send) == STRAIT_OK);                                         \
        check(strait_wait(&send, NULL) == STRAIT_OK);                                                                  \
        check(strait_wait(&receive, NULL) == STRAIT_OK);                                                               \
    }

#define ANY_SOURCE(name)                                                                                               \
    __attribute__((noinline)) void name(strait_world world, void *received);                                           \
    void name(strait_world world, void *received)                                                                      \
    {                                                                                                                  \
        check(strait_recv(world, 0, received, 8, STRAIT_ANY_SOURCE, 71, NULL) == STRAIT_OK);                           \
    }

NONBLOCKING(strait_icount_c_nonblocking_warm)
NONBLOCKING(strait_icount_c_nonblocking_8)
ANY_SOURCE(strait_icount_c_any_warm)
ANY_SOURCE(strait_icount_c_any_8)

/* A receive that is posted before its message, and one from any source. */
static void run_matched(strait_world worlds[2])
{
    uint64_t sent = 0, received = 0;
    for (int number = 0; number < 2 * CALLS; number++) {
        sent = (uint64_t)number;
        (number < CALLS ? strait_icount_c_nonblocking_warm : strait_icount_c_nonblocking_8)(worlds, &sent, &received);
        check(received == sent);
        sent = ~sent;
        check(strait_send(worlds[0], 0, &sent, 8, 1, 71) == STRAIT_OK);
        (number < CALLS ? strait_icount_c_any_warm : strait_icount_c_any_8)(worlds[1], &received);
        check(received == sent);
    }
}

/* A stream one way, and then messages that are answered. */
static void run(strait_world worlds[2], const struct length *length)
{
    unsigned char sent[64], received[64];
    uint64_t answer = 0;
    for (int number = 0; number < 4 * CALLS; number++) {
        int is_counted = number / CALLS % 2 == 1, is_answered = number >= 2 * CALLS;
        memset(sent, number, sizeof sent);
        memset(received, ~number, sizeof received);
        if (!is_counted) {
            check(strait_send(worlds[0], 0, sent, length->bytes, 1, 7) == STRAIT_OK);
            check(strait_recv(worlds[1], 0, received, length->bytes, 0, 7, NULL) == STRAIT_OK);
        } else if (is_answered) {
            length->send_baton(worlds[0], sent);
            length->receive_baton(worlds[1], received);
        } else {
            length->send(worlds[0], sent);
            length->receive(worlds[1], received);
        }
        check(memcmp(sent, received, length->bytes) == 0);
        if (is_answered) {
            check(strait_send(worlds[1], 0, &answer, sizeof answer, 0, 9) == STRAIT_OK);
            check(strait_recv(worlds[0], 0, &answer, sizeof answer, 1, 9, NULL) == STRAIT_OK);
        }
    }
}

int main(void)
{
    strait_world worlds[2];
    check(strait_init_in_process(STRAIT_ABI, 2, worlds) == STRAIT_OK);
    for (size_t place = 0; place < sizeof LENGTHS / sizeof *LENGTHS; place++) {
        run(worlds, &LENGTHS[place]);
    }
    run_matched(worlds);
    check(strait_finalize(worlds[0]) == STRAIT_OK);
    check(strait_finalize(worlds[1]) == STRAIT_OK);
    return 0;
}
