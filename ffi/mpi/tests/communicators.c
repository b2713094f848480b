// Messages in communicators of every constructor: each is a world of its own.
#include "check.h"

// Each rank sends to its right neighbour and receives from any source.
static void ring(MPI_Comm comm) {
    int me, members, value = -1;
    MPI_Status status;
    MPI_Comm_rank(comm, &me), MPI_Comm_size(comm, &members);
    int right = (me + 1) % members, left = (me + members - 1) % members, own = 1000 + me;
    MPI_Request request;
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 3, comm, &request);
    MPI_Send(&own, 1, MPI_INT, right, 3, comm);
    MPI_Wait(&request, &status);
    CHECK(value == 1000 + left && status.MPI_SOURCE == left);
    MPI_Sendrecv(&own, 1, MPI_INT, left, 4, &value, 1, MPI_INT, right, 4, comm, &status);
    CHECK(value == 1000 + right && status.MPI_SOURCE == right);
}

// The same messages in two communicators do not meet.
static void apart(MPI_Comm one, MPI_Comm two) {
    int me, members, a = 1, b = 2, x = 0, y = 0;
    MPI_Comm_rank(one, &me), MPI_Comm_size(one, &members);
    if (members < 2 || me > 1)
        return;
    if (me == 0) {
        MPI_Send(&a, 1, MPI_INT, 1, 0, one);
        MPI_Send(&b, 1, MPI_INT, 1, 0, two);
    } else {
        MPI_Recv(&y, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, two, MPI_STATUS_IGNORE);
        MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, one, MPI_STATUS_IGNORE);
        CHECK(x == 1 && y == 2);
    }
}

static void use(MPI_Comm comm) {
    if (comm == MPI_COMM_NULL)
        return;
    MPI_Comm again;
    ring(comm);
    MPI_Comm_dup(comm, &again);
    ring(again);
    apart(comm, again);
    apart(again, comm);
    MPI_Comm_free(&again);
    MPI_Comm_free(&comm);
    CHECK(comm == MPI_COMM_NULL);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm comm, inter, half;
    MPI_Group all, some;
    int dims[2] = {0, 0}, periods[2] = {1, 0}, remain[2] = {1, 0};
    ring(MPI_COMM_WORLD);
    ring(MPI_COMM_SELF);
    for (int turn = 0; turn < 20; turn++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm), use(comm);
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm), use(comm);
    }
    MPI_Comm_split(MPI_COMM_WORLD, rank ? 1 : MPI_UNDEFINED, 0, &comm), use(comm);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm), use(comm);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &comm), use(comm);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    int most = size - 1;
    MPI_Group_excl(all, 1, &most, &some);
    MPI_Comm_create(MPI_COMM_WORLD, some, &comm), use(comm);
    if (rank < size - 1)
        MPI_Comm_create_group(MPI_COMM_WORLD, some, 9, &comm), use(comm);
    MPI_Group_free(&some), MPI_Group_free(&all);
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &comm);
    MPI_Cart_sub(comm, remain, &half), use(half);
    use(comm);
    int index[64], edges[64];
    for (int i = 0; i < size; i++)
        index[i] = i + 1, edges[i] = (i + 1) % size;
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &comm), use(comm);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &previous, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm), use(comm);
    // An intercommunicator is the host's, what it merges to is not.
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0 ? 1 : 0, 7, &inter);
    int value = rank, from = -1;
    MPI_Request request;
    if (rank == 0) {
        MPI_Send(&value, 1, MPI_INT, 0, 1, inter);
        MPI_Recv(&from, 1, MPI_INT, 0, 2, inter, MPI_STATUS_IGNORE);
        CHECK(from == 1);
    } else if (rank == 1) {
        MPI_Irecv(&from, 1, MPI_INT, 0, 1, inter, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(from == 0);
        MPI_Send(&value, 1, MPI_INT, 0, 2, inter);
    }
    MPI_Intercomm_merge(inter, rank == 0, &comm), use(comm);
    MPI_Comm_free(&inter), MPI_Comm_free(&half);
    // A duplicate that is made meanwhile.
    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    use(comm);
    return end();
}
