/* Window operations that job.c does not test, in a job of two. */
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
    OK(strait_wait_all(2, pair, statuses, NULL));
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

/* Transfers that may continue until the synchronisation: short and long, each by every call that
 * ends them. */
static void continued(void)
{
    enum { LONG = 100000 };
    static unsigned char data[LONG], copy[LONG];
    strait_window window;
    uint64_t word = 0;

    OK(strait_window_allocate(world, NULL, 2 * LONG, 1, &window));
    for (int round = 0; round < 6; round++) {
        OK(strait_window_fence(window, 0));
        memset(data, 16 * round + me, sizeof data);
        if (round >= 3)
            OK(strait_window_lock_all(window, 0));
        OK(strait_put(window, data, LONG, peer, 0));
        OK(strait_put(window, data, 8, peer, LONG + 8));
        if (round % 3 == 0)
            OK(strait_window_flush_local(window, peer));
        if (round % 3 == 1)
            OK(strait_window_flush(window, peer));
        if (round >= 3)
            OK(strait_window_unlock_all(window));
        OK(strait_window_fence(window, 0));
        memset(data, 255, sizeof data);
        OK(strait_window_lock(window, STRAIT_SHARED, peer, 0));
        for (int times = 0; times < 3; times++) {
            OK(strait_get(window, copy, LONG, peer, 0));
            OK(strait_get(window, &word, 8, peer, LONG + 8));
        }
        OK(strait_window_unlock(window, peer));
        for (int at = 0; at < LONG; at++)
            CHECK(copy[at] == 16 * round + me);
        CHECK((word & 255) == 16 * round + me);
    }
    OK(strait_window_free(&window));
}

/* Memory that is attached and detached, by displacement and by address. */
static void attachments(void)
{
    uint64_t numbers[4] = {0, 0, 0, 0}, value = 40 + me, found = 0;
    size_t mine, theirs, addresses[2] = {(uintptr_t)numbers, 0};
    strait_request request;
    strait_window window;

    OK(strait_window_create_dynamic(world, NULL, &window));
    FAILS(STRAIT_ERR_WINDOW, strait_window_detach(window, addresses[0]));
    OK(strait_window_attach(window, numbers, sizeof numbers, &mine));
    OK(strait_isend(world, 0, &mine, sizeof mine, peer, 1, &request));
    OK(strait_recv(world, 0, &theirs, sizeof theirs, peer, 1, NULL));
    OK(strait_wait(&request, NULL));
    OK(strait_isend(world, 0, &addresses[0], sizeof addresses[0], peer, 2, &request));
    OK(strait_recv(world, 0, &addresses[1], sizeof addresses[1], peer, 2, NULL));
    OK(strait_wait(&request, NULL));

    OK(strait_put(window, &value, 8, peer, theirs + 8));
    OK(strait_accumulate(window, &value, 1, STRAIT_UINT64, peer, addresses[1] + 16, NULL, STRAIT_SUM));
    FAILS(STRAIT_ERR_WINDOW, strait_put(window, &value, 8, peer, theirs + sizeof numbers));
    OK(strait_window_fence(window, 0));
    OK(strait_get(window, &found, 8, me, mine + 8));
    CHECK(found == 40 + peer && numbers[1] == 40 + peer && numbers[2] == 40 + peer);

    /* A new attachment at the same address: the previous displacement is invalid. */
    OK(strait_window_detach(window, mine));
    FAILS(STRAIT_ERR_WINDOW, strait_window_detach(window, mine));
    OK(strait_window_attach(window, numbers, sizeof numbers, &mine));
    OK(strait_window_fence(window, 0));
    FAILS(STRAIT_ERR_WINDOW, strait_get(window, &found, 8, peer, theirs));
    OK(strait_get(window, &found, 8, peer, addresses[1] + 8));
    OK(strait_window_flush_local(window, peer));
    CHECK(found == 40 + me);
    OK(strait_window_fence(window, 0));
    OK(strait_window_detach(window, addresses[0]));
    OK(strait_window_free(&window));
}

/* The members' choices for their locks, and their effects. A program with an older header has
 * fewer choices. */
static void choices(void)
{
    strait_lock_counters counters;
    strait_members members;
    strait_window window;
    uint64_t number = 0;
    uint32_t nodes;
    int design, needs;

    OK(strait_nodes(world, &nodes));
    memset(&members, 0, sizeof members);
    members.size = sizeof members, members.lock_design = STRAIT_LOCK_HYBRID, members.lock_backoff = 1;
    members.lock_policy = STRAIT_POLICY_PINNED_NETWORK;
    OK(strait_window_allocate(world, &members, 8, 8, &window));
    OK(strait_window_lock_design(window, &design));
    CHECK(design == STRAIT_LOCK_HYBRID);
    OK(strait_window_needs_target(window, STRAIT_OPERATION_PUT, &needs));
    CHECK(!needs);
    for (int round = 0; round < 20; round++) {
        OK(strait_window_lock(window, STRAIT_EXCLUSIVE, 0, 0));
        OK(strait_get(window, &number, 8, 0, 0));
        OK(strait_window_flush_local(window, 0));
        number++;
        OK(strait_put(window, &number, 8, 0, 0));
        OK(strait_window_unlock(window, 0));
    }
    OK(strait_barrier(world, 0));
    OK(strait_window_lock(window, STRAIT_SHARED, 0, 0));
    OK(strait_get(window, &number, 8, 0, 0));
    OK(strait_window_unlock(window, 0));
    CHECK(number == 40);
    counters.size = sizeof counters;
    OK(strait_window_lock_counters(window, &counters));
    /* On one node there are no words for the device. */
    CHECK(counters.mode == (nodes > 1 ? STRAIT_MODE_NETWORK : STRAIT_MODE_CPU));
    CHECK((counters.accesses > 0) == (nodes > 1) && counters.to_cpu == 0);
    counters.requests = 77, counters.size = offsetof(strait_lock_counters, requests);
    OK(strait_window_lock_counters(window, &counters));
    CHECK(counters.requests == 77);
    OK(strait_window_free(&window));

    members.lock_design = STRAIT_LOCK_TWO_SIDED, members.size = offsetof(strait_members, lock_policy);
    members.lock_policy = 99;
    OK(strait_window_create_dynamic(world, &members, &window));
    OK(strait_window_lock_design(window, &design));
    CHECK(design == STRAIT_LOCK_TWO_SIDED);
    OK(strait_window_needs_target(window, STRAIT_OPERATION_LOCK, &needs));
    CHECK(needs);
    OK(strait_window_free(&window));
    if (nodes == 1) {
        members.lock_design = STRAIT_LOCK_MCS;
        OK(strait_window_allocate_shared(world, &members, 8, 8, &window));
        OK(strait_window_lock_design(window, &design));
        CHECK(design == STRAIT_LOCK_MCS);
        OK(strait_window_free(&window));
    }
}

int main(void)
{
    OK(strait_init(STRAIT_ABI, NULL, &world));
    OK(strait_rank(world, &me));
    peer = 1 - me;
    requests();
    continued();
    attachments();
    choices();
    OK(strait_barrier(world, 0));
    OK(strait_finalize(world));
    return 0;
}
