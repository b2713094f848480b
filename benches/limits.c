// What two processors can do without any library: the limits of some rows of docs/patterns.md.
//
//   cc -O2 -pthread benches/limits.c -o target/limits && target/limits
//
// Two threads run, each bound to a processor, at real-time priority where the system allows it. Each
// line of output is a case and its batches: the time of one message in nanoseconds, and in brackets
// the time of a cache line from one processor to the other before the batch.
//
// - `stream`: messages in one direction, through a ring of cache lines with a header for each
//   message. `cached`: plain stores. `nt`: non-temporal stores, and a fence for each message.
//   `nt by 4`: a fence for each four messages, which become visible together. `string`: the
//   instruction `rep movsb`. The receiver copies by plain loads and stores.
// - `read`: one copy of 1 MiB by the kernel (`process_vm_readv`), made by one side alone. A message
//   moves at this speed while one side computes.

#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "two_threads.h"

enum {
  LINE = 64,
  SHORT = 1024,
  LONGEST = 64 * 1024,
  BYTES = 3200 * SHORT,
  BATCHES = 9,
  WARM_UP = 2,
  ROUNDS = 400,
  LARGE = 1 << 20,
  RING = 1 << 20,
};

enum stores { CACHED, NON_TEMPORAL, BY_FOUR, STRING };

static const char *const names[] = {"cached", "nt", "nt by 4", "string"};

static _Alignas(LINE) _Atomic uint64_t bounce, taken, finished;
static _Alignas(LINE) char from[LONGEST], to[LONGEST];
static char *ring, *large[2];
static size_t slots, message, count;
static enum stores stores;
static pthread_barrier_t together;

// Bounces a line between the sides 0 and 1. Returns its time one way.
static double line(uint64_t side) {
  double start = now();
  for (uint64_t turn = 1; turn <= 2 * ROUNDS; turn++) {
    if (turn % 2 == side)
      while (atomic_load_explicit(&bounce, memory_order_acquire) != turn) {
      }
    else
      atomic_store_explicit(&bounce, turn, memory_order_release);
  }
  return (now() - start) / (2 * ROUNDS);
}

static _Atomic uint64_t *header(uint64_t number) {
  return (_Atomic uint64_t *)(ring + number % slots * (LINE + message));
}

// Copies a message by plain loads and stores.
#ifdef __x86_64__
__attribute__((target("avx")))
#endif
static void copy(char *place, const char *source) {
#ifdef __x86_64__
  for (size_t at = 0; at < message; at += 2 * LINE) {
    __m256i parts[4];
    for (size_t part = 0; part < 4; part++)
      parts[part] = _mm256_loadu_si256((const __m256i *)(source + at) + part);
    for (size_t part = 0; part < 4; part++)
      _mm256_storeu_si256((__m256i *)(place + at) + part, parts[part]);
    // The compiler must not make a call of it.
    __asm__ volatile("" ::: "memory");
  }
#else
  memcpy(place, source, message);
#endif
}

static void store(char *place) {
#ifdef __x86_64__
  if (stores == STRING) {
    const char *source = from;
    size_t left = message;
    __asm__ volatile("rep movsb" : "+D"(place), "+S"(source), "+c"(left) : : "memory");
    return;
  }
#endif
#ifdef __SSE2__
  if (stores != CACHED) {
    for (size_t at = 0; at < message; at += sizeof(__m128i))
      _mm_stream_si128((__m128i *)(place + at), _mm_load_si128((const __m128i *)(from + at)));
    return;
  }
#endif
  copy(place, from);
}

static void fence(void) {
#ifdef __SSE2__
  if (stores == NON_TEMPORAL || stores == BY_FOUR)
    _mm_sfence();
#endif
}

static void send_all(uint64_t first) {
  uint64_t group = stores == BY_FOUR ? 4 : 1;
  for (uint64_t number = first; number < first + count; number++) {
    while (number >= slots + atomic_load_explicit(&taken, memory_order_acquire)) {
    }
    store((char *)header(number) + LINE);
    if ((number + 1) % group != 0)
      continue;
    fence();
    for (uint64_t one = number + 1 - group; one <= number; one++)
      atomic_store_explicit(header(one), one + 1, memory_order_release);
  }
}

static void receive_all(uint64_t first) {
  uint64_t credit = slots / 4 ? slots / 4 : 1;
  for (uint64_t number = first; number < first + count; number++) {
    while (atomic_load_explicit(header(number), memory_order_acquire) != number + 1) {
    }
    copy(to, (const char *)header(number) + LINE);
    if ((number + 1) % credit == 0)
      atomic_store_explicit(&taken, number + 1, memory_order_release);
  }
  atomic_store_explicit(&finished, first + count, memory_order_release);
}

static void *receiver(void *unused) {
  bind_to(1);
  for (uint64_t batch = 0; batch < BATCHES; batch++) {
    pthread_barrier_wait(&together);
    line(1);
    receive_all(batch * count);
    pthread_barrier_wait(&together);
  }
  return unused;
}

static void stream(size_t bytes, size_t of_slots, enum stores by) {
  message = bytes;
  count = BYTES / bytes;
  slots = of_slots;
  stores = by;
  memset(ring, 0, RING);
  taken = finished = 0;
  pthread_t thread;
  pthread_create(&thread, NULL, receiver, NULL);
  size_t size = slots * (LINE + message) / 1024;
  printf("stream of %zu KiB, ring of %zu KiB, %s:", message / 1024, size, names[by]);
  for (uint64_t batch = 0; batch < BATCHES; batch++) {
    bounce = 0;
    pthread_barrier_wait(&together);
    double bare = line(0), start = now();
    send_all(batch * count);
    while (atomic_load_explicit(&finished, memory_order_acquire) != (batch + 1) * count) {
    }
    if (batch >= WARM_UP)
      printf(" %.0f (%.0f)", (now() - start) / (double)count, bare);
    pthread_barrier_wait(&together);
  }
  pthread_join(thread, NULL);
  printf("\n");
}

// The other side writes the message before each copy, as a program does.
static void *writer(void *unused) {
  bind_to(1);
  for (int batch = 0; batch < BATCHES; batch++) {
    pthread_barrier_wait(&together);
    line(1);
    memset(large[0], batch, LARGE);
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
  }
  return unused;
}

static void one_copy(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, writer, NULL);
  printf("read, 1 MiB:");
  for (int batch = 0; batch < BATCHES; batch++) {
    bounce = 0;
    pthread_barrier_wait(&together);
    double bare = line(0);
    pthread_barrier_wait(&together);
    struct iovec near = {large[1], LARGE}, far = {large[0], LARGE};
    double start = now();
    ssize_t bytes = process_vm_readv(getpid(), &near, 1, &far, 1, 0);
    if (batch >= WARM_UP && bytes == LARGE)
      printf(" %.0f (%.0f)", now() - start, bare);
    pthread_barrier_wait(&together);
  }
  pthread_join(thread, NULL);
  printf("\n");
}

int main(void) {
  ring = memory(RING);
  large[0] = memory(LARGE);
  large[1] = memory(LARGE);
  if (!ring || !large[0] || !large[1])
    return 1;
  bind_to(0);
  pthread_barrier_init(&together, NULL, 2);
  static const size_t rings[] = {3, 16, 64};
  for (size_t i = 0; i < sizeof rings / sizeof *rings; i++) {
    stream(SHORT, rings[i], CACHED);
    stream(SHORT, rings[i], NON_TEMPORAL);
    if (rings[i] >= 16)
      stream(SHORT, rings[i], BY_FOUR);
  }
  for (size_t bytes = 4096; bytes <= LONGEST; bytes *= 4) {
    stream(bytes, 4 * LONGEST / bytes, CACHED);
    stream(bytes, 4 * LONGEST / bytes, NON_TEMPORAL);
#ifdef __x86_64__
    stream(bytes, 4 * LONGEST / bytes, STRING);
#endif
  }
  one_copy();
  return 0;
}
