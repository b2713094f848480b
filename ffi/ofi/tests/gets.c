/* More simultaneous gets, puts and accumulates than a device registers buffers. Two ranks access
 * each other's windows, of which there are many as well. Prints "all well" once. With an
 * argument it also sends more long messages than a device registers. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

/* A device registers 1024 buffers. COUNT exceeds that and no more, because each device takes seconds for it. */
enum { COUNT = 1200, WINDOWS = 40, LONG = 20000 };

/* More long messages in flight than a device registers, while their receiver first reads the
 * sender's memory. */
static void messages(void)
{
    enum { MESSAGES = 1100, BYTES = 13000 };
    MPI_Request *requests = malloc(MESSAGES * sizeof *requests);
    char *bytes = malloc(MESSAGES * BYTES);
    int number = 17 + rank, got = 0;
    MPI_Win win;
    MPI_Win_create(&number, sizeof number, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (int i = 0; i < MESSAGES; i++) {
        bytes[i * BYTES + BYTES - 1] = (char)(rank ? 0 : i);
        if (rank == 0)
            MPI_Isend(bytes + i * BYTES, BYTES, MPI_CHAR, 1, i, MPI_COMM_WORLD, &requests[i]);
    }
    if (rank == 1) {
        MPI_Probe(0, MESSAGES - 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        MPI_Get(&got, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
        MPI_Win_unlock(0, win);
        CHECK(got == 17);
        for (int i = 0; i < MESSAGES; i++)
            MPI_Irecv(bytes + i * BYTES, BYTES, MPI_CHAR, 0, i, MPI_COMM_WORLD, &requests[i]);
    }
    if (rank < 2)
        MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MESSAGES && rank < 2; i++)
        CHECK(bytes[i * BYTES + BYTES - 1] == (char)i);
    MPI_Win_free(&win);
    free(bytes);
    free(requests);
}

int main(int count, char **arguments)
{
    static int mine[COUNT], got[COUNT], put[COUNT], sums[COUNT];
    MPI_Win win, wins[WINDOWS];
    int with_messages = count > 1;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int other = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int i = 0; i < COUNT; i++) {
        mine[i] = 10000 * rank + i;
        put[i] = mine[i] + 7;
    }
    MPI_Win_create(mine, sizeof mine, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < COUNT; i++)
        MPI_Get(&got[i], 1, MPI_INT, other, i, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < COUNT; i++)
        CHECK(got[i] == 10000 * other + i);
    for (int i = 0; i < COUNT; i++)
        MPI_Put(&put[i], 1, MPI_INT, other, i, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < COUNT; i++) {
        CHECK(mine[i] == 10000 * before + i + 7);
        sums[i] = 1;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++)
        MPI_Accumulate(&sums[i], 1, MPI_INT, other, i, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < COUNT; i++)
        CHECK(mine[i] == 10000 * before + i + 8);
    MPI_Win_free(&win);

    /* Long buffers in many windows. Each is registered. */
    int *all = malloc(WINDOWS * LONG * sizeof *all), *back = calloc(WINDOWS * LONG, sizeof *back);
    for (int i = 0; i < WINDOWS * LONG; i++)
        all[i] = i ^ rank;
    for (int i = 0; i < WINDOWS; i++) {
        MPI_Win_create(all + i * LONG, LONG * sizeof *all, sizeof *all, MPI_INFO_NULL, MPI_COMM_WORLD, &wins[i]);
        MPI_Win_lock_all(0, wins[i]);
    }
    for (int part = 0; part < 4; part++)
        for (int i = 0; i < WINDOWS; i++)
            MPI_Get(back + i * LONG + part * LONG / 4, LONG / 4, MPI_INT, other, part * LONG / 4, LONG / 4, MPI_INT, wins[i]);
    for (int i = 0; i < WINDOWS; i++)
        MPI_Win_unlock_all(wins[i]);
    for (int i = 0; i < WINDOWS * LONG; i++)
        CHECK(back[i] == (i ^ other));
    for (int i = 0; i < WINDOWS; i++)
        MPI_Win_free(&wins[i]);
    if (with_messages)
        messages();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("all well\n");
    MPI_Finalize();
    return 0;
}
