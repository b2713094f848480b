/* What the programs of this folder have in common: a check that ends the job, and says of which rank and where. */
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
