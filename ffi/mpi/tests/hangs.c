// A program that hangs, in the way that its first argument names. Each rank appends its process to
// the file that the second argument names. `strait why` must name the hang.
//
// Errors are returned, so that a rank that learns of another's death stays.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, other;
static char small[8];
static char large[8 << 20];

static void get_from(int source, int tag, MPI_Comm comm) {
    MPI_Recv(small, 8, MPI_BYTE, source, tag, comm, MPI_STATUS_IGNORE);
}

static void send_to(int dest, int tag, MPI_Comm comm) {
    MPI_Send(small, 8, MPI_BYTE, dest, tag, comm);
}

static MPI_Win window(void) {
    void *base;
    MPI_Win win;
    MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    return win;
}

static void large_sends(void) {
    MPI_Send(large, sizeof large, MPI_BYTE, other, 7, MPI_COMM_WORLD);
}

static void wrong_tag(void) {
    if (rank == 0)
        send_to(1, 8, MPI_COMM_WORLD);
    get_from(other, 7, MPI_COMM_WORLD);
}

static void wrong_source(void) {
    if (rank == 0)
        send_to(1, 7, MPI_COMM_WORLD);
    get_from((int[]){1, 2, 1}[rank], 7, MPI_COMM_WORLD);
}

static void wrong_communicator(void) {
    MPI_Comm halo;
    MPI_Comm_dup(MPI_COMM_WORLD, &halo);
    MPI_Comm_set_name(halo, "halo");
    if (rank == 0)
        send_to(1, 7, halo);
    get_from(other, 7, MPI_COMM_WORLD);
}

// Ranks 1 and 2 are ranks 1 and 0 of a communicator.
static void ranks_of_a_communicator(void) {
    MPI_Comm halo;
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0, -rank, &halo);
    MPI_Comm_set_name(halo, "halo");
    if (rank > 0)
        get_from(rank == 1 ? 0 : 1, 7, halo);
    else
        get_from(1, 7, MPI_COMM_WORLD);
}

static void stolen_message(void) {
    if (rank == 1)
        send_to(0, 7, MPI_COMM_WORLD);
    else
        get_from(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD);
    get_from(other, 7, MPI_COMM_WORLD);
}

static void missing_member(void) {
    if (rank < 2)
        MPI_Barrier(MPI_COMM_WORLD);
    else
        get_from(0, 7, MPI_COMM_WORLD);
}

static void missing_in_allreduce(void) {
    double one = 1, all[4096] = {0};
    if (rank < 2)
        MPI_Allreduce(MPI_IN_PLACE, all, 4096, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    else
        get_from(0, 7, MPI_COMM_WORLD);
    (void)one;
}

static void lock_order(void) {
    MPI_Win win = window();
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    MPI_Put(small, 1, MPI_BYTE, rank, 0, 1, MPI_BYTE, win);
    MPI_Win_flush(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, win);
    MPI_Put(small, 1, MPI_BYTE, other, 0, 1, MPI_BYTE, win);
    MPI_Win_unlock(other, win);
}

static void skipped_fence(void) {
    MPI_Win win = window();
    MPI_Win_fence(0, win);
    if (rank == 0)
        MPI_Win_fence(0, win);
    else
        get_from(0, 7, MPI_COMM_WORLD);
}

static void start_without_post(void) {
    MPI_Win win = window();
    MPI_Group all, peer;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &other, &peer);
    MPI_Win_start(peer, 0, win);
    MPI_Put(small, 1, MPI_BYTE, other, 0, 1, MPI_BYTE, win);
    MPI_Win_complete(win);
}

static void computing(void) {
    if (rank == 0)
        get_from(1, 7, MPI_COMM_WORLD);
    else
        sleep(600);
}

static void stopped(void) {
    if (rank == 0)
        get_from(1, 7, MPI_COMM_WORLD);
    else
        raise(SIGSTOP);
}

static void killed(void) {
    if (rank == 1)
        raise(SIGKILL);
    get_from(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD);
}

static void early_finalize(void) {
    MPI_Request request;
    if (rank == 1) {
        MPI_Isend(large, sizeof large, MPI_BYTE, 0, 8, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
        MPI_Finalize();
    } else {
        get_from(1, 7, MPI_COMM_WORLD);
    }
}

static void wait_any(void) {
    MPI_Request requests[2];
    int index;
    if (rank == 0) {
        MPI_Irecv(small, 4, MPI_BYTE, 1, 7, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(small + 4, 4, MPI_BYTE, 2, 8, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    } else {
        get_from(0, 7, MPI_COMM_WORLD);
    }
}

static void wait_all(void) {
    MPI_Request requests[2];
    MPI_Irecv(small, 4, MPI_BYTE, other, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(small + 4, 4, MPI_BYTE, other, 2, MPI_COMM_WORLD, &requests[1]);
    send_to(other, 3, MPI_COMM_WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void long_message(void) {
    if (rank == 0) {
        MPI_Send(large, 64, MPI_BYTE, 1, 7, MPI_COMM_WORLD);
        get_from(1, 7, MPI_COMM_WORLD);
    } else {
        get_from(0, 7, MPI_COMM_WORLD);
        get_from(0, 9, MPI_COMM_WORLD);
    }
}

static void probe(void) {
    MPI_Probe(other, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// Does not hang. The ranks exchange messages of lengths that they draw, and compute for a while.
static void healthy(void) {
    char *half = large + sizeof large / 2;
    MPI_Request requests[2];
    for (unsigned drawn = 1;; drawn = drawn * 1103515245 + 12345) {
        int bytes = drawn >> 8 & 0x1ffff;
        MPI_Irecv(large, 1 << 20, MPI_BYTE, other, 7, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(half, bytes, MPI_BYTE, other, 7, MPI_COMM_WORLD, &requests[1]);
        if ((drawn >> 25) % 16 == rank)
            usleep(drawn >> 28 ? 1000 : 300000);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        if ((drawn >> 20) % 8 == 0)
            MPI_Barrier(MPI_COMM_WORLD);
    }
}

#define HANG(name) {#name, name}

static const struct {
    const char *name;
    void (*act)(void);
} HANGS[] = {
    HANG(large_sends),      HANG(wrong_tag),
    HANG(wrong_source),     HANG(wrong_communicator),
    HANG(ranks_of_a_communicator),
    HANG(stolen_message),   HANG(missing_member),
    HANG(missing_in_allreduce),
    HANG(lock_order),       HANG(skipped_fence),
    HANG(start_without_post),
    HANG(computing),        HANG(stopped),
    HANG(killed),           HANG(early_finalize),
    HANG(wait_any),         HANG(wait_all),
    HANG(long_message),     HANG(probe),
    HANG(healthy),
};

int main(int argc, char **argv) {
    int threads = argc > 3 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    // Nothing that is left behind stays.
    alarm(120);
    MPI_Init_thread(&argc, &argv, threads, &threads);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = 1 - rank;
    FILE *pids = fopen(argv[2], "a");
    fprintf(pids, "%d\n", (int)getpid());
    fclose(pids);
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < sizeof HANGS / sizeof *HANGS; i++)
        if (!strcmp(HANGS[i].name, argv[1]))
            HANGS[i].act();
    // Whichever call comes back stays in the job until the job is killed.
    sleep(600);
    return 1;
}
