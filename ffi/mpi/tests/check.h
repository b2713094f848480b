// Checks of the test programs. A check that fails ends the job.
#ifndef STRAIT_CHECK_H
#define STRAIT_CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: rank %d: %s\n", __FILE__, __LINE__, rank, #condition);         \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

static int rank, size;

static void begin(int *argc, char ***argv) {
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    // A test that waits for ever is ended. A virtual machine takes longer.
    const char *seconds = getenv("CHECK_SECONDS");
    alarm(seconds ? (unsigned)atoi(seconds) : 100);
}

static int end(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0)
        printf("well\n");
    return 0;
}

// Returns whether the MPI has this name: "MPICH", "Open MPI", "Intel".
static inline int is_host(const char *name) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    return strncmp(version, name, strlen(name)) == 0;
}

// Fills memory with bytes that depend on a seed.
static inline void fill(void *memory, size_t bytes, unsigned seed) {
    unsigned char *byte = memory;
    for (size_t i = 0; i < bytes; i++)
        byte[i] = (unsigned char)(seed * 31 + i * 7 + (i >> 8));
}

static inline int is_filled(const void *memory, size_t bytes, unsigned seed) {
    const unsigned char *byte = memory;
    for (size_t i = 0; i < bytes; i++)
        if (byte[i] != (unsigned char)(seed * 31 + i * 7 + (i >> 8)))
            return 0;
    return 1;
}

#endif
