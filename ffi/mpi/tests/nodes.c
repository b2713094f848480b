// Four ranks on two nodes, two on each. The first message between two ranks makes their connection,
// so each pair across the nodes first meets while one of the two waits in the host. Neither may
// wait for the other.
#include "check.h"

enum { BIG = 3 << 20, TURNS = 200 };

static void first_messages(void) {
    MPI_Comm copy;
    MPI_Request request;
    int left = rank % 2, done = 0, value = -1;
    // Ranks 0 and 2: the receiver waits in a constructor of the host's.
    if (rank == 0)
        MPI_Ssend(&rank, 0, MPI_INT, 2, 1, MPI_COMM_WORLD);
    if (rank == 2)
        MPI_Irecv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    if (rank == 2)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    // Ranks 1 and 3: the receiver has no operation open, and waits for one of the host's.
    if (rank == 1)
        MPI_Send(&rank, 1, MPI_INT, 3, 2, copy);
    MPI_Ibarrier(copy, &request);
    if (rank == 3)
        while (!done)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    else
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 3)
        MPI_Recv(&value, 1, MPI_INT, 1, 2, copy, MPI_STATUS_IGNORE);
    CHECK(rank != 3 || value == 1);
    // Ranks 0 and 3, and 1 and 2: a constructor, and a wait for several.
    if (rank == 3)
        MPI_Send(&rank, 1, MPI_INT, 0, 3, copy);
    if (rank == 2)
        MPI_Send(&rank, 1, MPI_INT, 1, 3, copy);
    MPI_Ibarrier(copy, &request);
    MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    if (rank < 2)
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 3, copy, MPI_STATUS_IGNORE);
    CHECK(rank >= 2 || value == 3 - left);
    MPI_Comm_free(&copy);
}

// Messages of all lengths between all ranks, received in any order.
static void messages(void) {
    static const int lengths[] = {0, 1, 64, 4000, 12288, 12289, 70000, BIG};
    char *out = malloc(BIG), *in = malloc(BIG);
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        MPI_Request request[4];
        fill(out, lengths[i], rank + i);
        for (int to = 0; to < size; to++)
            MPI_Isend(out, lengths[i], MPI_BYTE, to, i, MPI_COMM_WORLD, &request[to]);
        for (int n = 0; n < size; n++) {
            MPI_Status status;
            int count;
            MPI_Recv(in, BIG, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            CHECK(status.MPI_TAG == (int)i && count == lengths[i]);
            CHECK(is_filled(in, count, status.MPI_SOURCE + i));
        }
        MPI_Waitall(size, request, MPI_STATUSES_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(out), free(in);
}

// Messages that no receive waits for, while the receivers wait in the host: more than the devices
// have room for.
static void flood(void) {
    MPI_Request request[TURNS];
    char *out = calloc(TURNS, 4096), *in = malloc(4096);
    MPI_Comm copy;
    int other = (rank + 2) % size;
    for (int i = 0; i < TURNS; i++) {
        fill(out + i * 4096, 4096, i);
        MPI_Isend(out + i * 4096, 4096, MPI_BYTE, other, i, MPI_COMM_WORLD, &request[i]);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    for (int i = 0; i < TURNS; i++) {
        MPI_Recv(in, 4096, MPI_BYTE, other, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(is_filled(in, 4096, i));
    }
    MPI_Waitall(TURNS, request, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&copy);
    free(out), free(in);
}

// Windows of one node are Strait's, also numbers that need its locks; those of both are the host's.
static void windows(void) {
    MPI_Comm node;
    MPI_Win near, far;
    long double *here, there = 1, one = 1;
    int *number, place;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &node);
    MPI_Comm_rank(node, &place);
    MPI_Win_allocate(sizeof *here, sizeof *here, MPI_INFO_NULL, node, &here, &near);
    MPI_Win_allocate(sizeof *number, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &number, &far);
    *here = 0, *number = -1;
    MPI_Win_fence(0, near), MPI_Win_fence(0, far);
    for (int i = 0; i < 50; i++)
        MPI_Accumulate(&one, 1, MPI_LONG_DOUBLE, 0, 0, 1, MPI_LONG_DOUBLE, MPI_SUM, near);
    MPI_Put(&rank, 1, MPI_INT, (rank + 2) % size, 0, 1, MPI_INT, far);
    MPI_Win_fence(0, near), MPI_Win_fence(0, far);
    MPI_Get(&there, 1, MPI_LONG_DOUBLE, 0, 0, 1, MPI_LONG_DOUBLE, near);
    MPI_Win_fence(0, near);
    CHECK(there == 100 && *number == (rank + 2) % size);
    MPI_Barrier(MPI_COMM_WORLD);
    // What is put into the host's window comes before a message of Strait's that follows it.
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 3, 0, far);
        MPI_Put(&rank, 1, MPI_INT, 3, 0, 1, MPI_INT, far);
        MPI_Win_unlock(3, far);
        MPI_Send(&rank, 1, MPI_INT, 3, 9, MPI_COMM_WORLD);
    }
    if (rank == 3) {
        int value;
        MPI_Recv(&value, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_lock(MPI_LOCK_SHARED, 3, 0, far);
        CHECK(*number == 0);
        MPI_Win_unlock(3, far);
    }
    MPI_Win_free(&near), MPI_Win_free(&far);
    MPI_Comm_free(&node);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(size == 4);
    first_messages();
    messages();
    flood();
    windows();
    return end();
}
