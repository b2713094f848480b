// Exchanges with neighbours: every topology, every function, neighbours that occur several times,
// this process itself, and no process. The results are computed here: hosts differ where a
// dimension has one or two processes. Before each call a large message is open that the next rank
// receives before it makes the call.
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>

enum { MOST = 16, ROOM = 1 << 16, BIG = 200000, FUNCTIONS = 5, PAIRS = 3 };

static MPI_Comm comm;
static int me, members, in, out, is_grid;
static int from[MOST], to[MOST];
// The destinations of all processes, and their numbers.
static int all_to[MOST][MOST], all_out[MOST];
// Types of one signature for the sender and the receiver: elements of 1, 2 and 2000 numbers.
static MPI_Datatype sent_type[PAIRS], received_type[PAIRS];
static const int numbers[PAIRS] = {1, 2, 2000};
static int *sent, *received, *expected;

static void make_types(void) {
    MPI_Datatype two;
    sent_type[0] = received_type[0] = MPI_INT;
    MPI_Type_vector(2, 1, 3, MPI_INT, &sent_type[1]);
    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_create_resized(two, 0, 20, &received_type[1]);
    MPI_Type_free(&two);
    MPI_Type_contiguous(2000, MPI_INT, &sent_type[2]);
    MPI_Type_vector(2, 1000, 1010, MPI_INT, &received_type[2]);
    for (int i = 1; i < PAIRS; i++)
        MPI_Type_commit(&sent_type[i]), MPI_Type_commit(&received_type[i]);
}

static int value(int rank, int block, int index) { return rank * 1000003 + block * 10007 + index * 13; }

// Finds the block of which process arrives in the block of this one.
static void origin(int block, int *rank, int *its) {
    *rank = from[block], *its = -1;
    if (*rank == MPI_PROC_NULL)
        return;
    if (is_grid) {
        *its = block ^ 1;
        return;
    }
    int before = 0;
    for (int i = 0; i < block; i++)
        before += from[i] == *rank;
    for (int i = 0; i < all_out[*rank]; i++)
        if (all_to[*rank][i] == me && before-- == 0)
            *its = i;
    CHECK(*its >= 0);
}

// Writes elements of a type: numbers in the order of its type map.
static void put(int *at, int count, MPI_Datatype type, int kind, int rank, int block) {
    int total = count * numbers[kind], position = 0;
    int *row = malloc((total + 1) * sizeof *row);
    for (int i = 0; i < total; i++)
        row[i] = value(rank, block, i);
    MPI_Unpack(row, total * 4, &position, at, count, type, MPI_COMM_SELF);
    free(row);
}

static int extent_of(MPI_Datatype type) {
    MPI_Aint lower, extent;
    MPI_Type_get_extent(type, &lower, &extent);
    return (int)extent;
}

// Elements of the block of a process, where functions let blocks differ.
static int length(int rank, int block, int kind) { return kind == 2 ? (rank + block) % 2 : (rank + 2 * block) % 4; }

// Functions with large counts, which not every host has.
#define LARGE(name) (large ? dlsym(RTLD_DEFAULT, #name "_c") : NULL)
#define A const void *
#define D MPI_Datatype

static void call(int function, int kind, int large) {
    int counts[MOST], offsets[MOST], rooms[MOST], places[MOST];
    MPI_Count c_counts[MOST], c_rooms[MOST];
    MPI_Aint a_offsets[MOST], a_places[MOST];
    D types[MOST], room_types[MOST], s = sent_type[kind], r = received_type[kind];
    int gap = 3, end = 0, same = kind == 2 ? 1 : 3;
    for (int i = 0; i < ROOM; i++)
        sent[i] = -1, received[i] = expected[i] = -2;
    int is_allgather = function < 2, is_equal = function == 0 || function == 2, is_typed = function == 4;
    for (int i = 0; i < out; i++) {
        int k = is_typed ? (me + i) % PAIRS : kind, n = is_equal ? same : length(me, i, k);
        types[i] = sent_type[k], c_counts[i] = counts[i] = n;
        int extent = extent_of(types[i]), bytes = is_typed ? 1 : extent;
        a_offsets[i] = offsets[i] = is_equal ? i * same : end / bytes;
        if (!is_allgather)
            put(sent + (is_equal ? i * same * extent / 4 : end / 4), n, types[i], k, me, i);
        end += is_equal ? 0 : (n + gap) * extent;
    }
    if (is_allgather)
        put(sent, same, s, kind, me, 0);
    end = 0;
    for (int i = 0; i < in; i++) {
        int rank, its;
        origin(i, &rank, &its);
        int k = is_typed && rank != MPI_PROC_NULL ? (rank + its) % PAIRS : kind;
        int n = is_equal || is_allgather ? same : rank == MPI_PROC_NULL ? 2 : length(rank, its, k);
        room_types[i] = received_type[k], c_rooms[i] = rooms[i] = n;
        int extent = extent_of(room_types[i]), bytes = is_typed ? 1 : extent;
        a_places[i] = places[i] = is_equal ? i * same : end / bytes;
        if (rank != MPI_PROC_NULL)
            put(expected + (is_equal ? i * same * extent / 4 : end / 4), n, room_types[i], k, rank, is_allgather ? 0 : its);
        end += is_equal ? 0 : (n + gap) * extent;
    }
    int code = -1;
    void *f;
    switch (function) {
    case 0:
        f = LARGE(MPI_Neighbor_allgather);
        code = f ? ((int (*)(A, MPI_Count, D, void *, MPI_Count, D, MPI_Comm))f)(sent, same, s, received, same, r, comm)
                 : MPI_Neighbor_allgather(sent, same, s, received, same, r, comm);
        break;
    case 1:
        f = LARGE(MPI_Neighbor_allgatherv);
        code = f ? ((int (*)(A, MPI_Count, D, void *, const MPI_Count *, const MPI_Aint *, D, MPI_Comm))f)(sent, same, s, received, c_rooms, a_places, r, comm)
                 : MPI_Neighbor_allgatherv(sent, same, s, received, rooms, places, r, comm);
        break;
    case 2:
        f = LARGE(MPI_Neighbor_alltoall);
        code = f ? ((int (*)(A, MPI_Count, D, void *, MPI_Count, D, MPI_Comm))f)(sent, same, s, received, same, r, comm)
                 : MPI_Neighbor_alltoall(sent, same, s, received, same, r, comm);
        break;
    case 3:
        f = LARGE(MPI_Neighbor_alltoallv);
        code = f ? ((int (*)(A, const MPI_Count *, const MPI_Aint *, D, void *, const MPI_Count *, const MPI_Aint *, D, MPI_Comm))f)(
                       sent, c_counts, a_offsets, s, received, c_rooms, a_places, r, comm)
                 : MPI_Neighbor_alltoallv(sent, counts, offsets, s, received, rooms, places, r, comm);
        break;
    case 4:
        f = LARGE(MPI_Neighbor_alltoallw);
        code = f ? ((int (*)(A, const MPI_Count *, const MPI_Aint *, const D *, void *, const MPI_Count *, const MPI_Aint *, const D *, MPI_Comm))f)(
                       sent, c_counts, a_offsets, types, received, c_rooms, a_places, room_types, comm)
                 : MPI_Neighbor_alltoallw(sent, counts, a_offsets, types, received, rooms, a_places, room_types, comm);
        break;
    }
    CHECK(code == MPI_SUCCESS);
    for (int i = 0; i < ROOM; i++) {
        if (received[i] != expected[i])
            fprintf(stderr, "function %d, kind %d, large %d, number %d: %d, not %d\n", function, kind, large, i, received[i], expected[i]);
        CHECK(received[i] == expected[i]);
    }
}

// Tries a topology, and frees it.
static void use(MPI_Comm made) {
    comm = made;
    if (comm == MPI_COMM_NULL)
        return;
    int kind, own[MOST + 1] = {0}, all[MOST * (MOST + 1)];
    static char message[BIG], room[BIG];
    MPI_Comm_rank(comm, &me), MPI_Comm_size(comm, &members);
    MPI_Topo_test(comm, &kind);
    is_grid = kind == MPI_CART;
    if (kind == MPI_CART) {
        MPI_Cartdim_get(comm, &in), in *= 2, out = in;
        for (int i = 0; i < in; i += 2)
            MPI_Cart_shift(comm, i / 2, 1, &from[i], &from[i + 1]), to[i] = from[i], to[i + 1] = from[i + 1];
    } else if (kind == MPI_GRAPH) {
        MPI_Graph_neighbors_count(comm, me, &in), out = in;
        MPI_Graph_neighbors(comm, me, in, from), memcpy(to, from, sizeof to);
    } else {
        int weighted, weights[MOST], others[MOST];
        MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
        MPI_Dist_graph_neighbors(comm, in, from, weights, out, to, others);
    }
    own[0] = out, memcpy(own + 1, to, out * sizeof *to);
    MPI_Allgather(own, MOST + 1, MPI_INT, all, MOST + 1, MPI_INT, comm);
    for (int i = 0; i < members; i++)
        all_out[i] = all[i * (MOST + 1)], memcpy(all_to[i], all + i * (MOST + 1) + 1, sizeof *all_to);
    for (int turn = 0; turn < FUNCTIONS * PAIRS * 2; turn++) {
        MPI_Request request = MPI_REQUEST_NULL;
        int sender = turn % members, receiver = (sender + 1) % members;
        if (me == sender)
            fill(message, BIG, turn), MPI_Isend(message, BIG, MPI_BYTE, receiver, 9, comm, &request);
        if (me == receiver && receiver != sender)
            MPI_Recv(room, BIG, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
        call(turn % FUNCTIONS, turn / FUNCTIONS % PAIRS, turn / FUNCTIONS / PAIRS);
        if (me == receiver && receiver == sender)
            MPI_Recv(room, BIG, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
        if (me == receiver)
            CHECK(is_filled(room, BIG, turn));
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&comm);
}

static void grid(int count, int a, int b, int c, int periodic) {
    int dims[3] = {a, b, c}, periods[3] = {periodic & 1, periodic >> 1 & 1, periodic >> 2 & 1};
    MPI_Comm made, again;
    MPI_Cart_create(MPI_COMM_WORLD, count, dims, periods, 0, &made);
    if (made == MPI_COMM_NULL)
        return;
    // A duplicate has the same topology.
    MPI_Comm_dup(made, &again);
    use(made), use(again);
}

static void graphs(void) {
    MPI_Comm made;
    int index[MOST], edges[MOST * 4], left = (rank + size - 1) % size, right = (rank + 1) % size;
    // Each process has both neighbours of a ring, and itself.
    for (int i = 0; i < size; i++) {
        index[i] = 3 * (i + 1);
        edges[3 * i] = (i + 1) % size, edges[3 * i + 1] = i, edges[3 * i + 2] = (i + size - 1) % size;
    }
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &made), use(made);
    // Two edges to the right, one to itself and one to the left. Sources are in another order.
    int sources[4] = {right, left, rank, left}, destinations[4] = {right, rank, right, left};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 4, sources, MPI_UNWEIGHTED, 4, destinations, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made), use(made);
    int weights[4] = {3, 1, 4, 1};
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 4, sources, weights, 4, destinations, weights, MPI_INFO_NULL, 0, &made), use(made);
    // Rank 0 tells all edges of a star: others only send, or only receive.
    int centre[2] = {0, 1}, degrees[2] = {size, 1}, ends[MOST];
    for (int i = 0; i < size; i++)
        ends[i] = size - 1 - i;
    ends[size] = 0;
    MPI_Dist_graph_create(MPI_COMM_WORLD, rank == 0 ? 2 : 0, centre, degrees, ends, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made), use(made);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, sources, MPI_WEIGHTS_EMPTY, 0, destinations, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &made), use(made);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    sent = malloc(ROOM * 4), received = malloc(ROOM * 4), expected = malloc(ROOM * 4);
    make_types();
    grid(1, size, 1, 1, 1), grid(1, size, 1, 1, 0), grid(1, 2, 1, 1, 1), grid(1, 1, 1, 1, 1);
    grid(2, size, 1, 1, 3), grid(2, 1, size, 1, 1), grid(3, 1, 2, 1, 7), grid(2, 1, 1, 1, 0);
    graphs();
    int one = 1, two[2];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(MPI_Neighbor_allgather(&one, 1, MPI_INT, two, 1, MPI_INT, MPI_COMM_WORLD) != MPI_SUCCESS);
    return end();
}
