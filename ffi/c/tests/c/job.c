/* All operations between two ranks, in a job of two. */
#include "check.h"

enum { LARGE = 3 << 20 };

static strait_world world;
static uint32_t me, peer;

static unsigned char *field(unsigned char first)
{
    unsigned char *bytes = (unsigned char *)malloc(LARGE);
    CHECK(bytes != NULL);
    for (size_t place = 0; place < LARGE; place++) {
        bytes[place] = (unsigned char)(first + place * 7);
    }
    return bytes;
}

/* Frees such memory, which the world may have registered. */
static void release(unsigned char *bytes)
{
    OK(strait_invalidate(world, bytes, LARGE));
    free(bytes);
}

static void messages(void)
{
    strait_request requests[3];
    strait_status status, statuses[3];
    size_t index;
    int flag = 0, codes[3];
    char word[8], head[3], tail[5];
    struct iovec parts[2];
    unsigned char *large = field((unsigned char)me), *received = field(0), *expected = field((unsigned char)peer);

    /* Short blocking messages: rank 0 sends first. */
    if (me == 0) {
        OK(strait_send(world, 3, "hello", 6, peer, 1));
        OK(strait_probe(world, 3, peer, STRAIT_ANY_TAG, &status));
        CHECK(status.bytes == 6 && status.tag == 2 && status.source == peer);
        OK(strait_recv(world, 3, word, sizeof word, STRAIT_ANY_SOURCE, STRAIT_ANY_TAG, &status));
    } else {
        OK(strait_recv(world, 3, word, sizeof word, 0, 1, NULL));
        OK(strait_send(world, 3, word, 6, peer, 2));
    }
    CHECK(strcmp(word, "hello") == 0);

    /* Several messages at once, one of them large. */
    OK(strait_irecv(world, 0, received, LARGE, peer, 4, &requests[0]));
    OK(strait_isend(world, 0, large, LARGE, peer, 4, &requests[1]));
    requests[2] = NULL;
    OK(strait_wait_all(3, requests, statuses, NULL));
    CHECK(requests[0] == NULL && requests[1] == NULL);
    CHECK(statuses[0].bytes == LARGE && statuses[0].source == peer && statuses[0].tag == 4);
    CHECK(memcmp(received, expected, LARGE) == 0);

    /* A message in parts. */
    parts[0] = part_of(head, sizeof head), parts[1] = part_of(tail, sizeof tail);
    OK(strait_irecvv(world, 0, parts, 2, peer, 5, &requests[0]));
    parts[0] = part_of((void *)"ab", 2), parts[1] = part_of((void *)"cdefgh", 6);
    OK(strait_isendv(world, 0, parts, 2, peer, 5, &requests[1]));
    memset(parts, 0, sizeof parts);
    OK(strait_wait(&requests[1], NULL));
    while (!flag) {
        OK(strait_test(&requests[0], &flag, &status));
    }
    CHECK(status.bytes == 8 && memcmp(head, "abc", 3) == 0 && memcmp(tail, "defgh", 5) == 0);

    /* A message that never arrives, and a message that is too long. */
    OK(strait_irecv(world, 0, word, sizeof word, peer, 6, &requests[0]));
    OK(strait_cancel(requests[0], &flag));
    CHECK(flag);
    FAILS(STRAIT_ERR_CANCELLED, strait_wait(&requests[0], NULL));
    OK(strait_isend(world, 0, "too long", 9, peer, 7, &requests[0]));
    FAILS(STRAIT_ERR_TRUNCATED, strait_recv(world, 0, word, 4, peer, 7, NULL));
    OK(strait_wait(&requests[0], NULL));

    /* Several requests. The first and the third fail, each in its own way. */
    OK(strait_irecv(world, 0, word, sizeof word, peer, 6, &requests[0]));
    OK(strait_irecv(world, 0, head, 1, peer, 7, &requests[1]));
    OK(strait_irecv(world, 0, tail, 1, peer, 7, &requests[2]));
    OK(strait_cancel(requests[0], NULL));
    OK(strait_send(world, 0, "z", 1, peer, 7));
    OK(strait_send(world, 0, "zz", 2, peer, 7));
    statuses[2].bytes = 77;
    FAILS(STRAIT_ERR_CANCELLED, strait_wait_all(3, requests, statuses, codes));
    CHECK(codes[0] == STRAIT_ERR_CANCELLED && codes[1] == STRAIT_OK && codes[2] == STRAIT_ERR_TRUNCATED);
    CHECK(statuses[1].bytes == 1 && statuses[2].bytes == 77 && requests[2] == NULL);
    codes[1] = 77;
    OK(strait_wait_all(3, requests, NULL, codes));
    CHECK(codes[0] == STRAIT_OK && codes[1] == STRAIT_OK && codes[2] == STRAIT_OK);

    /* The same without results: all end, and the first failure is returned. */
    OK(strait_irecv(world, 0, word, sizeof word, peer, 6, &requests[0]));
    OK(strait_irecv(world, 0, head, 1, peer, 7, &requests[1]));
    OK(strait_irecv(world, 0, tail, 1, peer, 7, &requests[2]));
    OK(strait_cancel(requests[0], NULL));
    OK(strait_send(world, 0, "y", 1, peer, 7));
    OK(strait_send(world, 0, "zz", 2, peer, 7));
    FAILS(STRAIT_ERR_CANCELLED, strait_wait_all(3, requests, NULL, NULL));
    CHECK(requests[0] == NULL && requests[1] == NULL && requests[2] == NULL && head[0] == 'y');
    OK(strait_wait_all(3, requests, NULL, NULL));
    OK(strait_wait_all(0, NULL, NULL, NULL));

    /* The first request to complete. */
    OK(strait_irecv(world, 0, head, 1, peer, 8, &requests[0]));
    OK(strait_irecv(world, 0, tail, 1, peer, 9, &requests[1]));
    OK(strait_send(world, 0, "x", 1, peer, 9));
    OK(strait_wait_any(2, requests, &index, &status));
    CHECK(index == 1 && requests[1] == NULL && tail[0] == 'x');
    OK(strait_barrier(world, 0));
    OK(strait_send(world, 0, "y", 1, peer, 8));
    OK(strait_wait_any(2, requests, &index, NULL));
    CHECK(index == 0 && head[0] == 'y');
    OK(strait_wait_any(2, requests, &index, NULL));
    CHECK(index == SIZE_MAX);
    OK(strait_iprobe(world, 0, peer, 8, &flag, NULL));
    CHECK(!flag);
    release(large), release(received), release(expected);
}

/* Sends that complete only after their receives have started. */
static void synchronous_messages(void)
{
    enum { SHORT = 6 };
    unsigned char *large = field((unsigned char)me), *received = field(0), *expected = field((unsigned char)peer);
    strait_request requests[3];
    strait_status status;
    struct iovec parts[2];
    char word[8];
    int done = 0;

    parts[0] = part_of(large, 1000), parts[1] = part_of(large + 1000, LARGE - 1000);
    OK(strait_issend(world, 0, "hello", SHORT, peer, 20, &requests[0]));
    OK(strait_issendv(world, 0, parts, 2, peer, 21, &requests[1]));
    OK(strait_issend(world, 0, large, LARGE, peer, 22, &requests[2]));
    for (uint32_t tag = 20; tag < 23; tag++) {
        OK(strait_probe(world, 0, peer, tag, NULL));
    }
    /* All messages have arrived, and none has been received. */
    OK(strait_barrier(world, 0));
    OK(strait_test_all(3, requests, &done, NULL, NULL));
    CHECK(!done && requests[0] != NULL && requests[1] != NULL && requests[2] != NULL);
    OK(strait_barrier(world, 0));
    OK(strait_recv(world, 0, word, sizeof word, peer, 20, &status));
    CHECK(status.bytes == SHORT && strcmp(word, "hello") == 0);
    for (uint32_t tag = 21; tag < 23; tag++) {
        memset(received, 0, LARGE);
        OK(strait_recv(world, 0, received, LARGE, peer, tag, NULL));
        CHECK(memcmp(received, expected, LARGE) == 0);
    }
    while (!done) {
        OK(strait_test_all(3, requests, &done, NULL, NULL));
    }
    CHECK(requests[0] == NULL && requests[1] == NULL && requests[2] == NULL);

    OK(strait_irecv(world, 0, word, sizeof word, peer, 23, &requests[0]));
    OK(strait_ssend(world, 0, "again", SHORT, peer, 23));
    OK(strait_wait(&requests[0], NULL));
    CHECK(strcmp(word, "again") == 0);
    release(large), release(received), release(expected);
}

/* Calls for several requests, some of them NULL or failing. */
static void several(void)
{
    strait_request requests[5];
    strait_status statuses[5];
    size_t over, index, indices[5];
    int done, codes[5];
    char bytes[5] = "....";

    memset(requests, 0, sizeof requests);
    OK(strait_test_all(5, requests, &done, NULL, codes));
    CHECK(done && codes[4] == STRAIT_OK);
    OK(strait_test_any(5, requests, &done, &index, NULL));
    CHECK(done && index == SIZE_MAX);
    OK(strait_wait_some(5, requests, &over, indices, NULL, NULL));
    CHECK(over == SIZE_MAX);
    OK(strait_test_some(0, NULL, &over, NULL, NULL, NULL));
    CHECK(over == SIZE_MAX);

    for (uint32_t place = 1; place < 5; place++) {
        OK(strait_irecv(world, 2, &bytes[place], 1, peer, place, &requests[place]));
    }
    OK(strait_test_all(5, requests, &done, NULL, NULL));
    CHECK(!done);
    OK(strait_test_any(5, requests, &done, &index, NULL));
    CHECK(!done && index == SIZE_MAX);
    OK(strait_test_some(5, requests, &over, indices, NULL, NULL));
    CHECK(over == 0);

    /* Two requests at once. The first fails, and the others stay. */
    OK(strait_barrier(world, 0));
    OK(strait_send(world, 2, "bb", 2, peer, 2));
    OK(strait_send(world, 2, "d", 1, peer, 4));
    OK(strait_barrier(world, 0));
    statuses[0].tag = 77;
    FAILS(STRAIT_ERR_TRUNCATED, strait_wait_some(5, requests, &over, indices, statuses, codes));
    CHECK(over == 2 && indices[0] == 2 && indices[1] == 4);
    CHECK(codes[0] == STRAIT_ERR_TRUNCATED && codes[1] == STRAIT_OK);
    CHECK(statuses[0].tag == 77 && statuses[1].tag == 4 && statuses[1].bytes == 1);
    CHECK(requests[2] == NULL && requests[4] == NULL && requests[1] != NULL && requests[3] != NULL);
    OK(strait_test_some(5, requests, &over, indices, statuses, codes));
    CHECK(over == 0);

    OK(strait_barrier(world, 0));
    OK(strait_send(world, 2, "c", 1, peer, 3));
    done = 0;
    while (!done) {
        OK(strait_test_any(5, requests, &done, &index, &statuses[0]));
    }
    CHECK(index == 3 && statuses[0].tag == 3 && requests[3] == NULL);
    OK(strait_barrier(world, 0));
    OK(strait_send(world, 2, "a", 1, peer, 1));
    done = 0;
    while (!done) {
        OK(strait_test_all(5, requests, &done, statuses, codes));
    }
    CHECK(statuses[1].tag == 1 && codes[1] == STRAIT_OK && codes[0] == STRAIT_OK && requests[1] == NULL);
    CHECK(memcmp(bytes, ".abcd", 5) == 0);
}

/* Messages that only their matched handle receives. */
static void matched(void)
{
    unsigned char *large = field((unsigned char)me), *received = field(0), *expected = field((unsigned char)peer);
    strait_message messages[4];
    strait_request sends[4], request;
    strait_status status;
    struct iovec parts[2];
    char word[8], head[3], tail[5];
    int found = 0;

    OK(strait_isend(world, 4, "first", 6, peer, 1, &sends[0]));
    OK(strait_isend(world, 4, "second", 7, peer, 1, &sends[1]));
    OK(strait_issend(world, 4, "abcdefg", 8, peer, 1, &sends[2]));
    OK(strait_isend(world, 4, large, LARGE, peer, 2, &sends[3]));
    OK(strait_mprobe(world, 4, peer, 1, &messages[0], &status));
    CHECK(status.bytes == 6 && status.source == peer && status.tag == 1);
    OK(strait_mprobe(world, 4, STRAIT_ANY_SOURCE, 1, &messages[1], &status));
    CHECK(status.bytes == 7 && status.source == peer);
    OK(strait_mprobe(world, 4, peer, STRAIT_ANY_TAG, &messages[2], &status));
    CHECK(status.bytes == 8);
    while (!found) {
        OK(strait_improbe(world, 4, STRAIT_ANY_SOURCE, STRAIT_ANY_TAG, &found, &messages[3], &status));
    }
    CHECK(status.bytes == LARGE && status.tag == 2);
    OK(strait_iprobe(world, 4, STRAIT_ANY_SOURCE, STRAIT_ANY_TAG, &found, NULL));
    CHECK(!found);

    /* Receives in any order, and one message that is too long. */
    OK(strait_imrecv(&messages[3], received, LARGE, &request));
    CHECK(messages[3] == NULL);
    FAILS(STRAIT_ERR_TRUNCATED, strait_mrecv(&messages[1], word, 3, &status));
    CHECK(messages[1] == NULL && memcmp(word, "sec", 3) == 0);
    OK(strait_mrecv(&messages[0], word, sizeof word, &status));
    CHECK(status.bytes == 6 && strcmp(word, "first") == 0);
    OK(strait_wait(&request, &status));
    CHECK(status.bytes == LARGE && memcmp(received, expected, LARGE) == 0);
    parts[0] = part_of(head, sizeof head), parts[1] = part_of(tail, sizeof tail);
    OK(strait_imrecvv(&messages[2], parts, 2, &request));
    memset(parts, 0, sizeof parts);
    OK(strait_wait(&request, NULL));
    CHECK(memcmp(head, "abc", 3) == 0 && strcmp(tail, "defg") == 0);
    OK(strait_wait_all(4, sends, NULL, NULL));

    /* A returned message goes to the receive that was posted meanwhile. */
    OK(strait_isend(world, 4, "again", 6, peer, 3, &sends[0]));
    OK(strait_mprobe(world, 4, peer, 3, &messages[0], NULL));
    OK(strait_irecv(world, 4, word, sizeof word, peer, 3, &request));
    OK(strait_test(&request, &found, NULL));
    CHECK(!found);
    OK(strait_message_free(&messages[0]));
    OK(strait_wait(&request, &status));
    CHECK(status.bytes == 6 && strcmp(word, "again") == 0);
    OK(strait_wait(&sends[0], NULL));
    release(large), release(received), release(expected);
}

/* The packets that arrived, and their order. */
struct came {
    uint32_t count;
    uint64_t bytes;
};

static void echo(void *context, strait_world where, uint32_t source, uint32_t id, const void *data, size_t bytes)
{
    struct iovec part = part_of((void *)(uintptr_t)data, bytes);
    (void)context;
    CHECK(where == world && source == peer && id == 1);
    FAILS(STRAIT_ERR_BUSY, strait_finalize(world));
    OK(strait_packet_send(world, source, 2, &part, 1, NULL));
}

static void count(void *context, strait_world where, uint32_t source, uint32_t id, const void *data, size_t bytes)
{
    struct came *came = (struct came *)context;
    CHECK(where == world && source == peer && id == 2 && bytes >= 4);
    CHECK(memcmp(data, &came->count, 4) == 0);
    came->count++;
    came->bytes += bytes;
}

static void packets(void)
{
    const uint32_t PACKETS = 100, LONGEST = 50000;
    struct came came = {0, 0};
    uint64_t sent = 0;
    char *filler = (char *)calloc(1, LONGEST);
    strait_request request;
    char byte = 0;

    OK(strait_packet_handle(world, 1, echo, NULL));
    OK(strait_packet_handle(world, 2, count, &came));
    for (uint32_t number = 0; number < PACKETS; number++) {
        struct iovec parts[2];
        parts[0] = part_of(&number, 4), parts[1] = part_of(filler, number % 10 == 9 ? LONGEST : number);
        OK(strait_packet_send(world, peer, 1, parts, 2, NULL));
        sent += 4 + parts[1].iov_len;
    }
    while (came.count < PACKETS) {
        OK(strait_progress(world));
    }
    CHECK(came.bytes == sent);

    /* Packets also arrive inside a wait: the peer's message follows the echo of this rank's
     * packet. */
    came.count = 0;
    OK(strait_barrier(world, 0));
    OK(strait_irecv(world, 0, &byte, 1, peer, 10, &request));
    if (me == 0) {
        uint32_t number = 0;
        struct iovec part = part_of(&number, 4);
        OK(strait_packet_send(world, peer, 1, &part, 1, NULL));
        while (came.count == 0) {
            OK(strait_progress(world));
        }
        OK(strait_send(world, 0, &byte, 1, peer, 10));
        OK(strait_wait(&request, NULL));
    } else {
        OK(strait_wait(&request, NULL));
        OK(strait_send(world, 0, &byte, 1, peer, 10));
    }
    OK(strait_packet_handle(world, 1, NULL, NULL));
    OK(strait_packet_handle(world, 2, NULL, NULL));
    OK(strait_barrier(world, 0));
    free(filler);
}

/* The embedder's own rendezvous: its own RTS with the cookie in it. */
static void large_messages(void)
{
    unsigned char *data = field((unsigned char)me), *buffer = field(0), *expected = field((unsigned char)peer);
    strait_cookie mine, theirs;
    strait_request send, receive;
    strait_status status;
    struct iovec parts[2];

    parts[0] = part_of(data, 1000), parts[1] = part_of(data + 1000, LARGE - 1000);
    OK(strait_lmt_pre_send(world, peer, parts, 2, &mine, &send));
    CHECK(mine.bytes == LARGE);
    FAILS(STRAIT_ERR_ARGUMENT, strait_lmt_start_recv(world, &mine, parts, 2, &receive));
    OK(strait_isend(world, 1, &mine, sizeof mine, peer, 0, &receive));
    OK(strait_wait(&receive, NULL));
    OK(strait_recv(world, 1, &theirs, sizeof theirs, peer, 0, NULL));
    parts[0] = part_of(buffer, LARGE);
    OK(strait_lmt_start_recv(world, &theirs, parts, 1, &receive));
    OK(strait_wait(&receive, &status));
    OK(strait_wait(&send, NULL));
    CHECK(status.bytes == LARGE && memcmp(buffer, expected, LARGE) == 0);
    memset(&theirs, 7, sizeof theirs);
    FAILS(STRAIT_ERR_ARGUMENT, strait_lmt_start_recv(world, &theirs, parts, 1, &receive));
    release(data), release(buffer), release(expected);
}

/* Fills the pipe from its first byte on until it accepts no more, and empties the other, in pieces of odd sizes. */
static void pipes(void)
{
    const uint64_t MOST = 64 << 20;
    unsigned char data[5000], byte = 0;
    uint64_t put = 0, theirs = 0, read = 0;
    strait_request request;
    strait_vc vc, again;

    OK(strait_rdma_init(world, (int)me));
    OK(strait_rdma_vc(world, peer, &vc));
    OK(strait_rdma_vc(world, peer, &again));
    CHECK(vc == again);
    for (int moved = 0; moved > 0 || put == 0; put += (uint64_t)moved) {
        struct iovec parts[3];
        for (size_t place = 0; place < sizeof data; place++) {
            data[place] = (unsigned char)((put + place) % 251 + me);
        }
        parts[0] = part_of(data, 777), parts[1] = part_of(NULL, 0), parts[2] = part_of(data + 777, sizeof data - 777);
        OK(strait_rdma_put_datav(vc, parts, 3, &moved));
        CHECK(moved >= 0 && (size_t)moved <= sizeof data && put < MOST);
    }
    OK(strait_isend(world, 0, &put, sizeof put, peer, 11, &request));
    OK(strait_recv(world, 0, &theirs, sizeof theirs, peer, 11, NULL));
    CHECK(theirs > 0);
    while (read < theirs) {
        int moved = -1;
        struct iovec parts[2];
        parts[0] = part_of(data, 1), parts[1] = part_of(data + 1, 4097);
        OK(strait_rdma_read_datav(vc, parts, 2, &moved));
        for (int place = 0; place < moved; place++) {
            CHECK(data[place] == (unsigned char)((read + (uint64_t)place) % 251 + peer));
        }
        read += (uint64_t)moved;
    }
    CHECK(read == theirs);
    OK(strait_wait(&request, NULL));
    /* There is room again, and no bytes are left. */
    OK(strait_barrier(world, 0));
    for (int moved = 0; moved == 0;) {
        struct iovec part = part_of(&byte, 1);
        OK(strait_rdma_put_datav(vc, &part, 1, &moved));
    }
    for (int moved = 0; moved == 0;) {
        struct iovec part = part_of(data, sizeof data);
        OK(strait_rdma_read_datav(vc, &part, 1, &moved));
        CHECK(moved <= 1);
    }
    OK(strait_barrier(world, 0));
    OK(strait_rdma_finalize());
}

static void windows(void)
{
    uint32_t members[2] = {1, 0}, place, target;
    uint64_t numbers[16], results[4], one = 1, old, mine[8];
    double third = 1.0 / 3, zero = 0;
    strait_members all;
    strait_window window;
    strait_request request;
    strait_run runs[2] = {{8, 8}, {40, 16}};
    strait_shape strided = {2, 8, 16, NULL}, any = {2, 0, 0, NULL};
    struct iovec parts[2];
    size_t bytes, unit;
    void *base;
    int kind, done = 0;

    memset(&all, 0, sizeof all);
    all.size = sizeof all, all.ranks = members, all.count = 2, all.context = 5;
    all.lock_design = STRAIT_LOCK_TEST_AND_SET;
    OK(strait_window_allocate(world, &all, sizeof numbers, 8, &window));
    OK(strait_window_place(window, &place));
    CHECK(place == 1 - me);
    target = 1 - place;
    OK(strait_window_part(window, target, NULL, &bytes, &unit));
    CHECK(bytes == sizeof numbers && unit == 8);
    OK(strait_window_part(window, place, &base, NULL, NULL));
    CHECK(base != NULL);
    OK(strait_window_atomicity(window, &kind));
    CHECK(kind == STRAIT_ATOMIC_PROCESSOR || kind == STRAIT_ATOMIC_LOCKS);

    /* Fences. */
    memset(numbers, 0, sizeof numbers);
    OK(strait_window_fence(window, STRAIT_NO_PRECEDE));
    numbers[0] = 100 + me;
    OK(strait_put(window, numbers, 8, target, 3));
    OK(strait_fetch_and_op(window, &one, &old, STRAIT_UINT64, target, 0, STRAIT_SUM));
    CHECK(old == 0);
    OK(strait_window_fence(window, 0));
    OK(strait_get(window, results, 8, place, 3));
    CHECK(results[0] == 100 + peer);
    results[0] = results[1] = 7;
    OK(strait_get_accumulate(window, results, results + 2, 2, STRAIT_INT64, target, 3, &strided, STRAIT_MAX));
    CHECK(results[2] == 100 + me && results[3] == 0);
    OK(strait_window_flush(window, target));
    OK(strait_compare_and_swap(window, results + 1, &one, &old, STRAIT_UINT64, target, 5));
    CHECK(old == 7);
    OK(strait_accumulate(window, &third, 1, STRAIT_DOUBLE, target, 6, NULL, STRAIT_REPLACE));
    OK(strait_window_fence(window, 0));
    OK(strait_fetch_and_op(window, &zero, &third, STRAIT_DOUBLE, place, 6, STRAIT_NO_OP));
    CHECK(third == 1.0 / 3);

    /* Locks: both ranks add to a number of member 0. */
    OK(strait_window_lock_design(window, &kind));
    CHECK(kind == STRAIT_LOCK_TEST_AND_SET);
    for (int round = 0; round < 50; round++) {
        OK(strait_window_lock(window, STRAIT_EXCLUSIVE, 0, 0));
        OK(strait_get(window, &old, 8, 0, 7));
        OK(strait_window_flush_local(window, 0));
        old++;
        OK(strait_put(window, &old, 8, 0, 7));
        OK(strait_window_unlock(window, 0));
    }
    OK(strait_barrier(world, 0));
    OK(strait_window_lock_all(window, 0));
    OK(strait_get(window, &old, 8, 0, 7));
    OK(strait_window_unlock_all(window));
    CHECK(old == 100);

    /* Post, start, complete, wait; shapes, and requests. */
    OK(strait_window_post(window, &target, 1, 0));
    OK(strait_window_start(window, &target, 1, 0));
    FAILS(STRAIT_ERR_WINDOW, strait_window_start(window, &target, 1, 0));
    mine[0] = 1, mine[1] = 2, mine[2] = 3;
    parts[0] = part_of(mine, 4), parts[1] = part_of((char *)mine + 4, 20);
    any.runs = runs;
    OK(strait_putv(window, parts, 2, target, 8, &any));
    OK(strait_rput(window, mine, 8, target, 8, &request));
    OK(strait_wait(&request, NULL));
    OK(strait_window_complete(window));
    while (!done) {
        OK(strait_window_test(window, &done));
    }
    memset(mine, 0, sizeof mine);
    parts[0] = part_of(mine, 24);
    OK(strait_getv(window, parts, 1, place, 8, &any));
    CHECK(mine[0] == 1 && mine[1] == 2 && mine[2] == 3);
    OK(strait_rget(window, mine, 8, place, 8, &request));
    OK(strait_wait(&request, NULL));
    CHECK(mine[0] == 1);
    OK(strait_window_post(window, &target, 1, STRAIT_NO_STORE));
    OK(strait_window_start(window, &target, 1, 0));
    OK(strait_window_complete(window));
    OK(strait_window_wait(window));
    OK(strait_window_flush_all(window));
    OK(strait_window_flush_local(window, target));
    OK(strait_window_sync(window));
    FAILS(STRAIT_ERR_BUSY, strait_finalize(world));
    OK(strait_window_free(&window));

    /* A window over the caller's memory. */
    memset(numbers, 0, sizeof numbers);
    OK(strait_window_create(world, NULL, numbers, sizeof numbers, 1, &window));
    OK(strait_window_fence(window, 0));
    OK(strait_put(window, &one, 8, peer, 8 * me));
    OK(strait_window_fence(window, 0));
    OK(strait_window_free(&window));
    CHECK(numbers[peer] == 1);
}

static void memory_and_knowledge(void)
{
    strait_info info;
    strait_counters counters;
    void *base;
    uint32_t ranks, nodes, node;

    memset(&info, 0xff, sizeof info);
    info.size = sizeof info;
    OK(strait_get_info(world, &info));
    CHECK(info.size == sizeof info && info.rank == me && info.ranks == 2 && info.eager_max > 0 && info.stream_max > 0);
    OK(strait_size(world, &ranks));
    OK(strait_nodes(world, &nodes));
    OK(strait_node_of(world, me, &node));
    CHECK(ranks == 2 && nodes == info.nodes && node == info.node);
    /* A program with an older header. */
    info.nodes = 77;
    info.size = offsetof(strait_info, nodes);
    OK(strait_get_info(world, &info));
    CHECK(info.nodes == 77);
    counters.size = sizeof counters;
    OK(strait_get_counters(world, &counters));
    CHECK(counters.unexpected_peak >= counters.unexpected_bytes);

    OK(strait_memory_allocate(world, 1 << 20, &base));
    memset(base, 1, 1 << 20);
    OK(strait_invalidate(world, base, 1 << 20));
    OK(strait_memory_free(world, base));
    FAILS(STRAIT_ERR_ARGUMENT, strait_memory_free(world, base));
}

/* Memory that was unmapped, and the number of times that the library asked for it. */
struct unmapped {
    void *base;
    size_t bytes;
    unsigned asked;
};

static int watch(void *context, void **base, size_t *bytes)
{
    struct unmapped *unmapped = (struct unmapped *)context;
    unmapped->asked++;
    *base = unmapped->base, *bytes = unmapped->bytes;
    unmapped->bytes = 0;
    return *bytes > 0;
}

/* Memory that the embedder reports as unmapped is no longer registered. */
static void registrations(struct unmapped *unmapped)
{
    unsigned char *data = field((unsigned char)me), *buffer = field(0), *expected = field((unsigned char)peer);
    strait_counters before, after;
    strait_request request;
    uint32_t nodes;

    OK(strait_nodes(world, &nodes));
    before.size = sizeof before, after.size = sizeof after;
    unmapped->asked = 0;
    for (int round = 0; round < 2; round++) {
        OK(strait_get_counters(world, &before));
        OK(strait_isend(world, 0, data, LARGE, peer, 12, &request));
        OK(strait_recv(world, 0, buffer, LARGE, peer, 12, NULL));
        OK(strait_wait(&request, NULL));
        CHECK(memcmp(buffer, expected, LARGE) == 0);
        OK(strait_get_counters(world, &after));
        CHECK(round == 0 || (after.registration_invalidations > before.registration_invalidations) == (nodes > 1));
        unmapped->base = buffer, unmapped->bytes = LARGE;
    }
    CHECK((unmapped->asked > 0) == (nodes > 1));
    unmapped->bytes = 0;
    release(data), release(buffer), release(expected);
}

int main(void)
{
    struct unmapped unmapped = {NULL, 0, 0};
    strait_options options;
    strait_world second;

    memset(&options, 0, sizeof options);
    options.size = sizeof options, options.watch_memory = watch, options.watch_context = &unmapped;
    OK(strait_init(STRAIT_ABI, &options, &world));
    FAILS(STRAIT_ERR_BOOT, strait_init(STRAIT_ABI, NULL, &second));
    OK(strait_rank(world, &me));
    peer = 1 - me;
    messages();
    synchronous_messages();
    several();
    matched();
    packets();
    large_messages();
    pipes();
    windows();
    memory_and_knowledge();
    registrations(&unmapped);
    OK(strait_barrier(world, 0));
    OK(strait_finalize(world));
    return 0;
}
