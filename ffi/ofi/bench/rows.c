/* The rows of docs/mpi.md on an MPI's own interface: two ranks, the best of many short runs, one
 * line of numbers.
 *
 * The numbers are: latency 8 B, latency 1 KiB (us, half a round trip), bandwidth 64 KiB, 1 MiB
 * (GB/s, 16 in flight), message rate 8 B (M/s, 64 in flight), put 8 B with flush, fetch-and-op 8
 * B with flush (us). An argument sets the number of runs, for slow transports. */

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64 };

static int rank, runs = 40;
static char *buffer, *other;
static MPI_Request requests[WINDOW];

static void latency(int length, int rounds)
{
    for (int round = 0; round < rounds; round++)
        if (rank == 0) {
            MPI_Send(buffer, length, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(other, length, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(other, length, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, length, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
}

static void stream(int length, int window)
{
    for (int number = 0; number < window; number++)
        if (rank == 0)
            MPI_Isend(buffer + (size_t)number * length, length, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[number]);
        else
            MPI_Irecv(other + (size_t)number * length, length, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[number]);
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    if (rank == 0)
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
}

static MPI_Win window;

static void put(int length, int rounds)
{
    for (int round = 0; rank == 0 && round < rounds; round++) {
        MPI_Put(buffer, length, MPI_BYTE, 1, 0, length, MPI_BYTE, window);
        MPI_Win_flush(1, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void fetch(int length, int rounds)
{
    long one = length, old;
    for (int round = 0; rank == 0 && round < rounds; round++) {
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 1, 0, MPI_SUM, window);
        MPI_Win_flush(1, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Returns the time of the fastest of many runs, in seconds. */
static double best(void (*run)(int, int), int length, int count)
{
    double least = 1e9;
    for (int number = 0; number < runs; number++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        run(length, count);
        double took = MPI_Wtime() - begin;
        if (took < least)
            least = took;
    }
    return least;
}

int main(int count, char **arguments)
{
    void *part;
    cpu_set_t cpus;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (count > 1)
        runs = atoi(arguments[1]);
    CPU_ZERO(&cpus);
    CPU_SET(rank, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    size_t bytes = 16 << 20;
    buffer = malloc(bytes);
    other = malloc(bytes);
    memset(buffer, 1, bytes);
    memset(other, 2, bytes);
    MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &part, &window);
    memset(part, 0, 4096);
    MPI_Win_lock_all(0, window);
    double l8 = best(latency, 8, 1000) / 2000 * 1e6, l1k = best(latency, 1024, 1000) / 2000 * 1e6;
    double b64k = 16.0 * 65536 / best(stream, 65536, 16) / 1e9;
    double b1m = 16.0 * (1 << 20) / best(stream, 1 << 20, 16) / 1e9;
    double rate = WINDOW / best(stream, 8, WINDOW) / 1e6;
    double p8 = best(put, 8, 200) / 200 * 1e6, f8 = best(fetch, 8, 200) / 200 * 1e6;
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    if (rank == 0)
        printf("%.3f %.3f %.2f %.2f %.2f %.3f %.3f\n", l8, l1k, b64k, b1m, rate, p8, f8);
    MPI_Finalize();
    return 0;
}
