// Operations on the window of rank 1, and their synchronisation.
//
// Rank 0's time ends before the barrier of a batch: a passive target takes no part.

#include <string.h>

#include "harness.h"

enum { WINDOW_BYTES = 4 * MIB };

// The time for which a busy target computes, outside the library, in nanoseconds.
static const double BUSY_NS = 5e6;

static const long one = 1, zero = 0;
static long before;

// The operations on the target, each complete there when it returns.
static void put_flush(size_t bytes) {
  put(out, bytes, 1);
  flush(1);
}

static void get_flush(size_t bytes) {
  get(in, bytes, 1);
  flush(1);
}

static void accumulate_flush(size_t bytes) {
  if (bytes == sizeof one)
    accumulate(&one, 1, 1);
  else
    accumulate((const long *)(void *)out, bytes / sizeof(long), 1);
  flush(1);
}

static void fetch_flush(size_t bytes) {
  (void)bytes;
  fetch_and_add(&one, &before, 1);
  flush(1);
}

static void swap_flush(size_t bytes) {
  (void)bytes;
  compare_and_swap(&one, &zero, &before, 1);
  flush(1);
}

static void exclusive(size_t bytes) {
  lock_exclusive(1);
  if (bytes > 0)
    put(out, bytes, 1);
  unlock(1);
}

static void shared(size_t bytes) {
  (void)bytes;
  lock_shared(1);
  unlock(1);
}

// Rank 0 repeats the operation; rank 1 waits in a barrier, or computes first.
static inline double by_origin(void (*operation)(size_t), size_t bytes, int count, int busy) {
  if (busy)
    barrier();
  double start = now();
  for (int i = 0; rank == 0 && i < count; i++)
    operation(bytes);
  if (busy && rank == 1)
    compute(BUSY_NS);
  double time = now() - start;
  barrier();
  return time;
}

// An epoch of rank 0 to all ranks with many operations.
static inline double in_epoch(void (*operation)(size_t), size_t bytes, int count) {
  double start = now();
  if (rank == 0) {
    lock_all();
    for (int i = 0; i < count; i++)
      operation(bytes);
    unlock_all();
  }
  double time = now() - start;
  barrier();
  return time;
}

static double stores(size_t bytes, int count) { return in_epoch(put_flush, bytes, count); }
static double loads(size_t bytes, int count) { return in_epoch(get_flush, bytes, count); }
static double sums(size_t bytes, int count) { return in_epoch(accumulate_flush, bytes, count); }
static double fetches(size_t bytes, int count) { return in_epoch(fetch_flush, bytes, count); }
static double swaps(size_t bytes, int count) { return in_epoch(swap_flush, bytes, count); }

static double exclusives(size_t bytes, int count) { return by_origin(exclusive, bytes, count, 0); }
static double shareds(size_t bytes, int count) { return by_origin(shared, bytes, count, 0); }
static double exclusives_busy(size_t bytes, int count) {
  return by_origin(exclusive, bytes, count, 1);
}

// Accumulates under one shared lock while the target computes.
static double sums_busy(size_t bytes, int count) {
  barrier();
  double start = now();
  if (rank == 0) {
    lock_shared(1);
    for (int i = 0; i < count; i++)
      accumulate_flush(bytes);
    unlock(1);
  } else {
    compute(BUSY_NS);
  }
  double time = now() - start;
  barrier();
  return time;
}

// Both ranks take the lock of rank 0.
static double contended(size_t bytes, int count) {
  (void)bytes;
  double start = now();
  for (int i = 0; i < count; i++) {
    lock_exclusive(0);
    unlock(0);
  }
  double time = now() - start;
  barrier();
  return time;
}

static double fences(size_t bytes, int count) {
  // A put needs an epoch, and its row may be the only one.
  fence();
  double start = now();
  for (int i = 0; i < count; i++) {
    if (bytes > 0)
      put(out, bytes, 1 - rank);
    fence();
  }
  return now() - start;
}

// Both ranks are origin and target of an empty epoch.
static double epochs_both(size_t bytes, int count) {
  (void)bytes;
  int peer = 1 - rank;
  double start = now();
  for (int i = 0; i < count; i++) {
    window_post(peer);
    window_start(peer);
    window_complete();
    window_wait();
  }
  return now() - start;
}

// Rank 0 puts into rank 1, in an epoch for each put.
static double epochs_put(size_t bytes, int count) {
  double start = now();
  for (int i = 0; i < count; i++) {
    if (rank == 0) {
      window_start(1);
      put(out, bytes, 1);
      window_complete();
    } else {
      window_post(0);
      window_wait();
    }
  }
  return now() - start;
}

void one_sided_rows(void) {
  static const struct row rows[] = {
      {"put8", stores, 8, 2000, 1},
      {"get8", loads, 8, 2000, 1},
      {"acc8", sums, 8, 1000, 1},
      {"fop8", fetches, 8, 1000, 1},
      {"cas8", swaps, 8, 1000, 1},
      {"put_4K", stores, 4 * KIB, 400, 1},
      {"put_64K", stores, 64 * KIB, 60, 1},
      {"put_1M", stores, MIB, 8, 1},
      {"get_64K", loads, 64 * KIB, 60, 1},
      {"get_1M", loads, MIB, 8, 1},
      {"acc_4K", sums, 4 * KIB, 200, 1},
      {"lockx", exclusives, 0, 500, 1},
      {"locks", shareds, 0, 500, 1},
      {"lockxput", exclusives, 8, 500, 1},
      {"lock_contended", contended, 0, 300, 1},
      {"lockx_computing", exclusives_busy, 0, 10, 1},
      {"lockxput_computing", exclusives_busy, 8, 10, 1},
      {"acc_computing", sums_busy, 8, 10, 1},
      {"fence", fences, 0, 500, 1},
      {"fenceput", fences, 8, 500, 1},
      {"pscw", epochs_both, 0, 500, 1},
      {"pscw1", epochs_put, 8, 500, 1},
  };
  window_make(WINDOW_BYTES);
  memset(window_memory, 0, WINDOW_BYTES);
  barrier();
  MEASURE(rows);
  window_drop();
}
