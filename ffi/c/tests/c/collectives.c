/* Groups and collective operations, in a job of three. */
#include "check.h"

enum { RANKS = 3, LONG = 60000 };

static strait_world world;
static strait_group all;
static uint32_t me;

/* A reduction of numbers. */
static strait_reduction numbers(int type, int op)
{
    strait_reduction reduction;
    memset(&reduction, 0, sizeof reduction);
    reduction.size = sizeof reduction, reduction.type = type, reduction.op = op;
    return reduction;
}

static void moves(void)
{
    static const strait_run blocks[RANKS] = {{8, 4}, {0, 8}, {12, 0}};
    static const strait_run half[RANKS] = {{0, 1}, {1, 1}, {2, 1}};
    uint32_t own = 10 + me, gathered[RANKS], word = me == 1 ? 77 : 0;
    unsigned char mixed[12], block[8];
    char letters[RANKS + 1] = "...";

    OK(strait_broadcast(all, &word, sizeof word, 1));
    CHECK(word == 77);
    memset(gathered, 0, sizeof gathered);
    OK(strait_gather(all, &own, sizeof own, me == 2 ? gathered : NULL, 2));
    CHECK(me != 2 || (gathered[0] == 10 && gathered[1] == 11 && gathered[2] == 12));
    if (me == 2)
        gathered[2] = 99;
    OK(strait_gather(all, me == 2 ? STRAIT_IN_PLACE : &own, sizeof own, gathered, 2));
    CHECK(me != 2 || (gathered[0] == 10 && gathered[1] == 11 && gathered[2] == 99));
    own = 0;
    OK(strait_scatter(all, gathered, me == 2 ? STRAIT_IN_PLACE : &own, sizeof own, 2));
    CHECK(own == (me == 2 ? 0 : 10 + me));
    own = 20 + me;
    OK(strait_allgather(all, &own, sizeof own, gathered));
    CHECK(gathered[0] == 20 && gathered[1] == 21 && gathered[2] == 22);

    memset(block, 'a' + (int)me, sizeof block);
    memset(mixed, '-', sizeof mixed);
    OK(strait_allgatherv(all, block, blocks[me].length, mixed, blocks));
    CHECK(memcmp(mixed, "bbbbbbbbaaaa", 12) == 0);
    memset(mixed, '-', sizeof mixed);
    OK(strait_gatherv(all, block, blocks[me].length, mixed, me == 0 ? blocks : NULL, 0));
    CHECK(memcmp(mixed, me == 0 ? "bbbbbbbbaaaa" : "------------", 12) == 0);
    memset(block, '-', sizeof block);
    OK(strait_scatterv(all, mixed, blocks, block, blocks[me].length, 0));
    CHECK(memcmp(block, me == 0 ? "aaaa----" : me == 1 ? "bbbbbbbb" : "--------", 8) == 0);

    for (int to = 0; to < RANKS; to++)
        block[to] = (unsigned char)('a' + 3 * (int)me + to);
    OK(strait_alltoall(all, block, letters, 1));
    CHECK(letters[0] == 'a' + (int)me && letters[1] == 'd' + (int)me && letters[2] == 'g' + (int)me);
    OK(strait_alltoall(all, STRAIT_IN_PLACE, letters, 1));
    CHECK(memcmp(letters, block, RANKS) == 0);
    OK(strait_alltoallv(all, block, half, letters, half));
    CHECK(letters[1] == 'd' + (int)me);
    OK(strait_alltoallv(all, STRAIT_IN_PLACE, NULL, letters, half));
    CHECK(memcmp(letters, block, RANKS) == 0);
}

/* Strings of two letters: keeps the first of the left and the last of the right, and counts. */
static void ends(const void *left, void *right, size_t count, void *context)
{
    const char *before = (const char *)left;
    char *after = (char *)right;
    for (size_t at = 0; at < count; at++)
        after[2 * at] = before[2 * at];
    *(int *)context += 1;
}

static void reductions(void)
{
    static double numbers_of[LONG], sums[LONG];
    strait_reduction sum = numbers(STRAIT_INT64, STRAIT_SUM), of_doubles = numbers(STRAIT_DOUBLE, STRAIT_SUM);
    int64_t own = 1 << me, result = -1, three[RANKS] = {1, 2, 3};
    size_t counts[RANKS] = {0, 1, 2};
    char pair[4];
    int calls = 0;
    strait_reduction function;

    OK(strait_reduce(all, &own, me == 0 ? &result : NULL, 1, &sum, 0));
    CHECK(result == (me == 0 ? 7 : -1));
    OK(strait_allreduce(all, &own, &result, 1, &sum));
    CHECK(result == 7);
    result = own;
    OK(strait_allreduce(all, STRAIT_IN_PLACE, &result, 1, &sum));
    CHECK(result == 7);
    OK(strait_scan(all, &own, &result, 1, &sum));
    CHECK(result == (2 << me) - 1);
    result = 55;
    OK(strait_exscan(all, &own, &result, 1, &sum));
    CHECK(result == (me == 0 ? 55 : (1 << me) - 1));
    OK(strait_reduce_scatter_block(all, three, &result, 1, &sum));
    CHECK(result == 3 * ((int64_t)me + 1));
    OK(strait_reduce_scatter(all, STRAIT_IN_PLACE, three, counts, &sum));
    CHECK(me != 1 || three[0] == 3);
    CHECK(me != 2 || (three[0] == 6 && three[1] == 9));

    for (int at = 0; at < LONG; at++)
        numbers_of[at] = at + me;
    OK(strait_allreduce(all, numbers_of, sums, LONG, &of_doubles));
    for (int at = 0; at < LONG; at++)
        CHECK(sums[at] == 3.0 * at + 3);

    memset(&function, 0, sizeof function);
    function.size = sizeof function, function.function = ends, function.context = &calls;
    FAILS(STRAIT_ERR_ARGUMENT, strait_scan(all, pair, pair + 2, 1, &function));
    function.element = 2;
    pair[0] = (char)('a' + me), pair[1] = (char)('A' + me);
    OK(strait_allreduce(all, pair, pair + 2, 1, &function));
    CHECK(pair[2] == 'a' && pair[3] == 'C');
    OK(strait_scan(all, pair, pair + 2, 1, &function));
    CHECK(pair[2] == 'a' && pair[3] == 'A' + (int)me);
    CHECK(calls > 0);
}

static void groups(void)
{
    static const uint32_t turned[RANKS] = {2, 0, 1};
    strait_group copy, part, last, some;
    uint32_t number;

    OK(strait_group_size(all, &number));
    CHECK(number == RANKS);
    OK(strait_group_create(world, 3, turned, RANKS, &some));
    OK(strait_group_place(some, &number));
    CHECK(turned[number] == me);
    OK(strait_group_rank(some, 0, &number));
    CHECK(number == 2);
    OK(strait_broadcast(some, &number, sizeof number, 1));
    OK(strait_group_duplicate(some, &copy));
    OK(strait_group_barrier(copy));
    /* Ranks 0 and 1, the last one first; rank 2 gets no group. */
    OK(strait_group_split(copy, me == 2 ? -1 : 4, -(int64_t)me, &part));
    CHECK((part == NULL) == (me == 2));
    if (part) {
        OK(strait_group_rank(part, 0, &number));
        CHECK(number == 1);
        last = part;
        OK(strait_group_free(&part));
        FAILS(STRAIT_ERR_HANDLE, strait_group_barrier(last));
    }
    OK(strait_group_free(&copy));
    OK(strait_group_free(&some));
}

int main(void)
{
    OK(strait_init(STRAIT_ABI, NULL, &world));
    OK(strait_rank(world, &me));
    OK(strait_group_create(world, 0, NULL, 0, &all));
    moves();
    reductions();
    groups();
    OK(strait_group_barrier(all));
    OK(strait_group_free(&all));
    OK(strait_finalize(world));
    return 0;
}
