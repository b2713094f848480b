// A program that is not linked with MPI. It loads the library whose path it is given, as programs in
// Julia, R and Python do, and finds the functions by name.
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *library;

static void *find(const char *name) {
    void *found = dlsym(library, name);
    if (!found)
        fprintf(stderr, "no %s: %s\n", name, dlerror()), exit(1);
    return found;
}

#define CALL(name) ((__typeof__(&name))find(#name))

#ifdef OPEN_MPI
#define WORLD ((MPI_Comm)find("ompi_mpi_comm_world"))
#define INTEGER ((MPI_Datatype)find("ompi_mpi_int"))
#else
#define WORLD MPI_COMM_WORLD
#define INTEGER MPI_INT
#endif

int main(int argc, char **argv) {
    alarm(100);
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    int rank, size, from = -1;
    CALL(MPI_Init)(&argc, &argv);
    CALL(MPI_Comm_rank)(WORLD, &rank);
    CALL(MPI_Comm_size)(WORLD, &size);
    for (int turn = 0; turn < 500; turn++) {
        int next = (rank + 1) % size, before = (rank + size - 1) % size, value = rank + turn;
        CALL(MPI_Sendrecv)(&value, 1, INTEGER, next, 0, &from, 1, INTEGER, before, 0, WORLD,
                           MPI_STATUS_IGNORE);
        if (from != before + turn)
            return fprintf(stderr, "rank %d got %d\n", rank, from), 1;
    }
    CALL(MPI_Barrier)(WORLD);
    CALL(MPI_Finalize)();
    if (rank == 0)
        puts("well");
    return 0;
}
