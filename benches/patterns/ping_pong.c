// Messages there and back, one at a time: rank 0 reads the clock. A step is two messages.

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "harness.h"

// Blocking calls on both sides.
static double blocking(size_t bytes, int count) {
  double start = now();
  for (int i = 0; i < count; i++) {
    if (rank == 0) {
      send_to(out, bytes, 1, TAG);
      receive_from(in, bytes, 1, TAG);
    } else {
      receive_from(in, bytes, 0, TAG);
      send_to(out, bytes, 0, TAG);
    }
  }
  return now() - start;
}

// Blocking calls that receive from any rank.
static double any_source(size_t bytes, int count) {
  double start = now();
  for (int i = 0; i < count; i++) {
    if (rank == 0) {
      send_to(out, bytes, 1, TAG);
      receive_from(in, bytes, ANY_SENDER, TAG);
    } else {
      receive_from(in, bytes, ANY_SENDER, TAG);
      send_to(out, bytes, 0, TAG);
    }
  }
  return now() - start;
}

// Non-blocking calls: rank 0 posts both before it waits, rank 1 answers.
static double nonblocking(size_t bytes, int count) {
  request r[2];
  int peer = 1 - rank;
  double start = now();
  for (int i = 0; i < count; i++) {
    start_receive(in, bytes, peer, TAG, &r[0]);
    if (rank == 0) {
      start_send(out, bytes, peer, TAG, &r[1]);
      wait_all(2, r);
    } else {
      wait_one(&r[0]);
      start_send(out, bytes, peer, TAG, &r[1]);
      wait_one(&r[1]);
    }
  }
  return now() - start;
}

// Every receive is posted before its message can arrive; the sends are blocking.
static double posted_before(size_t bytes, int count) {
  request r;
  int peer = 1 - rank;
  double start = now();
  if (rank == 1)
    start_receive(in, bytes, peer, TAG, &r);
  for (int i = 0; i < count; i++) {
    if (rank == 0) {
      start_receive(in, bytes, peer, TAG, &r);
      send_to(out, bytes, peer, TAG);
      wait_one(&r);
    } else {
      wait_one(&r);
      if (i + 1 < count)
        start_receive(in, bytes, peer, TAG, &r);
      send_to(out, bytes, peer, TAG);
    }
  }
  return now() - start;
}

enum { SIZES = 4096, SHIFT = 1777, LARGEST = 4096 };

// Sizes from 8 to 4,096 bytes, evenly spread over their logarithms. Both directions differ.
static double mixed_sizes(size_t bytes, int count) {
  static uint16_t sizes[SIZES];
  (void)bytes;
  if (sizes[0] == 0) {
    srand(7);
    for (int i = 0; i < SIZES; i++)
      sizes[i] = (uint16_t)(8 * exp2(9.0 * rand() / (RAND_MAX + 1.0)));
  }
  double start = now();
  for (int i = 0; i < count; i++) {
    size_t there = sizes[i % SIZES], back = sizes[(i + SHIFT) % SIZES];
    if (rank == 0) {
      send_to(out, there, 1, TAG);
      receive_from(in, LARGEST, 1, TAG);
    } else {
      receive_from(in, LARGEST, 0, TAG);
      send_to(out, back, 0, TAG);
    }
  }
  return now() - start;
}

static double barriers(size_t bytes, int count) {
  (void)bytes;
  double start = now();
  for (int i = 0; i < count; i++)
    barrier();
  return now() - start;
}

void ping_pong_rows(void) {
  static const struct row rows[] = {
      {"pp_0", blocking, 0, 1500, 2},
      {"pp_8", blocking, 8, 1500, 2},
      {"pp_64", blocking, 64, 1500, 2},
      {"pp_128", blocking, 128, 1500, 2},
      {"pp_256", blocking, 256, 1500, 2},
      {"pp_512", blocking, 512, 1500, 2},
      {"pp_1K", blocking, KIB, 1500, 2},
      {"pp_2K", blocking, 2 * KIB, 400, 2},
      {"pp_4K", blocking, 4 * KIB, 400, 2},
      {"pp_8K", blocking, 8 * KIB, 400, 2},
      {"pp_16K", blocking, 16 * KIB, 60, 2},
      {"pp_32K", blocking, 32 * KIB, 60, 2},
      {"pp_64K", blocking, 64 * KIB, 60, 2},
      {"ppnb_8", nonblocking, 8, 1000, 2},
      {"ppnb_1K", nonblocking, KIB, 1000, 2},
      {"ppnb_64K", nonblocking, 64 * KIB, 60, 2},
      {"pppre_8", posted_before, 8, 1000, 2},
      {"pppre_1K", posted_before, KIB, 1000, 2},
      {"pppre_64K", posted_before, 64 * KIB, 60, 2},
      {"ppany_8", any_source, 8, 1000, 2},
      {"ppany_1K", any_source, KIB, 1000, 2},
      {"ppany_64K", any_source, 64 * KIB, 60, 2},
      {"ppmix_8..4096", mixed_sizes, 0, 1000, 2},
      {"barrier", barriers, 0, 1500, 1},
  };
  MEASURE(rows);
}
