// Waits in windows while other things go on: operations of the host's, messages, other threads.
#include "check.h"
#include <pthread.h>

enum { LARGE = 1 << 18 };

static MPI_Win win;
static int *base;

// A rank that waits for a fence lets the host's operations go on, and messages.
static void fence(void) {
    static int own[LARGE], sum[LARGE], message[LARGE];
    MPI_Request request[2];
    for (int i = 0; i < LARGE; i++)
        own[i] = rank + i;
    for (int turn = 0; turn < 3; turn++) {
        MPI_Iallreduce(own, sum, LARGE, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request[0]);
        if (rank == 0) {
            MPI_Isend(own, LARGE, MPI_INT, 1, 0, MPI_COMM_WORLD, &request[1]);
            MPI_Win_fence(0, win);
            MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        } else {
            MPI_Wait(&request[0], MPI_STATUS_IGNORE);
            if (rank == 1) {
                MPI_Recv(message, LARGE, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                CHECK(message[LARGE - 1] == LARGE - 1);
            }
            MPI_Win_fence(0, win);
        }
        CHECK(sum[5] == size * (size - 1) / 2 + 5 * size);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
}

static void *write_to_1(void *nothing) {
    int value = 77;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
    MPI_Put(&value, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
    MPI_Win_unlock(1, win);
    return nothing;
}

// One thread waits for a lock, which its holder keeps until another thread of this rank sends.
static void threads(void) {
    int word = 5;
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        base[0] = 1;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(base[0] == 1);
        MPI_Win_unlock(1, win);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, write_to_1, NULL);
        usleep(20000);
        MPI_Send(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        pthread_join(thread, NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        CHECK(base[0] == 77);
        MPI_Win_unlock(1, win);
    }
}

int main(int argc, char **argv) {
    int level;
    MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &size);
    alarm(100);
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    fence();
    if (level == MPI_THREAD_MULTIPLE)
        for (int turn = 0; turn < 5; turn++)
            threads();
    MPI_Win_free(&win);
    return end();
}
