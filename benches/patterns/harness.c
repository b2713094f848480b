// The buffers, the clock, the bare line and the output. See harness.h.

#define _GNU_SOURCE
#include "harness.h"

#include <fcntl.h>
#include <regex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
  LINE_BYTES = 4096,
  // Round trips of one measurement of the bare line.
  LINE_ROUNDS = 400,
  WARM_UP = 2,
  BATCHES_MAX = 64,
  // Above other programs, below the threads of the kernel that must run.
  REAL_TIME = 50,
};

int rank, ranks;
char *window_memory, *out, *in;
size_t buffer_bytes;
#ifdef STRAIT
strait_world world;
strait_window window;
strait_group everyone;
#else
MPI_Win window;
#endif

static _Atomic uint64_t *line;
static uint64_t line_turns;
static int batches;
static regex_t *selection;

double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

// Raises the priority as far as the system allows, since other load on the machine disturbs the
// peers unequally. Where each rank has a processor of its own, it runs at real-time priority, which
// no other program of the machine interrupts. Ranks that take turns do not: a rank that polls
// would keep out those that it waits for. Linux schedules by session first, so without real time
// the session's priority matters too.
static void raise_priority(void) {
  struct sched_param real_time = {.sched_priority = REAL_TIME};
  if (ranks <= sysconf(_SC_NPROCESSORS_ONLN) && !sched_setscheduler(0, SCHED_FIFO, &real_time))
    return;
  int session = open("/proc/self/autogroup", O_WRONLY);
  if (session >= 0) {
    ssize_t ignored = write(session, "-20", 3);
    (void)ignored;
    close(session);
  }
  setpriority(PRIO_PROCESS, 0, -20);
}

static void bind_to_processor(void) {
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET((size_t)rank % (size_t)sysconf(_SC_NPROCESSORS_ONLN), &own);
  sched_setaffinity(0, sizeof own, &own);
}

static void *anonymous(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    perror("patterns: memory");
    exit(1);
  }
  memset(memory, 1, bytes);
  return memory;
}

static void map_line(const char *path) {
  // More ranks than processors take turns, so a line tells nothing.
  int file = path && ranks == 2 ? open(path, O_RDWR) : -1;
  if (file >= 0) {
    void *memory = mmap(NULL, LINE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    line = memory == MAP_FAILED ? NULL : memory;
    close(file);
  }
  if (line && rank == 0)
    atomic_store(line, 0);
}

void harness_start(const struct options *options, size_t bytes) {
  static regex_t compiled;
  batches = options->batches > BATCHES_MAX ? BATCHES_MAX : options->batches;
  if (options->rows && !regcomp(&compiled, options->rows, REG_EXTENDED | REG_NOSUB))
    selection = &compiled;
  raise_priority();
  bind_to_processor();
  buffer_bytes = bytes;
  out = anonymous(bytes);
  in = anonymous(bytes);
  map_line(options->line_file);
  barrier();
}

double bare_line(void) {
  if (!line || rank > 1)
    return 0;
  double start = now();
  for (int i = 0; i < LINE_ROUNDS; i++) {
    line_turns += 2;
    uint64_t mine = line_turns - (rank == 0), theirs = line_turns - (rank == 1);
    if (rank == 0)
      atomic_store_explicit(line, mine, memory_order_release);
    while (atomic_load_explicit(line, memory_order_acquire) != theirs) {
    }
    if (rank == 1)
      atomic_store_explicit(line, mine, memory_order_release);
  }
  return (now() - start) / (2 * LINE_ROUNDS);
}

int is_selected(const char *name) {
  return !selection || regexec(selection, name, 0, NULL, 0) == 0;
}

void measure_rows(const struct row *rows, int count) {
  for (const struct row *row = rows; row < rows + count; row++) {
    double values[BATCHES_MAX][3];
    if (!is_selected(row->name))
      continue;
    barrier();
    for (int k = -WARM_UP; k < batches; k++) {
      barrier();
      double before = bare_line();
      double time = row->batch(row->bytes, row->count);
      double after = bare_line();
      if (k >= 0) {
        values[k][0] = time / row->count / row->parts;
        values[k][1] = before;
        values[k][2] = after;
      }
    }
    print_row(row->name, row->bytes, "ns", batches, values);
  }
}

void print_row(const char *name, size_t bytes, const char *unit, int count,
               double (*values)[3]) {
  if (rank != 0)
    return;
  printf("row %s %zu %s", name, bytes, unit);
  for (int k = 0; k < count; k++)
    printf(" %.2f,%.1f,%.1f", values[k][0], values[k][1], values[k][2]);
  printf("\n");
  fflush(stdout);
}

void compute(double nanoseconds) {
  volatile double x = 1;
  for (double end = now() + nanoseconds; now() < end;)
    for (int i = 0; i < 20; i++)
      x = x * 1.0000001 + 1e-9;
}

static int by_value(const void *one, const void *other) {
  double a = *(const double *)one, b = *(const double *)other;
  return (a > b) - (a < b);
}

double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, by_value);
  return values[count / 2];
}
