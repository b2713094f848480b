// Random collective operations: each is carried out twice, by the front and by the host, and both
// must give the same. Types have gaps, an order of their own and negative bounds. The arguments are
// a seed and the number of operations.
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <stdint.h>

enum { TURNS = 1500, ROOM = 1 << 20, TYPES = 8, COMMS = 5, MOST = 16 };

static uint64_t state;
static int turn, kind;

// All ranks draw the same numbers.
static int below(int limit) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (int)(state % (uint64_t)limit);
}

static MPI_Datatype types[TYPES];
static MPI_Comm comms[COMMS];

// The product of matrices, which does not commute.
static void multiply(void *left, void *right, int *length, MPI_Datatype *type) {
    unsigned *a = left, *b = right;
    (void)type;
    for (int i = 0; i < *length; i++, a += 4, b += 4) {
        unsigned c[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
                         a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
        memcpy(b, c, sizeof c);
    }
}

static void make_types(void) {
    MPI_Aint offsets[2] = {8, -4};
    int lengths[2] = {1, 2}, ints[2] = {5, 1};
    MPI_Datatype parts[2] = {MPI_DOUBLE, MPI_SHORT}, raw;
    types[0] = MPI_INT, types[1] = MPI_BYTE, types[2] = MPI_DOUBLE;
    MPI_Type_vector(2, 1, 3, MPI_INT, &types[3]);
    MPI_Type_indexed(2, lengths, ints, MPI_SHORT, &types[4]);
    MPI_Type_create_struct(2, lengths, offsets, parts, &raw);
    MPI_Type_create_resized(raw, -8, 32, &types[5]);
    MPI_Type_free(&raw);
    MPI_Type_contiguous(3, MPI_LONG_LONG, &types[6]);
    types[7] = MPI_DOUBLE_INT;
    // Intel MPI gathers types with a negative bound into memory that is too short.
    if (is_host("Intel"))
        MPI_Type_free(&types[5]), MPI_Type_contiguous(2, types[3], &types[5]);
    for (int i = 3; i < 7; i++)
        MPI_Type_commit(&types[i]);
}

static void make_comms(void) {
    comms[0] = MPI_COMM_WORLD, comms[1] = MPI_COMM_SELF;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[3]);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comms[4]);
}

// Memory of the calls: what is sent, and what both ways receive. Elements begin in the middle.
static unsigned char *sent, *ours, *hosts, *before;

static void *at(unsigned char *memory) { return memory + ROOM / 2; }

// Compares the bytes of elements at an offset. Ours must leave the gaps as they were.
static void compare(int offset, int count, MPI_Datatype type) {
    int size, a = 0, b = 0, c = 0;
    MPI_Pack_size(count, type, MPI_COMM_SELF, &size);
    char *one = malloc(size + 1), *two = malloc(size + 1);
    MPI_Pack((char *)at(ours) + offset, count, type, one, size, &a, MPI_COMM_SELF);
    MPI_Pack((char *)at(hosts) + offset, count, type, two, size, &b, MPI_COMM_SELF);
    if (a != b || memcmp(one, two, a) != 0)
        fprintf(stderr, "turn %d, kind %d, %d elements\n", turn, kind, count);
    CHECK(a == b && memcmp(one, two, a) == 0);
    MPI_Unpack(one, a, &c, (char *)at(before) + offset, count, type, MPI_COMM_SELF);
    free(one), free(two);
}

typedef struct {
    int kind, members, place, root, count, in_place;
    MPI_Comm comm;
    MPI_Datatype type, other;
    MPI_Op op;
    int counts[MOST], offsets[MOST], own_counts[MOST], own_offsets[MOST], bytes[MOST];
    MPI_Datatype all_types[MOST];
} Call;

// The front takes calls of both names, but finds no function of the profiling name by `dlsym`.
#define F(name) (by_host ? (__typeof__(&name))dlsym(RTLD_DEFAULT, "P" #name) : name)

// MPICH 4.0 fails in three operations, also without the front. The host then does the same by
// another call.
//
// - `MPI_Allgatherv` of one process puts its block at the beginning, wherever it belongs.
// - `MPI_Alltoall` in place truncates long messages of types with gaps.
// - `MPI_Reduce` in place reads from the address `MPI_IN_PLACE` if the root is not the first.
//
// Over UCX it also truncates in `MPI_Scatter`, unless `UCX_RNDV_THRESH` is `inf`.
static int is_mpich_4_0(void) { return is_host("MPICH Version:\t4.0"); }

static void run(const Call *c, unsigned char *memory, int by_host) {
    void *out = c->in_place ? MPI_IN_PLACE : at(sent), *in = at(memory);
    int at_root = c->place == c->root, n = c->count;
    // Only the root of an operation by root is in place.
    void *by_root = c->in_place && at_root ? MPI_IN_PLACE : at(sent);
    void *to_one = c->in_place && at_root ? MPI_IN_PLACE : in;
    MPI_Datatype t = c->type;
    MPI_Comm comm = c->comm;
    int place = c->place, which = c->kind;
    if (by_host && is_mpich_4_0()) {
        // What these two have in place is also in the memory that is sent.
        if (which == 8 || which == 11)
            out = by_root = at(sent);
        if (which == 7 && c->members == 1)
            which = 3;
    }
    switch (which) {
    case 0: F(MPI_Barrier)(comm); break;
    case 1: F(MPI_Bcast)(in, n, t, c->root, comm); break;
    case 2: F(MPI_Gather)(by_root, n, t, in, n, t, c->root, comm); break;
    case 3: F(MPI_Gatherv)(by_root, c->counts[place], t, in, c->counts, c->offsets, t, c->root, comm); break;
    case 4: F(MPI_Scatter)(at(sent), n, t, to_one, n, t, c->root, comm); break;
    case 5: F(MPI_Scatterv)(at(sent), c->counts, c->offsets, t, to_one, c->counts[place], t, c->root, comm); break;
    case 6: F(MPI_Allgather)(out, n, t, in, n, t, comm); break;
    case 7: F(MPI_Allgatherv)(out, c->counts[place], t, in, c->counts, c->offsets, t, comm); break;
    case 8: F(MPI_Alltoall)(out, n, t, in, n, t, comm); break;
    case 9: F(MPI_Alltoallv)(at(sent), c->own_counts, c->own_offsets, t, in, c->own_counts, c->own_offsets, t, comm); break;
    case 10: F(MPI_Alltoallw)(at(sent), c->own_counts, c->bytes, c->all_types, in, c->own_counts, c->bytes, c->all_types, comm); break;
    case 11: F(MPI_Reduce)(by_root, in, n, t, c->op, c->root, comm); break;
    case 12: F(MPI_Allreduce)(out, in, n, t, c->op, comm); break;
    case 13: F(MPI_Scan)(out, in, n, t, c->op, comm); break;
    case 14: F(MPI_Exscan)(out, in, n, t, c->op, comm); break;
    case 15: F(MPI_Reduce_scatter_block)(out, in, n, t, c->op, comm); break;
    case 16: F(MPI_Reduce_scatter)(out, in, c->counts, t, c->op, comm); break;
    }
}

enum { KINDS = 17, FIRST_REDUCTION = 11 };

static void draw(Call *c, MPI_Op product, MPI_Datatype matrix) {
    kind = c->kind = below(KINDS);
    c->comm = comms[below(COMMS)];
    MPI_Comm_size(c->comm, &c->members), MPI_Comm_rank(c->comm, &c->place);
    int few = below(40), many = below(1500), is_few = below(4);
    c->type = types[below(TYPES)], c->count = is_few ? few : many;
    // Groups of a split may have other sizes, so all draw for the largest.
    c->root = below(720720) % c->members;
    c->in_place = below(3) == 0;
    MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_BXOR, MPI_PROD};
    c->op = ops[below(4)];
    if (c->kind >= FIRST_REDUCTION) {
        int which = below(4);
        if (which == 0)
            c->type = matrix, c->op = product;
        else if (which == 1)
            c->type = MPI_DOUBLE_INT, c->op = below(2) ? MPI_MINLOC : MPI_MAXLOC;
        else if (which == 2)
            c->type = MPI_DOUBLE, c->op = below(2) ? MPI_SUM : MPI_MAX;
        else
            c->type = MPI_UNSIGNED;
        // Some hosts' sums of short integers stop at their limits.
        if (which == 3 && (c->op == MPI_MAX || c->op == MPI_BXOR))
            c->type = MPI_INT8_T;
        c->in_place &= c->kind != 16 || c->members > 1;
    }
    int end = 0;
    for (int i = 0; i < MOST; i++) {
        int filled = below(3), length = below(30), n = filled ? length : 0, gap = below(5);
        gap = c->kind == 16 ? 0 : gap;
        c->counts[i] = n, c->offsets[i] = end + gap, end += n + gap;
        // What two processes exchange has one length, and the distance is the same for both.
        c->own_counts[i] = 7, c->own_offsets[i] = i * 9;
    }
    MPI_Aint lower, extent;
    for (int i = 0; i < c->members; i++) {
        c->all_types[i] = types[(c->place + i) % TYPES];
        MPI_Type_get_extent(c->all_types[i], &lower, &extent);
        c->bytes[i] = i * 7 * 40;
    }
}

// Fills memory with small numbers, so that sums of floating point numbers are exact.
static void prepare(const Call *c) {
    for (size_t i = 0; i < ROOM; i++)
        sent[i] = (unsigned char)(i * 7 + turn + rank * 31 + i / 251);
    if (c->kind >= FIRST_REDUCTION && (c->type == MPI_DOUBLE || c->type == MPI_DOUBLE_INT))
        for (size_t i = 0; i < ROOM / 16; i++) {
            double number = (double)((i * 5 + turn + rank * 3) % 17);
            int where = rank;
            if (c->type == MPI_DOUBLE) {
                memcpy(sent + 16 * i, &number, 8), memcpy(sent + 16 * i + 8, &number, 8);
            } else {
                memcpy(sent + 16 * i, &number, 8), memcpy(sent + 16 * i + 8, &where, 4);
            }
        }
    memcpy(ours, sent, ROOM);
    if (!c->in_place && c->kind != 1)
        memset(ours, 0x5a, ROOM);
    memcpy(hosts, ours, ROOM), memcpy(before, ours, ROOM);
}

static void judge(const Call *c) {
    int n = c->count, at_root = c->place == c->root;
    MPI_Aint lower, extent;
    MPI_Type_get_extent(c->type, &lower, &extent);
    switch (c->kind) {
    case 0: break;
    case 2: if (at_root) compare(0, n * c->members, c->type); break;
    case 6: case 8: compare(0, n * c->members, c->type); break;
    case 3: if (!at_root) break; // fall through
    case 7:
        for (int i = 0; i < c->members; i++)
            compare(c->offsets[i] * extent, c->counts[i], c->type);
        break;
    case 4: if (!(c->in_place && at_root)) compare(0, n, c->type); break;
    case 5: if (!(c->in_place && at_root)) compare(0, c->counts[c->place], c->type); break;
    case 9:
        for (int i = 0; i < c->members; i++)
            compare(c->own_offsets[i] * extent, c->own_counts[i], c->type);
        break;
    case 10:
        for (int i = 0; i < c->members; i++)
            compare(c->bytes[i], c->own_counts[i], c->all_types[i]);
        break;
    case 11: if (at_root) compare(0, n, c->type); break;
    case 14: if (c->place > 0) compare(0, n, c->type); break;
    case 16: compare(0, c->counts[c->place], c->type); break;
    default: compare(0, n, c->type);
    }
    // In a reduction, what is not the result may have any content where it was the data.
    if (c->kind < FIRST_REDUCTION || (!c->in_place && c->type != MPI_DOUBLE_INT))
        CHECK(memcmp(ours, before, ROOM) == 0);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    sent = malloc(ROOM), ours = malloc(ROOM), hosts = malloc(ROOM), before = malloc(ROOM);
    make_types(), make_comms();
    MPI_Op product;
    MPI_Datatype matrix;
    MPI_Op_create(multiply, 0, &product);
    MPI_Type_contiguous(4, MPI_UNSIGNED, &matrix), MPI_Type_commit(&matrix);
    state = argc > 1 ? (uint64_t)atoll(argv[1]) * 2 + 1 : 88172645463325252u;
    int turns = argc > 2 ? atoi(argv[2]) : TURNS;
    for (turn = 0; turn < turns; turn++) {
        Call c;
        draw(&c, product, matrix);
        prepare(&c);
        run(&c, ours, 0), run(&c, hosts, 1);
        judge(&c);
    }
    for (int i = 2; i < COMMS; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Op_free(&product), MPI_Type_free(&matrix);
    return end();
}
