// Spawns processes one after the other, more than a universe has ranks, and exchanges a number with each.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Comm parent;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        int number;
        MPI_Recv(&number, 1, MPI_INT, 0, 1, parent, MPI_STATUS_IGNORE);
        number = ~number;
        MPI_Send(&number, 1, MPI_INT, 0, 2, parent);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    int count = argc > 1 ? atoi(argv[1]) : 200;
    for (int number = 0; number < count; number++) {
        MPI_Comm child;
        int answer = 0;
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child, MPI_ERRCODES_IGNORE);
        MPI_Send(&number, 1, MPI_INT, 0, 1, child);
        MPI_Recv(&answer, 1, MPI_INT, 0, 2, child, MPI_STATUS_IGNORE);
        if (answer != ~number) {
            fprintf(stderr, "process %d answers %d\n", number, answer);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        MPI_Comm_disconnect(&child);
    }
    MPI_Finalize();
    return 0;
}
