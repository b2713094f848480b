// A rank is killed while the others wait for it: one in a collective operation with its neighbours,
// the rest for messages. They get an error, and none waits for ever. The launcher must not end them:
// its options say so. The file that is named gets the number of those that got an error.
#include "check.h"
#include <signal.h>

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    char byte = 1, *big = calloc(1, 1 << 20);
    MPI_Request request;
    MPI_Comm ring;
    int periodic = 1;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
    MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        MPI_Send(&byte, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        usleep(50000);
        raise(SIGKILL);
    }
    int theirs[2], exchanged = MPI_ERR_OTHER;
    MPI_Irecv(&byte, 1, MPI_BYTE, size - 1, 1, MPI_COMM_WORLD, &request);
    if (rank == 1)
        exchanged = MPI_Neighbor_allgather(&rank, 1, MPI_INT, theirs, 1, MPI_INT, ring);
    int sent = MPI_Send(big, 1 << 20, MPI_BYTE, size - 1, 2, MPI_COMM_WORLD);
    int waited = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 0)
        exchanged = MPI_Neighbor_allgather(&rank, 1, MPI_INT, theirs, 1, MPI_INT, ring);
    CHECK(sent != MPI_SUCCESS && waited != MPI_SUCCESS && exchanged != MPI_SUCCESS);
    int one = 1, all = 0;
    CHECK(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS);
    FILE *known = argc > 1 ? fopen(argv[1], "a") : NULL;
    if (known)
        fputs("x", known), fclose(known);
    _exit(3);
}
