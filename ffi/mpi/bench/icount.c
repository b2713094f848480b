// The program with the counted calls of MPI, behind the front. docs/instruction-count.md describes the
// method. Two ranks run, and the calls of rank 0 count. They never wait: the other rank has sent what
// rank 0 receives before, and receives what it sends afterwards.

#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

enum { CALLS = 500 }; // Number of warm-up calls, and of counted calls, of each operation.

static char data[64];
static MPI_Win window;
static MPI_Request pending;

// Shared by the ranks: how often the other rank was ready, and how often rank 0 has called.
static _Atomic long *ready, *called;

static void receive(int bytes) {
  MPI_Recv(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void receive_any(int bytes) {
  MPI_Recv(data, bytes, MPI_BYTE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void send(int bytes) { MPI_Send(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD); }

static void irecv_wait(int bytes) {
  MPI_Request request;
  MPI_Irecv(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void isend_wait(int bytes) {
  MPI_Request request;
  MPI_Isend(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void cancel_wait(int bytes) {
  MPI_Request request;
  MPI_Irecv(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void test_pending(void) {
  int index, flag;
  MPI_Testany(1, &pending, &index, &flag, MPI_STATUS_IGNORE);
}

static void put_flush(int bytes) {
  MPI_Put(data, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
  MPI_Win_flush(1, window);
}

static void fetch_flush(int bytes) {
  (void)bytes;
  long one = 1, found;
  MPI_Fetch_and_op(&one, &found, MPI_LONG, 1, 0, MPI_SUM, window);
  MPI_Win_flush(1, window);
}

static void accumulate_flush(int bytes) {
  (void)bytes;
  long one = 1;
  MPI_Accumulate(&one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, window);
  MPI_Win_flush(1, window);
}

static void swap_flush(int bytes) {
  (void)bytes;
  long zero = 0, found;
  MPI_Compare_and_swap(&zero, &zero, &found, MPI_LONG, 1, 0, window);
  MPI_Win_flush(1, window);
}

static void lock_put_unlock(int bytes) {
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
  MPI_Put(data, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
  MPI_Win_unlock(1, window);
}

// Defines an operation twice: the second function is called for the warm-up.
#define COUNTED(name, call)                                                                        \
  __attribute__((noinline)) void strait_icount_mpi_##name(void) { call; }                          \
  __attribute__((noinline)) void warm_##name(void) { call; }

COUNTED(recv_8, receive(8))
COUNTED(send_8, send(8))
COUNTED(answer_recv_8, receive(8))
COUNTED(answer_send_8, send(8))
COUNTED(recv_64, receive(64))
COUNTED(send_64, send(64))
COUNTED(recv_any_8, receive_any(8))
COUNTED(irecv_wait_8, irecv_wait(8))
COUNTED(isend_wait_8, isend_wait(8))
COUNTED(cancel_wait, cancel_wait(8))
COUNTED(testany_pending, test_pending())
COUNTED(put_flush_8, put_flush(8))
COUNTED(fetch_flush, fetch_flush(8))
COUNTED(accumulate_flush, accumulate_flush(8))
COUNTED(swap_flush, swap_flush(8))
COUNTED(lock_put_unlock_8, lock_put_unlock(8))

// One or two operations in a row, and the bytes that the other rank sends before and receives after.
struct row {
  void (*warm[2])(void), (*counted[2])(void);
  int sent, received;
};

#define ONE(name, sent, received) {{warm_##name}, {strait_icount_mpi_##name}, sent, received}

static const struct row messages[] = {
    ONE(recv_8, 8, 0),
    ONE(send_8, 0, 8),
    {{warm_answer_recv_8, warm_answer_send_8},
     {strait_icount_mpi_answer_recv_8, strait_icount_mpi_answer_send_8},
     8,
     8},
    ONE(recv_64, 64, 0),
    ONE(send_64, 0, 64),
    ONE(recv_any_8, 8, 0),
    ONE(irecv_wait_8, 8, 0),
    ONE(isend_wait_8, 0, 8),
    ONE(cancel_wait, 0, 0),
};
static const struct row with_a_receive[] = {ONE(testany_pending, 0, 0)};
static const struct row in_an_epoch[] = {ONE(put_flush_8, 0, 0), ONE(fetch_flush, 0, 0),
                                         ONE(accumulate_flush, 0, 0), ONE(swap_flush, 0, 0)};
static const struct row with_a_lock[] = {ONE(lock_put_unlock_8, 0, 0)};

static void wait_for(_Atomic long *place, long value) {
  while (atomic_load_explicit(place, memory_order_acquire) < value)
    sched_yield();
}

static long turns;

static void call(int rank, const struct row *row, void (*const functions[2])(void)) {
  turns++;
  if (rank == 0) {
    wait_for(ready, turns);
    functions[0]();
    if (functions[1])
      functions[1]();
    atomic_store_explicit(called, turns, memory_order_release);
    return;
  }
  if (row->sent)
    MPI_Send(data, row->sent, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  atomic_store_explicit(ready, turns, memory_order_release);
  wait_for(called, turns);
  if (row->received)
    MPI_Recv(data, row->received, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void count(int rank, const struct row *rows, size_t number) {
  for (size_t i = 0; i < number; i++) {
    for (int turn = 0; turn < CALLS; turn++)
      call(rank, &rows[i], rows[i].warm);
    for (int turn = 0; turn < CALLS; turn++)
      call(rank, &rows[i], rows[i].counted);
  }
}

#define COUNT(rows) count(rank, rows, sizeof rows / sizeof *rows)

int main(int argc, char **argv) {
  int rank, unit;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Win words;
  MPI_Aint bytes;
  MPI_Win_allocate_shared(128, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &ready, &words);
  MPI_Win_shared_query(words, 0, &bytes, &unit, &ready);
  called = ready + 8;
  void *base;
  MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
  MPI_Barrier(MPI_COMM_WORLD);
  COUNT(messages);
  if (rank == 0)
    MPI_Irecv(data, 8, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &pending);
  COUNT(with_a_receive);
  if (rank == 0)
    MPI_Wait(&pending, MPI_STATUS_IGNORE);
  else
    MPI_Send(data, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window);
  COUNT(in_an_epoch);
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  COUNT(with_a_lock);
  MPI_Win_free(&window);
  MPI_Win_free(&words);
  MPI_Finalize();
  return 0;
}
