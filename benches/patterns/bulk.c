// Large messages: windows in one direction, there and back, and buffers that the program touches.

#include <stdint.h>
#include <string.h>

#include "harness.h"

enum { WINDOW = 64, PAGE = 4096, IN_FLIGHT = 4 };

// The rotating buffers of a touching program are spread over this much memory.
static const size_t SPREAD = (size_t)64 * MIB;

// `window` messages in flight in one direction, and an answer. The buffers are `stride` apart.
static double in_windows(size_t bytes, int count, int window, size_t stride) {
  request r[WINDOW];
  double start = now();
  for (int i = 0; i < count / window; i++) {
    for (int k = 0; k < window; k++) {
      if (rank == 0)
        start_send(out + (size_t)k * stride, bytes, 1, TAG, &r[k]);
      else
        start_receive(in + (size_t)k * stride, bytes, 0, TAG, &r[k]);
    }
    wait_all(window, r);
    if (rank == 0)
      receive_from(in, 4, 1, TAG_ANSWER);
    else
      send_to(out, 4, 0, TAG_ANSWER);
  }
  return now() - start;
}

static int window_of(size_t bytes) {
  return bytes >= 16 * MIB ? 2 : bytes >= 4 * MIB ? 4 : bytes >= MIB ? 16 : WINDOW;
}

// All messages of a window from and to the same buffer.
static double one_buffer(size_t bytes, int count) {
  return in_windows(bytes, count, window_of(bytes), 0);
}

// Each message of a window from and to a buffer of its own. A batch is one window.
static double own_buffers(size_t bytes, int count) {
  return in_windows(bytes, count, count, bytes);
}

static double there_and_back(size_t bytes, int count) {
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

void bandwidth_rows(void) {
  static const struct row rows[] = {
      {"bw_4K", one_buffer, 4 * KIB, 512, 1},
      {"bw_16K", one_buffer, 16 * KIB, 512, 1},
      {"bw_64K", one_buffer, 64 * KIB, 256, 1},
      {"bw_256K", one_buffer, 256 * KIB, 64, 1},
      {"bw_512K", one_buffer, 512 * KIB, 64, 1},
      {"bw_1M", one_buffer, MIB, 16, 1},
      {"bw_4M", one_buffer, 4 * MIB, 4, 1},
      {"bw_16M", one_buffer, 16 * MIB, 2, 1},
      {"bwrot_64K", own_buffers, 64 * KIB, 64, 1},
      {"bwrot_512K", own_buffers, 512 * KIB, 64, 1},
      {"bwrot_1M", own_buffers, MIB, 32, 1},
      {"bwrot_4M", own_buffers, 4 * MIB, 16, 1},
      {"ppl_64K", there_and_back, 64 * KIB, 30, 2},
      {"ppl_128K", there_and_back, 128 * KIB, 30, 2},
      {"ppl_256K", there_and_back, 256 * KIB, 30, 2},
      {"ppl_512K", there_and_back, 512 * KIB, 8, 2},
      {"ppl_1M", there_and_back, MIB, 8, 2},
      {"ppl_4M", there_and_back, 4 * MIB, 8, 2},
  };
  MEASURE(rows);
}

static void write_all(char *data, size_t bytes) { memset(data, (int)(uintptr_t)data | 1, bytes); }

static void read_all(const char *data, size_t bytes) {
  static volatile uint64_t seen;
  uint64_t sum = 0;
  for (size_t i = 0; i + 8 <= bytes; i += 64)
    sum += *(const uint64_t *)(data + i);
  seen = sum;
  (void)seen;
}

// Returns the offset of the next rotating buffer.
static size_t rotate(size_t bytes, size_t gap) {
  static size_t at;
  at += bytes + gap;
  if (at + bytes > SPREAD)
    at = 0;
  return at;
}

// The sender writes the message before it sends, the receiver reads it after.
static void pass_and_touch(char *from, char *to, size_t bytes) {
  for (int turn = 0; turn < 2; turn++) {
    if (turn == rank) {
      write_all(from, bytes);
      send_to(from, bytes, 1 - rank, TAG);
    } else {
      receive_from(to, bytes, 1 - rank, TAG);
      read_all(to, bytes);
    }
  }
}

// One buffer, which stays in the caches as far as it fits.
static double hot(size_t bytes, int count) {
  double start = now();
  for (int i = 0; i < count; i++)
    pass_and_touch(out, in, bytes);
  return now() - start;
}

// Buffers that rotate over 64 MiB.
static double cold(size_t bytes, int count) {
  double start = now();
  for (int i = 0; i < count; i++) {
    size_t at = rotate((bytes + PAGE - 1) / PAGE * PAGE, PAGE);
    pass_and_touch(out + at, in + at, bytes);
  }
  return now() - start;
}

// In one direction, four messages in flight: the sender writes each, the receiver reads each.
static double cold_stream(size_t bytes, int count) {
  request r[IN_FLIGHT];
  char *buffer[IN_FLIGHT];
  double start = now();
  for (int i = 0; i < count / IN_FLIGHT; i++) {
    for (int k = 0; k < IN_FLIGHT; k++) {
      size_t at = rotate(bytes, 0);
      if (rank == 0) {
        write_all(out + at, bytes);
        start_send(out + at, bytes, 1, TAG, &r[k]);
      } else {
        buffer[k] = in + at;
        start_receive(buffer[k], bytes, 0, TAG, &r[k]);
      }
    }
    if (rank == 0)
      wait_all(IN_FLIGHT, r);
    for (int k = 0; rank != 0 && k < IN_FLIGHT; k++) {
      wait_one(&r[k]);
      read_all(buffer[k], bytes);
    }
  }
  if (rank == 0)
    receive_from(in, 4, 1, TAG_ANSWER);
  else
    send_to(out, 4, 0, TAG_ANSWER);
  return now() - start;
}

void touched_rows(void) {
  static const struct row rows[] = {
      {"cold_8", cold, 8, 500, 2},
      {"hot_8", hot, 8, 500, 2},
      {"cold_64", cold, 64, 500, 2},
      {"hot_64", hot, 64, 500, 2},
      {"cold_1K", cold, KIB, 500, 2},
      {"hot_1K", hot, KIB, 500, 2},
      {"cold_8K", cold, 8 * KIB, 500, 2},
      {"hot_8K", hot, 8 * KIB, 500, 2},
      {"cold_64K", cold, 64 * KIB, 60, 2},
      {"hot_64K", hot, 64 * KIB, 60, 2},
      {"cold_1M", cold, MIB, 16, 2},
      {"hot_1M", hot, MIB, 16, 2},
      {"coldstream_8K", cold_stream, 8 * KIB, 256, 1},
      {"coldstream_64K", cold_stream, 64 * KIB, 256, 1},
      {"coldstream_1M", cold_stream, MIB, 32, 1},
  };
  MEASURE(rows);
}
