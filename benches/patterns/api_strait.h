// The calls of the patterns over Strait. See api.h.

#include <stdio.h>
#include <stdlib.h>

#include "strait.h"

typedef strait_request request;

enum { ANY_SENDER = STRAIT_ANY_SOURCE };

extern strait_world world;
extern strait_group everyone;
extern strait_window window;

static inline void check_at(int code, int line) {
  if (code) {
    fprintf(stderr, "patterns: api_strait.h:%d: %s\n", line, strait_error_message());
    exit(1);
  }
}
#define check(call) check_at((call), __LINE__)

static inline void api_start(int *argc, char ***argv) {
  (void)argc, (void)argv;
  uint32_t own, all;
  check(strait_init(STRAIT_ABI, NULL, &world));
  check(strait_rank(world, &own));
  check(strait_size(world, &all));
  rank = (int)own, ranks = (int)all;
  check(strait_group_create(world, 0, NULL, 0, &everyone));
}

static inline void api_end(void) {
  check(strait_group_free(&everyone));
  check(strait_finalize(world));
}

static inline void send_to(const void *data, size_t bytes, int peer, int tag) {
  check(strait_send(world, 0, data, bytes, peer, tag));
}

static inline void receive_from(void *data, size_t bytes, int peer, int tag) {
  check(strait_recv(world, 0, data, bytes, peer, tag, NULL));
}

static inline void start_send(const void *data, size_t bytes, int peer, int tag, request *r) {
  check(strait_isend(world, 0, data, bytes, peer, tag, r));
}

static inline void start_receive(void *data, size_t bytes, int peer, int tag, request *r) {
  check(strait_irecv(world, 0, data, bytes, peer, tag, r));
}

static inline void wait_one(request *r) { check(strait_wait(r, NULL)); }

static inline void wait_all(int count, request *r) { check(strait_wait_all(count, r, NULL, NULL)); }

// Takes back a receive that no message has matched.
static inline void cancel(request *r) { check(strait_request_free(r)); }

static inline void barrier(void) { check(strait_barrier(world, 0)); }

static inline void sum_of_all(const long *own, long *sum) {
  static const strait_reduction by_sum = {
      .size = sizeof by_sum, .type = STRAIT_INT64, .op = STRAIT_SUM};
  check(strait_allreduce(everyone, own, sum, 1, &by_sum));
}

static inline void broadcast(void *data, size_t bytes, int root) {
  check(strait_broadcast(everyone, data, bytes, root));
}

static inline void window_make(size_t bytes) {
  check(strait_window_allocate(world, NULL, bytes, 1, &window));
  check(strait_window_part(window, rank, (void **)&window_memory, NULL, NULL));
}

static inline void window_drop(void) { check(strait_window_free(&window)); }

static inline void put(const void *data, size_t bytes, int target) {
  check(strait_put(window, data, bytes, target, 0));
}

static inline void get(void *data, size_t bytes, int target) {
  check(strait_get(window, data, bytes, target, 0));
}

static inline void accumulate(const long *data, size_t count, int target) {
  check(strait_accumulate(window, data, count, STRAIT_INT64, target, 0, NULL, STRAIT_SUM));
}

static inline void fetch_and_add(const long *data, long *before, int target) {
  check(strait_fetch_and_op(window, data, before, STRAIT_INT64, target, 0, STRAIT_SUM));
}

static inline void compare_and_swap(const long *data, const long *compare, long *before,
                                    int target) {
  check(strait_compare_and_swap(window, compare, data, before, STRAIT_INT64, target, 0));
}

static inline void flush(int target) { check(strait_window_flush(window, target)); }

static inline void lock_all(void) { check(strait_window_lock_all(window, 0)); }

static inline void unlock_all(void) { check(strait_window_unlock_all(window)); }

static inline void lock_exclusive(int target) {
  check(strait_window_lock(window, STRAIT_EXCLUSIVE, target, 0));
}

static inline void lock_shared(int target) {
  check(strait_window_lock(window, STRAIT_SHARED, target, 0));
}

static inline void unlock(int target) { check(strait_window_unlock(window, target)); }

static inline void fence(void) { check(strait_window_fence(window, 0)); }

static inline void window_post(int peer) {
  uint32_t origin = (uint32_t)peer;
  check(strait_window_post(window, &origin, 1, 0));
}

static inline void window_start(int peer) {
  uint32_t target = (uint32_t)peer;
  check(strait_window_start(window, &target, 1, 0));
}

static inline void window_complete(void) { check(strait_window_complete(window)); }

static inline void window_wait(void) { check(strait_window_wait(window)); }
