/* The five functions of the RDMA channel, in a job of two, with every design of its rings
 * (STRAIT_RING) and several lengths of copied parts (STRAIT_RING_COPY_MAX). With ENDS in the
 * environment, rank 1 ends in the middle. */
#include <sched.h>
#include <unistd.h>

#include "check.h"

enum { LONG = 1 << 20, TOTAL = 5 << 20 };

static strait_world world;
static uint32_t me, peer;
static strait_vc vc;
static unsigned char *out, *in;

/* Whether long parts move between the users' buffers. */
static int moves_long_parts(void)
{
    const char *design = getenv("STRAIT_RING"), *copied = getenv("STRAIT_RING_COPY_MAX");
    int is_long = copied == NULL || strtol(copied, NULL, 10) < LONG;
    return is_long && (design == NULL || strcmp(design, "zero_copy") == 0 || strcmp(design, "rendezvous_write") == 0);
}

static unsigned char byte_of(uint64_t position, uint32_t from)
{
    return (unsigned char)(position * 31 % 253 + position / 4099 + from);
}

/* The length of the next part, at `position`: from 1 byte to 1 MiB. */
static size_t next_length(uint64_t position)
{
    static unsigned count;
    static const size_t LENGTHS[] = {1, 700, 16384, 65536, 3, 200001, LONG, 40000, 16441, 48};
    size_t length = LENGTHS[count++ % 10];
    return position + length > TOTAL ? TOTAL - (size_t)position : length;
}

/* Lists up to three parts of the memory at `base`, from `position` on. */
static int list(struct iovec parts[4], unsigned char *base, uint64_t position)
{
    int count = 0;
    parts[count++] = part_of(NULL, 0);
    while (count < 4 && position < TOTAL) {
        size_t length = next_length(position);
        parts[count++] = part_of(base + position, length);
        position += length;
    }
    return count;
}

/* Removes bytes from the front of a list. Returns the number of parts that are left. */
static int advance(struct iovec *parts, int count, size_t bytes)
{
    int done = 0;
    while (done < count && bytes >= parts[done].iov_len) {
        bytes -= parts[done++].iov_len;
    }
    memmove(parts, parts + done, sizeof *parts * (size_t)(count - done));
    if (done < count) {
        parts[0].iov_base = (char *)parts[0].iov_base + bytes;
        parts[0].iov_len -= bytes;
    }
    return count - done;
}

/* A stream in each direction at the same time. Both ends cut it at other places. */
static void both_ways(void)
{
    struct iovec puts[4], reads[4];
    int to_put = 0, to_read = 0, moved;
    uint64_t put = 0, read = 0;
    memset(in, 0, TOTAL);
    while (put < TOTAL || read < TOTAL) {
        if (to_put == 0 && put < TOTAL) {
            to_put = list(puts, out, put);
        }
        OK(strait_rdma_put_datav(vc, puts, to_put, &moved));
        to_put = advance(puts, to_put, (size_t)moved);
        put += (uint64_t)moved;
        if (to_read == 0 && read < TOTAL) {
            size_t half = (TOTAL - (size_t)read + 1) / 2;
            reads[0] = part_of(in + read, half < 77777 ? half : 77777);
            reads[1] = part_of(in + read + reads[0].iov_len, TOTAL - (size_t)read - reads[0].iov_len);
            to_read = 2;
        }
        OK(strait_rdma_read_datav(vc, reads, to_read, &moved));
        to_read = advance(reads, to_read, (size_t)moved);
        read += (uint64_t)moved;
        if (moved == 0) {
            sched_yield(); /* the peer may need the processor */
        }
    }
    for (uint64_t place = 0; place < TOTAL; place++) {
        CHECK(in[place] == byte_of(place, peer));
    }
    OK(strait_rdma_read_datav(vc, reads, 0, &moved));
    CHECK(moved == 0);
    OK(strait_barrier(world, 0));
}

/* Puts a long part before its reader comes. A design that copies takes what the ring holds. The
 * others take nothing, and a call with another buffer is refused. */
static void a_long_part(void)
{
    struct iovec part = part_of(out, LONG), other = part_of(out + 8, LONG), shorter = part_of(out, LONG - 1);
    size_t left = LONG;
    int moved = 0;
    char byte = 0;
    memset(in, 0, LONG);
    if (me == 0) {
        for (int times = 0; times < 1000; times++) {
            OK(strait_rdma_put_datav(vc, &part, 1, &moved));
            CHECK(moved >= 0 && (size_t)moved < left);
            CHECK(moved == 0 || !moves_long_parts());
            left -= (size_t)moved;
            part = part_of(out + LONG - left, left);
        }
        CHECK(moves_long_parts() == (left == LONG));
        if (moves_long_parts()) {
            FAILS(STRAIT_ERR_ARGUMENT, strait_rdma_put_datav(vc, &other, 1, &moved));
            CHECK(moved == 0 && strstr(strait_error_message(), "same buffer") != NULL);
            FAILS(STRAIT_ERR_ARGUMENT, strait_rdma_put_datav(vc, &shorter, 1, &moved));
        }
        OK(strait_send(world, 0, &byte, 1, peer, 1));
        while (left > 0) {
            OK(strait_rdma_put_datav(vc, &part, 1, &moved));
            left -= (size_t)moved;
            part = part_of(out + LONG - left, left);
        }
    } else {
        OK(strait_recv(world, 0, &byte, 1, peer, 1, NULL));
        for (size_t read = 0; read < LONG; read += (size_t)moved) {
            part = part_of(in + read, LONG - read);
            OK(strait_rdma_read_datav(vc, &part, 1, &moved));
        }
        for (uint64_t place = 0; place < LONG; place++) {
            CHECK(in[place] == byte_of(place, peer));
        }
    }
    OK(strait_barrier(world, 0));
}

/* The pipe from a rank to itself, while the device takes only what this rank reads. */
static void to_itself(void)
{
    const char *device = getenv("STRAIT_HCA");
    strait_vc self;
    size_t put = 0, read = 0;
    int moved;
    if (device != NULL && strcmp(device, "soft-iwarp") == 0) {
        return;
    }
    OK(strait_rdma_vc(world, me, &self));
    CHECK(self != vc);
    memset(in, 0, LONG);
    while (put < LONG || read < LONG) {
        struct iovec part = part_of(out + put, LONG - put);
        OK(strait_rdma_put_datav(self, &part, 1, &moved));
        put += (size_t)moved;
        part = part_of(in + read, LONG - read);
        OK(strait_rdma_read_datav(self, &part, 1, &moved));
        read += (size_t)moved;
    }
    CHECK(put == LONG && memcmp(in, out, LONG) == 0);
}

static void misuse(void)
{
    struct iovec none = part_of(NULL, 8), two[2];
    int moved = 7;
    strait_vc other;
    FAILS(STRAIT_ERR_BUSY, strait_rdma_init(world, (int)me));
    FAILS(STRAIT_ERR_RANK, strait_rdma_vc(world, 2, &other));
    FAILS(STRAIT_ERR_ARGUMENT, strait_rdma_put_datav(vc, &none, 1, &moved));
    CHECK(moved == 0);
    FAILS(STRAIT_ERR_ARGUMENT, strait_rdma_read_datav(vc, &none, -1, &moved));
    FAILS(STRAIT_ERR_ARGUMENT, strait_rdma_put_datav(vc, NULL, 1, &moved));
    FAILS(STRAIT_ERR_ARGUMENT, strait_rdma_read_datav(vc, &none, 1, NULL));
    two[0] = two[1] = part_of(out, (size_t)1 << 30);
    FAILS(STRAIT_ERR_ARGUMENT, strait_rdma_put_datav(vc, two, 2, &moved));
    FAILS(STRAIT_ERR_HANDLE, strait_rdma_put_datav((strait_vc)world, two, 1, &moved));
}

static void open_channel(void)
{
    OK(strait_rdma_init(world, (int)me));
    OK(strait_rdma_vc(world, peer, &vc));
}

/* A channel that is closed in the middle of a long part, and opened again, begins anew. */
static void again(void)
{
    struct iovec part = part_of(out, LONG);
    strait_vc old = vc;
    int moved = 0;
    if (me == 0 && moves_long_parts()) {
        OK(strait_rdma_put_datav(vc, &part, 1, &moved));
        CHECK(moved == 0);
    }
    OK(strait_barrier(world, 0));
    OK(strait_rdma_finalize());
    memset(out, 255, LONG);
    FAILS(STRAIT_ERR_HANDLE, strait_rdma_put_datav(old, &part, 1, &moved));
    for (uint64_t place = 0; place < TOTAL; place++) {
        out[place] = byte_of(place, me);
    }
    open_channel();
    both_ways();
}

/* Rank 1 puts some bytes and ends. Rank 0 gets them, and then learns of the death. */
static void death(void)
{
    enum { LAST = 12345 };
    struct iovec part = part_of(out, LAST);
    int moved, code = STRAIT_OK;
    size_t done = 0;
    both_ways();
    while (me == 1 && done < LAST) {
        OK(strait_rdma_put_datav(vc, &part, 1, &moved));
        done += (size_t)moved;
        part = part_of(out + done, LAST - done);
    }
    if (me == 1) {
        part = part_of(out, LONG);
        OK(strait_rdma_put_datav(vc, &part, 1, &moved));
        _exit(0);
    }
    memset(in, 0, LONG + LAST);
    while (code == STRAIT_OK) {
        part = part_of(in + done, LONG + LAST - done);
        code = strait_rdma_read_datav(vc, &part, 1, &moved);
        done += (size_t)moved;
    }
    CHECK(code == STRAIT_ERR_PEER_FAILED && done >= LAST && moved == 0);
    for (uint64_t place = 0; place < LAST; place++) {
        CHECK(in[place] == byte_of(place, peer));
    }
    part = part_of(out, LONG);
    do {
        code = strait_rdma_put_datav(vc, &part, 1, &moved);
    } while (code == STRAIT_OK);
    CHECK(code == STRAIT_ERR_PEER_FAILED && strait_error_peer() == 1);
    part = part_of(in + done, LONG + LAST - done);
    FAILS(STRAIT_ERR_PEER_FAILED, strait_rdma_read_datav(vc, &part, 1, &moved));
    OK(strait_rdma_finalize());
}

int main(void)
{
    OK(strait_init(STRAIT_ABI, NULL, &world));
    OK(strait_rank(world, &me));
    peer = 1 - me;
    out = (unsigned char *)calloc(TOTAL, 1), in = (unsigned char *)calloc(TOTAL, 1);
    if (out == NULL || in == NULL) {
        return 1;
    }
    for (uint64_t place = 0; place < TOTAL; place++) {
        out[place] = byte_of(place, me);
    }
    open_channel();
    if (getenv("ENDS") != NULL) {
        death();
    } else {
        both_ways();
        a_long_part();
        to_itself();
        misuse();
        again();
        OK(strait_barrier(world, 0));
        OK(strait_rdma_finalize());
    }
    OK(strait_finalize(world));
    free(out), free(in);
    return 0;
}
