/* The check that the programs of this folder share. It ends the job, and reports the rank and
 * the line. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdio.h>

static int rank, size;

#define CHECK(what)                                                                    \
    do {                                                                               \
        if (!(what)) {                                                                 \
            fprintf(stderr, "rank %d, line %d: %s does not hold\n", rank, __LINE__, #what); \
            MPI_Abort(MPI_COMM_WORLD, 3);                                              \
        }                                                                              \
    } while (0)

#endif
