// One buffer for both sides of an operation. Behind the front MPICH reports it. Where the host does
// not, the front carries the operation out as if it were in place.
#include "check.h"

#define W MPI_COMM_WORLD

enum { KINDS = 15, EACH = 2, ROOM = 64 };

static int data[ROOM], counts[ROOM], places[ROOM], result[ROOM];
static MPI_Datatype types[ROOM];
static int root;

// Makes a call whose buffers are the same, or those of `EACH` elements at this rank are.
static int call(int kind, int each) {
    int *own = data + rank * each;
    MPI_Datatype t = MPI_INT;
    for (int i = 0; i < size; i++)
        counts[i] = each, places[i] = i * each * (kind == 9 ? (int)sizeof(int) : 1), types[i] = t;
    switch (kind) {
    case 0: return MPI_Gather(own, each, t, data, each, t, root, W);
    case 1: return MPI_Gatherv(own, each, t, data, counts, places, t, root, W);
    case 2: return MPI_Scatter(data, each, t, own, each, t, root, W);
    case 3: return MPI_Scatterv(data, counts, places, t, own, each, t, root, W);
    case 4: return MPI_Reduce(data, data, each, t, MPI_SUM, root, W);
    case 5: return MPI_Allgather(own, each, t, data, each, t, W);
    case 6: return MPI_Allgatherv(own, each, t, data, counts, places, t, W);
    case 7: return MPI_Alltoall(data, each, t, data, each, t, W);
    case 8: return MPI_Alltoallv(data, counts, places, t, data, counts, places, t, W);
    case 9: return MPI_Alltoallw(data, counts, places, types, data, counts, places, types, W);
    case 10: return MPI_Allreduce(data, data, each, t, MPI_SUM, W);
    case 11: return MPI_Reduce_scatter(data, data, counts, t, MPI_SUM, W);
    case 12: return MPI_Reduce_scatter_block(data, data, each, t, MPI_SUM, W);
    case 13: return MPI_Scan(data, data, each, t, MPI_SUM, W);
    default: return MPI_Exscan(data, data, each, t, MPI_SUM, W);
    }
}

// Returns an element that such a call leaves, which had `100 * rank + place` at each rank.
static int expected(int kind, int place) {
    int before = kind == 13 ? rank + 1 : kind == 14 ? rank : size, sum = 50 * before * (before - 1);
    switch (kind) {
    case 0: case 1: case 5: case 6: return 100 * (place / EACH) + place;
    case 2: case 3: return 100 * root + place;
    case 7: case 8: case 9: return 100 * (place / EACH) + rank * EACH + place % EACH;
    case 11: case 12: return sum + size * (rank * EACH + place);
    default: return sum + before * place;
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int code, class, is_refused = !is_host("Open MPI");
    MPI_Comm_set_errhandler(W, MPI_ERRORS_RETURN);
    for (int kind = 0; kind < KINDS; kind++) {
        root = kind % size;
        // Nothing is in two places if there is nothing.
        if (kind != 8 && kind != 9)
            CHECK(call(kind, 0) == MPI_SUCCESS);
        // A rank waits for no other if its call is refused.
        if (is_refused && rank == root) {
            code = call(kind, EACH);
            MPI_Error_class(code, &class);
            if (class != MPI_ERR_BUFFER)
                fprintf(stderr, "kind %d: class %d\n", kind, class);
            CHECK(class == MPI_ERR_BUFFER);
        } else if (!is_refused) {
            for (int i = 0; i < ROOM; i++)
                data[i] = 100 * rank + i;
            CHECK(call(kind, EACH) == MPI_SUCCESS);
            int first = kind == 2 || kind == 3 ? rank * EACH : 0;
            int last = kind == 4 || kind > 9 ? EACH : first > 0 ? first + EACH : size * EACH;
            int has_result = kind == 14 ? rank > 0 : kind > 4 || first > 0 || rank == root;
            for (int i = first; has_result && i < last; i++)
                if (data[i] != expected(kind, i))
                    fprintf(stderr, "kind %d: element %d is %d\n", kind, i, data[i]), MPI_Abort(W, 1);
        }
        MPI_Barrier(W);
    }
    // Elsewhere in the same buffer, and in place.
    for (int i = 0; i < ROOM; i++)
        data[i] = i;
    CHECK(MPI_Allreduce(data, data + EACH, EACH, MPI_INT, MPI_SUM, W) == MPI_SUCCESS);
    CHECK(data[EACH] == 0 && data[EACH + 1] == size);
    CHECK(MPI_Allreduce(MPI_IN_PLACE, data, EACH, MPI_INT, MPI_SUM, W) == MPI_SUCCESS);
    CHECK(data[1] == size);
    CHECK(MPI_Gather(rank == 0 ? MPI_IN_PLACE : data, 1, MPI_INT, data, 1, MPI_INT, 0, W) == 0);
    CHECK(MPI_Allreduce(data, result, 1, MPI_INT, MPI_MAX, W) == MPI_SUCCESS);
    return end();
}
