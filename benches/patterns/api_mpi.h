// The calls of the patterns over MPI. See api.h.

#include <mpi.h>

typedef MPI_Request request;

enum { ANY_SENDER = MPI_ANY_SOURCE };

extern MPI_Win window;

static inline void api_start(int *argc, char ***argv) {
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

static inline void api_end(void) { MPI_Finalize(); }

static inline void send_to(const void *data, size_t bytes, int peer, int tag) {
  MPI_Send(data, (int)bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD);
}

static inline void receive_from(void *data, size_t bytes, int peer, int tag) {
  MPI_Recv(data, (int)bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static inline void start_send(const void *data, size_t bytes, int peer, int tag, request *r) {
  MPI_Isend(data, (int)bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, r);
}

static inline void start_receive(void *data, size_t bytes, int peer, int tag, request *r) {
  MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, r);
}

static inline void wait_one(request *r) { MPI_Wait(r, MPI_STATUS_IGNORE); }

static inline void wait_all(int count, request *r) { MPI_Waitall(count, r, MPI_STATUSES_IGNORE); }

// Takes back a receive that no message has matched.
static inline void cancel(request *r) {
  MPI_Cancel(r);
  MPI_Wait(r, MPI_STATUS_IGNORE);
}

static inline void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }

static inline void sum_of_all(const long *own, long *sum) {
  MPI_Allreduce(own, sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
}

static inline void broadcast(void *data, size_t bytes, int root) {
  MPI_Bcast(data, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

static inline void window_make(size_t bytes) {
  MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window_memory, &window);
}

static inline void window_drop(void) { MPI_Win_free(&window); }

static inline void put(const void *data, size_t bytes, int target) {
  MPI_Put(data, (int)bytes, MPI_BYTE, target, 0, (int)bytes, MPI_BYTE, window);
}

static inline void get(void *data, size_t bytes, int target) {
  MPI_Get(data, (int)bytes, MPI_BYTE, target, 0, (int)bytes, MPI_BYTE, window);
}

static inline void accumulate(const long *data, size_t count, int target) {
  MPI_Accumulate(data, (int)count, MPI_LONG, target, 0, (int)count, MPI_LONG, MPI_SUM, window);
}

static inline void fetch_and_add(const long *data, long *before, int target) {
  MPI_Fetch_and_op(data, before, MPI_LONG, target, 0, MPI_SUM, window);
}

static inline void compare_and_swap(const long *data, const long *compare, long *before,
                                    int target) {
  MPI_Compare_and_swap(data, compare, before, MPI_LONG, target, 0, window);
}

static inline void flush(int target) { MPI_Win_flush(target, window); }

static inline void lock_all(void) { MPI_Win_lock_all(0, window); }

static inline void unlock_all(void) { MPI_Win_unlock_all(window); }

static inline void lock_exclusive(int target) {
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
}

static inline void lock_shared(int target) { MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window); }

static inline void unlock(int target) { MPI_Win_unlock(target, window); }

static inline void fence(void) { MPI_Win_fence(0, window); }

// Returns the group of one rank. The groups of ranks 0 and 1 are made once.
static inline MPI_Group group_of(int peer) {
  static MPI_Group groups[2];
  static int made;
  if (!made) {
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < 2; i++)
      MPI_Group_incl(world, 1, &i, &groups[i]);
    made = 1;
  }
  return groups[peer];
}

static inline void window_post(int peer) { MPI_Win_post(group_of(peer), 0, window); }

static inline void window_start(int peer) { MPI_Win_start(group_of(peer), 0, window); }

static inline void window_complete(void) { MPI_Win_complete(window); }

static inline void window_wait(void) { MPI_Win_wait(window); }
