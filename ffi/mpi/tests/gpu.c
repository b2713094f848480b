// Rank 1 loads a library that is named like a GPU's, before the start of MPI or after it. Messages of
// communicators that are made later are the host's.
#include "check.h"
#include <dlfcn.h>

#ifdef CODE_FOR_GPU
// What a compiler for GPUs leaves in a program that may load the library only later.
__attribute__((section(".nv_fatbin"), used)) static int code = 1;
#endif

static int is_second(void) {
    const char *text = getenv("PMI_RANK") ? getenv("PMI_RANK") : getenv("OMPI_COMM_WORLD_RANK");
    return text && atoi(text) == 1;
}

int main(int argc, char **argv) {
    int before = argc > 2 && !strcmp(argv[1], "before"), value = -1;
    MPI_Comm copy;
    void *library = before && is_second() ? dlopen(argv[2], RTLD_NOW) : NULL;
    begin(&argc, &argv);
    CHECK(size == 2);
    if (argc > 2 && !before && rank == 1)
        library = dlopen(argv[2], RTLD_NOW);
    CHECK(argc <= 2 || rank == 0 || library);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    for (int turn = 0; turn < 10; turn++) {
        MPI_Sendrecv(&rank, 1, MPI_INT, 1 - rank, 0, &value, 1, MPI_INT, 1 - rank, 0, copy,
                     MPI_STATUS_IGNORE);
        CHECK(value == 1 - rank);
        MPI_Sendrecv(&rank, 1, MPI_INT, 1 - rank, 0, &value, 1, MPI_INT, 1 - rank, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(copy);
    }
    MPI_Comm_free(&copy);
    return end();
}
