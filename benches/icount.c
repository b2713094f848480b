/* The program whose instructions are counted, through the C interface: docs/instruction-count.md has the method. What it does is
 * what src/bin/icount.rs does, with the shared library. */
#include <stdint.h>
#include <stdlib.h>

#include "strait.h"

enum { CALLS = 1000 }; /* before the counted ones, and counted calls of each operation */

/* Makes a counted function of one line of code. */
#define COUNTED(name, call)                                                                                            \
    __attribute__((noinline)) void name(strait_world world, uint64_t *data);                                           \
    void name(strait_world world, uint64_t *data)                                                                      \
    {                                                                                                                  \
        if (call != STRAIT_OK) {                                                                                       \
            abort();                                                                                                   \
        }                                                                                                              \
    }

COUNTED(strait_icount_c_send, strait_send(world, 0, data, 8, 1, 7))
COUNTED(strait_icount_c_recv, strait_recv(world, 0, data, 8, 0, 7, NULL))
COUNTED(strait_icount_c_send_baton, strait_send(world, 0, data, 8, 1, 8))
COUNTED(strait_icount_c_recv_baton, strait_recv(world, 0, data, 8, 0, 8, NULL))

static void check(int is_good)
{
    if (!is_good) {
        abort();
    }
}

int main(void)
{
    strait_world worlds[2];
    check(strait_init_in_process(STRAIT_ABI, 2, worlds) == STRAIT_OK);
    for (uint64_t number = 0; number < 2 * CALLS; number++) {
        uint64_t received = 0;
        if (number < CALLS) {
            check(strait_send(worlds[0], 0, &number, 8, 1, 7) == STRAIT_OK);
            check(strait_recv(worlds[1], 0, &received, 8, 0, 7, NULL) == STRAIT_OK);
        } else {
            strait_icount_c_send(worlds[0], &number);
            strait_icount_c_recv(worlds[1], &received);
        }
        check(received == number);
    }
    for (uint64_t number = 0; number < 2 * CALLS; number++) {
        uint64_t received = 0;
        if (number < CALLS) {
            check(strait_send(worlds[0], 0, &number, 8, 1, 8) == STRAIT_OK);
            check(strait_recv(worlds[1], 0, &received, 8, 0, 8, NULL) == STRAIT_OK);
        } else {
            strait_icount_c_send_baton(worlds[0], &number);
            strait_icount_c_recv_baton(worlds[1], &received);
        }
        check(received == number);
        check(strait_send(worlds[1], 0, &received, 8, 0, 9) == STRAIT_OK);
        check(strait_recv(worlds[0], 0, &received, 8, 1, 9, NULL) == STRAIT_OK);
    }
    check(strait_finalize(worlds[0]) == STRAIT_OK);
    check(strait_finalize(worlds[1]) == STRAIT_OK);
    return 0;
}
