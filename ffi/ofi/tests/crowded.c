/* More ranks than processors, which a waiting rank must not slow down further: fetching
 * accumulates, reads of pairs, and non-blocking collective operations. Prints "all well" once.
 * The argument is the number of loops. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

struct pair {
    float value;
    int place;
};

/* Every rank adds to a number of rank 0, and each old value must be seen once. */
static void fetching(int loops)
{
    long *number, one = 1, before, last = -1;
    MPI_Win win;
    MPI_Win_allocate(sizeof *number, sizeof *number, MPI_INFO_NULL, MPI_COMM_WORLD, &number, &win);
    *number = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < loops; i++) {
        MPI_Get_accumulate(&one, 1, MPI_LONG, &before, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win);
        MPI_Win_flush(0, win);
        CHECK(before > last);
        last = before;
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    CHECK(rank > 0 || *number == (long)loops * size);
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
}

/* Rank 0 writes pairs with equal halves, and the other ranks must never see different halves. */
static void pairs(int loops)
{
    struct pair *shared, mine, got;
    MPI_Win win;
    MPI_Win_allocate(sizeof *shared, sizeof *shared, MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &win);
    memset(shared, 0, sizeof *shared);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < loops; i++) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        mine.value = mine.place = i * size + rank;
        MPI_Get_accumulate(&mine, 1, MPI_FLOAT_INT, &got, 1, MPI_FLOAT_INT, 0, 0, 1, MPI_FLOAT_INT,
                           rank ? MPI_NO_OP : MPI_REPLACE, win);
        MPI_Win_unlock(0, win);
        CHECK(got.value == got.place);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
}

static void collectives(int loops)
{
    enum { KINDS = 6, LENGTH = 100 };
    static int out[KINDS][16 * LENGTH], in[KINDS][16 * LENGTH];
    for (int i = 0; i < loops; i++) {
        MPI_Request requests[KINDS];
        for (int kind = 0; kind < KINDS; kind++)
            for (int j = 0; j < size * LENGTH; j++)
                out[kind][j] = rank + i;
        MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
        MPI_Ibcast(out[1], LENGTH, MPI_INT, i % size, MPI_COMM_WORLD, &requests[1]);
        MPI_Iallreduce(out[2], in[2], LENGTH, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[2]);
        MPI_Ialltoall(out[3], LENGTH, MPI_INT, in[3], LENGTH, MPI_INT, MPI_COMM_WORLD, &requests[3]);
        MPI_Iallgather(out[4], LENGTH, MPI_INT, in[4], LENGTH, MPI_INT, MPI_COMM_WORLD, &requests[4]);
        MPI_Iscan(out[5], in[5], LENGTH, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[5]);
        MPI_Waitall(KINDS, requests, MPI_STATUSES_IGNORE);
        CHECK(out[1][0] == i % size + i);
        CHECK(in[2][0] == size * i + size * (size - 1) / 2);
        for (int other = 0; other < size; other++)
            CHECK(in[3][other * LENGTH] == other + i && in[4][other * LENGTH] == other + i);
        CHECK(in[5][LENGTH - 1] == (rank + 1) * i + rank * (rank + 1) / 2);
    }
}

int main(int count, char **arguments)
{
    int loops = count > 1 ? atoi(arguments[1]) : 200;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double times[4] = {MPI_Wtime()};
    fetching(loops);
    times[1] = MPI_Wtime();
    pairs(loops);
    times[2] = MPI_Wtime();
    collectives(loops);
    times[3] = MPI_Wtime();
    if (rank == 0 && count > 2)
        for (int part = 0; part < 3; part++)
            printf("%.1f us a loop\n", (times[part + 1] - times[part]) / loops * 1e6);
    if (rank == 0)
        printf("all well\n");
    MPI_Finalize();
    return 0;
}
