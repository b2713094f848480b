// Patterns of any number of ranks, which take turns on the processors where there are too few.

#include <string.h>

#include "harness.h"

enum { NEIGHBOURS = 4, FACE_BYTES = 64 * KIB };

// A message that every rank passes on. A step is one message.
static double pass_on(size_t bytes, int count, int from) {
  int next = (rank + 1) % ranks;
  double start = now();
  for (int i = 0; i < count / ranks; i++) {
    if (rank == 0)
      send_to(out, bytes, next, TAG);
    receive_from(in, bytes, from, TAG);
    if (rank != 0)
      send_to(out, bytes, next, TAG);
  }
  return now() - start;
}

static double ring(size_t bytes, int count) {
  return pass_on(bytes, count, (rank + ranks - 1) % ranks);
}

static double ring_any(size_t bytes, int count) { return pass_on(bytes, count, ANY_SENDER); }

// Workers ask rank 0 for work, which answers in the order in which they ask.
static double master_and_workers(size_t bytes, int count) {
  int each = count / (ranks - 1);
  double start = now();
  if (rank == 0) {
    for (int i = 0; i < each * (ranks - 1); i++) {
      int worker;
      receive_from(in, bytes, ANY_SENDER, TAG);
      memcpy(&worker, in, sizeof worker);
      send_to(out, bytes, worker, TAG_ANSWER);
    }
  } else {
    memcpy(out, &rank, sizeof rank);
    for (int i = 0; i < each; i++) {
      send_to(out, bytes, 0, TAG);
      receive_from(in, bytes, 0, TAG_ANSWER);
    }
  }
  barrier();
  return now() - start;
}

// All ranks send to rank 0, which receives from any.
static double incast(size_t bytes, int count) {
  int each = count / (ranks - 1);
  double start = now();
  if (rank == 0) {
    for (int i = 0; i < each * (ranks - 1); i++)
      receive_from(in, bytes, ANY_SENDER, TAG);
  } else {
    for (int i = 0; i < each; i++)
      send_to(out, bytes, 0, TAG);
  }
  barrier();
  return now() - start;
}

// The faces of a two-dimensional grid with wrap-around, all four directions at once.
static double halo(size_t bytes, int count) {
  int columns = 1;
  while ((columns + 1) * (columns + 1) <= ranks)
    columns++;
  while (ranks % columns)
    columns--;
  int lines = ranks / columns, x = rank % columns, y = rank / columns;
  int neighbour[NEIGHBOURS] = {
      y * columns + (x + 1) % columns,
      y * columns + (x + columns - 1) % columns,
      (y + 1) % lines * columns + x,
      (y + lines - 1) % lines * columns + x,
  };
  static const int opposite[NEIGHBOURS] = {1, 0, 3, 2};
  request r[2 * NEIGHBOURS];
  double start = now();
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < NEIGHBOURS; k++)
      start_receive(in + k * FACE_BYTES, bytes, neighbour[k], opposite[k], &r[k]);
    for (int k = 0; k < NEIGHBOURS; k++)
      start_send(out + k * FACE_BYTES, bytes, neighbour[k], k, &r[NEIGHBOURS + k]);
    wait_all(2 * NEIGHBOURS, r);
  }
  return now() - start;
}

// A message to oneself, received by a request from before.
static double to_oneself(size_t bytes, int count) { return exchange_with(rank, bytes, count); }

static double barriers(size_t bytes, int count) {
  (void)bytes;
  double start = now();
  for (int i = 0; i < count; i++)
    barrier();
  return now() - start;
}

static double sums(size_t bytes, int count) {
  (void)bytes;
  long own = 1, sum;
  double start = now();
  for (int i = 0; i < count; i++)
    sum_of_all(&own, &sum);
  return now() - start;
}

static double broadcasts(size_t bytes, int count) {
  double start = now();
  for (int i = 0; i < count; i++) {
    broadcast(out, bytes, 0);
    broadcast(out, bytes, 1);
  }
  return now() - start;
}

void many_rows(void) {
  int count = 800 / ranks * ranks;
  count = count > 0 ? count : ranks;
  const struct row rows[] = {
      {"ring_8", ring, 8, count, 1},
      {"ringany_8", ring_any, 8, count, 1},
      {"masterworker_8", master_and_workers, 8, count, 1},
      {"barrier", barriers, 0, count / 4, 1},
      {"incast_8", incast, 8, 4 * count, 1},
      {"incast_1K", incast, KIB, 4 * count, 1},
      {"halo_1K", halo, KIB, count / 8, 1},
      {"halo_16K", halo, 16 * KIB, count / 8, 1},
      {"self_8", to_oneself, 8, count, 1},
      {"self_1K", to_oneself, KIB, count / 4, 1},
      {"self_16K", to_oneself, 16 * KIB, count / 8, 1},
      {"self_1M", to_oneself, KIB * KIB, count / 256, 1},
      {"allreduce8", sums, 8, count / 4, 1},
      {"bcast8", broadcasts, 8, count / 4, 2},
  };
  MEASURE(rows);
}
