/* The calls that `cargo xtask icount` searches for reads of what was just written in narrower pieces.
 * docs/instruction-count.md says why. Each call has a function of its own. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "strait.h"

enum { CALLS = 64 };

static void check(int is_good)
{
    if (!is_good) {
        abort();
    }
}

static unsigned char sent[8192], received[8192];
static strait_world worlds[2];
static strait_request request;

#define CALL(name, call)                                                                                               \
    __attribute__((noinline)) void forwarding_##name(void);                                                            \
    void forwarding_##name(void)                                                                                       \
    {                                                                                                                  \
        check((call) == STRAIT_OK);                                                                                    \
    }

/* Makes the functions for messages of so many bytes. */
#define MESSAGE(bytes)                                                                                                 \
    CALL(send_##bytes, strait_send(worlds[0], 0, sent, bytes, 1, 7))                                                   \
    CALL(isend_##bytes, strait_isend(worlds[0], 0, sent, bytes, 1, 7, &request))                                       \
    CALL(recv_##bytes, strait_recv(worlds[1], 0, received, bytes, 0, 7, NULL))

MESSAGE(8)
MESSAGE(64)
MESSAGE(1024)
MESSAGE(8192)

struct message {
    void (*send)(void), (*isend)(void), (*recv)(void);
};

#define FUNCTIONS(bytes)                                                                                               \
    {                                                                                                                  \
        forwarding_send_##bytes, forwarding_isend_##bytes, forwarding_recv_##bytes                                     \
    }

static const struct message MESSAGES[] = {FUNCTIONS(8), FUNCTIONS(64), FUNCTIONS(1024), FUNCTIONS(8192)};

static strait_window window;
static int64_t number = 1, before;

CALL(put_8, strait_put(window, &number, 8, 0, 0))
CALL(get_8, strait_get(window, &before, 8, 0, 0))
CALL(accumulate_8, strait_accumulate(window, &number, 1, STRAIT_INT64, 0, 0, NULL, STRAIT_SUM))
CALL(fetch_and_op_8, strait_fetch_and_op(window, &number, &before, STRAIT_INT64, 0, 0, STRAIT_SUM))
CALL(flush, strait_window_flush(window, 0))

static void one_sided(void)
{
    static void (*const OPERATIONS[])(void) = {forwarding_put_8, forwarding_get_8, forwarding_accumulate_8,
                                               forwarding_fetch_and_op_8};
    strait_world alone;
    check(strait_init_in_process(STRAIT_ABI, 1, &alone) == STRAIT_OK);
    check(strait_window_allocate(alone, NULL, 64, 8, &window) == STRAIT_OK);
    check(strait_window_lock_all(window, 0) == STRAIT_OK);
    for (size_t place = 0; place < sizeof OPERATIONS / sizeof *OPERATIONS; place++) {
        for (int call = 0; call < CALLS; call++) {
            OPERATIONS[place]();
            forwarding_flush();
        }
    }
    check(strait_window_unlock_all(window) == STRAIT_OK);
    check(strait_window_free(&window) == STRAIT_OK);
    check(strait_finalize(alone) == STRAIT_OK);
}

int main(void)
{
    check(strait_init_in_process(STRAIT_ABI, 2, worlds) == STRAIT_OK);
    for (size_t place = 0; place < sizeof MESSAGES / sizeof *MESSAGES; place++) {
        const struct message *message = &MESSAGES[place];
        for (int call = 0; call < 2 * CALLS; call++) {
            memset(sent, call, sizeof sent);
            (call % 2 ? message->isend : message->send)();
            message->recv();
            check(call % 2 == 0 || strait_wait(&request, NULL) == STRAIT_OK);
        }
    }
    check(strait_finalize(worlds[0]) == STRAIT_OK);
    check(strait_finalize(worlds[1]) == STRAIT_OK);
    one_sided();
    return 0;
}
