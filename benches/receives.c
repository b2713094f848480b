// How a receiver copies a large message fastest out of memory that another processor fills.
//
//   cc -O2 -pthread benches/receives.c -o target/receives && target/receives
//
// Two threads run, each bound to a processor, at real-time priority where the system allows it. One
// fills a ring of 1 MiB by `rep movsb`, in chunks of 32 KiB. The other copies each chunk out. A line
// of output is one way to copy: the time of a message of 512 KiB in microseconds, by batch. `hot`:
// all messages go into one buffer. `cold`: each goes into its own, and those take 128 MiB.
//
// - `registers`: loads and stores of 32 bytes.
// - `source`, `destination`: they prefetch the lines of one side as well, 4 and 2 KiB ahead.
// - `string`: `rep movsb`.
// - `non-temporal`: loads of 32 bytes, and stores round the caches.

#define _GNU_SOURCE
#include <immintrin.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "two_threads.h"

enum {
  LINE = 64,
  CHUNK = 32 * 1024,
  MESSAGE = 512 * 1024,
  RING = 1 << 20,
  BUFFERS = 128 << 20,
  MESSAGES = 200,
  BATCHES = 5,
  READ_AHEAD = 4096,
  WRITE_AHEAD = 2048,
};

static _Alignas(LINE) _Atomic uint64_t filled, emptied;
static char *ring, *source, *buffers;

static void string(char *to, const char *from) {
  size_t left = CHUNK;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left) : : "memory");
}

// Copies two lines, and prefetches two lines of either side if that is so far ahead.
#define TWO_LINES(STORE, READ, WRITE)                                                              \
  for (size_t at = 0; at < CHUNK; at += 2 * LINE) {                                                \
    for (size_t line = 0; READ && at + READ < CHUNK && line < 2 * LINE; line += LINE)              \
      _mm_prefetch(from + at + READ + line, _MM_HINT_T0);                                          \
    for (size_t line = 0; WRITE && line < 2 * LINE; line += LINE)                                  \
      __builtin_prefetch(to + at + WRITE + line, 1);                                               \
    __m256i parts[4];                                                                              \
    for (size_t part = 0; part < 4; part++)                                                        \
      parts[part] = _mm256_loadu_si256((const __m256i *)(from + at) + part);                       \
    for (size_t part = 0; part < 4; part++)                                                        \
      STORE((__m256i *)(to + at) + part, parts[part]);                                             \
    __asm__ volatile("" ::: "memory");                                                             \
  }

#define COPY(NAME, STORE, READ, WRITE)                                                             \
  __attribute__((target("avx2"))) static void NAME(char *to, const char *from) {                   \
    TWO_LINES(STORE, READ, WRITE)                                                                  \
  }

COPY(registers, _mm256_storeu_si256, 0, 0)
COPY(reading, _mm256_storeu_si256, READ_AHEAD, 0)
COPY(fetching, _mm256_storeu_si256, 0, WRITE_AHEAD)
COPY(streaming, _mm256_stream_si256, 0, 0)

static void non_temporal(char *to, const char *from) {
  streaming(to, from);
  _mm_sfence();
}

static const struct way {
  const char *name;
  void (*copy)(char *, const char *);
} ways[] = {
    {"registers", registers}, {"source", reading},           {"destination", fetching},
    {"string", string},       {"non-temporal", non_temporal},
};

enum { WAYS = sizeof ways / sizeof *ways, TURNS = 2 * WAYS * BATCHES };

static void *sender(void *unused) {
  bind_to(1);
  for (uint64_t at = 0; at < (uint64_t)TURNS * MESSAGES * MESSAGE; at += CHUNK) {
    while (at + CHUNK > RING + atomic_load_explicit(&emptied, memory_order_acquire))
      _mm_pause();
    string(ring + at % RING, source + at % MESSAGE);
    atomic_store_explicit(&filled, at + CHUNK, memory_order_release);
  }
  return unused;
}

static void receive(uint64_t *at, const struct way *way, char *to) {
  for (size_t offset = 0; offset < MESSAGE; offset += CHUNK, *at += CHUNK) {
    while (atomic_load_explicit(&filled, memory_order_acquire) < *at + CHUNK)
      _mm_pause();
    way->copy(to + offset, ring + *at % RING);
    atomic_store_explicit(&emptied, *at + CHUNK, memory_order_release);
  }
}

int main(void) {
  ring = memory(RING);
  source = memory(MESSAGE);
  buffers = memory(BUFFERS);
  if (!ring || !source || !buffers)
    return 1;
  double times[2][WAYS][BATCHES];
  uint64_t at = 0;
  pthread_t thread;
  pthread_create(&thread, NULL, sender, NULL);
  bind_to(0);
  for (int batch = 0; batch < BATCHES; batch++) {
    for (int cold = 0; cold < 2; cold++) {
      for (int way = 0; way < WAYS; way++) {
        double start = now();
        for (size_t k = 0; k < MESSAGES; k++)
          receive(&at, &ways[way], buffers + (cold ? k * MESSAGE % BUFFERS : 0));
        times[cold][way][batch] = (now() - start) / MESSAGES / 1e3;
      }
    }
  }
  pthread_join(thread, NULL);
  for (int cold = 0; cold < 2; cold++) {
    for (int way = 0; way < WAYS; way++) {
      printf("%s, %s:", cold ? "cold" : "hot", ways[way].name);
      for (int batch = 0; batch < BATCHES; batch++)
        printf(" %.1f", times[cold][way][batch]);
      printf("\n");
    }
  }
  return 0;
}
