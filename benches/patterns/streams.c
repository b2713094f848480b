// Blocking sends in one direction, with an answer after some number of them.

#include "harness.h"

// `every` messages, then an answer, until `count` messages have gone.
static double answered(size_t bytes, int count, int every) {
  double start = now();
  for (int i = 0; i < count / every; i++) {
    for (int k = 0; k < every; k++) {
      if (rank == 0)
        send_to(out, bytes, 1, TAG);
      else
        receive_from(in, bytes, 0, TAG);
    }
    if (rank == 0)
      receive_from(in, 4, 1, TAG_ANSWER);
    else
      send_to(out, 4, 0, TAG_ANSWER);
  }
  return now() - start;
}

// One answer at the end.
static double stream(size_t bytes, int count) { return answered(bytes, count, count); }

static double ack64(size_t bytes, int count) { return answered(bytes, count, 64); }

// Two messages there, then two back.
static double pairs(size_t bytes, int count) {
  double start = now();
  for (int i = 0; i < count / 2; i++) {
    for (int k = 0; k < 4; k++) {
      if ((k < 2) == (rank == 0))
        send_to(out, bytes, 1 - rank, TAG);
      else
        receive_from(in, bytes, 1 - rank, TAG);
    }
  }
  return now() - start;
}

void stream_rows(void) {
  static const struct row rows[] = {
      {"ack64_8", ack64, 8, 6400, 1},     {"ack64_512", ack64, 512, 3200, 1},
      {"ack2_8", pairs, 8, 2000, 1},      {"stream_8", stream, 8, 6400, 1},
      {"stream_64", stream, 64, 6400, 1}, {"stream_1K", stream, KIB, 3200, 1},
  };
  MEASURE(rows);
}

// The lengths of the streams of the cliff: a batch is 4,096 messages.
#define LENGTHS(row) row(8) row(32) row(48) row(64) row(96) row(128) row(192) row(256) row(512) \
    row(1024) row(4096)
#define BATCH(every)                                                                               \
  static double every_##every(size_t bytes, int count) { return answered(bytes, count, every); }
LENGTHS(BATCH)

// Streams of growing length: where a ring is full, a second speed shows as a cliff.
void cliff_rows(void) {
#define ROW(every)                                                                                 \
  {"ack" #every "_8", every_##every, 8, 4096 / every * every, 1},                                  \
      {"ack" #every "_64", every_##every, 64, 4096 / every * every, 1},                            \
      {"ack" #every "_1K", every_##every, KIB, 4096 / every * every, 1},
  static const struct row rows[] = {LENGTHS(ROW)};
  MEASURE(rows);
}
