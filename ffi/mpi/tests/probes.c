// A program that probes again and again, and finds nothing: meanwhile the host progresses, and a
// rank without a processor of its own gets one.
#define _GNU_SOURCE
#include "check.h"
#include <sys/syscall.h>

#define W MPI_COMM_WORLD

static int yields;

// Takes the place of the C library's.
int sched_yield(void) {
    yields++;
    return (int)syscall(SYS_sched_yield);
}

// Rank 0 accesses a window of the host's, which may need the host of rank 1. Then it sends.
static void the_host_progresses(int matched) {
    static int base[1000];
    MPI_Comm hosts;
    MPI_Request request;
    MPI_Message message;
    MPI_Win win;
    int value = 7, found = 0;
    // What `MPI_Comm_idup` makes is the host's, and so are its windows.
    MPI_Comm_idup(W, &hosts, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_create(base, sizeof base, sizeof *base, MPI_INFO_NULL, hosts, &win);
    MPI_Barrier(W);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        MPI_Put(&value, 1, MPI_INT, 1, 10, 1, MPI_INT, win);
        MPI_Win_unlock(1, win);
        MPI_Send(&value, 1, MPI_INT, 1, 1, W);
    } else if (matched) {
        while (!found)
            MPI_Improbe(0, 1, W, &found, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    } else {
        while (!found)
            MPI_Iprobe(0, 1, W, &found, MPI_STATUS_IGNORE);
        MPI_Recv(&value, 1, MPI_INT, 0, 1, W, MPI_STATUS_IGNORE);
    }
    CHECK(value == 7);
    MPI_Win_free(&win);
    CHECK(rank == 0 || base[10] == 7);
    MPI_Comm_free(&hosts);
}

static void others_run(void) {
    enum { PROBES = 4096 };
    int found = 0, before = yields;
    for (int i = 0; i < PROBES && !found; i++)
        MPI_Iprobe(MPI_ANY_SOURCE, 2, W, &found, MPI_STATUS_IGNORE);
    CHECK(!found && yields - before >= PROBES / 16);
    MPI_Request request;
    MPI_Irecv(&found, 1, MPI_INT, MPI_ANY_SOURCE, 2, W, &request);
    before = yields;
    for (int i = 0; i < 16 * PROBES && !found; i++)
        MPI_Test(&request, &found, MPI_STATUS_IGNORE);
    CHECK(!found && yields - before >= PROBES / 64);
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    // Both ranks take turns on one processor, as far as the front knows.
    setenv("STRAIT_CPUS", "1", 1);
    begin(&argc, &argv);
    the_host_progresses(0);
    the_host_progresses(1);
    others_run();
    return end();
}
