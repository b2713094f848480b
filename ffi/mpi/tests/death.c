// A rank is killed while the others wait for it. They get an error, and none waits for ever. The
// launcher must not end them: its options say so. The file that is named gets the number of those
// that got an error.
#include "check.h"
#include <signal.h>

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    char byte = 1, *big = calloc(1, 1 << 20);
    MPI_Request request;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        MPI_Send(&byte, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        usleep(50000);
        raise(SIGKILL);
    }
    MPI_Irecv(&byte, 1, MPI_BYTE, size - 1, 1, MPI_COMM_WORLD, &request);
    int sent = MPI_Send(big, 1 << 20, MPI_BYTE, size - 1, 2, MPI_COMM_WORLD);
    int waited = MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(sent != MPI_SUCCESS && waited != MPI_SUCCESS);
    int one = 1, all = 0;
    CHECK(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS);
    FILE *known = argc > 1 ? fopen(argv[1], "a") : NULL;
    if (known)
        fputs("x", known), fclose(known);
    _exit(3);
}
