/* The requirements of an MPI on a transport, tested through the MPI. `cargo xtask mpi` runs it
 * under each MPI with 3 ranks. Prints "all well" once. */

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static void fill(unsigned char *bytes, int length, unsigned seed)
{
    for (int i = 0; i < length; i++)
        bytes[i] = (unsigned char)(i * 31 + i / 251 + seed);
}

static int is_filled(const unsigned char *bytes, int length, unsigned seed)
{
    for (int i = 0; i < length; i++)
        if (bytes[i] != (unsigned char)(i * 31 + i / 251 + seed))
            return 0;
    return 1;
}

/* Every length near the limits between the paths of a message, to every other rank, expected and
 * unexpected. */
static void lengths(void)
{
    static const int all[] = {0,    1,     8,     31,    32,    33,    48,     1007,    1008,   1009,
                              2031, 4096,  12271, 12272, 12273, 65535, 100000, 1048577, 5000000};
    for (unsigned number = 0; number < sizeof all / sizeof *all; number++) {
        int length = all[number];
        unsigned char *out = malloc(length + 1), *in = malloc(size * (length + 1));
        MPI_Request requests[16];
        int count = 0;
        fill(out, length, rank);
        for (int other = 0; other < size && number % 2; other++)
            if (other != rank)
                MPI_Irecv(in + other * length, length, MPI_BYTE, other, number, MPI_COMM_WORLD, &requests[count++]);
        for (int other = 0; other < size; other++)
            if (other != rank)
                MPI_Isend(out, length, MPI_BYTE, other, number, MPI_COMM_WORLD, &requests[count++]);
        for (int other = 0; other < size && number % 2 == 0; other++)
            if (other != rank)
                MPI_Irecv(in + other * length, length, MPI_BYTE, other, number, MPI_COMM_WORLD, &requests[count++]);
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        for (int other = 0; other < size; other++)
            CHECK(other == rank || is_filled(in + other * length, length, other));
        free(out);
        free(in);
    }
}

/* Rank 0 probes messages before it receives them, and takes them out of order. */
static void probing(void)
{
    enum { COUNT = 20, LENGTH = 30000 };
    unsigned char *bytes = malloc(LENGTH), *all = malloc(COUNT * LENGTH);
    MPI_Request requests[COUNT];
    for (int tag = 0; rank > 0 && tag < COUNT; tag++) {
        fill(all + tag * LENGTH, tag * 1500, rank + tag);
        MPI_Isend(all + tag * LENGTH, tag * 1500, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &requests[tag]);
    }
    for (int tag = COUNT - 1; rank == 0 && tag >= 0; tag--)
        for (int number = 1; number < size; number++) {
            MPI_Status status;
            MPI_Message message;
            int length, none;
            MPI_Mprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &message, &status);
            MPI_Get_count(&status, MPI_BYTE, &length);
            CHECK(length == tag * 1500);
            MPI_Iprobe(status.MPI_SOURCE, tag, MPI_COMM_WORLD, &none, MPI_STATUS_IGNORE);
            CHECK(!none);
            MPI_Mrecv(bytes, length, MPI_BYTE, &message, MPI_STATUS_IGNORE);
            CHECK(is_filled(bytes, length, status.MPI_SOURCE + tag));
        }
    if (rank > 0)
        MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
    free(bytes);
    free(all);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* More unexpected messages than a receiver's share, then their receives. */
static void flood(void)
{
    enum { COUNT = 1500, LENGTH = 8000 };
    unsigned char *bytes = malloc(LENGTH);
    if (rank == 1) {
        MPI_Request *requests = malloc(COUNT * sizeof *requests);
        unsigned char *all = malloc((size_t)COUNT * LENGTH);
        for (int number = 0; number < COUNT; number++) {
            fill(all + (size_t)number * LENGTH, LENGTH, number);
            MPI_Isend(all + (size_t)number * LENGTH, LENGTH, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &requests[number]);
        }
        MPI_Send(NULL, 0, MPI_BYTE, 0, 6, MPI_COMM_WORLD);
        MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
        free(requests);
        free(all);
    } else if (rank == 0) {
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int number = 0; number < COUNT; number++) {
            MPI_Recv(bytes, LENGTH, MPI_BYTE, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(is_filled(bytes, LENGTH, number));
        }
    }
    free(bytes);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Synchronous sends, cancelled receives, messages that are too long, and messages to the own
 * rank. */
static void corners(void)
{
    int next = (rank + 1) % size, last = (rank + size - 1) % size, got = -1, cancelled;
    MPI_Request request;
    MPI_Status status;
    MPI_Issend(&rank, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &request);
    MPI_Recv(&got, 1, MPI_INT, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(got == last);

    MPI_Irecv(&got, 1, MPI_INT, last, 77, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(cancelled);

    static const int too_long[] = {4, 3000, 200000};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int number = 0; number < 3; number++) {
        char *bytes = calloc(too_long[number], 1);
        MPI_Isend(bytes, too_long[number], MPI_BYTE, next, 2, MPI_COMM_WORLD, &request);
        char few[3];
        int error = MPI_Recv(few, 3, MPI_BYTE, last, 2, MPI_COMM_WORLD, &status), class;
        MPI_Error_class(error, &class);
        CHECK(class == MPI_ERR_TRUNCATE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        free(bytes);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);

    MPI_Isend(&rank, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &request);
    MPI_Recv(&got, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(got == rank);
}

/* Puts, gets, and numbers that all ranks add to. */
static void windows(void)
{
    enum { NUMBERS = 1000, ROUNDS = 200 };
    long *part, one = 1, old, expected, seen, mine[NUMBERS], theirs[NUMBERS];
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Win window;
    MPI_Win_allocate(NUMBERS * sizeof *part, sizeof *part, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &window);
    memset(part, 0, NUMBERS * sizeof *part);
    MPI_Barrier(MPI_COMM_WORLD);

    for (int number = 0; number < NUMBERS; number++)
        mine[number] = rank * NUMBERS + number;
    MPI_Win_fence(0, window);
    MPI_Put(mine, NUMBERS, MPI_LONG, next, 0, NUMBERS, MPI_LONG, window);
    MPI_Win_fence(0, window);
    MPI_Get(theirs, NUMBERS, MPI_LONG, next, 0, NUMBERS, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (int number = 0; number < NUMBERS; number++)
        CHECK(part[number] == last * NUMBERS + number && theirs[number] == mine[number]);

    part[0] = 0;
    part[1] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, window);
        MPI_Win_flush(0, window);
        for (expected = 0;; expected = seen) {
            long wanted = expected + 1;
            MPI_Compare_and_swap(&wanted, &expected, &seen, MPI_LONG, 0, 1, window);
            MPI_Win_flush(0, window);
            if (seen == expected)
                break;
        }
        MPI_Accumulate(mine, NUMBERS - 2, MPI_LONG, next, 2, NUMBERS - 2, MPI_LONG, MPI_REPLACE, window);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(rank != 0 || (part[0] == size * ROUNDS && part[1] == size * ROUNDS));
    MPI_Win_free(&window);
}

/* Rank 1 dies while rank 0 waits for it. Rank 0 must get an error, and then makes a file of this
 * name. */
static void death(const char *name)
{
    int got;
    signal(SIGUSR1, SIG_IGN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        kill(getpid(), SIGKILL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_Recv(&got, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        fclose(fopen(name, "w"));
    _exit(1);
}

int main(int count, char **arguments)
{
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (count > 1)
        death(arguments[1]);
    lengths();
    probing();
    flood();
    corners();
    windows();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("all well\n");
    MPI_Finalize();
    return 0;
}
