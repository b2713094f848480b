// What the programs of this folder share that run two threads, each bound to a processor.

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { REAL_TIME = 50 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

// Binds the thread to a processor, at real-time priority where the system allows it.
static void bind_to(size_t processor) {
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(processor, &own);
  sched_setaffinity(0, sizeof own, &own);
  struct sched_param real_time = {.sched_priority = REAL_TIME};
  sched_setscheduler(0, SCHED_FIFO, &real_time);
}

// Returns memory in pages that have been touched, or NULL.
static char *memory(size_t bytes) {
  void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED)
    return NULL;
  memset(start, 1, bytes);
  return start;
}
