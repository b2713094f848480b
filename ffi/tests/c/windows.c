/* What windows can do beyond what job.c does with them, in a job of two. */
#include "check.h"

static strait_world world;
static uint32_t me, peer;

/* Accumulates with requests. */
static void requests(void)
{
    uint64_t numbers[2] = {5, 6}, old[2] = {0, 0};
    strait_shape apart = {2, 8, 16, NULL};
    strait_window window;
    strait_request pair[2];
    strait_status statuses[2];
    struct iovec part = part_of(numbers, sizeof numbers);

    OK(strait_window_allocate(world, NULL, 64, 8, &window));
    OK(strait_window_fence(window, 0));
    OK(strait_raccumulate(window, numbers, 2, STRAIT_UINT64, peer, 1, &apart, STRAIT_SUM, &pair[0]));
    OK(strait_rget_accumulate(window, numbers, old, 2, STRAIT_UINT64, peer, 1, &apart, STRAIT_PROD, &pair[1]));
    OK(strait_wait_all(2, pair, statuses));
    CHECK(pair[0] == NULL && pair[1] == NULL);
    CHECK(statuses[0].bytes == 16 && statuses[1].bytes == 16 && statuses[0].source == peer);
    CHECK(old[0] == 5 && old[1] == 6);
    OK(strait_window_flush_local_all(window));
    OK(strait_window_fence(window, 0));
    OK(strait_getv(window, &part, 1, me, 1, &apart));
    CHECK(numbers[0] == 25 && numbers[1] == 36);
    OK(strait_window_fence(window, 0));
    OK(strait_window_free(&window));
}

int main(void)
{
    OK(strait_init(STRAIT_ABI, NULL, &world));
    OK(strait_rank(world, &me));
    peer = 1 - me;
    requests();
    OK(strait_barrier(world, 0));
    OK(strait_finalize(world));
    return 0;
}
