// Threads that send and receive at once, at the level MPI_THREAD_MULTIPLE.
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, TURNS = 300 };

static void *work(void *argument) {
    int number = (int)(long)argument, other = 1 - rank;
    char *out = malloc(40000), *in = malloc(40000);
    for (int turn = 0; turn < TURNS; turn++) {
        int n = turn % 50 == 7 ? 40000 : 8 + turn % 90;
        MPI_Request request[2];
        fill(out, n, number + turn);
        MPI_Irecv(in, n, MPI_BYTE, other, number, MPI_COMM_WORLD, &request[0]);
        if (turn % 3) {
            MPI_Isend(out, n, MPI_BYTE, other, number, MPI_COMM_WORLD, &request[1]);
            MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        } else {
            MPI_Send(out, n, MPI_BYTE, other, number, MPI_COMM_WORLD);
            MPI_Wait(&request[0], MPI_STATUS_IGNORE);
        }
        CHECK(is_filled(in, n, number + turn));
    }
    free(out), free(in);
    return NULL;
}

// Messages of a thread to itself, which wait for nobody: the calls of the threads meet all the time.
static void *alone(void *argument) {
    int number = (int)(long)argument;
    char out[16], in[16];
    for (int turn = 0; turn < TURNS * 200; turn++) {
        MPI_Request request[2];
        fill(out, sizeof out, number + turn);
        MPI_Irecv(in, sizeof in, MPI_BYTE, rank, number, MPI_COMM_WORLD, &request[0]);
        MPI_Isend(out, sizeof out, MPI_BYTE, rank, number, MPI_COMM_WORLD, &request[1]);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        CHECK(is_filled(in, sizeof in, number + turn));
    }
    return NULL;
}

static MPI_Comm comms[THREADS];
static MPI_Op sum;

// An operation of the program may call MPI.
static void add(void *left, void *right, int *length, MPI_Datatype *type) {
    int size, own;
    MPI_Request request[2];
    char out = 1, in = 0;
    MPI_Type_size(*type, &size);
    CHECK(size == sizeof(int));
    MPI_Comm_rank(MPI_COMM_SELF, &own);
    MPI_Irecv(&in, 1, MPI_BYTE, 0, 99, MPI_COMM_SELF, &request[0]);
    MPI_Isend(&out, 1, MPI_BYTE, 0, 99, MPI_COMM_SELF, &request[1]);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < *length; i++)
        ((int *)right)[i] += ((int *)left)[i];
}

// Collective operations of each thread in a communicator of its own, beside messages.
static void *together(void *argument) {
    int number = (int)(long)argument, other = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int turn = 0; turn < TURNS; turn++) {
        int own = rank + turn, all = 0, came = 0, root = turn % size;
        MPI_Request request[2];
        MPI_Irecv(&came, 1, MPI_INT, before, number, MPI_COMM_WORLD, &request[0]);
        MPI_Isend(&own, 1, MPI_INT, other, number, MPI_COMM_WORLD, &request[1]);
        MPI_Allreduce(&own, &all, 1, MPI_INT, turn % 3 ? MPI_SUM : sum, comms[number]);
        CHECK(all == size * turn + size * (size - 1) / 2);
        MPI_Bcast(&all, 1, MPI_INT, root, comms[number]);
        MPI_Barrier(comms[number]);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
        CHECK(came == before + turn);
    }
    return NULL;
}

static MPI_Win windows[THREADS];
static int *parts[THREADS];

// Each thread synchronises on a window of its own, from the first fence on.
static void *fences(void *argument) {
    int number = (int)(long)argument, other = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int turn = 0; turn < TURNS; turn++) {
        int value = 1000 * rank + turn + number;
        MPI_Win_fence(0, windows[number]);
        MPI_Put(&value, 1, MPI_INT, other, 0, 1, MPI_INT, windows[number]);
        MPI_Win_fence(0, windows[number]);
        CHECK(*parts[number] == 1000 * before + turn + number);
    }
    return NULL;
}

static void run(void *(*function)(void *)) {
    pthread_t thread[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, function, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

int main(int argc, char **argv) {
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &size);
    alarm(100);
    if (level == MPI_THREAD_MULTIPLE && rank < 2)
        run(work);
    if (level == MPI_THREAD_MULTIPLE && rank == 0)
        run(alone);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    MPI_Op_create(add, 1, &sum);
    if (level == MPI_THREAD_MULTIPLE)
        run(together);
    else
        together(0);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Op_free(&sum);
    for (int i = 0; i < THREADS; i++)
        MPI_Win_allocate(sizeof(int), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &parts[i], &windows[i]);
    if (level == MPI_THREAD_MULTIPLE)
        run(fences);
    for (int i = 0; i < THREADS; i++)
        MPI_Win_free(&windows[i]);
    return end();
}
