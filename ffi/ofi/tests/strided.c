/* Puts, gets and accumulates of random sections of arrays of one to six dimensions, as ARMCI
 * makes them with MPI's windows. MPICH sends the datatypes in active messages, and the target
 * reads long data. Prints "all well" once. The argument is the number of loops. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { DIMENSIONS = 6, TOTAL = 1 << 17 };

static MPI_Datatype section(int dimensions, const int *sizes, const int *lengths, const int *starts)
{
    MPI_Datatype type;
    MPI_Type_create_subarray(dimensions, sizes, lengths, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

static void loop(int number, MPI_Win win, double *from, double *back)
{
    static const int most[] = {0, TOTAL, 300, 45, 18, 10, 7};
    int dimensions = 1 + rand() % DIMENSIONS, target = (rank + 1) % size, bytes = 0, place = 0;
    int sizes[DIMENSIONS], lengths[DIMENSIONS], here[DIMENSIONS], there[DIMENSIONS];
    int total = 1, kind = rand() % 3;
    for (int i = 0; i < dimensions; i++) {
        sizes[i] = 2 + rand() % (most[dimensions] - 1);
        lengths[i] = 1 + rand() % sizes[i];
        here[i] = rand() % (sizes[i] - lengths[i] + 1);
        there[i] = rand() % (sizes[i] - lengths[i] + 1);
        total *= sizes[i];
    }
    if (total > TOTAL)
        return;
    MPI_Aint displacement = (MPI_Aint)rank * TOTAL;
    MPI_Datatype origin = section(dimensions, sizes, lengths, here), part = section(dimensions, sizes, lengths, there);
    for (int i = 0; i < total; i++)
        from[i] = rank * 1e6 + number * 1000 + i;
    memset(back, 0, total * sizeof *back);
    MPI_Put(back, total, MPI_DOUBLE, target, displacement, total, MPI_DOUBLE, win);
    MPI_Win_flush(target, win);
    if (kind == 0)
        MPI_Put(from, 1, origin, target, displacement, 1, part, win);
    for (int i = 0; i < kind; i++)
        MPI_Accumulate(from, 1, origin, target, displacement, 1, part, MPI_SUM, win);
    MPI_Win_flush(target, win);
    MPI_Get(back, 1, origin, target, displacement, 1, part, win);
    MPI_Win_flush(target, win);
    MPI_Pack_size(1, origin, MPI_COMM_SELF, &bytes);
    double *sent = malloc(bytes), *got = malloc(bytes);
    MPI_Pack(from, 1, origin, sent, bytes, &place, MPI_COMM_SELF);
    int numbers = place / (int)sizeof *sent;
    place = 0;
    MPI_Pack(back, 1, origin, got, bytes, &place, MPI_COMM_SELF);
    for (int i = 0; i < numbers; i++)
        CHECK(got[i] == sent[i] * (kind == 2 ? 2 : 1));
    free(sent);
    free(got);
    MPI_Type_free(&origin);
    MPI_Type_free(&part);
}

int main(int count, char **arguments)
{
    int loops = count > 1 ? atoi(arguments[1]) : 300;
    double *base, *from = malloc(TOTAL * sizeof *from), *back = malloc(TOTAL * sizeof *back);
    MPI_Win win;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate((MPI_Aint)size * TOTAL * sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_lock_all(0, win);
    srand(7 + rank);
    for (int number = 0; number < loops; number++)
        loop(number, win, from, back);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    if (rank == 0)
        printf("all well\n");
    MPI_Finalize();
    return 0;
}
